"""Runs: which of them are there for whom; pausing, resuming, cancelling one."""

import base64
import binascii
from typing import NamedTuple

from seawall.runs import Run
from seawall.standings import RunView, view_of
from seawall.store import AccessScope
from seawall.web.access import Visitor
from seawall.web.doing.jobs import are_names
from seawall.web.house import House
from seawall.web.models import in_print
from seawall.web.problems import ProblemError
from seawall.web.run_models import RunChanged


class RunsWanted(NamedTuple):
    """Which runs are listed, and where the list begins."""

    pipeline: str | None = None
    name: str | None = None
    unfinished: bool = False
    after: str | None = None
    limit: int = 50


def listed(house: House, visitor: Visitor, asked: RunsWanted) -> tuple[list[RunView], str | None]:
    """The runs that match, and where the list goes on. For a thread."""
    if not are_names(asked.pipeline, asked.name):
        return [], None
    kept = house.store.runs(
        pipeline=asked.pipeline,
        name=asked.name,
        unfinished=asked.unfinished,
        owner=visitor.only,
        before=None if asked.after is None else _place(asked.after),
        limit=asked.limit + 1,
    )
    found = [view_of(house.store, one) for one in kept[: asked.limit]]
    return found, _word(found[-1].id) if len(kept) > asked.limit else None


def _word(run_id: int) -> str:
    return base64.urlsafe_b64encode(f"run {run_id}".encode()).decode().rstrip("=")


def _place(after: str) -> int:
    try:
        text = base64.b64decode(after + "=" * (-len(after) % 4), altchars=b"-_", validate=True)
        word, number = text.decode().split(" ")
        place = int(number)
    except (ValueError, binascii.Error):
        word, place = "", 0
    if word != "run" or not 0 < place < 2**63:
        line = "after: there is no such place in this list: begin it anew"
        raise ProblemError(404, line, code="no_such_place")
    return place


def seen(house: House, visitor: Visitor, run_id: int) -> Run:
    """The run, if it is there for this visitor; 404 otherwise. For a thread."""
    kept = house.store.run(run_id)
    if kept is None or not visitor.sees(kept.owner):
        raise ProblemError(404, f"there is no run {run_id}")
    return Run(house.app, run_id)


async def pause(house: House, visitor: Visitor, run_id: int, why: str) -> RunChanged:
    """Let no more of its items begin; 409 where it was stopped already, or is over."""

    def do() -> RunChanged:
        run = seen(house, visitor, run_id)
        return _changed(run, run.pause(in_print(why)), "it is stopped already, or over")

    return await house.threads.ask(do)


async def resume(house: House, visitor: Visitor, run_id: int, cap: float | None) -> RunChanged:
    """Let a paused or aborted run go on; 409 where it is neither. A cap is for operators to say."""
    if cap is not None and visitor.scope is not AccessScope.OPERATOR:
        raise ProblemError(403, "what a run may cost is for operators to say")

    def do() -> RunChanged:
        run = seen(house, visitor, run_id)
        done = run.resume(spending_cap=cap)
        return _changed(run, done, "it is neither paused nor aborted")

    return await house.threads.ask(do)


async def cancel(house: House, visitor: Visitor, run_id: int, why: str) -> RunChanged:
    """End a run for good: what waits is cancelled, what runs is asked to stop."""

    def do() -> RunChanged:
        run = seen(house, visitor, run_id)
        cancelled = run.cancel(in_print(why))
        return RunChanged(run=run_id, status=run.status, cancelled=cancelled)

    return await house.slow.ask(do)


def _changed(run: Run, done: bool, otherwise: str) -> RunChanged:
    if not done:
        raise ProblemError(409, f"run {run.id}: {otherwise}", code="not_changed")
    return RunChanged(run=run.id, status=run.status)
