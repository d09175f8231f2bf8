"""Who is alive, and whose turn a chore is."""

from dataclasses import replace
from datetime import timedelta

import pytest

from seawall.store import open_store
from seawall.store.values import SLACK_SECONDS, Presence, Present
from tests.support.kinds import shared
from tests.support.ledger import at_once

WORKER = Presence(
    worker="w1", host="box", pid=7, version="1.0", queues=None, tasks=("a", "b"), concurrency=4
)
HOUR = 3_600.0


def test_a_worker_is_there_once_it_has_told_of_itself(store, clock):
    assert store.workers(within_seconds=HOUR) == []

    store.appear(WORKER)

    assert store.workers(within_seconds=HOUR) == [Present(WORKER, clock.now(), clock.now())]


def test_it_tells_anew_and_stays_as_old_as_it_is(store, clock):
    started = clock.now()
    store.appear(WORKER)
    clock.advance(10)
    now = replace(WORKER, queues=("x", "é"), tasks=(), running=3, stopping=True, version="2")

    store.appear(now)

    assert store.workers(within_seconds=0) == [Present(now, started, clock.now())]


def test_the_silent_are_left_out_and_the_oldest_come_first(store, clock):
    for name in ("z", "b", "a"):
        store.appear(replace(WORKER, worker=name))
        clock.advance(10)

    names = [found.presence.worker for found in store.workers(within_seconds=20)]

    assert names == ["b", "a"]


def test_one_that_left_is_gone(store):
    store.appear(WORKER)

    store.leave("w1")
    store.leave("w1")

    assert store.workers(within_seconds=HOUR) == []


def test_those_that_have_been_silent_for_long_are_forgotten_a_few_at_a_time(store, clock):
    for n in range(5):
        store.appear(replace(WORKER, worker=f"w{n}"))
    clock.advance(100)
    store.appear(replace(WORKER, worker="w4"))

    assert store.forget_workers(older_than_seconds=50, limit=3) == 3
    assert store.forget_workers(older_than_seconds=50) == 1
    assert store.forget_workers(older_than_seconds=50) == 0
    assert [found.presence.worker for found in store.workers(within_seconds=HOUR)] == ["w4"]


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("worker", ""),
        ("host", "a\nb"),
        ("version", None),
        ("tasks", ("",)),
        ("queues", (7,)),
        ("pid", -1),
        ("running", 2**31),
        ("concurrency", "4"),
    ],
)
def test_what_no_store_can_keep_is_refused(field, wrong):
    with pytest.raises(ValueError, match=f"^{field}: "):
        replace(WORKER, **{field: wrong})


# --- turns ------------------------------------------------------------------------------------


def test_a_turn_comes_once_in_so_many_seconds_for_the_whole_fleet(store, clock):
    assert store.take_turn("prune", "w1", every_seconds=10)
    assert not store.take_turn("prune", "w1", every_seconds=10)
    assert not store.take_turn("prune", "w2", every_seconds=10)
    clock.advance(9.999)
    assert not store.take_turn("prune", "w2", every_seconds=10)
    clock.advance(0.001)
    assert store.take_turn("prune", "w2", every_seconds=10)
    assert not store.take_turn("prune", "w1", every_seconds=10)


def test_chores_have_turns_of_their_own(store):
    assert store.take_turn("prune", "w1", every_seconds=10)
    assert store.take_turn("fold", "w1", every_seconds=10)


def test_turns_that_were_missed_are_not_made_up_for(store, clock):
    store.take_turn("prune", "w1", every_seconds=10)
    clock.advance(1_000)

    assert [store.take_turn("prune", "w1", every_seconds=10) for _ in range(3)] == [
        True, False, False,
    ]  # fmt: skip


def test_a_turn_that_a_wrong_clock_set_far_ahead_is_taken_over(store, clock):
    clock.advance(HOUR)
    assert store.take_turn("prune", "w1", every_seconds=10)
    clock._now -= timedelta(seconds=HOUR)

    assert store.take_turn("prune", "w2", every_seconds=10)
    assert not store.take_turn("prune", "w1", every_seconds=10)


def test_clocks_that_are_apart_a_little_do_not_give_a_turn_twice(store, clock):
    clock.advance(HOUR)
    assert store.take_turn("prune", "w1", every_seconds=10)
    clock._now -= timedelta(seconds=SLACK_SECONDS)

    assert not store.take_turn("prune", "w2", every_seconds=10)


@pytest.mark.parametrize(
    ("field", "how"),
    [
        ("chore", {"chore": ""}),
        ("worker", {"worker": "\n"}),
        ("every_seconds", {"every_seconds": -1}),
    ],
)
def test_a_turn_of_nothing_is_refused(store, field, how):
    with pytest.raises(ValueError, match=f"^{field}: "):
        store.take_turn(**{"chore": "c", "worker": "w", "every_seconds": 1, **how})


@shared
def test_of_many_that_want_the_same_turn_one_gets_it(url, clock):
    """Stores of their own, as processes have them; the first turn of all, and a later one."""
    with open_store(url, clock=clock) as one, open_store(url, clock=clock) as other:
        for _ in range(5):
            found = at_once(
                8, lambda at: (one, other)[at % 2].take_turn("c", f"w{at}", every_seconds=10)
            )
            assert sorted(found) == [False] * 7 + [True]
            clock.advance(10)
