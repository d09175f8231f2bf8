"""Words for the tests of whole workers: processes, threads, what they say, what they leave."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from seawall import Seawall, Worker
from seawall.model import Job, Outcome
from seawall.states import State
from seawall.store import Store
from seawall.tasks import Request

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 40.0
T = TypeVar("T")


def eventually(look: Callable[[], T], seconds: float = PATIENCE_SECONDS) -> T:
    """What `look` answers as soon as that is true."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"not in {seconds} s: {look}"
        time.sleep(0.05)
    return found


# --- what handlers leave ------------------------------------------------------------------------


class Effect(NamedTuple):
    """A line that a handler left outside the store."""

    what: str
    job: int
    seq: int
    worker_pid: int
    pid: int
    """Another one where the handler has a process of its own."""


class Effects:
    """The lines of every handler, in the order of their writing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: list[Effect] = []
        self._at = 0

    def all(self, what: str | None = None, job: int | None = None) -> list[Effect]:
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._at)
                news = file.read().rpartition(b"\n")
            self._at += len(news[0] + news[1])
            self._read += [_effect(line) for line in news[0].decode().splitlines()]
        return [e for e in self._read if what in (None, e.what) and job in (None, e.job)]

    def jobs(self, what: str) -> Counter[int]:
        return Counter(effect.job for effect in self.all(what))

    def await_(self, what: str, job_ids: Iterable[int]) -> list[Effect]:
        """Wait until each of these jobs has left this; what they left."""
        wanted = set(job_ids)
        eventually(lambda: wanted <= set(self.jobs(what)))
        return [effect for effect in self.all(what) if effect.job in wanted]


def _effect(line: str) -> Effect:
    what, *numbers = line.split(" ")
    return Effect(what, *map(int, numbers))


# --- processes ----------------------------------------------------------------------------------


class Process:
    """A worker in a process of its own."""

    def __init__(self, crew: "Crew", number: int, prefix: list[str], url: str, how: Any) -> None:
        self.log = crew.folder / f"worker-{number}.log"
        self._errors = crew.folder / f"worker-{number}.err"
        given = {f"SEAWALL_{name.upper()}": str(how.pop(name)) for name in _SETTINGS & how.keys()}
        environ = {
            **os.environ,
            "SEAWALL_URL": url,
            "LIFE_EFFECTS": str(crew.effects.path),
            **how.pop("environ", {}),
            **given,
        }
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "tests.life.worker", self.log, json.dumps(how)],
                stdin=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env=environ,
            )
        self.pid = self._process.pid

    def begin(self) -> Self:
        assert self._process.stdin is not None
        self._process.stdin.write(b"begin\n")
        self._process.stdin.flush()
        return self

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def errors(self) -> str:
        return self._errors.read_text()

    def said(self, event: str) -> list[dict[str, Any]]:
        """Every such event that it has said."""
        if not self.log.exists():
            return []
        *whole, _ = self.log.read_text().split("\n")
        return [line for line in map(json.loads, whole) if line["event"] == event]

    def await_(self, event: str) -> dict[str, Any]:
        """The first such event, once it is said."""

        def look() -> list[dict[str, Any]]:
            found = self.said(event)
            assert found or self.is_alive, f"it ended: {self.errors()[-3_000:]}"
            return found

        return eventually(look)[0]

    @property
    def id(self) -> str:
        return str(self.await_("worker_started")["worker"])

    def kill(self) -> None:
        """As the system does when it runs out of memory: nothing more is done or said."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Its exit code."""
        return self._process.wait(seconds)

    def terminate(self) -> int:
        self.send(signal.SIGTERM)
        return self.wait()


_SETTINGS = {"lease_seconds", "grace_seconds", "poll_seconds", "timeout_seconds"}


class Crew:
    """Worker processes on one store."""

    def __init__(self, url: str, folder: Path, effects: Effects) -> None:
        self.url = url
        self.folder = folder
        self.effects = effects
        self.everyone: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.everyone:
            process.kill()

    def stand_by(
        self, *, prefix: Iterable[str] = (), url: str | None = None, **how: Any
    ) -> Process:
        """One that waits to be told to begin."""
        how.setdefault("lease_seconds", 1.0)
        process = Process(self, len(self.everyone), list(prefix), url or self.url, how)
        self.everyone.append(process)
        return process

    def start(self, **how: Any) -> Process:
        """One that is at work."""
        process = self.stand_by(**how).begin()
        process.await_("worker_started")
        return process


def children_of(pid: int) -> dict[int, str]:
    """The processes that this one started, and when each began."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            words = _stat(int(entry.name))
            if words and int(words[1]) == pid:
                found[int(entry.name)] = words[19]
    return found


def begun_at(pids: Iterable[int]) -> dict[int, str]:
    """Those of them that run, and when each began."""
    return {pid: words[19] for pid in pids if (words := _stat(pid))}


def are_gone(children: dict[int, str]) -> bool:
    """Whether none of them runs any more: a number may be given to another process."""
    for pid, began in children.items():
        words = _stat(pid)
        if words and words[19] == began and words[0] not in "ZX":
            return False
    return True


def _stat(pid: int) -> list[str]:
    """State, parent … and, as the twentieth, the start."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


# --- threads ------------------------------------------------------------------------------------


class Says(logging.Handler):
    """What is said in this process."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._said: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(getattr(record, "seawall", {"event": record.getMessage()}))

    def __enter__(self) -> Self:
        logger = logging.getLogger("seawall")
        logger.addHandler(self)
        logger.setLevel(logging.DEBUG)
        return self

    def __exit__(self, *_: object) -> None:
        logger = logging.getLogger("seawall")
        logger.removeHandler(self)
        logger.setLevel(logging.NOTSET)

    def said(self, event: str) -> list[dict[str, Any]]:
        return [each for each in list(self._said) if each["event"] == event]

    def await_(self, event: str) -> dict[str, Any]:
        return eventually(lambda: self.said(event))[0]


class Hand:
    """A worker on a thread of this process."""

    def __init__(self, app: Seawall, **how: Any) -> None:
        self.worker = Worker(app, **how)
        self.clean: bool | None = None
        self._thread = threading.Thread(target=self._run, name="a worker of a test")
        self._thread.start()

    def _run(self) -> None:
        self.clean = self.worker.run()

    @property
    def is_at_work(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "the worker does not end"

    def stop(self) -> None:
        """Now, whatever runs."""
        if self._thread.is_alive():
            self.worker.stop()
            self.worker.stop()
            self.join()


# --- what the store says ------------------------------------------------------------------------


def enqueued(store: Store, *requests: Request[Any]) -> list[int]:
    """The ids of the jobs that are asked for."""
    answers = store.enqueue([request.new_job() for request in requests])
    return [answer.job_id for answer in answers if answer.job_id is not None]


def job(store: Store, job_id: int) -> Job:
    return store.jobs([job_id])[job_id]


def jobs(store: Store, job_ids: Iterable[int]) -> list[Job]:
    ids = list(job_ids)
    found: dict[int, Job] = {}
    for start in range(0, len(ids), 500):
        found |= store.jobs(ids[start : start + 500])
    return [found[each] for each in ids]


def states(store: Store, job_ids: Iterable[int]) -> Counter[State]:
    return Counter(each.state for each in jobs(store, job_ids))


def await_state(store: Store, state: State, *job_ids: int) -> list[Job]:
    """Wait until all of them stand there."""
    eventually(lambda: set(states(store, job_ids)) == {state})
    return jobs(store, job_ids)


def outcomes(store: Store, job_id: int) -> list[Outcome]:
    return [attempt.outcome for attempt in store.attempts(job_id)]
