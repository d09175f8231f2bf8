"""The history of pace: what happened over all time and by the minute, and how upstreams did.

What is counted is counted by the statements that carry it out, in the same transaction; here it
is folded, read and, in time, forgotten. What was not folded yet is added by whoever reads, so that
every answer is exact as of now.
"""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

from seawall.model import need_name, need_time
from seawall.store.pace_values import (
    KEEP_PACE_MINUTES,
    MOST_BUCKETS,
    MOST_PHASES,
    Histogram,
    PaceBucket,
    PhaseSpan,
    Total,
    Turn,
    UpstreamBucket,
    UpstreamPhase,
    UpstreamTotal,
)
from seawall.store.reading import Reading
from seawall.store.values import MOST_ROWS, need_limit

MOST_UNFOLDED = 10_000
"""Whoever reads folds first where nobody has for so long."""
_MOST_PAGES = 10
_ALL_CALLS = -1
"""The bucket with every call, however long it took."""


class Pacing(Reading):
    """Part of the ledger: see `port.Store` for what each verb promises."""

    def pace(
        self,
        since: datetime,
        until: datetime | None = None,
        *,
        step_seconds: int = 60,
        task: str | None = None,
    ) -> list[PaceBucket]:
        if task is not None:
            need_name("task", task)
        steps = _Steps(since, self._end(until), step_seconds)
        self._catch_up()
        found = {
            row[0]: row[1:] for row in self._backend.all("read_pace", task=task, **steps.asked)
        }
        return [PaceBucket(_moment(at * steps.step), *found.get(at, ())) for at in steps.every]

    def totals(self) -> list[Total]:
        self._catch_up()
        found = self._backend.all("read_totals")
        return sorted(Total._make((*row[:7], row[7] / 1e6, *row[8:])) for row in found)

    def upstream_pace(
        self,
        upstream: str,
        since: datetime,
        until: datetime | None = None,
        *,
        step_seconds: int = 60,
    ) -> list[UpstreamBucket]:
        need_name("upstream", upstream)
        steps = _Steps(since, self._end(until), step_seconds)
        found = _Calls()
        for at, *told in self._backend.all("read_upstream_pace", upstream=upstream, **steps.asked):
            found.add(at, *told)
        return [UpstreamBucket(_moment(at * steps.step), *found.of(at)) for at in steps.every]

    def upstream_totals(self) -> list[UpstreamTotal]:
        now, found = self.now(), _Calls()
        shut: dict[str, float] = {}
        for name, *told in self._backend.all("read_upstream_totals"):
            found.add(name, *told)
        for name, at, phase, until, before in self._backend.all("last_phases"):
            turn = Turn(UpstreamPhase(phase), None if until is None else self._backend.read(until))
            end = now if turn.until is None else min(now, turn.until)
            open_ = (end - self._backend.read(at)).total_seconds() if turn.phase.is_shut else 0.0
            shut[name] = before / 1e6 + max(0.0, open_)
        names = sorted({*found.names, *shut})
        return [UpstreamTotal(name, *found.of(name), shut.get(name, 0.0)) for name in names]

    def upstream_phases(self, upstream: str, since: datetime) -> list[PhaseSpan]:
        need_name("upstream", upstream)
        need_time("since", since)
        now, end = self.now(), None
        spans: list[PhaseSpan] = []
        found = self._backend.all("read_phases", upstream=upstream, limit=MOST_PHASES)
        for at, phase, until, _ in found:
            begun = self._backend.read(at)
            turn = Turn(UpstreamPhase(phase), None if until is None else self._backend.read(until))
            over = turn.until if turn.until and turn.until < (end or now) else None
            if over is not None:
                spans.append(PhaseSpan(turn.phase.then, max(over, begun), end))
            spans.append(PhaseSpan(turn.phase, begun, over or end))
            end = begun
            if begun <= since:
                break
        if len(found) < MOST_PHASES and (end is None or end > since):
            # Nobody had anything against it before.
            spans.append(PhaseSpan(UpstreamPhase.CLOSED, since, end))
        clipped = [each._replace(since=max(since, each.since)) for each in spans]
        return [s for s in reversed(clipped) if s.until is None or s.until > s.since]

    # --- upkeep -------------------------------------------------------------------------------

    def fold_pace(self, *, limit: int = MOST_ROWS) -> int:
        need_limit(limit)
        folded = [
            sum(row[0] for row in self._backend.all(statement, limit=limit))
            for statement in ("fold_pace", "fold_upstream_pace")
        ]
        return int(max(folded))

    def forget_pace(self, *, limit: int = MOST_ROWS) -> int:
        need_limit(limit)
        return max(
            len(self._backend.all(statement, minutes=KEEP_PACE_MINUTES, limit=limit))
            for statement in ("forget_pace", "forget_upstream_pace", "forget_phases")
        )

    def _catch_up(self) -> None:
        """Fold where a great deal lies there: jobs are asked for, and no worker is alive."""
        for _ in range(_MOST_PAGES):
            if self._backend.all("unfolded_pace")[0][0] < MOST_UNFOLDED:
                return
            self._backend.all("fold_pace", limit=MOST_ROWS)

    def _end(self, until: datetime | None) -> datetime:
        return self.now() if until is None else until


class _Steps:
    """The steps from one time to another, each so many minutes long, counted since 1970."""

    def __init__(self, since: datetime, until: datetime, step_seconds: int) -> None:
        need_time("since", since)
        need_time("until", until)
        if step_seconds < 60 or step_seconds % 60:
            raise ValueError(f"step_seconds: found {step_seconds!r}, expected a multiple of 60")
        self.step = step_seconds // 60
        first, last = (int(each.timestamp()) // step_seconds for each in (since, until))
        if last - first >= MOST_BUCKETS:
            raise ValueError(f"since: expected at most {MOST_BUCKETS:,} steps before the end")
        self.every = range(first, last + 1)
        self.asked = {
            "since": first * self.step,
            "until": (last + 1) * self.step,
            "step": self.step,
        }


class _Calls:
    """Calls by whatever they are told by: a step, or an upstream's name."""

    def __init__(self) -> None:
        self._all: dict[Any, tuple[int, int, int, int]] = {}
        self._took: defaultdict[Any, list[tuple[int, int]]] = defaultdict(list)

    @property
    def names(self) -> list[Any]:
        return list(self._all)

    def add(self, at: Any, bucket: int, calls: int, *told: int) -> None:
        if bucket == _ALL_CALLS:
            failures, denied, micros = told
            self._all[at] = (calls, failures, denied, micros)
        else:
            self._took[at].append((bucket, calls))

    def of(self, at: Any) -> tuple[int, int, int, float, Histogram]:
        calls, failures, denied, micros = self._all.get(at, (0, 0, 0, 0))
        return calls, failures, denied, micros / 1e6, Histogram.of(self._took.get(at, ()))


def _moment(minute: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
