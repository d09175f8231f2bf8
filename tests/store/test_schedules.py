"""Schedules: each due time fires once, with its job in the same transaction."""

from datetime import datetime, timedelta

import pytest

from seawall.states import State
from seawall.store import open_store
from seawall.store.values import Enqueued, Planned, Taken
from tests.support.kinds import shared
from tests.support.ledger import at_once, enqueued, new_job

DAY = timedelta(days=1)


def standing(due_at, name="nightly"):
    return Planned(name, "x", due_at, None, None)


def test_a_schedule_is_made_once_and_left_as_it_is(store, clock):
    noon = clock.now()

    assert store.plan("nightly", "0 0 * * *", noon) == Planned(
        "nightly", "0 0 * * *", noon, None, None
    )
    assert store.plan("nightly", "0 0 * * *", noon + DAY).next_at == noon
    assert store.planned() == [Planned("nightly", "0 0 * * *", noon, None, None)]


def test_two_specifications_of_one_name_keep_their_own_time(store, clock):
    """As while an old and a new release run side by side: neither may put off the other."""
    noon = clock.now()
    old = store.plan("nightly", "old", noon)
    new = store.plan("nightly", "new", noon + 3 * DAY)

    fired = store.fire(old, next_at=noon + DAY, job=new_job())

    assert store.planned() == [new, Planned("nightly", "old", noon + DAY, noon, fired.job_id)]


def test_schedules_are_listed_by_name(store, clock):
    for name in ("b", "C", "a"):
        store.plan(name, "x", clock.now())

    assert [planned.name for planned in store.planned()] == ["C", "a", "b"]


def test_it_fires_moves_on_and_remembers_its_job(store, clock):
    noon = clock.now()
    store.plan("nightly", "x", noon)

    fired = store.fire(standing(noon), next_at=noon + DAY, job=new_job('["a"]'))

    assert fired.taken is Taken.CREATED
    assert store.arguments(fired.job_id) == '["a"]'
    assert store.planned() == [Planned("nightly", "x", noon + DAY, noon, fired.job_id)]


@pytest.mark.parametrize("name", ["nightly", "never planned"])
def test_a_due_time_at_which_it_no_longer_stands_fires_nothing(store, clock, name):
    noon = clock.now()
    store.plan("nightly", "x", noon + DAY)

    assert store.fire(standing(noon, name), next_at=noon + DAY, job=new_job()) is None
    assert store.counts()[State.QUEUED] == 0
    assert store.planned()[0].next_at == noon + DAY


def test_without_a_job_it_only_moves_on(store, clock):
    noon = clock.now()
    store.plan("nightly", "x", noon)
    fired = store.fire(standing(noon), next_at=noon + DAY, job=new_job())

    assert store.fire(standing(noon + DAY), next_at=noon + 2 * DAY, job=None) is None

    assert store.planned() == [Planned("nightly", "x", noon + 2 * DAY, noon, fired.job_id)]
    assert store.counts()[State.QUEUED] == 1


@pytest.mark.parametrize(
    ("arguments", "taken"), [("[]", Taken.EXISTING), ('["other"]', Taken.CONFLICT)]
)
def test_where_its_key_is_taken_the_holder_is_what_it_last_did(store, clock, arguments, taken):
    noon = clock.now()
    (holder,) = enqueued(store, new_job(key="k"))
    store.plan("nightly", "x", noon)

    fired = store.fire(standing(noon), next_at=noon + DAY, job=new_job(arguments, key="k"))

    assert fired == Enqueued(taken, holder)
    assert store.planned() == [Planned("nightly", "x", noon + DAY, noon, holder)]


def test_a_job_that_cannot_be_stored_leaves_the_schedule_where_it_stands(store, clock):
    noon = clock.now()
    store.plan("nightly", "x", noon)

    fired = store.fire(standing(noon), next_at=noon + DAY, job=new_job("\ud800"))

    assert (fired.taken, fired.job_id) == (Taken.REFUSED, None)
    assert "no Unicode" in fired.reason
    assert store.planned() == [Planned("nightly", "x", noon, None, None)]


def test_whoever_waits_for_work_is_woken(store, clock):
    store.plan("nightly", "x", clock.now())
    while store.wait(0.05):
        pass

    store.fire(standing(clock.now()), next_at=clock.now() + DAY, job=new_job())

    assert store.wait(5)


def test_a_job_that_was_pruned_since_is_remembered_all_the_same(store, clock):
    store.plan("nightly", "x", clock.now())
    fired = store.fire(standing(clock.now()), next_at=clock.now() + DAY, job=new_job())
    store.cancel([fired.job_id])
    clock.advance(1)
    store.prune(State.CANCELLED, older_than_seconds=0)

    assert store.planned()[0].last_job == fired.job_id


@pytest.mark.parametrize("step", [timedelta(), -DAY])
def test_it_cannot_move_on_to_where_it_stands_or_back(store, clock, step):
    store.plan("nightly", "x", clock.now())

    with pytest.raises(ValueError, match=r"^next_at: "):
        store.fire(standing(clock.now()), next_at=clock.now() + step, job=new_job())


def test_without_a_job_it_can_be_put_back_as_after_a_wrong_clock(store, clock):
    store.plan("nightly", "x", clock.now() + 400 * DAY)

    store.fire(standing(clock.now() + 400 * DAY), next_at=clock.now() + DAY, job=None)

    assert store.planned() == [standing(clock.now() + DAY)]


def test_names_and_times_that_no_store_can_keep_are_refused(store, clock):
    naive = datetime(2026, 1, 1, tzinfo=clock.now().tzinfo).replace(tzinfo=None)

    with pytest.raises(ValueError, match=r"^name: "):
        store.plan("", "x", clock.now())
    with pytest.raises(ValueError, match=r"^spec: "):
        store.plan("n", "a\0b", clock.now())
    with pytest.raises(ValueError, match="next_at needs a time zone"):
        store.plan("n", "x", naive)
    with pytest.raises(ValueError, match="next_at needs a time zone"):
        store.fire(standing(naive), next_at=clock.now(), job=None)


@shared
def test_of_many_that_fire_the_same_due_time_one_does(url, clock):
    with open_store(url, clock=clock) as one, open_store(url, clock=clock) as other:
        due_at = clock.now()
        one.plan("often", "x", due_at)
        for turn in range(1, 6):
            then = due_at + timedelta(minutes=1)

            def fire(at, due_at=due_at, then=then):
                store = (one, other)[at % 2]
                return store.fire(standing(due_at, "often"), next_at=then, job=new_job())

            found = [answer for answer in at_once(8, fire) if answer is not None]

            assert [answer.taken for answer in found] == [Taken.CREATED]
            assert one.counts()[State.QUEUED] == turn
            assert one.planned() == [Planned("often", "x", then, due_at, found[0].job_id)]
            due_at = then
        assert one.verify().ok
