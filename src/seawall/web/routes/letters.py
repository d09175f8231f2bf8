"""Dead letters: what failed and waits for somebody; dismissing, and sending again in bulk.

An owner sees and dismisses what is his. To redrive is for operators: it asks no precondition of
the application, as `retry` does.
"""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from seawall.redriving import Redriven
from seawall.web.access import Operator, Reader, Writer
from seawall.web.doing.jobs import in_a_list
from seawall.web.doing.letters import can_be, decided, mine, need_mine
from seawall.web.house import house_of
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
from seawall.web.parameters import After, JobId, Limit

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
    if not can_be(which):
        return RedrivenShown.model_validate(Redriven(found=0, dry_run=asked.dry_run))
    threads = house.canaries if asked.canary and not asked.dry_run else house.slow
    found = await threads.ask(house.app.redrive, *jobs, by=visitor.name, **which, **asked.how())
    return RedrivenShown.model_validate(found)


@router.post("/dismiss")
async def dismiss(request: Request, visitor: Writer, asked: DismissAsked) -> DismissedShown:
    """Take dead letters for dealt with, and say why; their jobs stay failed."""
    house = house_of(request)
    by, note = visitor.name, in_print(asked.note)
    act = partial(house.app.dismiss, note=note, by=by)
    return DismissedShown.model_validate(await decided(house, visitor, asked.aim(), act))


@router.post("/undismiss")
async def undismiss(request: Request, visitor: Writer, asked: UndismissAsked) -> DismissedShown:
    """Open dead letters again that were dismissed."""
    house = house_of(request)
    found = await decided(house, visitor, asked.aim(), house.app.undismiss)
    return DismissedShown.model_validate(found)
