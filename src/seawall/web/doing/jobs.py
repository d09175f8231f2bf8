"""Jobs: which of them are there for whom; sending one again, cancelling one. All for a thread."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

from seawall.errors import ArgumentsError
from seawall.model import Job, need_name
from seawall.retrying import retried
from seawall.states import State
from seawall.web.access import Visitor
from seawall.web.house import House
from seawall.web.problems import ProblemError

T = TypeVar("T")
MOST_AT_ONCE = 50_000
"""Jobs that one request cancels, or sends again."""
_NAMES = ("task", "queue", "owner", "tag", "key", "argument")


def seen(house: House, visitor: Visitor, job_id: int) -> Job:
    """The job, if it is there for this visitor; 404 otherwise."""
    found = house.store.jobs([job_id]).get(job_id)
    if found is None or not visitor.sees(found.owner):
        raise ProblemError(404, f"there is no job {job_id}")
    return found


def are_names(*names: str | None) -> bool:
    """Whether there can be something of these names: what cannot be kept is of nothing."""
    try:
        for name in names:
            if name is not None:
                need_name("name", name)
    except ValueError:
        return False
    return True


def in_a_list(ask: Callable[..., T], **how: Any) -> T:
    """A part of a list; 404 where it has no such place to go on from."""
    try:
        return ask(**how)
    except ArgumentsError as error:
        if how.get("after") is None or not str(error).startswith("after: "):
            raise
        line = "after: there is no such place in this list: begin it anew"
        raise ProblemError(404, line, code="no_such_place") from None


def mine(visitor: Visitor, said: dict[str, Any]) -> dict[str, Any] | None:
    """The filter, for what this visitor sees; None where that is nothing."""
    if not are_names(*(said.get(name) for name in _NAMES)):
        return None
    if visitor.only is None:
        return said
    if said.get("owner", visitor.only) != visitor.only:
        return None
    return {**said, "owner": visitor.only}


def parent_of(house: House, visitor: Visitor, job: Job) -> int | None:
    """Who asked for it; nobody, to a visitor for whom that job is not there."""
    if job.parent is None or visitor.sees_all:
        return job.parent
    found = house.store.jobs([job.parent]).get(job.parent)
    return job.parent if found is not None and visitor.sees(found.owner) else None


def parsed(text: str | None) -> Any:
    """What was kept as JSON; text of another codec as it is."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:  # of another codec
        return text


def sent_again(house: House, visitor: Visitor, job_id: int) -> State:
    """Send a failed job again; 403 where it is not the visitor's, 409 where it makes no sense."""
    job = seen(house, visitor, job_id)
    if not visitor.owns(job.owner):
        raise ProblemError(
            403, f"job {job_id} is not yours: its owner retries it, operators redrive it"
        )
    retried(house.app, job_id, by=visitor.name)
    return State.QUEUED


def stopped(house: House, visitor: Visitor, job_id: int) -> State:
    """Cancel a queued job at once, ask a running one to stop; 409 where it has ended."""
    seen(house, visitor, job_id)
    (change,) = house.store.cancel([job_id])
    if change.state is None:
        raise ProblemError(404, f"there is no job {job_id}")
    if not change.done:
        raise ProblemError(409, f"job {job_id} is {change.state}", code="already_ended")
    return change.state
