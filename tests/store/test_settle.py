"""`settle`: an attempt ends once, by whoever holds its token."""

from datetime import timedelta

import pytest

from seawall.faults import Fault, FaultCode
from seawall.model import Outcome, Token
from seawall.states import State
from seawall.store.values import MOST_ROWS, Answer, Release, Result
from tests.support.ledger import TIMEOUT, claimed, ended, enqueued, lost, new_job, wanted

OUTCOMES = [
    (Outcome.SUCCEEDED, State.SUCCEEDED),
    (Outcome.SKIPPED, State.SKIPPED),
    (Outcome.RETRIED, State.QUEUED),
    (Outcome.SNOOZED, State.QUEUED),
    (Outcome.FAILED, State.FAILED),
    (Outcome.CANCELLED, State.CANCELLED),
]
LONE_SURROGATE = '["\ud800"]'


@pytest.mark.parametrize(("outcome", "state"), OUTCOMES)
def test_each_outcome_leaves_its_state_and_one_line_in_history(store, clock, outcome, state):
    (claim,) = claimed(store)
    clock.advance(5)

    (answer,) = store.settle([ended(claim.token, outcome, duration_seconds=4, policy="p@1")])

    assert (answer.result, answer.state) == (Result.DONE, state)
    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert (job.state, job.tries, job.seq, job.lease) == (state, 1, 1, None)
    (attempt,) = store.attempts(job.id)
    assert (attempt.outcome, attempt.counted, attempt.policy) == (outcome, True, "p@1")
    assert attempt.finished_at == clock.now()
    assert attempt.duration == timedelta(seconds=4)
    assert job.started_at == job.last_attempt_at == attempt.started_at
    assert (
        job.last_fault == attempt.fault == (TIMEOUT if outcome in ("retried", "failed") else None)
    )


@pytest.mark.parametrize(("outcome", "state"), OUTCOMES)
def test_asked_again_it_answers_already_and_changes_nothing(store, clock, outcome, state):
    (claim,) = claimed(store)
    store.settle([ended(claim.token, outcome)])
    before = store.jobs([claim.token.job_id]), store.attempts(claim.token.job_id)
    clock.advance(1)

    assert store.settle([ended(claim.token, outcome)]) == [Answer(Result.ALREADY, state)]
    assert (store.jobs([claim.token.job_id]), store.attempts(claim.token.job_id)) == before


def test_already_tells_the_state_of_now(store):
    (claim,) = claimed(store)
    store.settle([ended(claim.token, Outcome.RETRIED, delay_seconds=0)])
    (again,) = store.claim(wanted())

    retried = [ended(claim.token, Outcome.RETRIED, delay_seconds=0)]
    assert store.settle(retried) == [Answer(Result.ALREADY, State.RUNNING)]
    store.settle([ended(again.token)])
    assert store.settle(retried) == [Answer(Result.ALREADY, State.SUCCEEDED)]


def test_an_attempt_that_ended_cannot_end_otherwise(store):
    (claim,) = claimed(store)
    store.settle([ended(claim.token, output="[1]")])
    before = store.jobs([claim.token.job_id]), store.attempts(claim.token.job_id)

    answers = store.settle([ended(claim.token, Outcome.FAILED, output="[2]")])

    assert answers == [Answer(Result.LOST)]
    assert (store.jobs([claim.token.job_id]), store.attempts(claim.token.job_id)) == before
    assert store.output(claim.token.job_id, 0) == "[1]"


# --- what it writes ---------------------------------------------------------------------------


def test_a_retry_waits_for_its_delay_counted_from_now(store, clock):
    (claim,) = claimed(store)
    clock.advance(5)
    store.settle([ended(claim.token, Outcome.RETRIED, delay_seconds=30, age_seconds=4)])

    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert job.due_at == clock.now() + timedelta(seconds=30)
    assert [attempt.delay_seconds for attempt in store.attempts(job.id)] == [30.0]
    clock.advance(29)
    assert store.claim(wanted()) == []
    clock.advance(1)
    (again,) = store.claim(wanted())
    assert (again.token, again.tries) == (Token(job.id, 2, 2), 1)


def test_a_settlement_that_had_to_wait_says_when_the_attempt_really_ended(store, clock):
    (claim,) = claimed(store)
    clock.advance(100)

    store.settle([ended(claim.token, duration_seconds=10, age_seconds=60)])

    (attempt,) = store.attempts(claim.token.job_id)
    assert attempt.finished_at == clock.now() - timedelta(seconds=60)
    assert attempt.started_at == clock.now() - timedelta(seconds=70)
    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert (job.started_at, job.finished_at) == (attempt.started_at, clock.now())


def test_an_attempt_that_does_not_count_uses_up_no_try(store):
    (claim,) = claimed(store)

    store.settle([ended(claim.token, Outcome.RETRIED, delay_seconds=0, counts=False)])

    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert (job.tries, job.seq) == (0, 1)
    assert [attempt.counted for attempt in store.attempts(job.id)] == [False]


def test_the_start_is_that_of_the_first_attempt(store, clock):
    (first,) = claimed(store)
    clock.advance(10)
    store.settle([ended(first.token, Outcome.RETRIED, delay_seconds=0, duration_seconds=10)])
    clock.advance(10)
    (second,) = store.claim(wanted())
    running = store.jobs([first.token.job_id])[first.token.job_id]
    clock.advance(10)
    store.settle([ended(second.token, duration_seconds=5)])

    job = store.jobs([first.token.job_id])[first.token.job_id]
    one, two = store.attempts(job.id)
    assert running.started_at == job.started_at == one.started_at
    assert running.last_attempt_at == clock.now() - timedelta(seconds=10)
    assert job.last_attempt_at == two.started_at


def test_a_fault_is_kept_in_every_detail(store):
    fault = Fault(
        FaultCode.RATE_LIMITED, 'slow "down" 🌊', status=429, retry_after_seconds=1.5,
        request_id="req-1", ambiguous=True, detail="QUOTA", final=True, kinds=("a.B", "c.D"),
    )  # fmt: skip
    (claim,) = claimed(store)

    store.settle([ended(claim.token, Outcome.FAILED, fault=fault)])

    assert store.attempts(claim.token.job_id)[0].fault == fault
    assert store.jobs([claim.token.job_id])[claim.token.job_id].last_fault == fault


def test_history_carries_the_callers_own_id(store):
    (claim,) = claimed(store, new_job(request_id="req-7"))
    store.settle([ended(claim.token)])

    assert [a.caller_request_id for a in store.attempts(claim.token.job_id)] == ["req-7"]


@pytest.mark.parametrize("output", ["", "null", '["🌊\u2028\\N"]', '"' + "ü" * 1_000_000 + '"'])
def test_the_final_output_can_be_read(store, output):
    (claim,) = claimed(store)

    store.settle([ended(claim.token, output=output)])

    assert store.output(claim.token.job_id, 0) == output


def test_without_output_there_is_nothing_to_read(store):
    (claim,) = claimed(store)
    store.settle([ended(claim.token)])

    assert store.output(claim.token.job_id, 0) is None


def test_spans_as_long_as_may_be_can_be_kept(store):
    (claim,) = claimed(store, lease_seconds=1e10)
    longest = {"delay_seconds": 1e10, "duration_seconds": 1e10, "age_seconds": 1e10}

    (answer,) = store.settle([ended(claim.token, Outcome.RETRIED, **longest)])

    assert answer.result is Result.DONE
    (attempt,) = store.attempts(claim.token.job_id)
    assert (attempt.delay_seconds, attempt.duration.total_seconds()) == (1e10, 1e10)


# --- who may ----------------------------------------------------------------------------------


def test_a_lease_that_merely_lapsed_can_still_settle(store, clock):
    (claim,) = claimed(store, lease_seconds=60)
    clock.advance(3_600)

    assert store.settle([ended(claim.token)]) == [Answer(Result.DONE, State.SUCCEEDED)]
    assert store.reclaim([lost(claim.token)]) == [Answer(Result.LOST)]


@pytest.mark.parametrize(("outcome", "state"), OUTCOMES)
def test_a_token_of_a_lease_that_was_taken_back_settles_nothing(store, clock, outcome, state):
    (old,) = claimed(store, lease_seconds=60)
    clock.advance(60)
    store.reclaim([lost(old.token, 0)])
    stale = ended(old.token, outcome, output="stale")
    queued = store.jobs([old.token.job_id])
    assert store.settle([stale]) == [Answer(Result.LOST)]
    assert store.jobs([old.token.job_id]) == queued

    (new,) = store.claim(wanted(worker="w2"))
    running = store.jobs([old.token.job_id]), store.attempts(old.token.job_id)
    assert store.settle([stale]) == [Answer(Result.LOST)]

    assert (store.jobs([old.token.job_id]), store.attempts(old.token.job_id)) == running
    assert store.output(old.token.job_id, 0) is None
    assert store.settle([ended(new.token)]) == [Answer(Result.DONE, State.SUCCEEDED)]


def test_a_token_of_before_a_release_settles_nothing(store):
    (old,) = claimed(store)
    store.release([Release(token=old.token)])
    (new,) = store.claim(wanted())

    assert new.token.seq == old.token.seq
    assert store.settle([ended(old.token)]) == [Answer(Result.LOST)]
    assert store.settle([ended(new.token)]) == [Answer(Result.DONE, State.SUCCEEDED)]


@pytest.mark.parametrize(
    "wrong",
    [{"lease_no": 0}, {"lease_no": 2}, {"seq": 0}, {"seq": 2}, {"job_id": 10**12}, {"job_id": -1}],
)
def test_each_number_of_the_token_must_be_right(store, wrong):
    (claim,) = claimed(store)

    assert store.settle([ended(claim.token._replace(**wrong))]) == [Answer(Result.LOST)]
    assert store.attempts(claim.token.job_id) == []


@pytest.mark.parametrize("wrong", [{"lease_no": 2**40}, {"seq": 2**40}])
def test_a_token_that_no_job_can_have_is_lost(store, wrong):
    (claim,) = claimed(store)

    assert store.settle([ended(claim.token._replace(**wrong))]) == [Answer(Result.LOST)]


def test_a_job_that_waits_cannot_be_settled(store):
    (job_id,) = enqueued(store)

    assert store.settle([ended(Token(job_id, 0, 1))]) == [Answer(Result.LOST)]
    assert store.jobs([job_id])[job_id].state is State.QUEUED


# --- cancelled meanwhile ----------------------------------------------------------------------


def test_a_retry_of_a_job_that_is_to_stop_becomes_its_end(store, clock):
    (claim,) = claimed(store)
    store.cancel([claim.token.job_id])
    retried = [ended(claim.token, Outcome.RETRIED)]

    assert store.settle(retried) == [Answer(Result.DONE, State.CANCELLED)]

    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert (job.state, job.finished_at) == (State.CANCELLED, clock.now())
    assert (job.cancel_requested, job.last_fault, job.due_at) == (False, TIMEOUT, claim.due_at)
    assert [attempt.outcome for attempt in store.attempts(job.id)] == [Outcome.RETRIED]
    assert store.settle(retried) == [Answer(Result.ALREADY, State.CANCELLED)]


@pytest.mark.parametrize(("outcome", "state"), [pair for pair in OUTCOMES if pair[1] != "queued"])
def test_an_end_is_what_it_is_though_it_was_to_stop(store, outcome, state):
    (claim,) = claimed(store)
    store.cancel([claim.token.job_id])

    assert store.settle([ended(claim.token, outcome)]) == [Answer(Result.DONE, state)]

    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert (job.state, job.cancel_requested) == (state, False)


# --- batches ----------------------------------------------------------------------------------


def test_answers_come_in_the_order_asked(store):
    claims = claimed(store, *(new_job() for _ in range(5)))
    store.settle([ended(claims[1].token), ended(claims[3].token)])

    answers = store.settle(
        [ended(claim.token) for claim in reversed(claims)] + [ended(Token(10**12, 1, 1))]
    )

    done, already = (Answer(each, State.SUCCEEDED) for each in (Result.DONE, Result.ALREADY))
    assert answers == [done, already, done, already, done, Answer(Result.LOST)]


def test_a_batch_may_mix_every_outcome(store):
    claims = claimed(store, *(new_job() for _ in OUTCOMES))

    answers = store.settle(
        [ended(c.token, outcome) for c, (outcome, _) in zip(claims, OUTCOMES, strict=True)]
    )

    assert answers == [Answer(Result.DONE, state) for _, state in OUTCOMES]


def test_a_thousand_are_settled_at_once(store):
    claims = claimed(store, *(new_job() for _ in range(MOST_ROWS)), limit=MOST_ROWS)

    answers = store.settle([ended(claim.token, output="[1]") for claim in claims])

    assert answers == [Answer(Result.DONE, State.SUCCEEDED)] * MOST_ROWS
    assert store.counts()[State.SUCCEEDED] == MOST_ROWS


@pytest.mark.parametrize("many", [1, 2, 9])
def test_a_row_that_cannot_be_stored_is_refused_alone_and_its_lease_stands(store, many):
    claims = claimed(store, *(new_job() for _ in range(many)))
    rows = [ended(claim.token, output="[1]") for claim in claims]
    at = many // 2
    rows[at] = ended(claims[at].token, output=LONE_SURROGATE)

    answers = store.settle(rows)

    refused = answers.pop(at)
    assert (refused.result, refused.state) == (Result.REFUSED, None)
    assert "cannot be stored" in refused.reason
    assert answers == [Answer(Result.DONE, State.SUCCEEDED)] * (many - 1)
    job = store.jobs([claims[at].token.job_id])[claims[at].token.job_id]
    assert (job.state, job.lease_no, store.attempts(job.id)) == (State.RUNNING, 1, [])
    assert store.settle([ended(claims[at].token, Outcome.FAILED)])[0].result is Result.DONE


@pytest.mark.parametrize("policy", ["p\0", "\ud800", "", "p" * 201])
def test_a_policy_that_not_every_store_can_keep_is_refused(policy):
    with pytest.raises(ValueError, match=r"^policy: found"):
        ended(Token(1, 1, 1), policy=policy)


def test_too_many_or_the_same_job_twice_is_refused_and_settles_nothing(store):
    (claim,) = claimed(store)

    with pytest.raises(ValueError, match="1,001 rows"):
        store.settle([ended(Token(n, 1, 1)) for n in range(1, MOST_ROWS + 2)])
    with pytest.raises(ValueError, match="names a job twice"):
        store.settle([ended(claim.token), ended(claim.token, Outcome.FAILED)])

    assert store.attempts(claim.token.job_id) == []


def test_nothing_to_settle_is_nothing_done(store):
    assert store.settle([]) == []


def test_a_token_from_before_an_unbegun_release_is_lost_to_the_next_holder(store):
    """The attempt has the same number again: only the lease tells the two apart."""
    (first,) = claimed(store)
    store.release([Release(token=first.token)])
    (second,) = store.claim(wanted(worker="w2"))
    assert second.token.seq == first.token.seq

    assert store.settle([ended(first.token)]) == [Answer(Result.LOST)]

    assert store.settle([ended(second.token)])[0].result is Result.DONE
    assert [attempt.worker for attempt in store.attempts(first.token.job_id)] == ["w2"]


def test_a_snooze_waits_without_a_fault_and_says_nothing_of_the_last_one(store, clock):
    (claim,) = claimed(store)
    store.settle([ended(claim.token, Outcome.RETRIED, delay_seconds=0)])
    (claim,) = store.claim(wanted())
    snoozed = ended(claim.token, Outcome.SNOOZED, delay_seconds=600, counts=False)

    assert store.settle([snoozed]) == [Answer(Result.DONE, State.QUEUED)]

    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert (job.tries, job.seq, job.last_fault) == (1, 2, TIMEOUT)
    assert job.due_at == clock.now() + timedelta(seconds=600)
    last = store.attempts(job.id)[-1]
    assert (last.outcome, last.fault, last.delay_seconds) == (Outcome.SNOOZED, None, 600)
    assert not last.counted


def test_a_snooze_of_a_job_that_is_to_stop_becomes_its_end(store):
    (claim,) = claimed(store)
    store.cancel([claim.token.job_id])

    answers = store.settle([ended(claim.token, Outcome.SNOOZED)])

    assert answers == [Answer(Result.DONE, State.CANCELLED)]
