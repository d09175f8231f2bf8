"""A PostgreSQL of a test's own, which it may stop and start again on the same port and data.

What was committed is there after a crash of the server: nothing is synced to disk, but the system
lives on, and commits wait for the log.
"""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from tests.support import postgres
from tests.support.postgres import Postgres, binaries, free_port

_EVERYONE = "host all all 0.0.0.0/0 trust\n"
_SETTINGS = {**postgres._SETTINGS, "synchronous_commit": "on"}


class OwnPostgres:
    """One server that comes and goes."""

    def __init__(self, version: str, folder: Path, settings: dict[str, str]) -> None:
        self._binaries = binaries(version)
        self._folder = folder
        self._settings = settings
        self._running = ExitStack()
        self.port = free_port()
        postgres._initialise(self._binaries, folder)
        (folder / "data" / "pg_hba.conf").write_text(_EVERYONE)

    def start(self) -> None:
        self._process = self._running.enter_context(
            postgres._process(self._binaries, self._folder, self.port, self._settings)
        )
        up = postgres._is_up(self._process, self._folder, self.port)
        assert up, (self._folder / "log").read_text()[-2_000:]

    def stop(self, how: signal.Signals) -> None:
        """SIGINT is a fast stop, SIGQUIT an immediate one, like a crash."""
        self._process.send_signal(how)
        self._process.wait(timeout=postgres.PATIENCE_SECONDS)
        self._running.close()

    def new_url(self, host: str = "127.0.0.1") -> str:
        with psycopg.connect(Postgres(self.port).dsn(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE jobs")
        return self.url(host)

    def url(self, host: str = "127.0.0.1") -> str:
        return f"postgresql://postgres@{host}:{self.port}/jobs"

    def close(self) -> None:
        self._running.close()


@contextmanager
def own_postgres(version: str, **settings: str) -> Iterator[OwnPostgres]:
    folder = Path(tempfile.mkdtemp(prefix="seawall-postgres-"))
    try:
        server = OwnPostgres(version, folder, {**_SETTINGS, **settings})
        try:
            server.start()
            yield server
        finally:
            server.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
