"""What seawall says about its work: named events with typed fields.

An event is a value; `emit` is the only place where one becomes a log record. Its name, level and
fields are its contract: docs/events.md lists them, and a test fails when one is missing there.
Records go to the standard `logging` under the name `seawall`, with the fields both in the line
and, for structured handlers, in `record.seawall`. No field holds a secret or an upstream's body.
"""

import dataclasses
import logging
from dataclasses import dataclass
from typing import ClassVar

from seawall.faults import Fault, FaultCode

LOGGER = logging.getLogger("seawall")
LOGGER.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened. Subclasses name it and say how loud it is."""

    name: ClassVar[str]
    level: ClassVar[int]
    meaning: ClassVar[str]

    def fields(self) -> dict[str, object]:
        """The fields that have a value, in the order of their declaration."""
        pairs = ((f.name, getattr(self, f.name)) for f in dataclasses.fields(self))
        return {name: value for name, value in pairs if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEvent(Event):
    """The fields that every event about a failed attempt has."""

    task: str
    attempt: int
    max_attempts: int | None = None
    fault_code: FaultCode
    status: int | None = None
    fingerprint: str
    message: str
    ambiguous: bool = False
    upstream_request_id: str | None = None
    policy: str
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled(AttemptEvent):
    name: ClassVar[str] = "retry_scheduled"
    level: ClassVar[int] = logging.INFO
    meaning: ClassVar[str] = (
        "An attempt failed and will be made again after delay_ms; counts: it used up a try."
    )

    delay_ms: int
    counts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GaveUp(AttemptEvent):
    name: ClassVar[str] = "gave_up"
    level: ClassVar[int] = logging.WARNING
    meaning: ClassVar[str] = "An attempt failed and there will be no other; reason says why."

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMissing(AttemptEvent):
    name: ClassVar[str] = "config_missing"
    level: ClassVar[int] = logging.ERROR
    meaning: ClassVar[str] = "Configuration is missing: every such job fails until it is there."


EVENTS: tuple[type[Event], ...] = (RetryScheduled, GaveUp, ConfigMissing)


def fault_fields(fault: Fault) -> dict[str, object]:
    """A fault in the words of `AttemptEvent`."""
    return {
        "fault_code": fault.code,
        "status": fault.status,
        "fingerprint": fault.fingerprint,
        "message": fault.message,
        "ambiguous": fault.ambiguous,
        "upstream_request_id": fault.request_id,
    }


def emit(event: Event, logger: logging.Logger = LOGGER) -> None:
    """Log the event, if anyone listens at its level."""
    if not logger.isEnabledFor(event.level):
        return
    fields = event.fields()
    words = " ".join(f"{name}={_shown(value)}" for name, value in fields.items())
    extra = {"seawall": {"event": event.name, **fields}}
    logger.log(event.level, "%s %s", event.name, words, extra=extra)


def _shown(value: object) -> str:
    text = str(value)
    plain = text.isprintable() and " " not in text and text
    return text if plain else repr(text)
