"""Servers beside the tests: started on loopback, watched over, ended by their own process id."""

import http.client
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

PATIENCE_SECONDS = 60.0
ATTEMPTS_TO_FIND_PORTS = 5
_GUARD = """
cat > /dev/null
server="$1"
shift
kill -KILL "$server"
while kill -0 "$server"; do sleep 0.1; done
rm -rf "$@"
"""


def cannot(why: str) -> NoReturn:
    """Where the machine lacks what it takes, say so; in CI, which has it all, that is a failure."""
    if os.environ.get("CI"):
        pytest.fail(f"cannot be tested here, and CI must: {why}")
    pytest.skip(f"NOT TESTED: {why}")


def free_ports(count: int) -> list[int]:
    """So many different ports that nobody listens on, a moment ago."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def answers(port: int, path: str) -> bool:
    """Whether a server on loopback says there that it is well."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


@contextmanager
def server(
    command: list[str],
    is_up: Callable[[], bool],
    *,
    folder: Path,
    leaves: tuple[Path, ...] = (),
    environ: dict[str, str] | None = None,
) -> Iterator["subprocess.Popen[bytes] | None"]:
    """The server's process once it answers; None where it ended instead, its port being taken.

    It is killed in the end: what it would still write is in a folder that goes with it. Should the
    tests themselves be killed, a small shell sees its standard input end and does the same. What
    else it `leaves` behind is removed as well.
    """
    # In a session of their own: Ctrl-C ends the tests first, and the tests end the server.
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environ, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", str(process.pid), folder, *leaves],
            cwd="/", start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        yield process if _waited(process, is_up) else None
    finally:
        process.kill()
        process.wait()
        guard.kill()
        guard.communicate()
        for path in leaves:
            path.unlink(missing_ok=True)


def quick_to_start(folder: Path) -> dict[str, str]:
    """The environment in which one Python compiles for all others, whatever is usual here."""
    return {
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(folder.parent / "bytecode"),
    }


@contextmanager
def scratch(name: str) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=f"seawall-{name}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _waited(process: "subprocess.Popen[bytes]", is_up: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if is_up():
            return process.poll() is None
        time.sleep(0.05)
    return False
