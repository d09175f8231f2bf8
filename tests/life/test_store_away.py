"""The store goes away under load and comes back: workers go on, and nothing is done twice."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from seawall.states import State
from seawall.store import Store, open_store
from tests.life import tasks
from tests.life.own_postgres import own_postgres
from tests.life.world import (
    Crew,
    Effects,
    await_state,
    enqueued,
    eventually,
    job,
    outcomes,
    states,
)

_LOCK = """
import sys, time, apsw
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(30_000)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
time.sleep(float(sys.argv[2]))
connection.execute("COMMIT")
"""
on_a_file = pytest.mark.parametrize("kind", ["file"], indirect=True)


def some(many: int):
    rng = random.Random()
    kinds = [tasks.work, tasks.plain]
    return [rng.choice(kinds).job(rng.uniform(0, 0.05)) for _ in range(many)]


def long_ones():
    return [*[tasks.slow.job(1.0)] * 3, *[tasks.slow_plain.job(1.0)] * 3]


@pytest.mark.usefixtures("postgres_fleet")
@pytest.mark.parametrize(
    ("version", "how"), [("18", signal.SIGINT), ("16", signal.SIGQUIT)], ids=["fast", "immediate"]
)
def test_postgresql_stops_and_starts_again_and_nothing_is_lost_or_done_twice(
    tmp_path: Path, version: str, how: signal.Signals
):
    effects = Effects(tmp_path / "effects")
    with own_postgres(version) as server:
        url = server.new_url()
        with open_store(url) as store, Crew(url, tmp_path, effects) as crew:
            lease = 6.0  # longer than the outage
            short = enqueued(store, *some(400))
            fleet = [crew.start(concurrency=8, lease_seconds=lease) for _ in range(2)]
            eventually(lambda: len(effects.jobs("ran")) > 50)
            # These end while nobody can be told.
            long = enqueued(store, *long_ones())
            effects.await_("began", long)
            server.stop(how)
            went = time.monotonic()
            effects.await_("ended", long)
            server.start()
            away = time.monotonic() - went
            await_state(store, State.SUCCEEDED, *short, *long)
            ran, began = effects.jobs("ran"), effects.jobs("began")
            assert set(short) <= ran.keys()
            if away < lease / 2:  # a machine may be slow
                assert {ran[each] for each in short} == {1}
                assert began == dict.fromkeys(long, 1)
            for each in long:
                assert outcomes(store, each)[-1] == "succeeded"
            # One child of each long one.
            eventually(lambda: store.counts()[State.SUCCEEDED] == len(short) + 2 * len(long))
            for each in fleet:
                assert len(each.said("store_away")) == len(each.said("store_back"))
                assert each.terminate() == 0, each.errors()
                assert ("Traceback" in each.errors(), each.said("upkeep_failed")) == (False, [])
            verification = store.verify()
            assert verification.violations == ()
            assert verification.entered == len(short) + 2 * len(long)


@pytest.mark.usefixtures("postgres_fleet")
def test_a_worker_says_that_its_store_is_away_and_that_it_is_back(tmp_path: Path):
    effects = Effects(tmp_path / "effects")
    with own_postgres("18") as server:
        url = server.new_url()
        with open_store(url), Crew(url, tmp_path, effects) as crew:
            worker = crew.start(poll_seconds=0.1)
            server.stop(signal.SIGINT)
            said = worker.await_("store_away")
            assert (said["worker"], said["unwritten"]) == (worker.id, 0)
            server.start()
            worker.await_("store_back")
            assert worker.terminate() == 0


@pytest.mark.usefixtures("postgres_fleet")
def test_a_worker_that_is_told_to_end_while_its_store_is_away_says_what_it_could_not_write(
    tmp_path: Path,
):
    effects = Effects(tmp_path / "effects")
    with own_postgres("18") as server:
        url = server.new_url()
        with open_store(url) as store, Crew(url, tmp_path, effects) as crew:
            (flying,) = enqueued(store, tasks.slow.job(1.0))
            worker = crew.start(
                grace_seconds=2, lease_seconds=1, environ={"LIFE_FLUSH_SECONDS": "2"}
            )
            effects.await_("began", [flying])
            server.stop(signal.SIGQUIT)
            effects.await_("ended", [flying])
            worker.send(signal.SIGTERM)
            assert worker.wait(60) == 3
            assert worker.said("not_written")[0]["jobs"] == 1
            server.start()
            other = crew.start(lease_seconds=1)
            await_state(store, State.SUCCEEDED, flying)
            assert outcomes(store, flying) == ["lost", "succeeded"]
            assert job(store, flying).tries == 1
            assert other.terminate() == 0


@on_a_file
@pytest.mark.parametrize("lease_seconds", [10.0, 1.0], ids=["a long lease", "a short lease"])
def test_a_file_that_another_process_has_locked_for_long_loses_nothing(
    store: Store, crew: Crew, effects: Effects, lease_seconds: float
):
    """With a lease that lasts, nothing is even done twice."""
    short = enqueued(store, *some(200))
    fleet = [crew.start(concurrency=8, lease_seconds=lease_seconds) for _ in range(2)]
    eventually(lambda: len(effects.jobs("ran")) > 20)
    long = enqueued(store, *long_ones())
    effects.await_("began", long)
    path = crew.url.removeprefix("sqlite:///")
    command = [sys.executable, "-c", _LOCK, path, "3.0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as locker:
        assert locker.stdout is not None
        assert locker.stdout.readline() == b"locked\n"
        effects.await_("ended", long)
        assert locker.wait(30) == 0
    await_state(store, State.SUCCEEDED, *short, *long)
    eventually(lambda: store.counts()[State.SUCCEEDED] == len(short) + 2 * len(long))
    if lease_seconds > 5:
        ran, began = effects.jobs("ran"), effects.jobs("began")
        assert {ran[each] for each in short} == {1}
        assert began == dict.fromkeys(long, 1)
        assert {tuple(outcomes(store, each)) for each in long} == {("succeeded",)}
    else:
        assert {outcomes(store, each)[-1] for each in long} == {"succeeded"}
    assert states(store, [*short, *long]) == {State.SUCCEEDED: len(short) + len(long)}
    for each in fleet:
        assert each.terminate() == 0, each.errors()
        assert (each.errors(), each.said("upkeep_failed")) == ("", [])
