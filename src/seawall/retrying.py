"""Manual retry: one failed job, sent again by the person to whom it belongs.

Only when it has failed, and only when what the application asks for still holds: a source that is
gone makes a retry a waste (`@task.retry_when`). Whose job it is, doors know; dead letters are sent
in bulk by `redriving`, which is for operators and asks nobody.
"""

from typing import TYPE_CHECKING, Any, Protocol

from seawall.errors import NoSuchJobError, NotRetriedError
from seawall.model import Job
from seawall.redact import one_line
from seawall.states import State
from seawall.store.values import Redrive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seawall.store import Store
    from seawall.tasks import Task


class Keeper(Protocol):
    """Who has the store, and knows the tasks."""

    @property
    def store(self) -> "Store": ...

    @property
    def tasks(self) -> "Mapping[str, Task[..., Any, Any]]": ...


def refusal(keeper: Keeper, job: Job) -> NotRetriedError | None:
    """Why the job may not be sent again now; None where it may."""
    if job.state is not State.FAILED:
        return NotRetriedError(
            f"job {job.id} is {job.state}: only a failed one is sent again", "not_failed"
        )
    task = keeper.tasks.get(job.task)
    if task is None:
        return NotRetriedError(
            f"the task {one_line(job.task)} is not known to this application any more",
            "unknown_task",
        )
    if task.may_be_retried is None:
        return None
    try:
        args, kwargs = task.signature.read(keeper.store.arguments(job.id) or "{}")
        answer: object = task.may_be_retried(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - the application's own code may raise anything
        why = f"whether it may be sent again cannot be told: {one_line(repr(error))}"
        return NotRetriedError(f"job {job.id}: {why}", "precondition_unknown")
    if answer is True:
        return None
    why = one_line(answer) if isinstance(answer, str) else "what it needs is not there any more"
    return NotRetriedError(f"job {job.id}: {why}", "precondition_failed")


def retried(keeper: Keeper, job_id: int, *, by: str | None = None) -> None:
    """Send it again, with a fresh allowance and all its history; `NotRetriedError` with why not."""
    job = keeper.store.jobs([job_id]).get(job_id)
    if job is None:
        raise NoSuchJobError(f"there is no job {job_id}; it may have been pruned")
    refused = refusal(keeper, job)
    if refused is not None:
        raise refused
    (change,) = keeper.store.redrive([Redrive(job_id, by=by)])
    if not change.done:  # somebody was faster
        state = change.state or "gone"
        raise NotRetriedError(change.reason or f"job {job_id} is {state} by now", "not_failed")
