"""The context of a trace, as it travels with a job: W3C's traceparent and tracestate, as one text.

    00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 vendor=value

It is kept and passed on whether OpenTelemetry is there or not, so that a process without it breaks
no trace. What is no context is none: nobody's job fails for a header. An `apart` context is only to
be linked to: each item of a run has a trace of its own.
"""

import re
from typing import NamedTuple

from seawall.redact import holds_secret

LONGEST_STATE = 512
LONGEST_HEADER = 200
_APART = "apart "
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[ -~]*)?")
_STATE = re.compile(r"[!-~]+(?: ?[!-~]+)*")
_NO_VERSION = "ff"
_FIRST_VERSION = "00"


class TraceContext(NamedTuple):
    """A span, as others refer to it."""

    trace_id: int
    span_id: int
    flags: int
    state: str = ""
    apart: bool = False
    """What is done for it belongs to a trace of its own."""

    @property
    def text(self) -> str:
        """As it is kept."""
        parent = f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.flags:02x}"
        state = f" {self.state}" if _is_state(self.state) else ""
        return f"{_APART if self.apart else ''}{parent}{state}"


def read(text: str | None) -> TraceContext | None:
    """What was kept; None where that is no context."""
    if text is None:
        return None
    apart = text.startswith(_APART)
    parent, _, state = text.removeprefix(_APART).partition(" ")
    found = from_headers(parent, state)
    return found._replace(apart=apart) if found is not None else None


def from_headers(traceparent: str | None, tracestate: str | None = None) -> TraceContext | None:
    """What a request's headers say; None where they say nothing that can be relied on."""
    if traceparent is None or len(traceparent) > LONGEST_HEADER:
        return None
    found = _PARENT.fullmatch(traceparent.strip())
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == _NO_VERSION or (version == _FIRST_VERSION and more):
        return None
    if not int(trace_id, 16) or not int(span_id, 16):
        return None
    state = (tracestate or "").strip()
    kept = state if _is_state(state) else ""
    return TraceContext(int(trace_id, 16), int(span_id, 16), int(flags, 16) & 1, kept)


def _is_state(state: str) -> bool:
    """Whether others may be told so: bounded, printable, and nothing that looks like a secret."""
    return (
        0 < len(state) <= LONGEST_STATE
        and _STATE.fullmatch(state) is not None
        and not holds_secret(state)
    )
