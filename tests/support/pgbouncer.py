"""A real PgBouncer in transaction mode between a store and its server.

Debian's package `pgbouncer` brings the program. Where it is missing its tests skip, loudly; CI
installs it.
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.support.postgres import ATTEMPTS_TO_FIND_A_PORT, GUARD, as_a_plain_user, free_port

PATIENCE_SECONDS = 20.0
_CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={server}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = 3
unix_socket_dir =
logfile = {folder}/log
pidfile = {folder}/pid
"""


@contextmanager
def pooled(url: str) -> Iterator[str]:
    """The address of the same database, behind a pooler with three connections."""
    program = shutil.which("pgbouncer") or shutil.which(
        "pgbouncer", path="/usr/sbin:/usr/local/sbin"
    )
    if program is None:
        pytest.skip("pgbouncer is not installed: apt-get install pgbouncer")
    server = urlsplit(url).port or 5432
    for _ in range(ATTEMPTS_TO_FIND_A_PORT):
        port = free_port()
        with _process(program, server, port) as process:
            address = url.replace(f":{server}/", f":{port}/")
            if _is_up(address, process):
                yield address
                return
    raise RuntimeError("pgbouncer did not start")


@contextmanager
def _process(program: str, server: int, port: int) -> "Iterator[subprocess.Popen[bytes]]":
    """The pooler's process, and beside it the guard that stops it should we be killed."""
    folder = Path(tempfile.mkdtemp(prefix="seawall-pgbouncer-"))
    (folder / "users").write_text('"postgres" ""\n')
    file = folder / "pgbouncer.ini"
    file.write_text(_CONFIGURATION.format(folder=folder, server=server, port=port))
    plain_user = as_a_plain_user()  # PgBouncer, too, refuses to run as root
    for path in (folder, *folder.iterdir()) if plain_user else ():
        shutil.chown(path, plain_user["user"])
    apart = {"cwd": folder, "start_new_session": True, **plain_user}
    process = subprocess.Popen([program, "-q", file], stderr=subprocess.DEVNULL, **apart)
    guard = subprocess.Popen(
        ["/bin/sh", "-c", GUARD, "guard", str(process.pid), folder],
        stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, **apart,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        guard.kill()
        guard.communicate()
        shutil.rmtree(folder, ignore_errors=True)


def _is_up(address: str, process: "subprocess.Popen[bytes]") -> bool:
    """Wait until it answers; false when it gave up, as it does when the port was taken meanwhile."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            psycopg.connect(address).close()
        except psycopg.OperationalError:
            time.sleep(0.02)
        else:
            return process.poll() is None
    return False
