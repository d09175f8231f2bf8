"""Dead letters: what failed and waits for somebody; dismissing, and sending again in bulk.

An owner sees and dismisses what is his. To redrive is for operators: it asks no precondition of
the application, as `retry` does.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from seawall.letters import Dismissed
from seawall.web.access import Operator, Reader, Visitor, Writer
from seawall.web.house import House, house_of
from seawall.web.models import (
    DismissAsked,
    DismissedShown,
    LetterGroupsShown,
    LetterShown,
    LettersNamed,
    Page,
    RedriveAsked,
    RedrivenShown,
    WhichLetters,
)
from seawall.web.problems import ProblemError
from seawall.web.routes.jobs import After, JobId, Limit

router = APIRouter(prefix="/api/dead-letters", tags=["dead letters"])


class LettersAsked(WhichLetters):
    """Which dead letters are listed, and where the list begins."""

    after: After = None
    limit: Limit = 50


class GroupsAsked(WhichLetters):
    """Which dead letters are put together."""

    limit: Annotated[int, Query(ge=1, le=100)] = 20


@router.get("")
async def list_letters(
    request: Request, visitor: Reader, asked: Annotated[LettersAsked, Query()]
) -> Page[LetterShown]:
    """What failed and waits for somebody, from the newest."""
    house, said = house_of(request), asked.said()
    after, limit = said.pop("after", None), said.pop("limit")
    which = _mine(visitor, said)
    if which is None:
        return Page(items=[], next=None)
    found = await house.threads.ask(house.app.dead_letters, after=after, limit=limit, **which)
    return Page(items=[LetterShown.model_validate(each) for each in found], next=found.next)


@router.get("/groups")
async def list_groups(
    request: Request, visitor: Reader, asked: Annotated[GroupsAsked, Query()]
) -> LetterGroupsShown:
    """Dead letters by what they have in common, the most numerous groups first."""
    house, said = house_of(request), asked.said()
    limit = said.pop("limit")
    which = _mine(visitor, said)
    if which is None:
        return LetterGroupsShown(groups=[], total=0, letters=0)
    found = await house.threads.ask(house.app.dead_letter_groups, limit=limit, **which)
    return LetterGroupsShown.model_validate(found)


@router.get("/{job_id}")
async def get_letter(request: Request, visitor: Reader, job_id: JobId) -> LetterShown:
    """What a failed job left."""
    house = house_of(request)

    def read() -> LetterShown:
        _need_mine(house, visitor, [job_id])
        return LetterShown.model_validate(house.app.dead_letter(job_id))

    return await house.threads.ask(read)


@router.post("/redrive")
async def redrive(request: Request, visitor: Operator, asked: RedriveAsked) -> RedrivenShown:
    """Send failed jobs again, those named or all that match: a dry run, a canary, a rate."""
    house = house_of(request)
    how: dict[str, Any] = {} if asked.which is None else asked.which.said()
    how |= asked.model_dump(
        include={"dry_run", "canary", "canary_seconds", "rate", "from_start"}, exclude_none=True
    )
    found = await house.slow.ask(house.app.redrive, *asked.jobs, by=visitor.name, **how)
    return RedrivenShown.model_validate(found)


@router.post("/dismiss")
async def dismiss(request: Request, visitor: Writer, asked: DismissAsked) -> DismissedShown:
    """Take dead letters for dealt with, and say why; their jobs stay failed."""
    house = house_of(request)

    def dismissed(which: dict[str, Any]) -> Dismissed:
        return house.app.dismiss(*asked.jobs, note=asked.note, by=visitor.name, **which)

    return await _decided(house, visitor, asked, dismissed)


@router.post("/undismiss")
async def undismiss(request: Request, visitor: Writer, asked: LettersNamed) -> DismissedShown:
    """Open dead letters again that were dismissed."""
    house = house_of(request)

    def undismissed(which: dict[str, Any]) -> Dismissed:
        return house.app.undismiss(*asked.jobs, **which)

    return await _decided(house, visitor, asked, undismissed)


async def _decided(house: House, visitor: Visitor, asked: LettersNamed, act: Any) -> DismissedShown:
    def decide() -> DismissedShown:
        _need_mine(house, visitor, asked.jobs)
        said = {} if asked.which is None else asked.which.said()
        # An owner who names letters by number has been looked at; by filter he means his own.
        which = said if asked.jobs or not said else _mine(visitor, said)
        if which is None:
            return DismissedShown(done=0, refused=0, refusals=[])
        return DismissedShown.model_validate(act(which))

    return await house.slow.ask(decide)


def _mine(visitor: Visitor, said: dict[str, Any]) -> dict[str, Any] | None:
    """The filter, for what this visitor sees; None where that is nothing."""
    if visitor.only is None:
        return said
    if said.get("owner", visitor.only) != visitor.only:
        return None
    return {**said, "owner": visitor.only}


def _need_mine(house: House, visitor: Visitor, job_ids: list[int]) -> None:
    """404 where one of these letters is not there for this visitor."""
    if visitor.sees_all or not job_ids:
        return
    found = house.store.letters_of(job_ids)
    for job_id in job_ids:
        if job_id not in found or not visitor.sees(found[job_id].owner):
            raise ProblemError(404, f"there is no dead letter of a job {job_id}")
