"""A decision about one upstream, at its desk: facts go to the pure gate, and jobs are taken.

What is decided here is decided by `decisions.gate`; this only carries facts to it and back.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from seawall.decisions import breaker as breakers
from seawall.decisions import gate as gates
from seawall.decisions import limits as bounds
from seawall.decisions.breaker import Ignored, Phase, ProbeAsked
from seawall.decisions.evidence import Seen
from seawall.decisions.gate import Gate
from seawall.model import Lane, Token
from seawall.store import Claim, Desk, Observed, Presence, Wanted
from seawall.store.values import MOST_ROWS
from seawall.upstreams import firsts
from seawall.worker.watch import ToldNews, Watch

ALIVE_SECONDS = 30.0
"""A worker that has not been heard of for so long makes no quorum."""
SOON_SECONDS = 0.02
"""When to try again where another worker decides about the same upstream just now."""
GRANT_SECONDS = 0.8 * bounds.LATE_SECONDS
"""For how long what a minute's allowance let through may begin; then it has to be let through anew.

A little less than limits allow for: from the last look at the clock it is still a way to the call.
"""
RETRY_LOOK_SECONDS = 0.5
MOST_OWNERS_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class Who:
    """The worker that decides."""

    wanted: Wanted
    slots: int
    lot: Callable[[int], int]
    """One of so many, by lot: who comes first."""
    next_check: Callable[[Watch], str | None]
    """The name of the next health probe, where there is one and none is under way."""


class Decision:
    """One upstream, decided about at its desk."""

    def __init__(self, who: Who, watch: Watch, desk: Desk, gate: Gate, asked_at: float) -> None:
        """`asked_at` is this machine's clock when the desk told the time."""
        self._who = who
        self._watch = watch
        self._desk = desk
        self._upstream = watch.upstream
        self._hold_seconds = who.wanted.lease_seconds
        self.gate = gate
        self.now = desk.now.timestamp()
        self.claims: list[Claim] = []
        self.probes: dict[Token, str] = {}
        self.under_way: Mapping[str, int] = {}
        self.entered: tuple[str, Token, str | None] | None = None
        """A call inside a handler that was let in: its owner, its name, and its probe's."""
        self.check: str | None = None
        self.again_at: float | None = None
        self.use_by = asked_at + GRANT_SECONDS if _by_the_minute(watch) else math.inf
        """This machine's clock until when what is let through may begin."""
        self.begins_in = 0.0
        """In how many seconds a call inside a handler may begin that was let in."""
        self._firsts = 0

    def hear(self, told: ToldNews) -> None:
        """What this worker has to tell, and what all have seen."""
        for reserved, used in told.settled:
            self.gate = gates.settled(self._upstream, self.gate, reserved, used, self.now)
        for event, why in told.news:
            self.gate = gates.heard(self._upstream, self.gate, event, self.now, why)
        seen = self._desk.observed(within_seconds=gates.window_seconds(self._upstream))
        self._firsts = firsts(self._upstream, seen, self.now)
        callers = self._callers(seen)
        self.gate = gates.watched(self._upstream, self.gate, of_seen(seen), callers, self.now)
        if told.stopped:
            worker = self._who.wanted.worker
            self.gate = gates.stopped(
                self._upstream, self.gate, worker, callers, self.now, told.stopped
            )

    def _callers(self, seen: Sequence[Observed]) -> int:
        """How many workers may call it: who never does must not be waited for."""
        alive = self._desk.workers(within_seconds=ALIVE_SECONDS)
        return callers([each.presence for each in alive], self._desk.lanes(), seen)

    def give_up(self, probe: str) -> None:
        """A probe of this worker's will not be made."""
        self.gate = gates.heard(self._upstream, self.gate, Ignored(probe), self.now)

    def state(self, under_way: Mapping[str, int]) -> None:
        """How many calls this worker has under way, and that its probes still are."""
        self.under_way = under_way
        worker = self._who.wanted.worker
        self.gate = gates.under_way(
            self._upstream, self.gate, worker, under_way, self.now, hold_seconds=self._hold_seconds
        )
        for probe in list(self._watch.probes.values()):  # others of this worker end some meanwhile
            event = ProbeAsked(probe, self._hold_seconds)
            self.gate = gates.heard(self._upstream, self.gate, event, self.now)

    def claim(self, lanes: Sequence[Lane], free: int) -> None:
        """Take as many jobs as may begin."""
        let = self._let(free)
        calls = min(let.calls, self._by_ourselves(sum(self.under_way.values())))
        if let.probe and calls and self._upstream.probe is not None and not self._check_hangs():
            self._begin_check()
            return
        probing = let.probe or self._local_phase() is Phase.HALF_OPEN
        if probing:
            self._take_probes(lanes, calls)
        else:
            self._take(lanes, calls, let.retries)
        self._begin(probing=probing, fleet=let.probe)
        self.again_at = self._look_again(let, lanes, free)

    def _let(self, wanted: int) -> gates.Let:
        return gates.admitted(
            self._upstream,
            self.gate,
            wanted=wanted,
            mine=sum(self.under_way.values()),
            slots=self._who.slots,
            firsts=self._firsts,
            now=self.now,
        )

    def let_in(
        self,
        owner: str,
        units: dict[str, float],
        probe: str,
        token: Token,
        *,
        own: bool,
        retry: bool,
    ) -> float | None:
        """Let one call through that no claim stands for, or in how many seconds to ask again.

        One at the job's own upstream is counted already.
        """
        let = None if own else self._let(1)
        if let is not None and (
            let.calls < 1 or self._room_of(owner) < 1 or (retry and let.retries < 1)
        ):
            again = self.now + bounds.BURST_SECONDS if let.again_at is None else let.again_at
            return max(0.001, again - self.now)
        before, mine = self.gate, self.under_way
        reserved = gates.reserved(self._upstream, before, units, self.now)
        if let is not None and not isinstance(reserved, float):
            # It begins before it is charged: what it reserves leaves no room for another.
            probes = [probe] if let.probe else []
            self._began({owner: 1}, self.now + reserved[1], retries=int(retry), probes=probes)
            reserved = gates.reserved(self._upstream, self.gate, units, self.now)
        if isinstance(reserved, float):
            self.gate, self.under_way = before, mine
            return reserved
        self.gate, self.begins_in = reserved
        self.use_by += self.begins_in
        if let is not None:
            probing = let.probe or self._local_phase() is Phase.HALF_OPEN
            self.entered = (owner, token, probe if probing else None)
        return None

    def _room_of(self, owner: str) -> int:
        return gates.owner_room(self._upstream, self.gate, owner, self.now)

    def _local_phase(self) -> Phase:
        return self._watch.local_phase(self.now)

    def _by_ourselves(self, mine: int) -> int:
        """How many calls this worker may begin by what it alone has seen."""
        local = self._watch.local
        if local is None or self._local_phase() is Phase.CLOSED:
            return self._who.slots
        let = breakers.admission(self._upstream.breaker, local, self.now)
        return max(0, let.probes - mine)

    def _take(self, lanes: Sequence[Lane], calls: int, retries: int) -> None:
        """First calls and retries take turns, and so do owners."""
        again = [lane for lane in lanes if lane.retry]
        first = [lane for lane in lanes if not lane.retry]
        shared = min(retries, (calls + 1) // 2 if first else calls)
        self._take_of(again, shared, retry=True)
        self._take_of(first, calls - len(self.claims), retry=False)
        left = min(retries - shared, calls - len(self.claims))
        if left > 0 and len(self.claims) < calls:
            self._take_of(again, left, retry=True)

    def _take_probes(self, lanes: Sequence[Lane], calls: int) -> None:
        """Any lane may give the next probe, whatever its priority: by lot.

        Else one job that always fails, first of all each time, could keep it from ever closing.
        """
        start = self._who.lot(len(lanes))
        for lane in [*lanes[start:], *lanes[:start]][: calls + MOST_OWNERS_AT_ONCE]:
            room = gates.owner_room(self._upstream, self.gate, lane.owner, self.now)
            room -= sum(claim.lane.owner == lane.owner for claim in self.claims)
            if (limit := min(1, room, calls - len(self.claims))) > 0:
                wanted = self._wanted(limit, lane.owner, retry=lane.retry)
                self.claims += self._desk.claim(
                    wanted._replace(
                        queues=(lane.queue,), tasks=(lane.task,), priority=lane.priority
                    )
                )

    def _take_of(self, lanes: Sequence[Lane], most: int, *, retry: bool) -> None:
        owners = list(dict.fromkeys(lane.owner for lane in lanes)) if lanes else []
        start = self._who.lot(len(owners)) if owners else 0
        owners = (owners[start:] + owners[:start])[:MOST_OWNERS_AT_ONCE]
        for at, owner in enumerate(owners):
            share = -(-most // (len(owners) - at))
            taken = sum(claim.lane.owner == owner for claim in self.claims)
            room = gates.owner_room(self._upstream, self.gate, owner, self.now) - taken
            if (limit := min(share, room)) > 0:
                found = self._desk.claim(self._wanted(limit, owner, retry=retry))
                self.claims += found
                most -= len(found)

    def _wanted(self, limit: int, owner: str, *, retry: bool) -> Wanted:
        return self._who.wanted._replace(
            limit=min(limit, MOST_ROWS), upstream=self._upstream.name, retry=retry, owner=owner
        )

    def _begin(self, *, probing: bool, fleet: bool) -> None:
        """What was taken counts from now on."""
        if not self.claims:
            return
        worker = self._who.wanted.worker
        if probing:
            self.probes = {c.token: f"{worker}/{'.'.join(map(str, c.token))}" for c in self.claims}
        retries = sum(claim.lane.retry for claim in self.claims)
        probes = list(self.probes.values()) if fleet else []
        self._began(_by_owner(self.claims), self.now, retries=retries, probes=probes)

    def _began(
        self, calls: Mapping[str, int], at: float, *, retries: int, probes: Sequence[str]
    ) -> None:
        self.gate = gates.begun(
            self._upstream,
            self.gate,
            self._who.wanted.worker,
            calls,
            at,
            retries=retries,
            probes=probes,
            hold_seconds=self._hold_seconds,
        )
        both = {*calls, *self.under_way}
        self.under_way = {o: self.under_way.get(o, 0) + calls.get(o, 0) for o in both}

    def _check_hangs(self) -> bool:
        """Whether the health probe does not come back: then jobs find out, as without one."""
        since = self.now - self._upstream.breaker.probe_seconds
        return bool(self._watch.checked_by) and self._watch.checked_at <= since

    def _begin_check(self) -> None:
        check = self._who.next_check(self._watch)
        if check is None:
            return
        self.gate = gates.heard(self._upstream, self.gate, ProbeAsked(check), self.now)
        if breakers.holds_slot(self.gate.breaker, check):
            self.check = check

    def _look_again(self, let: gates.Let, lanes: Sequence[Lane], free: int) -> float | None:
        if len(self.claims) >= free:
            return None
        waits = any(lane.retry for lane in lanes) and let.retries < let.calls
        times = [let.again_at] if let.again_at is not None else []
        if waits:
            times.append(self.now + RETRY_LOOK_SECONDS)
        return min(times, default=None)


def callers(workers: Sequence[Presence], lanes: Sequence[Lane], seen: Sequence[Observed]) -> int:
    """How many of the workers may call an upstream.

    Those that serve one of its lanes, and those that were seen to call it, as handlers do inside.
    """
    calling = {each.worker for each in seen}
    return sum(
        each.worker in calling or any(_serves(each, lane) for lane in lanes)
        for each in workers
        if not each.stopping
    )


def _serves(worker: Presence, lane: Lane) -> bool:
    return lane.task in worker.tasks and (worker.queues is None or lane.queue in worker.queues)


def _by_the_minute(watch: Watch) -> bool:
    """Whether it is counted how much of it is used in a minute."""
    each_owner = watch.upstream.each_owner
    return bool(watch.upstream.per_minute or (each_owner is not None and each_owner.per_minute))


def of_seen(seen: Sequence[Observed]) -> list[Seen]:
    return [Seen(*each[:7]) for each in seen]


def _by_owner(claims: Sequence[Claim]) -> dict[str, int]:
    calls: dict[str, int] = {}
    for claim in claims:
        calls[claim.lane.owner] = calls.get(claim.lane.owner, 0) + 1
    return calls
