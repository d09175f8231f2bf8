"""How a run stands: its terms, what its counts come to, and whether it has to be stopped.

What a run is called (completed, partly, failed) follows from its counts, so a redrive that mends
its dead letters mends the run as well.
"""

import dataclasses
import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from seawall.decisions import failure_budget as budgets
from seawall.decisions.failure_budget import Abort, Cause, FailureBudget, Passage, Standing
from seawall.errors import (
    ArgumentsError,
)
from seawall.faults import FaultCode
from seawall.store import Items, KeptRun, LiveItems, RunStop, Scope, Store
from seawall.telemetry import RunFinished, RunStopped, emit

PACE_SECONDS = 60.0
"""The rate of a run is that of so long."""
FEWEST_SECONDS = 2.0
"""Of less than this no rate is told: it would jump."""
_LONGEST_LEFT = timedelta(days=999)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """When a run has failed, and what it may cost."""

    failure_budget: float | None = 0.10
    minimum: int = 1_000
    complete_at: float = 0.95
    partial_at: float = 0.50
    spending_cap: float | None = None

    def __post_init__(self) -> None:
        try:
            _ = self.budget
        except ValueError as error:
            line = str(error).replace("share:", "failure_budget:")
            raise ArgumentsError(line) from None
        cap = self.spending_cap
        if cap is not None and (type(cap) not in (int, float) or not 0 < cap < 2**53):
            raise ArgumentsError(f"spending_cap: found {cap!r:.80}, expected a number above 0")

    @property
    def budget(self) -> FailureBudget:
        return FailureBudget(
            share=self.failure_budget,
            minimum=self.minimum,
            complete_at=self.complete_at,
            partial_at=self.partial_at,
        )

    def capped(self, cost: float) -> bool:
        """Whether a run that has cost so much may cost no more."""
        return self.spending_cap is not None and cost >= self.spending_cap

    def text(self) -> str:
        return json.dumps(dataclasses.asdict(self))


def terms_of(text: str) -> Terms:
    """What `Terms.text` made; what this version does not know is left out."""
    known = Terms.__dataclass_fields__
    return Terms(**{name: each for name, each in json.loads(text).items() if name in known})


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView:
    """How the items of a run stand at one stage."""

    name: str
    waiting: int
    """Queued there, for now or later."""
    later: int
    """Of those, the ones that wait for another try, or for a time."""
    running: int
    done: int
    """Those that finished the stage."""
    skipped: int
    failed: int
    cancelled: int
    retried: int
    """Attempts that went wrong and were made again."""
    tokens_in: int
    tokens_out: int
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """How a run stands at one moment."""

    id: int
    pipeline: str
    name: str
    round: int
    status: str
    """running, paused, completed, partial_success, failed, aborted or cancelled."""
    reason: str
    terms: Terms
    owner: str | None
    sealed: bool
    """Whether all items are in the store."""
    created_at: datetime
    closed_at: datetime | None
    stages: tuple[StageView, ...]
    entered: int
    succeeded: int
    skipped: int
    failed: int
    cancelled: int
    pruned: int
    at: datetime
    """When it was looked at, by the store's clock."""

    @property
    def ended(self) -> int:
        return self.succeeded + self.skipped + self.failed + self.cancelled

    @property
    def unfinished(self) -> int:
        return self.entered - self.ended

    @property
    def over(self) -> bool:
        """Nothing of it will move by itself any more: it ended, or was stopped and has come to
        rest; one that is paused may go on.
        """
        if self.status in ("completed", "partial_success", "failed"):
            return True
        resting = not any(stage.running for stage in self.stages)
        return self.status in ("aborted", "cancelled") and resting

    @property
    def running(self) -> int:
        return sum(stage.running for stage in self.stages)

    @property
    def retried(self) -> int:
        return sum(stage.retried for stage in self.stages)

    @property
    def cost(self) -> float:
        return sum(stage.cost for stage in self.stages)

    @property
    def success_rate(self) -> float | None:
        """Of what ended, skipped items aside."""
        asked = self.succeeded + self.failed + self.cancelled
        return self.succeeded / asked if asked else None


def view_of(store: Store, kept: KeptRun) -> RunView:
    """How the run stands now."""
    counted, live = store.items(kept.id), {each.stage: each for each in store.live_items(kept.id)}
    by_stage = {each.stage: each for each in counted}
    total = _total(counted)
    terms = terms_of(kept.terms)
    others = sum(each.running for each in live.values())
    others += sum(each.waiting for each in live.values() if each.stage > 0)
    stages = [
        _stage_view(
            name, by_stage.get(at, Items(at)), live.get(at, LiveItems(at)),
            first_waiting=max(0, total.entered - total.ended - others) if at == 0 else None,
        )
        for at, name in enumerate(kept.stages)
    ]  # fmt: skip
    return RunView(
        id=kept.id,
        pipeline=kept.pipeline,
        name=kept.name,
        round=kept.round,
        status=_status(kept, terms, total),
        reason=kept.reason or _reason(store, kept, terms, counted),
        terms=terms,
        owner=kept.owner,
        sealed=kept.sealed_at is not None,
        created_at=kept.created_at,
        closed_at=kept.closed_at,
        stages=tuple(stages),
        entered=total.entered,
        succeeded=total.succeeded,
        skipped=total.skipped,
        failed=total.failed,
        cancelled=total.cancelled,
        pruned=total.pruned,
        at=store.now(),
    )


def _stage_view(
    name: str, counted: Items, live: LiveItems, *, first_waiting: int | None
) -> StageView:
    return StageView(
        name=name,
        waiting=live.waiting if first_waiting is None else first_waiting,
        later=live.later,
        running=live.running,
        done=counted.advanced + counted.succeeded,
        skipped=counted.skipped,
        failed=counted.failed,
        cancelled=counted.cancelled,
        retried=counted.retried,
        tokens_in=counted.tokens_in,
        tokens_out=counted.tokens_out,
        cost=counted.cost,
    )


def _total(counted: Iterable[Items]) -> Items:
    columns = zip(*counted, strict=True)
    sums = [sum(column) for column in columns]
    return Items(-1, *sums[1:]) if sums else Items(-1)


def _status(kept: KeptRun, terms: Terms, total: Items) -> str:
    if kept.stop is not None:
        return str(kept.stop)
    if not _all_ended(kept, total):
        return "running"
    if budgets.judge(terms.budget, _standing(kept, _since(kept, total))) is not None:
        return str(RunStop.ABORTED)
    return budgets.status(terms.budget, _standing(kept, total, ()))


def _reason(store: Store, kept: KeptRun, terms: Terms, counted: list[Items]) -> str:
    """Why a run is called aborted that nobody stopped: it ended above its budget."""
    over = _all_ended(kept, _total(counted))
    abort = _abort(store, kept, terms, counted) if over else None
    return "" if abort is None else abort.reason


def _all_ended(kept: KeptRun, total: Items) -> bool:
    return kept.sealed_at is not None and total.ended >= total.entered


def _standing(
    kept: KeptRun, total: Items, causes: Iterable[Cause] = (), stages: Iterable[Passage] = ()
) -> Standing:
    """What is held against a run, or for it: what happened before it was resumed is neither."""
    return Standing(
        total=None if kept.sealed_at is None else total.entered,
        succeeded=max(0, total.succeeded),
        skipped=max(0, total.skipped),
        failed=max(0, total.failed),
        cancelled=max(0, total.cancelled),
        causes=tuple(causes),
        stages=tuple(stages),
    )


def judged(store: Store, kept: KeptRun) -> str | None:
    """Look at an unfinished run: abort it, pause it or close it where that is due.

    Answers what was done, in the run's own words: `aborted`, `paused`, or how it ended. Of one
    that was cancelled, what came in meanwhile is cancelled as well.
    """
    if kept.stop is RunStop.CANCELLED:
        return str(RunStop.CANCELLED) if _laid_to_rest(store, kept) else None
    counted = store.items(kept.id)
    terms, total = terms_of(kept.terms), _total(counted)
    if _all_ended(kept, total):  # also one that was stopped: what was under way is over
        over = store.close_run(kept.id)
        return _status(kept._replace(stop=None), terms, total) if over else None
    if kept.stop is not None:
        return None
    abort = _abort(store, kept, terms, counted)
    if abort is not None:
        done = store.stop_run(kept.id, RunStop.ABORTED, reason=abort.reason)
        return str(RunStop.ABORTED) if done else None
    if terms.capped(total.cost):
        most = f"{terms.spending_cap:,.6g}; resume it with a higher spending_cap"
        reason = f"it has cost {total.cost:,.6g}, and may cost {most}"
        done = store.stop_run(kept.id, RunStop.PAUSED, reason=reason)
        return str(RunStop.PAUSED) if done else None
    return None


def watched(store: Store, kept: KeptRun) -> str | None:
    """Judge a run, and log what came of it: whoever looked, it is said once."""
    came_to = judged(store, kept)
    if came_to is None:
        return None
    now = store.run(kept.id) or kept
    view = view_of(store, now)
    named = {"run": kept.id, "pipeline": kept.pipeline, "run_name": kept.name, "status": came_to}
    if came_to in (RunStop.ABORTED, RunStop.PAUSED):
        emit(RunStopped(**named, reason=view.reason))  # type: ignore[arg-type]
    else:
        counts = {name: getattr(view, name) for name in _COUNTS}
        emit(RunFinished(**named, **counts))  # type: ignore[arg-type]
    return came_to


_COUNTS = ("succeeded", "skipped", "failed", "cancelled")


def revised(store: Store, kept: KeptRun, terms: Terms) -> bool:
    """Give the run other terms, and let one go on that had been stopped by those it had.

    One that people paused stays so. Whether something changed.
    """
    changed = store.revise_run(kept.id, terms.text())
    aborted = kept.stop is RunStop.ABORTED  # whoever asks again has mended something
    cost = _total(store.items(kept.id)).cost
    spent = kept.stop is RunStop.PAUSED and terms_of(kept.terms).capped(cost)
    resumed = (aborted or spent) and not terms.capped(cost) and store.resume_run(kept.id)
    return changed or resumed


def _laid_to_rest(store: Store, kept: KeptRun) -> bool:
    """Close a cancelled run; items that whoever fed it wrote meanwhile would wait for ever."""
    if store.close_run(kept.id):
        return True
    held = any(each.scope is Scope.RUN and each.name == str(kept.id) for each in store.holds())
    if held:  # once closed it is held no more: what is sent again then may go its way
        store.cancel(store.unfinished_items(kept.id))
    return False


def _since(kept: KeptRun, total: Items) -> Items:
    """The counts without what was pardoned when the run was resumed."""
    return total._replace(
        entered=total.entered - kept.pardoned_failed - kept.pardoned_succeeded,
        succeeded=total.succeeded - kept.pardoned_succeeded,
        failed=total.failed - kept.pardoned_failed,
    )


def _abort(store: Store, kept: KeptRun, terms: Terms, counted: list[Items]) -> Abort | None:
    since = _since(kept, _total(counted))
    if since.failed <= 0:
        return None
    causes = [
        Cause(
            each.fingerprint, FaultCode[each.code], each.items, each.message, each.job_id,
            each.stage,
        )
        for each in store.causes(kept.id)
    ]  # fmt: skip
    return budgets.judge(terms.budget, _standing(kept, since, causes, _passages(kept, counted)))


def _passages(kept: KeptRun, counted: list[Items]) -> list[Passage]:
    """What each stage has seen; successes that were pardoned came past all of them."""
    by_stage = {each.stage: each for each in counted}
    found = [by_stage.get(at, Items(at)) for at in range(len(kept.stages))]
    return [
        Passage(each.failed, max(0, each.advanced + each.succeeded - kept.pardoned_succeeded))
        for each in found
    ]


def span_of(view: RunView) -> timedelta:
    """How long the run has taken so far."""
    return (view.closed_at or view.at) - view.created_at


class Pace:
    """How fast a run has been lately."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def saw(self, view: RunView) -> None:
        """Note how many items have ended by now."""
        now = view.at.timestamp()
        self._seen.append((now, view.ended))
        while len(self._seen) > 2 and self._seen[1][0] <= now - PACE_SECONDS:
            self._seen.popleft()

    @property
    def per_second(self) -> float | None:
        """Items that ended in a second, of late; None where it is too early to tell."""
        if len(self._seen) < 2:
            return None
        (first_at, first), (last_at, last) = self._seen[0], self._seen[-1]
        passed = last_at - first_at
        return max(0.0, (last - first) / passed) if passed >= FEWEST_SECONDS else None

    def left(self, view: RunView) -> timedelta | None:
        """How long the rest will take at this rate; None where nobody knows."""
        rate = self.per_second
        if not rate or not view.sealed or view.status != "running":
            return None
        return min(_LONGEST_LEFT, timedelta(seconds=min(view.unfinished / rate, 1e8)))
