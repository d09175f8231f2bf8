"""How well it goes: what has happened to the jobs of a task, as a few shares and a mean.

    rates = app.rates("reports")
    print(rates.retry_rate, rates.mean_seconds_to_success)

The same counts that metrics tell, for those who ask from Python. The store counts in the
transactions that do the work, over all time: pruning changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from seawall.faults import FaultCode
from seawall.model import Outcome
from seawall.states import State
from seawall.store import Total


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What has happened to the jobs of a task, or of all tasks. A share of nothing is None."""

    attempts: int = 0
    """Attempts that ended, those of lost workers among them; of a pipeline, at every stage."""
    retried: int = 0
    """Attempts after which another one was planned."""
    schema_failures: int = 0
    """Attempts whose upstream answered what cannot be used (INVALID_RESPONSE)."""
    raw_captures: int = 0
    """Raw outputs that were kept."""
    succeeded: int = 0
    failed: int = 0
    """Jobs that failed for good; one that was sent again may have ended twice."""
    ended: int = 0
    """Jobs that ended, one way or another."""
    seconds_to_success: float = 0.0
    """From being asked for to the end, of all that succeeded together."""

    @property
    def retry_rate(self) -> float | None:
        """The share of attempts that were made again."""
        return _share(self.retried, self.attempts)

    @property
    def final_failure_rate(self) -> float | None:
        """The share of jobs that failed for good, of those that ended."""
        return _share(self.failed, self.ended)

    @property
    def schema_failure_rate(self) -> float | None:
        """The share of attempts whose upstream answered what cannot be used."""
        return _share(self.schema_failures, self.attempts)

    @property
    def mean_seconds_to_success(self) -> float | None:
        """From being asked for to success, waits and retries included, on average."""
        return _share(self.seconds_to_success, self.succeeded)


def rates_of(totals: Iterable[Total], task: str | None = None) -> Rates:
    """What these counts come to, of one task or of all."""
    mine = [each for each in totals if task in (None, each.task)]
    jobs = [each for each in mine if each.kind == "job"]
    attempts = [each for each in mine if each.kind == "attempt"]
    succeeded = [each for each in jobs if each.what == State.SUCCEEDED]
    return Rates(
        attempts=_many(attempts),
        retried=_many(each for each in attempts if each.what == Outcome.RETRIED),
        schema_failures=_many(each for each in attempts if each.code == FaultCode.INVALID_RESPONSE),
        raw_captures=sum(each.captures for each in attempts),
        succeeded=_many(succeeded),
        failed=_many(each for each in jobs if each.what == State.FAILED),
        ended=_many(each for each in jobs if each.what not in ("created", "redriven")),
        seconds_to_success=sum(each.seconds for each in succeeded),
    )


def _many(totals: Iterable[Total]) -> int:
    return sum(each.many for each in totals)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
