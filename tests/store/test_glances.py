"""`waiting_at`, `open_letters`, `standing_of` and `lately`: bounded looks for those who keep looking."""

from datetime import timedelta

import pytest

from seawall.model import Lane
from seawall.store.fleet_values import Lately
from seawall.store.values import Observation, OwnStanding
from tests.support.ledger import claimed, enqueued, failed, new_job

API = Lane(task="work", upstream="api")
RETRY = Lane(task="work", upstream="api", retry=True)
MAIL = Lane(task="mail", upstream="mail")


def test_an_empty_store_has_nothing_to_tell(store):
    assert store.waiting_at(["api"], most=10) == {"api": 0}
    assert store.waiting_at([], most=10) == {}
    assert store.open_letters(most=10) == 0
    assert store.standing_of("ann", most=10) == OwnStanding({}, 0, whole=True)
    assert store.lately({"api": 60}, within_seconds=60) == {"api": Lately()}
    assert store.lately({}, within_seconds=60) == {}


def test_what_waits_for_an_upstream_is_counted_up_to_a_bound(store, clock):
    later = clock.now() + timedelta(hours=1)
    enqueued(store, *(new_job(lane=API) for _ in range(3)), new_job(lane=RETRY), new_job())
    enqueued(store, new_job(lane=API, run_after=later), new_job(lane=MAIL))

    assert store.waiting_at(["api", "mail", "none"], most=10) == {"api": 5, "mail": 1, "none": 0}
    assert store.waiting_at(["api"], most=2) == {"api": 2}


def test_open_letters_are_counted_up_to_a_bound(store):
    first, *_ = failed(store, *(new_job() for _ in range(4)))
    store.dismiss([first], note="a test")

    assert store.open_letters(most=10) == 3
    assert store.open_letters(most=2) == 2


def test_an_owner_is_told_of_his_own_however_much_others_have(store):
    failed(store, *(new_job(owner="ann") for _ in range(2)), new_job(owner="bob"))
    hers = [new_job(lane=API, owner="ann"), new_job(owner="ann")]
    enqueued(store, *hers, *(new_job(lane=MAIL, owner="bob") for _ in range(50)))

    assert store.standing_of("ann", most=10) == OwnStanding({"api": 1}, 2, whole=True)
    assert store.standing_of("bob", most=10) == OwnStanding({"mail": 10}, 0, whole=False)
    assert store.standing_of("bob", most=1000) == OwnStanding({"mail": 50}, 1, whole=True)


def test_a_job_that_runs_or_was_dealt_with_waits_for_nobody(store):
    (one,) = failed(store, new_job(owner="ann"))
    store.dismiss([one], note="a test")
    claimed(store, new_job(lane=API, owner="ann"))

    assert store.standing_of("ann", most=10) == OwnStanding({}, 0, whole=True)


def test_calls_of_all_upstreams_are_told_by_one_look(store, clock):
    store.observe([Observation("api", "w1", firsts=5, retries=2, failures=3, micros=70)])
    clock.advance(100)
    store.observe([Observation("api", "w1", firsts=2, failures=1, micros=10)])
    store.observe([Observation("api", "w2", retries=1, micros=20)])
    store.observe([Observation("mail", "w1", firsts=1)])

    assert store.lately({"api": 300, "mail": 10, "none": 10}, within_seconds=60) == {
        "api": Lately(calls=3, failures=1, micros=30, firsts=7),
        "mail": Lately(calls=1, firsts=1),
        "none": Lately(),
    }
    assert store.lately({"api": 10}, within_seconds=200)["api"] == Lately(10, 4, 100, 2)


@pytest.mark.parametrize("most", [0, -1, 1.5, True, 10**9])
def test_a_bound_is_a_whole_number_above_none(store, most):
    with pytest.raises(ValueError, match="most"):
        store.open_letters(most=most)
