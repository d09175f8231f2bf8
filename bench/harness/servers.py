"""Where queues keep their jobs: one PostgreSQL, files, one Redis, all of them for this run only."""

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import psycopg
from stores import DURABLE

from tests.support import postgres

POSTGRES = "18"
REDIS_SECONDS = 10


@contextmanager
def running(backends: set[str]) -> Iterator[dict[str, Callable[[], str]]]:
    """For each backend a function that gives the address of an empty store, the only one.

    SIGTERM ends the run as Ctrl-C does: nothing that was started is left behind.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to stop"))
    with ExitStack() as stack:
        makers = {"postgres": _postgres, "sqlite": _files, "redis": _redis}
        yield {name: stack.enter_context(makers[name]()) for name in sorted(backends)}


def has_redis() -> bool:
    return shutil.which("redis-server") is not None


@contextmanager
def _postgres() -> Iterator[Callable[[], str]]:
    """The store before is dropped, so that nobody vacuums it while the next is measured."""
    with (
        postgres.running(postgres.binaries(POSTGRES), **DURABLE) as server,
        psycopg.connect(server.dsn(), autocommit=True) as connection,
    ):
        urls: list[str] = []

        def emptied() -> str:
            if urls:
                name = urls.pop().rpartition("/")[2]
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
            urls.append(server.new_url())
            return urls[0]

        yield emptied


@contextmanager
def _files() -> Iterator[Callable[[], str]]:
    numbers = count()
    with tempfile.TemporaryDirectory(prefix="seawall-bench-") as folder:

        def emptied() -> str:
            for path in Path(folder).iterdir():
                path.unlink()
            return f"sqlite:///{folder}/{next(numbers)}.db"

        yield emptied


@contextmanager
def _redis() -> Iterator[Callable[[], str]]:
    """As these queues are usually run: in memory only."""
    port = postgres.free_port()
    server = subprocess.Popen(  # noqa: S603 - what `has_redis` found
        [str(shutil.which("redis-server")), "--port", str(port), "--bind", "127.0.0.1",
         "--save", "", "--appendonly", "no"],
        stdout=subprocess.DEVNULL, start_new_session=True, cwd=tempfile.gettempdir(),
    )  # fmt: skip
    try:
        _wait_for(port)

        def emptied() -> str:
            with socket.create_connection(("127.0.0.1", port), timeout=REDIS_SECONDS) as wire:
                wire.sendall(b"FLUSHALL\r\n")
                assert wire.recv(64).startswith(b"+OK")
            return f"redis://127.0.0.1:{port}/0"

        yield emptied
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(REDIS_SECONDS)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + REDIS_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def postgres_version() -> str:
    command = [Path(postgres.binaries(POSTGRES)) / "postgres", "--version"]
    return subprocess.check_output(command, text=True).split()[-1]  # noqa: S603 - the wheel's
