"""`report`: how far an attempt has come; the last word counts, and only of whoever has the job."""

import pytest

from seawall.model import Outcome, Token
from seawall.states import State
from seawall.store.values import MOST_ROWS, Advance, Answer, Progress, Redrive, Release, Result
from tests.support.ledger import LANE, claimed, ended, lost, new_job, wanted

RUNNING = Answer(Result.DONE, State.RUNNING)


def told(token, done=1.0, **fields):
    return Progress(token=token, done=done, **fields)


def test_what_was_said_last_is_kept(store):
    (claim,) = claimed(store)
    job_id = claim.token.job_id
    assert store.progress(job_id) is None

    assert store.report([told(claim.token, 1, total=3, message="one of three")]) == [RUNNING]
    assert store.progress(job_id) == told(claim.token, 1, total=3, message="one of three")
    assert store.report([told(claim.token, 2.5)]) == [RUNNING]
    assert store.progress(job_id) == told(claim.token, 2.5)


def test_it_changes_nothing_else(store):
    (claim,) = claimed(store)
    before = store.jobs([claim.token.job_id])

    store.report([told(claim.token)])

    assert store.jobs([claim.token.job_id]) == before


def test_it_tells_whoever_is_to_stop(store):
    (claim,) = claimed(store)
    store.cancel([claim.token.job_id])

    assert store.report([told(claim.token)]) == [
        Answer(Result.DONE, State.RUNNING, cancel_requested=True)
    ]


def test_a_lost_attempt_says_nothing(store, clock):
    (old,) = claimed(store, lease_seconds=60)
    clock.advance(60)
    store.reclaim([lost(old.token, 0)])
    (new,) = store.claim(wanted(worker="w2"))
    store.report([told(new.token, 7)])

    assert store.report([told(old.token, 99)]) == [Answer(Result.LOST)]
    assert store.progress(new.token.job_id) == told(new.token, 7)


def test_an_attempt_that_was_advanced_from_says_nothing_more(store):
    (claim,) = claimed(store)
    store.report([told(claim.token, 1)])
    store.advance([Advance(token=claim.token, lane=type(LANE)(task="work", stage=1))])

    assert store.report([told(claim.token, 2)]) == [Answer(Result.LOST)]
    assert store.report([told(claim.token.next(), 3)]) == [RUNNING]
    assert store.progress(claim.token.job_id) == told(claim.token.next(), 3)


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.SNOOZED])
def test_the_last_word_outlives_the_attempt(store, outcome):
    (claim,) = claimed(store)
    store.report([told(claim.token)])
    store.settle([ended(claim.token, outcome)])

    assert store.progress(claim.token.job_id) == told(claim.token)
    assert store.report([told(claim.token, 2)]) == [Answer(Result.LOST)]


def test_what_was_said_before_a_job_that_had_not_begun_was_handed_back_does_no_harm(store):
    (claim,) = claimed(store)
    store.report([told(claim.token)])
    store.release([Release(token=claim.token)])

    assert store.verify().ok


def test_a_job_that_is_sent_again_starts_with_nothing_said(store):
    first, second = claimed(store, new_job(), new_job())
    store.report([told(first.token), told(second.token)])
    store.settle([ended(first.token, Outcome.FAILED), ended(second.token)])

    store.redrive([Redrive(first.token.job_id), Redrive(second.token.job_id)])

    assert store.progress(first.token.job_id) is None
    assert store.progress(second.token.job_id) == told(second.token), "it was not redriven"


def test_it_goes_with_its_job(store, clock):
    (claim,) = claimed(store)
    store.report([told(claim.token)])
    store.settle([ended(claim.token)])
    clock.advance(1)

    assert store.prune(State.SUCCEEDED, older_than_seconds=0) == 1
    assert store.progress(claim.token.job_id) is None


def test_answers_come_in_the_order_asked(store):
    claims = claimed(store, *(new_job() for _ in range(4)))
    store.settle([ended(claims[2].token)])

    answers = store.report([told(claim.token) for claim in reversed(claims)])

    assert [answer.result for answer in answers] == ["done", "lost", "done", "done"]
    assert store.report([]) == []


def test_too_many_or_the_same_job_twice_is_refused(store):
    with pytest.raises(ValueError, match="1,001 rows"):
        store.report([told(Token(n, 1, 1)) for n in range(1, MOST_ROWS + 2)])
    with pytest.raises(ValueError, match="names a job twice"):
        store.report([told(Token(1, 1, 1))] * 2)


@pytest.mark.parametrize("job_id", [0, -1, 2**63, 10**6])
def test_of_no_job_there_is_no_progress(store, job_id):
    assert store.progress(job_id) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"done": -1},
        {"done": float("nan")},
        {"done": None},
        {"done": 2**53},
        {"total": float("inf")},
        {"message": "two\nlines"},
        {"message": "x" * 201},
    ],
)
def test_what_is_no_amount_and_no_line_is_refused(fields):
    (name,) = fields
    with pytest.raises(ValueError, match=f"^{name}: "):
        Progress(**{"token": Token(1, 1, 1), "done": 1.0, **fields})
