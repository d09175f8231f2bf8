"""Jobs of a transaction whose database is not their store.

Such a job is a row of the project's own database, written by the transaction that asks for it: if
that rolls back, there was no job. At the commit the process that made it moves it to the store; if
it dies before it has, workers find the row. The result's id is the job's key, so moving a row twice
makes one job.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.db import close_old_connections, connections, transaction
from django.utils import timezone

from seawall.django import results
from seawall.model import Lane, NewJob
from seawall.redact import one_line
from seawall.store import Taken
from seawall.telemetry import UpkeepFailed, emit

if TYPE_CHECKING:
    from seawall.django.home import Home
    from seawall.django.models import Waiting

MOST_MOVED = 500
MOST_PAGES = 20
LONGEST_REASON = 200


def put(home: "Home", job: NewJob) -> None:
    """Write the job down beside what the transaction writes."""
    rows, database = _rows(home), home.place.database
    rows.create(
        backend=home.alias,
        result=job.key,
        task=job.lane.task,
        queue=job.lane.queue,
        upstream=job.lane.upstream,
        priority=job.lane.priority,
        run_after=results.shown(job.run_after),
        request_id=job.request_id or "",
        trace=job.trace or "",
        parent=job.parent,
        arguments=job.arguments,
    )

    def move() -> None:  # a function, not a partial: where it breaks, Django 6.0 asks for its name
        moved(home, [job.key])

    if connections[database].in_atomic_block:
        transaction.on_commit(move, using=database, robust=True)


def moved(home: "Home", only: Sequence[str | None] | None = None) -> int:
    """Move jobs to the store, those of these results or the oldest; how many were moved."""
    rows = _rows(home).filter(backend=home.alias, refused="").order_by("id")
    if only is not None:
        rows = rows.filter(result__in=only)
    found = list(rows[:MOST_MOVED])
    jobs = [(row, job) for row in found if (job := _job_or_refused(home, row)) is not None]
    answers = home.app.store.enqueue([job for _, job in jobs]) if jobs else []
    there = []
    for (row, _), answer in zip(jobs, answers, strict=True):
        if answer.taken in (Taken.CREATED, Taken.EXISTING):
            there.append(row.pk)
        else:
            _refuse(home, row, answer.reason or f"its key is taken by job {answer.job_id}")
    _rows(home).filter(pk__in=there).delete()
    return len(there)


def _job_or_refused(home: "Home", row: "Waiting") -> NewJob | None:
    try:
        return _job(row)
    except ValueError as error:  # somebody has changed the row
        _refuse(home, row, str(error))
        return None


def _refuse(home: "Home", row: "Waiting", reason: str) -> None:
    """It stays, for people to look at, and is not tried again."""
    reason = one_line(reason)[:LONGEST_REASON] or "no reason was given"
    _rows(home).filter(pk=row.pk).update(refused=reason, refused_at=timezone.now())
    emit(UpkeepFailed(chore=f"waiting {home.alias}", message=f"{row.result}: {reason}"))


def swept(home: "Home") -> None:
    """Move what commits have left behind: a chore of workers."""
    close_old_connections()
    try:
        for _ in range(MOST_PAGES):
            if moved(home) < MOST_MOVED:
                return
    finally:
        close_old_connections()


def result(home: "Home", result_id: str) -> Any:
    """The result of a job that waits here, or None."""
    row = _rows(home).filter(backend=home.alias, result=result_id).first()
    return None if row is None else results.of_waiting(row)


# --- what the store would not take ----------------------------------------------------------------


def refused(home: "Home") -> Any:
    """Those that the store would not take, the newest first."""
    return _rows(home).filter(backend=home.alias).exclude(refused="").order_by("-id")


def ask_again(home: "Home", result_ids: Sequence[str]) -> int:
    """Offer these to the store once more; how many it has taken."""
    rows = refused(home).filter(result__in=result_ids)
    ids = [str(each) for each in rows.values_list("result", flat=True)]
    rows.update(refused="", refused_at=None)
    return moved(home, ids)


def forget(home: "Home", result_ids: Sequence[str]) -> int:
    """Remove these; how many that were."""
    return int(refused(home).filter(result__in=result_ids).delete()[0])


def _job(row: "Waiting") -> NewJob:
    lane = Lane(task=row.task, queue=row.queue, upstream=row.upstream, priority=row.priority)
    return NewJob(
        lane=lane,
        arguments=row.arguments,
        key=str(row.result),
        run_after=results.aware(row.run_after),
        request_id=row.request_id or None,
        trace=row.trace or None,
        parent=row.parent,
    )


def _rows(home: "Home") -> Any:
    from seawall.django.models import Waiting  # noqa: PLC0415 - once Django's applications are ready

    return Waiting.objects.using(home.place.database)
