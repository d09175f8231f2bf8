"""What goes into the store's verbs and what comes back, with the bounds that every store keeps.

What cannot be kept is refused here, when the value is made, with a line that names the field: so
it is refused alike whatever the database.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from seawall.faults import Fault
from seawall.model import Lane, Token, need_name, need_span, need_spans, need_text, need_time
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
