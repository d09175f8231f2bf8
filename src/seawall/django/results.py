"""Django's `TaskResult`, made of what seawall knows of a job.

A job's arguments are an envelope around those of its task: the result's id, the backend, and when
it was asked for. The id is the job's key as well, so that it is known before the job is written.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict
from uuid import uuid4

from django.conf import settings
from django.tasks import Task, TaskResult, TaskResultStatus
from django.tasks.base import TaskError
from django.tasks.exceptions import InvalidTask, TaskResultMismatch
from django.utils import timezone
from django.utils.module_loading import import_string

from seawall.artifacts import recall
from seawall.current import CurrentJob
from seawall.evidence import traceback_of
from seawall.faults import Fault
from seawall.model import Attempt, Job
from seawall.states import State
from seawall.store.values import MOST_ROWS

if TYPE_CHECKING:
    from seawall.artifacts import Artifacts
    from seawall.django.models import Waiting
    from seawall.store import Store
    from seawall.store.reading import Reading

_STATUS = {
    State.QUEUED: TaskResultStatus.READY,
    State.RUNNING: TaskResultStatus.RUNNING,
    State.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    State.SKIPPED: TaskResultStatus.SUCCESSFUL,
    State.FAILED: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}
_NO_EXCEPTION = "seawall.errors.FaultError"
_CANCELLED = "seawall.errors.JobCancelledError"
_REFUSED = "seawall.errors.ArgumentsError"

tasks: dict[str, Any] = {}
"""Every task that this process has met, by its path."""


class Envelope(TypedDict):
    """The arguments of a job."""

    id: str
    backend: str
    enqueued_at: str
    run_after: str | None
    args: list[Any]
    kwargs: dict[str, Any]


def asked(task: Any, args: Sequence[Any], kwargs: dict[str, Any], backend: str) -> Any:
    """The result of a task that is asked for now; `TypeError` where JSON cannot hold it."""
    return TaskResult(
        task=task,
        id=str(uuid4()),
        status=TaskResultStatus.READY,
        enqueued_at=timezone.now(),
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=list(args),
        kwargs=kwargs,
        backend=backend,
        errors=[],
        worker_ids=[],
    )


def envelope_of(result: Any) -> Envelope:
    """What is kept of it as the arguments of its job."""
    run_after = aware(result.task.run_after)
    return {
        "id": result.id,
        "backend": result.backend,
        "enqueued_at": moment(result.enqueued_at).isoformat(),
        "run_after": None if run_after is None else run_after.isoformat(),
        "args": result.args,
        "kwargs": result.kwargs,
    }


def opened(arguments: str | None) -> Envelope | None:
    """The envelope, if it is one of ours."""
    try:
        found = json.loads(arguments or "null")
    except ValueError:
        return None
    named = isinstance(found, dict) and found.keys() == Envelope.__annotations__.keys()
    return found if named else None


# --- a job's result -------------------------------------------------------------------------------


def of_job(
    store: "Store | Reading", job: Job, envelope: Envelope, artifacts: "Artifacts | None" = None
) -> Any:
    """What Django shows of the job."""
    attempts = store.attempts(job.id, limit=MOST_ROWS)
    result = _result(job.task, envelope, queue=job.queue, priority=job.priority)
    workers = [each.worker for each in attempts]
    if job.lease is not None:
        workers.append(job.lease.worker)
    _set(
        result,
        status=_STATUS[job.state],
        enqueued_at=shown(job.created_at),
        started_at=shown(job.started_at),
        finished_at=shown(job.finished_at),
        last_attempted_at=shown(job.last_attempt_at),
        errors=_errors(store, job, attempts),
        worker_ids=workers,
    )
    if job.state is State.SUCCEEDED:
        text = store.output(job.id, job.stage)
        value = None if text is None else json.loads(recall(text, artifacts))
        _set(result, _return_value=value)
    return result


def of_waiting(row: "Waiting") -> Any:
    """What Django shows of a job that waits for the commit, or for being moved to the store.

    One that the store would not take has failed.
    """
    envelope = json.loads(row.arguments)
    result = _result(row.task, envelope, queue=row.queue, priority=row.priority)
    if row.refused:
        error = TaskError(exception_class_path=_REFUSED, traceback=row.refused)
        _set(result, status=TaskResultStatus.FAILED, finished_at=row.refused_at, errors=[error])
    return result


def under_way(envelope: Envelope, current: CurrentJob, earlier: Sequence[Attempt]) -> Any:
    """What Django shows of the job whose attempt is about to begin."""
    result = _result(current.task, envelope)
    now = timezone.now()
    began = earlier[0].started_at if earlier else None
    _set(
        result,
        status=TaskResultStatus.RUNNING,
        started_at=shown(began) or now,
        last_attempted_at=now,
        errors=[_error(each.fault) for each in earlier if each.fault is not None],
        worker_ids=[*(each.worker for each in earlier), current.worker],
    )
    return result


def succeeded(result: Any, value: Any) -> None:
    """The attempt has ended well."""
    _set(
        result,
        status=TaskResultStatus.SUCCESSFUL,
        finished_at=timezone.now(),
        _return_value=value,
    )


def failed(result: Any, fault: Fault, error: BaseException | None) -> None:
    """The job has failed by this."""
    _set(result, status=TaskResultStatus.FAILED, finished_at=timezone.now())
    result.errors.append(_error(fault, None if error is None else traceback_of(error)))


def _result(
    path: str, envelope: Envelope, queue: str | None = None, priority: int | None = None
) -> Any:
    backend, after = envelope["backend"], envelope["run_after"]
    run_after = None if after is None else shown(datetime.fromisoformat(after))
    task = task_at(path)
    with suppress(InvalidTask):  # a queue that there is no longer: the task as it is declared now
        task = task.using(priority=priority, queue_name=queue, run_after=run_after, backend=backend)
    return TaskResult(
        task=task,
        id=envelope["id"],
        status=TaskResultStatus.READY,
        enqueued_at=shown(datetime.fromisoformat(envelope["enqueued_at"])),
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=envelope["args"],
        kwargs=envelope["kwargs"],
        backend=backend,
        errors=[],
        worker_ids=[],
    )


def task_at(path: str) -> Any:
    """The task of that path; `TaskResultMismatch` where there is none any more."""
    found = tasks.get(path)
    if found is None:
        try:
            found = import_string(path)
        except ImportError:
            found = None
    if not isinstance(found, Task):
        raise TaskResultMismatch(f"the result is of {path}, which is no task (any more)")
    return found


def _errors(store: "Store | Reading", job: Job, attempts: Sequence[Attempt]) -> list[Any]:
    found = []
    for attempt in attempts:
        if attempt.fault is not None:
            evidence = store.evidence(job.id, attempt.seq)
            found.append(_error(attempt.fault, evidence and evidence.traceback))
    if job.state is State.CANCELLED:
        line = f"job {job.id} was cancelled"
        found.append(TaskError(exception_class_path=_CANCELLED, traceback=line))
    elif job.state is State.FAILED and not found and job.last_fault is not None:
        found.append(_error(job.last_fault))  # its deadline passed before it could begin
    return found


def _error(fault: Fault, traceback: str | None = None) -> Any:
    return TaskError(
        exception_class_path=_path_of(fault, traceback), traceback=traceback or str(fault)
    )


def _path_of(fault: Fault, traceback: str | None) -> str:
    """Where the exception's class is: as the traceback says, else by its public name.

    A fault knows its exception by the library and the class: `openai.RateLimitError`.
    """
    if not fault.kinds:
        return _NO_EXCEPTION
    kind = fault.kinds[0]
    after = (traceback or "").rpartition("Traceback (most recent call last):\n")[2].splitlines()
    said = next((line.partition(":")[0] for line in after if not line.startswith(" ")), "")
    path = said if said.rpartition(".")[2] == kind.rpartition(".")[2] else kind
    return path if "." in path else f"builtins.{path}"


# --- times ----------------------------------------------------------------------------------------


def moment(time: datetime) -> datetime:
    """The moment, whether the project keeps zones or not."""
    made: datetime = time if timezone.is_aware(time) else timezone.make_aware(time)
    return made


def aware(time: datetime | None) -> datetime | None:
    """The same of what may be none."""
    return None if time is None else moment(time)


def shown(time: datetime | None) -> datetime | None:
    """The moment as this project keeps times."""
    if time is None or settings.USE_TZ:
        return time
    made: datetime = timezone.make_naive(time)
    return made


def _set(result: Any, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(result, name, value)  # a frozen one, as Django's own backends do
