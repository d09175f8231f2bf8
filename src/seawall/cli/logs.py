"""Log lines on standard error: for people, or one JSON object a line for programs.

An event of ours comes with its fields (`telemetry`); whatever other loggers say comes as the event
`log`. Lines of others pass through the same sieve for secrets as our own: clients log addresses.
"""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum

from seawall.redact import without_secrets
from seawall.settings import Settings
from seawall.telemetry.event import trace_fields
from seawall.telemetry.log_hooks import passed

OTHERS = "log"
"""The event of a record that is not one of ours."""


class LogFormat(StrEnum):
    """How a log line looks."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """What is not logged: anything below."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class TextFormatter(logging.Formatter):
    """Time, level, and the event with its fields."""

    def format(self, record: logging.LogRecord) -> str:
        time = _time(record).replace(tzinfo=None).isoformat(" ", "milliseconds")
        line, rest = record.getMessage(), ""
        if not hasattr(record, "seawall"):
            said = _of_others(record)
            line = f"{said.get('logger', OTHERS)}: {said.get('message', '')}"
            rest = f"\n{said['traceback']}" if "traceback" in said else ""
        return f"{time}Z {record.levelname:<7} {line}{rest}"


class JsonFormatter(logging.Formatter):
    """One JSON object: time, level, event and its fields."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, object] = {
            "time": _time(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        found = getattr(record, "seawall", None)
        fields = found if isinstance(found, dict) else _of_others(record)
        said |= {name: value for name, value in fields.items() if name not in said}
        return json.dumps(said, ensure_ascii=False, default=str)


@contextmanager
def shown(settings: Settings) -> Iterator[LogFormat]:
    """Log to standard error until the end of the block, as the settings say; warnings, too."""
    style = LogFormat(settings.log_format)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style is LogFormat.JSON else TextFormatter())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(LogLevel(settings.log_level).name)
    logging.captureWarnings(capture=True)
    try:
        yield style
    finally:
        logging.captureWarnings(capture=False)
        root.setLevel(before)
        root.removeHandler(handler)


def _of_others(record: logging.LogRecord) -> dict[str, object]:
    """What another logger said, in fields, as the application's hooks leave them."""
    fields: dict[str, object] = {
        "event": OTHERS,
        "logger": record.name,
        "message": _cleaned(record.getMessage()),
        **trace_fields(),
    }
    if trace := _trace(record):
        fields["traceback"] = trace
    return passed(fields)


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _trace(record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[0] is None:
        return ""
    return _cleaned(logging.Formatter().formatException(record.exc_info))


def _cleaned(text: str) -> str:
    return "\n".join(without_secrets(line) for line in text.splitlines())
