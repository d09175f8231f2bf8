"""The verbs of runs: how they begin, how they stand, and how they are stopped."""

import json

from seawall.errors import StoreUnavailableError
from seawall.model import Usage, need_name, need_text
from seawall.store import rows
from seawall.store.asking import TRIES_FOR_A_KEY, Asking
from seawall.store.run_values import (
    LONGEST_REASON,
    FailedFor,
    Items,
    KeptRun,
    LiveItems,
    NewRun,
    RunStop,
    Started,
)
from seawall.store.values import MOST_ROWS, is_id, need_limit

_LAST_RUN = 2**63 - 1


class Running(Asking):
    """Part of the ledger: see `port.Store` for what each verb promises."""

    def start_run(self, new: NewRun) -> Started:
        asked = {
            "pipeline": new.pipeline,
            "name": new.name,
            "stages": json.dumps(new.stages, ensure_ascii=False),
            "terms": new.terms,
            "owner": new.owner,
        }
        for _ in range(TRIES_FOR_A_KEY):
            with self._backend.transaction() as session:
                found = session.all("latest_run", pipeline=new.pipeline, name=new.name)
                if found and not found[0][2]:
                    return Started(found[0][0], created=False)
                last = found[0][1] if found else 0
                added = session.all("add_run", round=last + 1, **asked)
                if added:
                    return Started(added[0][0], created=True)
        raise StoreUnavailableError(f"the run {new.name} was begun by others again and again")

    def seal_run(self, run_id: int) -> bool:
        return is_id(run_id) and bool(self._backend.all("seal_run", run=run_id))

    def stop_run(self, run_id: int, stop: RunStop, *, reason: str) -> bool:
        need_name("reason", reason[:1])
        stop, reason = RunStop(stop), reason[:LONGEST_REASON]
        return is_id(run_id) and bool(
            self._backend.all("stop_run", run=run_id, stop=str(stop), reason=reason)
        )

    def resume_run(self, run_id: int) -> bool:
        resumed = is_id(run_id) and bool(self._backend.all("resume_run", run=run_id))
        if resumed:
            self._backend.wake()
        return resumed

    def revise_run(self, run_id: int, terms: str) -> bool:
        need_text("terms", terms)
        return is_id(run_id) and bool(self._backend.all("revise_run", run=run_id, terms=terms))

    def close_run(self, run_id: int) -> bool:
        if not is_id(run_id):
            return False
        with self._backend.transaction() as session:
            # Whoever sends an item again locks the run first: what is seen after that is true.
            session.all("lock_run", run=run_id)
            return bool(session.all("close_run", run=run_id))

    def run(self, run_id: int) -> KeptRun | None:
        found = self._backend.all("read_run", run=run_id) if is_id(run_id) else ()
        return rows.kept_run(found[0], self._backend.read) if found else None

    def runs(
        self,
        *,
        pipeline: str | None = None,
        name: str | None = None,
        unfinished: bool = False,
        owner: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[KeptRun]:
        need_limit(limit)
        found = self._backend.all(
            "page_runs",
            pipeline=pipeline,
            name=name,
            open=unfinished,
            owner=owner,
            before=_LAST_RUN if before is None else before,
            limit=limit,
        )
        return [rows.kept_run(row, self._backend.read) for row in found]

    def items(self, run_id: int) -> list[Items]:
        if not is_id(run_id):
            return []
        return [Items(*row) for row in self._backend.all("count_items", run=run_id)]

    def live_items(self, run_id: int) -> list[LiveItems]:
        if not is_id(run_id):
            return []
        live: dict[int, LiveItems] = {}
        named = {"running": "running", "queued": "waiting", "later": "later"}
        for stage, state, jobs in self._backend.all("count_live_items", run=run_id):
            known = live.get(stage, LiveItems(stage))
            live[stage] = known._replace(**{named[state]: jobs})
        return [live[stage] for stage in sorted(live)]

    def causes(self, run_id: int, *, limit: int = MOST_ROWS) -> list[FailedFor]:
        need_limit(limit)
        if not is_id(run_id):
            return []
        return [FailedFor(*row) for row in self._backend.all("causes", run=run_id, limit=limit)]

    def unfinished_items(self, run_id: int, *, limit: int = MOST_ROWS) -> list[int]:
        need_limit(limit)
        if not is_id(run_id):
            return []
        return [row[0] for row in self._backend.all("unfinished_items", run=run_id, limit=limit)]

    def forget_lanes(self, *, limit: int = MOST_ROWS) -> int:
        need_limit(limit)
        return len(self._backend.all("forget_lanes", limit=limit))

    def fold_runs(self, *, limit: int = MOST_ROWS) -> int:
        need_limit(limit)
        return sum(row[0] for row in self._backend.all("fold_runs", limit=limit))

    # --- what was used up ---------------------------------------------------------------------

    def used_for(self, owner: str) -> Usage:
        need_name("owner", owner)
        return Usage(*self._backend.all("sum_usage", owner=owner)[0])

    def used(self, job_id: int) -> dict[int, Usage]:
        found = self._backend.all("read_usage", job=job_id) if is_id(job_id) else ()
        return {seq: Usage(*amounts) for seq, *amounts in found}
