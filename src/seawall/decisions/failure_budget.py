"""A failure budget: must this run be stopped, and how did it end?

A run pushes many items through a pipeline. `judge` says, from its counts alone, whether going on
is pointless; `status` says how a run that went on to its end is to be called. Skipped and cancelled
items speak neither for nor against a run. Pure: nobody's store, clock or chance is asked, and the
same counts always get the same answer, however often and by however many workers it is asked.

A run is aborted for one of three reasons.

Systematic. Nearly everything that came as far failed for one cause: a bad key or a missing setting
after 10 items, any one fingerprint after 20. Faults that speak of a worker, a person or a deadline
are no such cause, and scattered bad data lets too many others past to look like one.

Certain. All items are known, and so many have failed that the budget is exceeded even if all the
rest succeed. A single failure decides this only where the budget is nought: one bad item never
stops the others. This holds of a run that is over as well: whether workers were so fast that
nothing was left to stop must not decide what its end is called.

Likely. From `minimum` finished items on, even the lower bound of the failure rate is above the
budget. The rate is looked at after every settlement, and a bound made for one look (Wilson,
Clopper-Pearson) is broken by chance at some look or other far more often than its 1 %. So it is a
bound for all looks at once, a confidence sequence. For a multiplier m > 1 of the odds of failure,

    m ** failed / (1 + p * (m - 1)) ** finished

grows, on average, in no run whose items fail at a rate of at most p; nor does the mean of several
of these. Therefore (Ville) in at most 1 % of such runs it ever reaches 100, whoever looks and
whenever. The bound is the p at which it stands at 100 now. It needs no memory, only both counts,
and costs little: at 20 % failures and a budget of 10 % the first look already decides.

Both rates are looked at stage by stage. What a first stage throws out has finished long before the
others have been through a slow one, or through one that is held: among the finished alone one bad
item in a hundred would look like all of them. So a cause is held against those that came to its
stage, and the rate of the whole follows from the rates of the stages.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from seawall.faults import FaultCode, code_named
from seawall.redact import one_line

TELLING_CODES = frozenset(
    {FaultCode.UNAUTHORIZED, FaultCode.CONFIG_MISSING, FaultCode.QUOTA_EXHAUSTED}
)
"""Codes that are about the whole run, whichever item met them first, whatever their words."""
NO_CAUSE = frozenset({FaultCode.WORKER_LOST, FaultCode.CANCELLED, FaultCode.EXPIRED})
"""Codes that are about a worker, a person or a clock, and never show that all items will fail."""
FEWEST_OF_A_TELLING_CODE = 10
FEWEST_OF_ONE_FINGERPRINT = 20
NEARLY_ALL = 0.9
"""The share of the items that came as far which one cause must have failed to be systematic."""
FEWEST_FAILURES = 2
"""How many failures make an excess certain: one bad item never stops the others."""
LONGEST_SAMPLE = 200

_MULTIPLIERS = (1.02, 1.05, 1.1, 1.2, 1.4, 1.7, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
"""Odds of failure against the budget's; each finds best an excess of its own size."""
_HALVINGS = 50

Status = Literal["completed", "partial_success", "failed"]
Kind = Literal["systematic", "certain", "likely"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureBudget:
    """How many of a run's items may fail, and what its end is called."""

    share: float | None = 0.10
    """Failures among the items that were neither skipped nor cancelled; None never aborts."""
    minimum: int = 1_000
    """How many items must have finished before their rate is judged."""
    confidence: float = 0.99
    """How sure the lower bound of the rate is, over a whole run with all its looks."""
    complete_at: float = 0.95
    """The success rate from which on a run is completed."""
    partial_at: float = 0.50
    """The success rate from which on it is a partial success; below, it has failed."""

    def __post_init__(self) -> None:
        share, minimum = self.share, self.minimum
        if share is not None and not _is_number(share, 0, 1):
            raise ValueError(f"share: found {share!r}, expected a number from 0 to 1, or None")
        if not _is_number(minimum, 1, math.inf) or not isinstance(minimum, int):
            raise ValueError(f"minimum: found {minimum!r}, expected a whole number from 1 on")
        if not _is_number(self.confidence, 0.5, 0.999999):
            raise ValueError(
                f"confidence: found {self.confidence!r}, expected a number from 0.5 to 0.999999"
            )
        if not _is_number(self.complete_at, 0, 1):
            raise ValueError(
                f"complete_at: found {self.complete_at!r}, expected a number from 0 to 1"
            )
        if not _is_number(self.partial_at, 0, self.complete_at):
            raise ValueError(
                f"partial_at: found {self.partial_at!r}, "
                f"expected a number from 0 to complete_at, which is {self.complete_at!r}"
            )


@dataclass(frozen=True, slots=True)
class Cause:
    """One trouble, how many items failed for it, and one of them."""

    fingerprint: str
    code: FaultCode
    count: int
    message: str = ""
    job_id: int | None = None
    stage: int = 0
    """Where they failed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "code", code_named(self.code))
        _refuse_negative("count", self.count)

    def __str__(self) -> str:
        said = one_line(self.message, longest=LONGEST_SAMPLE)
        sample = "" if self.job_id is None else f" (job {self.job_id})"
        return (f"{self.code}: {said}" if said else str(self.code)) + sample


@dataclass(frozen=True, slots=True)
class Passage:
    """How many items failed at a stage, and how many came past it, wherever they are now."""

    failed: int = 0
    past: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a run stands: its counts, and what its failed items failed for, the commonest first."""

    total: int | None = None
    """How many items there are; None until all are known."""
    succeeded: int = 0
    skipped: int = 0
    failed: int = 0
    cancelled: int = 0
    causes: tuple[Cause, ...] = field(default=())
    """The commonest suffice; what is left out is taken for other causes."""
    stages: tuple[Passage, ...] = ()
    """By their numbers. Where they are not known, all items are taken to end at one."""

    def __post_init__(self) -> None:
        for name in ("total", "succeeded", "skipped", "failed", "cancelled"):
            _refuse_negative(name, getattr(self, name) or 0)
        commonest_first = sorted(self.causes, key=lambda cause: -cause.count)
        object.__setattr__(self, "causes", tuple(commonest_first))

    @property
    def finished(self) -> int:
        """The items that speak for or against the run."""
        return self.succeeded + self.failed

    def came_to(self, stage: int) -> int:
        """How many items failed at a stage or came past it; with those that failed here alone."""
        if stage >= len(self.stages):
            return self.finished
        there = self.stages[stage]
        return min(there.failed, self.failed) + there.past

    @property
    def rate(self) -> float:
        """The share that fails on the way through all stages, by what each of them has seen."""
        if not self.stages:
            return self.failed / self.finished if self.finished else 0.0
        come_through = 1.0
        for each in self.stages:
            come_through *= each.past / (each.failed + each.past) if each.failed else 1.0
        return 1 - come_through


@dataclass(frozen=True, slots=True)
class Abort:
    """Why the run must not go on, for people and for programs."""

    kind: Kind
    reason: str
    rate: float
    failed: int
    finished: int
    cause: Cause | None


def judge(budget: FailureBudget, standing: Standing) -> Abort | None:
    """Whether the run must be aborted, and why; None lets it go on."""
    share, failed, finished = budget.share, standing.failed, standing.finished
    if share is None or not _is_above(failed, finished, share):
        return None
    cause, count = _systematic(standing)
    if cause is not None:
        came = standing.came_to(cause.stage)
        told = f"failed {count:,} of {came:,} items that came as far for one cause: {cause}"
        return _abort("systematic", told, standing, cause)
    excess = f"{_figures(standing, share)}, above its budget of {_percent(share)}"
    enough = failed >= (FEWEST_FAILURES if share else 1)
    if enough and _is_above(failed, _most_judged(standing), share):
        if finished < _most_judged(standing):
            excess += f" even if all the rest of its {standing.total:,} items succeed"
        return _abort("certain", excess + _commonest(standing), standing)
    surely = _surely_above(failed, finished, share, budget.confidence)
    if finished >= budget.minimum and surely and standing.rate > share:
        return _abort("likely", excess + _commonest(standing), standing)
    return None


def status(budget: FailureBudget, standing: Standing) -> Status:
    """What the run's end is called, by the share of its items that succeeded.

    Skipped items are left out, and a run of nothing else is completed. Cancelled ones count here:
    a run half of whose items somebody cancelled did not complete.
    """
    asked = standing.succeeded + standing.failed + standing.cancelled
    rate = standing.succeeded / asked if asked else 1.0
    if rate >= budget.complete_at:
        return "completed"
    return "partial_success" if rate >= budget.partial_at else "failed"


def least_failure_rate(failed: int, finished: int, confidence: float = 0.99) -> float:
    """The rate at which such a run's items fail at least, with this confidence at every look."""
    low, high = 0.0, failed / finished if finished else 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _evidence(failed, finished, middle) >= -math.log(1 - confidence):
            low = middle
        else:
            high = middle
    return low


def _surely_above(failed: int, finished: int, share: float, confidence: float) -> bool:
    """Whether `least_failure_rate` is above the share, without looking for it."""
    if share <= 0:
        return failed > 0  # Where nothing may fail, one failure is proof.
    return _evidence(failed, finished, share) >= -math.log(1 - confidence)


def _evidence(failed: int, finished: int, share: float) -> float:
    """The logarithm of the mean of the products of the module's docstring; falls with the share."""
    logs = [failed * math.log(m) - finished * math.log1p(share * (m - 1)) for m in _MULTIPLIERS]
    largest = max(logs)
    return largest + math.log(sum(math.exp(each - largest) for each in logs) / len(logs))


def _most_judged(standing: Standing) -> float:
    """How many items can count at most, which is best for the run; without end until sealed."""
    if standing.total is None:
        return math.inf
    # Counts that were read a moment apart may exceed the total.
    return max(standing.finished, standing.total - standing.skipped - standing.cancelled)


def _systematic(standing: Standing) -> tuple[Cause | None, int]:
    """The cause that nearly everything failed for, and how many items that is."""
    for cause in standing.causes:
        if cause.code in NO_CAUSE:
            continue
        alike = _alike(cause, standing.causes)
        telling = cause.code in TELLING_CODES
        fewest = FEWEST_OF_A_TELLING_CODE if telling else FEWEST_OF_ONE_FINGERPRINT
        count = min(sum(each.count for each in alike), standing.failed)
        if count >= fewest and count >= NEARLY_ALL * standing.came_to(cause.stage):
            return cause, count
    return None, 0


def _alike(cause: Cause, causes: Iterable[Cause]) -> list[Cause]:
    """The same trouble at the same stage: by a telling code, else by its fingerprint."""
    there = [each for each in causes if each.stage == cause.stage]
    if cause.code in TELLING_CODES:
        return [each for each in there if each.code is cause.code]
    return [each for each in there if each.fingerprint == cause.fingerprint]


def _abort(kind: Kind, reason: str, standing: Standing, cause: Cause | None = None) -> Abort:
    failed, finished = standing.failed, standing.finished
    first = standing.causes[0] if standing.causes else None
    return Abort(kind, reason, failed / finished, failed, finished, cause or first)


def _figures(standing: Standing, share: float) -> str:
    rate = standing.failed / standing.finished
    shown = _percent(rate, above=share)
    return f"failed {standing.failed:,} of {standing.finished:,} finished items ({shown})"


def _commonest(standing: Standing) -> str:
    if not standing.causes:
        return ""
    return f"; commonest, {standing.causes[0].count:,} times: {standing.causes[0]}"


def _percent(rate: float, above: float | None = None) -> str:
    """In percent; a rate that is above another is shown with the digits that it takes to see so."""
    if above is None:
        return f"{100 * rate:.6g} %"
    shown = (f"{100 * rate:.{digits}f}" for digits in range(1, 7))
    return next((text for text in shown if float(text) > 100 * above), f"{100 * rate:.9g}") + " %"


def _is_above(failed: int, of: float, share: float) -> bool:
    # Divided, not multiplied: 29 / 100 is 0.29, but 0.29 * 100 is a little less than 29.
    return of > 0 and failed / of > share


def _is_number(value: object, least: float, most: float) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and least <= value <= most  # type: ignore[operator]


def _refuse_negative(name: str, count: int) -> None:
    if count < 0:
        raise ValueError(f"{name}: found {count!r}, expected 0 or more")
