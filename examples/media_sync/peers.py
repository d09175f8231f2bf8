"""The processes that the story needs: started on loopback, ended by their own ids."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx2

PATIENCE_SECONDS = 60.0


def free_port() -> int:
    """A port that nobody listens on, a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(happened: Callable[[], bool], what: str) -> None:
    """Return when it has happened."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE_SECONDS:g} s: {what}")
        time.sleep(0.1)


class Peers:
    """Everything that was started; at the end of the block none of it runs."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.folder = folder
        self.environ = {**os.environ, **environ}
        self._started = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._started.__exit__(kind, error, traceback)

    def start(self, name: str, *words: str, health: str | None = None) -> "subprocess.Popen[bytes]":
        """Start `python -m …`; where it has a place that tells its health, return when it is up."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *words],
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._started.callback(_end, process)
        if health is not None:
            until(lambda: process.poll() is not None or _is_up(health), f"{name} is up")
            if process.poll() is not None:
                raise RuntimeError(f"{name} did not start: see {self.folder / name}.log")
        return process

    def run(self, *words: str) -> str:
        """What `python -m …` prints."""
        done = subprocess.run(
            [sys.executable, "-m", *words],
            env=self.environ,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout


def _is_up(health: str) -> bool:
    try:
        return httpx2.get(health, timeout=5).is_success
    except httpx2.TransportError:
        return False


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
