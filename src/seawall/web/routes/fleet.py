"""What operators look after: upstreams, queues, workers, and how it all stands."""

from functools import partial

from fastapi import APIRouter, Request, Response

from seawall.queue_views import queue_views
from seawall.web.access import Operator, Overseer
from seawall.web.doing import fleet as doing
from seawall.web.house import house_of
from seawall.web.models import (
    ForceAsked,
    Held,
    HoldAsked,
    HoldShown,
    QueueShown,
    ReasonAsked,
    StatsShown,
    UpstreamShown,
    WorkerShown,
)
from seawall.web.parameters import ItsName
from seawall.web.stats import stats_of
from seawall.why import ALIVE_SECONDS

router = APIRouter(prefix="/api")


# --- upstreams ------------------------------------------------------------------------------------


@router.get("/upstreams", tags=["upstreams"], response_model=list[UpstreamShown])
async def list_upstreams(request: Request, visitor: Overseer) -> Response:  # noqa: ARG001
    """What tasks call: whether it is well, held or probed, and why."""
    house = house_of(request)

    def look() -> list[UpstreamShown]:
        return [UpstreamShown.model_validate(each) for each in house.app.upstreams.all()]

    return await house.shared.ask("upstreams", look)


@router.post("/upstreams/{name:path}/hold", tags=["upstreams"])
async def hold_upstream(
    request: Request,
    visitor: Operator,  # noqa: ARG001 - that it is one
    name: ItsName,
    asked: HoldAsked | None = None,
) -> Held:
    """Let no job begin that calls it, for a time or until it is resumed; those that run go on."""
    asked = asked or HoldAsked()
    await doing.hold(house_of(request), name, asked.seconds, asked.why)
    return Held(name=name, held=True)


@router.post("/upstreams/{name:path}/resume", tags=["upstreams"])
async def resume_upstream(request: Request, visitor: Operator, name: ItsName) -> Held:  # noqa: ARG001
    """Leave it to its breaker again, and let go what was held; 409 where it was not held."""
    await doing.let_go(house_of(request), name)
    return Held(name=name, held=False)


@router.post("/upstreams/{name:path}/force", tags=["upstreams"])
async def force_upstream(
    request: Request,
    visitor: Operator,  # noqa: ARG001 - that it is one
    name: ItsName,
    asked: ForceAsked,
) -> Held:
    """Decide in its breaker's place: `open` holds it, `closed` calls it whatever happens."""
    await doing.force(house_of(request), name, asked.to, asked.seconds, asked.why)
    return Held(name=name, held=asked.to == "open")


# --- queues ---------------------------------------------------------------------------------------


@router.get("/queues", tags=["queues"], response_model=list[QueueShown])
async def list_queues(request: Request, visitor: Overseer) -> Response:  # noqa: ARG001
    """What waits in each queue, what runs, what is held, and who serves it."""
    house = house_of(request)

    def look() -> list[QueueShown]:
        return [
            QueueShown(
                queue=name,
                due=each.due,
                later=each.later,
                running=each.running,
                oldest_due_at=each.oldest_due_at,
                paused=each.paused,
                holds=[HoldShown.model_validate(hold) for hold in each.holds],
                workers=each.workers,
            )
            for name, each in sorted(queue_views(house.store, house.app.tasks).items())
        ]

    return await house.shared.ask("queues", look)


@router.post("/queues/{name:path}/pause", tags=["queues"])
async def pause_queue(
    request: Request,
    visitor: Operator,  # noqa: ARG001 - that it is one
    name: ItsName,
    asked: ReasonAsked | None = None,
) -> Held:
    """Let no job of the queue begin until somebody resumes it; those that run go on."""
    await doing.pause(house_of(request), name, (asked or ReasonAsked()).why)
    return Held(name=name, held=True)


@router.post("/queues/{name:path}/resume", tags=["queues"])
async def resume_queue(request: Request, visitor: Operator, name: ItsName) -> Held:  # noqa: ARG001
    """Let the jobs of a paused queue begin again; 409 where it was not paused."""
    await doing.resume(house_of(request), name)
    return Held(name=name, held=False)


# --- workers, stats -------------------------------------------------------------------------------


@router.get("/workers", tags=["workers"])
async def list_workers(request: Request, visitor: Overseer) -> list[WorkerShown]:  # noqa: ARG001
    """The living workers: what each serves, and how busy it is."""
    house = house_of(request)
    found = await house.threads.ask(house.store.workers, within_seconds=ALIVE_SECONDS)
    return [
        WorkerShown(
            worker=each.presence.worker,
            host=each.presence.host,
            pid=each.presence.pid,
            version=each.presence.version,
            queues=None if each.presence.queues is None else list(each.presence.queues),
            tasks=list(each.presence.tasks),
            concurrency=each.presence.concurrency,
            running=each.presence.running,
            stopping=each.presence.stopping,
            started_at=each.started_at,
            seen_at=each.seen_at,
        )
        for each in found
    ]


@router.get("/stats", tags=["stats"])
async def get_stats(request: Request, visitor: Overseer) -> StatsShown:  # noqa: ARG001
    """How it all stands, or stood a moment ago: counts by state, what is due, who works."""
    house = house_of(request)
    found = await house.glances.ask("stats", partial(stats_of, house.store))
    return StatsShown.model_validate(found)
