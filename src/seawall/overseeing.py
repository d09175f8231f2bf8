"""The part of an application through which people look after it: what there is, why it waits, and
what is to be stopped or to go on.

Thin: each asks the store, or whoever knows. `Seawall` is one of these.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Unpack

from seawall.errors import ArgumentsError, ConfigurationError, NoSuchJobError
from seawall.faults import FaultCode
from seawall.finding import (
    MOST_COUNTED,
    Cancelled,
    Count,
    HowJobs,
    WhichJobs,
    cancelled,
    counted,
    filter_of,
    need_some_filter,
    redriven_all,
)
from seawall.mending import Mending
from seawall.model import Job
from seawall.rates import Rates, rates_of
from seawall.redriving import Redriven
from seawall.retrying import refusal
from seawall.runs import Run
from seawall.standings import RunView, view_of
from seawall.states import State
from seawall.store import Hold, Page, Redrive, Scope, Verification
from seawall.sweeping import Swept, sweep
from seawall.why import Why, why

if TYPE_CHECKING:
    from seawall.artifacts import Artifacts
    from seawall.upstreams import Upstreams


class Overseeing(Mending):
    """What people ask and decide about jobs, runs and queues."""

    upstreams: "Upstreams"

    @property
    def artifacts(self) -> "Artifacts | None":
        """Where large outputs are kept."""
        raise NotImplementedError

    def jobs(
        self,
        *,
        state: State | str | None = None,
        task: str | None = None,
        queue: str | None = None,
        owner: str | None = None,
        tag: str | None = None,
        key: str | None = None,
        run: int | None = None,
        fault: FaultCode | str | None = None,
        argument: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Page:
        """Jobs that match, a page at a time; give a page's `next` as `after` for the one that
        follows. Queued ones in the order of their due times, finished ones from the last that
        ended, all others and items of a run from the newest.

        A page looks at some thousands of jobs at most: where it is not `whole`, there may be more
        behind its `next`, even where it shows none.
        """
        said = {
            "state": state, "task": task, "queue": queue, "owner": owner, "tag": tag,
            "key": key, "run": run, "fault": fault, "argument": argument,
            "created_after": created_after, "created_before": created_before,
        }  # fmt: skip
        which = filter_of(said)
        try:
            return self.store.page(which, after=after, limit=limit)
        except ValueError as error:
            raise ArgumentsError(str(error)) from None

    def count_jobs(self, *, most: int = MOST_COUNTED, **which: Unpack[WhichJobs]) -> Count:
        """How many jobs match: exactly up to `most`, and beyond that so many or more."""
        return counted(self.store, filter_of(which), most)

    def cancel_all(self, *, dry_run: bool = False, **which: Unpack[WhichJobs]) -> Cancelled:
        """Cancel every queued job that matches, and ask every running one to stop.

        `app.cancel_all(task="mail", state="queued")`. What is enqueued meanwhile is left alone.
        With `dry_run=True` it only counts them, as `count_jobs` does.
        """
        need_some_filter(which)
        return cancelled(self.store, which, dry_run=dry_run)

    def redrive_all(self, **how: Unpack[HowJobs]) -> Redriven:
        """Send every failed job that matches again: `app.redrive_all(tag="night", canary=5)`.

        The same as `redrive`, for jobs as `jobs` finds them; one whose dead letter was dismissed
        is left alone. At most a hundred thousand at a time.
        """
        return redriven_all(self, how)

    def run(self, run_id: int) -> Run:
        """The run of that id; `NoSuchJobError` where there is none."""
        if self.store.run(run_id) is None:
            raise NoSuchJobError(f"there is no run {run_id}")
        return Run(self, run_id)

    def runs(
        self,
        *,
        pipeline: str | None = None,
        name: str | None = None,
        unfinished: bool = False,
        before: int | None = None,
        limit: int = 50,
    ) -> list[RunView]:
        """Runs and how they stand, the newest first."""
        found = self.store.runs(
            pipeline=pipeline, name=name, unfinished=unfinished, before=before, limit=limit
        )
        return [view_of(self.store, each) for each in found]

    def cancel(self, job_id: int) -> bool:
        """Cancel a queued job, ask a running one to stop; false where it had already ended."""
        (change,) = self.store.cancel([job_id])
        if change.state is None:
            raise NoSuchJobError(f"there is no job {job_id}; it may have been pruned")
        return change.done

    def retry(self, job_id: int) -> bool:
        """Send a failed job again, with a fresh allowance and all its history; false where it has
        not failed.
        """
        (change,) = self.store.redrive([Redrive(job_id)])
        if change.state is None:
            raise NoSuchJobError(f"there is no job {job_id}; it may have been pruned")
        return change.done

    def retry_refusal(self, job_id: int) -> str | None:
        """Why the job's owner may not send it again now, in a line; None where that may be.

        It must have failed, and its task's `retry_when` must say yes; `retry` does not ask that.
        """
        refused = refusal(self, self._found(job_id))
        return None if refused is None else str(refused)

    def why(self, job_id: int, *, only: str | None = None, commands: bool = True) -> Why:
        """Why the job is not running now, in words; with `only`, in those for its owner's eyes.

        What to do about it is told by `commands` of a shell, unless they are of no use.
        """
        job = self._found(job_id)
        return why(self.store, job, self.tasks, self.upstreams, only=only, commands=commands)

    def pause(self, queue: str, *, reason: str = "paused by hand") -> None:
        """Let no job of the queue be claimed until `resume`; those that workers have go on."""
        try:
            self.store.hold(Scope.QUEUE, queue, reason=reason)
        except ValueError as error:
            raise ArgumentsError(f"queue {error}") from None

    def resume(self, queue: str) -> bool:
        """Let the queue's jobs begin again; false where it was not paused."""
        try:
            return self.store.resume(Scope.QUEUE, queue)
        except ValueError as error:
            raise ArgumentsError(f"queue {error}") from None

    def holds(self) -> list[Hold]:
        """What is paused or held, and why."""
        return self.store.holds()

    def sweep_artifacts(self, *, dry_run: bool = False) -> Swept:
        """Remove artifacts that no output stands for any more, and nobody has put for two days."""
        if self.artifacts is None:
            raise ConfigurationError("there are no artifacts: artifacts_url is not set")
        return sweep(self.store, self.artifacts, dry_run=dry_run)

    def rates(self, task: str | None = None) -> Rates:
        """How well it goes: retry rate, final failure rate, mean time to success and their kin.

        Of that task's or pipeline's jobs, or of all, over all time.
        """
        return rates_of(self.store.totals(), task)

    def verify(self) -> Verification:
        """Prove that no job was lost and that every rule of the ledger holds. Reads only."""
        return self.store.verify()

    def _found(self, job_id: int) -> Job:
        found = self.store.jobs([job_id]).get(job_id)
        if found is None:
            raise NoSuchJobError(f"there is no job {job_id}; it may have been pruned")
        return found
