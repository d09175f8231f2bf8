"""`prune` and `fold`: what ended long ago goes, and the books still balance."""

import pytest

from seawall.model import Lane, Outcome
from seawall.states import State
from seawall.store.values import MOST_ROWS, Advance, Answer, Change, Redrive, Result
from tests.support.ledger import claimed, ended, enqueued, failed, new_job, wanted

ENDS = [
    (Outcome.SUCCEEDED, State.SUCCEEDED),
    (Outcome.SKIPPED, State.SKIPPED),
    (Outcome.FAILED, State.FAILED),
    (Outcome.CANCELLED, State.CANCELLED),
]


def _one_of_each(store):
    """A job in every state, by state."""
    claims = claimed(store, *(new_job() for _ in range(5)))
    store.settle([ended(c.token, o) for c, (o, _) in zip(claims, ENDS, strict=False)])
    ids = [claim.token.job_id for claim in claims]
    states = [*(state for _, state in ENDS), State.RUNNING, State.QUEUED]
    return dict(zip(states, ids + enqueued(store), strict=True))


@pytest.mark.parametrize("state", [state for _, state in ENDS])
def test_only_jobs_of_the_state_named_go(store, clock, state):
    ids = _one_of_each(store)
    clock.advance(100)

    assert store.prune(state, older_than_seconds=10) == 1

    assert set(store.jobs(list(ids.values()))) == set(ids.values()) - {ids[state]}
    books = store.verify()
    assert (books.entered, books.pruned, sum(books.present.values())) == (6, 1, 5)


@pytest.mark.parametrize("state", [State.QUEUED, State.RUNNING])
def test_what_has_not_ended_cannot_be_pruned(store, clock, state):
    _one_of_each(store)
    clock.advance(10**9)

    with pytest.raises(ValueError, match="expected one of cancelled, failed, skipped, succeeded"):
        store.prune(state, older_than_seconds=0)

    assert sum(store.counts().values()) == 6


def test_a_job_goes_when_it_is_older_and_not_before(store, clock):
    failed(store)

    clock.advance(10)
    assert store.prune(State.FAILED, older_than_seconds=10) == 0
    clock.advance(0.000001)
    assert store.prune(State.FAILED, older_than_seconds=10) == 1


def test_age_is_counted_from_the_end(store, clock):
    enqueued(store)
    clock.advance(1_000)
    (claim,) = store.claim(wanted())
    clock.advance(1_000)
    store.settle([ended(claim.token, duration_seconds=1_000)])
    clock.advance(1)

    assert store.prune(State.SUCCEEDED, older_than_seconds=100) == 0


def test_all_that_hangs_on_a_job_goes_with_it(store, clock):
    (claim,) = claimed(store, new_job(key="k"))
    job_id = claim.token.job_id
    store.advance([Advance(token=claim.token, lane=Lane(task="work", stage=1), output="one")])
    store.settle([ended(claim.token.next(), output="two")])
    clock.advance(1)

    assert store.prune(State.SUCCEEDED, older_than_seconds=0) == 1

    assert (store.jobs([job_id]), store.attempts(job_id)) == ({}, [])
    assert [store.output(job_id, stage) for stage in (0, 1)] == [None, None]
    assert store.enqueue([new_job("[2]", key="k")])[0].taken == "created"


def test_what_hangs_on_others_stays(store, clock):
    first, second = claimed(store, new_job(key="a"), new_job(key="b"))
    store.settle([ended(first.token, output="one")])
    clock.advance(10)
    store.settle([ended(second.token, output="two")])

    assert store.prune(State.SUCCEEDED, older_than_seconds=5) == 1

    kept = second.token.job_id
    assert (store.jobs([kept])[kept].key, store.output(kept, 0)) == ("b", "two")
    assert len(store.attempts(kept)) == 1


def test_it_goes_in_bounded_batches_the_oldest_first(store, clock):
    claims = claimed(store, *(new_job() for _ in range(5)))
    for claim in reversed(claims):
        store.settle([ended(claim.token)])
        clock.advance(1)
    ids = [claim.token.job_id for claim in claims]

    assert store.prune(State.SUCCEEDED, older_than_seconds=0, limit=2) == 2
    assert sorted(store.jobs(ids)) == ids[:3]
    assert store.prune(State.SUCCEEDED, older_than_seconds=0, limit=2) == 2
    assert store.prune(State.SUCCEEDED, older_than_seconds=0, limit=2) == 1
    assert store.prune(State.SUCCEEDED, older_than_seconds=0, limit=2) == 0
    assert store.verify().pruned == 5


def test_a_thousand_go_at_once(store, clock):
    ids = enqueued(store, *(new_job() for _ in range(MOST_ROWS)))
    store.cancel(ids)
    clock.advance(1)

    assert store.prune(State.CANCELLED, older_than_seconds=0) == MOST_ROWS
    assert store.verify().pruned == store.verify().entered == MOST_ROWS


def test_an_empty_store_has_nothing_to_prune(store):
    assert [store.prune(state, older_than_seconds=0) for _, state in ENDS] == [0] * 4


def test_ids_are_never_given_again(store, clock):
    ids = failed(store, new_job(), new_job(), new_job())
    clock.advance(1)
    store.prune(State.FAILED, older_than_seconds=0)

    assert min(enqueued(store, *(new_job() for _ in range(150)))) > max(ids)


def test_what_is_gone_is_gone_for_every_verb(store, clock):
    (claim,) = claimed(store)
    store.settle([ended(claim.token)])
    clock.advance(1)
    store.prune(State.SUCCEEDED, older_than_seconds=0)

    assert store.settle([ended(claim.token)]) == [Answer(Result.LOST)]
    assert store.renew([claim.token], lease_seconds=60) == [Answer(Result.LOST)]
    assert store.cancel([claim.token.job_id]) == [Change(done=False, state=None)]
    assert store.redrive([Redrive(claim.token.job_id)]) == [Change(done=False, state=None)]


def test_the_books_balance_whatever_came_and_went(store, clock):
    for many in (1, 3, 120):
        ids = enqueued(store, *(new_job() for _ in range(many)))
        store.cancel(ids[::2])
        clock.advance(1)
        store.prune(State.CANCELLED, older_than_seconds=0, limit=50)
    store.enqueue([new_job(key="k"), new_job(key="k")])

    books = store.verify()

    assert books.entered == 125
    assert books.entered == books.pruned + sum(books.present.values())


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_an_age_must_be_a_span_of_time(store, clock, seconds):
    failed(store)
    clock.advance(1)

    with pytest.raises(ValueError, match="older_than_seconds"):
        store.prune(State.FAILED, older_than_seconds=seconds)

    assert store.counts()[State.FAILED] == 1


@pytest.mark.parametrize("limit", [0, -1, MOST_ROWS + 1])
def test_a_limit_out_of_bounds_removes_nothing(store, clock, limit):
    failed(store)
    clock.advance(1)

    with pytest.raises(ValueError, match="limit"):
        store.prune(State.FAILED, older_than_seconds=0, limit=limit)

    assert store.counts()[State.FAILED] == 1


def test_folding_what_came_in_changes_nothing_that_is_told(store):
    for many in (1, 2, 120):
        enqueued(store, *(new_job() for _ in range(many)))
    before = store.verify()

    while store.fold(limit=2):
        pass

    assert store.verify() == before
    assert store.fold() == 0


@pytest.mark.parametrize("limit", [0, -1, MOST_ROWS + 1])
def test_a_fold_out_of_bounds_is_refused(store, limit):
    with pytest.raises(ValueError, match="limit"):
        store.fold(limit=limit)
