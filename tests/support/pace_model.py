"""The history of pace once more, as plain counters: what the store's own is held against."""

from collections import Counter
from datetime import datetime

from seawall.faults import Fault
from seawall.model import Attempt, Lane
from seawall.states import State
from seawall.store.pace_values import span_bucket

Key = tuple[str, str, str, str, str, int]
"""Kind, what, task, queue, code and bucket, as a `Total` has them."""


class PaceModel:
    """What happened, over all time and by the minute."""

    def __init__(self) -> None:
        self.many: Counter[Key] = Counter()
        self.micros: Counter[Key] = Counter()
        self.minutes: Counter[tuple[int, str, str]] = Counter()
        """By minute, task and the name that a `PaceBucket` has for it."""

    def entered(self, what: str, lane: Lane, now: datetime) -> None:
        """It was created, or sent again."""
        self._add("job", what, lane, None, 0, now)

    def ended(
        self, state: State, lane: Lane, fault: Fault | None, created_at: datetime, now: datetime
    ) -> None:
        age = max(0, _micros(created_at, now))
        self._add("job", state, lane, fault if state is State.FAILED else None, age, now)

    def tried(self, attempt: Attempt, lane: Lane, now: datetime) -> None:
        took = _micros(attempt.started_at, attempt.finished_at)
        self._add("attempt", attempt.outcome, lane, attempt.fault, took, now)

    def _add(
        self, kind: str, what: str, lane: Lane, fault: Fault | None, micros: int, now: datetime
    ) -> None:
        code = str(fault.code) if fault else ""
        key = (kind, str(what), lane.task, lane.queue, code, span_bucket(micros))
        self.many[key] += 1
        self.micros[key] += micros
        if kind == "job" or what in ("retried", "lost"):
            self.minutes[int(now.timestamp()) // 60, lane.task, str(what)] += 1


def _micros(since: datetime, until: datetime) -> int:
    span = until - since
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds
