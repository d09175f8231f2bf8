"""How values read on a page: times, spans, numbers, shares, JSON.

A time is told from now, with the moment itself beside it for whoever points at it; a script, where
there is one, tells both in the viewer's own zone and keeps them true.
"""

import json
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any

from markupsafe import Markup, escape

from seawall.decisions.explain import in_words
from seawall.redact import public_name
from seawall.store import LetterGroup

LONGEST_JSON = 20_000
"""Characters of a payload that a page shows; the API has all of it."""
_NEVER = Markup('<span class="soft">–</span>')


def count(number: float | None) -> str:
    """A number with its thousands apart; large ones to three digits."""
    if number is None:
        return "–"
    if number >= 10_000_000:
        return f"{number / 1_000_000:,.1f} M"
    return f"{number:,.0f}"


def share(part: float | None, digits: int = 1) -> str:
    return "–" if part is None else f"{part:.{digits}%}"


def span(seconds: float | timedelta | None) -> str:
    """A span of time, in words."""
    if seconds is None:
        return "–"
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    if 0 < seconds < 1:
        return f"{seconds * 1000:.3g} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"
    return in_words(round(seconds, 1 if seconds < 60 else 0))


def short(seconds: float) -> str:
    """A span in one unit, as there is little room for."""
    seconds = abs(seconds)
    for size, unit in ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def brief(seconds: float) -> str:
    """A span in one unit, to two digits: for pictures."""
    for size, unit in ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= (2 * size if unit in {"d", "min"} else size):
            part = seconds / size
            return (
                f"{part:.0f} {unit}"
                if part >= 9.95
                else f"{part:.1f}".removesuffix(".0") + f" {unit}"
            )
    return f"{seconds * 1000:.0f} ms" if seconds else "0"


def about(seconds: float) -> str:
    """A span that nobody knows exactly, in words."""
    for most, step in ((60.0, 5), (7_200.0, 60), (172_800.0, 600)):
        if seconds < most:
            return in_words(max(step, round(seconds / step) * step))
    return in_words(round(seconds / 3_600) * 3_600)


def amount(number: float | None) -> str:
    """What something cost, in whatever it is counted in."""
    return "–" if number is None else f"{number:,.6g}"


def when(moment: datetime | None, now: datetime) -> Markup:
    """A time as told from now; the moment itself is its title."""
    if moment is None:
        return _NEVER
    away = (moment - now).total_seconds()
    told = f"in {short(away)}" if away > 0 else f"{short(away)} ago"
    if abs(away) < 1:
        told = "now"
    utc = moment.astimezone(UTC)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        utc.isoformat(timespec="milliseconds"), f"{utc:%Y-%m-%d %H:%M:%S} UTC", told
    )


def exact(moment: datetime | None) -> Markup:
    """A moment, to the second; a script puts it into the viewer's zone."""
    if moment is None:
        return _NEVER
    utc = moment.astimezone(UTC)
    return Markup('<time class="exact" datetime="{}">{}</time>').format(
        utc.isoformat(timespec="milliseconds"), f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    )


def as_json(value: Any) -> Markup:
    """A value as JSON that people can read, cut where it is too long for a page."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    if len(text) <= LONGEST_JSON:
        return escape(text)
    return escape(text[:LONGEST_JSON]) + Markup(
        '\n<span class="soft">… {} more characters: the API has all of it</span>'
    ).format(f"{len(text) - LONGEST_JSON:,}")


def many(number: int, word: str, words: str = "") -> str:
    """So many of something: `1 job`, `1,204 jobs`."""
    return f"{number:,} {word if number == 1 else words or word + 's'}"


def title_of(group: LetterGroup) -> str:
    """What the letters of a group say alike: where their messages differ stands an ellipsis."""
    messages = [each.fault.message.split() for each in group.samples]
    if not messages:
        return group.fingerprint
    first, *others = messages
    if any(len(other) != len(first) for other in others):
        return " ".join(first)
    words = [
        word if all(other[at] == word for other in others) else _alike([m[at] for m in messages])
        for at, word in enumerate(first)
    ]
    return " ".join(words)


def _alike(words: list[str]) -> str:
    """The beginning and the end that words have in common, around an ellipsis."""
    begin = _beginning(words)
    end = _beginning([word[len(begin) :][::-1] for word in words])[::-1]
    return f"{begin.rstrip('0123456789')}…{end.lstrip('0123456789')}"


def _beginning(words: list[str]) -> str:
    columns = takewhile(lambda signs: len(set(signs)) == 1, zip(*words, strict=False))
    return "".join(signs[0] for signs in columns)


FILTERS = {
    "count": count,
    "share": share,
    "span": span,
    "exact": exact,
    "as_json": as_json,
    "amount": amount,
    "public": public_name,
}
