"""A worker's side of the upstreams, with a real store in memory and a clock that stands still."""

import threading

import pytest

from seawall import Backoff, Breaker, Fault, FaultCode, FaultError, Seawall, Upstream
from seawall.calls import Ticket
from seawall.errors import StoreUnavailableError
from seawall.execute import begun
from seawall.store import Wanted
from seawall.store.values import MOST_ROWS
from seawall.testing import in_memory
from seawall.worker.core import Core
from seawall.worker.events import Turn, Turned
from seawall.worker.governor import Governor
from seawall.worker.news import News
from seawall.worker.slots import Limit
from seawall.worker.turns import Turns

LEASE_SECONDS = 30.0
FAILED = Fault(FaultCode.UNAVAILABLE, "down")
QUICK = Breaker(
    open=Backoff(curve="fixed", base_seconds=5, jitter="none"), ramp_seconds=0, probe_seconds=60
)


class Hands:
    """What a worker has in its hands: what was taken, until a test says otherwise."""

    def __init__(self):
        self.held = {}

    def under_way(self, upstream):
        mine = [claim for claim in self.held.values() if claim.lane.upstream == upstream]
        return {
            owner: sum(c.lane.owner == owner for c in mine)
            for owner in {c.lane.owner for c in mine}
        }

    def take(self, claims):
        self.held.update({claim.token: claim for claim in claims})

    def has(self, token):
        return token in self.held


class Hired:
    """A governor, its hands, and how its attempts end."""

    def __init__(self, world, name, *, slots=8):
        self.app, self.hands = world.app, Hands()
        wanted = Wanted(name, None, tuple(world.app.tasks), 1, LEASE_SECONDS)
        self.governor = Governor(
            world.app, world.store, wanted, slots=slots, hands=self.hands, poke=lambda: None
        )

    def claims(self, free=8):
        return self.governor.attend(free).claims

    def ends(self, claim, fault=None):
        del self.hands.held[claim.token]
        work = begun(
            self.app,
            claim,
            lease_seconds=LEASE_SECONDS,
            claimed=self.app.clock.monotonic(),
            witness=self.governor,
        )
        return work.saw(fault)

    def fails(self, store, times=5):
        """Plain claims that end badly, as the clerk would tell of them."""
        wanted = Wanted("somebody", None, tuple(self.app.tasks), times, LEASE_SECONDS)
        claims = store.claim(wanted)
        self.hands.take(claims)
        for claim in claims:
            self.ends(claim, FAILED)
        store.observe(self.governor.observations())
        self.governor.attend(0)


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with in_memory(Seawall()) as world:
        yield world


def asked(world, name="words", many=20, **how):
    world.app.upstream(Upstream(name, **how))
    task = world.app.task(name="t", upstream=name)(lambda: None)
    return world.app.enqueue_many(task.job() for _ in range(many))


def test_what_a_turn_has_taken_counts_before_the_core_has_heard_of_it(world):
    asked(world, concurrency=3)
    one, other = Hired(world, "one"), Hired(world, "other")
    assert len(one.claims()) == 3
    one.governor.restate()  # as the beats do, whenever they like
    assert other.claims() == []


def test_a_probe_that_is_never_made_frees_its_slot(world):
    """It was cancelled, expired or lost while it waited: nobody will say how it ended."""
    asked(world, breaker=QUICK)
    one = Hired(world, "one")
    one.fails(world.store)
    world.advance(6)
    (probe,) = one.claims()
    one.governor.restate()
    assert one.claims() == []
    one.hands.held.clear()
    one.governor.restate()
    (again,) = one.claims()
    assert again.token != probe.token
    assert one.ends(again)
    one.governor.restate()
    assert [each.phase for each in world.app.upstreams] == ["closed"]


def test_what_is_over_is_forgotten_by_whoever_has_called_it_and_by_nobody_else(world):
    asked(world, breaker=QUICK)
    one, stranger = Hired(world, "one"), Hired(world, "stranger")
    one.fails(world.store)
    world.advance(6)
    (probe,) = one.claims()
    one.ends(probe)
    one.governor.restate()
    assert [each.gated for each in world.store.watched()] == [False]
    world.advance(300)
    stranger.governor.restate()
    assert len(world.store.watched()) == 1
    one.governor.restate()
    assert world.store.watched() == []


def test_a_health_probe_that_hangs_leaves_it_to_the_jobs(world):
    hangs = threading.Event()
    asked(world, breaker=QUICK, probe=hangs.wait)
    one = Hired(world, "one")
    try:
        one.fails(world.store)
        world.advance(6)
        assert one.claims() == []  # the health probe's turn
        world.advance(30)
        assert one.claims() == []
        world.advance(31)
        (probe,) = one.claims()
        one.ends(probe)
        one.governor.restate()
        assert [each.phase for each in world.app.upstreams] == ["closed"]
    finally:
        hangs.set()


def test_what_a_person_forces_closed_is_not_stopped_by_what_a_worker_saw_alone(world):
    asked(world, breaker=QUICK, concurrency=10)
    one = Hired(world, "one")
    for claim in one.claims(5):
        one.ends(claim, FAILED)
    assert one.governor.shut()[0] == {"words"}
    world.app.upstreams.force("words", "closed")
    assert len(one.claims(5)) == 5
    assert one.governor.shut()[0] == frozenset()


def test_where_nothing_is_let_through_for_a_while_nobody_asks_again_before(world, monkeypatch):
    asked(world, breaker=QUICK)
    one = Hired(world, "one")
    one.fails(world.store)
    asked_for = []
    govern = world.store.govern
    monkeypatch.setattr(
        world.store, "govern", lambda name, **how: asked_for.append(name) or govern(name, **how)
    )
    for _ in range(3):
        assert one.governor.attend(8) == ([], None)
    assert asked_for == []
    world.advance(4.5)
    assert one.governor.attend(8).again_at is not None
    world.advance(0.6)
    assert len(one.claims()) == 1


def test_whoever_found_no_free_slot_is_remembered_and_what_is_held_is_not(world):
    asked(world, concurrency=3)
    one = Hired(world, "one")
    assert one.governor.attend(0).claims == []
    assert one.governor.starved
    world.app.upstreams.hold("words")
    assert one.governor.attend(0).claims == []
    assert not one.governor.starved


def test_of_more_upstreams_than_a_batch_has_rows_the_rest_is_told_the_next_time(world):
    names = [f"words:{n}" for n in range(MOST_ROWS + 5)]
    task = world.app.task(name="t", upstream=lambda n: n)(lambda n: None)
    world.app.enqueue_many(task.job(name) for name in names)
    one = Hired(world, "one")
    told = []
    wanted = Wanted("one", None, ("t",), MOST_ROWS, LEASE_SECONDS)
    while claims := world.store.claim(wanted):
        one.hands.take(claims)
        for claim in claims:
            one.ends(claim)
    while seen := one.governor.observations():
        world.store.observe(seen)
        told += [each.upstream for each in seen]
    assert sorted(told) == sorted(names)


def test_what_was_taken_first_is_ours_though_the_store_fails_then(world, monkeypatch):
    asked(world, concurrency=3)
    one = Hired(world, "one")
    core = Core(
        concurrency=8,
        poll_seconds=1,
        grace_seconds=1,
        lease_seconds=LEASE_SECONDS,
        limit_of=lambda _: Limit(60.0),
    )
    turns = Turns(
        world.store,
        core,
        one.governor,
        News("one", world.app.clock),
        wanted=Wanted("one", None, ("t",), 1, LEASE_SECONDS),
        prefetched=("t",),
        work=lambda *_: None,
        stepping=threading.RLock(),
    )
    one.governor.attend(0)
    assert one.governor.starved

    def fails(*_, **__):
        raise StoreUnavailableError("away")

    monkeypatch.setattr(world.store, "exchange", fails)
    turned, *_ = turns.carried_out(Turn((), (), 8, False, 0))
    assert isinstance(turned, Turned)
    assert (len(turned.claims), turned.written) == (3, False)


def test_a_call_inside_a_handler_ends_also_while_the_store_is_away(world, monkeypatch):
    asked(world, concurrency=3)
    world.app.upstream(Upstream("vision", concurrency=1))
    one = Hired(world, "one")
    claim, *_ = one.claims()
    caller = one.governor.caller(claim)
    ticket = caller.enter("vision", {})
    assert isinstance(ticket, Ticket)
    assert isinstance(caller.enter("vision", {}), float)

    def fails():
        raise StoreUnavailableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "now", fails)
        caller.leave(ticket, RuntimeError("broken"), 1.0, None)
    assert isinstance(caller.enter("vision", {}), Ticket)


def test_a_probe_inside_a_handler_keeps_its_slot_for_as_long_as_it_takes(world):
    asked(world)
    world.app.upstream(Upstream("vision", breaker=QUICK))
    one, other = Hired(world, "one"), Hired(world, "other")
    claim, another, *_ = world.store.claim(Wanted("one", None, ("t",), 8, LEASE_SECONDS))
    caller, waits = one.governor.caller(claim), other.governor.caller(another)
    for _ in range(5):
        caller.leave(caller.enter("vision", {}), FaultError(FaultCode.UNAVAILABLE, "down"), 0, None)
    one.governor.attend(0)
    world.advance(6)
    probe = caller.enter("vision", {})
    assert isinstance(probe, Ticket)
    for _ in range(10):
        world.advance(20)
        one.governor.restate()
        other.governor.look()
        assert isinstance(waits.enter("vision", {}), float)
    caller.leave(probe, None, 200, None)
    one.governor.attend(0)
    other.governor.look()
    assert isinstance(waits.enter("vision", {}), Ticket)
