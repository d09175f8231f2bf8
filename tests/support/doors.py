"""What the tests of the doors share: an application to write down, commands that keep running."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

PATIENCE_SECONDS = 40.0

TASKS = """
import asyncio
import os
import time
from pathlib import Path

from seawall import FaultError, Seawall, Skip

app = Seawall({url!r})


@app.task
def add(a: int, b: int = 2) -> int:
    return a + b


@app.task
def fails(what: str = "it") -> None:
    raise FaultError("INVALID_INPUT", f"cannot do {{what}}", raw_output="<html>teapot</html>")


@app.task
def skips() -> None:
    raise Skip("nothing to do")


@app.task(queue="slow", timeout_seconds=60)
async def slow(mark: str = "", seconds: float = 30.0) -> str:
    if mark:
        Path(mark).touch()
    await asyncio.sleep(seconds)
    return "slept"
"""


def until(holds, what, *, seconds=PATIENCE_SECONDS):
    """Ask again and again until it holds; what it answered."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := holds():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")


class Started:
    """A command that runs beside the test."""

    def __init__(self, words, folder, number):
        self.log = folder / f"stderr-{number}"
        environ = {**os.environ, "NO_COLOR": "1", "SEAWALL_POLL_SECONDS": "0.1"}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "seawall", *map(str, words)],
                cwd=folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    @property
    def said(self):
        return self.log.read_text("utf-8")

    def says(self, words, times=1):
        """Wait until it has said this so often; one that has ended says nothing more."""

        def said():
            over = self.process.poll() is not None
            found = self.said.count(words) >= times
            assert found or not over, f"ended without {words!r}: {self.said}"
            return found

        until(said, f"{words!r} {times}× in: {self.log}")

    def tell(self, number):
        self.process.send_signal(number)

    def ended(self):
        try:
            return self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it goes on: {self.said}") from None


def is_alive(pid):
    """Whether a process runs; one that is dead and not yet collected does not."""
    with suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
        return state != "Z"
    return False
