"""The verbs of the store, and what each of them promises.

The store is the ledger that everything else trusts. It keeps jobs, leases and history, and carries
out what was decided elsewhere; it knows no policy and runs no code of a task. `Ledger` is its one
implementation, over SQLite or PostgreSQL; one suite of tests holds both to this page.

**Atomic.** A verb writes its batch in one transaction: after a crash at any point all of it is
there or none of it. Only two kinds of batch are divided, and then each part is a transaction: one
with more text than may travel at once, and one with a row that the database will not take (text
that is no Unicode), which is halved until that row stands alone and is answered `refused`, while
the rest is written. A row is never half written, nor is what hangs on it.

**Guarded.** A worker's writes name a `Token`: job, lease number, attempt number. The lease number
grows with every claim and is never reset; the attempt number grows with every attempt and is never
reset. A write whose token no longer stands changes nothing and is answered `lost`. A lease is lost
when it was reclaimed, not when it merely lapsed: until somebody else takes the job, its holder may
renew and settle.

**Safe to ask again.** When a verb raises `StoreUnavailableError`, it may or may not have been done.
Asked again, a worker's write that had been done is answered `already`; cancel and hold leave things
as they are; redrive and the verbs of upkeep find nothing left to do. `enqueue` is safe to ask again
for jobs that have a key; a job without one may then be there twice. Jobs of a `claim` whose answer
was lost come back when their lease lapses, at the price of a loss.

**By the store's clock.** Due times, leases and deadlines are judged by one clock: PostgreSQL's
own, or this machine's for SQLite. Callers give spans, not times, except where a person named one.

**Bounded.** A batch has at most `MOST_ROWS` rows and travels in parts of at most
`HEAVIEST_BATCH` characters of text; every statement has a time limit; and no verb's cost grows with
what waits for later or is held.

**Lock order.** Lanes are written in a transaction of their own, before anything else. Then, always
in this order: keys by (task, key), jobs by id, what hangs on a job, the tally. What may meet others
under way without an order of its own (claim, reclaim's expiry, straighten, prune) skips what is
locked. So nobody ever waits in a circle.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from seawall.faults import Fault
from seawall.model import (
    Attempt,
    Job,
    Lane,
    Settlement,
    Token,
    need_name,
    need_span,
    need_spans,
    need_text,
    need_time,
)
from seawall.states import FINISHED, State

MOST_ROWS = 1_000
HEAVIEST_BATCH = 32 * 1024 * 1024
SHORTEST_LEASE_SECONDS = 0.001
SLACK_SECONDS = 5.0
"""How far apart two honest readings of the store's clock may be; beyond it a clock was wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Who runs a job from the moment it is born: the synchronous path.

    No hold and no due time keeps it: its caller has already begun.
    """

    worker: str
    lease_seconds: float

    def __post_init__(self) -> None:
        need_name("worker", self.worker)
        need_lease(self.lease_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job that is asked for. Its arguments are text already encoded by `codec`."""

    lane: Lane
    arguments: str
    codec: str = "json"
    key: str | None = None
    """With a key, a task has at most one such job; the same key with other arguments is refused."""
    run_after: datetime | None = None
    """A time that a person chose; None is now."""
    deadline_at: datetime | None = None
    owner: str | None = None
    run: int | None = None
    request_id: str | None = None
    begin: Begin | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.lane, Lane):
            raise ValueError(f"lane: found {self.lane!r:.80}, expected a Lane")  # noqa: TRY004
        need_text("arguments", self.arguments)
        need_name("codec", self.codec)
        for name in ("key", "owner", "request_id"):
            if (found := getattr(self, name)) is not None:
                need_name(name, found)
        for name in ("run_after", "deadline_at"):
            if (found := getattr(self, name)) is not None:
                need_time(name, found)


class Taken(StrEnum):
    """What became of a job that was asked for."""

    CREATED = "created"
    EXISTING = "existing"
    """A job of the task has this key already, with the same arguments: this is its id.

    It stays as it is, whatever else was asked for with it this time."""
    CONFLICT = "conflict"
    """A job of the task has this key already, with other arguments: this is its id."""
    REFUSED = "refused"
    """It cannot be stored; `reason` says why."""


class Enqueued(NamedTuple):
    """`enqueue`'s answer for one row."""

    taken: Taken
    job_id: int | None
    reason: str = ""


class Wanted(NamedTuple):
    """What a worker asks of `claim`."""

    worker: str
    queues: Sequence[str]
    tasks: Sequence[str]
    limit: int
    lease_seconds: float
    prefetch: bool = False
    """These will wait in the worker's hands; a job that was lost before is left for a free slot."""


class Claim(NamedTuple):
    """A job in a worker's hands: everything it needs to carry out the attempt."""

    token: Token
    lane: Lane
    cycle: int
    tries: int
    losses: int
    due_at: datetime
    lease_until: datetime
    deadline_at: datetime | None
    run: int | None
    owner: str | None
    codec: str
    arguments: str
    request_id: str | None
    input: str | None
    """What the stage before left; None at the first stage."""


class Result(StrEnum):
    """What became of one row of a worker's write."""

    DONE = "done"
    ALREADY = "already"
    """The attempt ended with this outcome in an earlier ask, which stands."""
    LOST = "lost"
    """The token no longer stands; nothing was written."""
    REFUSED = "refused"
    """The row cannot be stored; `reason` says why, and the lease still stands."""


class Answer(NamedTuple):
    """A verb's answer for one row that named a token."""

    result: Result
    state: State | None = None
    """The job's state now, where the write is done."""
    cancel_requested: bool = False
    """Someone asked for this running job to stop."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """A finished stage that is not the last: the job goes on, in the lane of its next stage."""

    token: Token
    lane: Lane
    output: str | None = None
    counts: bool = True
    policy: str | None = None
    duration_seconds: float = 0.0
    age_seconds: float = 0.0

    def __post_init__(self) -> None:
        need_spans(self, "duration_seconds", "age_seconds")
        if self.policy is not None:
            need_name("policy", self.policy)
        if self.output is not None:
            need_text("output", self.output)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A job handed back uncharged. One that had begun says for how long it ran."""

    token: Token
    duration_seconds: float | None = None
    age_seconds: float = 0.0

    def __post_init__(self) -> None:
        need_spans(self, "duration_seconds", "age_seconds")


class Lapse(NamedTuple):
    """A lease that has lapsed, with what a policy must know to judge it."""

    token: Token
    lane: Lane
    cycle: int
    tries: int
    losses: int
    worker: str
    lapsed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaim:
    """What was decided about a lapsed lease: again after a delay, or failed for good."""

    token: Token
    fault: Fault
    delay_seconds: float | None
    """None: it has been lost too often, and fails."""
    policy: str | None = None

    def __post_init__(self) -> None:
        need_spans(self, "delay_seconds")
        if self.policy is not None:
            need_name("policy", self.policy)


class Redrive(NamedTuple):
    """A failed job to be sent again, at the stage where it failed or in the lane named."""

    job_id: int
    lane: Lane | None = None


class Change(NamedTuple):
    """A verb's answer for one job that a person named."""

    done: bool
    state: State | None
    """The job's state now; None where there is no such job."""


class Scope(StrEnum):
    """What a hold can be on."""

    QUEUE = "queue"
    TASK = "task"
    UPSTREAM = "upstream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Queued jobs of this queue, task or upstream are not claimable until a time."""

    scope: Scope
    name: str
    reason: str
    since: datetime
    until: datetime | None
    """None: until a person resumes it."""


class Straightened(NamedTuple):
    """How many due times, leases and holds were put right."""

    due_times: int
    leases: int
    holds: int


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that does not hold, with the jobs that break it."""

    rule: str
    promise: str
    count: int
    jobs: tuple[int, ...]
    """The first of them."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` saw in one instant."""

    entered: int
    present: dict[State, int]
    pruned: int
    violations: tuple[Violation, ...]

    @property
    def ok(self) -> bool:
        return not self.violations


class Store(Protocol):
    """The ledger, as everything above it sees it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def close(self) -> None:
        """Let go of every connection. Closing twice is nothing."""
        ...

    # --- asking -------------------------------------------------------------------------------

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Write each job, its data and its key together, and count it in.

        Answers in the order given. A key is unique for its task as long as its job exists,
        whatever its state. A job that begins at once is born running under lease 1, and its
        first attempt has the token (id, 1, 1).
        """
        ...

    # --- a worker's life ----------------------------------------------------------------------

    def claim(self, wanted: Wanted) -> list[Claim]:
        """Lease due jobs, best first, at most as many as are wanted, each to one worker only.

        Lanes of higher priority come first, lanes of the same priority take turns, and within
        a lane the order is exact: due time, then id. A lane that another process has just made
        comes last, and a job that one has just released is seen, after a second at most. Jobs
        that are held, due later, past their deadline or already leased are not taken. Claiming
        charges nothing.
        """
        ...

    def renew(self, tokens: Sequence[Token], *, lease_seconds: float) -> list[Answer]:
        """Have each lease that was not lost end so long from now, even one that had lapsed.

        `done` or `lost`. It is the lease that is renewed, whichever of its attempts the token
        names.
        """
        ...

    def advance(self, advances: Sequence[Advance]) -> list[Answer]:
        """End each attempt as a finished stage; the job runs on under the same lease.

        Attempt, output and new stage are one write. The next attempt's token is `token.next()`.
        A job only goes forward: to a stage that is no later one it is `lost`.
        """
        ...

    def settle(self, settlements: Sequence[Settlement]) -> list[Answer]:
        """End each attempt: job, attempt and output are one write.

        A job whose cancel was asked for becomes cancelled where it would have been queued.
        """
        ...

    def exchange(
        self, settlements: Sequence[Settlement], wanted: Wanted
    ) -> tuple[list[Answer], list[Claim]]:
        """`settle` and then `claim`, in one transaction: one commit for both.

        Where the settlements have to be divided, the claim follows in a transaction of its own.
        """
        ...

    def release(self, releases: Sequence[Release]) -> list[Answer]:
        """Hand each job back to its old place, uncharged; one that had begun leaves an attempt.

        Asked again for a job that had not begun, it answers `lost`: no history tells.
        """
        ...

    # --- upkeep -------------------------------------------------------------------------------

    def lapsed(self, *, limit: int = MOST_ROWS) -> list[Lapse]:
        """The leases that have lapsed, the longest first. Reads only."""
        ...

    def reclaim(self, reclaims: Sequence[Reclaim]) -> list[Answer]:
        """Take back each job whose lease is the one named and is lapsed still.

        The attempt enters history as lost. `lost` here: its holder renewed or settled after all,
        or someone was first, perhaps this caller, whose answer was lost.
        """
        ...

    def expire(self, *, limit: int = MOST_ROWS) -> list[int]:
        """Fail queued jobs whose deadline has passed; answers their ids."""
        ...

    def straighten(self, *, limit: int = MOST_ROWS) -> Straightened:
        """Put right what a wrong clock set: due times, leases and holds set in the future.

        The same wait is counted from now. A due time that a person chose is left alone.
        """
        ...

    def prune(self, state: State, *, older_than_seconds: float, limit: int = MOST_ROWS) -> int:
        """Remove jobs that ended so long ago, with all that hangs on them; answers how many.

        They are counted into the tally by the state they ended in, in the same transaction.
        """
        ...

    def fold(self, *, limit: int = MOST_ROWS) -> int:
        """Fold the counts of what came in into one; answers how many were folded."""
        ...

    # --- people -------------------------------------------------------------------------------

    def redrive(self, redrives: Sequence[Redrive]) -> list[Change]:
        """Send failed jobs again: new cycle, fresh allowance, no last fault, history kept."""
        ...

    def cancel(self, job_ids: Sequence[int]) -> list[Change]:
        """Cancel queued jobs at once and ask running ones to stop; finished ones stay.

        One that was asked to stop may still succeed or fail: it ends as its attempt ends, but is
        not queued again.
        """
        ...

    def hold(self, scope: Scope, name: str, *, reason: str, seconds: float | None = None) -> None:
        """Make the jobs of every present and future lane of that name unclaimable for so long.

        None is until a person resumes it. It burns no attempt, touches no job, and replaces an
        earlier hold of the same name.
        """
        ...

    def resume(self, scope: Scope, name: str) -> bool:
        """End a hold; false where nothing was held."""
        ...

    def holds(self) -> list[Hold]:
        """Every hold in force."""
        ...

    # --- reading ------------------------------------------------------------------------------

    def jobs(self, job_ids: Sequence[int]) -> dict[int, Job]:
        """Those of the jobs that exist."""
        ...

    def attempts(self, job_id: int, *, after: int = 0, limit: int = MOST_ROWS) -> list[Attempt]:
        """A job's history, oldest first."""
        ...

    def output(self, job_id: int, stage: int) -> str | None:
        """What a stage of the job left."""
        ...

    def counts(self) -> dict[State, int]:
        """How many jobs stand in each state."""
        ...

    def now(self) -> datetime:
        """The store's own clock."""
        ...

    def wait(self, timeout_seconds: float) -> bool:
        """Return when there may be new work, or after the timeout; true if something woke it.

        A wake-up may be missed (a process can die before it tells): polling is the floor.
        """
        ...

    def verify(self, *, timeout_seconds: float = 600.0) -> Verification:
        """Check every invariant that the schema cannot hold, in one instant, reading only."""
        ...


def need_batch(rows: Sequence[object]) -> None:
    """`ValueError` where a batch is longer than any batch may be."""
    if len(rows) > MOST_ROWS:
        raise ValueError(f"a batch of {len(rows):,} rows; at most {MOST_ROWS:,}, so send several")


def need_tokens(tokens: Sequence[Token]) -> None:
    """`ValueError` where a batch is too long, or names a job twice."""
    need_batch(tokens)
    if len({token.job_id for token in tokens}) < len(tokens):
        raise ValueError("a batch that names a job twice: end one attempt, then the next")


def too_heavy(batch: Sequence[object]) -> bool:
    """Whether a batch of several rows carries more text than may travel at once."""
    return len(batch) > 1 and sum(map(_weight, batch)) > HEAVIEST_BATCH


def _weight(row: object) -> int:
    text = row.arguments if isinstance(row, NewJob) else getattr(row, "output", None)
    return len(text) if text else 0


def is_id(found: int) -> bool:
    """Whether a number could be the id of a job; any other is of none."""
    if not isinstance(found, int):
        raise ValueError(f"job id: found {found!r:.80}, expected a whole number")  # noqa: TRY004
    return 0 < found < 2**63


def need_limit(limit: object) -> None:
    """`ValueError` where a limit is none."""
    good = isinstance(limit, int) and 1 <= limit <= MOST_ROWS
    if not good:
        raise ValueError(f"limit: found {limit!r}, expected 1 to {MOST_ROWS}")


def need_wanted(wanted: Wanted) -> None:
    """`ValueError` where a claim cannot be carried out."""
    need_limit(wanted.limit)
    need_name("worker", wanted.worker)
    for name in ("queues", "tasks"):
        found = getattr(wanted, name)
        if isinstance(found, str):
            raise ValueError(f"{name}: found {found!r:.80}, expected a list of names")  # noqa: TRY004
    need_lease(wanted.lease_seconds)


def need_finished(state: State) -> None:
    """`ValueError` where jobs in that state are not at their end."""
    if state not in FINISHED:
        ends = ", ".join(sorted(FINISHED))
        raise ValueError(f"state: found {state!s:.80}, expected one of {ends}")


def need_lease(seconds: float) -> None:
    """`ValueError` where a lease would last no time, or for ever."""
    need_span("lease_seconds", seconds)
    if seconds < SHORTEST_LEASE_SECONDS:
        least = SHORTEST_LEASE_SECONDS
        raise ValueError(f"lease_seconds: found {seconds!r}, expected at least {least}")
