"""A store that many processes can open, a provider, and worker processes between them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from seawall import Seawall
from seawall.store import Store, open_store
from tests.life import world as life

_SETTINGS = {"lease_seconds", "grace_seconds", "poll_seconds"}


@pytest.fixture(params=["file", "postgres18"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if kind == "file":
        return f"sqlite:///{tmp_path}/jobs.db"
    fleet = request.getfixturevalue("postgres_fleet")
    return str(fleet.server(kind.removeprefix("postgres")).new_url())


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """Opened by the test itself; whatever happened to it, its books must balance at the end."""
    with open_store(url) as opened:
        yield opened
        assert opened.verify().violations == ()


class Effect(NamedTuple):
    what: str
    job: int
    seq: int
    stage: int


class Process(life.Process):
    """A worker of `tests.runs.pipelines`."""

    def __init__(self, fleet: "Fleet", number: int, how: dict[str, Any]) -> None:
        self.log = fleet.folder / f"worker-{number}.log"
        self._errors = fleet.folder / f"worker-{number}.err"
        given = {f"SEAWALL_{name.upper()}": str(how.pop(name)) for name in _SETTINGS & how.keys()}
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.runs.worker", self.log, json.dumps(how)],
                stdin=subprocess.PIPE,
                stderr=errors,
                cwd=life.ROOT,
                env={**fleet.environ, **given},
            )
        self.pid = self._process.pid


class Fleet:
    """Worker processes on one store, and drivers that ask for runs."""

    def __init__(self, url: str, folder: Path) -> None:
        self.folder = folder
        self.effects_path = folder / "effects"
        self.mended = folder / "mended"
        self.environ = {
            **os.environ,
            "SEAWALL_URL": url,
            "RUN_EFFECTS": str(self.effects_path),
            "RUN_MENDED": str(self.mended),
            "LLM_URL": "",
        }
        self.everyone: list[Process] = []
        self.drivers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.everyone:
            process.kill()
        for driver in self.drivers:
            driver.kill()
            driver.wait()

    def start(self, many: int = 1, **how: Any) -> list[Process]:
        """So many that are at work."""
        how.setdefault("lease_seconds", 5.0)
        how.setdefault("poll_seconds", 0.2)
        hired = [Process(self, len(self.everyone) + at, dict(how)) for at in range(many)]
        self.everyone += hired
        for process in hired:
            process.begin()
        for process in hired:
            process.await_("worker_started")
        return hired

    def drive(self, pipeline: str, name: str, items: Path) -> "subprocess.Popen[bytes]":
        """Somebody who asks for a run."""
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.runs.driver", pipeline, name, str(items)],
            cwd=life.ROOT,
            env=self.environ,
            stdout=subprocess.DEVNULL,
        )
        self.drivers.append(driver)
        return driver

    def effects(self) -> list[Effect]:
        if not self.effects_path.exists():
            return []
        lines = [line.split(" ") for line in self.effects_path.read_text().splitlines()]
        return [Effect(what, *map(int, numbers)) for what, *numbers in lines]


@pytest.fixture
def fleet(url: str, store: Store, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(url, tmp_path) as hired:
        yield hired
    for process in hired.everyone:
        assert process.errors() == ""
        assert process.said("upkeep_failed") == []


@pytest.fixture
def app(url: str, store: Store) -> Iterator[Seawall]:
    """The workers' application, in this process: for people."""
    from tests.runs.pipelines import app

    app.configure(url=url)
    yield app
    app.close()
