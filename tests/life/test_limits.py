"""Timeouts, deadlines, cancelling and memory: how each kind of handler is stopped."""

import signal
from datetime import timedelta

import pytest

from seawall.faults import FaultCode
from seawall.states import State
from seawall.store import Store
from tests.life import tasks
from tests.life.world import (
    Crew,
    Effects,
    are_gone,
    await_state,
    begun_at,
    enqueued,
    eventually,
    job,
    outcomes,
)


@pytest.fixture
def kind():
    """How a handler is stopped does not depend on the store: one is enough."""
    return "file"


def test_each_kind_of_handler_is_stopped_at_its_time_limit(
    store: Store, crew: Crew, effects: Effects
):
    late, apart = enqueued(store, tasks.late.job(), tasks.late_apart.job())
    # Its deadline is no reason to forget its time limit.
    (with_deadline,) = enqueued(store, tasks.late_apart.using(deadline=timedelta(seconds=45)).job())
    worker = crew.start(concurrency=5)
    effects.await_("began", [apart, with_deadline])
    pids = [*effects.all("began", apart), *effects.all("began", with_deadline)]
    children = begun_at({effect.pid for effect in pids})
    for each in await_state(store, State.FAILED, late, apart, with_deadline):
        assert each.last_fault is not None
        assert (each.last_fault.code, each.last_fault.ambiguous) == (FaultCode.TIMEOUT, True)
        assert (outcomes(store, each.id), each.tries) == (["failed"], 1)
    assert len(effects.all("cancelled", late)) == 1
    eventually(lambda: are_gone(children))
    (after,) = enqueued(store, tasks.apart.job())
    await_state(store, State.SUCCEEDED, after)
    assert worker.terminate() == 0


def test_a_thread_that_ran_out_of_time_is_settled_and_keeps_its_slot_until_it_returns(
    store: Store, crew: Crew, effects: Effects
):
    (late,) = enqueued(store, tasks.late_plain.using(priority=1).job(3.0))
    (after,) = enqueued(store, tasks.work.job())
    worker = crew.start(concurrency=1)
    (failed,) = await_state(store, State.FAILED, late)
    assert effects.all("returned") == [], "it is settled before it returns"
    assert failed.last_fault is not None
    assert (failed.last_fault.code, failed.last_fault.ambiguous) == (FaultCode.TIMEOUT, True)
    assert worker.await_("thread_left_behind")["job"] == late
    await_state(store, State.SUCCEEDED, after)
    assert [effect.what for effect in effects.all()] == ["began", "returned", "ran"]
    assert outcomes(store, late) == ["failed"], "its late return changes nothing"
    assert worker.terminate() == 0


def test_memory_that_is_not_there_is_a_fault_of_the_job_and_harms_nobody_else(
    store: Store, crew: Crew, effects: Effects
):
    greedy, modest = enqueued(store, tasks.greedy.job(8_192), tasks.greedy.job(1))
    worker = crew.start(concurrency=1)
    (failed,) = await_state(store, State.FAILED, greedy)
    assert failed.last_fault is not None
    assert failed.last_fault.code is FaultCode.RESOURCE_EXHAUSTED
    await_state(store, State.SUCCEEDED, modest)
    assert store.output(modest, 0) == str(1024 * 1024)
    assert worker.terminate() == 0


def test_a_handler_whose_process_is_killed_is_tried_again_by_its_policy(store: Store, crew: Crew):
    dying = enqueued(store, tasks.dies.job(signal.SIGKILL), tasks.dies.job(signal.SIGSEGV))
    worker = crew.start(concurrency=2)
    done = await_state(store, State.SUCCEEDED, *dying)
    assert [each.tries for each in done] == [2, 1]
    for each, code in zip(
        dying,
        # The first looks like the work of a system that has run out of memory.
        [FaultCode.RESOURCE_EXHAUSTED, FaultCode.WORKER_LOST],
        strict=True,
    ):
        first, second = store.attempts(each)
        assert [first.outcome, second.outcome] == ["retried", "succeeded"]
        assert first.fault is not None
        assert (first.fault.code, first.fault.ambiguous) == (code, True)
        assert first.worker == second.worker == worker.id, "the worker is unharmed"


def test_running_jobs_of_each_kind_are_cancelled_and_so_are_queued_ones(
    store: Store, crew: Crew, effects: Effects
):
    running = enqueued(store, tasks.slow.job(60), tasks.slow_apart.job(60), tasks.heeds.job())
    (waiting,) = enqueued(store, tasks.work.using(priority=-1).job())
    worker = crew.start(concurrency=3)
    effects.await_("began", running)
    children = begun_at({effect.pid for effect in effects.all()} - {worker.pid})
    assert job(store, waiting).state is State.QUEUED
    changes = store.cancel([*running, waiting])
    assert [change.done for change in changes] == [True] * 4
    assert job(store, waiting).state is State.CANCELLED
    for each in await_state(store, State.CANCELLED, *running):
        assert (outcomes(store, each.id), each.tries) == (["cancelled"], 0)
    assert outcomes(store, waiting) == []
    assert len(effects.all("cancelled")) == len(effects.all("heeded")) == 1
    assert effects.all("ended") == effects.all("ran") == []
    eventually(lambda: len(worker.said("job_cancelled")) == 3)
    (after,) = enqueued(store, tasks.apart.job())
    await_state(store, State.SUCCEEDED, after)
    eventually(lambda: are_gone(children))
    assert worker.terminate() == 0


def test_a_job_that_runs_past_its_deadline_has_expired_and_so_has_one_that_waits(
    store: Store, crew: Crew, effects: Effects
):
    worker = crew.start(concurrency=2, queues=["default"])
    worker.await_("worker_started")  # which may take longer than the deadlines
    soon = timedelta(seconds=2.0)
    running = enqueued(
        store,
        tasks.slow.using(deadline=timedelta(seconds=4)).job(60),
        tasks.slow_plain.using(deadline=timedelta(seconds=4)).job(60),
    )
    (waiting,) = enqueued(store, tasks.work.using(deadline=soon, queue="nobody's").job())
    (later,) = enqueued(store, tasks.work.using(deadline=soon, run_after=timedelta(hours=1)).job())
    for each in await_state(store, State.FAILED, *running, waiting, later):
        assert each.last_fault is not None
        assert each.last_fault.code is FaultCode.EXPIRED
        assert each.deadline_at is not None
        assert each.finished_at is not None
        assert each.finished_at >= each.deadline_at
    for each in running:
        assert outcomes(store, each) == ["failed"]
    assert outcomes(store, waiting) == outcomes(store, later) == []
    worker.await_("expired")
    assert worker.terminate() == 0


def test_a_handler_that_blocks_the_loop_is_named_and_costs_nobody_a_lease(
    store: Store, crew: Crew, effects: Effects
):
    """Its lease is a third of the time for which it blocks, and another worker waits for it."""
    (blocking,) = enqueued(store, tasks.blocks.job(3.0))
    beside = enqueued(store, *[tasks.slow.job(0.1)] * 2, *[tasks.slow_plain.job(0.1)] * 2)
    crew.start(concurrency=5)
    crew.start(concurrency=5)
    await_state(store, State.SUCCEEDED, blocking, *beside)
    for each in [blocking, *beside]:
        assert outcomes(store, each) == ["succeeded"]
        assert len(effects.all("began", each)) == 1
    warnings = [said for worker in crew.everyone for said in worker.said("loop_blocked")]
    (warning,) = [said for said in warnings if said["job"] == blocking]
    assert warning["task"] == "blocks"
    assert warning["where"].startswith("tasks.py:")
    assert warning["where"].endswith(" in blocks")
    assert [worker.said("lease_lost") for worker in crew.everyone] == [[], []]


def test_a_job_that_is_cancelled_before_its_first_step_ends_all_the_same(
    store: Store, crew: Crew, effects: Effects
):
    """Its loop is blocked: it is begun and cancelled in one breath when that is over."""
    (blocking,) = enqueued(store, tasks.blocks.job(2.0))
    worker = crew.start(concurrency=3)
    effects.await_("began", [blocking])
    (unlucky,) = enqueued(store, tasks.slow.job(600))
    await_state(store, State.RUNNING, unlucky)
    store.cancel([unlucky])
    await_state(store, State.CANCELLED, unlucky)
    await_state(store, State.SUCCEEDED, blocking)
    # Every slot is free again.
    more = enqueued(store, *[tasks.slow.job(0.5)] * 3)
    effects.await_("began", more)
    assert worker.terminate() == 0


def test_isolated_jobs_that_are_cancelled_as_they_begin_are_stopped_whenever_that_is(
    store: Store, crew: Crew, effects: Effects
):
    worker = crew.start(concurrency=8)
    unlucky = enqueued(store, *[tasks.slow_apart.job(600) for _ in range(8)])
    eventually(lambda: State.RUNNING in {each.state for each in store.jobs(unlucky).values()})
    store.cancel(unlucky)
    for each in await_state(store, State.CANCELLED, *unlucky):
        assert outcomes(store, each.id) in ([], ["cancelled"])
    assert worker.terminate() == 0
    assert effects.all("ended") == []


def test_a_worker_that_is_killed_takes_its_isolated_handlers_with_it_and_what_they_started(
    store: Store, crew: Crew, effects: Effects
):
    sleeping, busy, starting = enqueued(
        store,
        tasks.slow_apart.job(600),
        tasks.apart_and_busy.job(600),
        tasks.starts_a_program.job(),
    )
    worker = crew.start(concurrency=3)
    effects.await_("began", [sleeping, starting])
    effects.await_("ran", [busy])
    effects.await_("program", [starting])
    everything = begun_at({effect.pid for effect in effects.all()})
    assert len(everything) == 4
    assert worker.pid not in everything
    worker.kill()
    eventually(lambda: are_gone(everything), 20)


def test_a_program_that_an_isolated_handler_started_ends_with_its_attempt(
    store: Store, crew: Crew, effects: Effects
):
    (starting,) = enqueued(store, tasks.starts_a_program.job())
    worker = crew.start(concurrency=1)
    effects.await_("program", [starting])
    everything = begun_at({effect.pid for effect in effects.all()})
    store.cancel([starting])
    await_state(store, State.CANCELLED, starting)
    eventually(lambda: are_gone(everything), 20)
    assert worker.terminate() == 0
