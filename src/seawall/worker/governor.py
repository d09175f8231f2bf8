"""A worker's side of the upstreams: what it decides about them, and claims of their jobs.

*Deciding*: after failures, or when a probe has ended or somebody asked for time, the upstream's row
is locked and the pure gate of the decisions layer steps over what all workers saw. *Claiming*: jobs
of a gated upstream, and retries, are claimed there and nowhere else. How calls ended is the affair
of `seeing`, calls inside handlers that of `inside`, health probes that of `checks`.

What is decided here is decided by `decisions.gate`; this only carries facts to it and back.
"""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from seawall.app import Seawall
from seawall.decisions import breaker as breakers
from seawall.decisions import gate as gates
from seawall.decisions import gate_text
from seawall.decisions.breaker import Ignored, Phase, ProbeAsked
from seawall.decisions.gate import Gate
from seawall.errors import StoreError
from seawall.model import Lane, Token
from seawall.store import Claim, Store, Wanted
from seawall.telemetry import UpstreamHeld, UpstreamNeedsYou, UpstreamReleased, emit
from seawall.upstreams import settle_down
from seawall.worker.checks import Checks
from seawall.worker.deciding import SOON_SECONDS, Decision, Who, of_seen
from seawall.worker.inside import Inside
from seawall.worker.seeing import Seeing
from seawall.worker.watch import ToldNews, Watch
from seawall.worker.watches import Watches

MOST_TRIES = 10
"""How often a worker tries to say what it has under way, where others are at the desk."""


class Hands(Protocol):
    """What the worker has in its hands, as others are told of it."""

    def under_way(self, upstream: str) -> Mapping[str, int]:
        """How many jobs that call this upstream run, or are about to, by owner."""
        ...

    def take(self, claims: Sequence[Claim], use_by: float) -> None:
        """These are ours from now on, though the core will hear of them only later.

        They may begin until then.
        """
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
        self._hands = hands
        self.watches = Watches(app, store)
        self.seeing = Seeing(self.watches, wanted.worker)
        self.inside = Inside(
            app, self.watches, self.seeing, wanted.worker, self._deciding_about, poke
        )
        self._checks = Checks(app, self.watches, wanted.worker, poke)
        self._who = Who(self._wanted, slots, app.rng.randrange, self._checks.next_name)
        self._deciding = threading.Lock()
        self.starved = False
        """Jobs of upstreams were due that found no free slot."""

    @property
    def active(self) -> bool:
        """Whether upstreams are anything to this worker at all."""
        return self.watches.active

    # --- what may begin -----------------------------------------------------------------------

    def lets_begin(self, upstream: str) -> bool:
        """Whether a call at it may begin without being let through by the fleet."""
        if not self.active or not upstream:
            return True
        return upstream not in self.watches.apart() and not self._app.upstreams.of(upstream).limited

    def wanted(self, wanted: Wanted) -> Wanted:
        """The same, but for what has to be claimed by upstream."""
        if not self.active:
            return wanted
        return wanted._replace(without=self.watches.apart(), guarded=self._wanted.guarded)

    # --- deciding -----------------------------------------------------------------------------

    def attend(self, free: int, *, looking: bool = True) -> Attended:
        """Decide what is to be decided, and claim for so many free slots. Asked by the clerk.

        `looking` is whether it looks for jobs: where others took all slots, to come first next.
        """
        if not self.active:
            return Attended([], None)
        self.watches.look()
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
            again_at.append(self.watches.now())
        ahead = max(0.0, min(again_at, default=math.inf) - self.watches.now())
        if ahead > self._app.settings.poll_seconds:
            return Attended(claims, None)
        return Attended(claims, self._app.clock.monotonic() + ahead)

    def restate(self) -> None:
        """Tell the fleet that calls are still under way. Asked now and then, by another thread.

        And what it was not told yet, and to forget what nobody need remember.
        """
        if not self.active and not self._is_needed():
            return
        self.watches.look()
        with self.watches.lock:
            now = self.watches.now()
            told = [name for name, each in self.watches.all() if each.has_news]
            over = [name for name, each in self.watches.all() if each.is_over(now)]
        holding = self._holding()
        for name in holding:
            self._insist(name)
        for name in dict.fromkeys([*told, *over]):
            if name not in holding:
                self._decided(name, [], 0)

    def _insist(self, name: str) -> None:
        """Say what is under way though others are at the desk: it is believed for a lease only."""
        for _ in range(MOST_TRIES):
            if self._deciding_about(name, lambda _: None) is not None:
                return
            self._app.clock.sleep(SOON_SECONDS)

    def _is_needed(self) -> bool:
        """Whether jobs wait that nobody could claim otherwise, of upstreams that nobody names now.

        An application that has stopped naming one leaves behind what waits for it.
        """
        self.watches.look()
        self.watches.active = bool(self._store.due_at(self._wanted, self.watches.apart()))
        return self.active

    def _holding(self) -> list[str]:
        with self.watches.lock:
            return [
                name
                for name, watch in self.watches.all()
                if watch.probes or (watch.upstream.limited and watch.under_way)
            ]

    def _due(self) -> tuple[dict[str, list[Lane]], list[float]]:
        """Where jobs are due that are claimed by upstream, as far as there is use in asking.

        Also when there will be, of those where there is none now.
        """
        due: dict[str, list[Lane]] = {}
        for lane in self._store.due_at(self._wanted, self.watches.apart()):
            due.setdefault(lane.upstream, []).append(lane)
        again_at: list[float] = []
        now = self.watches.now()
        for name in list(due):
            later = self.watches.of(name).not_before(now)
            if later > now and not self._has_shrunk(name):
                again_at.append(later)
                del due[name]
        return due, again_at

    def _concerned(self, due: Mapping[str, object]) -> list[str]:
        """The upstreams to decide about, in turns."""
        with self.watches.lock:
            told = [name for name, watch in self.watches.all() if watch.has_news]
            suspects = [name for name, watch in self.watches.all() if watch.suspect]
        shrunk = [name for name in self._holding() if self._has_shrunk(name)]
        opened = [name for name in suspects if name not in told and self._would_open(name)]
        names = list(dict.fromkeys([*told, *opened, *shrunk, *due]))
        start = self._app.rng.randrange(len(names)) if names else 0
        return names[start:] + names[:start]

    def _has_shrunk(self, name: str) -> bool:
        """Whether others may have what this worker has given up."""
        watch = self.watches.of(name)
        return bool(watch.under_way) and self._under_way(name) != watch.under_way

    def _would_open(self, name: str) -> bool:
        """A look without a lock: most failures are no reason to stop anybody.

        Whether enough workers have seen it is asked at the desk.
        """
        watch = self.watches.of(name)
        watch.suspect = False
        window = gates.window_seconds(watch.upstream)
        seen = self._store.observed(name, within_seconds=window)
        after = gates.watched(watch.upstream, watch.gate, of_seen(seen), 1, self.watches.now())
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
            return [], self.watches.now() + SOON_SECONDS
        return decision.claims, decision.again_at

    def _deciding_about(self, name: str, ask: Callable[[Decision], None]) -> Decision | None:
        """What came of asking it; None where another worker decides about it just now."""
        with self._deciding:
            watch = self.watches.of(name)
            with self.watches.lock:
                told = watch.news_for_the_fleet()
            with self._store.govern(name) as desk:
                if desk is None:
                    return None
                asked_at = self._app.clock.monotonic()
                before = gate_text.read(desk.state)
                decision = Decision(self._who, watch, desk, before, asked_at)
                self._give_up(watch, decision)
                decision.hear(told)
                decision.state(self._under_way(name))
                ask(decision)
                settle_down(desk, watch.upstream, decision.gate)
            self._hands.take(decision.claims, decision.use_by)
            self.watches.set_clock(decision.now, asked_at)
            self._note(watch, decision, told)
        self._say(watch, before, decision)
        if decision.check:
            self._checks.begin(watch, decision.check)
        return decision

    def _give_up(self, watch: Watch, decision: Decision) -> None:
        """Probes that never came to their call (cancelled, expired, lost) free their slots."""
        gone = [each for each in list(watch.probes) if each.job_id and not self._hands.has(each)]
        with self.watches.lock:
            for probe in [watch.probes.pop(each) for each in gone if each in watch.probes]:
                decision.give_up(probe)
                if watch.local is not None:
                    watch.local = breakers.step(
                        watch.upstream.breaker, watch.local, Ignored(probe), decision.now
                    )

    def _under_way(self, name: str) -> dict[str, int]:
        """How many calls at an upstream this worker has under way, by owner."""
        calls = dict(self._hands.under_way(name))
        for owner, many in self.inside.under_way(name).items():
            calls[owner] = calls.get(owner, 0) + many
        return calls

    def _note(self, watch: Watch, decision: Decision, told: ToldNews) -> None:
        """What was decided stands in the store; remember it."""
        with self.watches.lock:
            was_shut = watch.shut(decision.now)
            gate = decision.gate
            plain = gates.is_plain(watch.upstream, gate, decision.now)
            watch.gate, watch.text = gate, "" if plain else gate_text.written(gate)
            watch.gated = not plain and gates.is_gated(watch.upstream, gate, decision.now)
            watch.have_told(told)
            watch.probes.update(decision.probes)
            if decision.entered is not None:
                self.inside.begin(watch, *decision.entered)
            watch.under_way = decision.under_way
            watch.again_at = 0.0 if decision.claims else decision.again_at or 0.0
            if watch.phase(decision.now) is not Phase.CLOSED:
                watch.local = None
            elif decision.probes and watch.local is not None:
                for probe in decision.probes.values():
                    watch.local = breakers.step(
                        watch.upstream.breaker, watch.local, ProbeAsked(probe), decision.now
                    )
            self.watches.mark_shut(watch, decision.now, was_shut=was_shut)

    def _say(self, watch: Watch, before: Gate, decision: Decision) -> None:
        """Log what has changed for everybody."""
        old = breakers.at(watch.upstream.breaker, before.breaker, decision.now).phase
        new = decision.gate.breaker.phase
        if new is Phase.OPEN and old is not Phase.OPEN:
            _say_held(watch.upstream.name, decision.gate, decision.now)
        elif new is Phase.CLOSED and old is not Phase.CLOSED:
            emit(UpstreamReleased(upstream=watch.upstream.name))


def _say_held(name: str, gate: Gate, now: float) -> None:
    """Say that it is held; loudly where that may not end by itself."""
    why, openings = gate.why, gate.breaker.episode
    seconds = round(gate.breaker.until - now, 1)
    advice = ""
    if why in (gates.DENIED, gates.USED_UP):
        advice = f"put it right, then: seawall resume {name}"
    elif openings % gates.MANY_OPENINGS == 0:
        why = f"{why}, {openings} times in a row"
        advice = (
            "if it is well, it is the jobs that are left that fail: to let each use up its tries,"
            f" seawall force {name} closed --for 10m"
        )
    if advice:
        emit(UpstreamNeedsYou(upstream=name, seconds=seconds, reason=why, advice=advice))
    else:
        emit(UpstreamHeld(upstream=name, seconds=seconds, reason=why))
