"""A job that was asked for, as its caller holds it.

A handle is an id and a way to ask about it; it keeps nothing that could go stale. A job that a
handler enqueues is written with the end of its attempt: until then its handle has no id.
"""

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from seawall.errors import (
    JobCancelledError,
    JobFailedError,
    JobSkippedError,
    NoSuchJobError,
    NotFinishedError,
    SeawallError,
)
from seawall.model import Attempt, Job
from seawall.states import FINISHED, State

if TYPE_CHECKING:
    from seawall.app import Seawall
    from seawall.store import Progress

R = TypeVar("R")

_FIRST_LOOK_SECONDS = 0.005
_LONGEST_LOOK_SECONDS = 0.25


class JobHandle(Generic[R]):
    """One job: where it stands, and what it came to."""

    def __init__(
        self,
        app: "Seawall",
        job_id: int | None,
        read: Callable[[str | None], R],
        *,
        created: bool = True,
    ) -> None:
        self._app = app
        self._id = job_id
        self._read = read
        self.created = created
        """False where a job with the same key was there already: this is that one."""

    def __repr__(self) -> str:
        return "<job not yet written>" if self._id is None else f"<job {self._id}>"

    @property
    def id(self) -> int:
        """Its number, unique for ever."""
        if self._id is None:
            raise SeawallError(
                "a job that a handler enqueues is written when its attempt has ended well: until"
                " then it has no id"
            )
        return self._id

    def job(self) -> Job:
        """All that the store knows of it now; `NoSuchJobError` where it was pruned."""
        found = self._app.store.jobs([self.id]).get(self.id)
        if found is None:
            raise NoSuchJobError(f"there is no job {self.id}; it may have been pruned")
        return found

    @property
    def state(self) -> State:
        """Where it stands now."""
        return self.job().state

    def attempts(self) -> list[Attempt]:
        """Its history, oldest first."""
        return self._app.store.attempts(self.id)

    def progress(self) -> "Progress | None":
        """How far it said it had come."""
        return self._app.store.progress(self.id)

    def result(self) -> R:
        """What it came to; an error that says why where it has not, or not yet.

        `JobFailedError`, `JobSkippedError`, `JobCancelledError`, or `NotFinishedError`.
        """
        return self._result(self.job())

    def wait(self, timeout_seconds: float | None = None) -> R:
        """`result`, when the job has ended; `NotFinishedError` when that takes too long."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        pause = _FIRST_LOOK_SECONDS
        while True:
            job = self.job()
            if job.state in FINISHED or (deadline is not None and time.monotonic() >= deadline):
                return self._result(job)
            left = pause if deadline is None else deadline - time.monotonic()
            time.sleep(max(0.0, min(pause, left)))
            pause = min(pause * 1.5, _LONGEST_LOOK_SECONDS)

    async def await_(self, timeout_seconds: float | None = None) -> R:
        """The async twin of `wait`."""
        import asyncio  # noqa: PLC0415 - `import seawall` stays light

        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        pause = _FIRST_LOOK_SECONDS
        while True:
            job = await asyncio.to_thread(self.job)
            if job.state in FINISHED or (deadline is not None and time.monotonic() >= deadline):
                return await asyncio.to_thread(self._result, job)
            left = pause if deadline is None else deadline - time.monotonic()
            await asyncio.sleep(max(0.0, min(pause, left)))
            pause = min(pause * 1.5, _LONGEST_LOOK_SECONDS)

    def cancel(self) -> bool:
        """Cancel it, or ask it to stop if it runs; false where it had already ended."""
        return self._app.cancel(self.id)

    def _result(self, job: Job) -> R:
        fault = job.last_fault
        if job.state is State.SUCCEEDED:
            return self._read(self._app.store.output(job.id, job.stage))
        if job.state is State.FAILED:
            raise JobFailedError(f"job {job.id} ({job.task}) failed: {fault}", fault)
        if job.state is State.SKIPPED:
            reason = json.loads(self._app.store.output(job.id, job.stage) or '""')
            raise JobSkippedError(f"job {job.id} ({job.task}) was skipped: {reason}")
        if job.state is State.CANCELLED:
            raise JobCancelledError(f"job {job.id} ({job.task}) was cancelled")
        raise NotFinishedError(
            f"job {job.id} ({job.task}) is {job.state} still: `seawall why {job.id}` says why"
        )


def plain(text: str | None) -> Any:
    """A result whose task is not known here."""
    return None if text is None else json.loads(text)
