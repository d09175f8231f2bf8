"""Dead letters on pages: what failed alike, put together; sending it again, mending it, dismissing
it.

What may be sent again is said first: a form leads to a page that tells what would happen, and only
its button does it. A form that is refused comes back as it was filled in, with what is wrong.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from seawall.errors import ArgumentsError, SeawallError, StoreError
from seawall.faults import FaultCode
from seawall.redact import one_line, redacted
from seawall.redriving import CANARY_SECONDS, Redriven
from seawall.store import DeadLetter, LetterGroup, LetterGroups, LetterPage, Trend
from seawall.web.access import Visitor
from seawall.web.doing.jobs import in_a_list, parsed
from seawall.web.doing.letters import decided, need_mine
from seawall.web.house import House, house_of
from seawall.web.letter_models import MOST_NAMED
from seawall.web.models import in_print
from seawall.web.pages import filters
from seawall.web.pages.people import Form, Sent, SentByOperator, Viewer
from seawall.web.pages.site import done, looked_at, page, tried
from seawall.web.pages.stages import stage_name, stage_names
from seawall.web.pages.wording import many
from seawall.web.parameters import JobId
from seawall.web.problems import ProblemError

router = APIRouter(include_in_schema=False)

MOST_GROUPS = 30
ON_A_PAGE = 50
MOST_CANARIES = 100
LONGEST_CANARY_SECONDS = 600.0
NOTHING_NAMED = "Nothing was named: say which dead letters are meant."
_REDRIVE_FIELDS = ("canary", "canary_seconds", "rate", "from_start")


# --- looking --------------------------------------------------------------------------------------


@router.get("/dead")
async def show_groups(request: Request, visitor: Viewer) -> Response:
    """What failed, put together by what it has in common."""
    house = house_of(request)
    said = filters.said_in(request.query_params, filters.OF_LETTERS)
    groups: LetterGroups | None = None
    trends: dict[str, Trend] = {}
    wrong = ""
    try:
        which = filters.meant(visitor, said, filters.LETTER_STATES)
        look = partial(_groups, house, which, MOST_GROUPS)
        key = ("groups", tuple(sorted(which.items())))
        groups, trends = await looked_at(request, visitor, key, look)
    except (ProblemError, ArgumentsError) as error:
        wrong = filters.in_place(error)
    return await page(
        request,
        visitor,
        "dead.html",
        groups=groups,
        trends=trends,
        nothing_can=wrong,
        looked_for=said,
        states=filters.LETTER_STATES,
        codes=list(FaultCode),
        tasks=sorted(house.app.tasks),
        stages_of=partial(_stages_of, house),
        query=urlencode(said),
    )


def _groups(
    house: House, which: dict[str, Any], limit: int
) -> tuple[LetterGroups, dict[str, Trend]]:
    """The groups that match, and when the letters of each came in the last day."""
    groups = house.app.dead_letter_groups(limit=limit, **which)
    names = [group.fingerprint for group in groups]
    return groups, house.app.dead_letter_trends(names, **which) if names else {}


def _stages_of(house: House, group: LetterGroup) -> list[str]:
    """The names of the stages at which its jobs failed; none where they have but one."""
    return stage_names(house.app.tasks, group.tasks, group.stages)


class Group(NamedTuple):
    """What failed alike, and the first of it."""

    group: LetterGroup | None
    trend: Trend | None
    letters: LetterPage


@router.get("/dead/groups/{fingerprint}")
async def show_group(request: Request, visitor: Viewer, fingerprint: str) -> Response:
    """Everything that failed alike, and what can be done about it."""
    said = filters.said_in(request.query_params, filters.OF_LETTERS)
    after = request.query_params.get("after") or None
    return await _group_page(request, visitor, {**said, "group": fingerprint}, after=after)


async def _group_page(
    request: Request,
    visitor: Visitor,
    said: dict[str, str],
    *,
    after: str | None = None,
    refused: str = "",
    typed: Mapping[str, str] | None = None,
) -> Response:
    house, fingerprint = house_of(request), said["group"]
    found, nothing_can = Group(None, None, LetterPage((), None)), ""
    try:
        which = filters.meant(visitor, said, filters.LETTER_STATES)
        key = ("group", tuple(sorted(which.items())), after)
        look = partial(_group, house, which, after)
        found = await looked_at(request, visitor, key, look)
    except (ProblemError, ArgumentsError) as error:
        nothing_can = filters.in_place(error)
    more = ""
    if found.letters.next is not None:
        rest = {name: value for name, value in said.items() if name != "group"}
        here = f"/dead/groups/{fingerprint}"
        more = f"{here}?{urlencode({**rest, 'after': found.letters.next})}"
    return await page(
        request,
        visitor,
        "group.html",
        refused=refused,
        typed=typed,
        nothing_can=nothing_can,
        fingerprint=fingerprint,
        looked_for=said,
        more=more,
        stages_of=partial(_stages_of, house),
        canary_seconds=CANARY_SECONDS,
        **found._asdict(),
    )


def _group(house: House, which: dict[str, Any], after: str | None) -> Group:
    groups, trends = _groups(house, which, 1)
    letters = in_a_list(partial(house.app.dead_letters, limit=ON_A_PAGE, **which), after=after)
    return Group(next(iter(groups), None), trends.get(which["group"]), letters)


class Mendable(NamedTuple):
    """One letter, and what of its job's arguments can be shown for editing."""

    letter: DeadLetter
    arguments: Any
    editable: str
    of: str
    """What stands for that text, so that it is known whether it was edited."""
    hidden: list[str]
    """Arguments with something in them that looks like a secret: they stay as they are."""


@router.get("/dead/letters/{job_id:int}")
async def show_letter(request: Request, visitor: Viewer, job_id: JobId) -> Response:
    """One letter: edit what its job was given, send it again, dismiss it."""
    return await _letter_page(request, visitor, job_id)


async def _letter_page(
    request: Request,
    visitor: Visitor,
    job_id: int,
    *,
    refused: str = "",
    typed: Mapping[str, str] | None = None,
) -> Response:
    house = house_of(request)
    key, look = ("letter", job_id, visitor.only), partial(_mendable, house, visitor, job_id)
    found = await looked_at(request, visitor, key, look)
    return await page(
        request, visitor, "letter.html", refused=refused, typed=typed, asks=True, **found._asdict()
    )


def _mendable(house: House, visitor: Visitor, job_id: int) -> Mendable:
    need_mine(house, visitor, [job_id])
    letter = house.app.dead_letter(job_id)
    given = parsed(house.store.arguments(job_id))
    shown = redacted(given)
    by_name = given if isinstance(given, dict) else {}
    clean = {name: each for name, each in by_name.items() if redacted(each, name) == each}
    editable = json.dumps(clean, ensure_ascii=False, indent=2)
    return Mendable(
        letter=letter,
        arguments=shown,
        editable=editable,
        of=_mark(editable),
        hidden=[one_line(name) for name in by_name if name not in clean],
    )


def _mark(text: str) -> str:
    """What stands for a text, however a browser ends its lines."""
    plain = text.replace("\r\n", "\n").strip()
    return hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:32]


# --- sending again --------------------------------------------------------------------------------


@router.post("/dead/letters/{job_id:int}/redrive")
async def redrive_one(request: Request, form: SentByOperator, job_id: JobId) -> Response:
    """Send one again, with other arguments where some are given."""
    house = house_of(request)
    how: dict[str, Any] = {"by": form.visitor.name, "from_start": form.is_set("from_start")}
    try:
        if (edit := _edit(form)) is not None:
            how["edit"] = edit
        _need_sent(await house.slow.ask(house.app.redrive, job_id, **how))
    except (ProblemError, SeawallError) as error:
        if isinstance(error, StoreError):
            raise
        if not form.is_set("arguments"):
            return done(request, f"/jobs/{job_id}", _line(error), well=False)
        typed = {name: form.get(name) for name in ("arguments", "from_start")}
        return await _letter_page(request, form.visitor, job_id, refused=_line(error), typed=typed)
    as_edited = " as you edited it" if edit else ""
    return done(request, f"/jobs/{job_id}", f"Job {job_id} was redriven{as_edited}.")


def _need_sent(found: Redriven) -> None:
    if found.refused:
        raise ProblemError(409, f"It was not redriven: {found.refusals[0].reason}.")


def _line(error: ProblemError | SeawallError) -> str:
    """What a person is told of it; what is not there, or too much, is a page of its own."""
    if isinstance(error, ProblemError):
        if error.status in (403, 404, 503):
            raise error
        return error.detail
    return one_line(str(error))


def _edit(form: Form) -> dict[str, Any] | None:
    text = form.one("arguments")
    if not text or _mark(text) == form.one("of"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProblemError(422, f"The arguments are no JSON: {one_line(str(error))}") from None
    if not isinstance(found, dict):
        raise ProblemError(422, 'The arguments: expected a JSON object, such as {"path": "b.pdf"}')
    return found


@router.post("/dead/redrive")
async def redrive(request: Request, form: SentByOperator) -> Response:
    """Say what sending all that match again would come to; told to, do it."""
    house = house_of(request)
    said = filters.said_in(form, filters.OF_LETTERS)
    back = f"/dead/groups/{said['group']}" if "group" in said else f"/dead?{urlencode(said)}"
    ready = form.is_set("really")
    try:
        which, how = _letters_meant(form), _how(form)
        threads = house.canaries if ready and "canary" in how else house.slow
        found = await threads.ask(
            house.app.redrive, by=form.visitor.name, dry_run=not ready, **which, **how
        )
    except (ArgumentsError, ProblemError) as error:
        line = _line(error)
        if "group" not in said:
            return done(request, "/dead", line, well=False)
        typed = {name: form.get(name) for name in _REDRIVE_FIELDS}
        return await _group_page(request, form.visitor, said, refused=line, typed=typed)
    if ready:
        return done(request, back, _told(found), well=found.ok, changed=bool(found.sent))
    return await page(
        request,
        form.visitor,
        "redrive.html",
        found=found,
        back=back,
        aim=said,
        how=how,
        stage_name=partial(stage_name, house.app.tasks),
        asks=True,
    )


def _how(form: Form) -> dict[str, Any]:
    how: dict[str, Any] = {"from_start": form.is_set("from_start")}
    canary, rate = form.number("canary"), form.number("rate")
    if canary:
        if not (canary.is_integer() and 1 <= canary <= MOST_CANARIES):
            line = f"Canary: found {form.one('canary')!r:.40}, expected 1 to {MOST_CANARIES}."
            raise ProblemError(422, line)
        seconds = form.number("canary_seconds") or CANARY_SECONDS
        if not 1 <= seconds <= LONGEST_CANARY_SECONDS:
            most = f"{LONGEST_CANARY_SECONDS:g}"
            line = f"How long canaries may take: found {seconds:g}, expected 1 to {most} seconds."
            raise ProblemError(422, line)
        how |= {"canary": int(canary), "canary_seconds": seconds}
    if rate is not None:
        if not 1e-6 <= rate <= 1e9:
            line = f"At most so many a second: found {form.one('rate')!r:.40}, expected above 0."
            raise ProblemError(422, line)
        how["rate"] = rate
    return how


def _told(found: Redriven) -> str:
    line = f"{many(found.sent, 'job')} redriven."
    if found.canary and found.canary != "succeeded":
        sent = f"{many(found.sent, 'job')} sent, {found.held_back:,} held back"
        line = f"The canary {found.canary}: {sent}."
    if found.refused:
        line += f" {found.refused:,} refused: {found.refusals[0].reason}"
    return line


# --- dismissing -----------------------------------------------------------------------------------


class Aim(NamedTuple):
    """Which letters somebody means: by the numbers of their jobs, or all that match."""

    jobs: list[int]
    which: dict[str, Any]

    @property
    def back(self) -> str:
        """Where what was done about them is seen."""
        return f"/jobs/{self.jobs[0]}" if self.jobs else "/dead"


def _aim(form: Form) -> Aim:
    """What a form means; 422 where it names nothing: nobody means all by saying nothing."""
    jobs = [filters.number("Job", each.strip()) for each in form.every("job")]
    if len(jobs) > MOST_NAMED:
        raise ProblemError(422, f"At most {MOST_NAMED} at once can be named by their numbers.")
    if jobs:
        return Aim(jobs, {})
    return Aim([], _letters_meant(form))


def _letters_meant(form: Form) -> dict[str, Any]:
    said = filters.said_in(form, filters.OF_LETTERS)
    if not said.keys() - {"state"}:
        raise ProblemError(422, NOTHING_NAMED)
    return filters.meant(form.visitor, said, filters.LETTER_STATES)


@router.post("/dead/dismiss")
async def dismiss(request: Request, form: Sent) -> Response:
    """Take letters for dealt with, by number or all of a group, and keep why."""
    house, visitor = house_of(request), form.visitor
    try:
        aim = _aim(form)
    except ProblemError as error:
        return done(request, "/dead", error.detail, well=False)
    if not form.is_set("note"):
        return done(
            request, aim.back, "Say why: a note is kept with what is dismissed.", well=False
        )
    act = partial(house.app.dismiss, note=in_print(form.one("note")), by=visitor.name)
    meant = decided(house, visitor, aim, act)
    return await tried(
        request, aim.back, meant, lambda found: f"{many(found.done, 'dead letter')} dismissed."
    )


@router.post("/dead/undismiss")
async def undismiss(request: Request, form: Sent) -> Response:
    """Open letters again that were dismissed."""
    house = house_of(request)
    try:
        aim = _aim(form)
    except ProblemError as error:
        return done(request, "/dead", error.detail, well=False)
    meant = decided(house, form.visitor, aim, house.app.undismiss)
    return await tried(
        request, aim.back, meant, lambda found: f"{many(found.done, 'dead letter')} opened again."
    )
