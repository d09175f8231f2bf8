"""Tags: words to find a job by, written with it and gone with it."""

import pytest

from seawall.states import State
from seawall.store.values import Filter, Taken
from tests.support.ledger import claimed, ended, enqueued, new_job


def tagged(store, tag):
    return [job.id for job in store.page(Filter(tag=tag))]


def test_a_job_has_its_tags_in_the_order_of_the_alphabet(store):
    first, second, third = enqueued(
        store, new_job(tags=("b", "é", "A", "a")), new_job(), new_job(tags=("b",))
    )

    found = store.jobs([first, second, third])

    assert found[first].tags == ("A", "a", "b", "é")
    assert (found[second].tags, found[third].tags) == ((), ("b",))
    assert tagged(store, "b") == [third, first]
    assert tagged(store, "none") == []


@pytest.mark.parametrize("keys", [(None, None), ("k1", "k2"), (None, "k2"), ("k1", None)])
def test_jobs_with_and_without_keys_keep_their_own(store, keys):
    ids = enqueued(
        store, *(new_job(key=key, tags=(f"t{at}", "all")) for at, key in enumerate(keys))
    )

    assert [tagged(store, "t0"), tagged(store, "t1")] == [[ids[0]], [ids[1]]]
    assert tagged(store, "all") == ids[::-1]


def test_a_job_that_was_there_keeps_its_tags_and_its_neighbours_theirs(store):
    (there,) = enqueued(store, new_job(key="k", tags=("old",)))

    before, same, after = store.enqueue(
        [new_job(tags=("x",)), new_job(key="k", tags=("new",)), new_job(tags=("y",))]
    )

    assert (same.taken, same.job_id) == (Taken.EXISTING, there)
    assert store.jobs([there])[there].tags == ("old",)
    assert tagged(store, "new") == []
    assert (tagged(store, "x"), tagged(store, "y")) == ([before.job_id], [after.job_id])


def test_many_jobs_at_once_keep_theirs(store):
    """More than it takes for a bulk load, which knows no tags."""
    enqueued(store, *(new_job(tags=("one",) if n == 700 else ()) for n in range(900)))

    assert len(tagged(store, "one")) == 1


def test_words_that_need_care_are_kept_as_they_are(store):
    odd = ('"', "'", "\\", "{}", "a b", "%(x)s", ":x", "\U0001f600")
    (job_id,) = enqueued(store, new_job(tags=odd))

    assert store.jobs([job_id])[job_id].tags == tuple(sorted(odd))
    assert [tagged(store, tag) for tag in odd] == [[job_id]] * len(odd)


def test_they_go_with_their_job_and_with_no_other(store, clock):
    done, waits = claimed(store, new_job(tags=("t",))), enqueued(store, new_job(tags=("t",)))
    store.settle([ended(done[0].token)])
    clock.advance(1)

    assert store.prune(State.SUCCEEDED, older_than_seconds=0) == 1
    assert tagged(store, "t") == waits
