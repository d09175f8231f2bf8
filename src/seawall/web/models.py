"""What the API gives and takes, as types: from these come its description and its checks.

Values of ours are read by attribute. A fault's message is one redacted line since it was made; a
job's arguments are shown without what looks like a secret, to everybody; what a worker left for
operators (tracebacks, raw output of upstreams) is not shown here at all.
"""

import re
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool

from seawall.faults import FaultCode
from seawall.model import MOST_TAGS, Outcome
from seawall.states import State
from seawall.store import LetterState, Scope

T = TypeVar("T")

MOST_LISTED = 200
MOST_NAMED = 500
LARGEST_NUMBER = 2**53 - 1
"""As far as every program that reads JSON can count."""
LONGEST_REASON = 150
"""However many bytes a sign takes, a reason of so many fits."""


_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]")


def _need_text(found: object) -> object:
    if not (isinstance(found, str) and _MOMENT.match(found)):
        raise ValueError("expected a moment in ISO 8601, such as 2026-11-03T14:00:00Z")
    return found


def _need_number(found: object) -> object:
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise ValueError("expected a number")  # noqa: TRY004 - pydantic tells it
    return found


Name = Annotated[str, Field(min_length=1, max_length=200)]
Word = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[\w.:/@+=#-]+$")]
Number = Annotated[int, Field(ge=1, le=LARGEST_NUMBER)]
IsNumber = BeforeValidator(_need_number)
"""In JSON a number is a number: neither a truth nor text that looks like one."""
Seconds = Annotated[float, Field(ge=0.001, le=31_536_000), IsNumber]
Moment = Annotated[AwareDatetime, BeforeValidator(_need_text)]
"""As text only: a bare number could be seconds, or thousandths of them."""


class Shown(BaseModel):
    """Something of ours, as it is shown."""

    model_config = ConfigDict(from_attributes=True)


class Given(BaseModel):
    """Something that is asked for; what is not known is refused."""

    model_config = ConfigDict(extra="forbid")


class Page(BaseModel, Generic[T]):
    """A part of a list."""

    items: list[T]
    next: str | None = Field(description="Give it as `after` for the next part; null at the end.")


# --- jobs -----------------------------------------------------------------------------------------


class FaultShown(Shown):
    code: FaultCode
    message: str
    status: int | None
    retry_after_seconds: float | None
    request_id: str | None = Field(description="The upstream's own.")
    ambiguous: bool
    detail: str | None
    fingerprint: str


class JobShown(Shown):
    id: int
    task: str
    state: State
    queue: str
    stage: int
    priority: int
    due_at: datetime
    created_at: datetime
    started_at: datetime | None
    last_attempt_at: datetime | None
    finished_at: datetime | None
    deadline_at: datetime | None
    cycle: int = Field(description="How often it was sent again.")
    tries: int = Field(description="Attempts at this stage, in this cycle, that counted.")
    losses: int
    attempts: int = Field(validation_alias="seq", description="Attempts ever made.")
    cancel_requested: bool
    upstream: str | None
    owner: str | None
    key: str | None
    tags: list[str]
    run: int | None
    last_fault: FaultShown | None


class ProgressShown(Shown):
    done: float
    total: float | None
    message: str


class JobDetail(JobShown):
    arguments: Any = Field(description="Without what looks like a secret.")
    progress: ProgressShown | None


class AttemptShown(Shown):
    seq: int
    cycle: int
    stage: int
    worker: str | None = Field(description="For those who see everything.")
    started_at: datetime
    finished_at: datetime
    outcome: Outcome
    counted: bool
    fault: FaultShown | None
    delay_seconds: float | None
    policy: str | None
    config: str | None


class HappeningShown(Shown):
    event: str
    at: datetime | None
    attempt: int | None
    meta: dict[str, Any]


class ResultShown(BaseModel):
    job: int
    state: State
    result: Any = None
    skip_reason: str | None = None
    fault: FaultShown | None = None


class WhyShown(Shown):
    job: int = Field(validation_alias="job_id")
    state: State
    lines: list[str]


class JobAsked(Given):
    """A job to be asked for."""

    task: Name
    arguments: dict[str, Any] = Field(default_factory=dict, description="By name.")
    run_after: Moment | None = Field(None, description="Not before then.")
    deadline: Moment | None = Field(None, description="Failed if not ended by then.")
    tags: list[Word] = Field(default_factory=list, max_length=MOST_TAGS)


class JobTaken(BaseModel):
    job: int
    created: bool = Field(description="False where a job with this key was there: this is it.")


class Done(BaseModel):
    """What was asked for was done."""

    job: int
    state: State


# --- dead letters ---------------------------------------------------------------------------------


class LetterShown(Shown):
    job: int = Field(validation_alias="job_id")
    state: LetterState
    task: str
    queue: str
    stage: int
    upstream: str | None
    owner: str | None
    run: int | None
    fault: FaultShown
    fingerprint: str
    first_at: datetime
    last_at: datetime
    attempts: int
    times: int
    note: str | None
    handled_at: datetime | None
    handled_by: str | None


class LetterGroupShown(Shown):
    fingerprint: str
    count: int
    share: float
    came_back: int
    first_at: datetime
    last_at: datetime
    codes: list[FaultCode]
    stages: list[int]
    tasks: list[str]
    samples: list[LetterShown]


class LetterGroupsShown(Shown):
    groups: list[LetterGroupShown]
    total: int
    letters: int


class LetterFilters(Given):
    """Which dead letters are meant; what is left out does not matter."""

    fault: FaultCode | None = None
    group: Name | None = None
    stage: Annotated[int, Field(ge=0, lt=2**15)] | None = None
    task: Name | None = None
    queue: Name | None = None
    owner: Name | None = None
    run: Number | None = None
    since: Moment | None = None
    until: Moment | None = None

    def said(self) -> dict[str, Any]:
        """What was said, by name."""
        return self.model_dump(exclude_none=True)


class LettersListed(LetterFilters):
    """Which dead letters are listed: the open ones, unless another state is named."""

    state: Literal["open", "redriven", "dismissed", "all"] | None = None


class LettersMeant(LetterFilters):
    """Which dead letters something is done about: in so many words, which state they are in."""

    state: Literal["open", "dismissed"]
    stage: Annotated[int, Field(ge=0, lt=2**15), IsNumber] | None = None
    run: Annotated[Number, IsNumber] | None = None


class ByNumber(Given):
    """Dead letters by the numbers of their jobs."""

    jobs: list[Annotated[Number, IsNumber]] = Field(min_length=1, max_length=MOST_NAMED)

    def aim(self) -> tuple[list[int], dict[str, Any]]:
        return self.jobs, {}


class ByKind(Given):
    """All dead letters that match."""

    which: LettersMeant

    def aim(self) -> tuple[list[int], dict[str, Any]]:
        return [], self.which.said()


class Redriving(Given):
    """How failed jobs are sent again."""

    dry_run: StrictBool = False
    canary: Annotated[int, Field(ge=1, le=100), IsNumber] | None = None
    canary_seconds: Annotated[float, Field(ge=0.01, le=60), IsNumber] = 30.0
    rate: Annotated[float, Field(ge=0.001, le=100_000), IsNumber] | None = None
    from_start: StrictBool = False

    def how(self) -> dict[str, Any]:
        named = set(Redriving.model_fields)
        return self.model_dump(include=named, exclude_none=True)


class RedriveByNumber(ByNumber, Redriving): ...


class RedriveByKind(ByKind, Redriving): ...


class Noted(Given):
    note: Name


class DismissByNumber(ByNumber, Noted): ...


class DismissByKind(ByKind, Noted): ...


class PileShown(Shown):
    state: LetterState
    task: str
    queue: str
    stage: int
    code: FaultCode
    letters: int


class RefusalShown(Shown):
    job: int = Field(validation_alias="job_id")
    reason: str


class RedrivenShown(Shown):
    found: int
    sent: int
    dry_run: bool
    piles: list[PileShown]
    unserved: list[str]
    refused: int
    refusals: list[RefusalShown]
    canaries: list[int]
    canary: str
    held_back: int
    last_due_seconds: float
    ok: bool


class DismissedShown(Shown):
    done: int
    refused: int
    refusals: list[RefusalShown]


# --- upstreams, queues, workers, stats ------------------------------------------------------------


class UpstreamShown(Shown):
    name: str
    phase: str
    forced: str | None
    forced_until: datetime | None
    held_until: datetime | None
    share: float
    reason: str
    waiting: int
    later: int
    running: int
    calls: int
    failures: int
    mean_seconds: float | None
    retries_left: int | None


class HoldAsked(Given):
    seconds: Seconds | None = None
    """None: until somebody resumes it."""
    why: Name = "held by hand"


class ForceAsked(Given):
    to: Literal["open", "closed"]
    seconds: Seconds | None = None
    why: Name = "decided by hand"


class ReasonAsked(Given):
    why: Name = "by hand"


def in_print(text: str) -> str:
    """The text of a person as one line that every store keeps: what cannot be shown is left out."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(shown.split())[:LONGEST_REASON] or "by hand"


class Held(BaseModel):
    name: str
    held: bool


class HoldShown(Shown):
    scope: Scope
    name: str
    reason: str
    since: datetime
    until: datetime | None


class QueueShown(Shown):
    queue: str
    due: int
    later: int
    running: int
    oldest_due_at: datetime | None
    paused: bool
    holds: list[HoldShown]
    workers: int


class WorkerShown(Shown):
    worker: str
    host: str
    pid: int
    version: str
    queues: list[str] | None
    tasks: list[str]
    concurrency: int
    running: int
    stopping: bool
    started_at: datetime
    seen_at: datetime


class StatsShown(Shown):
    at: datetime
    states: dict[State, int]
    due: int
    later: int
    running: int
    oldest_due_at: datetime | None
    open_letters: int
    workers: int
    slots: int
    busy: int


class Health(BaseModel):
    status: Literal["ok"] = "ok"
    version: str
