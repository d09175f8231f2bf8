"""`lapsed`, `reclaim` and `expire`: what a lost worker held comes back, and deadlines end what waits."""

from dataclasses import replace
from datetime import timedelta

import pytest

from seawall.faults import FaultCode
from seawall.model import Lane, Outcome, Token
from seawall.states import State
from seawall.store.values import MOST_ROWS, Advance, Answer, Reclaim, Redrive, Result
from tests.support.ledger import WORKER_LOST, claimed, ended, enqueued, lost, new_job, wanted

QUEUED = Answer(Result.DONE, State.QUEUED)
LOST = Answer(Result.LOST)


# --- lapsed -----------------------------------------------------------------------------------


def test_a_lease_lapses_when_its_time_is_over_and_not_before(store, clock):
    lane = Lane(task="work", queue="slow", upstream="openai")
    (claim,) = claimed(store, new_job(lane=lane), queues=("slow",), lease_seconds=60)

    clock.advance(59.999999)
    assert store.lapsed() == []
    clock.advance(0.000001)
    (lapse,) = store.lapsed()

    assert (lapse.token, lapse.lane, lapse.worker) == (claim.token, lane, "w1")
    assert (lapse.cycle, lapse.tries, lapse.losses) == (0, 0, 0)
    assert lapse.lapsed_at == claim.lease_until


def test_a_loss_in_waiting_hands_is_told_apart_and_remembered(store, clock):
    (claim,) = claimed(store, prefetch=True)
    clock.advance(60)
    (lapse,) = store.lapsed()
    assert (lapse.prefetched, lapse.spared, lapse.losses) == (True, 0, 0)
    store.reclaim([lost(claim.token, delay_seconds=0.0)])

    assert store.claim(wanted(prefetch=True)) == []  # never again
    (again,) = store.claim(wanted())
    clock.advance(60)
    (lapse,) = store.lapsed()
    assert (lapse.token, lapse.prefetched) == (again.token, False)
    assert (lapse.spared, lapse.losses) == (1, 1)
    assert store.verify().ok


def test_a_stage_that_was_advanced_to_has_begun(store, clock):
    (claim,) = claimed(store, prefetch=True)
    store.advance([Advance(token=claim.token, lane=Lane(task=claim.lane.task, stage=1))])
    clock.advance(60)
    assert [lapse.prefetched for lapse in store.lapsed()] == [False]


def test_looking_changes_nothing(store, clock):
    (claim,) = claimed(store)
    clock.advance(60)
    before = store.jobs([claim.token.job_id])

    assert store.lapsed() == store.lapsed()
    assert store.jobs([claim.token.job_id]) == before


def test_the_longest_lapsed_come_first(store, clock):
    ids = enqueued(store, *(new_job() for _ in range(4)))
    tokens = [store.claim(wanted(1, lease_seconds=s))[0].token for s in (30, 10, 20, 10)]
    clock.advance(60)

    assert [lapse.token.job_id for lapse in store.lapsed()] == [ids[1], ids[3], ids[2], ids[0]]
    assert [lapse.token for lapse in store.lapsed(limit=2)] == [tokens[1], tokens[3]]


def test_a_lapse_tells_what_a_policy_must_know(store, clock):
    (first,) = claimed(store)
    store.settle([ended(first.token, Outcome.FAILED)])
    store.redrive([Redrive(first.token.job_id)])
    (second,) = store.claim(wanted())
    store.settle([ended(second.token, Outcome.RETRIED, delay_seconds=0)])
    (third,) = store.claim(wanted())
    clock.advance(60)
    store.reclaim([lost(third.token, 0)])
    (fourth,) = store.claim(wanted(worker="w2"))
    clock.advance(60)

    (lapse,) = store.lapsed()

    assert (lapse.token, lapse.worker) == (fourth.token, "w2")
    assert (lapse.cycle, lapse.tries, lapse.losses) == (1, 1, 1)


def test_after_an_advance_the_lapse_names_the_attempt_under_way(store, clock):
    (claim,) = claimed(store)
    store.advance([Advance(token=claim.token, lane=Lane(task="work", stage=1))])
    clock.advance(60)

    (lapse,) = store.lapsed()

    assert (lapse.token, lapse.lane.stage) == (claim.token.next(), 1)


@pytest.mark.parametrize("limit", [0, -1, MOST_ROWS + 1])
def test_a_limit_out_of_bounds_is_refused(store, clock, limit):
    enqueued(store, new_job(deadline_at=clock.now()))

    with pytest.raises(ValueError, match="limit"):
        store.lapsed(limit=limit)
    with pytest.raises(ValueError, match="limit"):
        store.expire(limit=limit)

    assert store.counts()[State.QUEUED] == 1


# --- reclaim ----------------------------------------------------------------------------------


def test_a_job_taken_back_is_queued_again_after_its_delay(store, clock):
    (claim,) = claimed(store)
    began = clock.now()
    clock.advance(100)

    reclaim = Reclaim(token=claim.token, fault=WORKER_LOST, delay_seconds=5, policy="p@1")
    assert store.reclaim([reclaim]) == [QUEUED]

    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert (job.state, job.lease, job.last_fault) == (State.QUEUED, None, WORKER_LOST)
    assert (job.tries, job.losses, job.seq, job.lease_no) == (0, 1, 1, 1)
    assert job.due_at == clock.now() + timedelta(seconds=5)
    (attempt,) = store.attempts(job.id)
    assert (attempt.outcome, attempt.counted, attempt.fault) == (Outcome.LOST, False, WORKER_LOST)
    assert (attempt.worker, attempt.policy, attempt.delay_seconds) == ("w1", "p@1", 5)
    assert (attempt.started_at, attempt.finished_at) == (began, clock.now())
    assert job.started_at == job.last_attempt_at == began


def test_a_job_that_was_lost_too_often_fails(store, clock):
    (claim,) = claimed(store)
    clock.advance(60)

    assert store.reclaim([lost(claim.token, None)]) == [Answer(Result.DONE, State.FAILED)]

    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert (job.state, job.finished_at) == (State.FAILED, clock.now())
    assert (job.last_fault, job.losses, job.due_at) == (WORKER_LOST, 1, claim.due_at)
    assert [attempt.delay_seconds for attempt in store.attempts(job.id)] == [None]


@pytest.mark.parametrize("delay", [0.0, 5.0, None])
def test_a_job_that_was_to_stop_is_cancelled_instead(store, clock, delay):
    (claim,) = claimed(store)
    store.cancel([claim.token.job_id])
    clock.advance(60)

    answers = store.reclaim([lost(claim.token, delay)])

    assert answers == [Answer(Result.DONE, State.CANCELLED)]
    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert (job.state, job.finished_at) == (State.CANCELLED, clock.now())
    assert not job.cancel_requested
    assert [attempt.outcome for attempt in store.attempts(job.id)] == [Outcome.LOST]


def test_a_lapsed_lease_cannot_be_taken_back_twice(store, clock):
    (claim,) = claimed(store)
    clock.advance(60)
    store.reclaim([lost(claim.token, 0)])
    before = store.jobs([claim.token.job_id]), store.attempts(claim.token.job_id)

    assert store.reclaim([lost(claim.token, 0)]) == [LOST]

    assert (store.jobs([claim.token.job_id]), store.attempts(claim.token.job_id)) == before


def test_a_lease_that_has_not_lapsed_is_not_taken_back(store, clock):
    (claim,) = claimed(store, lease_seconds=60)
    clock.advance(59.999999)
    before = store.jobs([claim.token.job_id])

    assert store.reclaim([lost(claim.token)]) == [LOST]
    assert store.jobs([claim.token.job_id]) == before
    assert store.attempts(claim.token.job_id) == []


def test_a_lease_that_was_renewed_meanwhile_is_not_taken_back(store, clock):
    (claim,) = claimed(store, lease_seconds=60)
    clock.advance(60)
    (lapse,) = store.lapsed()
    store.renew([claim.token], lease_seconds=60)

    assert store.reclaim([lost(lapse.token)]) == [LOST]
    assert store.jobs([claim.token.job_id])[claim.token.job_id].state is State.RUNNING


def test_a_job_that_was_settled_meanwhile_is_not_taken_back(store, clock):
    (claim,) = claimed(store)
    clock.advance(60)
    store.settle([ended(claim.token)])

    assert store.reclaim([lost(claim.token)]) == [LOST]
    assert store.jobs([claim.token.job_id])[claim.token.job_id].state is State.SUCCEEDED


def test_the_attempt_before_an_advance_cannot_be_taken_back(store, clock):
    (claim,) = claimed(store)
    store.advance([Advance(token=claim.token, lane=Lane(task="work", stage=1))])
    clock.advance(60)

    assert store.reclaim([lost(claim.token)]) == [LOST]
    assert store.reclaim([lost(claim.token.next())]) == [QUEUED]
    assert store.jobs([claim.token.job_id])[claim.token.job_id].stage == 1


def test_the_lease_of_the_next_worker_is_not_taken_back_for_the_one_before(store, clock):
    (old,) = claimed(store)
    clock.advance(60)
    store.reclaim([lost(old.token, 0)])
    (new,) = store.claim(wanted(worker="w2"))
    clock.advance(60)

    store.reclaim([lost(old.token)])

    assert store.jobs([old.token.job_id])[old.token.job_id].lease.worker == "w2"
    assert store.reclaim([lost(new.token)]) == [QUEUED]


def test_losses_add_up(store, clock):
    enqueued(store)
    for _ in range(3):
        (claim,) = store.claim(wanted())
        clock.advance(60)
        store.reclaim([lost(claim.token, 0)])

    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert (job.losses, job.tries, job.seq, job.lease_no) == (3, 0, 3, 3)


def test_under_a_clock_that_went_back_no_attempt_ends_before_it_began(store, clock):
    (claim,) = claimed(store)
    clock._now -= timedelta(seconds=100)
    store.renew([claim.token], lease_seconds=1)
    clock.advance(1)

    assert store.reclaim([lost(claim.token)]) == [QUEUED]
    assert [attempt.duration for attempt in store.attempts(claim.token.job_id)] == [timedelta(0)]


def test_answers_come_in_the_order_asked(store, clock):
    claims = claimed(store, *(new_job() for _ in range(4)))
    clock.advance(60)
    store.settle([ended(claims[1].token)])
    store.reclaim([lost(claims[2].token, 0)])

    answers = store.reclaim(
        [lost(claim.token, 0) for claim in reversed(claims)] + [lost(Token(10**12, 1, 1))]
    )

    assert answers == [QUEUED, LOST, LOST, QUEUED, LOST]


def test_a_row_that_cannot_be_stored_is_refused_alone(store, clock):
    claims = claimed(store, *(new_job() for _ in range(3)))
    clock.advance(60)
    rows = [lost(claim.token) for claim in claims]
    rows[1] = Reclaim(
        token=claims[1].token, fault=replace(WORKER_LOST, kinds=("\ud800",)), delay_seconds=1
    )

    answers = store.reclaim(rows)

    assert answers[::2] == [QUEUED, QUEUED]
    assert answers[1].result is Result.REFUSED
    assert [lapse.token for lapse in store.lapsed()] == [claims[1].token]


def test_too_many_or_the_same_job_twice_is_refused_and_takes_nothing_back(store, clock):
    (claim,) = claimed(store)
    clock.advance(60)

    with pytest.raises(ValueError, match="1,001 rows"):
        store.reclaim([lost(Token(n, 1, 1)) for n in range(1, MOST_ROWS + 2)])
    with pytest.raises(ValueError, match="names a job twice"):
        store.reclaim([lost(claim.token)] * 2)

    assert store.counts()[State.RUNNING] == 1


def test_nothing_to_take_back_is_nothing_done(store):
    assert store.reclaim([]) == []
    assert store.lapsed() == []
    assert store.expire() == []


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_a_delay_must_be_a_span_of_time(seconds):
    with pytest.raises(ValueError, match="delay_seconds"):
        lost(Token(1, 1, 1), seconds)


# --- expire -----------------------------------------------------------------------------------


def test_a_queued_job_fails_when_its_deadline_is_there_and_not_before(store, clock):
    (job_id,) = enqueued(store, new_job(deadline_at=clock.now() + timedelta(seconds=10)))

    clock.advance(9.999999)
    assert store.expire() == []
    clock.advance(0.000001)
    assert store.expire() == [job_id]

    job = store.jobs([job_id])[job_id]
    assert (job.state, job.finished_at) == (State.FAILED, clock.now())
    assert job.last_fault.code is FaultCode.EXPIRED
    assert (job.seq, store.attempts(job_id)) == (0, [])
    assert store.expire() == []


def test_only_what_is_queued_expires(store, clock):
    deadline = clock.now() + timedelta(seconds=10)
    running, done, cancelled, waiting, endless = enqueued(
        store, *(new_job(deadline_at=deadline) for _ in range(4)), new_job()
    )
    _, second = store.claim(wanted(2))
    store.settle([ended(second.token)])
    store.cancel([cancelled])
    clock.advance(10)

    assert store.expire() == [waiting]
    jobs = store.jobs([running, done, cancelled, waiting, endless])
    assert [job.state for _, job in sorted(jobs.items())] == [
        State.RUNNING, State.SUCCEEDED, State.CANCELLED, State.FAILED, State.QUEUED,
    ]  # fmt: skip


def test_what_is_due_later_or_held_expires_all_the_same(store, clock):
    (job_id,) = enqueued(
        store,
        new_job(run_after=clock.now() + timedelta(days=1), deadline_at=clock.now()),
    )

    assert store.expire() == [job_id]


def test_a_retry_that_would_come_too_late_expires_and_keeps_its_history(store, clock):
    (claim,) = claimed(store, new_job(deadline_at=clock.now() + timedelta(seconds=10)))
    store.settle([ended(claim.token, Outcome.RETRIED, delay_seconds=60)])
    clock.advance(10)

    assert store.expire() == [claim.token.job_id]

    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert (job.last_fault.code, job.seq, job.tries) == (FaultCode.EXPIRED, 1, 1)


def test_the_oldest_deadlines_go_first_in_bounded_batches(store, clock):
    ids = enqueued(
        store, *(new_job(deadline_at=clock.now() + timedelta(seconds=s)) for s in (3, 1, 4, 2))
    )
    clock.advance(10)

    assert sorted(store.expire(limit=2)) == [ids[1], ids[3]]
    assert sorted(store.expire(limit=2)) == [ids[0], ids[2]]
    assert store.expire(limit=2) == []


def test_a_job_that_expired_keeps_its_key(store, clock):
    (job_id,) = enqueued(store, new_job(key="k", deadline_at=clock.now()))
    store.expire()

    (answer,) = store.enqueue([new_job(key="k")])

    assert (answer.taken, answer.job_id) == ("existing", job_id)
