"""How a worker runs a Django task: with Django's context, signals and connections.

Connections that are too old or broken are closed before and after each task, as Django does for
requests. An async task has a thread of its own for what it asks of Django's synchronous side, and
that thread's connections end with it. Whatever a receiver of a signal raises is logged by Django
and changes nothing.

`task_finished` is sent as a task is done, or once it is written that it has failed for good: an
attempt that will be made again, or that lost its lease, has finished nothing.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast, get_type_hints

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections, reset_queries
from django.tasks import TaskContext
from django.tasks.signals import task_finished, task_started
from django.utils.json import normalize_json

from seawall.current import current_job
from seawall.django import results
from seawall.django.results import Envelope
from seawall.errors import Skip
from seawall.hooks import FaultReport

if TYPE_CHECKING:
    from seawall.django.home import Home
    from seawall.model import Attempt

HOME_OF_ISOLATED = "seawall.django.isolated"
"""Where a process of its own finds what it is to run."""

_FIELDS = get_type_hints(Envelope)
_SIGNATURE = inspect.Signature(
    [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint)
        for name, hint in _FIELDS.items()
    ]
)
"""What a job's handler takes: the fields of the envelope, by name."""

_AT: "ContextVar[Home | None]" = ContextVar("seawall_django_home", default=None)
"""Whose job it is that this code works on."""


def handler(home: "Home", task: Any) -> Callable[..., Any]:
    """The function that workers call for jobs of the task."""

    def run(**envelope: Any) -> Any:
        return _called(home, task, cast("Envelope", envelope))

    async def arun(**envelope: Any) -> Any:
        return await _awaited(home, task, cast("Envelope", envelope))

    # In a test it runs in the test's own thread, whose transaction it has to see.
    made = arun if inspect.iscoroutinefunction(task.func) and not home.inline else run
    made.__name__ = made.__qualname__ = task.name
    made.__doc__ = task.func.__doc__
    made.__module__ = HOME_OF_ISOLATED
    vars(made)["__signature__"] = _SIGNATURE
    made.__annotations__ = dict(_FIELDS)
    return made


def runs_at(home: "Home") -> bool:
    """Whether this code works on a job of that backend."""
    return _AT.get() is home


@contextmanager
def _at(home: "Home") -> Iterator[None]:
    token = _AT.set(home)
    try:
        yield
    finally:
        _AT.reset(token)


def _called(home: "Home", task: Any, envelope: Envelope) -> Any:
    with _at(home), _tidy_connections(home):
        result = _begun(home, envelope)
        task_started.send_robust(sender=home.kind, task_result=result)
        try:
            value = normalize_json(task.call(*_first(task, result), *result.args, **result.kwargs))
        except Skip:
            _finished(home, result, None)
            raise
        _finished(home, result, value)
        return value


async def _awaited(home: "Home", task: Any, envelope: Envelope) -> Any:
    with _at(home):
        async with ThreadSensitiveContext():
            try:
                result = await sync_to_async(_begun)(home, envelope)
                await task_started.asend_robust(sender=home.kind, task_result=result)
                try:
                    given = (*_first(task, result), *result.args)
                    value = normalize_json(await task.func(*given, **result.kwargs))
                except Skip:
                    await sync_to_async(_finished)(home, result, None)
                    raise
                await sync_to_async(_finished)(home, result, value)
                return value
            finally:
                await sync_to_async(connections.close_all)()


def _begun(home: "Home", envelope: Envelope) -> Any:
    """The result as the attempt begins; what came before is asked for only where there was some."""
    current = current_job()
    earlier: list[Attempt] = []
    if current.seq > 1:
        earlier = home.app.store.attempts(current.id)[: current.seq - 1]
    return results.under_way(envelope, current, earlier)


def _first(task: Any, result: Any) -> tuple[Any, ...]:
    return (TaskContext(task_result=result),) if task.takes_context else ()


def _finished(home: "Home", result: Any, value: Any) -> None:
    """Say so, unless the worker has given the attempt up: then it has ended otherwise."""
    if not current_job().cancel_requested:
        results.succeeded(result, value)
        task_finished.send_robust(sender=home.kind, task_result=result)


@contextmanager
def _tidy_connections(home: "Home") -> Iterator[None]:
    """Around a task; a test's own connection is in a transaction that it still needs."""
    if home.inline:
        yield
        return
    reset_queries()
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


# --- failing --------------------------------------------------------------------------------------


def tell_of_failures(home: "Home") -> None:
    """Have `task_finished` sent for jobs that have failed for good, once that is written."""

    @home.app.on_failed
    def task_failed(report: FaultReport) -> None:
        _send_failed(home, report)


def _send_failed(home: "Home", report: FaultReport) -> None:
    store = home.app.store
    job = store.jobs([report.job_id]).get(report.job_id)
    envelope = results.opened(store.arguments(report.job_id))
    if job is None or envelope is None:
        return  # it is gone by now, or none of Django's
    result = results.of_job(store, job, envelope)
    with _tidy_connections(home):
        if not result.is_finished:  # somebody has sent it again meanwhile
            results.failed(result, report.fault, report.error)
        if report.error is None:
            task_finished.send_robust(sender=home.kind, task_result=result)
            return
        try:
            raise report.error  # noqa: TRY301 - Django's own receiver logs what is being handled
        except BaseException:  # noqa: BLE001 - whatever the task raised
            task_finished.send_robust(sender=home.kind, task_result=result)
