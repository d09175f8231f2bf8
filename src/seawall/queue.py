"""Asking for jobs: where a request becomes a row, or waits for the end of the attempt that made it.

Three ways lead into the store. The plain one writes at once. A request with the caller's connection
is written in the caller's transaction. And what a handler asks for is kept in memory and written
with the end of its attempt, so that an attempt that lost its lease can ask for nothing.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from seawall.current import is_importing, maybe_current_job
from seawall.errors import ArgumentsError, ConfigurationError, KeyConflictError, SeawallError
from seawall.jobs import JobHandle
from seawall.model import NewJob
from seawall.store import Enqueued, Taken, aenqueue_beside, enqueue_beside
from seawall.store.values import MOST_ROWS
from seawall.tasks import Request

if TYPE_CHECKING:
    from seawall.app import Seawall

R = TypeVar("R")
G = TypeVar("G")
A = TypeVar("A")


class Queue:
    """The way in."""

    def __init__(self, app: "Seawall") -> None:
        self._app = app

    def ask(self, request: Request[R]) -> JobHandle[R]:
        """Ask for one job."""
        return self._handles([request], self._asked([request]))[0]

    async def aask(self, request: Request[R]) -> JobHandle[R]:
        """The async twin of `ask`."""
        connection = request.options.connection
        if connection is None:
            return await self._in_a_thread(self.ask, request)
        answers = await aenqueue_beside(
            self._app.settings.url,
            connection,
            [self._new_job(request)],
            clock=self._app.given_clock,
            store=lambda: self._app.store,
        )
        return self._handles([request], answers)[0]

    def ask_many(self, requests: Iterable[Request[R]]) -> list[JobHandle[R]]:
        """Ask for many jobs, in batches."""
        left = iter(requests)
        handles: list[JobHandle[R]] = []
        troubles: list[SeawallError] = []
        while batch := list(islice(left, MOST_ROWS)):
            handles += self._handles(batch, self._asked(batch), troubles)
        if troubles:
            many = f"{len(troubles):,} of {len(handles):,} jobs were not enqueued, the others were"
            raise KeyConflictError(f"{many}; the first: {troubles[0]}")
        return handles

    async def aask_many(self, requests: Iterable[Request[R]]) -> list[JobHandle[R]]:
        """The async twin of `ask_many`."""
        return await self._in_a_thread(self.ask_many, requests)

    async def _in_a_thread(self, ask: Callable[[G], A], given: G) -> A:
        import asyncio  # noqa: PLC0415 - `import seawall` stays light

        if maybe_current_job() is not None or self._app.in_transaction:
            return ask(given)  # kept in memory, or in this thread's transaction
        return await asyncio.to_thread(ask, given)

    def _asked(self, requests: list[Request[R]]) -> list[Enqueued]:
        app = self._app
        new_jobs = [self._new_job(request) for request in requests]
        connections = {id(c): c for r in requests if (c := r.options.connection) is not None}
        if not connections:
            current = maybe_current_job()
            if current is None or app.in_transaction:
                _need_no_import()
                return app.store.enqueue(new_jobs)
            current.enqueue(new_jobs)
            return [Enqueued(Taken.CREATED, None)] * len(new_jobs)
        if len(connections) > 1 or any(r.options.connection is None for r in requests):
            raise ArgumentsError("jobs of one batch share one connection, or have none")
        (connection,) = connections.values()
        return enqueue_beside(
            app.settings.url,
            connection,
            new_jobs,
            clock=app.given_clock,
            store=lambda: app.store,
        )

    def _new_job(self, request: Request[Any]) -> NewJob:
        if not isinstance(request, Request):
            raise ArgumentsError(
                f"found {request!r:.80}, expected a job: task.job(…), with its arguments"
            )
        if request.task.app is not self._app:
            raise ArgumentsError(f"{request.task.name}: is a task of another application")
        job = request.new_job()
        current = maybe_current_job()
        if current is not None and current.request_id is not None and job.request_id is None:
            return replace(job, request_id=current.request_id)
        return job

    def _handles(
        self,
        requests: list[Request[R]],
        answers: list[Enqueued],
        troubles: list[SeawallError] | None = None,
    ) -> list[JobHandle[R]]:
        """What the callers get; trouble is raised, or collected where many were asked for."""
        handles = []
        for request, answer in zip(requests, answers, strict=True):
            trouble = _trouble(request, answer)
            if trouble is not None:
                if troubles is None:
                    raise trouble
                troubles.append(trouble)
            read = request.task.signature.read_result
            created = answer.taken is Taken.CREATED
            handles.append(JobHandle(self._app, answer.job_id, read, created=created))
        return handles


def _need_no_import() -> None:
    """A job that a module asks for as it is imported would be asked for again in every child."""
    if is_importing():
        raise ConfigurationError(
            "this module is being imported for an isolated task: put what enqueues under"
            ' `if __name__ == "__main__":`'
        )


def _trouble(request: Request[Any], answer: Enqueued) -> SeawallError | None:
    if answer.taken is Taken.CONFLICT:
        return KeyConflictError(
            f"{request.task.name}: the key {request.options.key!r} is taken by job"
            f" {answer.job_id}, which has other arguments"
        )
    if answer.taken is Taken.REFUSED:
        return ArgumentsError(f"{request.task.name}: {answer.reason}")
    return None
