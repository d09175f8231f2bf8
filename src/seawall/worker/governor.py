"""A worker's side of the upstreams: what it saw of them, and what it may claim of their jobs.

Three things happen here. *Seeing*: how attempts ended is counted, by upstream, and goes to the
store with the settlements; a copy of the breaker, stepped at once, stops this worker before the
fleet has made up its mind. *Deciding*: after failures, or when a probe has ended or somebody asked
for time, the upstream's row is locked and the pure gate of the decisions layer steps over what all
workers saw. *Claiming*: jobs of a gated upstream, and retries, are claimed there and nowhere else.

What is decided here is decided by `decisions.gate`; this only carries facts to it and back.
"""

import asyncio
import inspect
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from typing import NamedTuple, Protocol

from seawall.app import Seawall
from seawall.calls import Ticket
from seawall.decisions import breaker as breakers
from seawall.decisions import gate as gates
from seawall.decisions.breaker import (
    AskedToWait,
    BreakerEvent,
    BreakerState,
    Failed,
    Ignored,
    Phase,
    ProbeAsked,
    Succeeded,
)
from seawall.decisions.gate import Gate
from seawall.errors import Skip, Snooze, StoreError
from seawall.execute import Work, fault_of
from seawall.faults import Fault, FaultCode
from seawall.model import Lane, Token, need_name
from seawall.store import Claim, Observation, Store, Wanted
from seawall.store.values import MOST_ROWS
from seawall.telemetry import UpstreamHeld, UpstreamNeedsYou, UpstreamReleased, emit
from seawall.upstreams import settle_down
from seawall.worker.deciding import ALIVE_SECONDS, Decision, Who, of_seen
from seawall.worker.watch import ASKS, DENIED, Counted, ToldNews, Watch, event_of, speaks

SOON_SECONDS = 0.02
"""When to try again where another worker decides about the same upstream just now."""
PROBED_SECONDS = 0.2
"""When to try again where another call is the probe that decides."""
QUOTA_SECONDS = 600.0
"""For how long an upstream is left alone whose allowance is used up, where it does not say."""


class Hands(Protocol):
    """What the worker has in its hands, as others are told of it."""

    def under_way(self, upstream: str) -> Mapping[str, int]:
        """How many jobs that call this upstream run, or are about to, by owner."""
        ...

    def take(self, claims: Sequence[Claim]) -> None:
        """These are ours from now on, though the core will hear of them only later."""
        ...

    def has(self, token: Token) -> bool:
        """Whether this lease is in our hands."""
        ...


class Attended(NamedTuple):
    """What came of a look at the upstreams."""

    claims: list[Claim]
    again_at: float | None
    """This machine's clock when to look again; None where the usual time will do."""


class Governor:
    """What one worker knows of upstreams, and what it does about them."""

    def __init__(
        self,
        app: Seawall,
        store: Store,
        wanted: Wanted,
        *,
        slots: int,
        hands: Hands,
        poke: Callable[[], None],
    ) -> None:
        self._app = app
        self._store = store
        self._wanted = wanted._replace(guarded=app.upstreams.limited)
        self._who = Who(self._wanted, slots, app.rng.randrange, self._next_check)
        self._hands = hands
        self._poke = poke
        self._lease_seconds = wanted.lease_seconds
        self._watches: dict[str, Watch] = {}
        self._lock = threading.RLock()
        self._deciding = threading.Lock()
        self._behind = 0.0
        """The store's clock less this machine's."""
        self._newly_shut = False
        self.starved = False
        """Jobs of upstreams were due that found no free slot."""
        self._numbers = count(1)
        self._inside: dict[str, dict[str, int]] = {}
        """Calls inside handlers that are under way, by upstream and owner."""
        self.active = any(stage.upstream for task in app.tasks.values() for stage in task.stages)
        """Whether any task calls an upstream at all."""

    # --- seeing -------------------------------------------------------------------------------

    def ended(self, work: Work, fault: Fault | None, *, says_nothing: bool = False) -> bool:
        """An attempt has ended; whether it counts. Asked by any thread."""
        lane = work.claim.lane
        if not lane.upstream:
            return True
        return self._ended(
            lane.upstream,
            fault,
            work.elapsed(),
            token=work.claim.token,
            retry=lane.retry,
            says_nothing=says_nothing,
        )

    def _ended(
        self,
        name: str,
        fault: Fault | None,
        seconds: float,
        *,
        token: Token,
        retry: bool,
        says_nothing: bool,
    ) -> bool:
        with self._lock:
            watch = self._watch(name)
            if fault is None and watch.is_well and not says_nothing:  # as most are
                watch.count(seconds, retry=retry)
                return True
            now = self._now()
            was_shut = watch.shut(now)
            probe = watch.probes.pop(token, None)
            event = event_of(fault, seconds, probe, says_nothing=says_nothing)
            if not says_nothing:
                self._count(watch, fault, seconds, now, retry=retry)
            if probe is not None and watch.phase(now) is not Phase.CLOSED:
                watch.news.append((event, ""))
            self._step_alone(watch, event, seconds, now)
            self._count_denials(watch, fault, now)
            self._hear_request(watch, fault, now)
            if not was_shut and watch.shut(now):
                self._newly_shut = True
        return not (was_shut and fault is not None and speaks(fault))

    def _count(
        self,
        watch: Watch,
        fault: Fault | None,
        seconds: float,
        now: float,
        *,
        retry: bool,
    ) -> None:
        seen = watch.count(seconds, retry=retry)
        if fault is None:
            return
        if fault.code in DENIED:
            seen.denied += 1
            watch.suspect = True
        closed_at = watch.gate.breaker.closed_at
        is_old = closed_at is not None and now - seconds < closed_at
        if fault.code.speaks_of_upstream and not is_old:
            seen.failures += 1
            watch.suspect = True

    def _step_alone(self, watch: Watch, event: BreakerEvent, seconds: float, now: float) -> None:
        """Step this worker's own copy, while the fleet's is closed and in nobody's hands."""
        rules, state = watch.upstream.breaker, watch.local
        if watch.phase(now) is not Phase.CLOSED or watch.gate.breaker.forced is not None:
            watch.local = None
            return
        if state is None and not isinstance(event, Failed):
            return
        closed_at = watch.gate.breaker.closed_at
        if closed_at is not None and now - seconds < closed_at:
            return  # it began before the fleet's was closed: old news
        after = breakers.step(rules, state or BreakerState(), event, now)
        was_open = state is not None and state.phase is not Phase.CLOSED
        if after.phase is Phase.OPEN and not was_open:
            watch.stopped = gates.FAILING
        well = after.phase is Phase.CLOSED and "f" not in after.recent.lower()
        watch.local = None if well and not after.consecutive else after

    def _count_denials(self, watch: Watch, fault: Fault | None, now: float) -> None:
        """Stop by ourselves where one call after the other is denied."""
        denied = fault is not None and fault.code in DENIED
        watch.denials = watch.denials + 1 if denied else 0
        if watch.denials >= gates.LEAST_DENIED and not watch.shut(now):
            watch.local = breakers.opened(
                watch.upstream.breaker, watch.local or BreakerState(), now
            )
            watch.denials, watch.stopped = 0, gates.DENIED

    def _hear_request(self, watch: Watch, fault: Fault | None, now: float) -> None:
        """An upstream that asks for time is given it: by this worker at once, by all soon."""
        if fault is None or fault.code not in ASKS:
            return
        seconds = fault.retry_after_seconds or 0.0
        why = gates.ASKED
        if fault.code is FaultCode.QUOTA_EXHAUSTED:
            seconds = max(seconds, QUOTA_SECONDS)
            why = gates.USED_UP
        if seconds <= 0:
            return
        event = AskedToWait(seconds)
        watch.news.append((event, why))
        if watch.gate.breaker.forced is None:
            watch.local = breakers.step(
                watch.upstream.breaker, watch.local or BreakerState(), event, now
            )

    def observations(self) -> list[Observation]:
        """How calls ended since the last time; to be written with the settlements."""
        with self._lock:
            found: list[Observation] = []
            for name, watch in self._watches.items():
                if watch.seen is not None and len(found) < MOST_ROWS:
                    seen, watch.seen = watch.seen, None
                    found.append(Observation(name, self._wanted.worker, *seen.amounts()))
            return found

    def put_back(self, observations: Sequence[Observation]) -> None:
        """They could not be written."""
        with self._lock:
            for each in observations:
                watch = self._watch(each.upstream)
                now = Counted() if watch.seen is None else watch.seen
                watch.seen = Counted(*map(sum, zip(now.amounts(), each[2:], strict=True)))

    # --- what may begin -----------------------------------------------------------------------

    def take_shut(self) -> bool:
        """Whether an upstream was shut since this was last asked."""
        with self._lock:
            newly, self._newly_shut = self._newly_shut, False
            return newly

    def shut(self) -> tuple[frozenset[str], frozenset[Token]]:
        """The upstreams of which nothing may begin, but for these probes."""
        with self._lock:
            now = self._now()
            shut = {name: each for name, each in self._watches.items() if each.shut(now)}
            probes = {token for each in shut.values() for token in each.probes}
        return frozenset(shut), frozenset(probes)

    def lets_begin(self, upstream: str) -> bool:
        """Whether a call at it may begin without being let through by the fleet."""
        if not self.active or not upstream:
            return True
        return upstream not in self._apart() and not self._app.upstreams.of(upstream).limited

    def wanted(self, wanted: Wanted) -> Wanted:
        """The same, but for what has to be claimed by upstream."""
        if not self.active:
            return wanted
        return wanted._replace(without=self._apart(), guarded=self._wanted.guarded)

    def _apart(self) -> frozenset[str]:
        """The upstreams whose jobs are claimed one upstream at a time."""
        with self._lock:
            now = self._now()
            return frozenset(
                name for name, each in self._watches.items() if each.gated or each.shut(now)
            )

    # --- deciding -----------------------------------------------------------------------------

    def attend(self, free: int, *, looking: bool = True) -> Attended:
        """Decide what is to be decided, and claim for so many free slots. Asked by the clerk.

        `looking` is whether it looks for jobs: where others took all slots, to come first next.
        """
        if not self.active:
            return Attended([], None)
        self.look()
        due, again_at = self._due() if looking else ({}, [])
        claims: list[Claim] = []
        for name in self._concerned(due if free > 0 else {}):
            try:
                found, again = self._decided(name, due.get(name, []), free - len(claims))
            except StoreError:
                if claims:  # they are ours whatever the store does next
                    break
                raise
            claims += found
            if again is not None:
                again_at.append(again)
        self.starved = bool(due) and len(claims) >= free
        if self.starved:
            again_at.append(self._now())
        ahead = max(0.0, min(again_at, default=math.inf) - self._now())
        if ahead > self._app.settings.poll_seconds:
            return Attended(claims, None)
        return Attended(claims, self._app.clock.monotonic() + ahead)

    def look(self) -> None:
        """See what others decided."""
        found = {each.name: each for each in self._store.watched()}
        with self._lock:
            now = self._now()
            for name in [*found, *(n for n in self._watches if n not in found)]:
                watch = self._watch(name)
                told = found.get(name)
                text = "" if told is None else told.state
                if text != watch.text:
                    was_shut = watch.shut(now)
                    watch.text, watch.gate, watch.again_at = text, gates.read(text), 0.0
                    if watch.phase(now) is not Phase.CLOSED or watch.gate.breaker.forced:
                        watch.local = None  # it is the fleet's affair now
                    self._newly_shut |= watch.shut(now) and not was_shut
                watch.gated = told is not None and told.gated

    def restate(self) -> None:
        """Tell the fleet that calls are still under way. Asked now and then, by another thread.

        And what it was not told yet, and to forget what nobody need remember.
        """
        if not self.active:
            return
        self.look()
        with self._lock:
            now = self._now()
            told = [name for name, each in self._watches.items() if each.has_news]
            over = [name for name, each in self._watches.items() if each.is_over(now)]
        for name in dict.fromkeys([*self._holding(), *told, *over]):
            self._decided(name, [], 0)

    def _holding(self) -> list[str]:
        with self._lock:
            return [
                name
                for name, watch in self._watches.items()
                if watch.probes or (watch.upstream.limited and watch.under_way)
            ]

    def _due(self) -> tuple[dict[str, list[Lane]], list[float]]:
        """Where jobs are due that are claimed by upstream, as far as there is use in asking.

        Also when there will be, of those where there is none now.
        """
        due: dict[str, list[Lane]] = {}
        for lane in self._store.due_at(self._wanted, self._apart()):
            due.setdefault(lane.upstream, []).append(lane)
        again_at: list[float] = []
        now = self._now()
        for name in list(due):
            later = self._watch(name).not_before(now)
            if later > now and not self._has_shrunk(name):
                again_at.append(later)
                del due[name]
        return due, again_at

    def _concerned(self, due: Mapping[str, object]) -> list[str]:
        """The upstreams to decide about, in turns."""
        with self._lock:
            told = [name for name, watch in self._watches.items() if watch.has_news]
            suspects = [name for name, watch in self._watches.items() if watch.suspect]
        shrunk = [name for name in self._holding() if self._has_shrunk(name)]
        opened = [name for name in suspects if name not in told and self._would_open(name)]
        names = list(dict.fromkeys([*told, *opened, *shrunk, *due]))
        start = self._app.rng.randrange(len(names)) if names else 0
        return names[start:] + names[:start]

    def _has_shrunk(self, name: str) -> bool:
        """Whether others may have what this worker has given up."""
        watch = self._watches[name]
        return bool(watch.under_way) and self._under_way(name) != watch.under_way

    def _would_open(self, name: str) -> bool:
        """A look without a lock: most failures are no reason to stop anybody."""
        watch = self._watches[name]
        watch.suspect = False
        window = gates.window_seconds(watch.upstream)
        seen = self._store.observed(name, within_seconds=window)
        alive = len(self._store.workers(within_seconds=ALIVE_SECONDS))
        after = gates.watched(watch.upstream, watch.gate, of_seen(seen), alive, self._now())
        return after.breaker.phase is not watch.gate.breaker.phase

    def _decided(
        self, name: str, lanes: Sequence[Lane], free: int
    ) -> tuple[list[Claim], float | None]:
        """Decide about one upstream, alone; what was claimed, and when to look again."""

        def claim(decision: Decision) -> None:
            if lanes and free > 0:
                decision.claim(lanes, free)

        decision = self._deciding_about(name, claim)
        if decision is None:
            return [], self._now() + SOON_SECONDS
        return decision.claims, decision.again_at

    def _deciding_about(self, name: str, ask: Callable[[Decision], None]) -> Decision | None:
        """What came of asking it; None where another worker decides about it just now."""
        with self._deciding:
            watch = self._watch(name)
            with self._lock:
                told = watch.news_for_the_fleet()
            with self._store.govern(name) as desk:
                if desk is None:
                    return None
                before = gates.read(desk.state)
                decision = Decision(self._who, watch, desk, before)
                self._give_up(watch, decision)
                decision.hear(told)
                decision.state(self._under_way(name))
                ask(decision)
                settle_down(desk, watch.upstream, decision.gate)
            self._hands.take(decision.claims)
            self._note(watch, decision, told)
        self._say(watch, before, decision)
        if decision.check:
            self._check(watch, decision.check)
        return decision

    def _give_up(self, watch: Watch, decision: Decision) -> None:
        """Probes that never came to their call (cancelled, expired, lost) free their slots."""
        gone = [each for each in list(watch.probes) if each.job_id and not self._hands.has(each)]
        with self._lock:
            for probe in [watch.probes.pop(each) for each in gone if each in watch.probes]:
                decision.give_up(probe)
                if watch.local is not None:
                    watch.local = breakers.step(
                        watch.upstream.breaker, watch.local, Ignored(probe), decision.now
                    )

    def _under_way(self, name: str) -> dict[str, int]:
        """How many calls at an upstream this worker has under way, by owner."""
        calls = dict(self._hands.under_way(name))
        with self._lock:
            for owner, count_ in self._inside.get(name, {}).items():
                calls[owner] = calls.get(owner, 0) + count_
        return calls

    def _note(self, watch: Watch, decision: Decision, told: ToldNews) -> None:
        """What was decided stands in the store; remember it."""
        with self._lock:
            self._behind = decision.now - self._app.clock.monotonic()
            was_shut = watch.shut(decision.now)
            gate = decision.gate
            plain = gates.is_plain(watch.upstream, gate, decision.now)
            watch.gate, watch.text = gate, "" if plain else gates.written(gate)
            watch.gated = not plain and gates.is_gated(watch.upstream, gate, decision.now)
            watch.have_told(told)
            watch.probes.update(decision.probes)
            if decision.entered is not None:
                self._begin_inside(watch, *decision.entered)
            watch.under_way = decision.under_way
            watch.again_at = 0.0 if decision.claims else decision.again_at or 0.0
            if watch.phase(decision.now) is not Phase.CLOSED:
                watch.local = None
            elif decision.probes and watch.local is not None:
                for probe in decision.probes.values():
                    watch.local = breakers.step(
                        watch.upstream.breaker, watch.local, ProbeAsked(probe), decision.now
                    )
            self._newly_shut |= watch.shut(decision.now) and not was_shut

    def _say(self, watch: Watch, before: Gate, decision: Decision) -> None:
        rules = watch.upstream.breaker
        old = breakers.at(rules, before.breaker, decision.now).phase
        new = decision.gate.breaker.phase
        if new is Phase.OPEN and old is not Phase.OPEN:
            name, why = watch.upstream.name, decision.gate.why
            seconds = round(decision.gate.breaker.until - decision.now, 1)
            if why in (gates.DENIED, gates.USED_UP):
                advice = f"put it right, then: seawall resume {name}"
                emit(UpstreamNeedsYou(upstream=name, seconds=seconds, reason=why, advice=advice))
            else:
                emit(UpstreamHeld(upstream=name, seconds=seconds, reason=why))
        elif new is Phase.CLOSED and old is not Phase.CLOSED:
            emit(UpstreamReleased(upstream=watch.upstream.name))

    # --- calls inside handlers ----------------------------------------------------------------

    def caller(self, claim: Claim) -> "JobCaller":
        """Who lets the calls through that this attempt's handler makes."""
        return JobCaller(self, self._app, claim)

    def enter(self, name: str, owner: str, units: dict[str, float], *, own: bool) -> Ticket | float:
        """The right to a call, or in how many seconds to ask again."""
        if not self.active:
            self.active = True
            self.look()
        watch = self._watch(name)
        token = Token(0, 0, next(self._numbers))
        limited = {unit: n for unit, n in units.items() if unit in watch.upstream.per_minute}
        if own and not limited:
            return Ticket(name, owner, {}, own, token)
        probe = f"{self._wanted.worker}/call/{token.seq}"
        alone: str | float | None = None
        if not own:
            with self._lock:
                alone = self._let_alone(watch, probe, self._now())
                if isinstance(alone, float):
                    return alone
                if not watch.gated and not watch.upstream.limited:
                    self._begin_inside(watch, owner, token, alone)
                    return Ticket(name, owner, {}, own, token)
        found: list[float | None] = []

        def ask(decision: Decision) -> None:
            found.append(decision.let_in(owner, limited, probe, token, own=own))

        decision = self._deciding_about(name, ask)
        again = SOON_SECONDS if decision is None else found[0]
        if again is None:
            return Ticket(name, owner, limited, own, token)
        if alone is not None:
            with self._lock:
                self._step_alone(watch, Ignored(probe), 0.0, self._now())
        return again

    def _let_alone(self, watch: Watch, probe: str, now: float) -> str | float | None:
        """By what this worker alone has seen: the probe's name if a call is one, or None.

        Or in how many seconds to ask again.
        """
        local, phase = watch.local, watch.local_phase(now)
        forced = watch.gate.breaker.forced is not None
        if local is None or phase is Phase.CLOSED or forced:
            return None
        if phase is Phase.OPEN:
            return max(SOON_SECONDS, local.until - now)
        watch.local = breakers.step(watch.upstream.breaker, local, ProbeAsked(probe), now)
        return probe if breakers.holds_slot(watch.local, probe) else PROBED_SECONDS

    def leave(
        self, ticket: Ticket, fault: Fault | None, seconds: float, used: dict[str, float] | None,
        *, says_nothing: bool,
    ) -> bool:  # fmt: skip
        """A call inside a handler has ended, so; whether an attempt that fails by it counts."""
        name = ticket.upstream
        with self._lock:
            if ticket.units and used is not None:
                self._watch(name).settled.append((ticket.units, used))
            if ticket.own:
                return True
            inside = self._inside[name]
            inside[ticket.owner] -= 1
            if not inside[ticket.owner]:
                del inside[ticket.owner]
        counts = self._ended(
            name, fault, seconds, token=ticket.token, retry=False, says_nothing=says_nothing
        )
        self._poke()
        return counts

    def _begin_inside(self, watch: Watch, owner: str, token: Token, probe: str | None) -> None:
        inside = self._inside.setdefault(watch.upstream.name, {})
        inside[owner] = inside.get(owner, 0) + 1
        if probe is not None:
            watch.probes[token] = probe

    # --- health probes ------------------------------------------------------------------------

    def _check(self, watch: Watch, probe: str) -> None:
        """Run the health probe, in a thread: it may take its time."""
        watch.checked_by, watch.checked_at = probe, self._now()
        name = f"seawall-probe-{watch.upstream.name}"
        threading.Thread(target=self._checked, args=(watch, probe), name=name, daemon=True).start()

    def _checked(self, watch: Watch, probe: str) -> None:
        began = self._app.clock.monotonic()
        event: BreakerEvent
        try:
            found = watch.upstream.probe() if watch.upstream.probe else None
            if inspect.iscoroutine(found):
                asyncio.run(found)
        except Exception:  # noqa: BLE001 - whatever it raises says no
            event = Failed(self._app.clock.monotonic() - began, probe)
        else:
            event = Succeeded(self._app.clock.monotonic() - began, probe)
        with self._lock:
            watch.news.append((event, ""))
            if watch.checked_by == probe:
                watch.checked_by = ""
        self._poke()

    def _next_check(self, watch: Watch) -> str | None:
        """The name of the next health probe; none while one is under way."""
        if watch.checked_by:
            return None
        return f"{self._wanted.worker}/check/{next(self._numbers)}"

    # --- the small things ---------------------------------------------------------------------

    def _watch(self, name: str) -> Watch:
        watch = self._watches.get(name)
        if watch is None:
            with self._lock:
                made = Watch(self._app.upstreams.of(name))
                watch = self._watches.setdefault(name, made)
        return watch

    def now(self) -> datetime:
        """About what the store's clock says; the store is not asked, which may be away."""
        return datetime.fromtimestamp(self._now(), UTC)

    def _now(self) -> float:
        if not self._behind:
            with suppress(StoreError):
                now = self._store.now().timestamp()
                self._behind = now - self._app.clock.monotonic()
        return self._app.clock.monotonic() + self._behind


class JobCaller:
    """Lets the calls of one attempt through."""

    __slots__ = ("_app", "_claim", "_governor")

    def __init__(self, governor: Governor, app: Seawall, claim: Claim) -> None:
        self._governor = governor
        self._app = app
        self._claim = claim

    def enter(self, upstream: str, units: dict[str, float]) -> Ticket | float:
        """The right to a call, or in how many seconds it may be had."""
        need_name("upstream", upstream)
        claim = self._claim
        own = claim.lane.upstream == upstream
        return self._governor.enter(upstream, claim.owner or "", units, own=own)

    def leave(
        self,
        ticket: Ticket,
        error: BaseException | None,
        seconds: float,
        used: dict[str, float] | None,
    ) -> bool:
        """The call has ended, so; whether an attempt that fails by it counts."""
        fault, says_nothing = None, isinstance(error, _NO_NEWS)
        if error is not None and not says_nothing:
            fault = fault_of(self._app, error, self._governor.now())
        return self._governor.leave(ticket, fault, seconds, used, says_nothing=says_nothing)


_NO_NEWS = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit, Skip, Snooze)
"""Ends of a block that say nothing about what it called."""
