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

**Stages.** An attempt that finished a stage is written like any other end; when it is, the job is
at its next stage, still in our hands, and goes first among what waits. Where the next stage may not
begin here and now, it is handed back.

**Leases.** A handler is started only while its lease is known to stand. What waited while nothing
could be renewed (a stopped process, a store that was away) waits on until a renewal says that it
is still ours.

**Stopping.** Nothing more is claimed, what had not begun is handed back at once, what runs may
finish within the grace period; then, or at a second signal, it is stopped and handed back too. The
worker exits when all of this is written.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import islice

from seawall.execute import Stop
from seawall.model import Lane, Settlement, Token
from seawall.store import Advance, Claim, Ending, Release
from seawall.store.values import MOST_ROWS
from seawall.worker.events import (
    Action,
    Advanced,
    Asked,
    Began,
    Ended,
    Event,
    Exit,
    Freed,
    Halted,
    Renewed,
    Rest,
    Shut,
    Signal,
    Start,
    Taken,
    Turn,
    Turned,
    TurnFailed,
    Woken,
)
from seawall.worker.slots import Limit, Slot, Slots

MOST_PREFETCHED = 1_000
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
        limit_of: Callable[[Lane], Limit],
        prefetch: bool = True,
    ) -> None:
        self.concurrency = concurrency
        self.poll_seconds = poll_seconds
        self.grace_seconds = grace_seconds
        self._lease_seconds = lease_seconds
        self._slots = Slots(concurrency, lease_seconds=lease_seconds, limit_of=limit_of)
        self._may_prefetch = prefetch
        self._held: dict[int, Claim] = {}
        """By job, what is in our hands."""
        self.waiting: deque[tuple[Claim, float]] = deque()
        """Claims that have not begun, and when they came."""
        self._coming: list[Claim] = []
        """Claims of the turn under way that stand already, and will come with its end."""
        self._use_by: dict[Token, float] = {}
        """Until when claims may begin that may not at any time."""
        self._lapsed: dict[Token, tuple[Claim, float]] = {}
        """Claims that had not begun when their lease lapsed: perhaps another has the job."""
        self._renewed_at: dict[int, float] = {}
        """By job, when its lease was last renewed; those that are new are not here."""
        self.stopping = False
        self._hurry_at: float | None = None
        self._settlements: dict[Token, tuple[Ending, float]] = {}
        self._came_at: dict[int, float] = {}
        """By job, when its claim came, of those that are between two stages."""
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

    def hear(self, event: Event, now: float) -> None:  # noqa: C901, PLR0912 - a case for each event
        """Take note of what happened; `act` says what follows from it."""
        match event:
            case Ended(token, write, freed):
                self._ended(token, write, now, freed=freed)
            case Woken(look):
                if look:
                    self._look_at, self._told_of_work = now, True
            case Began(token):
                self._slots.began(token, now)
            case Freed(token):
                self._slots.freed(token)
            case Turned():
                self._turned(event, now)
            case TurnFailed():
                self._turn_failed(now)
            case Shut(upstreams, probes):
                self._hand_back(
                    lambda claim: claim.lane.upstream in upstreams and claim.token not in probes
                )
            case Halted(runs):
                self._hand_back(lambda claim: claim.run in runs)
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
    def left_behind(self) -> AbstractSet[Token]:
        """Handlers that go on although their attempts have ended."""
        return self._slots.left_behind.keys()

    def under_way(self, upstream: str) -> dict[str, int]:
        """How many jobs that call this upstream run, or are about to, by the owner of their lane.

        A handler that was left behind is perhaps still calling. What the turn under way has taken
        counts from then on: nobody must think that it is still free.
        """
        ours: dict[str, int] = {}
        for claim in (
            *(slot.claim for slot in self._slots.running.values()),
            *self._slots.left_behind.values(),
            *(claim for claim, _ in self.waiting),
            *(claim for claim, _ in self._lapsed.values()),
            *self._coming,
        ):
            if claim.lane.upstream == upstream:
                ours[claim.lane.owner] = ours.get(claim.lane.owner, 0) + 1
        return ours

    def coming(self, claims: Sequence[Claim], use_by: float = math.inf) -> None:
        """These were taken by the turn under way, and will be told with its end."""
        self._coming += claims
        if use_by < math.inf:
            self._use_by.update({claim.token: use_by for claim in claims})

    def has(self, token: Token) -> bool:
        """Whether this lease is in our hands, or about to be."""
        return self.claim_of(token) is not None or any(c.token == token for c in self._coming)

    @property
    def idle(self) -> bool:
        """No job is in its hands; handlers that were left behind may still go on."""
        return not (self._held or self._turn)

    @property
    def turning(self) -> bool:
        """Whether the store is being asked."""
        return self._turn is not None

    def ending(self, token: Token) -> bool:
        """Whether the end of this attempt is being written."""
        return self._turn is not None and token in self._turn.tokens

    @property
    def tokens(self) -> list[Token]:
        """Every lease that is to be renewed: running, waiting, or ended and not yet written.

        No job is among them twice. May be asked for by any thread.
        """
        return [claim.token for claim in list(self._held.values())]

    def claim_of(self, token: Token) -> Claim | None:
        """What this lease gives the right to, if it is ours, as far as we know."""
        claim = self._held.get(token.job_id)
        return claim if claim is not None and claim.token == token else None

    def older(self, claim: Claim) -> Claim | None:
        """What of the same job is in our hands, and was lost if somebody could claim it."""
        held = self._held.get(claim.token.job_id)
        return None if held is None or self.ending(held.token) else held

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
            elif now >= self._lease_ends(claim, came_at):
                self._lapsed[claim.token] = (claim, came_at)
            else:
                self._slots.take(slot)
                yield Start(claim, came_at, self._use_by.pop(claim.token, math.inf))
        if self.stopping:
            self._releases.update({token: Release(token=token) for token in self._lapsed})
            self._lapsed.clear()

    def _lease_ends(self, claim: Claim, came_at: float) -> float:
        """When it lapses unless it is renewed."""
        return self._renewed_at.get(claim.token.job_id, came_at) + self._lease_seconds

    def _renewed(self, tokens: tuple[Token, ...], now: float) -> None:
        for token in tokens:
            if self.claim_of(token):
                self._renewed_at[token.job_id] = now
            if token in self._lapsed:
                self.waiting.appendleft(self._lapsed.pop(token))

    def _keeps_free(self, now: float) -> bool:
        """Whether free slots are not to be filled now, because the next turn claims for them."""
        looks = now >= self._look_for_lost_at and (self._more or now >= self._look_at)
        return looks and not self.stopping and self._may_turn()

    def _may_turn(self) -> bool:
        return self._turn is None and self._try_again_at is None

    def _ended(self, token: Token, write: Ending | Release, now: float, *, freed: bool) -> None:
        slot = self._slots.end(token, freed=freed)
        if slot is None or slot.stop is Stop.LOST or not self.claim_of(token):
            return  # it was taken from us: nothing may be written
        if isinstance(write, Release):
            self._releases[token] = write
            return
        self._settlements[token] = (write, now)
        if isinstance(write, Advance):
            self._came_at[token.job_id] = slot.came_at
        took = write.duration_seconds
        mean = self._mean_seconds
        self._mean_seconds = took if mean is None else mean + (took - mean) * 0.05
        if isinstance(write, Settlement) and write.delay_seconds is not None:
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

    def _hand_back(self, held: Callable[[Claim], bool]) -> None:
        """What may not begin now waits better in the store."""
        kept: deque[tuple[Claim, float]] = deque()
        for claim, came_at in self.waiting:
            if held(claim):
                self._releases[claim.token] = Release(token=claim.token)
            else:
                kept.append((claim, came_at))
        self.waiting = kept

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
        if self.claim_of(token):
            del self._held[token.job_id]
            self._renewed_at.pop(token.job_id, None)
            self._came_at.pop(token.job_id, None)
            self._use_by.pop(token, None)

    def _signalled(self, now: float) -> None:
        self._hurry_at = now if self.stopping else now + self.grace_seconds
        self.stopping = True

    # --- turns --------------------------------------------------------------------------------

    def _next_turn(self, now: float) -> Turn | None:
        if not self._may_turn():
            return None
        limit, prefetch, ahead = self._wanted(now)
        self._told_of_work = False
        if not (self._settlements or self._releases or limit):
            return None
        ended = islice(self._settlements.values(), MOST_ROWS)
        settlements = tuple([_dated(settlement, now - at) for settlement, at in ended])
        releases = tuple(islice(self._releases.values(), MOST_ROWS))
        return Turn(settlements, releases, limit, prefetch, ahead)

    def _wanted(self, now: float) -> tuple[int, bool, int]:
        """How many jobs to claim, whether they are to wait in our hands, and how many besides."""
        self._kept_free = 0
        if self.stopping:
            return 0, False, 0
        while self._alarms and self._alarms[0] <= now:
            heapq.heappop(self._alarms)
            self._look_at = min(self._look_at, now)
        if not self._more and now < self._look_at:
            return 0, False, 0
        free = min(self._slots.free, MOST_ROWS)
        room = max(0, self._depth() - len(self.waiting)) if self._more else 0
        if free > 0 and (not self.waiting or now >= self._look_for_lost_at):
            self._kept_free = free
            # Many slots stand empty: handlers are quicker than the store, so take more at a time.
            starved = free > self.concurrency // 8 + 1
            return free, False, min(room, MOST_ROWS) if starved else 0
        # A claim for a few is as dear as one for many: wait until there is room for some.
        if room > 0 and 4 * room >= self._depth():
            return min(room, MOST_ROWS), True, 0
        return 0, False, 0

    def _depth(self) -> int:
        """How many jobs may wait in our hands: about as many as are done in a moment."""
        if not self._may_prefetch or self._mean_seconds is None:
            return 0
        rounds = PREFETCH_SECONDS / max(self._mean_seconds, 1e-6)
        return int(min(MOST_PREFETCHED, rounds * self.concurrency)) if rounds >= 1 else 0

    def _turned(self, turned: Turned, now: float) -> None:
        turn, claims = self._forget_turn(), turned.claims
        if turned.written:
            self._try_again_at, self._pause = None, FIRST_PAUSE_SECONDS
            self._are_written(turn, turned, now)
        else:
            self._pause_a_while(now)
        if turn.limit:
            # Fewer than were wanted: there is nothing more for now.
            self._more = len(claims) >= turn.limit + turn.ahead
            # What was said while the store was asked may be about jobs that it did not see yet.
            self._look_at = now if self._told_of_work else now + self.poll_seconds
            if not turn.prefetch:
                self._look_for_lost_at = now + LOOK_FOR_LOST_SECONDS
        if turned.again_at is not None:
            self._set_alarm(turned.again_at)
            self._look_for_lost_at = min(self._look_for_lost_at, turned.again_at)
        for claim in claims:
            older = self._held.get(claim.token.job_id)
            if older is not None:  # it could be claimed: so the lease that we had was lost
                self._lost(older.token)
            self._held[claim.token.job_id] = claim
        came = [(claim, now) for claim in claims]
        first = 0 if turn.prefetch else turn.limit  # slots were kept free for these
        self.waiting.extendleft(reversed(came[:first]))
        self.waiting.extend(came[first:])

    def _are_written(self, turn: Turn, turned: Turned, now: float) -> None:
        instead = {each.token: each for each in turned.instead}
        advanced = {each.token: each for each in turned.advanced}
        for settlement in turn.settlements:
            token = settlement.token
            if self._settlements.pop(token, None) is None:
                continue  # it was taken from us meanwhile
            if token in instead:
                self._settlements[token] = (instead[token], now)
            elif token in advanced and isinstance(settlement, Advance):
                self._advanced(settlement, advanced[token], now)
            else:
                self._forget(token)
        for release in turn.releases:
            self._releases.pop(release.token, None)
            self._forget(release.token)

    def _advanced(self, advance: Advance, how: Advanced, now: float) -> None:
        """The job is at its next stage, and goes first among what waits."""
        token = advance.token.next()
        came_at = self._came_at.pop(token.job_id, now)
        claim = next_claim(self._held[token.job_id], advance)
        self._held[token.job_id] = claim
        if how.goes_on and not self.stopping:
            self.waiting.appendleft((claim, came_at))
        else:
            self._releases[token] = Release(token=token)

    def _turn_failed(self, now: float) -> None:
        self._forget_turn()
        self._pause_a_while(now)
        self._look_at = now

    def _pause_a_while(self, now: float) -> None:
        """Let the store be for a moment, and for a longer one each time."""
        self._try_again_at = now + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)

    def _forget_turn(self) -> Turn:
        turn, self._turn = self._turn, None
        if turn is None:
            raise AssertionError("no turn was under way")
        self._kept_free = 0
        self._coming = []
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


def next_claim(claim: Claim, advance: Advance) -> Claim:
    """What a lease gives the right to after a stage is done."""
    return claim._replace(
        token=advance.token.next(), lane=advance.lane, tries=0, input=advance.output, history=None,
        span=advance.span or claim.span,
    )  # fmt: skip


def _dated(settlement: Ending, age_seconds: float) -> Ending:
    if age_seconds < WORTH_DATING_SECONDS:
        return settlement
    return replace(settlement, age_seconds=age_seconds)
