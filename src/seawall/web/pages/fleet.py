"""Queues, workers and schedules on one page: what waits where, and who serves it."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response

from seawall.app import Seawall
from seawall.queue_views import QueueView, plans_in_force, queue_views
from seawall.store import Backlog, Present, Store
from seawall.web.doing import fleet as doing
from seawall.web.house import House, house_of
from seawall.web.pages.people import SeesAll, SentByOperator
from seawall.web.pages.runs import reason_of
from seawall.web.pages.site import backlog_of, looked_at, page, tried
from seawall.web.parameters import ItsName
from seawall.why import ALIVE_SECONDS
from seawall.worker.upkeep import unserved

router = APIRouter(include_in_schema=False)

MOST_SHOWN = 200
HERE = "/fleet"


class Unserved(NamedTuple):
    """Due jobs that no living worker will take."""

    queue: str
    task: str
    seconds: float
    advice: str


@dataclass(frozen=True, slots=True)
class ScheduleShown:
    """A schedule, when it fires, and what it last did."""

    name: str
    what: str
    next_at: datetime | None
    last_at: datetime | None
    last_job: int | None


class Fleet(NamedTuple):
    """How it stands with whatever waits and works."""

    queues: list[tuple[str, QueueView]]
    more_queues: int
    workers: list[Present]
    more_workers: int
    unserved: list[Unserved]
    schedules: list[ScheduleShown]
    slots: int
    busy: int


@router.get(HERE)
async def show_fleet(request: Request, visitor: SeesAll) -> Response:
    """What waits where, and who serves it."""
    house = house_of(request)
    backlog = await backlog_of(request, visitor)
    found = await looked_at(request, visitor, "fleet", partial(_fleet, house, backlog))
    return await page(request, visitor, "fleet.html", **found._asdict())


def _fleet(house: House, backlog: list[Backlog]) -> Fleet:
    store = house.store
    queues = sorted(queue_views(store, house.app.tasks, backlog).items(), key=_most_urgent)
    workers = store.workers(within_seconds=ALIVE_SECONDS)
    return Fleet(
        queues=queues[:MOST_SHOWN],
        more_queues=max(0, len(queues) - MOST_SHOWN),
        workers=workers[:MOST_SHOWN],
        more_workers=max(0, len(workers) - MOST_SHOWN),
        unserved=[Unserved(*each) for each in unserved(store)][:MOST_SHOWN],
        schedules=_schedules(house.app, store)[:MOST_SHOWN],
        slots=sum(each.presence.concurrency for each in workers),
        busy=sum(each.presence.running for each in workers),
    )


def _most_urgent(item: tuple[str, QueueView]) -> tuple[bool, bool, str]:
    name, queue = item
    return not queue.paused, not (queue.due or queue.running or queue.later), name


def _schedules(app: Seawall, store: Store) -> list[ScheduleShown]:
    plans = plans_in_force(store.planned(), app.schedules)
    found = []
    for name in sorted(plans.keys() | app.schedules.keys()):
        plan, known = plans.get(name), app.schedules.get(name)
        what = "" if plan is None else plan.spec
        if known is not None:
            what = f"{known.request.task.name} {known.schedule.explain()}"
        found.append(
            ScheduleShown(
                name,
                what,
                None if plan is None else plan.next_at,
                None if plan is None else plan.last_at,
                None if plan is None else plan.last_job,
            )
        )
    return found


# --- what people do about it ----------------------------------------------------------------------


@router.post("/fleet/queues/{name:path}/pause")
async def pause(request: Request, form: SentByOperator, name: ItsName) -> Response:
    """Let no job of the queue begin."""
    act = doing.pause(house_of(request), name, reason_of(form))
    return await tried(request, HERE, act, lambda _: f"The queue {name} is paused.")


@router.post("/fleet/queues/{name:path}/resume")
async def resume(
    request: Request,
    form: SentByOperator,  # noqa: ARG001 - that it is one
    name: ItsName,
) -> Response:
    """Let the jobs of a paused queue begin again."""
    act = doing.resume(house_of(request), name)
    return await tried(request, HERE, act, lambda _: f"The queue {name} goes on.")
