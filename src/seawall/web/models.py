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
from seawall.store import Scope
from seawall.timeline import EVENTS

T = TypeVar("T")

MOST_LISTED = 200
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


class JobPage(Page[JobShown]):
    """A part of a list of jobs."""

    whole: bool = Field(
        default=True,
        description="False where it looked only so far: there may be more behind `next`, even"
        " where this part is empty.",
    )


class JobDetail(JobShown):
    parent: int | None = Field(
        description="The job whose handler asked for it, where that is yours."
    )
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
    event: str = Field(description=f"One of {', '.join(EVENTS)}.")
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


class JobFilters(Given):
    """Which jobs are meant; what is left out does not matter."""

    state: State | None = None
    task: Name | None = None
    queue: Name | None = None
    owner: Name | None = None
    tag: Name | None = None
    key: Name | None = None
    run: Number | None = None
    fault: FaultCode | None = Field(None, description="What went wrong with it last.")
    argument: Name | None = Field(
        None,
        description="Text that its arguments hold, as they are kept and shown; capitals from A to Z"
        " do not matter.",
    )
    created_after: Moment | None = None
    created_before: Moment | None = None

    def said(self) -> dict[str, Any]:
        """What was said, by name."""
        return self.model_dump(include=set(JobFilters.model_fields), exclude_none=True)


class JobsToCancel(JobFilters):
    """Which jobs are cancelled: in so many words, which state they are in."""

    state: Literal["queued", "running", "unfinished"]  # type: ignore[assignment]
    run: Annotated[Number, IsNumber] | None = None

    def said(self) -> dict[str, Any]:
        said = super().said()
        if self.state == "unfinished":
            del said["state"]
        return said


class JobsToRedrive(JobFilters):
    """Which failed jobs are sent again."""

    state: Literal["failed"]  # type: ignore[assignment]
    run: Annotated[Number, IsNumber] | None = None


class CancelAsked(Given):
    which: JobsToCancel
    dry_run: StrictBool = Field(default=False, description="Only count them.")


class CancelledShown(Shown):
    found: int
    cancelled: int
    stopping: int = Field(description="Running ones that were asked to stop.")
    ended: int = Field(description="Those that had ended before it was their turn.")
    whole: bool = Field(description="False where there are more, or may be: ask again.")
    dry_run: bool


class Done(BaseModel):
    """What was asked for was done."""

    job: int
    state: State


# --- upstreams, queues, workers, stats ------------------------------------------------------------


class LimitShown(Shown):
    unit: str = Field(description="`at once`, or what is counted by the minute.")
    most: float
    used: float | None = Field(description="Null where only what is free is known.")
    free_in_seconds: float = Field(description="When one more could begin; 0 is now.")


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
    limits: list[LimitShown]


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


class ResumeAsked(Given):
    spending_cap: Annotated[float, Field(gt=0, le=LARGEST_NUMBER), IsNumber] | None = None
    """What it may cost from now on, in all; None: as much as before."""


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
