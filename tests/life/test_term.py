"""SIGTERM: what can finish is finished, everything else is handed back, and nothing is left behind."""

import signal

import pytest

from seawall.states import State
from seawall.store import Store
from tests.life import tasks
from tests.life.world import (
    Crew,
    Effects,
    are_gone,
    await_state,
    children_of,
    enqueued,
    eventually,
    job,
    jobs,
    outcomes,
    states,
)

MANY = 300
SLOTS = 25


def nothing_is_leased(store: Store) -> bool:
    return store.counts()[State.RUNNING] == 0 and store.lapsed() == []


def test_what_ends_within_the_grace_period_is_settled_and_nothing_more_is_begun(
    store: Store, crew: Crew, effects: Effects
):
    worker = crew.start(concurrency=3, grace_seconds=30)
    flying = enqueued(store, tasks.slow_apart.job(2.0))
    effects.await_("began", flying)  # it takes a while to begin
    flying += enqueued(store, tasks.slow.job(1.0), tasks.slow_plain.job(1.0))
    effects.await_("began", flying)
    waiting = enqueued(store, *[tasks.work.job() for _ in range(20)])
    assert worker.terminate() == 0
    assert states(store, flying) == {State.SUCCEEDED: 3}
    assert effects.jobs("ended") == dict.fromkeys(flying, 1)
    assert {(j.state, j.seq, j.lease_no) for j in jobs(store, waiting)} == {(State.QUEUED, 0, 0)}
    assert nothing_is_leased(store)
    assert store.workers(within_seconds=3_600) == []
    assert [worker.said(name) != [] for name in ("worker_stopping", "worker_stopped")] == [True] * 2


@pytest.mark.parametrize("hurried_by", ["the end of the grace period", "a second signal"])
def test_what_does_not_end_in_time_is_queued_again_uncharged_at_its_old_place(
    store: Store, crew: Crew, effects: Effects, hurried_by: str
):
    flying = enqueued(store, tasks.slow.job(60), tasks.slow_plain.job(60), tasks.slow_apart.job(60))
    before = {each.id: each.due_at for each in jobs(store, flying)}
    by_time = hurried_by != "a second signal"
    worker = crew.start(concurrency=3, grace_seconds=0.3 if by_time else 600)
    effects.await_("began", flying)
    children = children_of(worker.pid)
    worker.send(signal.SIGTERM)
    if not by_time:
        worker.await_("worker_stopping")
        worker.send(signal.SIGTERM)
    assert worker.wait() == 0, worker.errors()
    for each in jobs(store, flying):
        assert (each.state, each.tries, each.losses) == (State.QUEUED, 0, 0)
        assert each.due_at == before[each.id]
        assert outcomes(store, each.id) == ["released"]
    assert nothing_is_leased(store)
    assert len(effects.all("cancelled")) == 1
    assert effects.all("ended") == []
    eventually(lambda: are_gone(children))


def test_what_was_only_fetched_is_handed_back_without_a_trace(
    store: Store, crew: Crew, effects: Effects
):
    first = enqueued(store, *[tasks.noop.using(priority=9).job() for _ in range(MANY)])
    holding = enqueued(store, *[tasks.slow.using(priority=5).job(60) for _ in range(SLOTS)])
    noops = enqueued(store, *[tasks.noop.job() for _ in range(MANY)])
    before = {each.id: each.due_at for each in jobs(store, noops)}
    worker = crew.start(concurrency=SLOTS, grace_seconds=600, lease_seconds=30)
    effects.await_("began", holding)
    eventually(lambda: states(store, noops)[State.RUNNING] >= 50)
    worker.send(signal.SIGTERM)
    eventually(lambda: states(store, noops) == {State.QUEUED: MANY})  # at once
    assert states(store, holding) == {State.RUNNING: SLOTS}
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    for each in jobs(store, noops):
        assert (each.seq, each.tries, each.losses) == (0, 0, 0)
        assert each.due_at == before[each.id]
    assert nothing_is_leased(store)
    assert set(effects.jobs("ran")) == set(first)


def test_a_job_that_was_handed_back_is_run_by_the_next_worker(
    store: Store, crew: Crew, effects: Effects
):
    (flying,) = enqueued(store, tasks.heeds.job())
    first = crew.start(concurrency=1, grace_seconds=0)
    effects.await_("began", [flying])
    assert first.terminate() == 0
    assert (job(store, flying).state, job(store, flying).tries) == (State.QUEUED, 0)
    second = crew.start(concurrency=1, grace_seconds=0)
    eventually(lambda: len(effects.all("began", flying)) == 2)
    store.cancel([flying])
    await_state(store, State.CANCELLED, flying)
    assert outcomes(store, flying) == ["released", "cancelled"]
    assert {a.worker for a in store.attempts(flying)} == {first.id, second.id}


def test_every_start_is_another_worker(store: Store, crew: Crew, effects: Effects):
    one = crew.start()
    names = [one.id]
    assert one.terminate() == 0
    two = crew.start()
    names.append(two.id)
    two.kill()
    names.append(crew.start().id)
    assert len(set(names)) == 3
