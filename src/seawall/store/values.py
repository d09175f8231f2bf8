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
from seawall.model import (
    Lane,
    NewJob,
    Settlement,
    Token,
    Usage,
    need_lease,
    need_name,
    need_span,
    need_spans,
    need_text,
)
from seawall.states import FINISHED, State
from seawall.store.finding_values import Filter as Filter
from seawall.store.finding_values import Ids as Ids
from seawall.store.finding_values import Page as Page
from seawall.store.fleet_values import (
    Lately as Lately,
)
from seawall.store.fleet_values import (
    Observation as Observation,
)
from seawall.store.fleet_values import (
    Observed as Observed,
)
from seawall.store.fleet_values import (
    Planned as Planned,
)
from seawall.store.fleet_values import (
    Presence as Presence,
)
from seawall.store.fleet_values import (
    Present as Present,
)
from seawall.store.fleet_values import (
    Watched as Watched,
)
from seawall.store.pace_values import BOUNDS_SECONDS

MOST_ROWS = 1_000
LARGEST_AMOUNT = 2**53
HEAVIEST_BATCH = 32 * 1024 * 1024
SLACK_SECONDS = 5.0
"""How far apart two honest readings of the store's clock may be; beyond it a clock was wrong."""


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
    queues: Sequence[str] | None
    """None: every queue."""
    tasks: Sequence[str]
    limit: int
    lease_seconds: float
    prefetch: bool = False
    """These will wait in the worker's hands; a job that was lost before is left for a free slot."""
    upstream: str | None = None
    """Only what calls this one, which the caller has locked; None: whatever is not gated."""
    retry: bool = False
    """With an upstream: what has failed at it before, and nothing else."""
    without: frozenset[str] = frozenset()
    """Upstreams that need not be looked at, because they are known to be gated."""
    guarded: frozenset[str] = frozenset()
    """Upstreams, and families of them, that are always gated, even before anybody has said so."""
    owner: str | None = None
    """With an upstream: what belongs to this owner; empty is what belongs to none."""
    priority: int | None = None
    """With an upstream: what has this priority."""


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
    history: str | None = None
    """What its earlier attempts at this stage, in this cycle, came to; `earlier` reads it."""
    trace: str | None = None
    """In which trace it was asked for."""
    span: str | None = None
    """What stands in a trace for the attempt before this one."""


class Earlier(NamedTuple):
    """An earlier attempt at the same stage and in the same cycle, which went wrong."""

    fault: Fault
    delay_seconds: float | None
    """The wait that followed it."""
    started_at: datetime


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
    children: tuple[NewJob, ...] = ()
    """Jobs that the attempt asked for: written with its end, or not at all."""
    raw_output: str | None = None
    """What the upstream really said, captured for people to review."""
    config: str | None = None
    """Which configuration of its stage it was made with."""
    usage: Usage | None = None
    span: str | None = None
    """What stands for it in a trace."""

    def __post_init__(self) -> None:
        need_spans(self, "duration_seconds", "age_seconds")
        if self.policy is not None:
            need_name("policy", self.policy)
        if self.output is not None:
            need_text("output", self.output)
        if self.raw_output is not None:
            need_text("raw_output", self.raw_output)


Ending = Settlement | Advance
"""How an attempt ended: its job has settled somewhere, or goes on to its next stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A job handed back uncharged. One that had begun says for how long it ran."""

    token: Token
    duration_seconds: float | None = None
    age_seconds: float = 0.0
    span: str | None = None
    """What stands for it in a trace."""

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
    prefetched: bool = False
    """It was to wait in its worker's hands, and perhaps never began."""
    spared: int = 0
    """How many of its losses were such ones; they are not held against it."""


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
    arguments: str | None = None
    """What it works on from now on, already encoded; None: what it did before."""
    codec: str = "json"
    delay_seconds: float = 0.0
    """How long from now it is due."""
    only_open: bool = False
    """Leave it where its dead letter is not open: somebody has dealt with it meanwhile."""
    by: str | None = None
    """Who sends it."""


class Change(NamedTuple):
    """A verb's answer for one job that a person named."""

    done: bool
    state: State | None
    """The job's state now; None where there is no such job."""
    reason: str = ""
    """Why it cannot be done, where that is not to be seen from the state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a running attempt has come, in its own words."""

    token: Token
    done: float
    total: float | None = None
    message: str = ""

    def __post_init__(self) -> None:
        for name in ("done", "total"):
            found = getattr(self, name)
            good = isinstance(found, int | float) and 0 <= found < LARGEST_AMOUNT
            if not (good or (name == "total" and found is None)):
                raise ValueError(f"{name}: found {found!r:.80}, expected a number from 0 on")
        need_name("message", self.message, empty=True)


class Evidence(NamedTuple):
    """What an attempt left for operators."""

    traceback: str | None
    raw_output: str | None


class JobChange(NamedTuple):
    """What has become of a job, in the words of an event."""

    event: str
    """queued, running, retry, redriven, complete, skipped, failed, expired or cancelled."""
    at: datetime
    job_id: int
    task: str
    queue: str
    stage: int
    state: State
    """Where it stands now."""
    attempts: int
    """How many it has had."""
    cycle: int
    owner: str | None
    run: int | None
    fault_code: str | None


class Changes(NamedTuple):
    """What has become of jobs, the oldest first, and up to when that was seen."""

    changes: tuple[JobChange, ...]
    at: datetime
    whole: bool
    """False where there was more than was asked for."""


class Head(NamedTuple):
    """A lane in which something waits, and when the first of it is due."""

    lane: Lane
    due_at: datetime


class Backlog(NamedTuple):
    """How much of a lane waits for now, waits for later, and runs."""

    lane: Lane
    due: int
    later: int
    running: int
    oldest_due_at: datetime | None


class OwnStanding(NamedTuple):
    """How the newest jobs of an owner stand."""

    waiting: dict[str, int]
    """How many wait for each upstream, by name."""
    open_letters: int
    whole: bool
    """False where there are older jobs, which were not looked at."""


class Scope(StrEnum):
    """What a hold can be on."""

    QUEUE = "queue"
    TASK = "task"
    UPSTREAM = "upstream"
    RUN = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Queued jobs of this queue, task, upstream or run are not claimable until a time."""

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


def need_redrives(redrives: Sequence[Redrive]) -> None:
    """`ValueError` where something of a batch cannot be carried out."""
    need_batch(redrives)
    for each in redrives:
        need_span("delay_seconds", each.delay_seconds)
        need_name("codec", each.codec)
        if each.arguments is not None:
            need_text("arguments", each.arguments)
        if each.by is not None:
            need_name("by", each.by)


def need_observations(observations: Sequence[Observation]) -> None:
    """`ValueError` where something of a batch cannot be kept."""
    need_batch(observations)
    for each in observations:
        need_name("upstream", each.upstream)
        need_name("worker", each.worker)
        for name, found in zip(each._fields[2:8], each.amounts, strict=True):
            _need_amount(name, found)
        for bucket, many in each.spans:
            if bucket not in range(len(BOUNDS_SECONDS) + 1):
                raise ValueError(f"spans: found {bucket!r:.80}, expected a bucket of `span_bucket`")
            _need_amount("spans", many)


def _need_amount(name: str, found: object) -> None:
    if not isinstance(found, int) or not 0 <= found < LARGEST_AMOUNT:
        raise ValueError(f"{name}: found {found!r:.80}, expected a number from 0 on")


def too_heavy(batch: Sequence[object]) -> bool:
    """Whether a batch of several rows carries more than may travel at once: text, or children."""
    return len(batch) > 1 and sum(map(_weight, batch)) > HEAVIEST_BATCH


def _weight(row: object) -> int:
    if isinstance(row, NewJob | Redrive):
        return len(row.arguments or "")
    if isinstance(row, Settlement) and row.is_plain:
        return 0
    text = getattr(row, "output", None)
    weight = len(text) if text else 0
    if isinstance(row, Settlement) and row.traceback:
        weight += len(row.traceback)
    if isinstance(row, Settlement | Advance) and (row.raw_output or row.children):
        weight += len(row.raw_output or "")
        # However little a child has to say, of children there may be no more than of rows.
        weight += sum(max(_weight(each), HEAVIEST_BATCH // MOST_ROWS) for each in row.children)
    return weight


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
        if name == "queues" and found is None:
            continue
        if isinstance(found, str):
            raise ValueError(f"{name}: found {found!r:.80}, expected a list of names")  # noqa: TRY004
    need_lease(wanted.lease_seconds)


def need_finished(state: State) -> None:
    """`ValueError` where jobs in that state are not at their end."""
    if state not in FINISHED:
        ends = ", ".join(sorted(FINISHED))
        raise ValueError(f"state: found {state!s:.80}, expected one of {ends}")
