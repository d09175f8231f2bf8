"""A real PgBouncer in transaction mode between a store and its server.

Debian's package `pgbouncer` brings the program. Where it is missing its tests skip, loudly; CI
installs it.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

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
    with tempfile.TemporaryDirectory(prefix="seawall-pgbouncer-") as folder:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        process = _started(program, Path(folder), urlsplit(url).port or 5432, port)
        try:
            address = url.replace(f":{urlsplit(url).port}/", f":{port}/")
            _wait_for(address, process)
            yield address
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _started(program: str, folder: Path, server: int, port: int) -> "subprocess.Popen[bytes]":
    (folder / "users").write_text('"postgres" ""\n')
    file = folder / "pgbouncer.ini"
    file.write_text(_CONFIGURATION.format(folder=folder, server=server, port=port))
    plain_user = {}
    if os.geteuid() == 0:  # PgBouncer, too, refuses to run as root
        plain_user = {"user": "nobody"}
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, "nobody")
    return subprocess.Popen([program, "-q", file], cwd=folder, **plain_user)


def _wait_for(address: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            psycopg.connect(address).close()
        except psycopg.OperationalError:
            assert process.poll() is None, "pgbouncer ended"
            assert time.monotonic() < deadline, "pgbouncer did not answer"
            time.sleep(0.02)
        else:
            return
