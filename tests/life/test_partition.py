"""Two workers on machines of their own, and a cut wire between one of them and PostgreSQL.

The machines are network namespaces, each with a wire to the server's. A partitioned worker does
not know that it is: it goes on with what it has, and what it says when the wire is mended must not
count. Needs root and `ip`.
"""

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest

from seawall.states import State
from seawall.store import open_store
from tests.life import tasks
from tests.life.own_postgres import own_postgres
from tests.life.world import Crew, Effects, await_state, enqueued, eventually, jobs, outcomes


def ip(*words: str) -> None:
    command = [shutil.which("ip") or "ip", *words]
    subprocess.run(command, check=True, capture_output=True, timeout=30)


class Machine:
    """A network namespace with one wire to ours."""

    def __init__(self) -> None:
        number = uuid.uuid4()
        self.name = f"sw{number.hex[:8]}"
        self._wire = f"{self.name}w"
        network = f"10.{100 + number.bytes[0] % 100}.{number.bytes[1]}"
        self.server = f"{network}.1"
        self.address = f"{network}.2"

    def set_up(self) -> None:
        ip("netns", "add", self.name)
        ip("link", "add", self._wire, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("addr", "add", f"{self.server}/24", "dev", self._wire)
        ip("link", "set", self._wire, "up")
        ip("-n", self.name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        ip("-n", self.name, "link", "set", "eth0", "up")
        ip("-n", self.name, "link", "set", "lo", "up")

    @property
    def prefix(self) -> list[str]:
        """What starts a program there; it keeps its process id."""
        return ["ip", "netns", "exec", self.name]

    def cut(self, how: str) -> None:
        """Neither way, or so that it is heard but hears nothing."""
        if how == "both ways":
            ip("link", "set", self._wire, "down")
        else:
            ip("route", "add", "blackhole", f"{self.address}/32")

    def mend(self, how: str) -> None:
        if how == "both ways":
            ip("link", "set", self._wire, "up")
        else:
            ip("route", "del", "blackhole", f"{self.address}/32")

    def take_down(self) -> None:
        with suppress(subprocess.CalledProcessError):  # where a test ended before it was mended
            self.mend("one way")
        with suppress(subprocess.CalledProcessError):  # its wire goes with it
            ip("netns", "del", self.name)
        with suppress(subprocess.CalledProcessError):  # unless that was never made
            ip("link", "del", self._wire)


def cannot(why: str) -> NoReturn:
    """Where the machine lacks what it takes, say so; where CI has seen to it, that is a failure."""
    if "SEAWALL_MUST_PARTITION" in os.environ:
        pytest.fail(why)
    pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture
def machines() -> Iterator[list[Machine]]:
    if os.geteuid() != 0:
        cannot("a partition needs root, to make network namespaces")
    if shutil.which("ip") is None:
        cannot("a partition needs `ip`: apt-get install iproute2")
    made = [Machine(), Machine()]
    try:
        try:
            for each in made:
                each.set_up()
        except subprocess.CalledProcessError as error:
            cannot(f"no network namespaces here: {error.stderr.decode()[:200]}")
        yield made
    finally:
        for each in made:
            each.take_down()


@pytest.mark.usefixtures("postgres_fleet")
@pytest.mark.parametrize("how", ["both ways", "one way"])
def test_what_a_partitioned_worker_says_after_its_lease_does_not_count(
    tmp_path: Path, machines: list[Machine], how: str
):
    effects = Effects(tmp_path / "effects")
    near, far = machines
    addresses = f"127.0.0.1,{near.server},{far.server}"
    with own_postgres("18", listen_addresses=addresses) as server:
        url = server.new_url()
        with open_store(url) as store, Crew(url, tmp_path, effects) as crew:
            lost = enqueued(store, *[tasks.slow.job(1.5)] * 3, *[tasks.slow_plain.job(1.5)] * 3)
            cut_off = crew.start(
                prefix=far.prefix, url=server.url(far.server), concurrency=8, lease_seconds=1.0
            )
            effects.await_("began", lost)
            far.cut(how)
            other = crew.start(
                prefix=near.prefix, url=server.url(near.server), concurrency=8, lease_seconds=1.0
            )
            await_state(store, State.SUCCEEDED, *lost)
            # It did not know, and has done all of it too.
            eventually(lambda: len([e for e in effects.all("ended") if _of(e, cut_off)]) == 6)
            before = jobs(store, lost)
            far.mend(how)
            eventually(lambda: {each["job"] for each in cut_off.said("lease_lost")} == set(lost))
            assert jobs(store, lost) == before, "it was heard after all"
            for each in lost:
                assert outcomes(store, each) == ["lost", "succeeded"]
                assert [a.worker for a in store.attempts(each)] == [cut_off.id, other.id]

            assert other.terminate() == 0
            more = enqueued(store, *[tasks.work.job() for _ in range(10)])
            await_state(store, State.SUCCEEDED, *more)
            assert {a.worker for each in more for a in store.attempts(each)} == {cut_off.id}
            children = len(lost)
            eventually(lambda: store.counts()[State.SUCCEEDED] == 2 * children + len(more))
            verification = store.verify()
            assert verification.violations == ()
            assert verification.entered == 2 * children + len(more)
            assert cut_off.terminate() == 0, cut_off.errors()


def _of(effect, worker) -> bool:
    return effect.worker_pid == worker.pid
