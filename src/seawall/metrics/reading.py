"""One look at the store, from which every metric is told.

Nothing is counted here: the store has counted it, in the transactions that did it. So every process
tells the same, one that was killed took nothing with it, and a new one begins where others are.
"""

import platform
from collections import Counter
from collections.abc import Callable
from datetime import datetime

import seawall
from seawall.decisions import gate as gates
from seawall.decisions import gate_text
from seawall.faults import FaultCode
from seawall.metrics.figures import Figures, Labels, Named
from seawall.model import Lane, Outcome
from seawall.states import FINISHED, State
from seawall.store import (
    Backlog,
    Histogram,
    Hold,
    LetterFilter,
    LetterState,
    Scope,
    Store,
    Total,
    UpstreamTotal,
)
from seawall.upstreams import Upstreams
from seawall.why import ALIVE_SECONDS

_DEPTHS: dict[str, Callable[[Backlog], int]] = {
    "due": lambda row: row.due,
    "later": lambda row: row.later,
    "running": lambda row: row.running,
}


class Reader:
    """Looks at a store, and remembers which names stand for themselves."""

    def __init__(self, store: Store, upstreams: Upstreams) -> None:
        self._store = store
        self._upstreams = upstreams
        self._places, self._queues, self._names = Named(), Named(), Named()

    def look(self) -> Figures:
        """Everything, as it stands now."""
        figures, store = Figures(), self._store
        now, totals, backlog, holds = store.now(), store.totals(), store.backlog(), store.holds()
        shut = self._shut(now, holds)
        self._happened(figures, totals)
        self._waits(figures, totals, backlog, now)
        self._held(figures, backlog, holds, shut)
        self._called(figures, store.upstream_totals(), backlog, shut)
        self._failed(figures)
        self._works(figures)
        return figures

    # --- what happened ------------------------------------------------------------------------

    def _happened(self, figures: Figures, totals: list[Total]) -> None:
        volumes: Counter[Labels] = Counter()
        for each in totals:
            volumes[each.task, each.queue] += each.many
        self._places.saw(volumes)
        for place in {self._places.of(*key) for key in volumes}:
            figures.add("seawall_jobs_created_total", place, 0)
            for state in sorted(FINISHED):  # what has not happened yet is told as 0
                figures.add("seawall_jobs_completed_total", (*place, str(state)), 0)
        for each in totals:
            place = self._places.of(each.task, each.queue)
            if each.kind == "job":
                _job(figures, place, each)
            else:
                _attempt(figures, place, each)

    # --- what waits ---------------------------------------------------------------------------

    def _waits(
        self, figures: Figures, totals: list[Total], backlog: list[Backlog], now: datetime
    ) -> None:
        volumes: Counter[Labels] = Counter()
        for each in totals:
            volumes[(each.queue,)] += each.many
        for row in backlog:
            volumes[(row.lane.queue,)] += 1
        self._queues.saw(volumes)
        for queue in self._queues:
            for state in _DEPTHS:
                figures.add("seawall_queue_depth", (*queue, state), 0)
            figures.most("seawall_oldest_due_age_seconds", queue, 0.0)
            figures.add("seawall_held_jobs", queue, 0)
        for row in backlog:
            queue = self._queues.of(row.lane.queue)
            for state, depth in _DEPTHS.items():
                figures.add("seawall_queue_depth", (*queue, state), depth(row))
            if row.oldest_due_at is not None:
                age = max(0.0, (now - row.oldest_due_at).total_seconds())
                figures.most("seawall_oldest_due_age_seconds", queue, age)

    def _held(
        self, figures: Figures, backlog: list[Backlog], holds: list[Hold], shut: set[str]
    ) -> None:
        for scope in Scope:
            figures.add("seawall_holds", (str(scope),), sum(h.scope is scope for h in holds))
        held = {(each.scope, each.name) for each in holds}
        held |= {(Scope.UPSTREAM, name) for name in shut}
        for row in backlog:
            if not held.isdisjoint(_holdable(row.lane)):
                figures.add("seawall_held_jobs", self._queues.of(row.lane.queue), row.due)

    def _failed(self, figures: Figures) -> None:
        for pile in self._store.count_letters(LetterFilter(state=LetterState.OPEN)):
            place = self._places.of(pile.task, pile.queue)
            figures.add("seawall_dead_letters_open", (*place, str(pile.code)), pile.letters)

    # --- upstreams ----------------------------------------------------------------------------

    def _shut(self, now: datetime, holds: list[Hold]) -> set[str]:
        """The upstreams whose jobs do not begin."""
        shut = {each.name for each in holds if each.scope is Scope.UPSTREAM}
        for each in self._store.watched():
            upstream, gate = self._upstreams.of(each.name), gate_text.read(each.state)
            until = gates.held_until(upstream, gate, now.timestamp())
            if until is not None and until > now.timestamp():
                shut.add(each.name)
        return shut

    def _called(
        self,
        figures: Figures,
        totals: list[UpstreamTotal],
        backlog: list[Backlog],
        shut: set[str],
    ) -> None:
        volumes: Counter[Labels] = Counter({(name,): 1 for name in self._upstreams.said})
        for each in totals:
            volumes[(each.name,)] += each.calls
        for held in shut:
            volumes[(held,)] += 1
        for row in backlog:
            if row.lane.upstream:
                volumes[(row.lane.upstream,)] += row.due
        self._names.saw(volumes)
        for name in {self._names.of(*key) for key in volumes} | set(self._names):
            figures.most("seawall_upstream_held", name, 0)
            figures.add("seawall_upstream_waiting_jobs", name, 0)
        for held in shut:
            figures.most("seawall_upstream_held", self._names.of(held), 1)
        for row in backlog:
            if row.lane.upstream:
                name = self._names.of(row.lane.upstream)
                figures.add("seawall_upstream_waiting_jobs", name, row.due)
        for each in totals:
            _calls(figures, self._names.of(each.name), each)

    # --- the fleet ----------------------------------------------------------------------------

    def _works(self, figures: Figures) -> None:
        alive = [each.presence for each in self._store.workers(within_seconds=ALIVE_SECONDS)]
        figures.add("seawall_workers", (), len(alive))
        figures.add("seawall_worker_slots", (), sum(each.concurrency for each in alive))
        figures.add("seawall_worker_slots_busy", (), sum(each.running for each in alive))
        which = (seawall.__version__, platform.python_version())
        figures.add("seawall_build_info", which, 1)


def _job(figures: Figures, place: Labels, each: Total) -> None:
    if each.what == "created":
        figures.add("seawall_jobs_created_total", place, each.many)
    elif each.what == "redriven":
        figures.add("seawall_jobs_redriven_total", place, each.many)
    else:
        figures.add("seawall_jobs_completed_total", (*place, each.what), each.many)
    if each.what == State.FAILED:
        figures.add("seawall_jobs_failed_total", (*place, each.code), each.many)
    if each.what == State.SUCCEEDED:
        counts = Histogram.of([(each.bucket, each.many)])
        figures.took("seawall_time_to_success_seconds", place, counts, each.seconds)


def _attempt(figures: Figures, place: Labels, each: Total) -> None:
    figures.add("seawall_attempts_total", (*place, each.what), each.many)
    if each.code:
        figures.add("seawall_attempt_faults_total", (*place, each.code), each.many)
    if each.what == Outcome.RETRIED:
        figures.add("seawall_retries_scheduled_total", (*place, each.code), each.many)
    schema = each.many if each.code == FaultCode.INVALID_RESPONSE else 0
    figures.add("seawall_schema_failures_total", place, schema)
    figures.add("seawall_raw_captures_total", place, each.captures)
    figures.add("seawall_tokens_total", (*place, "in"), each.tokens_in)
    figures.add("seawall_tokens_total", (*place, "out"), each.tokens_out)
    figures.add("seawall_spend_total", place, each.cost)
    counts = Histogram.of([(each.bucket, each.many)])
    figures.took("seawall_attempt_duration_seconds", place, counts, each.seconds)


def _calls(figures: Figures, name: Labels, each: UpstreamTotal) -> None:
    figures.add("seawall_upstream_calls_total", name, each.calls)
    figures.add("seawall_upstream_failures_total", name, each.failures)
    figures.add("seawall_upstream_denied_total", name, each.denied)
    figures.add("seawall_upstream_open_seconds_total", name, each.open_seconds)
    took = "seawall_upstream_call_duration_seconds"
    figures.took(took, name, each.took, each.seconds)


def _holdable(lane: Lane) -> set[tuple[Scope, str]]:
    return {
        (Scope.QUEUE, lane.queue),
        (Scope.TASK, lane.task),
        (Scope.UPSTREAM, lane.upstream),
        (Scope.RUN, str(lane.run)),
    }
