"""Doing something about all jobs that match: the count is said first, on a page of its own."""

from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from seawall.finding import Cancelled
from seawall.redriving import Redriven
from seawall.states import State
from seawall.store import AccessScope
from seawall.web.access import Visitor
from seawall.web.house import house_of
from seawall.web.pages.jobs import FILTERS, asked
from seawall.web.pages.people import Sent, Viewer
from seawall.web.pages.site import page, tried
from seawall.web.pages.wording import many
from seawall.web.problems import ProblemError

router = APIRouter(include_in_schema=False)


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
    which = asked(said)
    if visitor.only is not None:
        which["owner"] = visitor.only
    if len(act.states) == 1:
        which.setdefault("state", act.states[0])
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
    said = {name: query[name].strip() for name in FILTERS if query.get(name, "").strip()}
    which = _which(visitor, said, act)
    count = house.app.redrive_all if act.word == "retry" else house.app.cancel_all
    found: Redriven | Cancelled = await house.slow.ask(partial(count, dry_run=True, **which))
    meant = many(found.found, "job") if found.whole else f"{found.found:,} jobs or more"
    return await page(
        request,
        visitor,
        "act.html",
        act=act,
        meant=meant,
        none_meant=not found.found and found.whole,
        said_of=said,
        back=_back(said),
    )


@router.post("/jobs/act")
async def do_act(request: Request, form: Sent) -> Response:
    """Do it about all that match."""
    house, act = house_of(request), _act(form.one("do"))
    said = {name: form.one(name) for name in FILTERS if form.is_set(name)}
    which = _which(form.visitor, said, act)
    if act.word == "retry":
        sent = house.slow.ask(partial(house.app.redrive_all, by=form.visitor.name, **which))
        return await tried(request, _back(said), sent, _sent)
    done = house.slow.ask(partial(house.app.cancel_all, **which))
    return await tried(request, _back(said), done, _cancelled)


def _back(said: dict[str, str]) -> str:
    return f"/jobs?{urlencode(said)}"


def _sent(found: Redriven) -> str:
    refused = f" {found.refused:,} refused: {found.refusals[0].reason}" if found.refused else ""
    return f"{many(found.sent, 'job')} redriven.{refused}"


def _cancelled(found: Cancelled) -> str:
    stopping = f", {found.stopping:,} asked to stop" if found.stopping else ""
    return f"{many(found.cancelled, 'job')} cancelled{stopping}."
