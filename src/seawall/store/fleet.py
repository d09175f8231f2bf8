"""The verbs of a fleet: who is alive, whose turn a chore is, and what fires when."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from seawall.model import Lane, NewJob, need_name, need_span, need_text, need_time
from seawall.store import rows
from seawall.store.asking import Asking
from seawall.store.backend import BadRowError, Session
from seawall.store.values import (
    MOST_ROWS,
    SLACK_SECONDS,
    Enqueued,
    Planned,
    Presence,
    Present,
    Taken,
    need_limit,
)


class Fleet(Asking):
    """Part of the ledger: see `port.Store` for what each verb promises."""

    def appear(self, presence: Presence) -> None:
        self._backend.all("appear", **rows.presence(presence))

    def leave(self, worker: str) -> None:
        need_name("worker", worker)
        self._backend.all("leave", worker=worker)

    def workers(self, *, within_seconds: float) -> list[Present]:
        return workers_in(self._backend, within_seconds, self._backend.read)

    def forget_workers(self, *, older_than_seconds: float, limit: int = MOST_ROWS) -> int:
        need_limit(limit)
        need_span("older_than_seconds", older_than_seconds)
        age = rows.microseconds(older_than_seconds)
        return len(self._backend.all("forget_workers", age=age, limit=limit))

    def take_turn(self, chore: str, worker: str, *, every_seconds: float) -> bool:
        need_name("chore", chore)
        need_name("worker", worker)
        need_span("every_seconds", every_seconds)
        every, slack = rows.microseconds(every_seconds), rows.microseconds(SLACK_SECONDS)
        taken = self._backend.all("take_turn", chore=chore, worker=worker, every=every, slack=slack)
        return bool(taken)

    # --- schedules ----------------------------------------------------------------------------

    def plan(self, name: str, spec: str, next_at: datetime) -> Planned:
        need_name("name", name)
        need_text("spec", spec)
        need_time("next_at", next_at)
        at = self._backend.written(next_at)
        (found,) = self._backend.all("plan", name=name, spec=spec, next_at=at)
        return rows.planned(found, self._backend.read)

    def planned(self) -> list[Planned]:
        found = [
            rows.planned(row, self._backend.read) for row in self._backend.all("all_schedules")
        ]
        return sorted(found, key=lambda each: each[:2])  # databases differ about the alphabet

    def fire(self, planned: Planned, *, next_at: datetime, job: NewJob | None) -> Enqueued | None:
        need_time("next_at", planned.next_at)
        need_time("next_at", next_at)
        if next_at <= planned.next_at and job is not None:
            raise ValueError(f"next_at: found {next_at}, expected one after {planned.next_at}")
        written = self._backend.written
        step = {
            "name": planned.name,
            "spec": planned.spec,
            "due_at": written(planned.next_at),
            "next_at": written(next_at),
        }

        def fired(session: Session, lane_ids: dict[Lane, int]) -> Enqueued | None:
            if not session.all("move_on", **step) or job is None:
                return None
            (taken,) = self._enqueued_in(session, [job], lane_ids)
            session.all("note_fired", job=taken.job_id, **step)
            return taken

        try:
            answer = self._together([] if job is None else [job.lane], fired)
        except BadRowError as error:
            return Enqueued(Taken.REFUSED, None, str(error))
        if answer is not None and answer.taken is Taken.CREATED:
            self._backend.wake()
        return answer


def workers_in(
    session: Session, within_seconds: float, read: Callable[[Any], datetime]
) -> list[Present]:
    """The workers that have told of themselves within that time."""
    need_span("within_seconds", within_seconds)
    found = session.all("seen_workers", age=rows.microseconds(within_seconds))
    return [rows.present(row, read) for row in found]
