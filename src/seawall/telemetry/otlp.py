"""Sending spans to a collector, for the programs that are ours: `seawall worker`, `seawall serve`
and the processes of isolated tasks.

A library never sets up tracing; a program may, where its environment asks for it and the
application has not. OpenTelemetry's own variables say everything else: where to, with which
headers, how much is sampled, what the service is called.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from seawall.redact import one_line
from seawall.telemetry.event import Event, emit
from seawall.telemetry.fleet import TracingOff, TracingOn

SERVICE = "seawall"
"""What a service is called whose environment does not say."""
FLUSH_SECONDS = 5.0
"""How long a program that ends waits for a collector."""
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_ours: Any = None
"""The provider that was set up here."""
_flushing: threading.Thread | None = None


def exporting() -> Event | None:
    """Have spans sent, where the environment asks for it and nobody else sees to it.

    What is to be said of that, if anything. Asked again, it does nothing.
    """
    global _ours  # noqa: PLW0603 - there is one provider in a process
    endpoint = next((found for name in _ENDPOINTS if (found := os.environ.get(name))), None)
    if endpoint is None or _ours is not None or _is_off():
        return None
    try:
        from opentelemetry import trace  # noqa: PLC0415 - an extra
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError as error:
        reason = f"OpenTelemetry is not installed: pip install 'seawall[otel]' ({error})"
        return TracingOff(reason=one_line(reason))
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None  # the application's own
    try:
        named = {} if _is_named() else {"service.name": SERVICE}
        made = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
        made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    except Exception as error:  # noqa: BLE001 - what its variables say is not ours to judge
        return TracingOff(reason=one_line(f"{type(error).__name__}: {error}"))
    trace.set_tracer_provider(made)
    _ours = made
    return TracingOn(endpoint=one_line(endpoint))


@contextmanager
def exported() -> Iterator[None]:
    """Spans are sent until the end of the block, and what is left then; said in the log."""
    event = exporting()
    if event is not None:
        emit(event)
    try:
        yield
    finally:
        _end()


def _end() -> None:
    """Send what is left, as far as the collector takes it in time."""
    if _ours is None:
        return
    ending = threading.Thread(target=_ours.shutdown, name="seawall-spans", daemon=True)
    ending.start()
    ending.join(FLUSH_SECONDS)


def flush_soon() -> None:
    """Have what is there sent now, whoever set up the provider: this process may be killed."""
    if _flushing is None or not _flushing.is_alive():
        _flush()


def flush() -> None:
    """The same, and wait for it, but not for long."""
    ending = _flush()
    if ending is not None:
        ending.join(FLUSH_SECONDS)


def _flush() -> threading.Thread | None:
    global _flushing  # noqa: PLW0603 - as above
    trace = sys.modules.get("opentelemetry.trace")
    found = None if trace is None else getattr(trace.get_tracer_provider(), "force_flush", None)
    if found is None:
        return None
    _flushing = threading.Thread(target=_flushed, args=(found,), daemon=True)
    _flushing.start()
    return _flushing


def _flushed(flush: Any) -> None:
    with suppress(Exception):
        flush()


def _is_off() -> bool:
    chosen = os.environ.get("OTEL_TRACES_EXPORTER", "otlp")
    names = {name.strip() for name in chosen.split(",")}
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or "otlp" not in names


def _is_named() -> bool:
    more = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return bool(os.environ.get("OTEL_SERVICE_NAME")) or "service.name=" in more
