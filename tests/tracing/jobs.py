"""An application whose jobs are traced, in processes of their own."""

import os

from opentelemetry import trace

from seawall import Backoff, FaultError, Policy, Rule, Seawall, current_job, stage, upstream

app = Seawall(
    os.environ.get("SEAWALL_URL"),
    policies=[
        Policy(
            name="soon",
            max_attempts=5,
            rules=(Rule(on="all", backoff=Backoff(curve="fixed", base_seconds=0.05)),),
        )
    ],
    poll_seconds=0.1,
)


@stage(policy="soon", upstream="source")
def fetch(secret: str) -> str:
    """It fails at its caller's, and once at a worker's."""
    if current_job().seq == 1:
        raise FaultError("RATE_LIMITED", f"slow down, password={secret}", status=429)
    if current_job().seq == 2:
        raise FaultError("TIMEOUT", f"no answer for token={secret}", request_id="req-77")
    return "fetched"


@stage(policy="soon")
async def store(text: str) -> str:
    with trace.get_tracer("application").start_as_current_span("resize"):
        async with upstream("bucket"):
            return text


reports = app.pipeline("reports", [fetch, store], http=True)


@app.task(isolated=True)
def apart(number: int) -> int:
    with trace.get_tracer("application").start_as_current_span("count"):
        after.enqueue()
        return number


@app.task
def after() -> None:
    """It does nothing."""


@app.task(http=True)
def add(a: int, b: int) -> int:
    return a + b
