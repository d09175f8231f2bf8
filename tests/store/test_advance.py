"""`advance`: a stage is done, its output is kept, and the job runs on under the same lease."""

from datetime import timedelta

import pytest

from seawall.model import Lane, Outcome, Token
from seawall.states import State
from seawall.store.values import MOST_ROWS, Advance, Answer, Redrive, Release, Result
from tests.support.ledger import claimed, ended, enqueued, lost, new_job, wanted

SECOND = Lane(task="work", queue="slow", stage=1, upstream="openai", priority=3)
THIRD = Lane(task="work", stage=2)
SLOW = {"queues": ("slow", "default")}


def _advance(token, lane=SECOND, **fields):
    return Advance(token=token, lane=lane, **fields)


def test_a_finished_stage_leaves_a_line_in_history_and_the_job_in_its_next_lane(store, clock):
    (claim,) = claimed(store, lease_seconds=60)
    clock.advance(10)

    (answer,) = store.advance(
        [_advance(claim.token, output="[1]", policy="p@1", duration_seconds=4, age_seconds=1)]
    )

    assert answer == Answer(Result.DONE, State.RUNNING)
    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert (job.state, job.stage, job.queue, job.upstream, job.priority) == (
        State.RUNNING, 1, "slow", "openai", 3,
    )  # fmt: skip
    assert (job.seq, job.tries, job.lease_no) == (1, 0, 1)
    assert job.lease.until == claim.lease_until
    (attempt,) = store.attempts(job.id)
    assert (attempt.outcome, attempt.stage, attempt.seq) == (Outcome.ADVANCED, 0, 1)
    assert (attempt.counted, attempt.policy, attempt.worker) == (True, "p@1", "w1")
    assert attempt.finished_at == clock.now() - timedelta(seconds=1)
    assert attempt.duration == timedelta(seconds=4)
    assert job.started_at == attempt.started_at
    assert job.last_attempt_at == clock.now()  # the next attempt has begun
    assert store.output(job.id, 0) == "[1]"


def test_the_next_attempt_is_settled_by_the_next_token(store):
    (claim,) = claimed(store)
    store.advance([_advance(claim.token, output="[1]")])
    store.advance([_advance(claim.token.next(), THIRD, output="[2]")])

    (answer,) = store.settle([ended(claim.token.next().next(), output="[3]")])

    assert (answer.result, answer.state) == (Result.DONE, State.SUCCEEDED)
    job_id = claim.token.job_id
    assert [store.output(job_id, stage) for stage in range(4)] == ["[1]", "[2]", "[3]", None]
    assert [(a.seq, a.stage, a.outcome) for a in store.attempts(job_id)] == [
        (1, 0, Outcome.ADVANCED), (2, 1, Outcome.ADVANCED), (3, 2, Outcome.SUCCEEDED),
    ]  # fmt: skip


def test_what_a_stage_left_is_the_input_of_a_later_claim(store):
    (claim,) = claimed(store)
    store.advance([_advance(claim.token, output='["🌊"]')])
    store.settle([ended(claim.token.next(), Outcome.RETRIED, delay_seconds=0)])

    (again,) = store.claim(wanted(**SLOW))

    assert (again.lane, again.input, again.arguments) == (SECOND, '["🌊"]', "[]")
    assert again.token == Token(claim.token.job_id, 2, 3)


def test_a_stage_that_left_nothing_is_no_input(store):
    (claim,) = claimed(store)
    store.advance([_advance(claim.token)])
    store.release([Release(token=claim.token.next())])

    (again,) = store.claim(wanted(**SLOW))

    assert (again.input, store.output(claim.token.job_id, 0)) == (None, None)


def test_empty_output_is_output(store):
    (claim,) = claimed(store)
    store.advance([_advance(claim.token, output="")])
    store.release([Release(token=claim.token.next())])

    (again,) = store.claim(wanted(**SLOW))

    assert again.input == ""


def test_a_stage_done_again_leaves_only_what_it_left_last(store):
    (claim,) = claimed(store)
    store.advance([_advance(claim.token, output="old")])
    store.settle([ended(claim.token.next(), Outcome.FAILED)])
    store.redrive([Redrive(claim.token.job_id, Lane(task="work"))])
    (again,) = store.claim(wanted())

    store.advance([_advance(again.token, output="new")])

    assert store.output(claim.token.job_id, 0) == "new"


def test_a_stage_done_again_that_leaves_nothing_leaves_nothing(store):
    (claim,) = claimed(store)
    store.advance([_advance(claim.token, output="old")])
    store.settle([ended(claim.token.next(), Outcome.FAILED)])
    store.redrive([Redrive(claim.token.job_id, Lane(task="work"))])
    (again,) = store.claim(wanted())
    store.advance([_advance(again.token)])
    store.release([Release(token=again.token.next())])

    (third,) = store.claim(wanted(**SLOW))

    assert third.input is None


def test_tries_begin_anew_at_the_new_stage_and_losses_do_not(store, clock):
    (first,) = claimed(store)
    store.settle([ended(first.token, Outcome.RETRIED, delay_seconds=0)])
    (second,) = store.claim(wanted())
    clock.advance(60)
    store.reclaim([lost(second.token, 0)])
    (third,) = store.claim(wanted())
    assert (third.tries, third.losses) == (1, 1)

    store.advance([_advance(third.token)])

    job = store.jobs([third.token.job_id])[third.token.job_id]
    assert (job.tries, job.losses, job.seq) == (0, 1, 3)


def test_an_attempt_that_does_not_count_says_so_in_history(store):
    (claim,) = claimed(store)

    store.advance([_advance(claim.token, counts=False)])

    assert [attempt.counted for attempt in store.attempts(claim.token.job_id)] == [False]


def test_asked_again_it_answers_already_and_changes_nothing(store):
    (claim,) = claimed(store)
    store.advance([_advance(claim.token, output="[1]")])
    before = store.jobs([claim.token.job_id]), store.attempts(claim.token.job_id)

    assert store.advance([_advance(claim.token, output="[1]")]) == [
        Answer(Result.ALREADY, State.RUNNING)
    ]

    assert (store.jobs([claim.token.job_id]), store.attempts(claim.token.job_id)) == before


def test_already_tells_the_state_of_now(store):
    (claim,) = claimed(store)
    store.advance([_advance(claim.token)])
    store.settle([ended(claim.token.next())])

    assert store.advance([_advance(claim.token)]) == [Answer(Result.ALREADY, State.SUCCEEDED)]


def test_advancing_tells_that_someone_wants_it_to_stop(store):
    (claim,) = claimed(store)
    store.cancel([claim.token.job_id])

    (answer,) = store.advance([_advance(claim.token)])

    assert answer == Answer(Result.DONE, State.RUNNING, cancel_requested=True)
    assert store.jobs([claim.token.job_id])[claim.token.job_id].cancel_requested


def test_an_answer_that_was_lost_on_its_way_still_tells_it_when_asked_again(store):
    (claim,) = claimed(store)
    store.cancel([claim.token.job_id])
    store.advance([_advance(claim.token)])

    (answer,) = store.advance([_advance(claim.token)])

    assert answer == Answer(Result.ALREADY, State.RUNNING, cancel_requested=True)


def test_a_lapsed_lease_can_still_advance(store, clock):
    (claim,) = claimed(store, lease_seconds=60)
    clock.advance(3_600)

    (answer,) = store.advance([_advance(claim.token)])

    assert answer.result is Result.DONE
    assert [lapse.token for lapse in store.lapsed()] == [claim.token.next()]


def test_a_stale_token_advances_nothing(store, clock):
    (old,) = claimed(store, lease_seconds=60)
    clock.advance(60)
    store.reclaim([lost(old.token, 0)])
    (new,) = store.claim(wanted(worker="w2"))
    before = store.jobs([new.token.job_id]), store.attempts(new.token.job_id)

    assert store.advance([_advance(old.token, output="stale")]) == [Answer(Result.LOST)]

    assert (store.jobs([new.token.job_id]), store.attempts(new.token.job_id)) == before
    assert store.output(new.token.job_id, 0) is None


@pytest.mark.parametrize("wrong", [{"lease_no": 2}, {"seq": 2}, {"seq": 0}, {"job_id": 10**12}])
def test_each_number_of_the_token_must_be_right(store, wrong):
    (claim,) = claimed(store)

    assert store.advance([_advance(claim.token._replace(**wrong))]) == [Answer(Result.LOST)]
    assert store.attempts(claim.token.job_id) == []


@pytest.mark.parametrize("stage", [0, 1])
def test_a_job_only_goes_forward(store, stage):
    (claim,) = claimed(store)
    store.advance([_advance(claim.token, output="[1]")])
    before = store.jobs([claim.token.job_id]), store.attempts(claim.token.job_id)

    back = _advance(claim.token.next(), Lane(task="work", stage=stage), output="[2]")
    assert store.advance([back]) == [Answer(Result.LOST)]

    assert (store.jobs([claim.token.job_id]), store.attempts(claim.token.job_id)) == before
    assert [store.output(claim.token.job_id, n) for n in (0, 1)] == ["[1]", None]


def test_what_has_ended_cannot_advance(store):
    (claim,) = claimed(store)
    store.settle([ended(claim.token)])

    assert (
        store.advance([_advance(claim.token), _advance(Token(10**12, 1, 1))])
        == [Answer(Result.LOST)] * 2
    )


def test_answers_come_in_the_order_asked(store):
    claims = claimed(store, *(new_job() for _ in range(4)))
    store.advance([_advance(claims[1].token)])
    store.settle([ended(claims[2].token)])

    answers = store.advance([_advance(claim.token) for claim in reversed(claims)])

    assert [answer.result for answer in answers] == [
        Result.DONE, Result.LOST, Result.ALREADY, Result.DONE,
    ]  # fmt: skip


def test_a_row_that_cannot_be_stored_is_refused_alone_and_its_lease_stands(store):
    claims = claimed(store, *(new_job() for _ in range(5)))
    rows = [_advance(claim.token, output="[1]") for claim in claims]
    rows[2] = _advance(claims[2].token, output="\ud800")

    answers = store.advance(rows)

    refused = answers.pop(2)
    assert (refused.result, refused.state) == (Result.REFUSED, None)
    assert "cannot be stored" in refused.reason
    assert answers == [Answer(Result.DONE, State.RUNNING)] * 4
    assert store.attempts(claims[2].token.job_id) == []
    assert store.settle([ended(claims[2].token)])[0].result is Result.DONE


def test_a_released_next_stage_waits_in_its_own_lane_at_the_old_due_time(store, clock):
    (claim,) = claimed(store)
    clock.advance(10)
    store.advance([_advance(claim.token)])
    store.release([Release(token=claim.token.next())])
    enqueued(store, new_job(lane=SECOND))

    assert store.claim(wanted()) == []
    (again,) = store.claim(wanted(1, **SLOW))
    assert (again.token, again.due_at) == (Token(claim.token.job_id, 2, 2), claim.due_at)


def test_too_many_or_the_same_job_twice_is_refused_and_advances_nothing(store):
    (claim,) = claimed(store)

    with pytest.raises(ValueError, match="1,001 rows"):
        store.advance([_advance(Token(n, 1, 1)) for n in range(1, MOST_ROWS + 2)])
    with pytest.raises(ValueError, match="names a job twice"):
        store.advance([_advance(claim.token), _advance(claim.token.next(), THIRD)])

    assert store.attempts(claim.token.job_id) == []


def test_nothing_to_advance_is_nothing_done(store):
    assert store.advance([]) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [("output", "a\0b"), ("duration_seconds", -1), ("age_seconds", float("nan"))],
)
def test_what_no_store_can_keep_is_refused_before(field, value):
    with pytest.raises(ValueError, match=field):
        _advance(Token(1, 1, 1), **{field: value})
