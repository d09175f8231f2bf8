"""Times as people type them: `90s`, `10m`, `1h30m`, `2d`, or a moment in ISO 8601."""

import re
from datetime import UTC, datetime, timedelta

from seawall.errors import ConfigurationError

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(ms|s|m|h|d|w)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")
EXPECTED = "expected a span such as 90s, 10m, 1h30m, 2d, or a moment such as 2026-11-03T14:00Z"


def typed(option: str, text: str) -> datetime | timedelta:
    """What was typed: a span, or a moment, which is in UTC unless it says otherwise."""
    word = text.strip()
    try:
        if _WHOLE.fullmatch(word):
            parts = _PART.findall(word)
            return timedelta(seconds=sum(float(many) * _UNITS[unit] for many, unit in parts))
        moment = datetime.fromisoformat(word)
    except (ValueError, OverflowError):
        raise ConfigurationError(f"{option}: found {text!r:.80}, {EXPECTED}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def before(option: str, text: str, now: datetime) -> datetime:
    """The moment that lies so long before now, or the one named."""
    found = typed(option, text)
    if isinstance(found, datetime):
        return found
    try:
        return now - found
    except OverflowError:
        raise ConfigurationError(f"{option}: {text} ago is before the calendar begins") from None


def lasting(option: str, text: str, now: datetime) -> float:
    """For how many seconds: the span that was typed, or until the moment named."""
    found = typed(option, text)
    seconds = (found - now if isinstance(found, datetime) else found).total_seconds()
    if seconds <= 0:
        gone = "is over already" if isinstance(found, datetime) else "is no time at all"
        raise ConfigurationError(f"{option}: {text} {gone}")
    return seconds
