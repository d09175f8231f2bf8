"""How calls at upstreams ended, as one worker saw it.

Ends are counted by upstream and go to the store with the settlements. A breaker of the worker's
own, stepped at once by its own calls in their order, stops it before the fleet has made up its
mind. What the fleet is to be told besides (probes, requests for time) waits here as news.
"""

from collections import Counter
from collections.abc import Sequence

from seawall.decisions import breaker as breakers
from seawall.decisions import gate as gates
from seawall.decisions.breaker import AskedToWait, BreakerEvent, BreakerState, Failed, Phase
from seawall.decisions.gate import Stop
from seawall.execute import Work
from seawall.faults import Fault, FaultCode
from seawall.model import Token
from seawall.store import Observation
from seawall.store.values import MOST_ROWS
from seawall.worker.watch import ASKS, DENIED, Counted, Watch, event_of, speaks
from seawall.worker.watches import Watches

QUOTA_SECONDS = 600.0
"""For how long an upstream is left alone whose allowance is used up, where it does not say."""


class Seeing:
    """What one worker saw of upstreams since the store was last told."""

    def __init__(self, watches: Watches, worker: str) -> None:
        self._watches = watches
        self._worker = worker

    def ended(self, work: Work, fault: Fault | None, *, says_nothing: bool = False) -> bool:
        """An attempt has ended; whether it counts. Asked by any thread."""
        lane = work.claim.lane
        if not lane.upstream:
            return True
        return self.call_ended(
            lane.upstream,
            fault,
            work.elapsed(),
            token=work.claim.token,
            retry=lane.retry,
            says_nothing=says_nothing,
        )

    def phase(self, upstream: str) -> str:
        """What the upstream's breaker is now."""
        return str(self._watches.breaker_phase(upstream))

    def call_ended(
        self,
        name: str,
        fault: Fault | None,
        seconds: float,
        *,
        token: Token,
        retry: bool,
        says_nothing: bool,
    ) -> bool:
        """A call has ended, which took so long; whether an attempt that fails by it counts.

        One that fails while its upstream is held does not: it says what is known already. But
        where another probe of the same episode succeeded, it speaks for itself.
        """
        with self._watches.lock:
            self._watches.active = True
            watch = self._watches.of(name)
            if fault is None and watch.is_well and not says_nothing:  # as most are
                watch.count(seconds, retry=retry)
                return True
            now = self._watches.now()
            was_shut = watch.shut(now)
            excused = was_shut and not watch.proven(now)
            probe = watch.probes.pop(token, None)
            event = event_of(fault, seconds, probe, says_nothing=says_nothing)
            if not says_nothing:
                self._count(watch, fault, seconds, now, retry=retry)
            if probe is not None and watch.phase(now) is not Phase.CLOSED:
                watch.news.append((event, ""))
            self.step_alone(watch, event, seconds, now)
            self._count_denials(watch, fault, now)
            self._hear_request(watch, fault, now)
            self._watches.mark_shut(watch, now, was_shut=was_shut)
        return not (excused and fault is not None and speaks(fault))

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

    def step_alone(self, watch: Watch, event: BreakerEvent, seconds: float, now: float) -> None:
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
        if after.phase is Phase.OPEN and watch.local_phase(now) is not Phase.OPEN:
            watch.stopped = Stop(gates.FAILING, after.until)
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
            watch.denials, watch.stopped = 0, Stop(gates.DENIED, watch.local.until)

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
        with self._watches.lock:
            found: list[Observation] = []
            for name, watch in self._watches.all():
                if watch.seen is not None and len(found) < MOST_ROWS:
                    seen, watch.seen = watch.seen, None
                    spans = tuple(sorted(seen.spans.items()))
                    found.append(Observation(name, self._worker, *seen.amounts(), spans))
            return found

    def put_back(self, observations: Sequence[Observation]) -> None:
        """They could not be written."""
        with self._watches.lock:
            for each in observations:
                watch = self._watches.of(each.upstream)
                now = Counted() if watch.seen is None else watch.seen
                both = map(sum, zip(now.amounts(), each.amounts, strict=True))
                watch.seen = Counted(*both)
                watch.seen.spans = now.spans + Counter(dict(each.spans))
