"""A worker's side of the upstreams, with a real store in memory and a clock that stands still."""

import math
import random
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from seawall import Backoff, Breaker, Fault, FaultCode, FaultError, Seawall, Upstream
from seawall.calls import Ticket
from seawall.decisions import gate as gates
from seawall.errors import StoreUnavailableError
from seawall.execute import begun, ended
from seawall.model import Lane
from seawall.states import State
from seawall.store import Observed, Presence, Wanted
from seawall.store.values import MOST_ROWS
from seawall.testing import in_memory
from seawall.worker.core import Core
from seawall.worker.deciding import GRANT_SECONDS, callers
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

    def take(self, claims, use_by):
        self.use_by = use_by
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
            witness=self.governor.seeing,
        )
        return work.saw(fault)

    def fails(self, store, times=5):
        """Plain claims that end badly, as the clerk would tell of them."""
        wanted = Wanted("somebody", None, tuple(self.app.tasks), times, LEASE_SECONDS)
        claims = store.claim(wanted)
        self.hands.take(claims, math.inf)
        for claim in claims:
            self.ends(claim, FAILED)
        store.observe(self.governor.seeing.observations())
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
    assert one.governor.watches.shut()[0] == {"words"}
    world.app.upstreams.force("words", "closed")
    assert len(one.claims(5)) == 5
    assert one.governor.watches.shut()[0] == frozenset()


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
        one.hands.take(claims, math.inf)
        for claim in claims:
            one.ends(claim)
    while seen := one.governor.seeing.observations():
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
    caller = one.governor.inside.caller(claim)
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
    caller, waits = one.governor.inside.caller(claim), other.governor.inside.caller(another)
    for _ in range(5):
        caller.leave(caller.enter("vision", {}), FaultError(FaultCode.UNAVAILABLE, "down"), 0, None)
    one.governor.attend(0)
    world.advance(6)
    probe = caller.enter("vision", {})
    assert isinstance(probe, Ticket)
    for _ in range(10):
        world.advance(20)
        one.governor.restate()
        other.governor.watches.look()
        assert isinstance(waits.enter("vision", {}), float)
    caller.leave(probe, None, 200, None)
    one.governor.attend(0)
    other.governor.watches.look()
    assert isinstance(waits.enter("vision", {}), Ticket)


# --- who makes a quorum -----------------------------------------------------------------------


def present(worker, *, tasks=("t",), queues=None, stopping=False):
    return Presence(
        worker=worker, host="h", pid=1, version="1", queues=queues, tasks=tasks, concurrency=1,
        stopping=stopping,
    )  # fmt: skip


def saw(worker):
    return Observed(worker, 1, 1, 0, 1, 0, 0, 5)


@pytest.mark.parametrize(("worker", "seen", "counts"), [
    (present("w"), [], True),
    (present("w", queues=("default",)), [], True),
    (present("w", queues=("elsewhere",)), [], False),
    (present("w", tasks=("other",)), [], False),
    (present("w", tasks=("other",)), [saw("w")], True),
    (present("w", tasks=("other",)), [saw("somebody")], False),
    (present("w", stopping=True), [saw("w")], False),
])  # fmt: skip
def test_whoever_may_call_it_is_one_of_its_callers(worker, seen, counts):
    lanes = [Lane(task="t", upstream="words"), Lane(task="t", upstream="words", retry=True)]
    assert callers([worker], lanes, seen) == counts


def test_workers_that_never_call_an_upstream_do_not_keep_it_from_being_held(world):
    asked(world, breaker=QUICK)
    one = Hired(world, "one")
    world.store.appear(present("one"))
    for n in range(5):
        world.store.appear(present(f"mail-{n}", queues=("mail",)))
        world.store.appear(present(f"other-{n}", tasks=("other",)))
    one.fails(world.store)
    assert [each.phase for each in world.app.upstreams] == ["open"]


def test_a_worker_that_could_call_it_and_has_not_yet_is_waited_for(world):
    asked(world, breaker=QUICK)
    one = Hired(world, "one")
    world.store.appear(present("one"))
    world.store.appear(present("two"))
    one.fails(world.store)
    assert [each.phase for each in world.app.upstreams] == ["closed"]
    assert one.governor.watches.shut()[0] == {"words"}


# --- jobs that always fail --------------------------------------------------------------------


def settled(world, hired, claim, fault):
    """The end of an attempt, as it is written."""
    del hired.hands.held[claim.token]
    now = world.app.clock.monotonic()
    seeing = hired.governor.seeing
    work = begun(world.app, claim, lease_seconds=LEASE_SECONDS, claimed=now, witness=seeing)
    world.store.settle([ended(work, fault).write], seeing.observations())
    hired.governor.attend(0)


def all_fail(world, hired):
    """Whatever may begin now."""
    plain = world.store.claim(Wanted("one", None, ("t",), 8, LEASE_SECONDS))
    hired.hands.take(plain, math.inf)
    for claim in [*plain, *hired.claims()]:
        settled(world, hired, claim, FAILED)


def test_where_only_jobs_are_left_that_always_fail_people_are_told_and_none_dies_of_probing(
    world, caplog
):
    """No probe of theirs can tell whether the upstream is well: a person can."""
    ids = asked(world, breaker=QUICK, many=6, retry_budget=None)
    one = Hired(world, "one")
    for _ in range(400):
        all_fail(world, one)
        world.advance(6)
        (shown,) = world.app.upstreams
        if shown.openings == 2 * gates.MANY_OPENINGS:
            break
    jobs = list(world.store.jobs([each.id for each in ids]).values())
    assert {job.state for job in jobs} == {State.QUEUED}
    assert sum(job.tries for job in jobs) <= 5, "what opened it, and no probe"
    told = [record.seawall for record in caplog.records if hasattr(record, "seawall")]
    told = [each for each in told if each["event"] == "upstream_needs_you"]
    assert [each["reason"] for each in told] == [
        f"its calls fail, {n} times in a row" for n in (10, 20)
    ]
    assert "seawall force words closed" in told[0]["advice"]
    assert any("seawall force words closed" in line for line in world.app.why(ids[0].id).lines)
    # So they use up their tries, each for itself.
    world.app.upstreams.force("words", "closed")
    for _ in range(400):
        world.advance(60)
        all_fail(world, one)
        if world.store.counts()[State.FAILED] == len(ids):
            break
    assert world.store.counts()[State.FAILED] == len(ids)


def test_a_probe_that_fails_where_another_succeeded_speaks_for_itself(world):
    asked(world, breaker=replace(QUICK, probes=2, successes_to_close=3, failures_to_reopen=2))
    one = Hired(world, "one")
    one.fails(world.store)
    world.advance(6)
    (good,), (bad,) = one.claims(), one.claims()
    assert one.ends(good)
    one.governor.restate()
    assert one.ends(bad, FAILED), "it counts"


# --- what is said in time ---------------------------------------------------------------------


def test_what_is_under_way_is_said_though_others_are_at_the_desk_again_and_again(
    world, monkeypatch
):
    """Else its places would be others' before its calls have ended."""
    asked(world, concurrency=3)
    one, other = Hired(world, "one"), Hired(world, "other")
    assert len(one.claims()) == 3
    govern, busy = world.store.govern, 0

    @contextmanager
    def contended(name, **how):
        nonlocal busy
        busy += 1
        if busy % 5:
            yield None
            return
        with govern(name, **how) as desk:
            yield desk

    for _ in range(10):
        world.clock.advance(LEASE_SECONDS / 4)
        with monkeypatch.context() as patch:
            patch.setattr(world.store, "govern", contended)
            one.governor.restate()
        assert other.claims() == []


def test_a_call_that_its_attempt_left_behind_keeps_its_place_but_no_probes_slot(world):
    """It may never return, and others wait to know whether the upstream is well."""
    asked(world)
    world.app.upstream(Upstream("vision", breaker=QUICK, concurrency=1))
    one, other = Hired(world, "one"), Hired(world, "other")
    claim, another, *_ = world.store.claim(Wanted("one", None, ("t",), 8, LEASE_SECONDS))
    caller, waits = one.governor.inside.caller(claim), other.governor.inside.caller(another)
    for _ in range(5):
        caller.leave(caller.enter("vision", {}), FaultError(FaultCode.UNAVAILABLE, "down"), 0, None)
    one.governor.attend(0)
    world.advance(6)
    probe = caller.enter("vision", {})
    assert isinstance(probe, Ticket)
    world.clock.advance(100)
    one.governor.restate()
    caller.leave_behind()
    one.governor.restate()
    (shown,) = [each for each in world.app.upstreams if each.name == "vision"]
    assert (shown.phase, shown.openings) == ("open", 2), "it took too long: that is an answer"
    world.advance(6)
    one.governor.restate()
    other.governor.watches.look()
    assert isinstance(waits.enter("vision", {}), float), "the one place is taken"
    caller.leave(probe, None, 106, None)
    one.governor.attend(0)
    other.governor.watches.look()
    assert isinstance(waits.enter("vision", {}), Ticket)


def test_a_call_for_much_is_booked_where_small_ones_never_pause(world):
    asked(world)
    world.app.upstream(Upstream("words:new", per_minute={"tokens": 6_200}))
    one = Hired(world, "one")
    claim, *_ = world.store.claim(Wanted("one", None, ("t",), 8, LEASE_SECONDS))
    caller = one.governor.inside.caller(claim)
    while isinstance(small := caller.enter("words:new", {"tokens": 10}), Ticket):
        assert small.begins_in == 0
    world.clock.advance(0.1)
    large = caller.enter("words:new", {"tokens": 1_000})
    assert 0 < large.begins_in <= 1
    use_by = world.clock.monotonic() + large.begins_in + GRANT_SECONDS
    assert large.use_by == pytest.approx(use_by)
    assert caller.enter("words:new", {"tokens": 10}) > 8, "it comes after that"


@pytest.mark.parametrize("tokens", [1, 103, 104, 6_200, 100_000])
def test_a_call_at_another_upstream_may_reserve_as_much_as_it_likes(world, tokens):
    asked(world)
    limits = {"tokens": 6_200, "requests": 60}
    world.app.upstream(Upstream("vision", concurrency=1, per_minute=limits))
    one = Hired(world, "one")
    claim, *_ = world.store.claim(Wanted("one", None, ("t",), 8, LEASE_SECONDS))
    caller = one.governor.inside.caller(claim)
    ticket = caller.enter("vision", {"tokens": tokens})
    assert isinstance(ticket, Ticket)
    assert isinstance(caller.enter("vision", {"tokens": 1}), float)
    caller.leave(ticket, None, 1.0, {"tokens": 0})
    world.clock.advance(2)
    assert isinstance(caller.enter("vision", {"tokens": 1}), Ticket), "what it did not use is back"


# --- a fleet in no time -----------------------------------------------------------------------


def test_an_upstream_that_asks_everybody_for_thirty_seconds_is_left_alone_for_so_long(world):
    asked(world, breaker=QUICK, many=40)
    fleet = [Hired(world, f"w{n}") for n in range(4)]
    told = Fault(FaultCode.RATE_LIMITED, "later", retry_after_seconds=30)
    for each in fleet:
        claims = world.store.claim(Wanted("somebody", None, ("t",), 2, LEASE_SECONDS))
        each.hands.take(claims, math.inf)
        assert [each.ends(claim, told) for claim in claims] == [True, False]
    world.store.observe([seen for each in fleet for seen in each.governor.seeing.observations()])
    for each in fleet:
        each.governor.attend(0)
    silent = 0
    while not (found := [claim for each in fleet for claim in each.claims()]):
        assert world.store.claim(Wanted("plain", None, ("t",), 8, LEASE_SECONDS)) == []
        world.clock.advance(0.5)
        silent += 0.5
    assert 30 <= silent <= 34, "and a tenth longer at most"
    assert len(found) == 1, "and then it is probed"


def test_no_minute_sees_more_than_its_requests_and_hardly_less_whoever_is_killed(world):
    """Four workers that come when they like, use what they get up to a second late, and die."""
    limit, rng = 120, random.Random(0)
    asked(world, many=400, per_minute={"requests": limit})
    fleet = [Hired(world, f"w{n}") for n in range(4)]
    began = world.clock.monotonic()
    calls = []
    while (now := world.clock.monotonic()) < began + 125:
        each = rng.choice(fleet)
        for claim in each.claims(rng.randrange(1, 9)):
            used_at = now + rng.random() * GRANT_SECONDS
            assert used_at <= each.hands.use_by
            calls.append(used_at)
            del each.hands.held[claim.token]
        if rng.random() < 0.01:
            fleet[rng.randrange(4)] = Hired(world, f"w{now}")
        world.clock.advance(rng.random() * 0.4)
    calls.sort()
    for at in calls:
        assert sum(at <= call < at + 60 for call in calls) <= limit
    for minute in (0, 60):
        since = began + minute
        assert sum(since <= call < since + 60 for call in calls) >= 0.95 * limit


# ── What the history tells ───────────────────────────────────────────────────────────────────────


def test_how_long_calls_took_is_told_with_how_they_ended(world):
    asked(world, many=3)
    one, wanted = Hired(world, "one"), Wanted("one", None, ("t",), 3, LEASE_SECONDS)
    claims = world.store.claim(wanted)
    one.hands.take(claims, math.inf)
    for claim in claims:
        assert one.ends(claim)
    (seen,) = one.governor.seeing.observations()
    assert sum(many for _, many in seen.spans) == 3
    one.governor.seeing.put_back([seen])
    one.governor.seeing.put_back([seen])
    (both,) = one.governor.seeing.observations()
    assert (both.firsts, sum(many for _, many in both.spans)) == (6, 6)
    world.store.observe([both])
    (told,) = world.store.upstream_totals()
    assert (told.calls, told.took.many) == (6, 6)


def test_a_breakers_turns_are_in_the_history_and_so_is_the_time_that_it_was_open(world):
    asked(world, breaker=QUICK)
    start = world.now
    one = Hired(world, "one")
    one.fails(world.store)
    world.advance(6)
    (probe,) = one.claims()
    assert [each.phase for each in world.store.upstream_phases("words", start)] == [
        "open", "half_open",
    ]  # fmt: skip
    assert one.ends(probe)
    one.governor.restate()
    world.advance(1)

    found = world.store.upstream_phases("words", start)

    assert [each.phase for each in found] == ["open", "half_open", "closed"]
    lasted = (found[0].until - found[0].since).total_seconds()
    (told,) = world.store.upstream_totals()
    assert told.open_seconds == lasted > 0


def test_what_a_person_decides_is_in_the_history(world):
    asked(world)
    start = world.now
    world.advance(1)
    world.app.upstreams.hold("words", seconds=10)
    world.advance(3)
    world.app.upstreams.resume("words")
    world.advance(3)
    world.app.upstreams.force("words", "closed")
    world.advance(3)
    world.app.upstreams.hold("words", seconds=2)
    world.advance(3)

    found = world.store.upstream_phases("words", start)

    lasted = [each.until and (each.until - each.since).total_seconds() for each in found]
    assert [each.phase for each in found] == [
        "closed", "held", "closed", "forced_closed", "held", "closed",
    ]  # fmt: skip
    assert lasted == [1, 3, 3, 3, 2, None]
    (told,) = world.store.upstream_totals()
    assert told.open_seconds == 5
