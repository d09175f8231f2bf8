"""How long an upstream asked us to wait, in every dialect that is spoken.

A hint is a lower bound in seconds. Several may stand in one response; the largest valid one is
kept. Rubbish is no hint: NaN, infinities, negatives, digits without end. A date is measured
against the response's own `Date`, because the two come from the same clock and ours may be wrong;
only a response without one is measured against `now`. Nothing here raises or cuts a hint down.

    explicit, on any response            with a throttling response only
    Retry-After: 30 | 1.5 | HTTP date    x-ratelimit-reset*: 6m0s | 12ms | 30 | epoch
    retry-after-ms: 1500                 anthropic-ratelimit-*-reset: RFC 3339
    x-amz-retry-after: 1500 (ms)         ratelimit-reset: 30
    grpc-retry-pushback-ms: 1500         RateLimit: …;t=30
    body: RetryInfo.retryDelay "53s", retry_after, retry_after_ms
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeVar

from seawall.faults import LONGEST_WAIT_SECONDS

T = TypeVar("T")

LONGEST_NUMBER = 1e9
"""Larger numbers are no seconds to wait, but epochs."""
LONGEST_EPOCH = 1e11
LONGEST_VALUE = 64
LONGEST_BODY = 65_536
MOST_NODES = 2_000

_NUMBER = re.compile(r"[+-]?(?:\d{1,16}(?:\.\d{0,16})?|\.\d{1,16})(?:[eE][+-]?\d{1,3})?", re.ASCII)
_UNIT_SECONDS = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3,
    "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0,
}  # fmt: skip
_DURATION_PART = re.compile(r"(\d{1,16}(?:\.\d{0,16})?)(ns|us|µs|μs|ms|s|m|h|d)", re.ASCII)
_RESET_NAME = re.compile(
    r"(?:x-)?rate-?limit-reset(?:-[a-z-]{1,40})?|[a-z]{1,20}-ratelimit-[a-z-]{1,40}-reset"
)
_RATELIMIT_FIELD = re.compile(r";\s*t=(\d{1,10})\b")


def hint_seconds(
    headers: object = None,
    body: object = None,
    *,
    throttled: bool = True,
    now: datetime | None = None,
) -> float | None:
    """The longest wait that the headers or the body ask for; None where they ask for none.

    `headers` is any mapping or iterable of pairs, `body` is text, bytes or parsed JSON. Set
    `throttled` to false for a response that is no throttling one: many upstreams state when their
    limits reset on every answer, and that is no request to wait.
    """
    return hint_in(header_fields(headers), body, throttled=throttled, now=now)


def hint_in(
    pairs: Iterable[tuple[str, str]], body: object, *, throttled: bool, now: datetime | None
) -> float | None:
    """As `hint_seconds`, for header fields that have already been read."""
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        if name == "date" or "retry" in name or "limit" in name:
            fields.setdefault(name, []).extend((value, *value.split(",", MOST_NODES)))
    # Clients join repeated fields with a comma, which is also part of an HTTP date: so each value
    # is read as a whole and in its parts.
    date = next(filter(None, map(_date, fields.get("date", ()))), now)
    found = [
        *_explicit(fields, date),
        *(_resets(fields, date) if throttled else ()),
        *_whatever_can_be_read(_in_body(body)),
    ]
    return max((wait for wait in found if wait is not None and _is_wait(wait)), default=None)


def duration_seconds(text: str) -> float | None:
    """A Go or protobuf duration (`1h2m3.5s`, `12ms`, `53s`) in seconds."""
    text = text.strip()
    parts = _DURATION_PART.findall(text) if len(text) <= LONGEST_VALUE else ()
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)


def _is_wait(seconds: float) -> bool:
    return math.isfinite(seconds) and 0 < seconds <= LONGEST_WAIT_SECONDS


def _whatever_can_be_read(items: Iterator[T]) -> Iterator[T]:
    """The items up to the first that raises: headers and bodies are whatever a client made them."""
    try:
        yield from items
    except Exception:  # noqa: BLE001 - see above
        return


def _explicit(fields: Mapping[str, list[str]], date: datetime | None) -> Iterator[float | None]:
    for value in fields.get("retry-after", ()):
        yield _delta_or_moment(value, date)
    for name in ("retry-after-ms", "x-amz-retry-after", "grpc-retry-pushback-ms"):
        for milliseconds in map(_number, fields.get(name, ())):
            yield None if milliseconds is None else milliseconds / 1_000


def _resets(fields: Mapping[str, list[str]], date: datetime | None) -> Iterator[float | None]:
    for name, values in fields.items():
        if _RESET_NAME.fullmatch(name):
            for value in values:
                yield _delta_or_moment(value, date)
    for value in fields.get("ratelimit", ()):
        yield from map(float, _RATELIMIT_FIELD.findall(value[:1_000]))


def _delta_or_moment(text: str, date: datetime | None) -> float | None:
    """Seconds, a duration, an epoch or a date: whatever stands there, as a wait."""
    number = _number(text)
    if number is not None:
        return number if abs(number) <= LONGEST_NUMBER else _since(_epoch(number), date)
    duration = duration_seconds(text)
    return duration if duration is not None else _since(_date(text), date)


def _number(text: str) -> float | None:
    text = text.strip()
    return float(text) if len(text) <= LONGEST_VALUE and _NUMBER.fullmatch(text) else None


def _epoch(number: float) -> datetime | None:
    seconds = number / 1_000 if number > LONGEST_EPOCH else number
    return _or_none(lambda: datetime.fromtimestamp(seconds, UTC))


def _since(moment: datetime | None, date: datetime | None) -> float | None:
    if moment is None or date is None:
        return None
    gap = _or_none(lambda: moment - date)
    return None if gap is None else gap.total_seconds()


def _date(text: str) -> datetime | None:
    """An HTTP date in any of its three forms, or an RFC 3339 time; always aware."""
    text = text.strip()
    if not text or len(text) > LONGEST_VALUE:
        return None
    moment = _or_none(lambda: datetime.fromisoformat(text)) if text[:1].isdigit() else None
    if moment is None:
        from email.utils import parsedate_to_datetime  # noqa: PLC0415 - slow to import, rarely needed

        moment = _or_none(lambda: parsedate_to_datetime(text))
    if moment is None:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _or_none(make: Callable[[], T]) -> T | None:
    try:
        return make()
    except (ValueError, TypeError, OverflowError, OSError, IndexError, AttributeError):
        return None


def header_fields(headers: object) -> Iterator[tuple[str, str]]:
    """The headers as lower-case names and text, as far as they can be read."""
    return _whatever_can_be_read(_fields(headers))


def _fields(headers: object) -> Iterator[tuple[str, str]]:
    """Every field; a name may stand there several times."""
    items = getattr(headers, "items", None)
    pairs: Any = items() if callable(items) else headers or ()
    for name, value in islice(pairs, MOST_NODES):
        field = _text(name)[:LONGEST_BODY].strip().lower()
        for one in islice(value, MOST_NODES) if isinstance(value, list | tuple) else (value,):
            yield field, _text(one)[:LONGEST_BODY]


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value[:LONGEST_BODY].decode("latin-1")
    if isinstance(value, str):
        return str.__str__(value)  # a subclass's own methods are not to be trusted
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value) if abs(value) < LONGEST_EPOCH * 1_000 else ""
    return ""


def parsed_json(body: object) -> object:
    """The body parsed where it is JSON text of bearable length; itself where it is no text."""
    if isinstance(body, bytes | bytearray):
        body = bytes(body[:LONGEST_BODY]).decode("utf-8", "replace")
    if not isinstance(body, str):
        return body
    if len(body) > LONGEST_BODY or body.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


_BODY_SECONDS = frozenset({"retrydelay", "retryafter", "retryafterseconds"})
_BODY_MILLISECONDS = frozenset({"retryafterms"})


def _in_body(body: object) -> Iterator[float | None]:
    """Every wait named in parsed JSON, however deep it stands."""
    waiting: list[object] = [parsed_json(body)]
    for _ in range(MOST_NODES):
        if not waiting:
            return
        node = waiting.pop()
        if isinstance(node, list | tuple):
            waiting.extend(islice(node, MOST_NODES))
        elif isinstance(node, dict):
            for key, value in islice(node.items(), MOST_NODES):
                name = re.sub("[_-]", "", _text(key)[:LONGEST_VALUE]).lower()
                if name in _BODY_SECONDS:
                    yield _body_wait(value)
                elif name in _BODY_MILLISECONDS:
                    wait = _body_wait(value)
                    yield None if wait is None else wait / 1_000
                elif isinstance(value, dict | list | tuple):
                    waiting.append(value)


def _body_wait(value: object) -> float | None:
    if isinstance(value, dict):  # a protobuf duration that was not turned into text
        seconds, nanos = _number(_text(value.get("seconds"))), _number(_text(value.get("nanos")))
        return None if seconds is None else seconds + (nanos or 0.0) * 1e-9
    text = _text(value)
    return _number(text) if _number(text) is not None else duration_seconds(text)
