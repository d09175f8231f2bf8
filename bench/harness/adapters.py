"""Running adapters: a verb that answers, or workers that run until they are told to stop."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from harness.environments import PEERS, ROOT, interpreter, surroundings
from peers import meter

ANSWER_SECONDS = 180
STOP_SECONDS = 10
LOOK_SECONDS = 0.02
LOGS = ROOT / ".bench" / "logs"
_MEMORY = "/dev/shm"  # noqa: S108 - where meters cost no disk


Mark = tuple[float, int, float]
"""When a job ran, which one it was, and how long after it was sent, or 0."""


class NotMeasuredError(Exception):
    """What a queue cannot do, or did not do in time; its words go into the table."""


@dataclass(frozen=True)
class Queue:
    """A queue with an empty store of its own."""

    name: str
    url: str

    def ask(self, verb: str, **fields: Any) -> dict[str, Any]:
        with self._log() as log:
            try:
                done = subprocess.run(  # noqa: S603 - an adapter of this tree
                    self._command(verb, fields),
                    env=surroundings(),
                    stdout=subprocess.PIPE,
                    stderr=log,
                    timeout=ANSWER_SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise NotMeasuredError("timed out") from None
        if done.returncode:
            raise NotMeasuredError(f"failed to {verb}")
        answer = json.loads(done.stdout.splitlines()[-1])
        if "cannot" in answer:
            raise NotMeasuredError("–")
        return answer

    @contextmanager
    def working(self, processes: int, **fields: Any) -> Iterator["Crew"]:
        """So many worker processes, each in a session of its own, and what they marked."""
        crew = Crew(Path(tempfile.mkdtemp(prefix="seawall-meter-", dir=_memory())))
        try:
            for _ in range(processes):
                self._start(crew, fields)
            yield crew
        finally:
            _stop(crew.processes)
            shutil.rmtree(crew.folder)

    def _start(self, crew: "Crew", fields: dict[str, Any]) -> None:
        said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it goes with the crew
        with self._log() as log:
            process = subprocess.Popen(  # noqa: S603 - an adapter of this tree
                self._command("work", fields),
                env=surroundings(BENCH_METER=str(crew.folder)),
                stdout=said,
                stderr=log,
                start_new_session=True,
            )
        crew.processes.append(process)
        crew.said.append(said)

    def _command(self, verb: str, fields: dict[str, Any]) -> list[str | Path]:
        script = PEERS / f"{self.name}.py"
        return [interpreter(self.name), script, verb, json.dumps({"url": self.url, **fields})]

    @contextmanager
    def _log(self) -> Iterator[Any]:
        LOGS.mkdir(parents=True, exist_ok=True)
        with (LOGS / f"{self.name}.log").open("ab") as file:
            yield file


@dataclass(frozen=True)
class Crew:
    """Workers that run."""

    folder: Path
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    said: list[IO[str]] = field(default_factory=list)
    """What each of them printed, which is why it cannot, if it cannot."""

    def wait_for(self, jobs: int, seconds: float) -> None:
        """Until so many jobs have run."""
        deadline = time.monotonic() + seconds
        while meter.count(self.folder) < jobs:
            if any(each.poll() is not None for each in self.processes):
                raise NotMeasuredError("–" if self._cannot() else "a worker died")
            if time.monotonic() > deadline:
                raise NotMeasuredError("timed out")
            time.sleep(LOOK_SECONDS)

    def _cannot(self) -> bool:
        for each in self.said:
            each.seek(0)
        return any('"cannot"' in each.read() for each in self.said)

    def marks(self) -> dict[int, list[Mark]]:
        """What each process marked, by its id."""
        found = {int(path.name): meter.read(path) for path in self.folder.iterdir()}
        return {pid: marks for pid, marks in found.items() if marks}

    def cpu_seconds(self) -> float:
        """What the workers and all their children have used so far."""
        sessions = {each.pid for each in self.processes}
        return sum(_cpu(path, sessions) for path in Path("/proc").glob("[0-9]*/stat"))


def _cpu(path: Path, sessions: set[int]) -> float:
    try:
        words = path.read_text().rpartition(")")[2].split()
    except OSError:  # it ended meanwhile
        return 0.0
    user, system = int(words[11]), int(words[12])
    return (user + system) / os.sysconf("SC_CLK_TCK") if int(words[3]) in sessions else 0.0


def _stop(processes: list["subprocess.Popen[bytes]"]) -> None:
    """Ask each to end; what does not is killed, with all that it started and left behind."""
    for each in processes:
        each.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    for each in processes:
        try:
            each.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            each.kill()
        with suppress(ProcessLookupError):
            os.killpg(each.pid, signal.SIGKILL)
        each.wait()


def _memory() -> str | None:
    return _MEMORY if Path(_MEMORY).is_dir() else None
