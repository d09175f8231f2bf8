"""How an upstream did over time, as pictures: how its breaker stood, its calls, what they took."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from markupsafe import Markup

from seawall.store import PhaseSpan, Store, UpstreamBucket, UpstreamPhase
from seawall.web.pages.pictures import Chart, Line, Span, a_minute, band
from seawall.web.pages.wording import span

HOURS = 6
STEP_SECONDS = 300
_KINDS = {
    UpstreamPhase.CLOSED: ("well", "good"),
    UpstreamPhase.OPEN: ("held", "warn"),
    UpstreamPhase.HALF_OPEN: ("being tried", "run"),
    UpstreamPhase.HELD: ("held by hand", "hand"),
    UpstreamPhase.FORCED_CLOSED: ("let through by hand", "sea"),
}


class History(NamedTuple):
    """The last hours of an upstream."""

    hours: int
    phases: Markup
    shut: str
    """For how long nothing was let through, in words; empty where there was no such time."""
    calls: Chart
    took: Chart
    percentiles: list[tuple[str, float | None]]
    """Of all calls of these hours, in seconds."""


def history_of(store: Store, name: str) -> History:
    """What the store remembers of the last hours."""
    now = store.now()
    since = now - timedelta(hours=HOURS)
    found = store.upstream_pace(name, since, step_seconds=STEP_SECONDS)
    phases = store.upstream_phases(name, since)
    times = [each.at.timestamp() for each in found]
    whole = [sum(column) for column in zip(*(each.took for each in found), strict=True)]
    took = type(found[0].took)(whole) if found else None
    shut = sum(
        (_end(each, now) - each.since).total_seconds() for each in phases if each.phase.is_shut
    )
    return History(
        hours=HOURS,
        phases=_band(phases, since, now),
        shut=span(shut) if shut else "",
        calls=Chart("Calls a minute", times, _calls(found, now)),
        took=Chart("How long calls took, in seconds", times, _took(found)),
        percentiles=[
            (word, None if took is None else took.percentile(share))
            for word, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
        ],
    )


def _end(each: PhaseSpan, now: datetime) -> datetime:
    return each.until or now


def _band(phases: Sequence[PhaseSpan], since: datetime, now: datetime) -> Markup:
    spans = [
        Span(each.since.timestamp(), _end(each, now).timestamp(), *_KINDS[each.phase])
        for each in phases
    ]
    name = f"How its breaker stood in the last {HOURS} hours"
    return band(name, since.timestamp(), now.timestamp(), spans)


def _calls(found: Sequence[UpstreamBucket], now: datetime) -> list[Line]:
    calls = [a_minute(each.calls, each.at, STEP_SECONDS, now) for each in found]
    failed = [a_minute(each.failures, each.at, STEP_SECONDS, now) for each in found]
    return [Line("calls", "sea", calls, True), Line("failed", "bad", failed)]


def _took(found: Sequence[UpstreamBucket]) -> list[Line]:
    return [
        Line(word, kind, [_rounded(each.took.percentile(share)) for each in found], unit=" s")
        for word, kind, share in (("p50", "good", 0.5), ("p95", "warn", 0.95), ("p99", "bad", 0.99))
    ]


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)
