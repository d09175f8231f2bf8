"""A worker that is stopped for longer than its lease has lost its jobs, and can say nothing more
about them when it wakes. It goes on with others.
"""

import signal

from seawall.faults import Fault, FaultCode
from seawall.states import State
from seawall.store import Reclaim, Store
from tests.life import tasks
from tests.life.world import Crew, Effects, await_state, enqueued, eventually, jobs, outcomes

_GONE = Fault(FaultCode.WORKER_LOST, "a test took it back")


def test_a_worker_that_wakes_cannot_settle_renew_or_enqueue_for_what_it_lost(
    store: Store, crew: Crew, effects: Effects
):
    lost = enqueued(
        store,
        *[tasks.slow.job(0.8), tasks.slow.job(0.8)],
        *[tasks.slow_plain.job(0.8), tasks.slow_plain.job(0.8)],
    )
    sleeper = crew.start(concurrency=6)
    effects.await_("began", lost)
    sleeper.send(signal.SIGSTOP)
    other = crew.start(concurrency=6)
    await_state(store, State.SUCCEEDED, *lost)
    eventually(lambda: len(effects.all("ran")) == len(lost))  # the children of the second attempts
    before = jobs(store, lost)

    sleeper.send(signal.SIGCONT)
    eventually(lambda: {each["job"] for each in sleeper.said("lease_lost")} == set(lost))
    # Its threads run to their ends; its coroutines are cancelled, or were about to end.
    eventually(lambda: len([e for e in effects.all("ended") if e.worker_pid == sleeper.pid]) >= 2)

    assert other.terminate() == 0
    more = enqueued(store, *[tasks.work.job() for _ in range(20)], tasks.slow.job(0.1))
    await_state(store, State.SUCCEEDED, *more)
    assert {attempt.worker for each in more for attempt in store.attempts(each)} == {sleeper.id}
    eventually(lambda: len(effects.all("ran")) == len(lost) + 20 + 1)

    assert jobs(store, lost) == before, "it wrote after all"
    for each in lost:
        assert outcomes(store, each) == ["lost", "succeeded"]
        assert [a.worker for a in store.attempts(each)] == [sleeper.id, other.id]
    # One child of each job's second attempt, none of its first.
    assert store.verify().entered == len(lost) + len(lost) + len(more) + 1
    assert sleeper.terminate() == 0, sleeper.errors()


def test_a_worker_may_claim_a_job_again_that_it_lost_and_still_runs(
    store: Store, crew: Crew, effects: Effects
):
    """Both attempts end in the same process, some at the same time; only the second counts."""
    lost = enqueued(
        store,
        *[task.job(s) for s in (0.4, 2.0) for task in (tasks.slow, tasks.slow_plain)] * 4,
    )
    sleeper = crew.start(concurrency=40)
    effects.await_("began", lost)
    sleeper.send(signal.SIGSTOP)
    eventually(lambda: len(store.lapsed()) == len(lost))
    store.reclaim(
        [Reclaim(token=each.token, fault=_GONE, delay_seconds=0.0) for each in store.lapsed()]
    )
    sleeper.send(signal.SIGCONT)
    await_state(store, State.SUCCEEDED, *lost)
    for each in lost:
        assert outcomes(store, each) == ["lost", "succeeded"]
    assert effects.jobs("began") == dict.fromkeys(lost, 2)
    eventually(lambda: len(effects.all("ran")) == len(lost))
    assert sleeper.said("upkeep_failed") == []
    assert sleeper.terminate() == 0, sleeper.errors()
    assert sleeper.errors() == ""


def test_a_worker_that_wakes_before_anybody_took_its_jobs_keeps_or_repeats_them(
    store: Store, crew: Crew, effects: Effects
):
    """Its own upkeep may be quicker than its own renewal: either is right, nothing else."""
    mine = enqueued(store, *[tasks.slow.job(1.0)] * 4, *[tasks.slow_plain.job(1.0)] * 4)
    sleeper = crew.start(concurrency=20)
    effects.await_("began", mine)
    sleeper.send(signal.SIGSTOP)
    eventually(lambda: len(store.lapsed()) == len(mine))
    sleeper.send(signal.SIGCONT)
    for each in await_state(store, State.SUCCEEDED, *mine):
        assert outcomes(store, each.id) in (["succeeded"], ["lost", "succeeded"])
        assert each.tries == 1
    assert sleeper.terminate() == 0, sleeper.errors()
    assert sleeper.errors() == ""
