"""`jobs`, `attempts`, `output`, `counts` and `now`: what is there, and nothing else."""

from datetime import UTC, timedelta

import pytest

from seawall.model import Lane, Outcome
from seawall.states import State
from seawall.store import open_store
from seawall.store.values import MOST_ROWS, Release
from tests.support.kinds import shared
from tests.support.ledger import claimed, ended, enqueued, new_job, wanted


def _with_history(store, attempts):
    (job_id,) = enqueued(store, new_job(request_id="r"))
    for _ in range(attempts):
        (claim,) = store.claim(wanted())
        store.settle([ended(claim.token, Outcome.RETRIED, delay_seconds=0)])
    return job_id


def test_jobs_that_exist_are_found_and_others_are_left_out(store):
    first, second = enqueued(store, new_job(), new_job())

    assert set(store.jobs([second, 10**12, first, -1, 0])) == {first, second}
    assert store.jobs([10**12]) == store.jobs([]) == {}


def test_a_job_that_is_named_twice_is_found_once(store):
    (job_id,) = enqueued(store)

    assert store.jobs([job_id, job_id]) == store.jobs([job_id])


def test_each_job_is_found_under_its_own_id(store):
    ids = enqueued(store, *(new_job(run=n) for n in range(MOST_ROWS)))

    found = store.jobs(ids)

    assert [found[job_id].run for job_id in ids] == list(range(MOST_ROWS))
    assert [found[job_id].id for job_id in ids] == ids


def test_too_many_at_once_are_refused(store):
    with pytest.raises(ValueError, match="1,001 rows"):
        store.jobs(range(MOST_ROWS + 1))


@pytest.mark.parametrize("job_id", [2**63, -(2**63) - 1])
def test_an_id_that_no_job_can_have_is_no_job(store, job_id):
    (existing,) = enqueued(store)

    assert set(store.jobs([job_id, existing])) == {existing}
    assert (store.attempts(job_id), store.output(job_id, 0)) == ([], None)


@shared
def test_jobs_of_lanes_that_another_store_made_are_read(store, url, kind, clock):
    enqueued(store)
    with open_store(url, clock=clock) as other:
        (job_id,) = enqueued(other, new_job(lane=Lane(task="other", priority=3)))

    job = store.jobs([job_id])[job_id]

    assert (job.task, job.priority) == ("other", 3)


@shared
def test_what_was_written_is_there_when_the_store_is_opened_again(url, kind, clock):
    with open_store(url, clock=clock) as first:
        (claim,) = claimed(first, new_job("[1]", key="k"))
        first.settle([ended(claim.token, output="[2]")])
        before = first.jobs([claim.token.job_id]), first.attempts(claim.token.job_id)

    with open_store(url, clock=clock) as second:
        after = second.jobs([claim.token.job_id]), second.attempts(claim.token.job_id)
        assert second.output(claim.token.job_id, 0) == "[2]"
        assert second.verify().ok

    assert before == after


# --- attempts ---------------------------------------------------------------------------------


def test_history_comes_oldest_first_and_in_pages(store):
    job_id = _with_history(store, 5)

    assert [attempt.seq for attempt in store.attempts(job_id)] == [1, 2, 3, 4, 5]
    assert [attempt.seq for attempt in store.attempts(job_id, limit=2)] == [1, 2]
    assert [attempt.seq for attempt in store.attempts(job_id, after=2, limit=2)] == [3, 4]
    assert store.attempts(job_id, after=5) == []


def test_history_is_that_of_the_job_alone(store):
    job_id = _with_history(store, 2)
    store.cancel([job_id])
    other = _with_history(store, 1)

    assert {attempt.job_id for attempt in store.attempts(job_id)} == {job_id}
    assert len(store.attempts(other)) == 1
    assert store.attempts(10**12) == []


@pytest.mark.parametrize("limit", [0, -1, MOST_ROWS + 1])
def test_a_page_out_of_bounds_is_refused(store, limit):
    with pytest.raises(ValueError, match="limit"):
        store.attempts(1, limit=limit)


def test_attempts_tell_who_when_and_what(store, clock):
    (claim,) = claimed(store, new_job(request_id="req"), worker="日本")
    clock.advance(7)
    store.release([Release(token=claim.token, duration_seconds=3, age_seconds=2)])

    (attempt,) = store.attempts(claim.token.job_id)

    assert (attempt.job_id, attempt.seq, attempt.cycle, attempt.stage) == (
        claim.token.job_id,
        1,
        0,
        0,
    )
    assert (attempt.worker, attempt.caller_request_id) == ("日本", "req")
    assert attempt.started_at == clock.now() - timedelta(seconds=5)
    assert attempt.finished_at == clock.now() - timedelta(seconds=2)
    assert (attempt.fault, attempt.delay_seconds, attempt.policy) == (None, None, None)


# --- the rest ---------------------------------------------------------------------------------


def test_output_that_is_not_there_is_none(store):
    (job_id,) = enqueued(store)

    assert (store.output(job_id, 0), store.output(job_id, 7), store.output(10**12, 0)) == (
        None,
    ) * 3


def test_counts_name_every_state(store):
    assert store.counts() == dict.fromkeys(State, 0)
    claims = claimed(store, *(new_job() for _ in range(3)), limit=2)
    store.settle([ended(claims[0].token, Outcome.SKIPPED)])

    assert store.counts() == {
        **dict.fromkeys(State, 0), State.QUEUED: 1, State.RUNNING: 1, State.SKIPPED: 1,
    }  # fmt: skip


def test_now_is_the_stores_own_clock(store, clock):
    clock.advance(0.123456)

    assert store.now() == clock.now()
    assert store.now().tzinfo is UTC


def test_every_time_that_is_read_is_in_utc(store, clock):
    (claim,) = claimed(store, new_job(deadline_at=clock.now() + timedelta(1)))
    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    times = [claim.due_at, claim.lease_until, claim.deadline_at, job.created_at, job.lease.until]

    assert {time.tzinfo for time in times} == {UTC}


def test_reading_changes_nothing(store, clock):
    (claim,) = claimed(store)
    clock.advance(10**6)

    def everything():
        job_id = claim.token.job_id
        return store.jobs([job_id]), store.attempts(job_id), store.counts(), store.verify()

    assert everything() == everything()
