"""`redrive`: a failed job is sent again, with a fresh allowance and all of its history."""

from datetime import timedelta

import pytest

from seawall.model import Lane, Outcome, Token
from seawall.states import State
from seawall.store.values import MOST_ROWS, Advance, Change, Redrive
from tests.support.ledger import claimed, ended, enqueued, failed, lost, new_job, wanted

SENT = Change(done=True, state=State.QUEUED)
SECOND = Lane(task="work", stage=1, upstream="openai")


def _failed_at_the_second_stage(store):
    (claim,) = claimed(store)
    store.advance([Advance(token=claim.token, lane=SECOND, output="one")])
    store.settle([ended(claim.token.next(), Outcome.FAILED)])
    return claim.token.job_id


def test_a_failed_job_is_due_now_with_a_fresh_allowance(store, clock):
    (first,) = claimed(store)
    clock.advance(60)
    store.reclaim([lost(first.token, 0)])
    (second,) = store.claim(wanted())
    store.settle([ended(second.token, Outcome.FAILED)])
    clock.advance(100)

    assert store.redrive([Redrive(first.token.job_id)]) == [SENT]

    job = store.jobs([first.token.job_id])[first.token.job_id]
    assert (job.state, job.cycle, job.due_at) == (State.QUEUED, 1, clock.now())
    assert (job.tries, job.losses, job.last_fault, job.finished_at) == (0, 0, None, None)
    assert (job.seq, job.lease_no) == (2, 2)


def test_its_history_is_kept_and_goes_on(store):
    (job_id,) = failed(store)
    store.redrive([Redrive(job_id)])
    (claim,) = store.claim(wanted())
    assert (claim.token, claim.cycle, claim.tries) == (Token(job_id, 2, 2), 1, 0)
    store.settle([ended(claim.token)])

    assert [(a.seq, a.cycle, a.outcome) for a in store.attempts(job_id)] == [
        (1, 0, Outcome.FAILED), (2, 1, Outcome.SUCCEEDED),
    ]  # fmt: skip


def test_each_time_is_a_new_cycle(store):
    (job_id,) = failed(store)
    for _ in range(3):
        store.redrive([Redrive(job_id)])
        (claim,) = store.claim(wanted())
        store.settle([ended(claim.token, Outcome.FAILED)])

    job = store.jobs([job_id])[job_id]
    assert (job.cycle, job.tries, job.seq) == (3, 1, 4)


def test_asked_again_it_finds_nothing_left_to_do(store):
    (job_id,) = failed(store)
    store.redrive([Redrive(job_id)])
    before = store.jobs([job_id])

    assert store.redrive([Redrive(job_id)]) == [Change(done=False, state=State.QUEUED)]
    assert store.jobs([job_id]) == before


def test_it_goes_on_at_the_stage_where_it_failed(store):
    job_id = _failed_at_the_second_stage(store)

    store.redrive([Redrive(job_id)])

    (claim,) = store.claim(wanted())
    assert (claim.lane, claim.input) == (SECOND, "one")


def test_or_in_the_lane_named(store):
    job_id = _failed_at_the_second_stage(store)
    lane = Lane(task="work", queue="again", priority=7)

    store.redrive([Redrive(job_id, lane)])

    job = store.jobs([job_id])[job_id]
    assert (job.queue, job.stage, job.priority, job.upstream) == ("again", 0, 7, None)
    assert store.claim(wanted()) == []
    (claim,) = store.claim(wanted(queues=("again",)))
    assert (claim.lane, claim.input) == (lane, None)


def test_a_later_stage_named_reads_what_the_one_before_left(store):
    (job_id,) = failed(store)
    (other,) = claimed(store)
    store.settle([ended(other.token, Outcome.FAILED, output="partial")])

    store.redrive([Redrive(job_id, SECOND), Redrive(other.token.job_id, SECOND)])

    assert [claim.input for claim in store.claim(wanted())] == [None, "partial"]


def test_what_stages_left_that_are_to_be_done_again_is_dropped(store):
    job_id = _failed_at_the_second_stage(store)
    store.redrive([Redrive(job_id)])
    (claim,) = store.claim(wanted())
    store.settle([ended(claim.token, Outcome.FAILED, output="partial")])

    store.redrive([Redrive(job_id, Lane(task="work"))])

    assert [store.output(job_id, stage) for stage in (0, 1)] == [None, None]


def test_the_stage_where_it_failed_is_to_be_done_again_too(store):
    (claim,) = claimed(store)
    store.settle([ended(claim.token, Outcome.FAILED, output="partial")])

    store.redrive([Redrive(claim.token.job_id)])

    assert store.output(claim.token.job_id, 0) is None


def test_what_is_not_sent_again_keeps_what_it_left(store):
    (claim,) = claimed(store)
    store.settle([ended(claim.token, output="[1]")])

    store.redrive([Redrive(claim.token.job_id, Lane(task="work"))])

    assert store.output(claim.token.job_id, 0) == "[1]"


def test_a_deadline_that_has_passed_no_longer_binds(store, clock):
    deadline = clock.now() + timedelta(seconds=10)
    (job_id,) = enqueued(store, new_job(deadline_at=deadline))
    clock.advance(10)
    store.expire()

    store.redrive([Redrive(job_id)])

    assert store.jobs([job_id])[job_id].deadline_at is None
    assert store.expire() == []
    assert [claim.token for claim in store.claim(wanted())] == [Token(job_id, 1, 1)]


def test_a_deadline_to_come_still_binds(store, clock):
    deadline = clock.now() + timedelta(seconds=10)
    (job_id,) = failed(store, new_job(deadline_at=deadline))
    clock.advance(9)

    store.redrive([Redrive(job_id)])

    assert store.jobs([job_id])[job_id].deadline_at == deadline


def test_what_it_is_stays_the_same(store):
    (job_id,) = failed(store, new_job("[1]", key="k", owner="o", run=7, request_id="r"))
    before = store.jobs([job_id])[job_id]

    store.redrive([Redrive(job_id)])

    job = store.jobs([job_id])[job_id]
    same = ("key", "owner", "run", "created_at", "started_at", "last_attempt_at")
    assert [getattr(job, name) for name in same] == [getattr(before, name) for name in same]
    (claim,) = store.claim(wanted())
    assert (claim.arguments, claim.request_id) == ("[1]", "r")


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.SKIPPED, Outcome.CANCELLED])
def test_an_end_that_is_no_failure_stays(store, outcome):
    (claim,) = claimed(store)
    store.settle([ended(claim.token, outcome)])
    before = store.jobs([claim.token.job_id])

    (change,) = store.redrive([Redrive(claim.token.job_id, SECOND)])

    assert change == Change(done=False, state=before[claim.token.job_id].state)
    assert store.jobs([claim.token.job_id]) == before


def test_answers_come_in_the_order_asked(store):
    sent, other = failed(store, new_job(), new_job())
    (running,) = claimed(store)
    (waiting,) = enqueued(store)

    changes = store.redrive(
        [Redrive(each) for each in (10**12, waiting, other, running.token.job_id, sent)]
    )

    assert changes == [
        Change(done=False, state=None),
        Change(done=False, state=State.QUEUED),
        SENT,
        Change(done=False, state=State.RUNNING),
        SENT,
    ]


def test_a_job_that_is_named_twice_is_sent_once(store):
    (job_id,) = failed(store)

    assert store.redrive([Redrive(job_id), Redrive(job_id)]) == [SENT, SENT]
    assert store.jobs([job_id])[job_id].cycle == 1


def test_a_thousand_are_sent_at_once(store):
    claims = claimed(store, *(new_job() for _ in range(MOST_ROWS)), limit=MOST_ROWS)
    store.settle([ended(claim.token, Outcome.FAILED) for claim in claims])

    changes = store.redrive([Redrive(claim.token.job_id) for claim in claims])

    assert changes == [SENT] * MOST_ROWS


def test_too_many_are_refused_and_none_is_sent(store):
    (job_id,) = failed(store)

    with pytest.raises(ValueError, match="1,001 rows"):
        store.redrive([Redrive(job_id)] * (MOST_ROWS + 1))

    assert store.jobs([job_id])[job_id].state is State.FAILED


def test_nothing_to_send_is_nothing_done(store):
    assert store.redrive([]) == []
