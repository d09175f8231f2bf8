"""As much of a store as a governor asks for, in memory: what all simulated workers share.

Jobs wait in two lanes, those that never failed and those that did, as in the real store. What is
decided about the upstream is kept as the text that the real one would keep.
"""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count

from seawall.model import Lane, Token
from seawall.simulate.scenario import UPSTREAM
from seawall.store import (
    Claim,
    Observation,
    Observed,
    Presence,
    Present,
    Turn,
    Wanted,
    Watched,
)

EPOCH = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
"""When every simulation begins, by the store's clock."""
TASK = "simulated"
FIRST = Lane(TASK, upstream=UPSTREAM)
AGAIN = Lane(TASK, upstream=UPSTREAM, retry=True)
_KEEP_SECONDS = 3_700
"""No breaker or budget looks further back."""
_LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualClock:
    """Time that passes when the simulation says so."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(EPOCH + self.at, UTC)

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        raise AssertionError(f"nobody sleeps in virtual time: {seconds}")

    async def asleep(self, seconds: float) -> None:
        raise AssertionError(f"nobody sleeps in virtual time: {seconds}")


def _present(name: str) -> Present:
    presence = Presence(
        worker=name, host="simulated", pid=1, version="0", queues=None, tasks=(TASK,), concurrency=1
    )
    return Present(presence, _LONG_AGO, _LONG_AGO)


class Books:
    """What the workers share."""

    def __init__(self, clock: VirtualClock, workers: int) -> None:
        self._clock = clock
        self._alive = [_present(f"w{number}") for number in range(workers)]
        self.first: deque[int] = deque()
        """Jobs that are due and never failed, or that fail without being counted."""
        self.again: deque[int] = deque()
        """Jobs that are due and have failed before."""
        self.state = ""
        self.gated = False
        self.held_until: float | None = None
        self._watched: list[Watched] = []
        self._seen: dict[int, dict[str, Observed]] = {}
        """By second and worker."""
        self._numbers = count(1)

    # --- what a governor asks -----------------------------------------------------------------

    def now(self) -> datetime:
        return self._clock.now()

    def watched(self) -> list[Watched]:
        return self._watched

    def workers(self, *, within_seconds: float) -> list[Present]:  # noqa: ARG002 - none of them dies
        return self._alive

    def observe(self, observations: Sequence[Observation]) -> None:
        """As the store does: added up by worker and second."""
        if not observations:
            return
        second = int(EPOCH + self._clock.at)
        if second not in self._seen:
            for old in [each for each in self._seen if each <= second - _KEEP_SECONDS]:
                del self._seen[old]
            self._seen[second] = {}
        rows = self._seen[second]
        for each in observations:
            before = rows.get(each.worker)
            told = each.amounts
            known = (0,) * len(told) if before is None else before[2:]
            sums = (a + b for a, b in zip(told, known, strict=True))
            rows[each.worker] = Observed(each.worker, second, *sums)

    def observed(self, upstream: str, *, within_seconds: float) -> list[Observed]:  # noqa: ARG002
        since = int(EPOCH + self._clock.at) - int(within_seconds)
        found: list[Observed] = []
        for second in reversed(self._seen):  # the newest first
            if second <= since:
                break
            found += self._seen[second].values()
        return found

    def due_at(self, wanted: Wanted, upstreams: Collection[str]) -> list[Lane]:
        lanes = [AGAIN] if self.again else []
        apart = UPSTREAM in upstreams or UPSTREAM in wanted.guarded
        return [FIRST, *lanes] if self.first and apart else lanes

    @contextmanager
    def govern(self, upstream: str, *, wait: bool = False) -> Iterator["MemoryDesk | None"]:  # noqa: ARG002
        yield MemoryDesk(self, self._clock.now())

    # --- what a desk does ---------------------------------------------------------------------

    def take(self, wanted: Wanted, now: datetime) -> list[Claim]:
        lane, waiting = (AGAIN, self.again) if wanted.retry else (FIRST, self.first)
        many = min(wanted.limit, len(waiting))
        return [
            Claim(
                Token(waiting.popleft() + 1, number := next(self._numbers), number),
                lane, 1, 0, 0, now, now, None, None, None, "json", "", None, None,
            )
            for _ in range(many)
        ]  # fmt: skip

    def write(self, state: str, *, gated: bool, until: datetime | None, reason: str) -> None:
        self.state, self.gated = state, gated
        self.held_until = None if until is None else until.timestamp() - EPOCH
        kept = Watched(UPSTREAM, state, gated, until, reason)
        self._watched = [kept] if state else []


class MemoryDesk:
    """The upstream, while one worker decides about it."""

    def __init__(self, books: Books, now: datetime) -> None:
        self._books = books
        self.name = UPSTREAM
        self.state = books.state
        self.now = now

    def observed(self, *, within_seconds: float) -> list[Observed]:
        return self._books.observed(UPSTREAM, within_seconds=within_seconds)

    def workers(self, *, within_seconds: float) -> list[Present]:
        return self._books.workers(within_seconds=within_seconds)

    def lanes(self) -> list[Lane]:
        return [FIRST, AGAIN]

    def claim(self, wanted: Wanted) -> list[Claim]:
        return self._books.take(wanted, self.now)

    def keep(
        self,
        state: str,
        *,
        gated: bool,
        held_until: datetime | None = None,
        reason: str = "",
        turn: Turn | None = None,  # noqa: ARG002 - nobody asks a simulated breaker for its past
    ) -> None:
        self._books.write(state, gated=gated, until=held_until, reason=reason)

    def drop(self) -> None:
        self._books.write("", gated=False, until=None, reason="")
