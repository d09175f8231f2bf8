"""What a worker does next: `step(event, now) → actions`, and nothing else.

The core holds no thread, no store and no clock. It is told what happened and answers what is to be
done; the loops around it obey. So a test can stand between any two actions, and the simulator runs
the very worker of production.

**Turns.** The store is asked one thing at a time: a turn writes whatever has ended since the last
one and claims what there is room for, in one transaction. So groups form by themselves: small when
little happens, large under load. What a turn could not write stays and goes with the next.

**Prefetch.** While jobs are short, a few more than there are slots are claimed, so that slots do
not wait for the store. A job that was lost before is never among them: it is claimed only for a
slot that is kept free for it, so that a kill charges it no loss while it merely waited.

**Leases.** A handler is started only while its lease is known to stand. What waited while nothing
could be renewed (a stopped process, a store that was away) waits on until a renewal says that it
is still ours.

**Stopping.** Nothing more is claimed, what had not begun is handed back at once, what runs may
finish within the grace period; then, or at a second signal, it is stopped and handed back too. The
worker exits when all of this is written.
"""

import heapq
from collections import deque
from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from seawall.execute import Stop
from seawall.model import Settlement, Token
from seawall.store import Claim, Release
from seawall.store.values import MOST_ROWS
from seawall.worker.events import (
    Action,
    Asked,
    Began,
    Ended,
    Event,
    Exit,
    Freed,
    Renewed,
    Rest,
    Signal,
    Start,
    Taken,
    Turn,
    Turned,
    TurnFailed,
    Woken,
)
from seawall.worker.slots import Slot, Slots

MOST_PREFETCHED = 500
PREFETCH_SECONDS = 0.2
"""About how much work may wait in a worker's hands."""
LOOK_FOR_LOST_SECONDS = 1.0
"""How often a busy worker keeps free slots open for jobs that must not be prefetched."""
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0
WORTH_DATING_SECONDS = 0.05
"""A settlement that waits for the store for longer says so, to be dated when it ended."""
MOST_ALARMS = 1_000
_ALARM_MARGIN_SECONDS = 0.001


class Core:
    """The state of one worker."""

    def __init__(
        self,
        *,
        concurrency: int,
        poll_seconds: float,
        grace_seconds: float,
        lease_seconds: float,
        timeout_of: Mapping[str, float],
        begin_late: Container[str] = (),
        prefetch: bool = True,
    ) -> None:
        self.concurrency = concurrency
        self.poll_seconds = poll_seconds
        self.grace_seconds = grace_seconds
        self._lease_seconds = lease_seconds
        self._slots = Slots(
            concurrency, lease_seconds=lease_seconds, timeout_of=timeout_of, begin_late=begin_late
        )
        self._may_prefetch = prefetch
        self._held: dict[int, Token] = {}
        self.waiting: deque[tuple[Claim, float]] = deque()
        """Claims that have not begun, and when they came."""
        self._lapsed: dict[Token, tuple[Claim, float]] = {}
        """Claims that had not begun when their lease lapsed: perhaps another has the job."""
        self._ends_at: dict[int, float] = {}
        """By job, when its lease lapses unless it is renewed."""
        self.stopping = False
        self._hurry_at: float | None = None
        self._settlements: dict[Token, tuple[Settlement, float]] = {}
        self._releases: dict[Token, Release] = {}
        self._turn: Turn | None = None
        self._kept_free = 0
        self._look_at: float = 0.0
        self._look_for_lost_at: float = 0.0
        self._told_of_work = False
        self._more = False
        self._try_again_at: float | None = None
        self._pause = FIRST_PAUSE_SECONDS
        self._mean_seconds: float | None = None
        self._alarms: list[float] = []

    # --- the step -----------------------------------------------------------------------------

    def step(self, event: Event, now: float) -> list[Action]:
        """What is to be done now that this has happened."""
        self.hear(event, now)
        return self.act(now)

    def hear(self, event: Event, now: float) -> None:  # noqa: C901 - a case for each event
        """Take note of what happened; `act` says what follows from it."""
        match event:
            case Woken(look):
                if look:
                    self._look_at, self._told_of_work = now, True
            case Began(token):
                self._slots.began(token, now)
            case Ended(token, write, freed):
                self._ended(token, write, now, freed=freed)
            case Freed(token):
                self._slots.freed(token)
            case Turned(claims, instead):
                self._turned(claims, instead, now)
            case TurnFailed():
                self._turn_failed(now)
            case Asked(token):
                self._asked_to_stop(token)
            case Renewed(tokens):
                self._renewed(tokens, now)
            case Taken(token):
                self._lost(token)
            case Signal():
                self._signalled(now)

    def act(self, now: float) -> list[Action]:
        """What follows from all that was heard."""
        if self._try_again_at is not None and now >= self._try_again_at:
            self._try_again_at = None
        if self._hurry_at is not None and now >= self._hurry_at:
            self._slots.stop_all(Stop.SHUTDOWN)
        self._slots.look_at_limits(now)
        actions: list[Action] = [*self._fill(now), *self._slots.aborts(now)]
        turn = self._next_turn(now)
        if turn is not None:
            self._turn = turn
            actions.append(turn)
        elif self._turn is None:
            if self._done():
                actions.append(Exit())
            else:
                actions.append(Rest(self._rest(now)))
        return actions

    @property
    def running(self) -> Mapping[Token, Slot]:
        """The attempts whose handlers run."""
        return self._slots.running

    @property
    def left_behind(self) -> Collection[Token]:
        """Handlers that go on although their attempts have ended."""
        return self._slots.left_behind

    @property
    def idle(self) -> bool:
        """No job is in its hands; handlers that were left behind may still go on."""
        return not (self._held or self._turn)

    @property
    def turning(self) -> bool:
        """Whether the store is being asked."""
        return self._turn is not None

    @property
    def ending(self) -> Collection[Token]:
        """The attempts whose ends are being written."""
        return () if self._turn is None else self._turn.tokens

    @property
    def tokens(self) -> list[Token]:
        """Every lease that is to be renewed: running, waiting, or ended and not yet written.

        No job is among them twice. May be asked for by any thread.
        """
        return list(self._held.values())

    def holds(self, token: Token) -> bool:
        """Whether this lease is ours, as far as we know."""
        return self._held.get(token.job_id) == token

    @property
    def unwritten(self) -> int:
        """How many ends the store does not know yet."""
        return len(self._settlements) + len(self._releases)

    # --- what waits ---------------------------------------------------------------------------

    def _fill(self, now: float) -> Iterator[Start]:
        """Start what waits, as far as slots are free and not kept for others."""
        if self._keeps_free(now):
            return
        while self.waiting and (self.stopping or self._slots.free > self._kept_free):
            claim, came_at = self.waiting.popleft()
            slot = self._slots.made(claim, came_at, now)
            if self.stopping or slot.limit_at <= now:  # its deadline passed while it waited
                self._releases[claim.token] = Release(token=claim.token)
            elif now >= self._ends_at[claim.token.job_id]:
                self._lapsed[claim.token] = (claim, came_at)
            else:
                self._slots.take(slot)
                yield Start(claim, came_at)
        if self.stopping:
            self._releases.update({token: Release(token=token) for token in self._lapsed})
            self._lapsed.clear()

    def _renewed(self, tokens: tuple[Token, ...], now: float) -> None:
        for token in tokens:
            if self.holds(token):
                self._ends_at[token.job_id] = now + self._lease_seconds
            if token in self._lapsed:
                self.waiting.appendleft(self._lapsed.pop(token))

    def _keeps_free(self, now: float) -> bool:
        """Whether free slots are not to be filled now, because the next turn claims for them."""
        looks = now >= self._look_for_lost_at and (self._more or now >= self._look_at)
        return looks and not self.stopping and self._may_turn()

    def _may_turn(self) -> bool:
        return self._turn is None and self._try_again_at is None

    def _ended(self, token: Token, write: Settlement | Release, now: float, *, freed: bool) -> None:
        slot = self._slots.end(token, freed=freed)
        if slot is None or slot.stop is Stop.LOST or not self.holds(token):
            return  # it was taken from us: nothing may be written
        if isinstance(write, Release):
            self._releases[token] = write
            return
        self._settlements[token] = (write, now)
        took = write.duration_seconds
        mean = self._mean_seconds
        self._mean_seconds = took if mean is None else mean + (took - mean) * 0.05
        if write.state == "queued" and write.delay_seconds is not None:
            self._set_alarm(now + write.delay_seconds)

    def _set_alarm(self, at: float) -> None:
        """A job will be due then, and nobody will tell."""
        if len(self._alarms) < MOST_ALARMS:
            heapq.heappush(self._alarms, at + _ALARM_MARGIN_SECONDS)

    # --- what is taken away or to be stopped --------------------------------------------------

    def _lost(self, token: Token) -> None:
        """What was taken from us is none of our business any more."""
        self._forget(token)
        self._settlements.pop(token, None)
        self._releases.pop(token, None)
        self._drop(token)
        self._slots.stop(token, Stop.LOST)

    def _asked_to_stop(self, token: Token) -> None:
        """One that has not begun need not: handed back, it is cancelled there."""
        if self._drop(token):
            self._releases[token] = Release(token=token)
        else:
            self._slots.stop(token, Stop.CANCEL)

    def _drop(self, token: Token) -> bool:
        """Take it out of what waits; false where it does not."""
        if self._lapsed.pop(token, None) is not None:
            return True
        left = deque(each for each in self.waiting if each[0].token != token)
        found = len(left) < len(self.waiting)
        if found:
            self.waiting = left
        return found

    def _forget(self, token: Token) -> None:
        if self.holds(token):
            del self._held[token.job_id]
            self._ends_at.pop(token.job_id, None)

    def _signalled(self, now: float) -> None:
        self._hurry_at = now if self.stopping else now + self.grace_seconds
        self.stopping = True

    # --- turns --------------------------------------------------------------------------------

    def _next_turn(self, now: float) -> Turn | None:
        if not self._may_turn():
            return None
        limit, prefetch = self._wanted(now)
        self._told_of_work = False
        if not (self._settlements or self._releases or limit):
            return None
        ended = islice(self._settlements.values(), MOST_ROWS)
        settlements = tuple(_dated(settlement, now - at) for settlement, at in ended)
        releases = tuple(islice(self._releases.values(), MOST_ROWS))
        return Turn(settlements, releases, limit, prefetch)

    def _wanted(self, now: float) -> tuple[int, bool]:
        """How many jobs to claim, and whether they are to wait in our hands."""
        self._kept_free = 0
        if self.stopping:
            return 0, False
        while self._alarms and self._alarms[0] <= now:
            heapq.heappop(self._alarms)
            self._look_at = min(self._look_at, now)
        if not self._more and now < self._look_at:
            return 0, False
        free = min(self._slots.free, MOST_ROWS)
        if free > 0 and (not self.waiting or now >= self._look_for_lost_at):
            self._kept_free = free
            return free, False
        room = self._depth() - len(self.waiting)
        # A claim for a few is as dear as one for many: wait until there is room for some.
        if room > 0 and self._more and 2 * len(self.waiting) <= self._depth():
            return min(room, MOST_ROWS), True
        return 0, False

    def _depth(self) -> int:
        """How many jobs may wait in our hands: about as many as are done in a moment."""
        if not self._may_prefetch or self._mean_seconds is None:
            return 0
        rounds = PREFETCH_SECONDS / max(self._mean_seconds, 1e-6)
        return int(min(MOST_PREFETCHED, rounds * self.concurrency)) if rounds >= 1 else 0

    def _turned(
        self, claims: tuple[Claim, ...], instead: tuple[Settlement, ...], now: float
    ) -> None:
        turn = self._forget_turn()
        self._try_again_at, self._pause = None, FIRST_PAUSE_SECONDS
        for token in turn.tokens:
            self._settlements.pop(token, None)
            self._releases.pop(token, None)
            self._forget(token)
        for settlement in instead:
            self._held[settlement.token.job_id] = settlement.token
            self._settlements[settlement.token] = (settlement, now)
        if turn.limit:
            # Fewer than were wanted: there is nothing more for now.
            self._more = len(claims) >= turn.limit
            # What was said while the store was asked may be about jobs that it did not see yet.
            self._look_at = now if self._told_of_work else now + self.poll_seconds
            if not turn.prefetch:
                self._look_for_lost_at = now + LOOK_FOR_LOST_SECONDS
        for claim in claims:
            older = self._held.get(claim.token.job_id)
            if older is not None:  # it could be claimed: so the lease that we had was lost
                self._lost(older)
            self._held[claim.token.job_id] = claim.token
            self._ends_at[claim.token.job_id] = now + self._lease_seconds
        came = [(claim, now) for claim in claims]
        if turn.prefetch:
            self.waiting.extend(came)
        else:  # slots were kept free for these
            self.waiting.extendleft(reversed(came))

    def _turn_failed(self, now: float) -> None:
        self._forget_turn()
        self._try_again_at = now + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        self._look_at = now

    def _forget_turn(self) -> Turn:
        turn, self._turn = self._turn, None
        if turn is None:
            raise AssertionError("no turn was under way")
        self._kept_free = 0
        return turn

    # --- resting ------------------------------------------------------------------------------

    def _done(self) -> bool:
        return self.stopping and not (self.running or self.unwritten or self.waiting)

    def _rest(self, now: float) -> float:
        """How long until something is to be done even if nothing happens."""
        times = [now + self.poll_seconds]
        if self._try_again_at is not None:
            times.append(self._try_again_at)
        elif not self.stopping and self._slots.free > 0:
            times.append(self._look_at)
            times += self._alarms[:1]
        if self._hurry_at is not None and self._hurry_at > now:
            times.append(self._hurry_at)
        times += self._slots.times()
        return max(0.0, min(times) - now)


def _dated(settlement: Settlement, age_seconds: float) -> Settlement:
    if age_seconds < WORTH_DATING_SECONDS:
        return settlement
    return replace(settlement, age_seconds=age_seconds)
