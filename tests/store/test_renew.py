"""`renew`: a lease is extended by whoever holds it, until somebody else has taken the job."""

from datetime import timedelta

import pytest

from seawall.model import Lane, Outcome, Token
from seawall.states import State
from seawall.store.values import MOST_ROWS, Advance, Answer, Release, Result
from tests.support.ledger import claimed, ended, lost, new_job, wanted

DONE = Answer(Result.DONE, State.RUNNING)
LOST = Answer(Result.LOST)


def test_a_renewed_lease_lasts_from_now(store, clock):
    (claim,) = claimed(store, lease_seconds=60)
    clock.advance(50)

    assert store.renew([claim.token], lease_seconds=20) == [DONE]

    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert job.lease.until == clock.now() + timedelta(seconds=20)
    assert (job.lease_no, job.lease.worker, job.seq, job.tries) == (1, "w1", 0, 0)
    assert job.started_at == clock.now() - timedelta(seconds=50)


def test_a_lease_can_be_made_shorter(store, clock):
    (claim,) = claimed(store, lease_seconds=60)

    store.renew([claim.token], lease_seconds=1)
    clock.advance(1)

    assert [lapse.token for lapse in store.lapsed()] == [claim.token]


def test_renewing_again_is_nothing_new(store):
    (claim,) = claimed(store)

    first = store.renew([claim.token], lease_seconds=60), store.jobs([claim.token.job_id])
    second = store.renew([claim.token], lease_seconds=60), store.jobs([claim.token.job_id])

    assert first == second


def test_a_lease_that_merely_lapsed_can_still_be_renewed(store, clock):
    (claim,) = claimed(store, lease_seconds=60)
    clock.advance(3_600)

    assert store.renew([claim.token], lease_seconds=60) == [DONE]
    assert store.lapsed() == []
    assert store.reclaim([lost(claim.token)]) == [LOST]


def test_a_lease_that_was_taken_back_cannot_be_renewed(store, clock):
    (claim,) = claimed(store, lease_seconds=60)
    clock.advance(60)
    store.reclaim([lost(claim.token, 0)])
    before = store.jobs([claim.token.job_id])

    assert store.renew([claim.token], lease_seconds=60) == [LOST]
    assert store.jobs([claim.token.job_id]) == before


def test_the_lease_of_the_next_worker_is_not_touched_by_the_one_before(store, clock):
    (old,) = claimed(store, lease_seconds=60)
    clock.advance(60)
    store.reclaim([lost(old.token, 0)])
    (new,) = store.claim(wanted(worker="w2", lease_seconds=60))
    before = store.jobs([new.token.job_id])
    clock.advance(1)

    assert store.renew([old.token], lease_seconds=600) == [LOST]
    assert store.jobs([new.token.job_id]) == before
    assert store.renew([new.token], lease_seconds=600) == [DONE]


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.RETRIED])
def test_what_has_ended_cannot_be_renewed(store, outcome):
    (claim,) = claimed(store)
    store.settle([ended(claim.token, outcome)])
    before = store.jobs([claim.token.job_id])

    assert store.renew([claim.token], lease_seconds=60) == [LOST]
    assert store.jobs([claim.token.job_id]) == before


def test_what_was_handed_back_cannot_be_renewed(store):
    (claim,) = claimed(store)
    store.release([Release(token=claim.token)])

    assert store.renew([claim.token], lease_seconds=60) == [LOST]


def test_the_next_stage_runs_under_the_lease_of_the_one_before(store, clock):
    (claim,) = claimed(store, lease_seconds=60)
    store.advance([Advance(token=claim.token, lane=Lane(task="work", stage=1))])
    clock.advance(10)

    assert store.renew([claim.token.next()], lease_seconds=60) == [DONE]

    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert job.lease.until == clock.now() + timedelta(seconds=60)


def test_renewing_tells_that_someone_wants_it_to_stop(store):
    first, second = claimed(store, new_job(), new_job())
    store.cancel([second.token.job_id])

    answers = store.renew([second.token, first.token], lease_seconds=60)

    assert answers == [Answer(Result.DONE, State.RUNNING, cancel_requested=True), DONE]


def test_answers_come_in_the_order_asked(store):
    claims = claimed(store, *(new_job() for _ in range(6)))
    store.settle([ended(claim.token) for claim in claims[::2]])
    tokens = [claim.token for claim in reversed(claims)] + [Token(10**12, 1, 1)]

    assert store.renew(tokens, lease_seconds=60) == [DONE, LOST] * 3 + [LOST]


def test_a_lease_number_that_is_not_the_jobs_own_renews_nothing(store):
    (claim,) = claimed(store)

    assert store.renew([claim.token._replace(lease_no=2)], lease_seconds=60) == [LOST]


def test_a_lease_number_that_no_job_can_have_is_lost_and_keeps_no_other_from_its_lease(store):
    first, second = claimed(store, new_job(), new_job())
    tokens = [first.token, second.token._replace(lease_no=2**40)]

    assert store.renew(tokens, lease_seconds=60) == [DONE, LOST]


def test_nothing_to_renew_is_nothing_done(store):
    assert store.renew([], lease_seconds=60) == []


def test_a_thousand_are_renewed_at_once(store, clock):
    claims = claimed(store, *(new_job() for _ in range(MOST_ROWS)), limit=MOST_ROWS)
    clock.advance(59)

    assert store.renew([c.token for c in claims], lease_seconds=60) == [DONE] * MOST_ROWS
    clock.advance(59)
    assert store.lapsed() == []


def test_too_many_or_the_same_job_twice_is_refused_and_renews_nothing(store, clock):
    (claim,) = claimed(store)
    before = store.jobs([claim.token.job_id])
    clock.advance(1)

    with pytest.raises(ValueError, match="1,001 rows"):
        store.renew([Token(n, 1, 1) for n in range(1, MOST_ROWS + 2)], lease_seconds=60)
    with pytest.raises(ValueError, match="names a job twice"):
        store.renew([claim.token, claim.token.next()], lease_seconds=60)

    assert store.jobs([claim.token.job_id]) == before


@pytest.mark.parametrize("seconds", [0, -1, 0.0001, float("nan"), 1e11])
def test_a_lease_cannot_be_renewed_for_no_span_of_time(store, seconds):
    (claim,) = claimed(store)
    before = store.jobs([claim.token.job_id])

    with pytest.raises(ValueError, match="lease_seconds"):
        store.renew([claim.token], lease_seconds=seconds)

    assert store.jobs([claim.token.job_id]) == before
