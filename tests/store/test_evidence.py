"""What an attempt leaves for operators is written with its end, and goes with its job."""

import pytest

from seawall.model import Outcome
from seawall.states import State
from seawall.store.values import Evidence, Result
from tests.support.ledger import claimed, ended, lost, new_job, wanted


@pytest.mark.parametrize(
    "left",
    [
        {"traceback": "line 1\nline 2", "raw_output": "{"},
        {"traceback": "only this", "raw_output": None},
        {"traceback": None, "raw_output": "only that"},
    ],
)
def test_it_is_kept_with_its_attempt(store, left):
    (claim,) = claimed(store)

    store.settle([ended(claim.token, Outcome.RETRIED, **left)])

    job_id = claim.token.job_id
    assert store.evidence(job_id, 1) == Evidence(**left)
    assert store.evidence(job_id, 2) is None


def test_each_attempt_has_its_own(store):
    (claim,) = claimed(store)
    for text in "ab":
        store.settle([ended(claim.token, Outcome.RETRIED, delay_seconds=0, traceback=text)])
        (claim,) = store.claim(wanted())
    store.settle([ended(claim.token)])

    kept = [store.evidence(claim.token.job_id, seq) for seq in (1, 2, 3)]

    assert kept == [Evidence("a", None), Evidence("b", None), None]


def test_a_lost_attempt_leaves_nothing(store, clock):
    (claim,) = claimed(store)
    clock.advance(60)
    store.reclaim([lost(claim.token)])

    (answer,) = store.settle([ended(claim.token, traceback="late")])

    assert answer.result is Result.LOST
    assert store.evidence(claim.token.job_id, 1) is None


def test_asked_again_it_stands_as_it_was(store):
    (claim,) = claimed(store)
    store.settle([ended(claim.token, traceback="first")])

    (answer,) = store.settle([ended(claim.token, traceback="second")])

    assert answer.result is Result.ALREADY
    assert store.evidence(claim.token.job_id, 1) == Evidence("first", None)


def test_it_is_written_in_an_exchange_too(store):
    (claim,) = claimed(store)

    store.exchange([ended(claim.token, Outcome.FAILED, raw_output="raw")], wanted())

    assert store.evidence(claim.token.job_id, 1) == Evidence(None, "raw")


def test_evidence_that_cannot_be_kept_is_refused_for_its_row_alone(store):
    bad, good = claimed(store, new_job(), new_job())

    answers = store.settle(
        [ended(bad.token, traceback="\ud800"), ended(good.token, traceback="fine")]
    )

    assert [answer.result for answer in answers] == [Result.REFUSED, Result.DONE]
    assert store.evidence(good.token.job_id, 1) == Evidence("fine", None)


def test_it_goes_with_its_job_and_leaves_others_alone(store, clock):
    first, second = claimed(store, new_job(), new_job())
    store.settle([ended(first.token, traceback="x")])
    clock.advance(10)
    store.settle([ended(second.token, traceback="y")])

    assert store.prune(State.SUCCEEDED, older_than_seconds=5) == 1

    assert store.evidence(first.token.job_id, 1) is None
    assert store.evidence(second.token.job_id, 1) == Evidence("y", None)


@pytest.mark.parametrize(("job_id", "seq"), [(0, 1), (1, 0), (1, 2**31), (2**63, 1), (1, 1)])
def test_of_no_attempt_there_is_none(store, job_id, seq):
    assert store.evidence(job_id, seq) is None


def test_what_a_job_was_asked_to_work_on_can_be_read(store):
    (claim,) = claimed(store, new_job('["a.pdf"]'))

    assert store.arguments(claim.token.job_id) == '["a.pdf"]'
    assert [store.arguments(other) for other in (0, 2**63, 10**6)] == [None] * 3
