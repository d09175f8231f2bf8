"""What a worker says about itself and its leases, in log events."""

from collections.abc import Sequence

from seawall.clock import Clock
from seawall.errors import StoreError
from seawall.store import Claim
from seawall.telemetry import (
    LeaseLost,
    NotWritten,
    StoreAway,
    StoreBack,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
    emit,
)

SAY_AWAY_SECONDS = 60.0
"""How often it is said again that the store is still away."""


class News:
    """The voice of one worker."""

    def __init__(self, worker: str, clock: Clock) -> None:
        self._worker = worker
        self._clock = clock
        self._away_since: float | None = None
        self._say_away_at = 0.0

    def started(self, queues: Sequence[str] | None, tasks: Sequence[str], concurrency: int) -> None:
        served = "all" if queues is None else ",".join(queues)
        emit(
            WorkerStarted(
                worker=self._worker,
                queues=served,
                tasks=",".join(tasks),
                concurrency=concurrency,
            )
        )

    def stopping(self, running: int, grace_seconds: float) -> None:
        emit(WorkerStopping(worker=self._worker, running=running, grace_seconds=grace_seconds))

    def stopped(self) -> None:
        emit(WorkerStopped(worker=self._worker))

    def not_written(self, jobs: int) -> None:
        emit(NotWritten(worker=self._worker, jobs=jobs))

    def away(self, error: StoreError, unwritten: int) -> None:
        """The store does not answer; said at once, and then from time to time."""
        now = self._clock.monotonic()
        if self._away_since is None:
            self._away_since = now
        elif now < self._say_away_at:
            return
        self._say_away_at = now + SAY_AWAY_SECONDS
        emit(StoreAway(worker=self._worker, unwritten=unwritten, message=str(error)))

    def back(self) -> None:
        """The store has answered."""
        if self._away_since is not None:
            seconds = self._clock.monotonic() - self._away_since
            self._away_since = None
            emit(StoreBack(worker=self._worker, seconds=round(seconds, 1)))

    def lost(self, claim: Claim) -> None:
        emit(
            LeaseLost(
                job=claim.token.job_id,
                task=claim.lane.task,
                stage=claim.lane.stage,
                attempt=claim.tries + 1,
                request_id=claim.request_id,
            )
        )
