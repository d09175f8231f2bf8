"""Whole workers, killed again and again while they run thousands of jobs.

Nothing is lost, each job ends once, no try is charged for a worker's death, and what had not begun
is hardly charged anything: history is held against the lines that the handlers left outside the
store. See `effects_audit`.
"""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from seawall.states import State
from seawall.store import Store, open_store
from tests.crash.effects_audit import Books, Left
from tests.life import tasks
from tests.life.world import (
    Crew,
    Effects,
    are_gone,
    children_of,
    enqueued,
    eventually,
    jobs,
    states,
)

if TYPE_CHECKING:
    from tests.life.world import Process

SECONDS = float(os.environ.get("SEAWALL_CRASH_SECONDS", "20" if "CI" in os.environ else "8"))
AT_LEAST = 3_000
MOST_WAITING = 600
KILLS_OF_THE_UNSTARTED = 6
"""More than the five losses that the usual rule allows."""
DRAIN_SECONDS = 120.0

PLAIN = {"work": ("succeeded", 1), "plain": ("succeeded", 1),
         "shaky": ("succeeded", 2), "hopeless": ("failed", 3)}  # fmt: skip
APART = {"apart": ("succeeded", 1), "apart_and_busy": ("succeeded", 1)}

on_a_file_and_a_server = pytest.mark.parametrize("kind", ["file", "postgres18"], indirect=True)
on_the_older_server_too = pytest.mark.parametrize("kind", ["file", "postgres16"], indirect=True)


@pytest.fixture
def effects(tmp_path: Path) -> Effects:
    return Effects(tmp_path / "effects")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url) as opened:
        yield opened


@pytest.fixture
def crew(url: str, store: Store, tmp_path: Path, effects: Effects) -> Iterator[Crew]:
    with Crew(url, tmp_path, effects) as hired:
        yield hired


class Shooting:
    """Workers at work, one that stands by for each that dies, and somebody who kills them."""

    def __init__(self, crew: Crew, many: int, **how: object) -> None:
        self._crew = crew
        self._how = how
        self._standby = [crew.stand_by(**how) for _ in range(2)]
        self.at_work: list[Process] = []
        self.killed: set[str] = set()
        self.orphans: dict[int, str] = {}
        for _ in range(many):
            self.replace()
        for each in self.at_work:
            each.await_("worker_started")

    def replace(self) -> None:
        self._standby.append(self._crew.stand_by(**self._how))
        self.at_work.append(self._standby.pop(0).begin())

    def kill(self, rng: random.Random) -> None:
        """Kill one that has begun a job, if any has; another takes its place."""
        assert all(each.is_alive for each in self.at_work), "a worker ended by itself"
        busy = {effect.worker_pid for effect in self._crew.effects.all()}
        up = [each for each in self.at_work if each.pid in busy]
        if not up:
            return
        victim = rng.choice(up)
        self.orphans |= children_of(victim.pid)
        self.killed.add(victim.id)
        victim.kill()
        self.at_work.remove(victim)
        self.replace()

    def cease(self) -> None:
        """Kill all that are left."""
        while self.at_work:
            worker = self.at_work.pop()
            worker.await_("worker_started")
            self.orphans |= children_of(worker.pid)
            self.killed.add(worker.id)
            worker.kill()

    def drain(self) -> None:
        """One that nobody kills ends every job there is."""
        last = self._crew.start(drain=True, **self._how)
        assert last.wait(DRAIN_SECONDS) == 0, last.errors()
        assert last.errors() == ""
        for each in self._crew.everyone:
            assert each.said("upkeep_failed") == []


def left_by(effects: Effects) -> list[Left]:
    return [Left(line.job, line.seq, line.worker_pid) for line in effects.all("ran")]


@on_a_file_and_a_server
def test_workers_that_are_killed_again_and_again_lose_nothing_and_charge_nothing(
    url: str, store: Store, crew: Crew, effects: Effects
):
    rng = random.Random()
    created: set[int] = set()
    shooting = Shooting(crew, 3, concurrency=10, lease_seconds=1.5)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        next_kill = time.monotonic() + rng.uniform(0.3, 1.5)
        while time.monotonic() < next_kill:
            if store.counts()[State.QUEUED] < MOST_WAITING:
                created.update(enqueued(store, *some(rng, 200)))
            time.sleep(0.05)
        shooting.kill(rng)
    shooting.cease()
    while len(created) < AT_LEAST:
        created.update(enqueued(store, *some(rng, 500)))
    shooting.drain()

    assert store.verify().violations == ()
    books = Books(url, left_by(effects))
    books.nothing_is_lost(created)
    books.each_job_ended_once_and_by_its_policy(PLAIN)
    books.each_attempt_ran_once_at_most_and_each_that_ended_did()
    books.effects_are_of_the_worker_that_history_names()
    assert books.only_the_killed_lost_anything(shooting.killed) > len(shooting.killed)
    assert len(shooting.killed) >= 3 + SECONDS / 5, "hardly anybody was killed"


def some(rng: random.Random, many: int):
    kinds = [tasks.work, tasks.plain]
    ends = [tasks.shaky.job(), tasks.hopeless.job()]
    return [
        rng.choice(kinds).job(rng.uniform(0, 0.02)) if rng.random() < 0.9 else rng.choice(ends)
        for _ in range(many)
    ]


def apart(rng: random.Random, many: int):
    kinds = [tasks.apart, tasks.apart_and_busy]
    return [rng.choice(kinds).job(rng.uniform(0, 0.03)) for _ in range(many)]


@on_the_older_server_too
def test_no_isolated_handler_outlives_its_killed_worker_and_none_is_lost(
    url: str, store: Store, crew: Crew, effects: Effects
):
    rng = random.Random()
    created: set[int] = set()
    shooting = Shooting(crew, 2, concurrency=3, lease_seconds=1.5)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if store.counts()[State.QUEUED] < 60:
            created.update(enqueued(store, *apart(rng, 60)))
        time.sleep(rng.uniform(0.3, 1.5))
        shooting.kill(rng)
        eventually(lambda: are_gone(shooting.orphans), 20)
    created.update(enqueued(store, *apart(rng, 100)))
    shooting.cease()
    shooting.drain()
    eventually(lambda: are_gone(shooting.orphans), 10)

    assert store.verify().violations == ()
    books = Books(url, left_by(effects))
    books.nothing_is_lost(created)
    books.each_job_ended_once_and_by_its_policy(APART)
    books.each_attempt_ran_once_at_most_and_each_that_ended_did()
    books.effects_are_of_the_worker_that_history_names()
    books.only_the_killed_lost_anything(shooting.killed)
    assert len(shooting.orphans) > len(shooting.killed), "hardly a handler had a process"
    assert len(created) == len({line.job for line in left_by(effects)})


@on_a_file_and_a_server
def test_what_never_began_is_never_charged_however_often_workers_are_killed(
    url: str, store: Store, crew: Crew, effects: Effects
):
    """Hundreds wait in a worker's hands behind a few slow ones, each time that one is killed."""
    slots, many = 20, 200
    created: list[int] = []
    held: list[int] = []
    crew.start(queues=["nobody's"], lease_seconds=0.5)
    shooting = Shooting(crew, 0, concurrency=slots, lease_seconds=0.5)
    for _ in range(KILLS_OF_THE_UNSTARTED):
        # Some quick ones first, so that it has reason to believe that all are quick.
        created += enqueued(store, *[tasks.noop.using(priority=9).job() for _ in range(many)])
        holding = enqueued(store, *[tasks.slow.using(priority=5).job(600) for _ in range(slots)])
        fresh = enqueued(store, *[tasks.noop.job() for _ in range(many)])
        created, held = created + fresh, held + holding
        shooting.replace()
        effects.await_("began", holding)
        eventually(lambda fresh=fresh: states(store, fresh)[State.RUNNING] >= 30)
        shooting.cease()
        eventually(lambda: store.counts()[State.RUNNING] == 0)  # the bystander takes them back
        store.cancel(holding)
        ran = set(effects.jobs("ran"))
        unstarted = [each for each in jobs(store, created) if each.id not in ran]
        assert {(each.tries, each.state) for each in unstarted} <= {(0, State.QUEUED)}
        assert max(each.losses for each in unstarted) <= 1
    shooting.drain()
    assert states(store, created) == {State.SUCCEEDED: len(created)}
    assert states(store, held) == {State.CANCELLED: len(held)}
    assert {each.tries for each in jobs(store, created)} == {1}
    assert store.verify().violations == ()
    books = Books(url, left_by(effects))
    unbegun = books.lost_without_having_begun()
    assert {times for job, times in unbegun.items() if job not in held} == {1}
