"""A job that was asked for, as its caller holds it.

A handle is an id and a way to ask about it; it keeps nothing that could go stale. A job that a
handler enqueues is written with the end of its attempt: until then its handle has no id.
"""

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from seawall.arguments import problems
from seawall.artifacts import recall
from seawall.clock import ManualClock
from seawall.errors import (
    JobCancelledError,
    JobFailedError,
    JobSkippedError,
    NoSuchJobError,
    NotFinishedError,
    SeawallError,
    StoreUnavailableError,
)
from seawall.model import Attempt, Job
from seawall.states import FINISHED, State

if TYPE_CHECKING:
    from seawall.app import Seawall
    from seawall.store import Evidence, Progress

R = TypeVar("R")

_FIRST_LOOK_SECONDS = 0.005
_LONGEST_LOOK_SECONDS = 0.25


class JobHandle(Generic[R]):
    """One job: where it stands, and what it came to."""

    __slots__ = ("__weakref__", "_app", "_id", "_read", "created")

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

    def arguments(self) -> dict[str, Any]:
        """What it was asked to work on, by the names of the parameters, as JSON has it."""
        return dict(json.loads(self._app.store.arguments(self.id) or "{}"))

    def attempts(self) -> list[Attempt]:
        """Its history, oldest first."""
        return self._app.store.attempts(self.id)

    def evidence(self, seq: int | None = None) -> "Evidence | None":
        """What an attempt left for people to review, by default the last one: where it broke, and
        what the upstream really said. None where it left nothing.
        """
        if seq is None:
            seq = max((each.seq for each in self.attempts()), default=0)
        return self._app.store.evidence(self.id, seq)

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
        look = _Look(timeout_seconds)
        while True:
            job = self._seen(look)
            if job is not None and (job.state in FINISHED or look.over):
                return self._result(job)
            time.sleep(look.pause())

    async def await_(self, timeout_seconds: float | None = None) -> R:
        """The async twin of `wait`."""
        import asyncio  # noqa: PLC0415 - `import seawall` stays light

        look = _Look(timeout_seconds)
        while True:
            job = await asyncio.to_thread(self._seen, look)
            if job is not None and (job.state in FINISHED or look.over):
                return await asyncio.to_thread(self._result, job)
            await asyncio.sleep(look.pause())

    def _seen(self, look: "_Look") -> Job | None:
        """The job now; None where the store does not answer and there is time to ask again."""
        try:
            job = self.job()
        except StoreUnavailableError:
            if look.over:
                raise
            return None
        if isinstance(self._app.clock, ManualClock) and job.state not in FINISHED:
            raise NotFinishedError(f"job {job.id} is {job.state}: call world.drain() first")
        return job

    def cancel(self) -> bool:
        """Cancel it, or ask it to stop if it runs; false where it had already ended."""
        return self._app.cancel(self.id)

    def read(self, task: str, output: str | None) -> R:
        """What the output of its last stage is, in the type that the task promises."""
        try:
            return self._read(None if output is None else recall(output, self._app.artifacts))
        except ValueError as error:
            raise SeawallError(
                f"job {self.id} ({task}): its result is not what the task promises:"
                f" {problems(error)}"
            ) from None

    def _result(self, job: Job) -> R:
        fault = job.last_fault
        if job.state is State.SUCCEEDED:
            return self.read(job.task, self._app.store.output(job.id, job.stage))
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


class _Look:
    """How long to go on looking, and how often."""

    def __init__(self, timeout_seconds: float | None) -> None:
        self._deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        self._pause = _FIRST_LOOK_SECONDS

    @property
    def over(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def pause(self) -> float:
        """How long to wait before the next look: longer each time, but not beyond the end."""
        pause, self._pause = self._pause, min(self._pause * 1.5, _LONGEST_LOOK_SECONDS)
        if self._deadline is None:
            return pause
        return max(0.0, min(pause, self._deadline - time.monotonic()))


def plain(text: str | None) -> Any:
    """A result whose task is not known here."""
    return None if text is None else json.loads(text)
