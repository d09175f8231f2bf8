"""Doing something about all jobs that match: the count is said first, on a page of its own.

What is done is done about those that were counted: a form carries which job was the newest then,
and what came later is left alone.
"""

from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from seawall import finding
from seawall.errors import ArgumentsError
from seawall.finding import Cancelled, Count
from seawall.redriving import Redriven
from seawall.states import State
from seawall.store import AccessScope
from seawall.web.access import Visitor
from seawall.web.doing.jobs import MOST_AT_ONCE
from seawall.web.house import House, house_of
from seawall.web.pages import filters
from seawall.web.pages.people import Sent, Viewer
from seawall.web.pages.site import looked_at, page, tried
from seawall.web.pages.wording import many
from seawall.web.problems import ProblemError

router = APIRouter(include_in_schema=False)

AGAIN = " There are more: do it again for the rest."


class Act(NamedTuple):
    """Something that can be done about many jobs."""

    word: str
    verb: str
    done: str
    states: tuple[State, ...]


ACTS = {
    "cancel": Act("cancel", "Cancel", "cancelled", (State.QUEUED, State.RUNNING)),
    "retry": Act("retry", "Redrive", "redriven", (State.FAILED,)),
}


class Meant(NamedTuple):
    """How many jobs are meant, and which was the newest when they were counted."""

    jobs: Count
    newest: int


def _act(word: str) -> Act:
    if word not in ACTS:
        raise ProblemError(404, "there is nothing here")
    return ACTS[word]


def _which(visitor: Visitor, said: dict[str, str], act: Act) -> dict[str, Any]:
    """What is meant, by the filter and what can be done at all; 403 where it is not theirs to do.

    An owner sends failed jobs again one by one, where it is looked at whether they still can be.
    """
    if act.word == "retry" and visitor.scope is not AccessScope.OPERATOR:
        raise ProblemError(403, "only operators redrive many; retry your own one by one")
    if not said:
        raise ProblemError(422, "Say first which jobs are meant: fill in at least one field.")
    which = filters.meant(visitor, said)
    if "state" in which and State(which["state"]) not in act.states:
        raise ProblemError(422, f"a job that is {which['state']} cannot be {act.done}")
    return which


@router.get("/jobs/act")
async def show_act(request: Request, visitor: Viewer) -> Response:
    """How many are meant, and the button that does it."""
    house, query = house_of(request), request.query_params
    act = _act(query.get("do", ""))
    if visitor.scope is AccessScope.READ_ONLY:
        raise ProblemError(403, "this token is read-only")
    said = filters.said_in(query, filters.OF_JOBS)
    which = _which(visitor, said, act)
    key = ("act", act.word, tuple(sorted(which.items())))
    look = partial(_meant, house, act, which)
    meant = await looked_at(request, visitor, key, look, threads=house.slow)
    exact = meant.jobs.exact
    return await page(
        request,
        visitor,
        "act.html",
        act=act,
        meant=many(meant.jobs.jobs, "job") if exact else f"{meant.jobs.jobs:,} jobs or more",
        none_meant=not meant.jobs.jobs and exact,
        newest=meant.newest,
        most=MOST_AT_ONCE,
        said_of=said,
        back=_back(said),
        asks=True,
    )


def _meant(house: House, act: Act, which: dict[str, Any]) -> Meant:
    newest = finding.newest_of(house.store)
    if act.word == "retry":
        return Meant(finding.counted_failed(house.store, which), newest)
    found = finding.cancelled(house.store, which, dry_run=True)
    return Meant(Count(found.found, exact=found.whole), newest)


@router.post("/jobs/act")
async def do_act(request: Request, form: Sent) -> Response:
    """Do it about all that match and were there when they were counted."""
    house, act = house_of(request), _act(form.one("do"))
    said = filters.said_in(form, filters.OF_JOBS)
    which = _which(form.visitor, said, act)
    if not form.is_set("newest"):
        raise ProblemError(422, "Look first at how many are meant: begin on the page of jobs.")
    newest = filters.number("Newest", form.one("newest"))
    back = _back(said)
    try:
        finding.filter_of(which)
    except ArgumentsError as error:
        raise ProblemError(422, filters.in_place(error)) from None
    if act.word == "retry":
        how = {"by": form.visitor.name, **which}
        again = partial(finding.redriven_all, house.app, how, most=MOST_AT_ONCE, newest=newest)
        sent = house.slow.ask(again)
        return await tried(request, back, sent, _sent)
    cancel = partial(finding.cancelled, house.store, which, most=MOST_AT_ONCE, newest=newest)
    done = house.slow.ask(cancel)
    return await tried(request, back, done, _cancelled)


def _back(said: dict[str, str]) -> str:
    return f"/jobs?{urlencode(said)}"


def _sent(found: Redriven) -> str:
    refused = f" {found.refused:,} refused: {found.refusals[0].reason}" if found.refused else ""
    return f"{many(found.sent, 'job')} redriven.{refused}{'' if found.whole else AGAIN}"


def _cancelled(found: Cancelled) -> str:
    stopping = f", {found.stopping:,} asked to stop" if found.stopping else ""
    rest = "" if found.whole else AGAIN
    return f"{many(found.cancelled, 'job')} cancelled{stopping}.{rest}"
