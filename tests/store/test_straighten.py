"""`straighten`: what a clock that was ahead has set is put right, and what a person chose is not."""

from datetime import timedelta

import pytest

from seawall.model import Outcome
from seawall.states import State
from seawall.store.values import MOST_ROWS, SLACK_SECONDS, Redrive, Release, Scope, Straightened
from tests.support.ledger import claimed, ended, enqueued, failed, lost, new_job, wanted

DAY = 86_400


def _goes_back(clock, seconds=DAY):
    clock._now -= timedelta(seconds=seconds)


def _due(store, clock, job_id):
    """How many seconds from now the job is due."""
    return (store.jobs([job_id])[job_id].due_at - clock.now()).total_seconds()


def test_a_job_enqueued_under_a_clock_that_was_ahead_is_due_now(store, clock):
    ids = enqueued(store, new_job(), new_job())
    _goes_back(clock)
    assert store.claim(wanted()) == []

    assert store.straighten() == Straightened(due_times=2, leases=0, holds=0)

    assert [_due(store, clock, job_id) for job_id in ids] == [0, 0]
    assert [claim.token.job_id for claim in store.claim(wanted())] == ids


def test_a_retry_keeps_its_wait(store, clock):
    (claim,) = claimed(store)
    store.settle([ended(claim.token, Outcome.RETRIED, delay_seconds=30)])
    _goes_back(clock)

    assert store.straighten() == Straightened(due_times=1, leases=0, holds=0)

    assert _due(store, clock, claim.token.job_id) == 30


def test_a_snooze_keeps_its_wait(store, clock):
    (claim,) = claimed(store)
    store.settle([ended(claim.token, Outcome.SNOOZED, delay_seconds=30)])
    _goes_back(clock)

    store.straighten()

    assert _due(store, clock, claim.token.job_id) == 30


def test_a_lost_job_keeps_its_wait(store, clock):
    (claim,) = claimed(store)
    clock.advance(60)
    store.reclaim([lost(claim.token, 20)])
    _goes_back(clock)

    store.straighten()

    assert _due(store, clock, claim.token.job_id) == 20


def test_a_job_that_was_sent_again_is_due_now(store, clock):
    (job_id,) = failed(store)
    store.redrive([Redrive(job_id)])
    _goes_back(clock)

    store.straighten()

    assert _due(store, clock, job_id) == 0


def test_a_job_that_was_handed_back_is_due_now(store, clock):
    (claim,) = claimed(store)
    store.release([Release(token=claim.token)])
    _goes_back(clock)

    assert store.straighten() == Straightened(due_times=1, leases=0, holds=0)
    assert _due(store, clock, claim.token.job_id) == 0


@pytest.mark.parametrize("many", [1, 500])
def test_a_time_that_a_person_chose_is_left_alone(store, clock, many):
    chosen = clock.now() + timedelta(hours=1)
    ids = enqueued(store, *(new_job(run_after=chosen) for _ in range(many)))
    _goes_back(clock)

    assert store.straighten() == Straightened(0, 0, 0)
    assert {job.due_at for job in store.jobs(ids).values()} == {chosen}


@pytest.mark.parametrize("many", [1, 500])
def test_a_chosen_time_that_a_clock_ahead_took_for_past_is_not_lost_in_the_future(
    store, clock, many
):
    right = clock.now()
    clock.advance(DAY)
    enqueued(store, *(new_job(run_after=right + timedelta(hours=1)) for _ in range(many)))
    _goes_back(clock)

    store.straighten()
    clock.advance(3_600)

    assert len(store.claim(wanted(MOST_ROWS))) == many


def test_a_chosen_time_does_not_keep_a_later_retry_from_being_put_right(store, clock):
    enqueued(store, new_job(run_after=clock.now()))
    (claim,) = store.claim(wanted())
    store.settle([ended(claim.token, Outcome.RETRIED, delay_seconds=30)])
    _goes_back(clock)

    store.straighten()

    assert _due(store, clock, claim.token.job_id) == 30


def test_a_lease_keeps_its_length(store, clock):
    (claim,) = claimed(store, lease_seconds=60)
    _goes_back(clock)
    clock.advance(1)

    assert store.straighten() == Straightened(due_times=0, leases=1, holds=0)

    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert job.lease.until == clock.now() + timedelta(seconds=60)
    assert (job.lease_no, job.lease.worker) == (1, "w1")
    clock.advance(60)
    assert [lapse.token for lapse in store.lapsed()] == [claim.token]


def test_a_renewed_lease_is_put_right_by_when_it_was_renewed(store, clock):
    (claim,) = claimed(store, lease_seconds=600)
    clock.advance(10)
    store.renew([claim.token], lease_seconds=30)
    _goes_back(clock)

    store.straighten()

    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert job.lease.until == clock.now() + timedelta(seconds=30)


def test_a_hold_keeps_its_length(store, clock):
    enqueued(store)
    _goes_back(clock)
    store.straighten()
    clock.advance(DAY)
    store.hold(Scope.TASK, "work", reason="because", seconds=30)
    _goes_back(clock)

    assert store.straighten() == Straightened(due_times=0, leases=0, holds=1)

    (hold,) = store.holds()
    assert (hold.since, hold.until) == (clock.now(), clock.now() + timedelta(seconds=30))
    clock.advance(30)
    assert len(store.claim(wanted())) == 1


def test_a_hold_without_end_stays_one(store, clock):
    store.hold(Scope.TASK, "work", reason="because")
    _goes_back(clock)

    store.straighten()

    assert [hold.until for hold in store.holds()] == [None]


def test_the_holder_of_such_a_lease_may_still_settle(store, clock):
    (claim,) = claimed(store)
    _goes_back(clock)
    store.straighten()
    clock.advance(1)

    (answer,) = store.settle([ended(claim.token, duration_seconds=1)])

    assert answer.state is State.SUCCEEDED
    assert [a.finished_at for a in store.attempts(claim.token.job_id)] == [clock.now()]


@pytest.mark.parametrize("seconds", [0, 1, SLACK_SECONDS])
def test_a_small_difference_is_left_alone(store, clock, seconds):
    enqueued(store, new_job(), new_job())
    store.claim(wanted(1))
    before = store.jobs([1, 2])
    _goes_back(clock, seconds)

    assert store.straighten() == Straightened(0, 0, 0)
    assert store.jobs([1, 2]) == before


def test_a_difference_beyond_the_slack_is_not(store, clock):
    enqueued(store, new_job(), new_job())
    store.claim(wanted(1))
    _goes_back(clock, SLACK_SECONDS + 0.000001)

    assert store.straighten() == Straightened(due_times=1, leases=1, holds=0)


def test_asked_again_it_finds_nothing_left_to_do(store, clock):
    claimed(store, new_job(), new_job(), limit=1)
    _goes_back(clock)
    store.straighten()
    before = store.jobs([1, 2])

    assert store.straighten() == Straightened(0, 0, 0)
    assert store.jobs([1, 2]) == before


def test_a_long_wait_that_an_honest_clock_set_is_left_alone(store, clock):
    (claim,) = claimed(store, lease_seconds=10 * DAY)
    (other,) = claimed(store)
    store.settle([ended(other.token, Outcome.RETRIED, delay_seconds=10 * DAY)])
    clock.advance(DAY)

    assert store.straighten() == Straightened(0, 0, 0)
    assert store.jobs([claim.token.job_id])[claim.token.job_id].lease.until == claim.lease_until


def test_what_has_ended_is_left_alone(store, clock):
    claims = claimed(store, new_job(), new_job())
    store.settle([ended(claims[0].token), ended(claims[1].token, Outcome.FAILED)])
    _goes_back(clock)

    assert store.straighten() == Straightened(0, 0, 0)


def test_it_goes_in_bounded_batches(store, clock):
    enqueued(store, *(new_job() for _ in range(6)))
    store.claim(wanted(3))
    _goes_back(clock)

    found = [store.straighten(limit=2) for _ in range(3)]

    assert found == [Straightened(2, 2, 0), Straightened(1, 1, 0), Straightened(0, 0, 0)]


@pytest.mark.parametrize("limit", [0, -1, MOST_ROWS + 1])
def test_a_limit_out_of_bounds_is_refused(store, clock, limit):
    (job_id,) = enqueued(store)
    _goes_back(clock)

    with pytest.raises(ValueError, match="limit"):
        store.straighten(limit=limit)

    assert _due(store, clock, job_id) == DAY
