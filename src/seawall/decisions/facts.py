"""Reading facts off an exception that nobody can trust.

An exception is whatever its client made it: attributes may be missing, lie about their type, or
raise when looked at. Everything here answers None rather than raise, reads a bounded amount, and
touches no network: a body is used only where the client has already read it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import Any

from seawall.decisions.retry_after import header_fields, hint_in, parsed_json

MOST_WORDS = 50
LONGEST_TEXT = 8_000
_HTTPX_FOOTNOTE = "\nFor more information check"
_FOOTNOTES = ("\n\nDebug source:", "\n[SQL: ", "\n(Background on this error at")
"""What obstore and SQLAlchemy add for whoever debugs them: structures, statements, parameters."""

_REQUEST_ID_HEADERS = (
    "x-request-id", "request-id", "x-amzn-requestid", "x-amz-request-id", "x-ms-request-id",
    "apim-request-id", "x-goog-request-id", "cf-ray",
)  # fmt: skip


def attribute(value: object, *names: str) -> Any:
    """The attribute at the end of the dotted walk, or None; a mapping's key serves as well."""
    for name in names:
        try:
            value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        except Exception:  # noqa: BLE001 - a property may raise anything
            return None
    return value


def text_of(value: object) -> str | None:
    """The value if it is text that says something."""
    return value[:LONGEST_TEXT] if isinstance(value, str) and value.strip() else None


def told_by(exc: object) -> str:
    """What the exception says of itself; empty where even that fails."""
    try:
        return str(exc)[:LONGEST_TEXT].partition(_HTTPX_FOOTNOTE)[0]
    except Exception:  # noqa: BLE001 - __str__ may raise anything
        return ""


def said_by(exc: object) -> str:
    """What the exception says to people, without what its client adds for its own developers."""
    said = told_by(exc)
    for footnote in _FOOTNOTES:
        said = said.partition(footnote)[0]
    return said


def status_of(exc: object) -> int | None:
    """The HTTP status, wherever this client keeps it."""
    for place in (
        ("status_code",), ("status",), ("response", "status_code"), ("response", "status"),
        ("response", "ResponseMetadata", "HTTPStatusCode"), ("code",), ("http_status",),
    ):  # fmt: skip
        found = attribute(exc, *place)
        if isinstance(found, int) and not isinstance(found, bool) and 100 <= found <= 599:
            return int(found)
    return None


def headers_of(exc: object) -> object:
    """The response's headers, in whatever mapping the client has."""
    for place in (
        ("response", "headers"), ("headers",), ("response", "ResponseMetadata", "HTTPHeaders"),
    ):  # fmt: skip
        found = attribute(exc, *place)
        if found is not None and hasattr(found, "items"):
            return found
    return None


def body_of(exc: object) -> object:
    """The response's body as far as the client has read it, parsed where it is JSON."""
    for place in (("body",), ("details",), ("response", "Error")):
        found = attribute(exc, *place)
        if isinstance(found, dict | list):
            return found
        if isinstance(found, str | bytes):
            return parsed_json(found)
    content = attribute(attribute(exc, "response"), "__dict__", "_content")
    return parsed_json(content) if isinstance(content, str | bytes) else None


def request_id_of(exc: object, fields: Mapping[str, str]) -> str | None:
    """The upstream's own id of the call."""
    for place in (("request_id",), ("response", "ResponseMetadata", "RequestId")):
        found = text_of(attribute(exc, *place))
        if found is not None:
            return found
    return next((fields[name] for name in _REQUEST_ID_HEADERS if fields.get(name)), None)


def error_words(exc: object, body: object) -> Iterator[str]:
    """The machine-readable words by which the upstream names its error, lower case."""
    error = attribute(body, "error") if isinstance(body, dict) else None
    for holder in (exc, error, body):
        for name in ("code", "type", "error_code", "status", "reason"):
            word = attribute(holder, name)
            if isinstance(word, str) and word:
                yield word[:100].lower()
    if isinstance(error, str):
        yield error[:100].lower()


def error_text(body: object) -> str | None:
    """The upstream's one-sentence message, which says more than the client's rendering of it."""
    error = attribute(body, "error") if isinstance(body, dict) else None
    for holder in (error, body):
        for name in ("message", "Message", "detail", "error_description"):
            found = text_of(attribute(holder, name)) if isinstance(holder, dict) else None
            if found is not None:
                return found
    return None


@dataclass(frozen=True, slots=True)
class Facts:
    """What one exception of the chain tells, read once."""

    status: int | None
    request_id: str | None
    retry_after_seconds: float | None
    words: frozenset[str]
    text: str | None
    told_not_to_retry: bool
    body: object


SAYS_NOTHING = Facts(None, None, None, frozenset(), None, told_not_to_retry=False, body=None)
_TELLING = (
    "response", "status_code", "status", "code", "headers", "body", "details", "request_id",
    "type", "error_code", "reason", "http_status",
)  # fmt: skip
"""The attributes that facts are read from: an exception with none of them has none to read."""


_TELLING_SET = frozenset(_TELLING)
_GIVEN_TO = vars(BaseException)["__dict__"].__get__
"""The attributes that an exception was given, past whatever its class says of them."""


def _tells_of_itself(kind: type) -> bool:
    """Whether objects of this class may have telling attributes that they were not given."""
    names = {name for each in kind.__mro__ for name in vars(each)}
    looked_up: object = kind.__getattribute__
    usual = looked_up is BaseException.__getattribute__
    mapping = issubclass(kind, Mapping)
    return mapping or not usual or "__getattr__" in names or not names.isdisjoint(_TELLING)


_tells_again = lru_cache(maxsize=500)(_tells_of_itself)


def _says_nothing(exc: object) -> bool:
    kind = type(exc)
    # A class of a class of its own may answer anything.
    usual = type(kind) is type and issubclass(kind, BaseException)
    if usual and not _tells_again(kind):  # type: ignore[arg-type]
        return _TELLING_SET.isdisjoint(_GIVEN_TO(exc))
    return all(attribute(exc, name) is None for name in _TELLING)


def facts_of(exc: object, *, now: datetime | None = None) -> Facts:
    """Read everything that can be read."""
    if _says_nothing(exc):
        return SAYS_NOTHING
    status, headers, body = status_of(exc), headers_of(exc), body_of(exc)
    pairs = list(header_fields(headers))
    fields = dict(reversed(pairs))
    throttled = status in (429, 503, 529) or status is None
    return Facts(
        status=status,
        request_id=request_id_of(exc, fields),
        retry_after_seconds=hint_in(pairs, body, throttled=throttled, now=now),
        words=frozenset(islice(error_words(exc, body), MOST_WORDS)),
        text=error_text(body),
        told_not_to_retry=fields.get("x-should-retry", "").strip().lower() == "false",
        body=body,
    )
