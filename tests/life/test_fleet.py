"""Several workers together: schedules, upkeep, queues, priorities, draining."""

import asyncio
import threading
import time
from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise

from seawall import Seawall, current_job
from seawall.states import State
from seawall.store import Filter, Scope, Store
from seawall.worker import upkeep
from seawall.worker.upkeep import Upkeep
from tests.life import tasks
from tests.life.world import Crew, Effects, await_state, enqueued, eventually, jobs, states

SECONDS_OF_FIRES = 4


def test_a_hundred_coroutines_run_at_once(url: str, store: Store, hire):
    app = Seawall(url, lease_seconds=5)
    together, everyone = [0], asyncio.Event()

    @app.task
    async def meet() -> None:
        together[0] += 1
        if together[0] == 100:
            everyone.set()
        await everyone.wait()

    ids = enqueued(store, *[meet.job() for _ in range(100)])
    hire(app, concurrency=100)
    await_state(store, State.SUCCEEDED, *ids)


def test_a_hundred_threads_run_at_once(url: str, store: Store, hire):
    app = Seawall(url, lease_seconds=5)
    everyone = threading.Barrier(100, timeout=60)

    @app.task
    def meet() -> None:
        everyone.wait()

    ids = enqueued(store, *[meet.job() for _ in range(100)])
    hire(app, concurrency=100)
    await_state(store, State.SUCCEEDED, *ids)


def test_a_schedule_fires_once_for_the_whole_fleet_and_leaves_out_what_would_overlap(
    store: Store, crew: Crew, effects: Effects
):
    fleet = [crew.start(environ={"LIFE_SCHEDULES": "yes"}) for _ in range(2)]
    fired = lambda name: [  # noqa: E731
        said for each in fleet for said in each.said("schedule_fired") if said["schedule"] == name
    ]
    eventually(lambda: len(fired("tick")) >= SECONDS_OF_FIRES)
    eventually(lambda: len([said for said in fired("long_tick") if "job" in said]) >= 2)
    for each in fleet:
        assert each.terminate() == 0

    due = sorted(datetime.fromisoformat(said["due_at"]) for said in fired("tick"))
    assert len(set(due)) == len(due), "a fire was made twice"
    gaps = {after - before for before, after in pairwise(due)}
    assert gaps == {timedelta(seconds=1)}, "a fire was left out"
    made = [job.id for job in _all(store, "tick")]
    assert sorted(said["job"] for said in fired("tick")) == sorted(made)
    # While the last of the workers finished what it had, nobody took what was fired.
    assert states(store, made)[State.SUCCEEDED] >= len(made) - 3

    # Each begins after the one before has ended, and fires meanwhile are said to be left out.
    long = sorted(_all(store, "long_tick"), key=lambda job: job.id)
    for before, after in pairwise(long):
        assert before.finished_at is not None
        assert before.finished_at <= after.created_at
    left_out = [said for said in fired("long_tick") if "job" not in said]
    assert left_out
    assert {said["reason"] for said in left_out} == {"the job before is unfinished"}


def _all(store: Store, task: str):
    return list(store.page(Filter(task=task), limit=1_000))


def test_the_fleet_takes_a_chores_turns_together_once_in_each_interval(
    url: str, store: Store, hire, monkeypatch
):
    turns: Counter[str] = Counter()
    monkeypatch.setattr(Upkeep, "expire", lambda self: turns.update(["expire"]))
    monkeypatch.setattr(Upkeep, "reclaim", lambda self: turns.update(["reclaim"]))
    began = time.monotonic()
    for _ in range(3):
        app = Seawall(url, lease_seconds=4)

        @app.task
        def nothing() -> None: ...

        hire(app)
    eventually(lambda: turns["expire"] >= 4)
    most = (time.monotonic() - began) / 1.0 + 1  # both are due every second
    assert turns["expire"] <= most
    assert 1 <= turns["reclaim"] <= most


def test_what_an_applications_workers_do_besides_is_done_by_one_of_them(
    url: str, store: Store, hire
):
    done: list[str] = []
    for _ in range(2):
        app = Seawall(url)
        app.chores["besides"] = (3_600.0, lambda: done.append(threading.current_thread().name))

        @app.task
        def who() -> str:
            return current_job().worker

        hire(app)
    job = who.enqueue()
    assert job.wait(60) == job.attempts()[0].worker
    eventually(lambda: done)
    assert done == ["seawall-upkeep"]


def test_jobs_that_nobody_will_take_are_spoken_of(url: str, store: Store, hire, says, monkeypatch):
    monkeypatch.setattr(upkeep, "UNSERVED_SECONDS", 0.0)
    app = Seawall(url)

    @app.task
    def served() -> None: ...

    other = Seawall(url)

    @other.task
    def unknown() -> None: ...

    enqueued(store, served.using(queue="attic").job(), unknown.job())
    hire(app, queues=["default"])
    eventually(lambda: len(says.said("nobody_serves")) == 2)
    told = {said["task"]: said for said in says.said("nobody_serves")}
    assert (told["served"]["queue"], told["unknown"]["queue"]) == ("attic", "default")
    assert "--queues attic" in told["served"]["advice"]
    assert "unknown" in told["unknown"]["advice"]


def test_a_worker_serves_its_queues_alone_and_the_most_urgent_first(url: str, store: Store, hire):
    app = Seawall(url)
    order: list[int] = []

    @app.task
    def note(number: int) -> None:
        order.append(number)

    urgency = [3, -2, 7, 0, 5]
    mine = enqueued(store, *[note.using(queue="a", priority=n).job(n) for n in urgency])
    others = enqueued(store, *[note.using(queue="b").job(n) for n in range(5)])
    hand = hire(app, queues=["a"], concurrency=1)
    await_state(store, State.SUCCEEDED, *mine)
    assert order == sorted(urgency, reverse=True)
    more = enqueued(store, note.using(queue="a").job(99))
    await_state(store, State.SUCCEEDED, *more)
    assert {(job.state, job.lease_no) for job in jobs(store, others)} == {(State.QUEUED, 0)}
    hand.stop()
    assert hand.clean is True


def test_a_draining_worker_ends_when_nothing_waits_runs_or_is_held_and_not_before(
    url: str, store: Store, hire
):
    app = Seawall(url)
    held_back = threading.Event()

    @app.task
    def note() -> None: ...

    @app.task
    def waits() -> None:
        held_back.wait(60)

    @app.task(queue="attic")
    def stored() -> None: ...

    (later,) = enqueued(store, note.using(run_after=timedelta(seconds=1.5)).job())
    running, held = enqueued(store, waits.job(), stored.job())
    store.hold(Scope.QUEUE, "attic", reason="a test")
    hand = hire(app, drain=True)
    await_state(store, State.SUCCEEDED, later)
    held_back.set()
    await_state(store, State.SUCCEEDED, running)
    time.sleep(1.0)  # there is nothing to wait for: it must go on not ending
    assert hand.is_at_work, "something is held"
    store.resume(Scope.QUEUE, "attic")
    await_state(store, State.SUCCEEDED, held)
    hand.join()
    assert hand.clean is True


def test_a_draining_worker_waits_for_what_others_run_and_leaves_what_it_does_not_serve(
    store: Store, crew: Crew, effects: Effects
):
    (elsewhere,) = enqueued(store, tasks.slow.using(queue="b").job(600))
    (running,) = enqueued(store, tasks.slow.job(600))
    first = crew.start(concurrency=1, queues=["default"], grace_seconds=0)
    effects.await_("began", [running])
    draining = crew.start(drain=True, queues=["default"], concurrency=4)
    for _ in range(10):
        time.sleep(0.1)
        assert draining.is_alive, "another runs something"
    store.cancel([running])
    assert draining.wait() == 0
    assert jobs(store, [elsewhere])[0].state is State.QUEUED
    assert first.terminate() == 0


def test_nothing_is_left_for_a_draining_worker_and_it_ends_at_once(store: Store, crew: Crew):
    worker = crew.stand_by(drain=True).begin()
    assert worker.wait() == 0
