"""A call at an upstream, in a trace: the block of `with upstream(…):`, seen from outside.

What the block raised is told by its class alone: its words may quote the upstream.
"""

from contextlib import suppress
from typing import Any, Protocol

from seawall.errors import Skip, Snooze
from seawall.telemetry import tracing
from seawall.telemetry.span_words import CALL, Attr


class Knows(Protocol):
    """Who knows the upstream's breaker."""

    def phase(self, upstream: str) -> str: ...


class CallSpan:
    """One call under way; whatever runs in its block runs in its span."""

    __slots__ = ("_entered", "_span")

    def __init__(self, span: Any) -> None:
        self._span = span
        self._entered = tracing.Entered(span)
        self._entered.enter()

    def end(self, error: BaseException | None) -> None:
        """The block is left, so."""
        self._entered.leave()
        if error is None or not isinstance(error, Exception) or isinstance(error, Skip | Snooze):
            tracing.ended(self._span)
        else:
            tracing.ended(self._span, {Attr.ERROR: type(error).__name__}, error="")


def call_facts(job_id: int, task: str, upstream: str) -> dict[Attr, object]:
    """What every call at an upstream has to say."""
    return {Attr.JOB: job_id, Attr.TASK: task, Attr.UPSTREAM: upstream, Attr.PEER: upstream}


def call_begun(job_id: int, task: str, upstream: str, caller: Knows | None) -> CallSpan | None:
    """The call's span, current from now on; None where nobody traces."""
    made_by = tracing.tracer()
    if made_by is None:
        return None
    with suppress(Exception):
        phase = None if caller is None else caller.phase(upstream)
        values = {**call_facts(job_id, task, upstream), Attr.BREAKER: phase}
        return CallSpan(tracing.started(CALL, upstream, made_by=made_by, values=values))
    return None
