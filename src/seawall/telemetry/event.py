"""What an event is, and the one place where it becomes a log record."""

import dataclasses
import logging
from dataclasses import dataclass
from typing import ClassVar

from seawall.telemetry import log_hooks
from seawall.telemetry.trace_context import TraceContext
from seawall.telemetry.tracing import current_context

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
        names = _FIELDS.get(self.name) or _field_names(self)
        pairs = [(name, getattr(self, name)) for name in names]
        return {name: value for name, value in pairs if value is not None}


_FIELDS: dict[str, tuple[str, ...]] = {}
"""By event, the names of its fields: looked up once."""


def _field_names(event: Event) -> tuple[str, ...]:
    names = tuple(field.name for field in dataclasses.fields(event))
    return _FIELDS.setdefault(event.name, names)


def emit(
    event: Event, logger: logging.Logger = LOGGER, *, context: TraceContext | None = None
) -> None:
    """Log the event, if anyone listens at its level: without secrets, as the hooks leave it.

    It is said in the span that is current, or in the one of `context`.
    """
    if not logger.isEnabledFor(event.level):
        return
    fields = log_hooks.cleaned(event.fields())
    fields = log_hooks.passed({"event": event.name, **fields, **trace_fields(context)})
    words = " ".join(f"{name}={_shown(value)}" for name, value in fields.items() if name != "event")
    extra = {"seawall": fields}
    # As `logger.log` does, but for looking up who called it: it is always this line.
    what = (logger.name, event.level, __file__, 0, "%s %s", (event.name, words), None)
    logger.handle(logger.makeRecord(*what, "emit", extra))


def trace_fields(context: TraceContext | None = None) -> dict[str, object]:
    """The ids of the span that something is said in, where there is one."""
    found = context or current_context()
    if found is None:
        return {}
    return {"trace_id": f"{found.trace_id:032x}", "span_id": f"{found.span_id:016x}"}


def _shown(value: object) -> str:
    text = "; ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    plain = text.isprintable() and " " not in text and text
    return text if plain else repr(text)
