"""Words for the tests of upstreams: fleets of worker processes, and what people see meanwhile."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from seawall import Seawall, UpstreamView
from seawall.states import State
from seawall.store import Filter, Store
from seawall.tasks import Request
from tests.crash.effects_audit import Books
from tests.life import world as life
from tests.upstreams.server import Server, Service

PATIENCE_SECONDS = 120.0
LEASE_SECONDS = 5.0
"""Longer than this machine keeps anybody waiting; the tests that kill choose a shorter one."""
LOOK_SECONDS = 0.03
_SETTINGS = {"lease_seconds", "grace_seconds", "poll_seconds", "timeout_seconds"}


def eventually(look: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
    return life.eventually(look, seconds)


# --- workers --------------------------------------------------------------------------------------


class Process(life.Process):
    """A worker process that calls the server at `calls`."""

    def __init__(self, fleet: "Fleet", number: int, calls: str, how: dict[str, Any]) -> None:
        self.log = fleet.folder / f"worker-{number}.log"
        self._errors = fleet.folder / f"worker-{number}.err"
        given = {f"SEAWALL_{name.upper()}": str(how.pop(name)) for name in _SETTINGS & how.keys()}
        environ = {
            **os.environ,
            "SEAWALL_URL": fleet.url,
            "UPSTREAM_URL": calls,
            # Four at a time: the first compiles for the others, whatever is usual here.
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(fleet.folder.parent / "bytecode"),
            **given,
        }
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.upstreams.worker", self.log, json.dumps(how)],
                stdin=subprocess.PIPE,
                stderr=errors,
                cwd=life.ROOT,
                env=environ,
            )
        self.pid = self._process.pid


class Fleet:
    """Worker processes on one store, which call one server."""

    def __init__(self, url: str, folder: Path, server: Server) -> None:
        self.url = url
        self.folder = folder
        self.server = server
        self.everyone: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.everyone:
            process.kill()

    def stand_by(self, *, calls: str | None = None, **how: Any) -> Process:
        """One that waits to be told to begin."""
        how.setdefault("lease_seconds", LEASE_SECONDS)
        how.setdefault("poll_seconds", 0.2)
        process = Process(self, len(self.everyone), calls or self.server.url, how)
        self.everyone.append(process)
        return process

    def start(self, many: int, **how: Any) -> list[Process]:
        """So many that are at work."""
        hired = [self.stand_by(**how) for _ in range(many)]
        for process in hired:
            process.begin()
        for process in hired:
            process.await_("worker_started")
        return hired

    def said(self, event: str) -> list[dict[str, Any]]:
        return [said for process in self.everyone for said in process.said(event)]


# --- what people see ------------------------------------------------------------------------------


class Glimpse(NamedTuple):
    """What `app.upstreams` said of one between two moments."""

    asked: float
    answered: float
    phase: str
    reason: str


class Watch:
    """Somebody who asks for one upstream's phase again and again, and has heard of no other."""

    def __init__(self, app: Seawall, name: str) -> None:
        self._app = Seawall(app.settings.url)
        self._app.upstream(app.upstreams.of(name))
        self._name = name
        self._seen: list[Glimpse] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch")
        self._broke: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._app.close()
        if self._broke is not None:
            raise self._broke

    def _run(self) -> None:
        try:
            while not self._over.wait(LOOK_SECONDS):
                self._look()
        except Exception as error:
            self._broke = error

    def _look(self) -> None:
        asked = time.monotonic()
        shown = upstream(self._app, self._name)
        self._seen.append(Glimpse(asked, time.monotonic(), shown.phase, shown.reason))

    @property
    def seen(self) -> list[Glimpse]:
        return list(self._seen)

    def phases(self) -> list[str]:
        """One after the other, each said once."""
        found: list[str] = []
        for glimpse in self.seen:
            if not found or found[-1] != glimpse.phase:
                found.append(glimpse.phase)
        return found

    def spans(self, phase: str) -> Iterator[tuple[float, float]]:
        """From the first to the last answer of each time that it was seen to be so, and no other.

        What happened between was certainly within the phase, unless another came and went unseen.
        """
        span: list[Glimpse] = []
        for glimpse in [*self.seen, None]:
            if glimpse is not None and glimpse.phase == phase:
                span.append(glimpse)
            elif span:
                yield span[0].answered, span[-1].asked
                span = []

    def await_(self, phase: str) -> Glimpse:
        """Wait until it is seen to be so from now on."""
        start = len(self._seen)

        def look() -> Glimpse | None:
            if self._broke is not None:
                raise self._broke
            return next((glimpse for glimpse in self._seen[start:] if glimpse.phase == phase), None)

        found = eventually(look)
        assert isinstance(found, Glimpse)
        return found


def upstream(app: Seawall, name: str) -> UpstreamView:
    """What people are shown of it."""
    return app.upstreams.get(name)


# --- jobs -----------------------------------------------------------------------------------------


class Stream:
    """Somebody who asks for a few jobs again and again."""

    def __init__(
        self, store: Store, request: Callable[[], Request[Any]], per_second: float
    ) -> None:
        self._store = store
        self._request = request
        self._per_second = per_second
        self._ids: list[int] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stream")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> list[int]:
        """Ask for no more; what was asked for."""
        self._over.set()
        self._thread.join()
        return self._ids

    def _run(self) -> None:
        began = time.monotonic()
        while not self._over.wait(0.05):
            due = int((time.monotonic() - began) * self._per_second) - len(self._ids)
            if due > 0:
                asked = [self._request() for _ in range(min(due, 100))]
                self._ids += life.enqueued(self._store, *asked)


def enqueued(store: Store, *requests: Request[Any]) -> list[int]:
    found: list[int] = []
    for start in range(0, len(requests), 500):
        found += life.enqueued(store, *requests[start : start + 500])
    return found


def unfinished(store: Store) -> int:
    counts = store.counts()
    return counts[State.QUEUED] + counts[State.RUNNING]


def await_all_done(store: Store) -> None:
    eventually(lambda: unfinished(store) == 0)


def all_succeeded(store: Store, url: str, job_ids: Sequence[int]) -> Books:
    """Each of these, and no other, has ended once, and well; the books for more questions."""
    assert store.verify().violations == ()
    assert [job.id for job in store.page(Filter(state=State.FAILED))] == []
    books = Books(url, [])
    books.nothing_is_lost(set(job_ids))
    for job in books.jobs.values():
        outcomes = [attempt.outcome for attempt in books.history[job.id]]
        assert job.state == "succeeded", job
        assert outcomes.count("succeeded") == 1, f"{job}: {outcomes}"
        assert outcomes[-1] == "succeeded", f"{job}: {outcomes}"
    return books


def charged(books: Books) -> dict[int, int]:
    """How many tries of each job were used up by failures, where any were."""
    found: dict[int, int] = {}
    for attempt in books.attempts:
        if attempt.counted and attempt.outcome in ("retried", "failed"):
            found[attempt.job] = found.get(attempt.job, 0) + 1
    return found


@contextmanager
def at_the_end(service: Service) -> Iterator[None]:
    """Say what the upstream saw where the block fails."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"{service.path} saw, by quarters of a second: {_told(service)}")
        raise


def _told(service: Service) -> str:
    """How many calls began in each quarter of a second, and how many of them ended well."""
    calls = service.calls()
    begun = Counter(int((call.begun - calls[0].begun) * 4) for call in calls)
    good = Counter(int((call.begun - calls[0].begun) * 4) for call in calls if call.succeeded)
    return " ".join(f"{at / 4:g}s:{good[at]}/{begun[at]}" for at in sorted(begun))
