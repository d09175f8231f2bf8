"""The verbs that only read."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from seawall.model import MOST_STAGES, Attempt, Job, need_name, need_time
from seawall.states import State
from seawall.store import rows
from seawall.store.backend import Backend
from seawall.store.finding import Finding
from seawall.store.lanes import Lanes
from seawall.store.values import (
    MOST_ROWS,
    Backlog,
    Changes,
    Claim,
    Earlier,
    Evidence,
    Head,
    Hold,
    Progress,
    Verification,
    is_id,
    need_batch,
    need_limit,
)
from seawall.store.verify import verified


class Reading(Finding):
    """Part of the ledger: see `port.Store` for what each verb promises."""

    _backend: Backend
    _lanes: Lanes

    # --- jobs ---------------------------------------------------------------------------------

    def jobs(self, job_ids: Sequence[int]) -> dict[int, Job]:
        need_batch(job_ids)
        given = [{"id": job_id} for job_id in set(job_ids) if is_id(job_id)]
        found = self._backend.batch("read_jobs", given)
        lanes = self._lanes.named(row[1] for row in found)
        return {row[0]: rows.job(row, lanes[row[1]], self._backend.read) for row in found}

    def changes(self, since: datetime, *, limit: int = 500) -> Changes:
        need_limit(limit)
        need_time("since", since)
        at = self.now()
        found = self._backend.all("read_changes", since=self._backend.written(since), limit=limit)
        lanes = self._lanes.named(row[3] for row in found)
        told = [rows.change(row, lanes[row[3]], self._backend.read) for row in found]
        many = Counter(row[0] for row in found)
        told.sort(key=lambda each: (each.at, each.job_id))
        return Changes(tuple(told), at, whole=max(many.values(), default=0) < limit)

    # --- what hangs on a job ------------------------------------------------------------------

    def attempts(self, job_id: int, *, after: int = 0, limit: int = MOST_ROWS) -> list[Attempt]:
        need_limit(limit)
        if not is_id(job_id) or after >= 2**31:
            return []
        found = self._backend.all("read_attempts", job=job_id, after=after, limit=limit)
        return [rows.attempt(row, self._backend.read) for row in found]

    def children(
        self, job_id: int, *, owner: str | None = None, after: int = 0, limit: int = 50
    ) -> list[Job]:
        need_limit(limit)
        if not is_id(job_id) or not 0 <= after < 2**63:
            return []
        if owner is not None:
            need_name("owner", owner)
        found = self._backend.all(
            "read_children", parent=job_id, owner=owner, after=after, limit=limit
        )
        jobs = self.jobs([row[0] for row in found])
        return [jobs[id_] for (id_,) in found if id_ in jobs]

    def arguments(self, job_id: int) -> str | None:
        found = self._backend.all("read_arguments", job=job_id) if is_id(job_id) else ()
        return str(found[0][0]) if found else None

    def trace(self, job_id: int) -> str | None:
        found = self._backend.all("read_trace", job=job_id) if is_id(job_id) else ()
        return found[0][0] if found else None

    def evidence(self, job_id: int, seq: int) -> Evidence | None:
        if not is_id(job_id) or not 0 < seq < 2**31:
            return None
        found = self._backend.all("read_evidence", job=job_id, seq=seq)
        return Evidence(*found[0]) if found else None

    def progress(self, job_id: int) -> Progress | None:
        found = self._backend.all("read_progress", job=job_id) if is_id(job_id) else ()
        return rows.progress_of(found[0]) if found else None

    def earlier(self, claim: Claim) -> list[Earlier]:
        return rows.earlier(claim.history)

    def output(self, job_id: int, stage: int) -> str | None:
        if not is_id(job_id) or not 0 <= stage < MOST_STAGES:
            return None
        found = self._backend.all("read_output", job=job_id, stage=stage)
        return str(found[0][0]) if found else None

    def references(self, texts: Sequence[str]) -> set[str]:
        need_batch(texts)
        found = self._backend.all("read_references", texts=self._backend.names(texts))
        return {str(row[0]) for row in found}

    # --- all of it ----------------------------------------------------------------------------

    def heads(self) -> list[Head]:
        found = self._backend.all("heads")
        lanes = self._lanes.named(row[0] for row in found)
        return [Head(lanes[lane_id], self._backend.read(due_at)) for lane_id, due_at in found]

    def backlog(self) -> list[Backlog]:
        found = self._backend.all("backlog")
        lanes = self._lanes.named(row[0] for row in found)
        return [rows.backlog(row, lanes[row[0]], self._backend.read) for row in found]

    def counts(self) -> dict[State, int]:
        found: dict[str, int] = dict(self._backend.all("count_states"))
        return {state: found.get(str(state), 0) for state in State}

    def holds(self) -> list[Hold]:
        return [rows.hold(row, self._backend.read) for row in self._backend.all("all_holds")]

    def now(self) -> datetime:
        return self._backend.read(self._backend.all("store_now")[0][0])

    def verify(self, *, timeout_seconds: float = 600.0) -> Verification:
        with self._backend.snapshot(timeout_seconds) as session:
            return verified(session, self._backend.dialect)
