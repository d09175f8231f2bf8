"""`cancel`: what waits ends at once, and what runs is asked to stop."""

import pytest

from seawall.model import Lane, Outcome
from seawall.states import State
from seawall.store.values import MOST_ROWS, Advance, Change, Redrive
from tests.support.ledger import claimed, ended, enqueued, failed, new_job, wanted


def test_a_queued_job_is_cancelled_at_once(store, clock):
    (job_id,) = enqueued(store, new_job(key="k"))
    clock.advance(10)

    assert store.cancel([job_id]) == [Change(done=True, state=State.CANCELLED)]

    job = store.jobs([job_id])[job_id]
    assert (job.state, job.finished_at, job.key) == (State.CANCELLED, clock.now(), "k")
    assert (job.cancel_requested, job.seq, store.attempts(job_id)) == (False, 0, [])
    assert store.claim(wanted()) == []


def test_a_running_job_is_asked_to_stop_and_runs_on(store):
    (claim,) = claimed(store)
    before = store.jobs([claim.token.job_id])[claim.token.job_id]

    assert store.cancel([claim.token.job_id]) == [Change(done=True, state=State.RUNNING)]

    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert (job.state, job.cancel_requested) == (State.RUNNING, True)
    assert (job.lease, job.finished_at) == (before.lease, None)


def test_a_job_that_waits_for_its_next_try_is_cancelled_and_keeps_its_history(store):
    (claim,) = claimed(store)
    store.settle([ended(claim.token, Outcome.RETRIED)])

    store.cancel([claim.token.job_id])

    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert (job.state, job.tries, job.seq) == (State.CANCELLED, 1, 1)
    assert [attempt.outcome for attempt in store.attempts(job.id)] == [Outcome.RETRIED]


def test_asked_again_for_what_waited_it_finds_nothing_left_to_do(store, clock):
    (job_id,) = enqueued(store)
    store.cancel([job_id])
    before = store.jobs([job_id])
    clock.advance(1)

    assert store.cancel([job_id]) == [Change(done=False, state=State.CANCELLED)]
    assert store.jobs([job_id]) == before


def test_asked_again_for_what_runs_it_changes_nothing(store, clock):
    (claim,) = claimed(store)
    store.cancel([claim.token.job_id])
    before = store.jobs([claim.token.job_id])
    clock.advance(1)

    (change,) = store.cancel([claim.token.job_id])

    assert change.state is State.RUNNING
    assert store.jobs([claim.token.job_id]) == before


@pytest.mark.parametrize(
    "outcome", [Outcome.SUCCEEDED, Outcome.SKIPPED, Outcome.FAILED, Outcome.CANCELLED]
)
def test_what_has_ended_stays(store, clock, outcome):
    (claim,) = claimed(store)
    store.settle([ended(claim.token, outcome)])
    before = store.jobs([claim.token.job_id])
    clock.advance(1)

    (change,) = store.cancel([claim.token.job_id])

    assert change == Change(done=False, state=before[claim.token.job_id].state)
    assert store.jobs([claim.token.job_id]) == before


def test_a_job_that_failed_though_it_was_to_stop_is_not_to_stop_when_sent_again(store):
    (claim,) = claimed(store)
    store.cancel([claim.token.job_id])
    store.settle([ended(claim.token, Outcome.FAILED)])

    store.redrive([Redrive(claim.token.job_id)])

    assert not store.jobs([claim.token.job_id])[claim.token.job_id].cancel_requested


def test_answers_come_in_the_order_asked(store):
    (done,) = failed(store)
    (running,) = claimed(store)
    (waiting,) = enqueued(store)

    changes = store.cancel([waiting, 10**12, running.token.job_id, done, -1])

    assert changes == [
        Change(done=True, state=State.CANCELLED),
        Change(done=False, state=None),
        Change(done=True, state=State.RUNNING),
        Change(done=False, state=State.FAILED),
        Change(done=False, state=None),
    ]


def test_a_job_that_is_named_twice_is_cancelled_once(store):
    (job_id,) = enqueued(store)

    assert store.cancel([job_id, job_id]) == [Change(done=True, state=State.CANCELLED)] * 2


def test_a_thousand_are_cancelled_at_once(store):
    ids = enqueued(store, *(new_job() for _ in range(MOST_ROWS)))

    assert store.cancel(ids) == [Change(done=True, state=State.CANCELLED)] * MOST_ROWS
    assert store.counts()[State.CANCELLED] == MOST_ROWS


def test_too_many_are_refused_and_none_is_cancelled(store):
    (job_id,) = enqueued(store)

    with pytest.raises(ValueError, match="1,001 rows"):
        store.cancel([job_id] * (MOST_ROWS + 1))

    assert store.jobs([job_id])[job_id].state is State.QUEUED


def test_nothing_to_cancel_is_nothing_done(store):
    assert store.cancel([]) == []


def test_an_id_that_no_job_can_have_keeps_no_other_from_being_cancelled(store):
    (existing,) = enqueued(store)

    assert store.cancel([2**63, existing]) == [
        Change(done=False, state=None),
        Change(done=True, state=State.CANCELLED),
    ]


def test_a_worker_can_ask_which_of_its_jobs_are_to_stop(store):
    first, second, third = claimed(store, *(new_job() for _ in range(3)))
    (other,) = claimed(store, worker="w2")
    assert store.stopping("w1") == []

    store.cancel([claim.token.job_id for claim in (third, first, other)])

    assert store.stopping("w1") == [first.token, third.token]
    assert store.stopping("w2") == [other.token]
    assert store.stopping("w3") == []
    store.settle([ended(first.token), ended(second.token)])
    assert store.stopping("w1") == [third.token]


def test_the_token_of_a_job_that_is_to_stop_is_that_of_its_present_attempt(store):
    (claim,) = claimed(store)
    store.advance([Advance(token=claim.token, lane=Lane(task="work", stage=1))])
    store.cancel([claim.token.job_id])

    (token,) = store.stopping("w1")

    assert token == claim.token.next()
    assert store.settle([ended(token, Outcome.CANCELLED)])[0].result == "done"
