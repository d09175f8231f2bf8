"""Dead letters, as the API gives them, and what can be asked for about them."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StrictBool, Tag

from seawall.faults import FaultCode
from seawall.store import LetterKind, LetterState
from seawall.web.models import (
    FaultShown,
    Given,
    IsNumber,
    JobsToRedrive,
    Moment,
    Name,
    Number,
    Shown,
)

MOST_NAMED = 500


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
    kind: LetterKind = Field(
        description="New: not there a day ago. Came back: sent again, and failed again."
    )
    policies: list[str] = Field(description="That judged the newest of them last.")
    configs: list[str] = Field(description="Of the stages at which the newest of them failed.")


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


class RedriveJobs(Redriving):
    """All failed jobs that match."""

    which: JobsToRedrive


def _aim(asked: object) -> str | None:
    """By what letters are meant, so that a mistake is told of that way and not of both."""
    if not isinstance(asked, dict):
        return None
    return "by_number" if "jobs" in asked else "by_kind" if "which" in asked else None


OneAim = Discriminator(
    _aim,
    custom_error_type="no_aim",
    custom_error_message="say either jobs, a list of numbers, or which, such as {'state': 'open'}",
)

RedriveAsked = Annotated[
    Annotated[RedriveByNumber, Tag("by_number")] | Annotated[RedriveByKind, Tag("by_kind")], OneAim
]


UndismissAsked = Annotated[
    Annotated[ByNumber, Tag("by_number")] | Annotated[ByKind, Tag("by_kind")], OneAim
]


class Noted(Given):
    note: Name


class DismissByNumber(ByNumber, Noted): ...


class DismissByKind(ByKind, Noted): ...


DismissAsked = Annotated[
    Annotated[DismissByNumber, Tag("by_number")] | Annotated[DismissByKind, Tag("by_kind")], OneAim
]


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
    whole: bool = Field(description="False where more match than one redrive sends: ask again.")
    ok: bool


class DismissedShown(Shown):
    done: int
    refused: int
    refusals: list[RefusalShown]
