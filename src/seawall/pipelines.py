"""Pipelines: jobs that go through several stages, each with a policy and an upstream of its own.

    @stage(policy="llm-reports", upstream="openai", timeout_seconds=60)
    async def ask(document: str) -> str: ...

    reports = app.pipeline("reports", [fetch, ask, check])
    reports.enqueue("a.pdf")

The first stage takes what the job was asked for with; each later one takes what the stage before it
left, and may also take `item`, which is what the first was given. What a stage leaves is written
before the next begins, so that nothing that was paid for is done twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from seawall.artifacts import recall
from seawall.errors import ArgumentsError
from seawall.feeding import Feed
from seawall.model import Job, Lane
from seawall.runs import Run
from seawall.stages import stage, stages_of
from seawall.standings import Terms
from seawall.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike

    from seawall.app import Seawall
    from seawall.stages import Stage

__all__ = ["Pipeline", "stage"]


class Pipeline(Task[..., Any, Any]):
    """A task with several stages: asked for like any other, and for many items by `run`."""

    def __init__(
        self,
        app: "Seawall",
        name: str,
        given: Sequence[Any],
        *,
        queue: str,
        priority: int,
        home: str,
    ) -> None:
        self._stages: tuple[Stage, ...] = tuple(stages_of(app, name, given, home))
        first = self._stages[0]
        super().__init__(
            app,
            first.function,
            name=name,
            policy=first.policy,
            queue=queue,
            upstream=first.upstream,
            priority=priority,
            timeout_seconds=first.timeout_seconds,
            isolated=first.isolated,
            memory_mib=first.memory_mib,
        )
        self.home = home
        self.config = first.config

    def __repr__(self) -> str:
        return f"<pipeline {self.name}>"

    @property
    def stages(self) -> tuple[Task[..., Any, Any], ...]:
        """What its jobs go through, one after the other."""
        return self._stages

    def lane_at(self, job: Job, stage: int) -> Lane:
        """Where a job of it waits at that stage; `ArgumentsError` where it cannot begin there."""
        if not 0 <= stage < len(self._stages):
            raise ArgumentsError(
                f"{self.name} has no stage {stage}: its stages are 0 to {len(self._stages) - 1}"
            )
        store, there = self.app.store, self._stages[stage]
        before = store.output(job.id, stage - 1) if stage else None
        if stage > job.stage:
            raise ArgumentsError(
                f"job {job.id} has not finished the stage {self._stages[job.stage].name}, so there"
                f" is nothing that {there.name} could begin with"
            )
        upstream = there.upstream
        if not isinstance(upstream, str):
            recalled = None if before is None else recall(before, self.app.artifacts)
            arguments = store.arguments(job.id) or "{}"
            upstream = there.upstream_for(*there.call_of(arguments, recalled))
        owner = job.owner if upstream and self.app.upstreams.of(upstream).limited else None
        lane = self.lane(job.queue, job.priority, upstream, owner, job.run or 0)
        return replace(lane, stage=stage)

    def run(
        self,
        items: "Iterable[Any] | str | PathLike[str]",
        *,
        name: str,
        key: Callable[[Any], str] | None = None,
        failure_budget: float | None = 0.10,
        minimum: int = 1_000,
        complete_at: float = 0.95,
        partial_at: float = 0.50,
        spending_cap: float | None = None,
        owner: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
    ) -> Run:
        """Push many items through: any iterable, or the path of a `.jsonl` or `.csv` file.

        Answers when every item is in the store; workers begin with the first. A run is known by
        its name: called again while it is unfinished, it goes on where it stood, also after a
        crash; a finished one starts anew. `key` tells an item from others (by default its
        place): items that are there already are not asked for again.

        It is aborted when more than `failure_budget` of its items fail, judged from `minimum`
        finished ones on, and sooner for a cause that they all share; None never aborts it. It is
        completed with `complete_at` of its items succeeded, a partial success with `partial_at`.
        `spending_cap` pauses it when the cost that handlers report has reached so much.
        """
        terms = Terms(
            failure_budget=failure_budget,
            minimum=minimum,
            complete_at=complete_at,
            partial_at=partial_at,
            spending_cap=spending_cap,
        )
        feed = Feed(self, key=key, owner=owner, queue=queue, priority=priority)
        return feed.run(items, name=name, terms=terms)
