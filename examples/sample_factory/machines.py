"""Three machines for workers: network namespaces on one bridge, where the database and the provider
listen. Needs root and `ip`.
"""

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

MACHINES = 3


class NoMachinesError(Exception):
    """They cannot be made here; the message says why."""


class Machines:
    """A network of its own: this side's address, and what starts a program on each machine."""

    def __init__(self) -> None:
        number = uuid.uuid4()
        name = f"sf{number.hex[:7]}"
        self._bridge = f"{name}b"
        self._names = [f"{name}{at}" for at in range(MACHINES)]
        self.network = f"10.{100 + number.bytes[14] % 100}.{number.bytes[15]}"
        self.address = f"{self.network}.1"

    @property
    def prefixes(self) -> list[list[str]]:
        return [["ip", "netns", "exec", name] for name in self._names]

    def set_up(self) -> None:
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("addr", "add", f"{self.address}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for at, name in enumerate(self._names):
            _ip("netns", "add", name)
            _ip("link", "add", f"{name}w", "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", f"{name}w", "master", self._bridge, "up")
            _ip("-n", name, "addr", "add", f"{self.network}.{10 + at}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")

    def cut(self, at: int) -> None:
        """Pull the plug of one of them: it hears nobody, and nobody hears it."""
        _ip("link", "set", f"{self._names[at]}w", "down")

    def mend(self, at: int) -> None:
        _ip("link", "set", f"{self._names[at]}w", "up")

    def take_down(self) -> None:
        for name in self._names:
            with suppress(subprocess.CalledProcessError):  # its wire goes with it
                _ip("netns", "del", name)
        with suppress(subprocess.CalledProcessError):
            _ip("link", "del", self._bridge)


@contextmanager
def machines() -> Iterator[Machines]:
    """They are there until the end of the block; `NoMachinesError` where they cannot be made."""
    if os.geteuid() != 0:
        raise NoMachinesError("network namespaces need root")
    if shutil.which("ip") is None:
        raise NoMachinesError("network namespaces need `ip`: apt-get install iproute2")
    made = Machines()
    try:
        try:
            made.set_up()
        except subprocess.CalledProcessError as error:
            why = error.stderr.decode(errors="replace").strip()[:200]
            raise NoMachinesError(f"there are no network namespaces here: {why}") from None
        yield made
    finally:
        made.take_down()


def _ip(*words: str) -> None:
    command = [shutil.which("ip") or "ip", *words]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
