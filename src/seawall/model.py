"""What seawall keeps, as frozen values.

These are the rows of the ledger: a job and the lane it stands in, the lease on its current attempt
and the token that guards it, the settlement that ends an attempt, the attempt as history remembers
it. They know their own invariants and nothing else: not how they are stored, not who decides about
them. Every time is an aware `datetime`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import ClassVar, NamedTuple, Self

from seawall.faults import LONGEST_WAIT_SECONDS, Fault, FaultCode
from seawall.states import FINISHED, Move, State, step

__all__ = [
    "Attempt",
    "Begin",
    "Fault",
    "FaultCode",
    "Job",
    "Lane",
    "Lease",
    "NewJob",
    "Outcome",
    "Settlement",
    "Token",
    "Usage",
]

_set = object.__setattr__
"""What sets a field of a frozen value as it is made."""

MOST_STAGES = 2**15
MOST_TAGS = 20
SHORTEST_LEASE_SECONDS = 0.001
LONGEST_NAME = 200
MOST_NAME_BYTES = 600
"""Several names must fit into one row of an index."""
LAST_YEAR = 9_000
"""No time is later: near the end of the calendar, time zones and leases fall off it."""
INLINE_WORKER = "inline:"
"""What the name of a caller begins with that runs a job itself, instead of a worker.

What was tried under such a name uses up nothing of what the job's own policy allows; `claim` knows
it by this."""
LONGEST_TRACE = 600
LARGEST_TEXT = 16 * 1024 * 1024
"""No arguments and no output may be longer, in characters, whatever a setting allows."""


class Outcome(StrEnum):
    """How one attempt ended."""

    SUCCEEDED = "succeeded"
    ADVANCED = "advanced"
    SKIPPED = "skipped"
    RETRIED = "retried"
    SNOOZED = "snoozed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    RELEASED = "released"
    LOST = "lost"


_MOVES: dict[Outcome, Move] = {
    Outcome.SUCCEEDED: Move.SUCCEED,
    Outcome.SKIPPED: Move.SKIP,
    Outcome.RETRIED: Move.RETRY,
    Outcome.SNOOZED: Move.SNOOZE,
    Outcome.FAILED: Move.FAIL,
    Outcome.CANCELLED: Move.STOP,
}
SETTLING_OUTCOMES = frozenset(_MOVES)
_STATES: dict[Outcome, State] = {
    outcome: state
    for outcome, move in _MOVES.items()
    if (state := step(State.RUNNING, move)) is not None
}
_WITH_FAULT = frozenset({Outcome.RETRIED, Outcome.FAILED})
_WITH_DELAY = frozenset({Outcome.RETRIED, Outcome.SNOOZED})
_WITH_CHILDREN = frozenset({Outcome.SUCCEEDED, Outcome.SKIPPED, Outcome.SNOOZED})


@dataclass(frozen=True, slots=True)
class Lane:
    """Where jobs wait in line: claims visit lanes, so what one lane holds costs the others nothing.

    Order is exact within a lane. Higher priorities are visited first.
    """

    task: str
    queue: str = "default"
    stage: int = 0
    upstream: str = ""
    """What its stage calls; empty where that is nothing that can be held."""
    priority: int = 0
    owner: str = ""
    """Set where owners take turns; empty where they share a lane."""
    retry: bool = False
    """For what has failed at the upstream before: it may have to wait while others go on."""
    run: int = 0
    """Items of a run have lanes of their own; 0 is of no run."""

    def __post_init__(self) -> None:
        for name in ("task", "queue", "upstream", "owner"):
            need_name(name, getattr(self, name), empty=name in ("upstream", "owner"))
        _need(0 <= self.stage < MOST_STAGES, f"stage: found {self.stage}, expected 0 to 32767")
        _need(
            -(2**31) <= self.priority < 2**31,
            f"priority: found {self.priority}, expected a number of 32 bits",
        )
        _need(0 <= self.run < 2**63, f"run: found {self.run}, expected the number of a run")


class Token(NamedTuple):
    """Which attempt of which job, under which lease: what every write of a worker must name."""

    job_id: int
    lease_no: int
    seq: int
    """The attempt's number."""

    def next(self) -> "Token":
        """The token of the attempt that follows under the same lease, after an advance."""
        return Token(self.job_id, self.lease_no, self.seq + 1)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to carry out one attempt, until a time, under a fencing token.

    `lease_no` grows with each claim of the job and is never reset, so that a write which names an
    older one is refused whatever else has happened since.
    """

    job_id: int
    lease_no: int
    worker: str
    until: datetime

    def __post_init__(self) -> None:
        _need(self.lease_no >= 1, "lease_no starts at 1")
        _need_zone(self, "until")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A durable row that moves through stages, often one."""

    id: int
    task: str
    state: State
    queue: str = "default"
    stage: int = 0
    priority: int = 0
    due_at: datetime
    created_at: datetime
    started_at: datetime | None = None
    """When its first attempt began."""
    last_attempt_at: datetime | None = None
    finished_at: datetime | None = None
    deadline_at: datetime | None = None
    cycle: int = 0
    """How often it was redriven; each cycle has a fresh allowance of tries."""
    tries: int = 0
    """Attempts at this stage, in this cycle, that counted."""
    losses: int = 0
    """Attempts whose worker was lost."""
    seq: int = 0
    """Attempts ever made; never reset."""
    lease_no: int = 0
    lease: Lease | None = None
    cancel_requested: bool = False
    upstream: str | None = None
    owner: str | None = None
    key: str | None = None
    tags: tuple[str, ...] = ()
    run: int | None = None
    parent: int | None = None
    """The job whose handler asked for it; it may be gone by now."""
    last_fault: Fault | None = None

    def __post_init__(self) -> None:
        running = self.state is State.RUNNING
        _need(running == (self.lease is not None), "a job has a lease exactly while it runs")
        finished = self.state in FINISHED
        _need(finished == (self.finished_at is not None), "finished_at is set exactly at the end")
        counts = (self.stage, self.cycle, self.tries, self.losses, self.seq, self.lease_no)
        _need(min(counts) >= 0, "counts are never negative")
        _need_zone(self, "due_at", "created_at", "started_at", "last_attempt_at", "finished_at")
        _need_zone(self, "deadline_at")


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


@dataclass(frozen=True, kw_only=True)
class NewJob:
    """A job that is asked for. Its arguments are text already encoded by `codec`.

    It has no slots: what is as usual stays with the class, so `plain` need not write it down.
    """

    lane: Lane
    arguments: str
    codec: str = "json"
    key: str | None = None
    """With a key, a task has at most one such job; the same key with other arguments is refused."""
    run_after: datetime | None = None
    """A time that a person chose; None is now."""
    run_after_seconds: float | None = None
    """Instead: how long from now, by the store's clock."""
    deadline_at: datetime | None = None
    deadline_seconds: float | None = None
    """Instead: how long from now, by the store's clock."""
    owner: str | None = None
    tags: tuple[str, ...] = ()
    """Words to find it by."""
    run: int | None = None
    request_id: str | None = None
    parent: int | None = None
    """The job whose handler asks for it."""
    trace: str | None = None
    """In which trace it is asked for: see `telemetry.trace_context`."""
    begin: Begin | None = None
    is_plain: ClassVar[bool] = False
    """Whether it is known that there is no more to say of it."""

    @classmethod
    def plain(cls, lane: Lane, arguments: str, codec: str) -> Self:
        """One that is due now, and of which there is no more to say: most are, by the thousand."""
        need_text("arguments", arguments)
        made = object.__new__(cls)
        _set(made, "lane", lane)
        _set(made, "arguments", arguments)
        _set(made, "codec", codec)
        _set(made, "is_plain", True)
        return made

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
        need_spans(self, "run_after_seconds", "deadline_seconds")
        if self.tags:
            need_tags(self.tags)
        if self.parent is not None:
            good = type(self.parent) is int and 0 < self.parent < 2**63
            _need(good, f"parent: found {self.parent!r:.80}, expected the number of a job")
        if self.trace is not None:
            need_trace(self.trace)

    def in_trace(self, trace: str) -> Self:
        """The same, asked for in this trace. Made by the thousand, as `plain` ones are."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, trace=trace)
        return made


class Usage(NamedTuple):
    """What an attempt used up, as its handler says."""

    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    """In whatever currency the application counts."""


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """How a worker says an attempt ended; guarded by its token.

    Times are told as seconds before now, so that only the store's clock is ever written down. It
    has no slots, as `NewJob` has none.
    """

    token: Token
    outcome: Outcome
    fault: Fault | None = None
    delay_seconds: float | None = None
    """With `retried` and `snoozed`: how long to wait before the next attempt."""
    counts: bool = True
    """Whether the attempt uses up one of the policy's tries."""
    policy: str | None = None
    """Name and version of the policy that judged it."""
    output: str | None = None
    """What the stage produced, already encoded."""
    duration_seconds: float = 0.0
    age_seconds: float = 0.0
    """How long ago it ended: a settlement may have had to wait for the store."""
    children: tuple[NewJob, ...] = ()
    """Jobs that the attempt asked for: written with its end, or not at all."""
    traceback: str | None = None
    """Where it broke: for operators only, never in a message."""
    raw_output: str | None = None
    """What the upstream really said, captured for people to review."""
    lane: Lane | None = None
    """With `retried`: where it waits from now on; None is where it was."""
    config: str | None = None
    """Which configuration of its stage it was made with."""
    usage: Usage | None = None
    span: str | None = None
    """What stands for it in a trace; nobody links to one that succeeded."""
    is_plain: ClassVar[bool] = False
    """Whether it is known that it succeeded and that there is no more to say of it."""

    @classmethod
    def plain(cls, token: Token, duration_seconds: float) -> Self:
        """A success without output: they are made by the thousand."""
        if not 0 <= duration_seconds <= LONGEST_WAIT_SECONDS:
            need_span("duration_seconds", duration_seconds)
        made = object.__new__(cls)
        _set(made, "token", token)
        _set(made, "outcome", Outcome.SUCCEEDED)
        _set(made, "duration_seconds", duration_seconds)
        _set(made, "is_plain", True)
        return made

    def __post_init__(self) -> None:
        outcome = self.outcome
        if outcome not in _STATES:
            raise ValueError(f"{outcome} does not settle an attempt")
        if (outcome in _WITH_FAULT) != isinstance(self.fault, Fault):
            raise ValueError(
                "fault: a Fault belongs to retried and failed, and to nothing else;"
                f" found {self.fault!r:.80} with {outcome}"
            )
        if (outcome in _WITH_DELAY) != (self.delay_seconds is not None):
            raise ValueError(
                "delay_seconds: a delay belongs to retried and snoozed, and to nothing else;"
                f" found {self.delay_seconds!r} with {outcome}"
            )
        if self.children and outcome not in _WITH_CHILDREN:
            raise ValueError(f"children: an attempt that was {outcome} leaves none")
        if not _are_spans(self.delay_seconds or 0, self.duration_seconds, self.age_seconds):
            need_spans(self, "delay_seconds", "duration_seconds", "age_seconds")
        if self.policy is not None:
            need_name("policy", self.policy)
        if self.output is not None:
            need_text("output", self.output)
        if self.traceback is not None:
            need_text("traceback", self.traceback)
        if self.raw_output is not None:
            need_text("raw_output", self.raw_output)

    @property
    def state(self) -> State:
        """The state that the settlement leaves its job in, unless a cancel was asked for."""
        return _STATES[self.outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One numbered try at one stage, as history keeps it. Written once, never changed."""

    job_id: int
    seq: int
    cycle: int = 0
    stage: int = 0
    worker: str
    started_at: datetime
    finished_at: datetime
    outcome: Outcome
    counted: bool = True
    fault: Fault | None = None
    delay_seconds: float | None = None
    policy: str | None = None
    caller_request_id: str | None = None
    """The caller's own id, carried from enqueue to every log line; a fault has the upstream's."""
    config: str | None = None
    """Which configuration of its stage it was made with."""

    def __post_init__(self) -> None:
        _need(self.seq >= 1, "attempts are numbered from 1")
        _need_zone(self, "started_at", "finished_at")
        _need(self.started_at <= self.finished_at, "an attempt cannot end before it began")

    @property
    def duration(self) -> timedelta:
        return self.finished_at - self.started_at


def need_name(field: str, found: object, *, empty: bool = False) -> None:
    """`ValueError`, naming the field, unless this is a name that every store can keep."""
    if not isinstance(found, str):
        raise ValueError(f"{field}: found {found!r:.80}, expected text")  # noqa: TRY004 - as below
    _need_good_name(field, found, empty)


@lru_cache(maxsize=4_096)
def _need_good_name(field: str, found: str, empty: bool) -> None:
    """Most names come again and again: one that was good is good."""
    if len(found) > LONGEST_NAME or not (empty or found.strip()):
        raise ValueError(f"{field}: found {found!r:.80}, expected 1 to {LONGEST_NAME} characters")
    if (
        len(found) > MOST_NAME_BYTES // 4
        and len(found.encode("utf-8", "replace")) > MOST_NAME_BYTES
    ):
        raise ValueError(f"{field}: found {found!r:.80}, expected at most {MOST_NAME_BYTES} bytes")
    if not found.isprintable():  # neither control characters nor lone surrogates
        raise ValueError(f"{field}: found {found!r:.80}, expected printable characters only")


def need_trace(found: str) -> None:
    """`ValueError` unless this is a short line, as the context of a trace is."""
    need_text("trace", found)
    if len(found) > LONGEST_TRACE or not found.isprintable():
        raise ValueError(f"trace: found {found!r:.80}, expected a trace's context")


def need_tags(found: tuple[str, ...]) -> None:
    """`ValueError` unless these are a few words, each once."""
    if type(found) is not tuple or len(found) > MOST_TAGS:
        raise ValueError(f"tags: found {found!r:.80}, expected a tuple of at most {MOST_TAGS}")
    for tag in found:
        need_name("tags", tag)
    if len(set(found)) < len(found):
        raise ValueError(f"tags: found {found!r:.80}, expected each only once")


def need_time(field: str, found: datetime) -> None:
    """`ValueError`, naming the field, unless this is a moment that every store can keep."""
    if not isinstance(found, datetime):
        raise ValueError(f"{field}: found {found!r:.80}, expected a datetime")  # noqa: TRY004
    if found.tzinfo is None:
        raise ValueError(f"{field} needs a time zone")
    if not 1 < found.year < LAST_YEAR:
        raise ValueError(f"{field}: found the year {found.year}, expected 2 to {LAST_YEAR - 1}")


def need_text(field: str, found: str) -> None:
    """`ValueError`, naming the field, unless this is text that the store may be asked to keep."""
    if not isinstance(found, str):
        raise ValueError(f"{field}: found {found!r:.80}, expected text")  # noqa: TRY004
    if "\0" in found:
        raise ValueError(f"{field}: found a NUL character, which PostgreSQL cannot keep")
    if len(found) > LARGEST_TEXT:
        raise ValueError(
            f"{field}: {len(found):,} characters, expected at most {LARGEST_TEXT:,}; keep large"
            " content elsewhere and pass its address"
        )


def need_lease(seconds: float) -> None:
    """`ValueError` where a lease would last no time, or for ever."""
    need_span("lease_seconds", seconds)
    if seconds < SHORTEST_LEASE_SECONDS:
        least = SHORTEST_LEASE_SECONDS
        raise ValueError(f"lease_seconds: found {seconds!r}, expected at least {least}")


def _are_spans(one: float, two: float, three: float) -> bool:
    """A quick look, for what is made by the thousand."""
    most = LONGEST_WAIT_SECONDS
    try:
        return 0 <= one <= most and 0 <= two <= most and 0 <= three <= most
    except TypeError:
        return False


def need_spans(value: object, *fields: str) -> None:
    """`need_span` for those of these fields that are given."""
    for field in fields:
        found = getattr(value, field)
        if found is not None:
            need_span(field, found)


def need_span(field: str, found: object) -> None:
    """`ValueError`, naming the field, unless this is a span of time."""
    good = isinstance(found, int | float) and 0 <= found <= LONGEST_WAIT_SECONDS
    if not good:
        most = f"{LONGEST_WAIT_SECONDS:,.0f}"
        raise ValueError(f"{field}: found {found!r:.80}, expected seconds from 0 to {most}")


def _need(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _need_zone(value: object, *names: str) -> None:
    for name in names:
        time = getattr(value, name)
        _need(time is None or time.tzinfo is not None, f"{name} needs a time zone")
