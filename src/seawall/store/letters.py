"""Dead letters: what a failed job leaves for people, and how they are asked for.

There is one for each job that has failed. It is written with the failure and stays when the job is
sent again: a job that fails once more opens the same letter, and so it is known that it came back.
What cannot be asked for is refused when the value is made.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from seawall.faults import Fault, FaultCode
from seawall.model import MOST_STAGES, need_name, need_time


class LetterState(StrEnum):
    """Whether a person has to do something about it."""

    OPEN = "open"
    """Its job has failed, and waits for somebody to decide."""
    REDRIVEN = "redriven"
    """Its job was sent again; the letter opens anew if it fails again."""
    DISMISSED = "dismissed"
    """Somebody has decided that nothing is to be done; the job stays failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """What a job that has failed leaves for people."""

    job_id: int
    state: LetterState
    task: str
    queue: str
    stage: int
    """The one at which it failed."""
    upstream: str | None
    owner: str | None
    run: int | None
    fault: Fault
    fingerprint: str
    """The same for all letters of the same trouble."""
    first_at: datetime
    """When the job first failed for good."""
    last_at: datetime
    """When it did so last."""
    attempts: int
    """How many it had had by then, in all."""
    times: int
    """How often it has failed for good: more than once, and it came back after a redrive."""
    note: str | None = None
    handled_at: datetime | None = None
    """When somebody dealt with it, unless it is open."""
    handled_by: str | None = None

    @property
    def code(self) -> FaultCode:
        return self.fault.code


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Which dead letters are meant; what is None does not matter."""

    state: LetterState | None = None
    code: FaultCode | None = None
    fingerprint: str | None = None
    stage: int | None = None
    task: str | None = None
    queue: str | None = None
    owner: str | None = None
    run: int | None = None
    since: datetime | None = None
    """Those that failed last then or later."""
    until: datetime | None = None
    """Those that failed last before then."""

    def __post_init__(self) -> None:
        for name in ("fingerprint", "task", "queue", "owner"):
            if (found := getattr(self, name)) is not None:
                need_name(name, found)
        for name in ("since", "until"):
            if (found := getattr(self, name)) is not None:
                need_time(name, found)
        for name, most in (("stage", MOST_STAGES), ("run", 2**63)):
            found = getattr(self, name)
            good = found is None or (type(found) is int and 0 <= found < most)
            if not good:
                raise ValueError(f"{name}: found {found!r:.80}, expected a whole number from 0 on")


@dataclass(frozen=True, slots=True)
class LetterPage:
    """A part of a list of dead letters, and where the next part begins."""

    letters: tuple[DeadLetter, ...]
    next: str | None
    """Give it back as `after`; None where this is the end."""

    def __iter__(self) -> Iterator[DeadLetter]:
        return iter(self.letters)

    def __len__(self) -> int:
        return len(self.letters)


class Pile(NamedTuple):
    """How many dead letters lie in one place."""

    state: LetterState
    task: str
    queue: str
    stage: int
    code: FaultCode
    letters: int


class LetterKind(StrEnum):
    """What is to be thought of a group, at a glance."""

    NEW = "new"
    """Nothing of it was there a day ago."""
    RECURRING = "recurring"
    """It has been there for longer."""
    CAME_BACK = "came back"
    """Some of it was sent again and has failed again: whatever was mended was not this."""


NEW_FOR = timedelta(days=1)


def kind_of(*, first_at: datetime, came_back: int, now: datetime) -> LetterKind:
    """What a group is that was first seen then, and of which so many have failed before."""
    if came_back:
        return LetterKind.CAME_BACK
    return LetterKind.NEW if now - first_at < NEW_FOR else LetterKind.RECURRING


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterGroup:
    """Dead letters of the same trouble."""

    fingerprint: str
    count: int
    share: float
    """Of all those that were asked for."""
    came_back: int
    """How many of them have failed for good before."""
    first_at: datetime
    last_at: datetime
    codes: tuple[FaultCode, ...]
    stages: tuple[int, ...]
    tasks: tuple[str, ...]
    samples: tuple[DeadLetter, ...]
    """A few of the newest, with different messages as far as there are such."""
    kind: LetterKind
    policies: tuple[str, ...] = ()
    """Names and versions of the policies that judged the newest of them last."""
    configs: tuple[str, ...] = ()
    """What the stages were like at which the newest of them failed; a plain task has none."""


@dataclass(frozen=True, slots=True)
class LetterGroups:
    """The most numerous groups, and how many there are in all."""

    groups: tuple[LetterGroup, ...]
    total: int
    """Of groups."""
    letters: int
    """In all groups together."""

    def __iter__(self) -> Iterator[LetterGroup]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)


class Trend(NamedTuple):
    """When letters of one group came last, counted by equal parts of a span that ends now."""

    since: datetime
    """When the first part begins."""
    part_seconds: float
    counts: tuple[int, ...]
    """The oldest part first."""
    whole: bool
    """False where there were more than are counted: the oldest are left out."""


class Dealt(NamedTuple):
    """A verb's answer for one dead letter that a person named."""

    done: bool
    state: LetterState | None
    """The letter's state now; None where there is no such letter."""
