"""Spans, where the application has OpenTelemetry set up; nothing at all where it has not.

OpenTelemetry is not imported to find out: who has set up a tracer provider has it loaded, and where
it is not loaded nobody traces. So tracing that is off costs one look into a dictionary. Whose
provider it is does not matter: the global one is used, as every library does.

Whatever breaks in a provider or exporter is its own affair: it never reaches a job.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Self

from seawall.redact import public_name
from seawall.telemetry.span_words import ENQUEUE, ENQUEUE_MANY, Attr, SpanWord
from seawall.telemetry.trace_context import TraceContext, read

_MODULE = "opentelemetry.trace"
_KINDS = {"producer": "PRODUCER", "consumer": "CONSUMER", "client": "CLIENT"}
_BY_NAME = "OTEL_PYTHON_TRACER_PROVIDER" in os.environ
"""Whether the provider is one that OpenTelemetry loads when it is first asked for."""
_known: tuple[object, Any] = (None, None)
"""The provider that was there last, and the tracer that it gave."""
_quiet: ContextVar[bool] = ContextVar("seawall_untraced", default=False)

Values = Mapping[Attr, object]


def api() -> ModuleType | None:
    """OpenTelemetry's own module, where somebody has loaded it."""
    return sys.modules.get(_MODULE)


def tracer() -> Any | None:
    """What makes spans; None where nobody has asked for any."""
    trace = sys.modules.get(_MODULE)
    # The second look is a shortcut of the third, for what has the API loaded and no provider.
    if trace is None or (getattr(trace, "_TRACER_PROVIDER", trace) is None and not _BY_NAME):
        return None
    return _tracer(trace)


def _tracer(trace: ModuleType) -> Any | None:
    global _known  # noqa: PLW0603 - the global provider's tracer is as global
    try:
        provider = trace.get_tracer_provider()
        known, made = _known
        if provider is not known:
            made = _made(trace, provider)
            _known = (provider, made)
    except Exception:  # noqa: BLE001 - half-loaded, or a provider that cannot be loaded
        return None
    return None if made is None or _quiet.get() else made


def _made(trace: ModuleType, provider: Any) -> Any | None:
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    from seawall import __version__  # noqa: PLC0415 - it is whole by now

    made = provider.get_tracer("seawall", __version__)
    return None if isinstance(made, trace.NoOpTracer) else made


@contextmanager
def untraced() -> Iterator[None]:
    """Make no spans until the end of the block: for what only seems to happen."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


# --- contexts ---------------------------------------------------------------------------------


def context_of(span: Any) -> TraceContext | None:
    """The span as others refer to it; None where it is none."""
    try:
        found = span.get_span_context()
        if not found.is_valid:
            return None
        state = found.trace_state.to_header() if found.trace_state else ""
        return TraceContext(found.trace_id, found.span_id, int(found.trace_flags) & 1, state)
    except Exception:  # noqa: BLE001 - somebody's own kind of span
        return None


def current_context() -> TraceContext | None:
    """The span that this code runs in, where there is one."""
    trace = api()
    if trace is None:
        return None
    with suppress(Exception):
        return context_of(trace.get_current_span())
    return None


def remote_span(trace: ModuleType, context: TraceContext) -> Any:
    """A span of somewhere else, to be the parent of spans here."""
    return trace.NonRecordingSpan(_remote(trace, context))


def _remote(trace: ModuleType, context: TraceContext) -> Any:
    state = trace.TraceState.from_header([context.state]) if context.state else None
    return trace.SpanContext(
        context.trace_id,
        context.span_id,
        is_remote=True,
        trace_flags=trace.TraceFlags(context.flags),
        trace_state=state,
    )


# --- spans ------------------------------------------------------------------------------------


def started(
    word: SpanWord,
    subject: str,
    *,
    made_by: Any,
    parent: TraceContext | Any | None = None,
    root: bool = False,
    links: tuple[TraceContext, ...] = (),
    values: Values | None = None,
    at_ns: int | None = None,
) -> Any:
    """A span of that kind, under what is current unless a parent is given."""
    trace = sys.modules[_MODULE]
    context = None
    if root:
        from opentelemetry.context import Context  # noqa: PLC0415 - loaded with what makes spans

        context = Context()
    elif parent is not None:
        above = remote_span(trace, parent) if isinstance(parent, TraceContext) else parent
        context = trace.set_span_in_context(above)
    return made_by.start_span(
        f"{word.name} {subject}" if subject else word.name,
        context=context,
        kind=getattr(trace.SpanKind, _KINDS.get(word.kind, "INTERNAL")),
        attributes=told(values or {}),
        links=[trace.Link(_remote(trace, each)) for each in links],
        start_time=at_ns,
        record_exception=False,  # its message and its traceback are nobody's business
        set_status_on_exception=False,
    )


def told(values: Values) -> dict[str, Any]:
    """Attributes that have a value, as OpenTelemetry takes them."""
    return {
        str(name): value if isinstance(value, bool | int | float) else public_name(str(value))
        for name, value in values.items()
        if value is not None and value != ""
    }


def ended(
    span: Any,
    values: Values | None = None,
    *,
    error: str | None = None,
    at_ns: int | None = None,
) -> None:
    """End the span, with what is known of it by now; `error` is one line, fit for all eyes."""
    with suppress(Exception):
        if span.is_recording():
            if values:
                span.set_attributes(told(values))
            if error is not None:
                trace = sys.modules[_MODULE]
                span.set_status(trace.Status(trace.StatusCode.ERROR, error or None))
        span.end(end_time=at_ns)


class Entered:
    """Makes a span the one that code runs in, from `enter` to `leave`."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: Any) -> None:
        self._span = span
        self._token: Any = None

    def enter(self) -> None:
        """To be called where `leave` will be."""
        from opentelemetry import context  # noqa: PLC0415 - loaded with what makes spans

        with suppress(Exception):
            self._token = context.attach(sys.modules[_MODULE].set_span_in_context(self._span))

    def leave(self) -> None:
        """What was current before is so again."""
        from opentelemetry import context  # noqa: PLC0415 - as above

        token, self._token = self._token, None
        if token is not None:
            with suppress(Exception):
                context.detach(token)


def within(text: str | None) -> Entered | None:
    """What makes code run in a span of another process; loads OpenTelemetry where it is there."""
    context = read(text)
    if context is None:
        return None
    try:
        from opentelemetry import trace  # noqa: PLC0415 - only where somebody traces
    except ImportError:
        return None
    return Entered(remote_span(trace, context))


# --- asking for jobs --------------------------------------------------------------------------


class Asking:
    """Jobs are being asked for, in the block of a `with`; `trace` is what they are to carry."""

    __slots__ = ("_entered", "_span", "trace")

    def __init__(
        self, span: Any = None, *, carried: TraceContext | None = None, apart: bool = False
    ) -> None:
        self._span = span
        self._entered = None if span is None else Entered(span)
        found = (None if span is None else context_of(span)) or carried
        self.trace = None if found is None else found._replace(apart=apart or found.apart).text

    def __enter__(self) -> Self:
        if self._entered is not None:
            self._entered.enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._entered is not None:
            self._entered.leave()
        span, self._span = self._span, None
        if span is None:
            return
        if kind is None:
            ended(span)
        else:
            ended(span, {Attr.ERROR: kind.__name__}, error="")

    def say(self, values: Values) -> None:
        """What has become known."""
        if self._span is not None:
            with suppress(Exception):
                self._span.set_attributes(told(values))

    def of(self, job_id: int | None) -> None:
        """The job that it became."""
        if self._span is not None and job_id is not None:
            self.say({Attr.MESSAGE: str(job_id), Attr.JOB: job_id})

    def forget(self) -> None:
        """Nothing was asked for after all: there will be no span of it."""
        self._span = None


_NOT_TRACED = Asking()


def asking(
    task: str,
    queue: str,
    *,
    request_id: str | None = None,
    parent: TraceContext | None = None,
) -> Asking:
    """One job is asked for, in the span that is current, or else for this parent."""
    parent = None if current_context() is not None else parent
    made_by = tracer()
    if made_by is None:
        return _untraced(parent)
    values: Values = {
        Attr.SYSTEM: "seawall",
        Attr.OPERATION: "enqueue",
        Attr.OPERATION_TYPE: "send",
        Attr.QUEUE: queue,
        Attr.TASK: task,
        Attr.REQUEST: request_id,
    }
    with suppress(Exception):
        return Asking(started(ENQUEUE, task, made_by=made_by, parent=parent, values=values))
    return _untraced(parent)


def asking_many(*, run: int | None = None) -> Asking:
    """Many jobs are asked for; the items of a run will have traces of their own."""
    made_by = tracer()
    if made_by is None:
        return _untraced(None, apart=run is not None)
    values: Values = {
        Attr.SYSTEM: "seawall",
        Attr.OPERATION: "enqueue",
        Attr.OPERATION_TYPE: "send",
        Attr.RUN: run,
    }
    with suppress(Exception):
        span = started(ENQUEUE_MANY, "", made_by=made_by, values=values)
        return Asking(span, apart=run is not None)
    return _untraced(None)


def _untraced(parent: TraceContext | None, *, apart: bool = False) -> Asking:
    """Without spans of our own, whoever is upstream of us is carried on."""
    carried = parent or current_context()
    return _NOT_TRACED if carried is None else Asking(carried=carried, apart=apart)


def now_ns() -> int:
    """The time as spans have it."""
    return time.time_ns()
