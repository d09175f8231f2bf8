"""Dead letters on pages: what failed alike, put together; sending it again, mending it, dismissing
it.

What may be sent again is said first: a form leads to a page that tells what would happen, and only
its button does it.
"""

import json
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from seawall.errors import ArgumentsError
from seawall.faults import FaultCode
from seawall.redact import one_line, redacted
from seawall.redriving import Redriven
from seawall.store import DeadLetter, LetterGroups, LetterState, Trend
from seawall.web.access import Visitor
from seawall.web.house import House, house_of
from seawall.web.models import in_print
from seawall.web.pages.people import Form, Sent, SentByOperator, Viewer
from seawall.web.pages.site import done, page, tried
from seawall.web.pages.wording import many
from seawall.web.problems import ProblemError
from seawall.web.routes import jobs as jobs_api
from seawall.web.routes import letters as api
from seawall.web.routes.jobs import JobId

router = APIRouter(include_in_schema=False)

MOST_GROUPS = 30
ON_A_PAGE = 50
CANARY_SECONDS = 20.0
MOST_CANARIES = 100
FILTERS = ("state", "fault", "task", "queue", "owner", "run", "group")


def _said(request: Request) -> dict[str, str]:
    return {
        name: request.query_params[name].strip()
        for name in FILTERS
        if request.query_params.get(name, "").strip()
    }


def which_of(visitor: Visitor, said: dict[str, str]) -> dict[str, Any] | None:
    """The filter as the application takes it; None where there can be nothing for this visitor."""
    found: dict[str, Any] = dict(said)
    if "run" in found:
        if not (found["run"].isdecimal() and len(found["run"]) < 18):
            raise ProblemError(422, "run: expected its number")
        found["run"] = int(found["run"])
    if found.get("fault", "UNKNOWN") not in FaultCode.__members__:
        raise ProblemError(422, f"fault: expected one of {', '.join(FaultCode)}")
    return api.mine(visitor, found)


# --- looking --------------------------------------------------------------------------------------


@router.get("/dead")
async def show_groups(request: Request, visitor: Viewer) -> Response:
    """What failed, put together by what it has in common."""
    house, said = house_of(request), _said(request)
    which = which_of(visitor, said)
    groups: LetterGroups | None = None
    trends: dict[str, Trend] = {}
    if which is not None:
        look = partial(_groups, house, which, MOST_GROUPS)
        key = ("groups", tuple(sorted(which.items())))
        groups, trends = await house.glances.ask(key, look)
    return await page(
        request,
        visitor,
        "dead.html",
        groups=groups,
        trends=trends,
        looked_for=said,
        states=[*LetterState, "all"],
        codes=list(FaultCode),
        tasks=sorted(house.app.tasks),
        query=urlencode(said),
    )


def _groups(
    house: House, which: dict[str, Any], limit: int
) -> tuple[LetterGroups, dict[str, Trend]]:
    """The groups that match, and when the letters of each came in the last day."""
    groups = house.app.dead_letter_groups(limit=limit, **which)
    names = [group.fingerprint for group in groups]
    return groups, house.app.dead_letter_trends(names, **which) if names else {}


@router.get("/dead/groups/{fingerprint}")
async def show_group(request: Request, visitor: Viewer, fingerprint: str) -> Response:
    """Everything that failed alike, and what can be done about it."""
    house = house_of(request)
    said = {**_said(request), "group": fingerprint}
    which = which_of(visitor, said)
    if which is None:
        raise ProblemError(404, "there is no such group")
    after = request.query_params.get("after") or None

    def look() -> tuple[Any, Any]:
        groups = _groups(house, which, 1)
        letters = jobs_api.in_a_list(
            partial(house.app.dead_letters, limit=ON_A_PAGE, **which), after=after
        )
        return groups, letters

    key = ("group", tuple(sorted(which.items())), after)
    (groups, trends), letters = await house.glances.ask(key, look)
    more = ""
    if letters.next is not None:
        more = f"{request.url.path}?{urlencode({**_said(request), 'after': letters.next})}"
    return await page(
        request,
        visitor,
        "group.html",
        fingerprint=fingerprint,
        group=next(iter(groups), None),
        trend=trends.get(fingerprint),
        letters=letters,
        looked_for=said,
        more=more,
    )


class Mendable(NamedTuple):
    """One letter, and what of its job's arguments can be shown for editing."""

    letter: DeadLetter
    arguments: Any
    editable: str
    hidden: list[str]
    """Arguments with something in them that looks like a secret: they stay as they are."""


@router.get("/dead/letters/{job_id:int}")
async def show_letter(request: Request, visitor: Viewer, job_id: JobId) -> Response:
    """One letter: edit what its job was given, send it again, dismiss it."""
    house = house_of(request)
    found = await house.glances.ask(
        ("letter", job_id, visitor.only), partial(_mendable, house, visitor, job_id)
    )
    return await page(request, visitor, "letter.html", **found._asdict())


def _mendable(house: House, visitor: Visitor, job_id: int) -> Mendable:
    api.need_mine(house, visitor, [job_id])
    letter = house.app.dead_letter(job_id)
    given = jobs_api.parsed(house.store.arguments(job_id))
    shown = redacted(given)
    by_name = given if isinstance(given, dict) else {}
    clean = {name: each for name, each in by_name.items() if redacted(each, name) == each}
    return Mendable(
        letter=letter,
        arguments=shown,
        editable=json.dumps(clean, ensure_ascii=False, indent=2),
        hidden=[one_line(name) for name in by_name if name not in clean],
    )


# --- sending again --------------------------------------------------------------------------------


@router.post("/dead/letters/{job_id:int}/redrive")
async def redrive_one(request: Request, form: SentByOperator, job_id: JobId) -> Response:
    """Send one again, with other arguments where some are given."""
    house = house_of(request)
    how: dict[str, Any] = {"by": form.visitor.name, "from_start": form.is_set("from_start")}
    try:
        if (edit := _edit(form)) is not None:
            how["edit"] = edit
    except ProblemError as error:
        return done(request, f"/dead/letters/{job_id}", error.detail, well=False)

    def said(found: Redriven) -> str:
        if found.refused:
            raise ProblemError(409, found.refusals[0].reason)
        return f"Job {job_id} was redriven{', as you edited it' if edit else ''}."

    sent = house.slow.ask(house.app.redrive, job_id, **how)
    return await tried(request, f"/jobs/{job_id}", sent, said)


def _edit(form: Form) -> dict[str, Any] | None:
    text = form.one("arguments")
    if not text or text == form.one("as_it_was"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProblemError(422, f"the arguments are no JSON: {one_line(str(error))}") from None
    if not isinstance(found, dict):
        raise ProblemError(422, 'the arguments: expected a JSON object, such as {"path": "b.pdf"}')
    return found


@router.post("/dead/redrive")
async def redrive(request: Request, form: SentByOperator) -> Response:
    """Say what sending all that match again would come to; told to, do it."""
    house = house_of(request)
    said = {name: form.one(name) for name in FILTERS if form.one(name)}
    which = which_of(form.visitor, said)
    back = f"/dead/groups/{said['group']}" if "group" in said else f"/dead?{urlencode(said)}"
    if not said or which is None:
        return done(request, "/dead", "Nothing was named that could be redriven.", well=False)
    try:
        how = _how(form)
        ready = form.is_set("really")
        found = await house.slow.ask(
            house.app.redrive, by=form.visitor.name, dry_run=not ready, **which, **how
        )
    except (ArgumentsError, ProblemError) as error:
        return done(request, back, one_line(str(error)), well=False)
    if ready:
        return done(request, back, _told(found), well=found.ok)
    return await page(
        request, form.visitor, "redrive.html", found=found, back=back, aim=said, how=how
    )


def _how(form: Form) -> dict[str, Any]:
    how: dict[str, Any] = {"from_start": form.is_set("from_start")}
    canary, rate = form.number("canary"), form.number("rate")
    if canary:
        if not (canary.is_integer() and 1 <= canary <= MOST_CANARIES):
            raise ProblemError(422, f"canary: expected a whole number from 1 to {MOST_CANARIES}")
        how |= {"canary": int(canary), "canary_seconds": CANARY_SECONDS}
    if rate:
        how["rate"] = rate
    return how


def _told(found: Redriven) -> str:
    line = f"{many(found.sent, 'job')} redriven."
    if found.canary and found.canary != "succeeded":
        sent = f"{many(found.sent, 'job')} redriven, {found.held_back:,} held back"
        line = f"The canary {found.canary}: {sent}."
    if found.refused:
        line += f" {found.refused:,} refused: {found.refusals[0].reason}"
    return line


# --- dismissing -----------------------------------------------------------------------------------


@router.post("/dead/dismiss")
async def dismiss(request: Request, form: Sent) -> Response:
    """Take letters for dealt with, by number or all of a group, and keep why."""
    jobs = [int(each) for each in form.every("job") if each.isdecimal()]
    said = {name: form.one(name) for name in FILTERS if form.one(name) and not jobs}
    back = f"/jobs/{jobs[0]}" if jobs else "/dead"
    if not form.is_set("note"):
        return done(request, back, "Say why: a note is kept with what is dismissed.", well=False)
    house, visitor = house_of(request), form.visitor
    act = partial(house.app.dismiss, note=in_print(form.one("note")), by=visitor.name)
    meant = api.decided(house, visitor, (jobs, which_of(visitor, said) or {}), act)
    return await tried(
        request, back, meant, lambda found: f"{many(found.done, 'dead letter')} dismissed."
    )


@router.post("/dead/undismiss")
async def undismiss(request: Request, form: Sent) -> Response:
    """Open letters again that were dismissed."""
    jobs = [int(each) for each in form.every("job") if each.isdecimal()]
    house = house_of(request)
    back = f"/jobs/{jobs[0]}" if jobs else "/dead"
    meant = api.decided(house, form.visitor, (jobs, {}), house.app.undismiss)
    return await tried(
        request, back, meant, lambda found: f"{many(found.done, 'dead letter')} opened again."
    )
