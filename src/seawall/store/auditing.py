"""Adding up the history of a run: how often, how long, what for."""

from collections.abc import Sequence

from seawall.faults import Fault
from seawall.store import rows
from seawall.store.audit_values import (
    MOST_KINDS,
    MOST_TRIES,
    Audit,
    ConfigSeen,
    FailedItem,
    Spans,
    StageAudit,
    Tries,
    Trouble,
)
from seawall.store.backend import Backend
from seawall.store.values import MOST_ROWS, is_id, need_limit

AUDIT_SECONDS = 600.0
"""How long each statement of an audit may take: it reads every attempt of a run."""


class Auditing:
    """Part of the ledger: see `port.Store` for what each verb promises."""

    _backend: Backend

    def audit(
        self, run_id: int, *, failed: int = MOST_ROWS, timeout_seconds: float = AUDIT_SECONDS
    ) -> Audit:
        need_limit(failed)
        if not is_id(run_id):
            return Audit()
        with self._backend.snapshot(timeout_seconds) as session:
            troubles = session.all("audit_troubles", run=run_id, limit=MOST_KINDS)
            configs = session.all("audit_configs", run=run_id, limit=MOST_KINDS)
            ((succeeded, *all_took),) = session.all("audit_success", run=run_id)
            stages = session.all("audit_stages", run=run_id)
            tries = session.all("audit_tries", run=run_id, most=MOST_TRIES)
            ended = session.all("audit_failed", run=run_id, limit=failed)
        read = self._backend.read
        return Audit(
            stages=tuple(
                StageAudit(stage, attempts, done, retried, failures, lost, _spans(took))
                for stage, attempts, done, retried, failures, lost, *took in stages
            ),
            tries=tuple(Tries(*row) for row in tries),
            troubles=tuple(_trouble(*row[:7]) for row in troubles),
            kinds=troubles[0][-1] if troubles else 0,
            configs=tuple(
                ConfigSeen(stage, config, attempts, read(first), read(last))
                for stage, config, attempts, first, last, _ in configs
            ),
            all_configs=configs[0][-1] if configs else 0,
            succeeded=succeeded,
            to_success=_spans(all_took),
            failed=tuple(
                FailedItem(job_id, stage, key, attempts, _known(fault), read(finished_at))
                for job_id, stage, key, attempts, fault, finished_at in ended
            ),
        )


def _trouble(
    stage: int,
    fingerprint: str | None,
    code: str,
    attempts: int,
    items: int,
    message: str | None,
    job_id: int,
) -> Trouble:
    return Trouble(stage, fingerprint or "", code, attempts, items, message or "", job_id)


def _spans(took: Sequence[int | None]) -> Spans:
    return Spans(*(None if each is None else each / 1_000_000 for each in took))


def _known(text: str) -> Fault:
    fault = rows.fault_of(text)
    if fault is None:
        raise AssertionError("whatever failed has a fault")
    return fault
