"""Which jobs are meant, and a part of what was found.

What cannot be looked for is refused when the value is made, with a line that names the field.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from seawall.faults import FaultCode, code_named
from seawall.model import Job, need_name, need_time
from seawall.states import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which jobs are meant; what is None does not matter."""

    state: State | None = None
    task: str | None = None
    queue: str | None = None
    owner: str | None = None
    tag: str | None = None
    key: str | None = None
    run: int | None = None
    fault: FaultCode | None = None
    """What went wrong with it last; a job that was sent again has no last fault."""
    argument: str | None = None
    """Text that its arguments hold, as they are kept and as they are shown.

    Capitals and small letters from A to Z are the same, all other signs are themselves. Arguments
    are kept as JSON, so that within text a quotation mark has a backslash before it. What another
    codec wrote is not looked into. And what is not shown is not found: where something was cut out
    of the arguments because it looks like a secret, the text has to stand in what is left.
    """
    created_after: datetime | None = None
    created_before: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("task", "queue", "owner", "tag", "key", "argument"):
            if (found := getattr(self, name)) is not None:
                need_name(name, found)
        for name in ("created_after", "created_before"):
            if (found := getattr(self, name)) is not None:
                need_time(name, found)
        said: object = self.fault
        if said is not None and not isinstance(said, FaultCode):
            object.__setattr__(self, "fault", code_named(str(said)[:80]))


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list of jobs, and where the next part begins."""

    jobs: tuple[Job, ...]
    next: str | None
    """Give it back as `after`; None where this is the end."""
    whole: bool = True
    """False where it looked only so far: there may be more, and `next` goes on from there."""

    def __iter__(self) -> Iterator[Job]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)


class Ids(NamedTuple):
    """The numbers of jobs that match, a part of them; the rest as in `Page`."""

    ids: tuple[int, ...]
    next: str | None
    whole: bool = True
