"""Feeding a run: items become jobs, each once, however often the same call is made.

An item that cannot be taken is written down all the same: it ends as a dead letter of its own.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from seawall.arguments import CODEC
from seawall.errors import (
    ArgumentsError,
    KeyConflictError,
    SeawallError,
)
from seawall.items import Unreadable, as_arguments, items_of
from seawall.model import Lane, NewJob, need_name
from seawall.redact import one_line
from seawall.runs import Run
from seawall.standings import Terms, revised
from seawall.store import NewRun, RunStop, Taken
from seawall.store.values import MOST_ROWS
from seawall.telemetry.span_words import Attr
from seawall.telemetry.tracing import asking_many

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike

    from seawall.tasks import Task


class Feed:
    """Puts the items of a run into the store, as often as it takes."""

    def __init__(
        self,
        pipeline: "Task[..., Any, Any]",
        *,
        key: Callable[[Any], str] | None,
        owner: str | None,
        queue: str | None,
        priority: int | None,
    ) -> None:
        self._pipeline = pipeline
        self._app = pipeline.app
        self._key = key
        self._owner = owner
        self._queue = queue
        self._priority = priority
        self._run_id = 0
        self._trace: str | None = None
        self._lanes: dict[str, Lane] = {}

    def run(self, items: "Iterable[Any] | str | PathLike[str]", *, name: str, terms: Terms) -> Run:
        """Begin the run, or go on with it; write every item that is not there; seal it."""
        found = items_of(items)
        self._run_id = self._begun(name, terms)
        with asking_many(run=self._run_id) as traced:
            self._trace = traced.trace
            traced.say({Attr.BATCH: self._fed(found, name)})
        return Run(self._app, self._run_id)

    def _fed(self, items: Iterator[Any], name: str) -> int:
        """Write every item that is not there, and seal the run; how many there are."""
        store = self._app.store
        conflicts, first, count = 0, "", 0
        left = self._jobs(items)
        while batch := list(islice(left, MOST_ROWS)):
            count += len(batch)
            for job, answer in zip(batch, store.enqueue(batch), strict=True):
                if answer.taken is Taken.CONFLICT:
                    conflicts += 1
                    first = first or f"{job.key!r} is job {answer.job_id}, of another content"
                elif answer.taken is Taken.REFUSED:
                    raise SeawallError(f"run {name}: {answer.reason}")
            if self._was_cancelled():
                Run(self._app, self._run_id).cancel()  # what it did not know of yet
                break
        store.seal_run(self._run_id)
        if conflicts:
            raise KeyConflictError(
                f"run {name}: {conflicts:,} items were left out, because another has their"
                f" key; the first: {first}; give items keys that differ: key=…"
            )
        return count

    def _was_cancelled(self) -> bool:
        kept = self._app.store.run(self._run_id)
        return kept is not None and kept.stop is RunStop.CANCELLED

    def _begun(self, name: str, terms: Terms) -> int:
        names = tuple(stage.name for stage in self._pipeline.stages)
        store = self._app.store
        try:
            new = NewRun(
                pipeline=self._pipeline.name, name=name, stages=names, terms=terms.text(),
                owner=self._owner,
            )  # fmt: skip
        except ValueError as error:
            raise ArgumentsError(f"{self._pipeline.name}: {error}") from None
        run_id, created = store.start_run(new)
        kept = store.run(run_id)
        if created or kept is None:
            return run_id
        if kept.stages != names:
            raise SeawallError(
                f"run {name} was begun with the stages {', '.join(kept.stages)}, and now there are"
                f" {', '.join(names)}: finish it with the code that began it, or cancel it"
                f" (seawall run {run_id} cancel), or give this one another name"
            )
        revised(store, kept, terms)
        return run_id

    def _jobs(self, items: Iterator[Any]) -> Iterator[NewJob]:
        for place, given in enumerate(items, 1):
            key, item = self._keyed(given, place)
            arguments, upstream = self._arguments(item)
            lane = self._lanes.get(upstream)
            if lane is None:
                lane = self._lanes[upstream] = self._lane(upstream)
            yield NewJob(
                lane=lane,
                arguments=arguments,
                codec=CODEC,
                key=key,
                owner=self._owner,
                run=self._run_id,
                trace=self._trace,
            )

    def _lane(self, upstream: str) -> Lane:
        owner = self._owner if upstream else None
        if owner is not None and not self._app.upstreams.of(upstream).limited:
            owner = None  # only where something is counted do owners take turns
        return self._pipeline.lane(self._queue, self._priority, upstream, owner, self._run_id)

    def _keyed(self, item: Any, place: int) -> tuple[str, Any]:
        """What tells the item from others, and the item; one that has no key can only fail.

        Where even the first has none, it is `key` that is wrong: no item is taken.
        """
        by_place = f"{self._run_id}#{place}"
        if self._key is None or isinstance(item, Unreadable):
            return by_place, item
        try:
            found = str(self._key(item))
            need_name("key", found)
            key = f"{self._run_id}:{found}"
            need_name("key", key)
        except Exception as error:
            told = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            reason = f"the key of item {place}: {one_line(str(told))}"
            if place == 1:
                raise ArgumentsError(f"{self._pipeline.name}: {reason}") from error
            return by_place, Unreadable(reason, repr(item))
        return key, item

    def _arguments(self, item: Any) -> tuple[str, str]:
        """The item as its first stage takes it, and what that calls.

        One that cannot be taken is written down all the same: it ends as a dead letter of its own.
        """
        if isinstance(item, Unreadable):
            return as_arguments(item), ""
        args, kwargs = self._call(item)
        task = self._pipeline
        try:
            text = task.signature.write(args, kwargs)
            if len(text.encode()) > self._app.settings.payload_bytes:
                most = self._app.settings.payload_bytes
                raise ArgumentsError(f"{len(text.encode()):,} bytes, at most {most:,}")  # noqa: TRY301
            upstream = task.upstream
            if not isinstance(upstream, str):
                upstream = task.upstream_for(args, kwargs)
        except ArgumentsError as error:
            return as_arguments(Unreadable(str(error), repr(item))), ""
        return text, upstream

    def _call(self, item: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if self._takes_one or not isinstance(item, dict):
            return (item,), {}
        return (), {str(name): value for name, value in item.items()}

    @cached_property
    def _takes_one(self) -> bool:
        return len(self._pipeline.signature.parameters) <= 1
