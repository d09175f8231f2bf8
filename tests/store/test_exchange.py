"""`exchange`: what `settle` and `claim` do, in one commit."""

import threading

import psycopg
import pytest

from seawall.model import Lane, Outcome, Token
from seawall.states import State
from seawall.store import open_store
from seawall.store.values import MOST_ROWS, Answer, Result
from tests.support.kinds import shared
from tests.support.ledger import claimed, ended, enqueued, lost, new_job, wanted

DONE = Answer(Result.DONE, State.SUCCEEDED)


def test_attempts_end_and_the_next_jobs_are_taken(store, clock):
    first, second = claimed(store, new_job(), new_job())
    ids = enqueued(store, new_job("[3]"), new_job("[4]"))

    answers, claims = store.exchange(
        [ended(second.token, output="[2]"), ended(first.token, Outcome.FAILED)], wanted()
    )

    assert answers == [DONE, Answer(Result.DONE, State.FAILED)]
    assert [claim.token for claim in claims] == [Token(job_id, 1, 1) for job_id in ids]
    assert [claim.arguments for claim in claims] == ["[3]", "[4]"]
    assert store.output(second.token.job_id, 0) == "[2]"
    assert [a.outcome for a in store.attempts(first.token.job_id)] == [Outcome.FAILED]


def test_what_is_to_be_tried_again_at_once_may_be_taken_in_the_same_exchange(store):
    (claim,) = claimed(store)

    answers, claims = store.exchange(
        [ended(claim.token, Outcome.RETRIED, delay_seconds=0)], wanted()
    )

    assert answers == [Answer(Result.DONE, State.QUEUED)]
    assert [again.token for again in claims] == [Token(claim.token.job_id, 2, 2)]
    assert claims[0].tries == 1


def test_with_nothing_to_settle_it_is_a_claim(store):
    ids = enqueued(store, new_job(), new_job())

    answers, claims = store.exchange([], wanted(1))

    assert answers == []
    assert [claim.token.job_id for claim in claims] == ids[:1]


def test_with_nothing_due_it_is_a_settle(store):
    (claim,) = claimed(store)

    assert store.exchange([ended(claim.token)], wanted()) == ([DONE], [])


def test_asked_again_it_answers_already_and_takes_what_is_due_then(store):
    (claim,) = claimed(store)
    enqueued(store, new_job(), new_job())
    store.exchange([ended(claim.token)], wanted(1))

    answers, claims = store.exchange([ended(claim.token)], wanted(1))

    assert answers == [Answer(Result.ALREADY, State.SUCCEEDED)]
    assert len(claims) == 1


def test_a_stale_token_is_lost_and_keeps_no_one_from_the_next_jobs(store, clock):
    (old,) = claimed(store, lease_seconds=60)
    clock.advance(60)
    store.reclaim([lost(old.token, 0)])

    answers, claims = store.exchange([ended(old.token)], wanted())

    assert answers == [Answer(Result.LOST)]
    assert [claim.token for claim in claims] == [Token(old.token.job_id, 2, 2)]


def test_answers_come_in_the_order_asked(store):
    claims = claimed(store, *(new_job() for _ in range(4)))
    store.settle([ended(claims[2].token)])

    answers, _ = store.exchange([ended(claim.token) for claim in reversed(claims)], wanted())

    assert [answer.result for answer in answers] == [
        Result.DONE, Result.ALREADY, Result.DONE, Result.DONE,
    ]  # fmt: skip


def test_a_row_that_cannot_be_stored_strands_neither_the_others_nor_the_worker(store):
    claims = claimed(store, *(new_job() for _ in range(3)))
    (next_id,) = enqueued(store)
    rows = [ended(claim.token) for claim in claims]
    rows[1] = ended(claims[1].token, output="\ud800")

    answers, taken = store.exchange(rows, wanted())

    assert answers[::2] == [DONE, DONE]
    assert answers[1].result is Result.REFUSED
    assert "cannot be stored" in answers[1].reason
    assert [claim.token.job_id for claim in taken] == [next_id]
    assert store.settle([ended(claims[1].token)]) == [DONE]


@shared
def test_jobs_of_lanes_that_this_store_has_never_seen_can_be_taken(store, url, kind, clock):
    lane = Lane(task="work", owner="new")
    with open_store(url, clock=clock) as other:
        enqueued(other, new_job(lane=lane))

    _, claims = store.exchange([], wanted())

    assert [claim.lane for claim in claims] == [lane]


def test_what_cannot_be_asked_changes_nothing(store):
    (claim,) = claimed(store)
    enqueued(store)

    with pytest.raises(ValueError, match="limit"):
        store.exchange([ended(claim.token)], wanted(0))
    with pytest.raises(ValueError, match="names a job twice"):
        store.exchange([ended(claim.token), ended(claim.token)], wanted())
    with pytest.raises(ValueError, match="1,001 rows"):
        store.exchange([ended(Token(n, 1, 1)) for n in range(1, MOST_ROWS + 2)], wanted())

    assert store.counts() == {**dict.fromkeys(State, 0), State.RUNNING: 1, State.QUEUED: 1}


@pytest.mark.parametrize("version", ["16", "18"])
def test_waiting_for_a_lock_does_not_eat_into_the_new_leases(postgres_urls, version):
    url = postgres_urls(version)
    with open_store(url) as store, psycopg.connect(url) as console:
        (first,) = claimed(store)
        (second,) = enqueued(store)
        console.execute(f"SELECT FROM seawall.job WHERE id = {first.token.job_id} FOR UPDATE")
        threading.Timer(3.0, console.rollback).start()

        answers, claims = store.exchange([ended(first.token)], wanted(lease_seconds=2.9))

        assert [answer.result for answer in answers] == [Result.DONE]
        assert [claim.token.job_id for claim in claims] == [second]
        assert claims[0].lease_until > store.now()


def test_what_prefetch_passes_over_is_found_for_a_free_slot(store, clock):
    """Its watermarks are its own: a job that was lost before stands behind them."""
    (claim,) = claimed(store, new_job())
    clock.advance(60)
    store.reclaim([lost(claim.token, 0)])
    clock.advance(30)
    others = enqueued(store, *[new_job() for _ in range(4)])
    clock.advance(1)
    ahead = wanted(2, prefetch=True)

    for _ in range(2):
        _, claims = store.exchange([], ahead)
        assert len(claims) == 2
        assert {each.token.job_id for each in claims} <= set(others)
    _, claims = store.exchange([], wanted(1))

    assert [each.token.job_id for each in claims] == [claim.token.job_id]
