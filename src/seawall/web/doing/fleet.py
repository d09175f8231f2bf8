"""Upstreams and queues: what operators decide about them. Who may is for the door to see to."""

from typing import Literal

from seawall.store import Scope
from seawall.web.house import House
from seawall.web.models import in_print
from seawall.web.problems import ProblemError


async def hold(house: House, name: str, seconds: float | None, why: str) -> None:
    """Let no job begin that calls the upstream; those that run go on."""
    await house.threads.ask(house.app.upstreams.hold, name, seconds=seconds, why=in_print(why))


async def force(
    house: House, name: str, to: Literal["open", "closed"], seconds: float | None, why: str
) -> None:
    """Decide in its breaker's place."""
    await house.threads.ask(house.app.upstreams.force, name, to, seconds=seconds, why=in_print(why))


async def let_go(house: House, name: str) -> None:
    """Leave the upstream to its breaker again; 409 where it was not held."""

    def do() -> bool:
        was_held = house.app.upstreams.resume(name)
        return house.store.resume(Scope.UPSTREAM, name) or was_held

    if not await house.threads.ask(do):
        raise ProblemError(409, "the upstream was not held", code="not_held")


async def pause(house: House, name: str, why: str) -> None:
    """Let no job of the queue begin until somebody resumes it; those that run go on."""
    await house.threads.ask(house.app.pause, name, reason=in_print(why))


async def resume(house: House, name: str) -> None:
    """Let the jobs of a paused queue begin again; 409 where it was not paused."""
    if not await house.threads.ask(house.app.resume, name):
        raise ProblemError(409, "the queue was not paused", code="not_held")
