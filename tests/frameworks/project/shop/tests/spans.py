"""Spans of one test, as a provider of OpenTelemetry's keeps them."""

from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


@contextmanager
def provided(provider):
    """This is the global provider, or there is none, until the end of the block."""
    before, trace._TRACER_PROVIDER = trace._TRACER_PROVIDER, provider
    try:
        yield
    finally:
        trace._TRACER_PROVIDER = before


class Spans:
    """Keeps the spans that end while it is entered."""

    def __init__(self):
        self._kept = InMemorySpanExporter()
        self._provider = TracerProvider(shutdown_on_exit=False)
        self._provider.add_span_processor(SimpleSpanProcessor(self._kept))

    def __enter__(self):
        self._providing = provided(self._provider)
        self._providing.__enter__()
        return self

    def __exit__(self, *error):
        self._providing.__exit__(*error)

    def all(self):
        return list(self._kept.get_finished_spans())

    def one(self, name):
        (found,) = [span for span in self.all() if span.name == name]
        return found

    def traces(self):
        return {span.context.trace_id for span in self.all()}

    def above(self, name):
        """The names of what the span is part of, from the nearest on."""
        by_id = {span.context.span_id: span for span in self.all()}
        found, span = [], self.one(name)
        while span.parent is not None:
            span = by_id[span.parent.span_id]
            found.append(span.name)
        return found


def within(name="web"):
    return trace.get_tracer("shop").start_as_current_span(name)
