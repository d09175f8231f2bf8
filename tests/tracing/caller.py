"""A program that sets up tracing as its own docs say, and calls a job now.

python -m tests.tracing.caller SECRET
"""

import json
import sys

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tests.tracing.jobs import app, reports


def main() -> None:
    provider = TracerProvider(resource=Resource.create({"service.name": "web"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    with trace.get_tracer("web").start_as_current_span("POST /reports"):
        answer = reports.using(request_id="r-7").call_or_enqueue(sys.argv[1])
    sys.stdout.write(json.dumps({"answer": type(answer).__name__, "job": answer.job.id}))
    app.close()
    provider.shutdown()


if __name__ == "__main__":
    main()
