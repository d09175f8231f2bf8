"""What users may see of a fault: an application's own few codes, and one safe line.

A `PublicMap` turns the canonical codes into the application's. It reads the fault's application
detail first (`INVALID_MAPPING`), then a status, then the code. The line shown is the map's own
sentence for the public code: nothing that an upstream or a stack trace said can leak through it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from seawall.faults import Fault
from seawall.faults import FaultCode as F


@dataclass(frozen=True, slots=True)
class PublicFault:
    """A fault as users see it."""

    code: str
    message: str
    retryable: bool
    retry_after_ms: int | None = None

    def as_json(self) -> dict[str, object]:
        """The shape that web clients read; `retryAfterMs` only where the upstream said when."""
        body: dict[str, object] = {
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable,
        }
        if self.retry_after_ms is not None:
            body["retryAfterMs"] = self.retry_after_ms
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicMap:
    """Canonical codes onto an application's own."""

    name: str
    messages: Mapping[str, str]
    """Every public code, with the one line that users see."""
    codes: Mapping[F, str]
    """One entry for each canonical code."""
    details: Mapping[str, str] = field(default_factory=dict)
    """The application's details that have a code of their own."""
    statuses: Mapping[int, str] = field(default_factory=dict)
    retryable: frozenset[str]
    """The public codes for which trying again makes sense."""
    answers: Mapping[str, int] = field(default_factory=dict)
    """By public code, the HTTP status that users are answered with; 500 where none is named."""

    def __post_init__(self) -> None:
        missing = [code for code in F if code not in self.codes]
        if missing:
            raise ValueError(f"{self.name}: no public code for {', '.join(missing)}")
        named = {
            *self.codes.values(),
            *self.details.values(),
            *self.statuses.values(),
            *self.retryable,
            *self.answers,
        }
        unknown = sorted(named - set(self.messages))
        if unknown:
            raise ValueError(f"{self.name}: no message for {', '.join(unknown)}")

    def http_status(self, code: str) -> int:
        """The HTTP status of an answer that tells of this public code."""
        return self.answers.get(code, 500)

    def view(self, fault: Fault) -> PublicFault:
        """The fault as users may see it."""
        code = self.details.get(fault.detail or "") or self.statuses.get(fault.status or 0)
        code = code or self.codes[fault.code]
        wait = fault.retry_after_seconds
        return PublicFault(
            code=code,
            message=self.messages[code],
            retryable=code in self.retryable and not fault.final,
            retry_after_ms=None if wait is None else round(wait * 1_000),
        )


CONVERTER_CODES = PublicMap(
    name="converter",
    retryable=frozenset({"GW_5XX", "GW_TIMEOUT", "IO_ERROR", "NOT_READY", "UNKNOWN"}),
    messages={
        "NOT_PDF": "This file is not a PDF.",
        "TOO_LARGE": "This file is too large.",
        "GW_4XX": "The converter could not accept this file.",
        "GW_5XX": "The converter is having trouble at the moment.",
        "GW_TIMEOUT": "The converter did not answer in time.",
        "IO_ERROR": "Reading or writing the file failed for a moment.",
        "NOT_READY": "The result is not ready yet.",
        "EXPIRED": "The time for this job has passed.",
        "FORBIDDEN": "You may not see this job.",
        "UNKNOWN": "Something unexpected went wrong.",
    },
    codes={
        F.RATE_LIMITED: "GW_4XX",
        F.QUOTA_EXHAUSTED: "GW_4XX",
        F.TIMEOUT: "GW_TIMEOUT",
        F.UNAVAILABLE: "GW_5XX",
        F.UPSTREAM_ERROR: "GW_5XX",
        F.INVALID_RESPONSE: "GW_4XX",
        F.REFUSED: "GW_4XX",
        F.INVALID_REQUEST: "GW_4XX",
        F.UNAUTHORIZED: "GW_4XX",
        F.NOT_FOUND: "GW_4XX",
        F.NOT_READY: "NOT_READY",
        F.CONFIG_MISSING: "UNKNOWN",
        F.INVALID_INPUT: "GW_4XX",
        F.IO_ERROR: "IO_ERROR",
        F.RESOURCE_EXHAUSTED: "IO_ERROR",
        F.WORKER_LOST: "UNKNOWN",
        F.CANCELLED: "UNKNOWN",
        F.EXPIRED: "EXPIRED",
        F.INTERNAL_ERROR: "UNKNOWN",
        F.UNKNOWN: "UNKNOWN",
    },
    details={
        "NOT_PDF": "NOT_PDF",
        "TOO_LARGE": "TOO_LARGE",
        "FORBIDDEN": "FORBIDDEN",
        "INVALID_MAPPING": "GW_4XX",
        "PARSE_ERROR": "GW_4XX",
        "VALIDATION_ERROR": "GW_4XX",
        "GW_UNAVAILABLE": "GW_5XX",
        "NETWORK_ERROR": "GW_5XX",
        "MEMORY_ERROR": "IO_ERROR",
    },
    statuses={413: "TOO_LARGE"},
    answers={
        "NOT_PDF": 415,
        "TOO_LARGE": 413,
        "GW_4XX": 422,
        "GW_5XX": 502,
        "GW_TIMEOUT": 504,
        "IO_ERROR": 503,
        "NOT_READY": 503,
        "EXPIRED": 410,
        "FORBIDDEN": 403,
    },
)
"""Ten codes of a file converter."""

AI_CODES = PublicMap(
    name="ai",
    retryable=frozenset(
        {
            "RATE_LIMITED",
            "INVALID_UPSTREAM_RESPONSE",
            "TIMEOUT",
            "UPSTREAM_UNAVAILABLE",
            "UPSTREAM_ERROR",
        }
    ),
    messages={
        "RATE_LIMITED": "Too many requests at the moment; please try again shortly.",
        "INVALID_UPSTREAM_RESPONSE": "The model's answer could not be used.",
        "TIMEOUT": "The model did not answer in time.",
        "UPSTREAM_UNAVAILABLE": "The model cannot be reached at the moment.",
        "UPSTREAM_ERROR": "The model's service failed.",
        "CONFIG_MISSING": "The service is not set up completely.",
        "INVALID_REQUEST": "This request cannot be processed.",
        "INTERNAL_ERROR": "Something went wrong on our side.",
        "UNKNOWN": "Something unexpected went wrong.",
    },
    codes={
        F.RATE_LIMITED: "RATE_LIMITED",
        F.QUOTA_EXHAUSTED: "CONFIG_MISSING",
        F.TIMEOUT: "TIMEOUT",
        F.UNAVAILABLE: "UPSTREAM_UNAVAILABLE",
        F.UPSTREAM_ERROR: "UPSTREAM_ERROR",
        F.INVALID_RESPONSE: "INVALID_UPSTREAM_RESPONSE",
        F.REFUSED: "INVALID_REQUEST",
        F.INVALID_REQUEST: "INVALID_REQUEST",
        F.UNAUTHORIZED: "CONFIG_MISSING",
        F.NOT_FOUND: "INVALID_REQUEST",
        F.NOT_READY: "UPSTREAM_UNAVAILABLE",
        F.CONFIG_MISSING: "CONFIG_MISSING",
        F.INVALID_INPUT: "INVALID_REQUEST",
        F.IO_ERROR: "INTERNAL_ERROR",
        F.RESOURCE_EXHAUSTED: "INTERNAL_ERROR",
        F.WORKER_LOST: "INTERNAL_ERROR",
        F.CANCELLED: "UNKNOWN",
        F.EXPIRED: "TIMEOUT",
        F.INTERNAL_ERROR: "INTERNAL_ERROR",
        F.UNKNOWN: "UNKNOWN",
    },
    answers={
        "RATE_LIMITED": 429,
        "INVALID_UPSTREAM_RESPONSE": 502,
        "TIMEOUT": 504,
        "UPSTREAM_UNAVAILABLE": 503,
        "UPSTREAM_ERROR": 502,
        "INVALID_REQUEST": 422,
    },
)
"""Nine codes of an AI service, with `retryable` and `retryAfterMs`."""
