"""The processes of the story: a provider and workers, each ended by its own number."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from examples.sample_factory.provider import KEY

ROOT = Path(__file__).parents[2]
APP = "examples.sample_factory.app:app"
LEASE_SECONDS = 5
"""How long samples of a worker that has vanished wait for another."""
LONGEST_SECONDS = 60


@contextmanager
def provider(host: str) -> Iterator[str]:
    """A provider on that address; its URL."""
    command = [sys.executable, "-m", "examples.sample_factory.provider", "--host", host]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


class Crew:
    """Worker processes on one store: here, or each on a machine of its own."""

    def __init__(
        self, urls: Sequence[str], provider_url: str, folder: Path, prefixes: Sequence[list[str]]
    ) -> None:
        self._urls = urls
        self._provider = provider_url
        self._log = folder / "workers.log"
        self._prefixes = prefixes
        self._workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, *, key: str = KEY, in_pieces: bool = False) -> None:
        """One on each machine; what they log is in the folder."""
        command = [
            *(sys.executable, "-m", "seawall", "worker", "--app", APP),
            *("--concurrency", "16", "--log-level", "warning"),
        ]
        settings = {
            "LLM_URL": self._provider,
            "EMBEDDER_URL": self._provider,
            "PROVIDER_KEY": key,
            "EMBED_IN_PIECES": "yes" if in_pieces else "no",
            "SEAWALL_LEASE_SECONDS": str(LEASE_SECONDS),
        }
        with self._log.open("ab") as log:
            self._workers = [
                subprocess.Popen(
                    [*prefix, *command],
                    cwd=ROOT,
                    env={**os.environ, **settings, "SEAWALL_URL": url},
                    stdout=log,
                    stderr=log,
                )
                for prefix, url in zip(self._prefixes, self._urls, strict=True)
            ]
        deadline = time.monotonic() + LONGEST_SECONDS
        while len(json.loads(say("workers", "--json"))) < len(self._workers):
            if time.monotonic() > deadline or any(
                each.poll() is not None for each in self._workers
            ):
                raise SystemExit(f"the workers do not start: {self._log.read_text('utf-8')[-500:]}")

    def stop(self) -> None:
        """Let each finish what it has in hand."""
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            try:
                worker.wait(LONGEST_SECONDS)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        self._workers = []


def say(*words: str) -> str:
    """Run a command of seawall, as one would by hand; what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "seawall", *words],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "150", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS * 3,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"seawall {shlex.join(words)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout
