"""Calls inside handlers: `with upstream("vision"):`, as one worker lets them through.

Each has a ticket, and counts as under way from the moment at which it was let in until its block
is left. A handler that is left behind may go on calling: its calls keep their places, but no
longer a probe's slot, which others wait for.
"""

import asyncio
from collections.abc import Callable
from itertools import count

from seawall.app import Seawall
from seawall.calls import Ticket
from seawall.decisions import breaker as breakers
from seawall.decisions.breaker import Ignored, Phase, ProbeAsked
from seawall.errors import Skip, Snooze
from seawall.execute import fault_of
from seawall.faults import Fault, FaultCode
from seawall.model import Token, need_name
from seawall.store import Claim
from seawall.worker.deciding import SOON_SECONDS, Decision
from seawall.worker.seeing import Seeing
from seawall.worker.watch import Watch
from seawall.worker.watches import Watches

PROBED_SECONDS = 0.2
"""When to try again where another call is the probe that decides."""
_NO_NEWS = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit, Skip, Snooze)
"""Ends of a block that say nothing about what it called."""

Decide = Callable[[str, Callable[[Decision], None]], Decision | None]
"""Decide about an upstream; None where another worker does so just now."""


class Inside:
    """The calls inside one worker's handlers."""

    def __init__(
        self,
        app: Seawall,
        watches: Watches,
        seeing: Seeing,
        worker: str,
        decide: Decide,
        poke: Callable[[], None],
    ) -> None:
        self._app = app
        self._watches = watches
        self._seeing = seeing
        self._worker = worker
        self._decide = decide
        self._poke = poke
        self._numbers = count(1)
        self._calls: dict[str, dict[str, int]] = {}
        """Those that are under way, by upstream and owner."""
        self._told: set[Token] = set()
        """Those of which it was said already how they ended, though they go on."""

    def caller(self, claim: Claim) -> "JobCaller":
        """Who lets the calls through that this attempt's handler makes."""
        return JobCaller(self, self._app, claim)

    def under_way(self, name: str) -> dict[str, int]:
        """How many there are at this upstream, by owner."""
        with self._watches.lock:
            return dict(self._calls.get(name, {}))

    def phase(self, name: str) -> str:
        """What the upstream's breaker is now."""
        return self._seeing.phase(name)

    def fault_of(self, error: BaseException) -> Fault:
        """What went wrong, canonically."""
        return fault_of(self._app, error, self._watches.date())

    def stands(self, ticket: Ticket) -> bool:
        """Whether the right to the call may still be used."""
        return self._app.clock.monotonic() <= ticket.use_by

    def enter(
        self, name: str, owner: str, units: dict[str, float], *, own: bool, retry: bool = False
    ) -> Ticket | float:
        """The right to a call, or in how many seconds to ask again."""
        if not self._watches.active:
            self._watches.active = True
            self._watches.look()
        watch = self._watches.of(name)
        token = Token(0, 0, next(self._numbers))
        limited = {unit: n for unit, n in units.items() if unit in watch.upstream.per_minute}
        if own and not limited:
            return Ticket(name, owner, {}, own, token)
        probe = f"{self._worker}/call/{token.seq}"
        alone: str | float | None = None
        if not own:
            with self._watches.lock:
                alone = self._let_alone(watch, probe, self._watches.now())
                if isinstance(alone, float):
                    return alone
                budgeted = retry and watch.upstream.retry_budget is not None
                if not watch.gated and not watch.upstream.limited and not budgeted:
                    self.begin(watch, owner, token, alone)
                    return Ticket(name, owner, {}, own, token, retry=retry)
        found: list[float | None] = []

        def ask(decision: Decision) -> None:
            found.append(decision.let_in(owner, limited, probe, token, own=own, retry=retry))

        decision = self._decide(name, ask)
        again = SOON_SECONDS if decision is None else found[0]
        if again is None and decision is not None:
            return Ticket(
                name, owner, limited, own, token, decision.use_by, decision.begins_in, retry
            )
        if alone is not None:
            with self._watches.lock:
                self._seeing.step_alone(watch, Ignored(probe), 0.0, self._watches.now())
        return SOON_SECONDS if again is None else again

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

    def begin(self, watch: Watch, owner: str, token: Token, probe: str | None) -> None:
        """One was let in."""
        with self._watches.lock:
            inside = self._calls.setdefault(watch.upstream.name, {})
            inside[owner] = inside.get(owner, 0) + 1
            if probe is not None:
                watch.probes[token] = probe

    def leave(
        self, ticket: Ticket, fault: Fault | None, seconds: float, used: dict[str, float] | None,
        *, says_nothing: bool,
    ) -> bool:  # fmt: skip
        """A call inside a handler has ended, so; whether an attempt that fails by it counts."""
        name = ticket.upstream
        with self._watches.lock:
            if ticket.units and used is not None:
                self._watches.of(name).settled.append((ticket.units, used))
            if ticket.own:
                return True
            inside = self._calls[name]
            inside[ticket.owner] -= 1
            if not inside[ticket.owner]:
                del inside[ticket.owner]
            known = ticket.token in self._told
            self._told.discard(ticket.token)
        counts = True if known else self._ended(ticket, fault, seconds, says_nothing=says_nothing)
        self._poke()
        return counts

    def leave_behind(self, ticket: Ticket, seconds: float) -> None:
        """Its attempt has ended without it: the call took too long, whenever it will be over."""
        fault = Fault(FaultCode.TIMEOUT, "no end before its attempt's", ambiguous=True)
        self.outlast(ticket, fault, seconds, says_nothing=False)

    def outlast(
        self, ticket: Ticket, fault: Fault | None, seconds: float, *, says_nothing: bool
    ) -> bool:
        """Say how a call ended that keeps its place until `leave`; whether an attempt counts."""
        if ticket.own:
            return True
        with self._watches.lock:
            self._told.add(ticket.token)
        return self._ended(ticket, fault, seconds, says_nothing=says_nothing)

    def _ended(
        self, ticket: Ticket, fault: Fault | None, seconds: float, *, says_nothing: bool
    ) -> bool:
        return self._seeing.call_ended(
            ticket.upstream,
            fault,
            seconds,
            token=ticket.token,
            retry=ticket.retry,
            says_nothing=says_nothing,
        )


class JobCaller:
    """Lets the calls of one attempt through."""

    __slots__ = ("_app", "_claim", "_inside", "_open")

    def __init__(self, inside: Inside, app: Seawall, claim: Claim) -> None:
        self._inside = inside
        self._app = app
        self._claim = claim
        self._open: dict[Token, tuple[Ticket, float]] = {}
        """The calls under way, and since when."""

    def enter(self, upstream: str, units: dict[str, float]) -> Ticket | float:
        """The right to a call, or in how many seconds it may be had."""
        need_name("upstream", upstream)
        claim = self._claim
        own = claim.lane.upstream == upstream
        found = self._inside.enter(upstream, claim.owner or "", units, own=own)
        if isinstance(found, Ticket):
            self._open[found.token] = (found, self._app.clock.monotonic())
        return found

    def stands(self, ticket: Ticket) -> bool:
        """Whether the right to the call may still be used."""
        return self._inside.stands(ticket)

    def phase(self, upstream: str) -> str:
        """What the upstream's breaker is now."""
        return self._inside.phase(upstream)

    def leave(
        self,
        ticket: Ticket,
        error: BaseException | None,
        seconds: float,
        used: dict[str, float] | None,
    ) -> bool:
        """The call has ended, so; whether an attempt that fails by it counts."""
        self._open.pop(ticket.token, None)
        fault, says_nothing = None, isinstance(error, _NO_NEWS)
        if error is not None and not says_nothing:
            fault = self._inside.fault_of(error)
        return self._inside.leave(ticket, fault, seconds, used, says_nothing=says_nothing)

    def leave_behind(self) -> None:
        """The attempt has ended, its handler goes on, and perhaps its calls."""
        now = self._app.clock.monotonic()
        for ticket, since in list(self._open.values()):
            self._inside.leave_behind(ticket, now - since)
