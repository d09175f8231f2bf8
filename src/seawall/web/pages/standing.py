"""A run as a page tells of it: how long it will take, and how much of its budget is used."""

from dataclasses import dataclass

from seawall.standings import Pace, RunView
from seawall.store import KeptRun
from seawall.web.pages.wording import about


def time_left(view: RunView, pace: Pace) -> str:
    """How long the rest will take, in words; empty where nobody knows.

    By the pace of the last minute, as far as it was watched; else by its pace so far, while
    anything runs. Where nothing moves, that is said.
    """
    if view.status != "running" or not view.unfinished:
        return ""
    if not view.sealed:
        return "no telling: more items may come"
    rate, words = pace.per_second, "at the present pace"
    if rate is None:
        passed = (view.at - view.created_at).total_seconds()
        moves = view.running and view.ended and passed > 0
        rate, words = view.ended / passed if moves else None, "at its pace so far"
    if rate is None:
        return ""
    if rate <= 0:
        return "no telling: nothing has ended of late"
    return f"about {about(view.unfinished / rate)} {words}"


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """What is held against a run, beside what it may be."""

    failed: int
    finished: int
    allowed: float
    minimum: int
    pardoned: int
    """Items that failed before it was resumed."""

    @property
    def share(self) -> float:
        return self.failed / self.finished if self.finished else 0.0

    @property
    def allowed_in_words(self) -> str:
        return f"{100 * self.allowed:.3g}%"

    @property
    def judged(self) -> bool:
        """Whether enough have finished that the share alone may abort it."""
        return self.finished >= self.minimum


def budget_use(view: RunView, kept: KeptRun) -> BudgetUse | None:
    """How much of its failure budget a run has used; None where it has none."""
    allowed = view.terms.failure_budget
    if allowed is None:
        return None
    failed = max(0, view.failed - kept.pardoned_failed)
    return BudgetUse(
        failed=failed,
        finished=failed + max(0, view.succeeded - kept.pardoned_succeeded),
        allowed=allowed,
        minimum=view.terms.minimum,
        pardoned=kept.pardoned_failed,
    )
