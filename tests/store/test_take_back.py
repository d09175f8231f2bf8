"""Taking a job back before it is due, as whoever called now does for a second attempt."""

from datetime import timedelta

import pytest

from seawall.faults import Fault, FaultCode
from seawall.model import Begin, Lane, Outcome, Token
from seawall.states import State
from seawall.store import Result, Scope
from seawall.store.values import Advance
from tests.support.ledger import TIMEOUT, ended, enqueued, new_job, wanted

ME = "inline:me"


def born(store, worker=ME, **fields):
    """A job that was tried at once, failed, and waits for its next attempt."""
    (job_id,) = enqueued(store, new_job(begin=Begin(worker=worker, lease_seconds=30), **fields))
    token = Token(job_id, 1, 1)
    (answer,) = store.settle([ended(token, Outcome.RETRIED, counts=False)])
    assert answer.result is Result.DONE
    return token


def taken(store, token, worker=ME, lease_seconds=20.0):
    return store.take_back(token, worker=worker, lease_seconds=lease_seconds)


def test_a_job_is_taken_back_before_it_is_due_under_a_new_lease(store, clock):
    token = born(store, tags=("t",), owner="ann", request_id="r-1")
    claim = taken(store, token)
    assert claim.token == Token(token.job_id, 2, 2)
    assert (claim.lane, claim.owner, claim.request_id) == (Lane("work"), "ann", "r-1")
    assert (claim.arguments, claim.tries, claim.history, claim.input) == ("[]", 0, None, None)
    assert claim.lease_until == clock.now() + timedelta(seconds=20)
    job = store.jobs([token.job_id])[token.job_id]
    assert (job.state, job.lease.worker, job.lease_no) == (State.RUNNING, ME, 2)
    assert store.settle([ended(claim.token)])[0].result is Result.DONE


def test_it_is_taken_back_once(store):
    token = born(store)
    assert taken(store, token) is not None
    assert taken(store, token) is None


def test_what_a_worker_has_or_had_is_not_taken_back(store, clock):
    token = born(store)
    clock.advance(31)
    (claim,) = store.claim(wanted())
    assert taken(store, token) is None
    store.settle([ended(claim.token, Outcome.RETRIED)])
    assert taken(store, token) is None, "another has tried it since"


def test_what_was_cancelled_or_has_ended_is_not_taken_back(store):
    token = born(store)
    store.cancel([token.job_id])
    assert taken(store, token) is None
    (job_id,) = enqueued(store, new_job(begin=Begin(worker=ME, lease_seconds=30)))
    store.settle([ended(Token(job_id, 1, 1))])
    assert taken(store, Token(job_id, 1, 1)) is None
    assert taken(store, Token(999, 1, 1)) is None


def test_what_is_past_its_deadline_is_not_taken_back(store, clock):
    token = born(store, deadline_seconds=5)
    clock.advance(6)
    assert taken(store, token) is None


def test_a_hold_is_the_callers_affair(store):
    token = born(store)
    store.hold(Scope.QUEUE, "default", reason="a test")
    assert taken(store, token) is not None


def test_a_later_stage_comes_with_what_the_one_before_left(store):
    (job_id,) = enqueued(store, new_job(begin=Begin(worker=ME, lease_seconds=30)))
    first = Token(job_id, 1, 1)
    store.advance([Advance(token=first, lane=Lane("work", stage=1), output='"half"')])
    store.settle([ended(first.next(), Outcome.RETRIED, counts=False)])
    claim = taken(store, first.next())
    assert (claim.lane.stage, claim.input) == (1, '"half"')


def test_what_was_tried_inline_is_not_held_against_the_workers(store, clock):
    token = born(store)
    claim = taken(store, token)
    store.settle([ended(claim.token, Outcome.RETRIED, counts=False)])
    clock.advance(31)
    (claim,) = store.claim(wanted())
    assert store.earlier(claim) == []
    store.settle([ended(claim.token, Outcome.RETRIED)])
    clock.advance(31)
    (claim,) = store.claim(wanted())
    assert [each.fault for each in store.earlier(claim)] == [TIMEOUT]
    assert claim.tries == 1
    assert len(store.attempts(token.job_id)) == 3


def test_an_attempt_of_a_worker_is(store, clock):
    token = born(store, worker="w1")
    clock.advance(31)
    (claim,) = store.claim(wanted())
    assert [each.fault for each in store.earlier(claim)] == [TIMEOUT]
    fault = Fault(FaultCode.TIMEOUT, "no answer")
    assert store.attempts(token.job_id)[0].fault == fault


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "60"])
def test_a_lease_that_lasts_no_time_is_refused(store, seconds):
    with pytest.raises(ValueError, match="lease_seconds"):
        taken(store, Token(1, 1, 1), lease_seconds=seconds)
