"""Queues as people see them: what waits in each, what runs, what is held, and who serves it; and
the schedules that fill them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from seawall.model import Lane
from seawall.store import Hold, Planned, Scope, Store
from seawall.tasks import Task
from seawall.why import ALIVE_SECONDS

if TYPE_CHECKING:
    from seawall.app import Scheduled


@dataclass(slots=True)
class QueueView:
    """How one queue stands."""

    due: int = 0
    later: int = 0
    running: int = 0
    oldest_due_at: datetime | None = None
    lanes: list[Lane] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    workers: int = 0

    @property
    def paused(self) -> bool:
        """Whether somebody has paused the queue itself."""
        return any(hold.scope is Scope.QUEUE for hold in self.holds)


def queue_views(store: Store, tasks: Mapping[str, Task[..., Any, Any]]) -> dict[str, QueueView]:
    """Every queue in which something waits or runs, or that is held, served or declared."""
    listed: dict[str, QueueView] = {task.queue: QueueView() for task in tasks.values()}
    for row in store.backlog():
        each = listed.setdefault(row.lane.queue, QueueView())
        each.due += row.due
        each.later += row.later
        each.running += row.running
        each.lanes.append(row.lane)
        times = [t for t in (each.oldest_due_at, row.oldest_due_at) if t is not None]
        each.oldest_due_at = min(times, default=None)
    holds = store.holds()
    for hold in holds:
        if hold.scope is Scope.QUEUE:
            listed.setdefault(hold.name, QueueView())
    alive = [each.presence for each in store.workers(within_seconds=ALIVE_SECONDS)]
    working = [each for each in alive if not each.stopping]
    for name in (name for each in working for name in each.queues or ()):
        listed.setdefault(name, QueueView())
    for name, each in listed.items():
        each.holds = [hold for hold in holds if _concerns(hold, name, each.lanes)]
        each.workers = sum(w.queues is None or name in w.queues for w in working)
    return listed


def _concerns(hold: Hold, queue: str, lanes: list[Lane]) -> bool:
    if hold.scope is Scope.QUEUE:
        return hold.name == queue
    return any(
        hold.name == (lane.task if hold.scope is Scope.TASK else lane.upstream) for lane in lanes
    )


def plans_in_force(
    planned: list[Planned], declared: "Mapping[str, Scheduled]"
) -> dict[str, Planned]:
    """By name: the one that the application declares, else the one that fires last."""
    found: dict[str, Planned] = {}
    for each in sorted(planned, key=lambda each: each.next_at):
        known = declared.get(each.name)
        if known is None or known.schedule.spec == each.spec:
            found[each.name] = each
    return found
