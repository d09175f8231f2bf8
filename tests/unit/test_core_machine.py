"""The worker's core in a virtual world: whatever happens, in whatever order, its promises hold.

The world has a store that may fail (before or after it did what it was asked, or in one half of it),
handlers that take any time and may not stop when they are told to, people who cancel, and other
workers that take leases away. It does exactly what the core says, as the real loops do.
"""

import heapq
from collections import Counter, deque
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from seawall.execute import Stop
from seawall.faults import Fault, FaultCode
from seawall.model import Lane, Outcome, Settlement, Token
from seawall.store import Advance, Claim, Release
from seawall.worker.core import MOST_PREFETCHED, Core
from seawall.worker.events import (
    Abort,
    Advanced,
    Asked,
    Began,
    Ended,
    Exit,
    Freed,
    Rest,
    Signal,
    Start,
    Taken,
    Turn,
    Turned,
    TurnFailed,
    Woken,
)
from seawall.worker.slots import BEGIN_SECONDS, LET_GO_SECONDS, Limit

START = datetime(2026, 1, 1, tzinfo=UTC)
LEASE_SECONDS = 60.0
GRACE_SECONDS = 5.0
TIMEOUT_OF = {"quick": 3.0, "slow": 300.0, "isolated": 2.0}
FAULT = Fault(FaultCode.TIMEOUT, "too slow")

DURATIONS = st.sampled_from([0.0, 0.001, 0.01, 0.05, 0.3, 2.0, 4.0, 100.0])
SPANS = st.sampled_from([0.0, 0.001, 0.02, 0.1, 0.5, 1.0, 3.0, 10.0])


class Handler:
    """One call of a handler, as the runner sees it."""

    def __init__(self, job, claim, ends_at):
        self.job = job
        self.claim = claim
        self.ends_at = ends_at
        self.stop = None
        self.left = False


class World(RuleBasedStateMachine):
    """A core, and all that it can meet."""

    @initialize(
        concurrency=st.sampled_from([1, 2, 5, 30]),
        poll_seconds=st.sampled_from([0.05, 1.0, 20.0]),
        prefetch=st.booleans(),
    )
    def begin(self, concurrency, poll_seconds, prefetch):
        self.core = Core(
            concurrency=concurrency,
            poll_seconds=poll_seconds,
            grace_seconds=GRACE_SECONDS,
            lease_seconds=LEASE_SECONDS,
            limit_of=lambda lane: Limit(TIMEOUT_OF[lane.task], lane.task == "isolated"),
            prefetch=prefetch,
        )
        self.now = 100.0
        self.ids, self.order = count(1), count()
        self.queue = deque()
        self.jobs = {}
        self.lease_nos = Counter()
        self.leases = {}  # what the store knows: token → job
        self.known = set()  # what the core was told that it holds
        self.handlers = {}
        self.agenda = []  # (time, order, token, what): handlers that begin or end
        self.turn = None
        self.rest_until = None
        self.exited = False
        self.signals = 0
        self.starts, self.writes, self.aborts = Counter(), Counter(), Counter()
        self.told_lost, self.taken, self.asked = set(), set(), set()
        self.idle_rests = 0
        self.asked_ahead = 0
        self.step(Woken(look=True))

    # --- the world obeys ----------------------------------------------------------------------

    def step(self, event):
        self.obey(self.core.step(event, self.now), event)

    def obey(self, actions, event=None):
        assert not self.exited, "it goes on after its exit"
        self.rest_until = None
        for action in actions:
            match action:
                case Start(claim):
                    self.start(claim)
                case Abort():
                    self.abort(action)
                case Turn():
                    self.ask(action)
                case Rest(seconds):
                    self.rest(seconds, event, alone=len(actions) == 1)
                case Exit():
                    self.exit()
        waits = self.turn is not None
        assert waits + (self.rest_until is not None) + self.exited == 1, actions

    def start(self, claim):
        self.starts[claim.token] += 1
        assert self.starts[claim.token] == 1, "started twice"
        assert claim.token in self.known
        assert claim.token not in self.told_lost
        assert not self.signals, "started after the signal"
        job = self.jobs[claim.token.job_id]
        begins = self.now + job["comes_up"] if job["task"] == "isolated" else self.now
        handler = Handler(job, claim, begins + job["takes"])
        self.handlers[claim.token] = handler
        if job["task"] == "isolated":
            self.plan(begins, claim.token, "begin")
        self.plan(handler.ends_at, claim.token, "end")

    def abort(self, abort):
        handler = self.handlers[abort.token]
        assert not handler.left, "stopped though it was left behind"
        self.aborts[abort] += 1
        assert self.aborts[abort] == 1, "told twice"
        match abort.why:
            case Stop.LOST:
                assert abort.token in self.told_lost
            case Stop.CANCEL:
                assert abort.token in self.asked
                assert not abort.leave
            case Stop.SHUTDOWN:
                assert self.signals
        handler.stop = abort.why
        if abort.leave:
            handler.left = True
            self.plan(self.now, abort.token, "leave")
        elif not handler.job["stubborn"]:
            handler.ends_at = self.now
            self.plan(self.now, abort.token, "end")

    def ask(self, turn):
        assert self.turn is None, "two turns at once"
        assert turn.tokens or turn.limit, "a turn for nothing"
        assert not (set(turn.tokens) & self.told_lost), "writes what it knows is lost"
        assert set(turn.tokens) <= self.known
        if turn.limit:
            free = self.core.concurrency - len(self.core.running) - len(self.core.left_behind)
            room = MOST_PREFETCHED - len(self.core.waiting) if turn.prefetch else free
            assert turn.limit <= room, "claims more than fits"
            assert not self.signals, "claims after the signal"
        if turn.ahead:
            assert turn.limit, "claims ahead of nothing"
            assert not turn.prefetch, "all of these wait already"
            room = MOST_PREFETCHED - len(self.core.waiting)
            assert turn.ahead <= room, "claims more ahead than may wait"
            self.asked_ahead += 1
        self.turn = turn

    def rest(self, seconds, event, *, alone):
        assert seconds >= 0
        self.rest_until = self.now + seconds
        idle = isinstance(event, Woken) and alone and self.rest_until == self.now
        self.idle_rests = self.idle_rests + 1 if idle else 0
        assert self.idle_rests < 2, "a busy loop"

    def exit(self):
        assert self.signals
        assert not [each for each in self.handlers.values() if not each.left]
        assert not self.core.unwritten
        self.exited = True

    def plan(self, at, token, what):
        heapq.heappush(self.agenda, (at, next(self.order), token, what))

    # --- time ---------------------------------------------------------------------------------

    def happens(self, token, what):
        """A handler begins, ends, or is left behind."""
        handler = self.handlers.get(token)
        if handler is None:
            return
        if what == "begin":
            if not handler.left and handler.ends_at >= self.now:
                self.step(Began(token))
        elif what == "leave":
            self.step(Ended(token, self.end_of(handler), freed=False))
        elif handler.ends_at <= self.now:
            del self.handlers[token]
            if handler.left:
                self.step(Freed(token))
            else:
                self.step(Ended(token, self.end_of(handler)))

    def end_of(self, handler):
        token, job = handler.claim.token, handler.job
        if handler.stop in (Stop.SHUTDOWN, Stop.LOST):
            return Release(token=token, duration_seconds=1.0)
        if handler.stop is Stop.CANCEL and not job["stubborn"]:
            return Settlement(token=token, outcome=Outcome.CANCELLED)
        took = {"token": token, "duration_seconds": job["takes"]}
        if job["retries"]:
            job["retries"] -= 1
            return Settlement(
                outcome=Outcome.RETRIED, fault=FAULT, delay_seconds=job["takes"], **took
            )
        stage = handler.claim.lane.stage + 1
        if stage < job["stages"]:
            return Advance(lane=Lane(job["task"], stage=stage), output=str(stage), **took)
        return Settlement(outcome=Outcome.SUCCEEDED, **took)

    def pass_time(self, until):
        """Let time pass as the worker's loop sees it; while it waits for the store, it stands."""
        for _ in range(100_000):
            if self.exited:
                return
            times = [self.rest_until] if self.rest_until is not None else []
            times += [self.agenda[0][0]] if self.agenda else []
            if not times or min(times) > until:
                break
            self.now = max(self.now, min(times))
            if self.agenda and self.agenda[0][0] <= self.now:
                _, _, token, what = heapq.heappop(self.agenda)
                self.happens(token, what)
            else:
                self.step(Woken())
        else:
            raise AssertionError("it goes on for ever")
        self.now = max(self.now, until)

    # --- what happens -------------------------------------------------------------------------

    @precondition(lambda self: not self.exited)
    @rule(
        many=st.sampled_from([1, 3, 40, 400]),
        takes=DURATIONS,
        task=st.sampled_from(sorted(TIMEOUT_OF)),
        stubborn=st.booleans(),
        losses=st.sampled_from([0, 0, 0, 1]),
        retries=st.sampled_from([0, 0, 2]),
        stages=st.sampled_from([1, 1, 3]),
        deadline=st.sampled_from([None, None, 0.1, 2.5, 30.0]),
        comes_up=st.sampled_from([0.0, 0.5, BEGIN_SECONDS + 5.0]),
        told=st.booleans(),
    )
    def enqueue(self, many, told, deadline, **facts):
        for _ in range(many):
            job_id = next(self.ids)
            at = None if deadline is None else self.now + deadline
            self.jobs[job_id] = {"id": job_id, "deadline": at, "stage": 0, **facts}
            self.queue.append(job_id)
        if told and self.turn is None:
            self.step(Woken(look=True))

    @precondition(lambda self: not self.exited)
    @rule(seconds=SPANS)
    def wait(self, seconds):
        self.pass_time(self.now + seconds)

    @precondition(lambda self: not self.exited and self.turn is not None)
    @rule(took=st.sampled_from([0.0, 0.001, 0.03, 1.5]))
    def the_store_answers(self, took):
        self.pass_time(self.now + took)
        self.answer()

    @precondition(lambda self: not self.exited and self.turn is not None)
    @rule(took=st.sampled_from([0.0, 0.03, 2.5]), did=st.booleans())
    def the_store_fails(self, took, did):
        self.pass_time(self.now + took)
        if did:
            self.carry_out(self.turn)
        self.turn = None
        self.step(TurnFailed())

    @precondition(lambda self: not self.exited and self.turn is not None and self.turn.limit)
    @rule(
        took=st.sampled_from([0.0, 0.001, 0.03, 1.5]),
        wrote=st.sampled_from(["no", "before", "after"]),
    )
    def the_store_answers_what_it_claimed_and_perhaps_wrote(self, took, wrote):
        """It writes for one connection while it claims for another: what is first is anyone's guess."""
        self.pass_time(self.now + took)
        self.answer_claims_alone(wrote)

    @precondition(lambda self: not self.exited)
    @rule(seconds=st.sampled_from([0.05, 0.5, 3.0]), took=st.sampled_from([0.0, 0.002, 0.02]))
    def the_store_is_well_for_a_while(self, seconds, took):
        until = self.now + seconds
        for _ in range(3_000):
            if self.exited or self.now >= until:
                return
            if self.turn is None:
                self.pass_time(min(until, self.next_time()))
            else:
                self.pass_time(self.now + took)
                self.answer()

    def next_time(self):
        times = [self.rest_until] if self.rest_until is not None else []
        times += [self.agenda[0][0]] if self.agenda else []
        return max(self.now, min(times))

    @precondition(lambda self: not self.exited and self.core.running)
    @rule(data=st.data())
    def somebody_cancels(self, data):
        token = data.draw(st.sampled_from(sorted(self.core.running)))
        self.asked.add(token)
        self.step(Asked(token))

    @precondition(lambda self: not self.exited and self.leases)
    @rule(data=st.data(), told=st.booleans())
    def another_takes_a_lease(self, data, told):
        token = data.draw(st.sampled_from(sorted(self.leases)))
        job = self.leases.pop(token)
        self.taken.add(token)
        job["losses"] += 1
        self.queue.append(job["id"])
        if told:
            self.tell_lost(token)

    def as_known(self, token):
        """The token under which the core has that lease: it may not know yet that a stage is done."""
        before = Token(token.job_id, token.lease_no, token.seq - 1)
        return before if before in self.known else token

    @precondition(lambda self: not self.exited and self.taken - self.told_lost)
    @rule()
    def the_beat_tells_of_lost_leases(self):
        for token in sorted(self.taken - self.told_lost):
            self.tell_lost(token)

    def tell_lost(self, token):
        if not self.exited:
            named = self.as_known(token)
            self.told_lost |= {token, named}
            self.known.discard(named)
            self.step(Taken(named))

    @precondition(lambda self: not self.exited)
    @rule(really=st.sampled_from([False, False, False, True]))
    def a_signal_comes(self, really):
        if really:  # most lives are longer
            self.signals += 1
            self.step(Signal())

    @precondition(lambda self: self.exited)
    @rule()
    def it_is_gone(self):
        assert self.core.unwritten == 0

    @precondition(lambda self: not self.exited and self.turn is None)
    @rule(look=st.booleans())
    def it_is_woken(self, look):
        self.step(Woken(look=look))

    # --- the store ----------------------------------------------------------------------------

    def answer(self):
        turn, new = self.turn, {each for each in self.turn.tokens if each in self.leases}
        claims = self.carry_out(turn)
        self.known -= set(turn.tokens)
        advanced = [
            Advanced(each.token, goes_on=each.token in new)
            for each in turn.settlements
            if isinstance(each, Advance) and each.token.next() in self.leases
        ]
        self.known |= {each.token.next() for each in advanced} - self.told_lost
        self.known -= {each.token.next() for each in advanced if each.token in self.told_lost}
        self.turned(turn, claims, Turned(tuple(claims), advanced=tuple(advanced)))

    def answer_claims_alone(self, wrote):
        turn = self.turn
        settled = {settlement.token for settlement in turn.settlements}
        self.write(turn, turn.tokens - settled)  # what is handed back is said first
        if wrote == "before":
            self.write(turn, settled)
        claims = self.claims_for(turn)
        if wrote == "after":
            self.write(turn, settled)
        self.turned(turn, claims, Turned(tuple(claims), written=False))

    def turned(self, turn, claims, event):
        for claim in claims:
            for older in [token for token in self.known if token.job_id == claim.token.job_id]:
                self.known.discard(older)  # it could be claimed: that lease was lost
                self.told_lost.add(older)
        self.known |= {claim.token for claim in claims}
        self.turn = None
        before = set(self.core.running)
        self.step(event)
        if turn.limit and not turn.prefetch and not self.signals:
            for_slots = {claim.token for claim in claims[: turn.limit]}
            late = for_slots - set(self.core.running) - before
            unbegun = {claim.token for claim, _ in self.core.waiting} & late
            assert not unbegun, "claimed for a free slot, and yet it waits"

    def carry_out(self, turn):
        self.write(turn, turn.tokens)
        return self.claims_for(turn)

    def write(self, turn, tokens):
        for token in sorted(tokens):
            if token in self.leases:
                self.writes[token] += 1
                job = self.leases.pop(token)
                self.settled(job, turn, token)
            else:
                assert token in self.writes or token in self.taken, "never leased"

    def claims_for(self, turn):
        first = self.claimed(turn.limit, prefetch=turn.prefetch)
        return first + self.claimed(turn.ahead, prefetch=True)

    def claimed(self, limit, *, prefetch):
        claims = []
        for _ in range(len(self.queue)):
            if len(claims) >= limit:
                break
            job = self.jobs[self.queue.popleft()]
            if job["deadline"] is not None and job["deadline"] <= self.now:
                continue  # upkeep fails it
            if prefetch and job["losses"]:
                self.queue.append(job["id"])
                continue
            claims.append(self.claim(job))
        return claims

    def settled(self, job, turn, token):
        for settlement in turn.settlements:
            if settlement.token == token and isinstance(settlement, Advance):
                job["stage"] = settlement.lane.stage
                self.leases[token.next()] = job
            elif settlement.token == token and settlement.outcome is Outcome.RETRIED:
                self.queue.append(job["id"])
        if any(release.token == token for release in turn.releases):
            self.queue.append(job["id"])

    def claim(self, job):
        self.lease_nos[job["id"]] += 1
        number = self.lease_nos[job["id"]]
        token = Token(job["id"], number, number)
        self.leases[token] = job
        now = START + timedelta(seconds=self.now)
        deadline = job["deadline"]
        return Claim(
            token=token,
            lane=Lane(job["task"], stage=job["stage"]),
            cycle=0,
            tries=0,
            losses=job["losses"],
            due_at=now,
            lease_until=now + timedelta(seconds=LEASE_SECONDS),
            deadline_at=None if deadline is None else START + timedelta(seconds=deadline),
            run=None,
            owner=None,
            codec="json",
            arguments="{}",
            request_id=None,
            input=None,
        )

    # --- what holds at every moment -----------------------------------------------------------

    @invariant()
    def never_more_than_its_slots(self):
        if hasattr(self, "core"):
            assert len(self.handlers) <= self.core.concurrency
            assert len(self.core.running) + len(self.core.left_behind) <= self.core.concurrency

    @invariant()
    def it_keeps_exactly_the_leases_it_was_given(self):
        if hasattr(self, "core"):
            assert len(self.core.tokens) == len(set(self.core.tokens))
            assert set(self.core.tokens) == self.known

    @invariant()
    def no_more_is_prefetched_than_may_be(self):
        if hasattr(self, "core"):
            assert len(self.core.waiting) <= MOST_PREFETCHED

    @invariant()
    def every_end_is_written_at_most_once(self):
        if hasattr(self, "core"):
            assert all(times == 1 for times in self.writes.values())

    # --- the end ------------------------------------------------------------------------------

    def teardown(self):
        """After a signal and with a store that answers, it exits in time, and all is written."""
        if not hasattr(self, "core") or self.exited:
            return
        self.signals += 1
        self.step(Signal())
        latest = self.now + GRACE_SECONDS + LET_GO_SECONDS + 1.0
        for _ in range(10_000):
            if self.exited:
                break
            if self.turn is not None:
                self.answer()
            else:
                assert self.now <= latest, "it does not exit"
                self.pass_time(self.now + 0.1)
        assert self.exited
        assert self.core.tokens == []
        for token, times in self.starts.items():
            written = self.writes[token] == times
            assert written or token in self.taken, f"{token} was never written"


World.TestCase.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
TestTheCoreInAWorld = World.TestCase


PLAIN_FACTS = {
    "task": "slow", "stubborn": False, "retries": 0, "deadline": None, "comes_up": 0.0,
    "stages": 1,
}  # fmt: skip


@pytest.mark.parametrize("concurrency", [1, 5, 30])
@pytest.mark.parametrize("takes", [0.001, 0.02, 0.05])
@pytest.mark.parametrize("took", [0.0, 0.002, 0.02])
def test_a_busy_time_of_short_jobs_some_of_which_were_lost_before(concurrency, takes, took):
    """The promises hold while slots are full, jobs wait in our hands, and others are kept apart."""
    world = World()
    world.begin(concurrency=concurrency, poll_seconds=1.0, prefetch=True)
    for losses in (0, 1, 0, 1, 0):
        world.enqueue(many=300, takes=takes, losses=losses, told=losses == 0, **PLAIN_FACTS)
        world.the_store_is_well_for_a_while(seconds=3.0, took=took)
        world.it_keeps_exactly_the_leases_it_was_given()
        world.never_more_than_its_slots()
    assert len(world.writes) > 100
    world.teardown()
    world.every_end_is_written_at_most_once()


@pytest.mark.parametrize("wrote", ["no", "before", "after"])
@pytest.mark.parametrize("retries", [0, 2])
def test_a_busy_time_with_a_store_that_claims_and_only_now_and_then_says_what_it_wrote(
    wrote, retries
):
    """Jobs are claimed ahead meanwhile; none is written twice, and none is forgotten."""
    world = World()
    world.begin(concurrency=30, poll_seconds=0.05, prefetch=True)
    facts = {**PLAIN_FACTS, "retries": retries, "takes": 0.001, "losses": 0, "told": True}
    for _ in range(5):
        world.enqueue(many=400, **facts)
        for turn in range(100):
            if world.turn is None:
                world.pass_time(world.next_time())
            elif turn % 3 and world.turn.limit:
                world.the_store_answers_what_it_claimed_and_perhaps_wrote(took=0.02, wrote=wrote)
            else:
                world.the_store_answers(took=0.02)
            world.it_keeps_exactly_the_leases_it_was_given()
            world.never_more_than_its_slots()
            world.no_more_is_prefetched_than_may_be()
    assert world.asked_ahead
    assert len(world.writes) > 400
    world.teardown()
    world.every_end_is_written_at_most_once()
