"""Queues as people see them: what waits in each, what runs, what is held, and who serves it; and
the schedules that fill them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from seawall.model import Lane
from seawall.store import Backlog, Hold, Planned, Scope, Store
from seawall.tasks import Task
from seawall.why import ALIVE_SECONDS

if TYPE_CHECKING:
    from seawall.app import Scheduled


@dataclass(slots=True)
class QueueView:
    """How one queue stands."""

    due: int = 0
    stopped: int = 0
    """Of those that are due, items of runs that are paused or aborted: none of them begins."""
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

    @property
    def stopped_runs(self) -> list[str]:
        """The numbers of the runs that are stopped and have items here."""
        return [hold.name for hold in self.holds if hold.scope is Scope.RUN]


def queue_views(
    store: Store,
    tasks: Mapping[str, Task[..., Any, Any]],
    backlog: Sequence[Backlog] | None = None,
) -> dict[str, QueueView]:
    """Every queue in which something waits or runs, or that is held, served or declared.

    Whoever has just counted the backlog need not have it counted again.
    """
    listed: dict[str, QueueView] = {task.queue: QueueView() for task in tasks.values()}
    holds = store.holds()
    stopped = {hold.name for hold in holds if hold.scope is Scope.RUN}
    for row in store.backlog() if backlog is None else backlog:
        each = listed.setdefault(row.lane.queue, QueueView())
        each.due += row.due
        if row.lane.run and str(row.lane.run) in stopped:
            each.stopped += row.due
        each.later += row.later
        each.running += row.running
        each.lanes.append(row.lane)
        times = [t for t in (each.oldest_due_at, row.oldest_due_at) if t is not None]
        each.oldest_due_at = min(times, default=None)
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
    return any(hold.name == _held_by(hold.scope, lane) for lane in lanes)


def _held_by(scope: Scope, lane: Lane) -> str:
    """By what name a hold of this scope would meet the lane."""
    return {
        Scope.QUEUE: lane.queue,
        Scope.TASK: lane.task,
        Scope.UPSTREAM: lane.upstream,
        Scope.RUN: str(lane.run),
    }[scope]


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
