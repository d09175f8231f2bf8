"""A tracer provider for one test, which keeps its spans; and a collector that speaks OTLP over HTTP."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once


@contextmanager
def no_provider() -> Iterator[None]:
    """Nobody has set up a provider, until the end of the block; whoever does, does so for it alone."""
    before = trace._TRACER_PROVIDER, trace._TRACER_PROVIDER_SET_ONCE
    trace._TRACER_PROVIDER, trace._TRACER_PROVIDER_SET_ONCE = None, Once()
    try:
        yield
    finally:
        trace._TRACER_PROVIDER, trace._TRACER_PROVIDER_SET_ONCE = before


class Seen:
    """The spans that have ended."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def all(self) -> list[Any]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[Any]:
        """Those of that name, in the order of their beginning."""
        return sorted((s for s in self.all() if s.name == name), key=lambda s: s.start_time)

    def one(self, name: str) -> Any:
        (found,) = self.named(name)
        return found

    def clear(self) -> None:
        self._exporter.clear()


@contextmanager
def traced(**how: Any) -> Iterator[Seen]:
    """A global provider that keeps every span, until the end of the block."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False, **how)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with no_provider():
        trace.set_tracer_provider(provider)
        yield Seen(exporter)


def ids(span: Any) -> tuple[int, int]:
    return span.context.trace_id, span.context.span_id


def links(span: Any) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


class Collector:
    """An OTLP receiver: what it was sent, decoded by OpenTelemetry's own protocol."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                if collector.status == 200:
                    collector.take(body, dict(self.headers), self.path)
                self.send_response(collector.status)
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """It is quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )

    def take(self, body: bytes, headers: dict[str, str], path: str) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )

        assert path == "/v1/traces"
        self.bodies.append(body)
        self.headers.append(headers)
        self.requests.append(ExportTraceServiceRequest.FromString(body))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def spans(self) -> list[Any]:
        """Every span, in the order of their beginning."""
        found = [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        return sorted(found, key=lambda span: span.start_time_unix_nano)

    def services(self) -> set[str]:
        return {
            each.value.string_value
            for request in self.requests
            for resource in request.resource_spans
            for each in resource.resource.attributes
            if each.key == "service.name"
        }

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def told(span: Any) -> dict[str, Any]:
    """A decoded span's attributes."""
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes
    }
