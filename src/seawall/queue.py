"""Asking for jobs: where a request becomes a row, or waits for the end of the attempt that made it.

Three ways lead into the store. The plain one writes at once. A request with the caller's connection
is written in the caller's transaction. And what a handler asks for is kept in memory and written
with the end of its attempt, so that an attempt that lost its lease can ask for nothing.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from seawall.current import is_importing, maybe_current_job
from seawall.errors import ArgumentsError, ConfigurationError, KeyConflictError, SeawallError
from seawall.jobs import JobHandle, plain
from seawall.model import Begin, NewJob
from seawall.store import Enqueued, Taken, aenqueue_beside, enqueue_beside
from seawall.store.values import MOST_ROWS
from seawall.tasks import Request
from seawall.telemetry.span_words import Attr
from seawall.telemetry.tracing import Asking, asking, asking_many

if TYPE_CHECKING:
    from seawall.app import Seawall
    from seawall.tasks import Task

R = TypeVar("R")
G = TypeVar("G")
A = TypeVar("A")


class Queue:
    """The way in."""

    def __init__(self, app: "Seawall") -> None:
        self._app = app

    def ask(self, request: Request[R]) -> JobHandle[R]:
        """Ask for one job."""
        with asking_for(request) as traced:
            answers = self._asked([request], traced.trace)
            traced.of(answers[0].job_id)
            return self._handles([request], answers)[0]

    async def aask(self, request: Request[R]) -> JobHandle[R]:
        """The async twin of `ask`."""
        connection = request.options.connection
        if connection is None:
            return await self._in_a_thread(self.ask, request)
        with asking_for(request) as traced:
            answers = await aenqueue_beside(
                self._app.settings.url,
                connection,
                self._new_jobs([request], traced.trace),
                clock=self._app.given_clock,
                store=lambda: self._app.store,
            )
            traced.of(answers[0].job_id)
            return self._handles([request], answers)[0]

    def begin(self, request: Request[R], begin: Begin | None) -> tuple[JobHandle[R], str | None]:
        """Ask for one job that its caller runs at once or, without `begin`, leaves to workers.

        Answers also in which trace that was.
        """
        _need_no_import()
        with asking_for(request) as traced:
            (new_job,) = self._new_jobs([request], traced.trace)
            if begin is not None:
                new_job = replace(new_job, begin=begin)
            answers = self._app.store.enqueue([new_job])
            traced.of(answers[0].job_id)
            return self._handles([request], answers)[0], new_job.trace

    def ask_many(self, requests: Iterable[Request[R]]) -> list[JobHandle[R]]:
        """Ask for many jobs, in batches."""
        handles: list[JobHandle[R]] = []
        troubles: list[SeawallError] = []
        with asking_many() as traced:
            for batch, answers in self._asked_in_turn(iter(requests), traced.trace):
                handles += self._handles(batch, answers, troubles)
            traced.say({Attr.BATCH: len(handles)})
        if troubles:
            many = f"{len(troubles):,} of {len(handles):,} jobs were not enqueued, the others were"
            raise KeyConflictError(f"{many}; the first: {troubles[0]}")
        return handles

    def _asked_in_turn(
        self, left: Iterator[Request[R]], trace: str | None
    ) -> Iterator[tuple[list[Request[R]], list[Enqueued]]]:
        """Batch by batch; while the store writes a long one, the next is made ready."""
        before: tuple[list[Request[R]], Writing] | None = None
        try:
            while batch := list(islice(left, MOST_ROWS)):
                begin = self._made_ready(batch, trace)
                answers = [] if before is None else before[1].answers()
                done, before = before, (batch, begin())
                if done is not None:
                    yield done[0], answers
            if before is not None:
                yield before[0], before[1].answers()
        finally:
            if before is not None:
                before[1].end()  # nothing is under way any more when this is over

    def _made_ready(self, batch: list[Request[R]], trace: str | None) -> Callable[[], "Writing"]:
        """What begins to write the batch, in a thread where it is long and bound to nothing."""
        bound = maybe_current_job() is not None or self._app.in_transaction
        if bound or len(batch) < MOST_ROWS or any(r.options.connection for r in batch):
            return lambda: Writing(partial(self._asked, trace=trace), batch)
        _need_no_import()
        new_jobs = self._new_jobs(batch, trace)
        return lambda: Writing(self._app.store.enqueue, new_jobs, beside=True)

    async def aask_many(self, requests: Iterable[Request[R]]) -> list[JobHandle[R]]:
        """The async twin of `ask_many`."""
        return await self._in_a_thread(self.ask_many, requests)

    async def _in_a_thread(self, ask: Callable[[G], A], given: G) -> A:
        import asyncio  # noqa: PLC0415 - `import seawall` stays light

        if maybe_current_job() is not None or self._app.in_transaction:
            return ask(given)  # kept in memory, or in this thread's transaction
        return await asyncio.to_thread(ask, given)

    def _asked(self, requests: list[Request[R]], trace: str | None) -> list[Enqueued]:
        app = self._app
        new_jobs = self._new_jobs(requests, trace)
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

    def _new_jobs(self, requests: Iterable[Request[Any]], trace: str | None) -> list[NewJob]:
        """What the store is asked to keep."""
        jobs = []
        for request in requests:
            if not isinstance(request, Request):
                raise ArgumentsError(
                    f"found {request!r:.80}, expected a job: task.job(…), with its arguments"
                )
            if request.task.app is not self._app:
                raise ArgumentsError(f"{request.task.name}: is a task of another application")
            jobs.append(request.new_job())
        return as_asked(jobs, trace)

    def _handles(
        self,
        requests: list[Request[R]],
        answers: list[Enqueued],
        troubles: list[SeawallError] | None = None,
    ) -> list[JobHandle[R]]:
        """What the callers get; trouble is raised, or collected where many were asked for."""
        handles = []
        task: Task[..., R, Any] | None = None
        read: Callable[[str | None], R] = plain
        for request, answer in zip(requests, answers, strict=True):
            created = answer.taken is Taken.CREATED
            trouble = None if created else _trouble(request, answer)
            if trouble is not None:
                if troubles is None:
                    raise trouble
                troubles.append(trouble)
            if request.task is not task:  # mostly it is
                task = request.task
                read = task.read_result
            handles.append(JobHandle(self._app, answer.job_id, read, created=created))
        return handles


class Writing:
    """A batch that is being written, perhaps by a thread."""

    def __init__(
        self, write: Callable[[Any], list[Enqueued]], batch: list[Any], *, beside: bool = False
    ) -> None:
        self._write = write
        self._batch = batch
        self._error: BaseException | None = None
        self._answers: list[Enqueued] = []
        self._thread: threading.Thread | None = None
        if beside:
            self._thread = threading.Thread(target=self._run, name="seawall-enqueue", daemon=True)
            self._thread.start()
        else:
            self._run()

    def _run(self) -> None:
        try:
            self._answers = self._write(self._batch)
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever asks for the answers
            self._error = error

    def end(self) -> None:
        """Wait until it is over, whatever came of it."""
        if self._thread is not None:
            self._thread.join()

    def answers(self) -> list[Enqueued]:
        """What the store answered."""
        self.end()
        if self._error is not None:
            raise self._error
        return self._answers


def as_asked(jobs: list[NewJob], trace: str | None, *, elsewhere: bool = False) -> list[NewJob]:
    """The jobs as part of this trace, and of the job that asks for them, if one does.

    One that runs `elsewhere`, its row in another store, is nobody's parent here.
    """
    current = maybe_current_job()
    if trace is None and current is not None:
        trace = current.trace  # so that a worker that does not trace breaks no trace
    if trace is not None:
        jobs = [job.in_trace(trace) for job in jobs]
    if current is None:
        return jobs
    parent, asked = None if elsewhere else current.id, current.request_id
    return [replace(job, parent=parent, request_id=job.request_id or asked) for job in jobs]


def asking_for(request: Any) -> Asking:
    """One job is asked for, in a trace where anybody traces."""
    if not isinstance(request, Request):
        return Asking()
    options = request.options
    queue = request.task.queue if options.queue is None else options.queue
    return asking(request.task.name, queue, request_id=options.request_id)


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
