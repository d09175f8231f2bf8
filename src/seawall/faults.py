"""What can go wrong, in one closed set of words.

A `FaultCode` is the canonical word; a `Fault` is one occurrence of it. Whatever a client raised,
policies, breakers, dead letters and pages see only these. This module must not know any client
(`decisions/classify.py` does) nor what a policy makes of a code (`decisions/policy.py` does).
"""

import math
import re
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Self

from seawall.redact import fingerprint, holds_secret, one_line


class FaultCode(StrEnum):
    """Every way an upstream or a worker fails.

    `meaning` says it in words. `speaks_of_upstream` is true where the fault is evidence about
    the upstream's health, and so feeds its breaker; the others count neither for nor against it.
    """

    meaning: str
    speaks_of_upstream: bool

    def __new__(cls, value: str, meaning: str = "", speaks_of_upstream: bool = False) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        member.speaks_of_upstream = speaks_of_upstream
        return member

    RATE_LIMITED = (
        "RATE_LIMITED",
        "The upstream is well and says: slower. It is throttling, not failing.",
    )
    QUOTA_EXHAUSTED = (
        "QUOTA_EXHAUSTED",
        "The paid or granted allowance is used up; waiting seconds will not bring it back.",
    )
    TIMEOUT = (
        "TIMEOUT",
        "No answer in time. The call may have been carried out, and billed.",
        True,
    )
    UNAVAILABLE = (
        "UNAVAILABLE",
        "The upstream cannot be reached, dropped the connection, or says it is overloaded (529).",
        True,
    )
    UPSTREAM_ERROR = (
        "UPSTREAM_ERROR",
        "The upstream answered that it failed (5xx).",
        True,
    )
    INVALID_RESPONSE = (
        "INVALID_RESPONSE",
        "The answer came but cannot be used: no JSON, a broken schema, cut off half-way.",
    )
    REFUSED = (
        "REFUSED",
        "The upstream understood and declined: content filter, policy, safety.",
    )
    INVALID_REQUEST = (
        "INVALID_REQUEST",
        "The upstream says the request is wrong (4xx); the same request will be wrong again.",
    )
    UNAUTHORIZED = (
        "UNAUTHORIZED",
        "Credentials, permissions or a certificate were not accepted, ours or theirs.",
    )
    NOT_FOUND = (
        "NOT_FOUND",
        "What the job names is not there: object, file, record.",
    )
    NOT_READY = (
        "NOT_READY",
        "Not there yet, or busy with it: still scanning, locked, conflicting with another call.",
    )
    CONFIG_MISSING = (
        "CONFIG_MISSING",
        "A key, credential or database that the worker needs is not configured. Also an alert.",
    )
    INVALID_INPUT = (
        "INVALID_INPUT",
        "The job's own input cannot be worked on: unsupported kind, corrupt, violates a rule.",
    )
    IO_ERROR = (
        "IO_ERROR",
        "Temporary trouble with a disk, object store or database: busy, locked, interrupted.",
    )
    RESOURCE_EXHAUSTED = (
        "RESOURCE_EXHAUSTED",
        "This side has run out of something: memory, disk, connections, file handles.",
    )
    WORKER_LOST = (
        "WORKER_LOST",
        "The worker died, or lost its lease, before it wrote how the attempt ended.",
    )
    CANCELLED = (
        "CANCELLED",
        "A person or a shutdown stopped it. Neither success nor failure.",
    )
    EXPIRED = (
        "EXPIRED",
        "Its deadline passed before it could finish.",
    )
    INTERNAL_ERROR = (
        "INTERNAL_ERROR",
        "A bug: the code itself raised something that no upstream causes.",
    )
    UNKNOWN = (
        "UNKNOWN",
        "Nothing is known about this exception. Register a classifier for it.",
    )


def code_named(name: object) -> FaultCode:
    """The code of that name; `ValueError`, with the nearest, where there is none."""
    if isinstance(name, str) and name in FaultCode.__members__:
        return FaultCode[name]
    near = get_close_matches(str(name).upper(), FaultCode.__members__, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(FaultCode)}"
    raise ValueError(f"no fault code {name!r}; {hint}")


FINAL_CODES = frozenset({FaultCode.CANCELLED, FaultCode.EXPIRED})
"""Codes that no policy retries: a person or a deadline has already decided."""

LONGEST_ID = 200
LONGEST_WAIT_SECONDS = 1e10
_NOT_IN_AN_ID = re.compile(r"[^\w.:/+=@-]", re.ASCII)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that went wrong, fit to be stored, logged and shown.

    Whoever makes one, its message is one redacted line and its fingerprint is set: two faults
    with the same fingerprint are the same trouble, whatever ids and numbers they mention.
    """

    code: FaultCode
    message: str = ""
    status: int | None = None
    retry_after_seconds: float | None = None
    """The wait the upstream asked for; a lower bound, never cut down."""
    request_id: str | None = None
    """The upstream's own id of the call, for its support desk."""
    ambiguous: bool = False
    """The call may have been carried out (and billed) although no success was seen."""
    detail: str | None = None
    """The application's own word for it, read by public code maps."""
    final: bool = False
    """The upstream said in so many words not to try again."""
    kinds: tuple[str, ...] = ()
    """Names of the exception's classes, most specific first: `openai.RateLimitError`, …"""
    fingerprint: str = ""

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "code", code_named(self.code))
        put(self, "message", one_line(self.message) or self.code.meaning)
        put(self, "retry_after_seconds", _valid_wait(self.retry_after_seconds))
        if self.request_id is not None:
            cleaned = _NOT_IN_AN_ID.sub("", self.request_id[:LONGEST_ID])
            put(self, "request_id", None if holds_secret(cleaned) else cleaned or None)
        if self.detail is not None:
            put(self, "detail", one_line(self.detail, longest=LONGEST_ID) or None)
        if not self.fingerprint:
            kind = self.kinds[0] if self.kinds else ""
            put(self, "fingerprint", fingerprint(self.message, self.code, self.status, kind))

    def __str__(self) -> str:
        status = "" if self.status is None else f" {self.status}"
        return f"{self.code}{status}: {self.message}"


def _valid_wait(seconds: float | None) -> float | None:
    """A wait is a number of seconds, above zero and bearable; anything else is no hint at all."""
    try:
        wait = float(seconds) if isinstance(seconds, int | float) else math.nan
    except OverflowError:  # an integer beyond all floats
        return None
    return wait if 0 < wait <= LONGEST_WAIT_SECONDS else None
