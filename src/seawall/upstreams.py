"""An application's upstreams: what was said about them, how they are now, and people's decisions.

app.upstream(Upstream("openai", concurrency=20))
app.upstreams.hold("openai", seconds=600, why="maintenance")
app.upstreams.resume("openai")
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

from seawall.decisions import breaker as breakers
from seawall.decisions import gate as gates
from seawall.decisions import gate_text
from seawall.decisions import limits as bounds
from seawall.decisions.backoff import LONGEST_SECONDS, Backoff
from seawall.decisions.gate import Gate
from seawall.decisions.upstream import Upstream, family
from seawall.errors import ArgumentsError, ConfigurationError
from seawall.model import LONGEST_NAME, need_name, need_span
from seawall.redact import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seawall.store import Backlog, Desk, Lately, Observed, Store, Turn

MOST_KEPT = 10_000
LATELY_SECONDS = 60.0
"""How far back calls are counted for people."""
BY_HAND = "held by hand"
_ANY = breakers.Breaker(open=Backoff(curve="fixed", base_seconds=LONGEST_SECONDS, jitter="none"))
"""Stands in for a breaker that is not known: whatever it was opened until is believed."""


@dataclass(frozen=True, slots=True)
class LimitView:
    """How much may be used of an upstream, and is."""

    unit: str
    """`at once`, or what is counted by the minute: `requests`, `tokens`."""
    most: float
    used: float | None
    """Calls under way, or that ended within the last minute; other units are not counted back."""
    free_in_seconds: float
    """When one more could begin; 0 is now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamStand:
    """Whether an upstream is called now, and why not."""

    name: str
    phase: str
    """`closed`: it is called; `open`: it is held; `half_open`: it is being probed."""
    forced: str | None
    """`open` or `closed` where a person decided so."""
    forced_until: datetime | None
    """Until when that stands; None is until somebody resumes it."""
    held_until: datetime | None
    """None of its jobs begins before then."""
    share: float
    """How much of the usual is let through: less than 1 while it is let go again."""
    reason: str
    openings: int
    """How often it was held in a row, with no recovery between; 0 while it is well."""
    asked: bool = False
    """Whether it answered, and asked for that time itself."""

    @property
    def is_held(self) -> bool:
        """Whether none of its jobs begins, or only a few to try it: as a person decided, if any."""
        return self.phase != "closed" if self.forced is None else self.forced == "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamView(UpstreamStand):
    """How an upstream is now."""

    waiting: int
    """Its jobs that are due."""
    later: int
    running: int
    calls: int
    """Calls that ended within the last minute."""
    failures: int
    mean_seconds: float | None
    retries_left: int | None
    """How many retries its budget allows now; None where there is no budget."""
    limits: tuple[LimitView, ...]

    @property
    def is_held(self) -> bool:
        """Whether its jobs wait, but for probes: by its breaker, or by hand, with an end or not."""
        return self.share == 0


class Keeper(Protocol):
    """Who has the store: an application, or somebody who only looks at one's jobs."""

    @property
    def store(self) -> "Store": ...


class Upstreams:
    """What an application calls."""

    def __init__(
        self, keeper: Keeper, written: Mapping[str, Upstream] | None = None, *, knows: bool = True
    ) -> None:
        """`written` is what the configuration file says, `knows` whether there can be no more."""
        self._keeper = keeper
        self._written = dict(written or {})
        self._knows = knows
        self._declared: dict[str, Upstream] = {}
        self._known: dict[str, Upstream] = {}

    # --- what was said ------------------------------------------------------------------------

    def declare(self, upstream: Upstream) -> Upstream:
        """Say how an upstream is to be treated."""
        if not isinstance(upstream, Upstream):
            raise ConfigurationError(f"upstream: found {upstream!r:.80}, expected an Upstream")
        if upstream.name in self._declared:
            raise ConfigurationError(f"upstream {upstream.name}: is declared twice")
        self._declared[upstream.name] = upstream
        self._known.clear()
        return upstream

    def configured(self, written: Mapping[str, Upstream]) -> None:
        """Take what the configuration file says, instead of what it said before."""
        self._written = dict(written)
        self._known.clear()

    @property
    def said(self) -> dict[str, Upstream]:
        """What was said, by name: what was declared is stronger than the file."""
        return {**self._written, **self._declared}

    def of(self, name: str) -> Upstream:
        """What holds for the upstream of that name: said of it, of its family, or the defaults."""
        found = self._known.get(name)
        if found is None:
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            every = self.said
            said = every.get(name) or every.get(family(name))
            found = self._usual(name) if said is None else said.keyed(name)
            self._known[name] = found
        return found

    def _usual(self, name: str) -> Upstream:
        return Upstream(name) if self._knows else Upstream(name, breaker=_ANY)

    @property
    def limited(self) -> frozenset[str]:
        """The names, and families of names, of which something is counted."""
        return frozenset(name for name, each in self.said.items() if each.limited)

    # --- how they are -------------------------------------------------------------------------

    def __iter__(self) -> Iterator[UpstreamView]:
        return iter(self.all())

    def all(self, backlog: "Sequence[Backlog] | None" = None) -> list[UpstreamView]:
        """Every upstream that was declared, called lately, is under watch or has jobs, by name.

        Whoever has just counted the backlog need not have it counted again.
        """
        store = self._keeper.store
        now = store.now().timestamp()
        watched = {each.name: each.state for each in store.watched()}
        behind: dict[str, list[Backlog]] = {}
        for lane in store.backlog() if backlog is None else backlog:
            if lane.lane.upstream:
                behind.setdefault(lane.lane.upstream, []).append(lane)
        names = {*watched, *behind, *self.said, *store.called(within_seconds=LATELY_SECONDS)}
        spans = {name: self._budget_span(name) for name in sorted(names)}
        lately = store.lately(spans, within_seconds=LATELY_SECONDS)
        return [
            self._view(name, watched.get(name, ""), behind.get(name, []), lately[name], now)
            for name in spans
        ]

    def held(self) -> list[UpstreamStand]:
        """Those of which nothing begins now, or only a few calls to try them; by name.

        Costs a look at what is under watch, however many jobs and calls there are.
        """
        store = self._keeper.store
        watched = store.watched()
        now = store.now().timestamp() if watched else 0.0
        stands = [
            UpstreamStand(**_stand(self.of(each.name), gate_text.read(each.state), now))
            for each in watched
        ]
        return [each for each in stands if each.is_held]

    def get(self, name: str) -> UpstreamView:
        """How this one is."""
        found = next((each for each in self.all() if each.name == name), None)
        if found is None:
            there = ", ".join(each.name for each in self.all()) or "none"
            raise ArgumentsError(f"no upstream {one_line(name)!r}; there are: {there}")
        return found

    def _budget_span(self, name: str) -> float:
        budget = self.of(name).retry_budget
        return 0.0 if budget is None else budget.window_seconds

    def _view(
        self, name: str, state: str, lanes: "list[Backlog]", lately: "Lately", now: float
    ) -> UpstreamView:
        upstream, gate = self.of(name), gate_text.read(state)
        calls = lately.calls
        left = None
        if upstream.retry_budget is not None:
            left = max(0, gates.retries_left(upstream, gate, lately.firsts, now))
        return UpstreamView(
            **_stand(upstream, gate, now),
            waiting=sum(each.due for each in lanes),
            later=sum(each.later for each in lanes),
            running=sum(each.running for each in lanes),
            calls=calls,
            failures=lately.failures,
            mean_seconds=lately.micros / calls / 1e6 if calls else None,
            retries_left=left,
            limits=tuple(_limits(upstream, gate, calls, now)),
        )

    # --- what people decide -------------------------------------------------------------------

    def hold(self, name: str, *, seconds: float | None = None, why: str = BY_HAND) -> None:
        """Let none of its jobs begin for so long, or until `resume`; those that run go on."""
        self.force(name, "open", seconds=seconds, why=why)

    def resume(self, name: str) -> bool:
        """Leave it to its breaker again; false where nobody had decided otherwise and it is well.

        What a breaker holds is let go as well, in a ramp.
        """
        return self._decided(name, None, None, "")

    def force(
        self,
        name: str,
        to: Literal["open", "closed"],
        *,
        seconds: float | None = None,
        why: str = "decided by hand",
    ) -> None:
        """Have it held, or called whatever happens, for so long or until `resume`."""
        if to not in ("open", "closed"):
            raise ArgumentsError(f"found {to!r:.80}, expected 'open' or 'closed'")
        self._decided(name, to, seconds, why)

    def _decided(
        self, name: str, to: Literal["open", "closed"] | None, seconds: float | None, why: str
    ) -> bool:
        try:
            need_name("upstream", name)
            need_name("why", why, empty=to is None)
            need_span("seconds", seconds or 0.0)
        except ValueError as error:
            raise ArgumentsError(str(error)) from None
        upstream = self.of(name)
        with self._keeper.store.govern(name, wait=True) as desk:
            if desk is None:
                raise AssertionError("whoever waits is let in")
            now = desk.now.timestamp()
            gate = gate_text.read(desk.state)
            before = breakers.at(upstream.breaker, gate.breaker, now)
            until = float("inf") if seconds is None else now + seconds
            if to is None and before.forced is None and before.phase is not breakers.Phase.CLOSED:
                # To let go of what the breaker holds is to end a hold by hand.
                gate = gates.heard(upstream, gate, breakers.Forced("open", until), now)
            event = breakers.Forced(to, until)
            gate = gates.heard(upstream, gate, event, now, one_line(why, longest=LONGEST_NAME))
            settle_down(desk, upstream, gate, knows=self._knows)
        return to is not None or before.forced is not None or bool(before.phase != "closed")


def settle_down(desk: "Desk", upstream: Upstream, gate: Gate, *, knows: bool = True) -> None:
    """Write down what was decided about the upstream, or that there is nothing to remember.

    Whoever does not know its limits leaves that to the next one who does: it is kept, and gated.
    """
    now = desk.now.timestamp()
    if knows and gates.is_plain(upstream, gate, now):
        desk.drop()
        return
    until = gates.held_until(upstream, gate, now)
    desk.keep(
        gate_text.written(gate),
        gated=not knows or gates.is_gated(upstream, gate, now),
        held_until=_moment(until),
        reason=gate.why,
        turn=_turn(upstream, gate, now),
    )


def _turn(upstream: Upstream, gate: Gate, now: float) -> "Turn":
    """How its breaker stands, for the history."""
    from seawall.store import Turn, UpstreamPhase  # noqa: PLC0415 - `import seawall` stays light

    current = breakers.at(upstream.breaker, gate.breaker, now)
    if current.forced is not None:
        by_hand = UpstreamPhase.HELD if current.forced == "open" else UpstreamPhase.FORCED_CLOSED
        return Turn(by_hand, _moment(current.until))
    phase = UpstreamPhase(current.phase)
    return Turn(phase, _moment(current.until) if phase is UpstreamPhase.OPEN else None)


def _stand(upstream: Upstream, gate: Gate, now: float) -> dict[str, Any]:
    """How it stands at this moment, by the fields of `UpstreamStand`."""
    current = breakers.at(upstream.breaker, gate.breaker, now)
    is_open = current.forced is None and current.phase is breakers.Phase.OPEN
    return {
        "name": upstream.name,
        "phase": str(current.phase),
        "forced": current.forced,
        "forced_until": _moment(current.until) if current.forced else None,
        "held_until": _moment(gates.held_until(upstream, gate, now)),
        "share": breakers.admission(upstream.breaker, current, now).share,
        "reason": gate.why,
        "openings": 0 if current.phase is breakers.Phase.CLOSED else current.episode,
        "asked": is_open and current.asked_seconds > 0,
    }


def _limits(upstream: Upstream, gate: Gate, calls: int, now: float) -> Iterator[LimitView]:
    """Its limits and their use, after so many calls within the last minute."""
    if upstream.concurrency is not None:
        taken = bounds.under_way_now(gate.limits, now)
        yield LimitView("at once", upstream.concurrency, taken, 0.0)
    for unit, most in upstream.per_minute.items():
        free_in = bounds.free_in_seconds(upstream.limits, gate.limits, unit, now)
        used = calls if unit == bounds.REQUESTS else None
        yield LimitView(unit, most, used, free_in)


def firsts(upstream: Upstream, seen: "list[Observed]", now: float) -> int:
    """The first calls within the window of its retry budget."""
    budget = upstream.retry_budget
    if budget is None:
        return 0
    return sum(each.firsts for each in seen if each.second > now - budget.window_seconds)


def _moment(time: float | None) -> datetime | None:
    """None also for the end of time: until somebody says otherwise."""
    if time is None or time > datetime(9000, 1, 1, tzinfo=UTC).timestamp():
        return None
    return datetime.fromtimestamp(time, UTC)
