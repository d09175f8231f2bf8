"""`release`: a job handed back is as it was, and only what had begun leaves a line in history."""

from datetime import timedelta

import pytest

from seawall.model import Outcome, Token
from seawall.states import State
from seawall.store.values import MOST_ROWS, Answer, Release, Result
from tests.support.ledger import claimed, ended, enqueued, lost, new_job, wanted

QUEUED = Answer(Result.DONE, State.QUEUED)


def _but(job, *names):
    return {name: getattr(job, name) for name in type(job).__slots__ if name not in names}


def test_a_job_that_had_not_begun_is_as_if_it_had_never_been_claimed(store, clock):
    (job_id,) = enqueued(store)
    before = store.jobs([job_id])[job_id]
    clock.advance(10)
    (claim,) = store.claim(wanted())
    clock.advance(10)

    assert store.release([Release(token=claim.token)]) == [QUEUED]

    job = store.jobs([job_id])[job_id]
    assert _but(job, "lease_no") == _but(before, "lease_no")
    assert job.lease_no == 1
    assert store.attempts(job_id) == []


def test_it_goes_back_to_its_old_place(store, clock):
    ids = enqueued(store, new_job(), new_job(), new_job())
    first, second = store.claim(wanted(2))
    clock.advance(10)

    store.release([Release(token=second.token), Release(token=first.token, duration_seconds=1)])

    assert [claim.token.job_id for claim in store.claim(wanted())] == ids


def test_a_job_that_had_begun_leaves_an_attempt_that_does_not_count(store, clock):
    (claim,) = claimed(store, new_job(request_id="r"))
    clock.advance(10)

    (answer,) = store.release([Release(token=claim.token, duration_seconds=4, age_seconds=1)])

    assert answer == QUEUED
    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert (job.state, job.tries, job.losses, job.seq) == (State.QUEUED, 0, 0, 1)
    assert (job.due_at, job.lease, job.last_fault) == (claim.due_at, None, None)
    (attempt,) = store.attempts(job.id)
    assert (attempt.outcome, attempt.counted, attempt.fault) == (Outcome.RELEASED, False, None)
    assert attempt.finished_at == clock.now() - timedelta(seconds=1)
    assert attempt.duration == timedelta(seconds=4)
    assert (attempt.worker, attempt.caller_request_id) == ("w1", "r")
    assert job.started_at == job.last_attempt_at == attempt.started_at


def test_a_job_that_ran_for_no_time_had_begun_all_the_same(store):
    (claim,) = claimed(store)

    store.release([Release(token=claim.token, duration_seconds=0.0)])

    assert [a.outcome for a in store.attempts(claim.token.job_id)] == [Outcome.RELEASED]


def test_what_it_has_been_through_is_kept(store, clock):
    (first,) = claimed(store)
    store.settle([ended(first.token, Outcome.RETRIED, delay_seconds=5)])
    clock.advance(5)
    (second,) = store.claim(wanted())
    before = store.jobs([first.token.job_id])[first.token.job_id]

    store.release([Release(token=second.token)])

    job = store.jobs([first.token.job_id])[first.token.job_id]
    same = ("tries", "seq", "losses", "last_fault", "started_at", "due_at", "lease_no")
    assert [getattr(job, name) for name in same] == [getattr(before, name) for name in same]
    assert job.last_attempt_at == store.attempts(job.id)[0].started_at


def test_a_job_whose_time_a_person_chose_keeps_it(store, clock):
    chosen = clock.now() + timedelta(hours=1)
    enqueued(store, new_job(run_after=chosen))
    clock.advance(4_000)
    (claim,) = store.claim(wanted())

    store.release([Release(token=claim.token)])

    assert store.jobs([claim.token.job_id])[claim.token.job_id].due_at == chosen


def test_the_next_claim_has_the_next_lease_number(store):
    (first,) = claimed(store)
    store.release([Release(token=first.token)])
    (second,) = store.claim(wanted())
    store.release([Release(token=second.token, duration_seconds=1)])
    (third,) = store.claim(wanted())

    job_id = first.token.job_id
    assert [second.token, third.token] == [Token(job_id, 2, 1), Token(job_id, 3, 2)]


def test_asked_again_for_what_had_begun_it_answers_already(store):
    (claim,) = claimed(store)
    release = Release(token=claim.token, duration_seconds=1)
    store.release([release])
    before = store.jobs([claim.token.job_id]), store.attempts(claim.token.job_id)

    assert store.release([release]) == [Answer(Result.ALREADY, State.QUEUED)]
    assert (store.jobs([claim.token.job_id]), store.attempts(claim.token.job_id)) == before


def test_asked_again_for_what_had_not_begun_it_answers_lost(store):
    (claim,) = claimed(store)
    store.release([Release(token=claim.token)])
    (again,) = store.claim(wanted())

    assert store.release([Release(token=claim.token)]) == [Answer(Result.LOST)]
    assert store.jobs([again.token.job_id])[again.token.job_id].state is State.RUNNING


def test_a_lapsed_lease_can_still_be_handed_back(store, clock):
    (claim,) = claimed(store, lease_seconds=60)
    clock.advance(3_600)

    assert store.release([Release(token=claim.token)]) == [QUEUED]
    assert store.lapsed() == []


@pytest.mark.parametrize("duration", [None, 1.0])
def test_a_stale_token_hands_nothing_back(store, clock, duration):
    (old,) = claimed(store, lease_seconds=60)
    clock.advance(60)
    store.reclaim([lost(old.token, 0)])
    (new,) = store.claim(wanted(worker="w2"))
    before = store.jobs([new.token.job_id]), store.attempts(new.token.job_id)

    answers = store.release([Release(token=old.token, duration_seconds=duration)])

    assert answers == [Answer(Result.LOST)]
    assert (store.jobs([new.token.job_id]), store.attempts(new.token.job_id)) == before


def test_what_has_ended_cannot_be_handed_back(store):
    (claim,) = claimed(store)
    store.settle([ended(claim.token)])

    assert store.release([Release(token=claim.token, duration_seconds=1)]) == [Answer(Result.LOST)]


@pytest.mark.parametrize(("duration", "attempts"), [(None, []), (1.0, [Outcome.RELEASED])])
def test_a_job_that_is_to_stop_is_cancelled_instead(store, clock, duration, attempts):
    (claim,) = claimed(store)
    store.cancel([claim.token.job_id])

    answers = store.release([Release(token=claim.token, duration_seconds=duration)])

    assert answers == [Answer(Result.DONE, State.CANCELLED)]
    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert (job.state, job.finished_at) == (State.CANCELLED, clock.now())
    assert not job.cancel_requested
    assert [attempt.outcome for attempt in store.attempts(job.id)] == attempts


def test_answers_come_in_the_order_asked(store):
    claims = claimed(store, *(new_job() for _ in range(4)))
    store.release([Release(token=claims[1].token, duration_seconds=1)])
    store.settle([ended(claims[2].token)])

    answers = store.release(
        [Release(token=claim.token, duration_seconds=1) for claim in reversed(claims)]
    )

    assert [answer.result for answer in answers] == [
        Result.DONE, Result.LOST, Result.ALREADY, Result.DONE,
    ]  # fmt: skip


def test_a_batch_may_mix_what_had_begun_and_what_had_not(store):
    claims = claimed(store, *(new_job() for _ in range(4)))

    answers = store.release(
        [Release(token=c.token, duration_seconds=at % 2 or None) for at, c in enumerate(claims)]
    )

    assert answers == [QUEUED] * 4
    assert [len(store.attempts(claim.token.job_id)) for claim in claims] == [0, 1, 0, 1]


def test_too_many_or_the_same_job_twice_is_refused_and_releases_nothing(store):
    (claim,) = claimed(store)

    with pytest.raises(ValueError, match="1,001 rows"):
        store.release([Release(token=Token(n, 1, 1)) for n in range(1, MOST_ROWS + 2)])
    with pytest.raises(ValueError, match="names a job twice"):
        store.release([Release(token=claim.token)] * 2)

    assert store.counts()[State.RUNNING] == 1


def test_nothing_to_release_is_nothing_done(store):
    assert store.release([]) == []


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_a_job_cannot_have_run_for_no_span_of_time(seconds):
    with pytest.raises(ValueError, match="duration_seconds"):
        Release(token=Token(1, 1, 1), duration_seconds=seconds)
