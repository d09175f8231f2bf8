"""An attempt in a trace: its span, that of its stage, and that of what it called.

A span tells the end of an attempt only when that is written: until then the job may be another's.
So `AttemptSpan` is begun where the handler is called, and ended by whoever writes, through a
`Finish`. It must not know how an attempt is run, nor how it ends: it is told.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from seawall.model import Settlement
from seawall.store import Advance
from seawall.telemetry import tracing
from seawall.telemetry.call_span import call_facts
from seawall.telemetry.span_words import CALL, HAND_OVER, PROCESS, STAGE, Attr
from seawall.telemetry.trace_context import TraceContext, read

if TYPE_CHECKING:
    from seawall.execute import Work
    from seawall.faults import Fault
    from seawall.store import Ending, Release

LOST = "its lease was lost: what it did is not counted"


def begun(work: "Work") -> "AttemptSpan | None":
    """The attempt's span; None where nobody traces."""
    made_by = tracing.tracer()
    if made_by is None:
        return None
    try:
        return AttemptSpan(work, made_by)
    except Exception:  # noqa: BLE001 - a trace that breaks is no reason not to do the job
        return None


class AttemptSpan:
    """One attempt, from the call of its handler to its end."""

    __slots__ = ("_began_ns", "_entered", "_left_ns", "_made_by", "_span", "_stage", "_work",
                 "context", "text")  # fmt: skip

    def __init__(self, work: "Work", made_by: Any) -> None:
        self._work = work
        self._made_by = made_by
        claim = work.claim
        asked, before = read(claim.trace), read(claim.span)
        parent = before if asked is None or asked.apart else asked
        links = [each._replace(apart=False) for each in (asked, before) if each is not None]
        self._span = tracing.started(
            PROCESS,
            claim.lane.task,
            made_by=made_by,
            parent=parent,
            root=parent is None,
            links=tuple(links),
            values=_facts(work),
        )
        self.context = tracing.context_of(self._span)
        self.text = None if self.context is None else self.context.text
        """As it is kept with the attempt."""
        self._stage: Any = None
        self._entered: tracing.Entered | None = None
        self._began_ns = tracing.now_ns()
        self._left_ns = 0

    @property
    def inner_text(self) -> str | None:
        """The span that its handler runs in, for a process of its own."""
        inner = None if self._stage is None else tracing.context_of(self._stage)
        return self.text if inner is None else inner.text

    def enter(self) -> None:
        """Its handler is about to be called, here."""
        work = self._work
        if len(work.app.tasks[work.claim.lane.task].stages) > 1:
            name = work.current.stage_name
            with suppress(Exception):
                self._stage = tracing.started(
                    STAGE, name, made_by=self._made_by, parent=self._span, values=_stage_facts(work)
                )
        self._entered = tracing.Entered(self._stage or self._span)
        self._entered.enter()
        self._began_ns = tracing.now_ns()

    def leave(self) -> None:
        """Its handler has returned, or raised."""
        self._left_ns = tracing.now_ns()
        if self._entered is not None:
            self._entered.leave()

    def finish(self, write: "Ending | Release") -> "Finish":
        """What is to be told once this is written."""
        return Finish(self, write)

    def end(self, write: "Ending | Release", at_ns: int, *, lost: bool) -> None:
        """It ended so; or, if `lost`, nobody knows."""
        fault = write.fault if isinstance(write, Settlement) else None
        values, error = _came_to(write), None if fault is None else fault.message
        if lost:
            values, error = {Attr.OUTCOME: "lost"}, LOST
        left_ns = min(self._left_ns or at_ns, at_ns)
        inner = {name: values.get(name) for name in (Attr.OUTCOME, Attr.FAULT, Attr.ERROR)}
        stage, self._stage = self._stage, None
        if self._calls_as_a_whole(write):
            above = self._span if stage is None else stage
            self._call(above, fault, inner, error, left_ns)
        if stage is not None:
            tracing.ended(stage, inner, error=error, at_ns=left_ns)
        tracing.ended(self._span, values, error=error, at_ns=at_ns)

    def _calls_as_a_whole(self, write: "Ending | Release") -> bool:
        """Whether the handler is the call: it has begun, and marks none of its own."""
        work = self._work
        return bool(
            work.claim.lane.upstream
            and self._entered is not None
            and work.called
            and not work.current.marks_calls
            and write.duration_seconds is not None
        )

    def _call(
        self, above: Any, fault: "Fault | None", inner: Any, error: str | None, at_ns: int
    ) -> None:
        work = self._work
        values = {**call_facts(work.current.id, work.claim.lane.task, work.claim.lane.upstream),
                  **inner, Attr.BREAKER: work.breaker}  # fmt: skip
        if fault is not None:
            values |= {Attr.STATUS: fault.status, Attr.UPSTREAM_REQUEST: fault.request_id}
        began_ns = min(self._began_ns, at_ns)
        with suppress(Exception):
            span = tracing.started(
                CALL, work.claim.lane.upstream, made_by=self._made_by, parent=above,
                values=values, at_ns=began_ns,
            )  # fmt: skip
            tracing.ended(span, error=error, at_ns=at_ns)


class Finish:
    """How an attempt ended, to be told in its span once that is written."""

    __slots__ = ("_at_ns", "_write", "span")

    def __init__(self, span: AttemptSpan, write: "Ending | Release") -> None:
        self.span = span
        self._write = write
        self._at_ns = tracing.now_ns()

    @property
    def context(self) -> TraceContext | None:
        return self.span.context

    def tell(self, *, lost: bool = False) -> None:
        """It is written; or, if `lost`, it never will be."""
        with suppress(Exception):
            self.span.end(self._write, self._at_ns, lost=lost)


def _facts(work: "Work") -> dict[Attr, object]:
    claim, current = work.claim, work.current
    return {
        Attr.SYSTEM: "seawall",
        Attr.OPERATION: "process",
        Attr.OPERATION_TYPE: "process",
        Attr.QUEUE: claim.lane.queue,
        Attr.MESSAGE: str(current.id),
        Attr.JOB: current.id,
        Attr.TASK: claim.lane.task,
        Attr.RUN: claim.run,
        Attr.STAGE_NUMBER: current.stage,
        Attr.STAGE_NAME: current.stage_name,
        Attr.ATTEMPT: current.attempt,
        Attr.MAX_ATTEMPTS: work.task.policy.max_attempts,
        Attr.SEQ: current.seq,
        Attr.CYCLE: current.cycle,
        Attr.INLINE: work.judge is not None,
        Attr.UPSTREAM: claim.lane.upstream,
        Attr.BREAKER: work.breaker,
        Attr.REQUEST: claim.request_id,
    }


def _stage_facts(work: "Work") -> dict[Attr, object]:
    return {
        Attr.JOB: work.current.id,
        Attr.TASK: work.claim.lane.task,
        Attr.STAGE_NUMBER: work.current.stage,
        Attr.STAGE_NAME: work.current.stage_name,
    }


def _came_to(write: "Ending | Release") -> dict[Attr, object]:
    if isinstance(write, Advance):
        return {Attr.OUTCOME: "advanced", Attr.COUNTS: write.counts}
    if not isinstance(write, Settlement):
        return {Attr.OUTCOME: "released", Attr.COUNTS: False}
    values: dict[Attr, object] = {
        Attr.OUTCOME: str(write.outcome),
        Attr.COUNTS: write.counts,
        Attr.DELAY: write.delay_seconds,
        Attr.POLICY: write.policy,
    }
    if (fault := write.fault) is not None:
        values |= {
            Attr.FAULT: str(fault.code),
            Attr.FINGERPRINT: fault.fingerprint,
            Attr.ERROR: str(fault.code),
            Attr.STATUS: fault.status,
            Attr.UPSTREAM_REQUEST: fault.request_id,
        }
    return values


def handed_over(
    trace: str | None,
    task: str,
    *,
    job_id: int,
    stage: int,
    attempt: int,
    reason: str,
    delay_seconds: float,
) -> TraceContext | None:
    """Tell that workers go on with a job, in the trace in which it was asked for."""
    context, made_by = read(trace), tracing.tracer()
    if context is None or made_by is None:
        return context
    values: dict[Attr, object] = {
        Attr.JOB: job_id,
        Attr.TASK: task,
        Attr.STAGE_NUMBER: stage,
        Attr.ATTEMPT: attempt,
        Attr.REASON: reason,
        Attr.DELAY: delay_seconds,
    }
    with suppress(Exception):
        span = tracing.started(HAND_OVER, task, made_by=made_by, parent=context, values=values)
        tracing.ended(span)
        return tracing.context_of(span)
    return context
