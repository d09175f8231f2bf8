"""Outputs that are kept elsewhere: they flow on, come back, and are swept when nobody needs them."""

import os
import time
from pathlib import Path

import pytest

from seawall import ConfigurationError, FaultError, Seawall, current_job, stage
from seawall.artifacts import SPARED_SECONDS, reference_in
from seawall.testing import in_memory

LARGE = 2_000


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "artifacts"


@pytest.fixture
def app(folder):
    return Seawall("sqlite://", artifacts_url=f"file://{folder}", inline_bytes=1_000)


def files(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]


def pipeline(app, *more):
    def read(size: int) -> str:
        return "x" * size

    async def shout(text: str) -> str:
        return text.upper()

    return app.pipeline("texts", [read, shout, *more])


def test_a_large_output_is_kept_elsewhere_and_flows_on_and_comes_back(app, folder):
    def measure(text: str, item: int) -> list[int]:
        return [len(text), item]

    texts = pipeline(app, measure)
    with in_memory(app) as world:
        job = texts.enqueue(LARGE)
        world.drain()
        assert job.result() == [LARGE, LARGE]
        for at in (0, 1):
            kept = app.store.output(job.id, at)
            assert len(kept) < 200
            assert reference_in(kept).size == LARGE + 2
        assert app.store.output(job.id, 2) == f"[{LARGE},{LARGE}]"
    assert len(files(folder)) == 2


def test_a_large_result_comes_back_too(app):
    texts = pipeline(app)
    with in_memory(app) as world:
        job = texts.enqueue(LARGE)
        world.drain()
        assert job.result() == "X" * LARGE


def test_the_same_content_is_kept_once(app, folder):
    texts = pipeline(app)
    with in_memory(app) as world:
        for _ in range(3):
            texts.enqueue(LARGE)
        world.drain()
    assert len(files(folder)) == 2


def test_where_the_keeper_is_away_the_store_takes_it_and_nothing_is_done_again(app, folder):
    folder.write_text("a file, where a folder should be")
    calls = []

    @stage(policy="sample-stage")
    def note(text: str) -> int:
        calls.append(current_job().attempt)
        return len(text)

    texts = pipeline(app, note)
    with in_memory(app) as world:
        job = texts.enqueue(LARGE)
        world.drain()
        assert job.result() == LARGE
        assert app.store.output(job.id, 0) == f'"{"x" * LARGE}"'
    assert calls == [1]


def test_one_that_is_gone_is_the_items_own_fault_and_says_so(app, folder):
    def read(size: int) -> str:
        return "x" * size

    def measure(text: str) -> int:
        if current_job().seq == 2:
            for each in files(folder):
                each.unlink()
            raise FaultError("TIMEOUT", "once more")
        return len(text)

    texts = app.pipeline("texts", [read, stage(policy="ai-worker")(measure)])
    with in_memory(app) as world:
        job = texts.enqueue(LARGE)
        world.drain()
        assert job.job().last_fault.code == "NOT_FOUND"


def test_what_no_output_stands_for_is_swept_when_it_is_old_enough(app, folder):
    texts = pipeline(app)
    with in_memory(app) as world:
        job = texts.enqueue(LARGE)
        world.drain()
        lonely = app.artifacts.put(b"nobody's")
        world.clock.advance(time.time() - world.now.timestamp())
        assert app.sweep_artifacts().removed == 0, "all of them are young"
        for each in files(folder):
            old = time.time() - SPARED_SECONDS - 60
            os.utime(each, (old, old))
        assert app.sweep_artifacts(dry_run=True)[:2] == (3, 1)
        assert app.artifacts.exists(lonely)
        assert app.sweep_artifacts()[:2] == (3, 1)
        assert not app.artifacts.exists(lonely)
        assert job.result() == "X" * LARGE


def test_without_artifacts_there_is_nothing_to_sweep():
    app = Seawall("sqlite://")
    with in_memory(app), pytest.raises(ConfigurationError, match="artifacts_url"):
        app.sweep_artifacts()
