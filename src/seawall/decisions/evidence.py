"""How calls at an upstream ended lately, as its gate is told: by worker and second.

Within a second their order is not known: failures are taken to be spread evenly among the others,
so that five in a row are found where nearly everything fails, and not where a third does.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from seawall.decisions import limits as bounds
from seawall.decisions.breaker import Breaker, Failed, Succeeded
from seawall.decisions.upstream import Upstream

MOST_RUNS = 50
"""Into so many runs a second's calls are divided at most."""
FAIR_SHARE = 0.25
"""So many of a worker's last calls, as many as a breaker looks at, failed where it saw it fail."""

_SLOW = bounds.LONGEST_HOLD_SECONDS
"""Longer than any limit for slow calls."""


class Seen(NamedTuple):
    """How calls of one worker ended, in one second."""

    worker: str
    second: int
    firsts: int
    retries: int
    failures: int
    denied: int
    slow: int

    @property
    def calls(self) -> int:
        return self.firsts + self.retries


def enough(upstream: Upstream, seen: Sequence[Seen], callers: int) -> bool:
    """Whether enough workers have seen it fail, where so many could: no broken host stops others.

    One that has seen it fail has done so lately and often: a failure now and then is everybody's.
    """
    workers: dict[str, list[Seen]] = {}
    for each in seen:
        workers.setdefault(each.worker, []).append(each)
    failing = sum(_saw_it_fail(upstream, rows) for rows in workers.values())
    return failing >= needed(upstream, callers)


def needed(upstream: Upstream, callers: int) -> int:
    """How many workers make a quorum where so many may call it."""
    return max(1, min(upstream.quorum, callers))


def _saw_it_fail(upstream: Upstream, rows: Sequence[Seen]) -> bool:
    """Whether a fair share of this worker's last calls failed; of a busy second, in proportion."""
    left = float(upstream.breaker.window_calls)
    bad = calls = 0.0
    for each in sorted(rows, key=lambda row: -row.second):
        taken = min(left, each.calls)
        if taken > 0:
            failed = min(each.calls, max(each.failures, each.slow) + each.denied)
            bad += failed * taken / each.calls
            calls += taken
            left -= taken
    return bad > 0 and bad >= FAIR_SHARE * calls


def calls(upstream: Upstream, seen: Sequence[Seen]) -> Iterator[tuple[float, Succeeded | Failed]]:
    """The calls of each second, failures spread evenly among the others.

    Where the last so many calls are judged, no second has more than those, in their proportion:
    of a busy one they would else be the end of a run.
    """
    breaker = upstream.breaker
    most = breaker.window_calls if breaker.window_seconds is None else bounds.MOST_CALLS
    seconds: dict[int, list[Seen]] = {}
    for each in seen:
        seconds.setdefault(each.second, []).append(each)
    judged: list[tuple[int, int, int, bool]] = []
    left = _most_that_matter(breaker)
    for second in sorted(seconds, reverse=True):
        rows = seconds[second]
        failures = sum(each.failures for each in rows)
        # What was denied says nothing about the upstream's health, and neither way.
        well = max(0, sum(each.calls - each.denied for each in rows) - failures)
        slow = any(each.slow for each in rows) and sum(each.slow for each in rows) * 2 >= well
        if failures + well > most:
            failures = round(failures * most / (failures + well))
            well = most - failures
        judged.append((second, failures, well, slow))
        left -= failures + well
        if left <= 0:
            break
    for second, failures, well, slow in reversed(judged):
        for failed, count in _runs(failures, well):
            if failed:
                yield float(second), Failed(count=count)
            else:
                yield float(second), Succeeded(_SLOW if slow else 0.0, count=count)


def _most_that_matter(breaker: Breaker) -> float:
    """By so many of the last calls it judges: what came before makes no difference."""
    if breaker.window_seconds is not None:
        return math.inf
    return max(breaker.window_calls, breaker.consecutive_failures or 0)


def _runs(failures: int, well: int) -> Iterator[tuple[bool, int]]:
    """Runs of failures with runs of the others between them, as even as can be."""
    if not failures or not well:
        count = failures + well
        if count:
            yield bool(failures), count
        return
    many = min(failures, well, MOST_RUNS)
    for at in range(many):
        yield True, (at + 1) * failures // many - at * failures // many
        yield False, (at + 1) * well // many - at * well // many
