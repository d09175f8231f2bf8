"""Dead letters: what failed and waits for somebody; dismissing, and sending again in bulk.

An owner sees and dismisses what is his. To redrive is for operators: it asks no precondition of
the application, as `retry` does.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from seawall.letters import Dismissed
from seawall.redriving import Redriven
from seawall.web.access import Operator, Reader, Visitor, Writer
from seawall.web.house import House, house_of
from seawall.web.letter_models import (
    DismissAsked,
    DismissedShown,
    LetterGroupsShown,
    LetterShown,
    LettersListed,
    RedriveAsked,
    RedrivenShown,
    UndismissAsked,
)
from seawall.web.models import Page, in_print
from seawall.web.problems import ProblemError
from seawall.web.routes.jobs import After, JobId, Limit, are_names, in_a_list

router = APIRouter(prefix="/api/dead-letters", tags=["dead letters"])


class LettersAsked(LettersListed):
    """Which dead letters are listed, and where the list begins."""

    after: After = None
    limit: Limit = 50


class GroupsAsked(LettersListed):
    """Which dead letters are put together."""

    limit: Annotated[int, Query(ge=1, le=100)] = 20


@router.get("", response_model=Page[LetterShown])
async def list_letters(
    request: Request, visitor: Reader, asked: Annotated[LettersAsked, Query()]
) -> Response | Page[LetterShown]:
    """What failed and waits for somebody, from the newest."""
    house, said = house_of(request), asked.said()
    after, limit = said.pop("after", None), said.pop("limit")
    which = mine(visitor, said)
    if which is None:
        return Page(items=[], next=None)

    def look() -> Page[LetterShown]:
        part = partial(house.app.dead_letters, limit=limit, **which)
        found = in_a_list(part, after=after)
        return Page(items=[LetterShown.model_validate(each) for each in found], next=found.next)

    return await house.shared.ask(("letters", after, limit, *which.items()), look)


@router.get("/groups", response_model=LetterGroupsShown)
async def list_groups(
    request: Request, visitor: Reader, asked: Annotated[GroupsAsked, Query()]
) -> Response | LetterGroupsShown:
    """Dead letters by what they have in common, the most numerous groups first."""
    house, said = house_of(request), asked.said()
    limit = said.pop("limit")
    which = mine(visitor, said)
    if which is None:
        return LetterGroupsShown(groups=[], total=0, letters=0)

    def look() -> LetterGroupsShown:
        return LetterGroupsShown.model_validate(house.app.dead_letter_groups(limit=limit, **which))

    return await house.shared.ask(("groups", limit, *which.items()), look)


@router.get("/{job_id:int}")
async def get_letter(request: Request, visitor: Reader, job_id: JobId) -> LetterShown:
    """What a failed job left."""
    house = house_of(request)

    def read() -> LetterShown:
        need_mine(house, visitor, [job_id])
        return LetterShown.model_validate(house.app.dead_letter(job_id))

    return await house.threads.ask(read)


@router.post("/redrive")
async def redrive(request: Request, visitor: Operator, asked: RedriveAsked) -> RedrivenShown:
    """Send failed jobs again, those named or all that match: a dry run, a canary, a rate."""
    house = house_of(request)
    jobs, which = asked.aim()
    if not _are_names(which):
        return RedrivenShown.model_validate(Redriven(found=0, dry_run=asked.dry_run))
    found = await house.slow.ask(house.app.redrive, *jobs, by=visitor.name, **which, **asked.how())
    return RedrivenShown.model_validate(found)


@router.post("/dismiss")
async def dismiss(request: Request, visitor: Writer, asked: DismissAsked) -> DismissedShown:
    """Take dead letters for dealt with, and say why; their jobs stay failed."""
    house = house_of(request)
    by, note = visitor.name, in_print(asked.note)
    return await decided(house, visitor, asked.aim(), partial(house.app.dismiss, note=note, by=by))


@router.post("/undismiss")
async def undismiss(request: Request, visitor: Writer, asked: UndismissAsked) -> DismissedShown:
    """Open dead letters again that were dismissed."""
    house = house_of(request)
    return await decided(house, visitor, asked.aim(), house.app.undismiss)


async def decided(
    house: House,
    visitor: Visitor,
    aim: tuple[list[int], dict[str, Any]],
    act: Callable[..., Dismissed],
) -> DismissedShown:
    """Do it about the letters that are meant, as far as they are this visitor's."""
    jobs, said = aim

    def decide() -> DismissedShown:
        need_mine(house, visitor, jobs)
        # An owner who names letters by number has been looked at; by filter he means his own.
        which = {} if jobs else mine(visitor, said)
        if which is None:
            return DismissedShown(done=0, refused=0, refusals=[])
        return DismissedShown.model_validate(act(*jobs, **which))

    return await house.slow.ask(decide)


def _are_names(said: dict[str, Any]) -> bool:
    return are_names(*(said.get(name) for name in ("group", "task", "queue", "owner")))


def mine(visitor: Visitor, said: dict[str, Any]) -> dict[str, Any] | None:
    """The filter, for what this visitor sees; None where that is nothing."""
    if not _are_names(said):
        return None
    if visitor.only is None:
        return said
    if said.get("owner", visitor.only) != visitor.only:
        return None
    return {**said, "owner": visitor.only}


def need_mine(house: House, visitor: Visitor, job_ids: list[int]) -> None:
    """404 where one of these letters is not there for this visitor."""
    if visitor.sees_all or not job_ids:
        return
    found = house.store.letters_of(job_ids)
    for job_id in job_ids:
        if job_id not in found or not visitor.sees(found[job_id].owner):
            raise ProblemError(404, f"there is no dead letter of a job {job_id}")
