"""What the history of a run comes to: how often things were tried, what went wrong, what it took.

    report = app.run(7).report()
    print(report.troubles[0].code, report.stages[0].reliability)

Everything is computed from the attempts, which are written once and never changed; the counts and
what was used up are the run's own. How it looks is the affair of doors.
"""

from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING

from seawall.faults import Fault
from seawall.store import Audit, ConfigSeen, Spans, StageAudit

if TYPE_CHECKING:
    from seawall.standings import RunView, StageView

MOST_FAILED = 100
"""How many failed items are listed, unless more are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigReport:
    """One configuration of a stage, and from when to when attempts were made with it."""

    config: str
    attempts: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """How one stage did."""

    name: str
    attempts: int
    done: int
    """Attempts that finished it, or skipped the rest."""
    retried: int
    failed: int
    lost: int
    """Attempts whose worker was lost."""
    took: Spans
    """How long attempts took that a handler ended, in seconds."""
    tries: dict[int, int]
    """How many items needed so many attempts; the last number stands for so many and more."""
    configs: tuple[ConfigReport, ...]
    """Which configurations it had, the first one first."""
    tokens_in: int
    tokens_out: int
    cost: float

    @property
    def reliability(self) -> float | None:
        """The share of its attempts that ended well; None before the first has ended."""
        ended = self.done + self.retried + self.failed + self.lost
        return self.done / ended if ended else None

    @property
    def changed(self) -> bool:
        """Whether its configuration changed during the run."""
        return len(self.configs) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubleReport:
    """One thing that attempts went wrong for."""

    stage: str
    code: str
    fingerprint: str
    attempts: int
    items: int
    message: str
    job_id: int
    """One of the items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedReport:
    """One item that failed."""

    job_id: int
    key: str | None
    """As it was given, or its place among the items."""
    stage: str
    attempts: int
    fault: Fault
    finished_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the history of a run comes to."""

    run: "RunView"
    stages: tuple[StageReport, ...]
    troubles: tuple[TroubleReport, ...]
    """The commonest first."""
    more_troubles: int
    """How many kinds of trouble are not listed."""
    to_success: Spans
    """How long items took from being asked for to their success, in seconds."""
    failed: tuple[FailedReport, ...]
    """The first items that failed."""
    more_failed: int
    """How many more failed; those that were pruned are among them."""
    unlisted_configs: int = 0

    @property
    def attempts(self) -> int:
        return sum(stage.attempts for stage in self.stages)


def report_of(view: "RunView", audit: Audit) -> Report:
    """The report of a run that stands so."""
    by_stage = {each.stage: each for each in audit.stages}
    tries = {
        stage: {each.attempts: each.items for each in group}
        for stage, group in groupby(audit.tries, key=lambda each: each.stage)
    }
    configs = {
        stage: tuple(map(_config, group))
        for stage, group in groupby(audit.configs, key=lambda each: each.stage)
    }
    names = [stage.name for stage in view.stages]
    nothing = Spans()
    return Report(
        run=view,
        stages=tuple(
            _stage(
                stage,
                by_stage.get(at, StageAudit(at, 0, 0, 0, 0, 0, nothing)),
                tries.get(at, {}),
                configs.get(at, ()),
            )
            for at, stage in enumerate(view.stages)
        ),
        troubles=tuple(
            TroubleReport(
                stage=_name(names, each.stage), code=each.code, fingerprint=each.fingerprint,
                attempts=each.attempts, items=each.items, message=each.message, job_id=each.job_id,
            )
            for each in audit.troubles
        ),
        more_troubles=audit.kinds - len(audit.troubles),
        to_success=audit.to_success,
        failed=tuple(
            FailedReport(
                job_id=each.job_id, key=_key(each.key), stage=_name(names, each.stage),
                attempts=each.attempts, fault=each.fault, finished_at=each.finished_at,
            )
            for each in audit.failed
        ),
        more_failed=max(0, view.failed - len(audit.failed)),
        unlisted_configs=audit.all_configs - len(audit.configs),
    )  # fmt: skip


def _stage(
    view: "StageView",
    counted: StageAudit,
    tries: dict[int, int],
    configs: tuple[ConfigReport, ...],
) -> StageReport:
    return StageReport(
        name=view.name,
        attempts=counted.attempts,
        done=counted.done,
        retried=counted.retried,
        failed=counted.failed,
        lost=counted.lost,
        took=counted.took,
        tries=tries,
        configs=configs,
        tokens_in=view.tokens_in,
        tokens_out=view.tokens_out,
        cost=view.cost,
    )


def _config(seen: ConfigSeen) -> ConfigReport:
    return ConfigReport(
        config=seen.config, attempts=seen.attempts, first_at=seen.first_at, last_at=seen.last_at
    )


def _name(names: list[str], at: int) -> str:
    return names[at] if at < len(names) else f"stage {at}"


def _key(kept: str | None) -> str | None:
    """What an item is known by: its key is kept with the number of its run before it."""
    if kept is None:
        return None
    number, colon, key = kept.partition(":")
    if colon and number.isdigit():
        return key
    number, sharp, place = kept.partition("#")
    return f"#{place}" if sharp and number.isdigit() else kept
