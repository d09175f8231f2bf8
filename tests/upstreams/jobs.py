"""The application of the worker processes: tasks that call the server, one for each upstream.

A task, its upstream and the service that it calls have the same name. Each upstream's declaration
is one test's: short times, and otherwise what its docstring needs.
"""

import asyncio
import os
import time
import urllib.request
from typing import Any

from seawall import (
    Backoff,
    FaultError,
    Limits,
    Policy,
    RetryBudget,
    Rule,
    Seawall,
    Upstream,
    breaker,
    current_job,
    upstream,
)

CALL_SECONDS = 10.0
"""How long a call may take, where a test has no reason to make it shorter."""

Breaker = breaker.Breaker

_SOON = Backoff(curve="fixed", base_seconds=0.3)
_FREE = Rule(on=("WORKER_LOST", "RATE_LIMITED"), max_attempts=1_000, counts=False, backoff=_SOON)
THREE = Policy(name="three", max_attempts=3, rules=(_FREE, Rule(on="all", backoff=_SOON)))
MANY = Policy(name="many", max_attempts=30, rules=(_FREE, Rule(on="all", backoff=_SOON)))
STRICT = Policy(
    name="strict",
    max_attempts=3,
    rules=(_FREE, Rule(on="UNAUTHORIZED", retry=False), Rule(on="all", backoff=_SOON)),
)

app = Seawall(policies=(THREE, MANY, STRICT), policy="three")


def _opens_for(base_seconds: float, cap_seconds: float) -> Backoff:
    return Backoff(curve="exponential", base_seconds=base_seconds, cap_seconds=cap_seconds)


SHORT = _opens_for(0.5, 2.0)


# --- calling --------------------------------------------------------------------------------------

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _headers(tag: str) -> dict[str, str]:
    job = current_job()
    return {
        "x-job": str(job.id),
        "x-seq": str(job.seq),
        "x-worker": str(os.getpid()),
        "x-tag": tag,
        "x-sent": str(time.monotonic()),
    }


def get(name: str, tag: str) -> None:
    """Call that service; whatever urllib raises where it does not answer well."""
    request = urllib.request.Request(f"{os.environ['UPSTREAM_URL']}/{name}", headers=_headers(tag))  # noqa: S310
    with _OPENER.open(request, timeout=CALL_SECONDS) as answer:
        answer.read()


async def aget(name: str, tag: str) -> None:
    """The same for async handlers, without a time limit of its own."""
    host, port = os.environ["UPSTREAM_URL"].removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        lines = [f"GET /{name} HTTP/1.1", *(f"{n}: {v}" for n, v in _headers(tag).items())]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        _, status, *_ = (await reader.readuntil(b"\r\n")).decode().split(" ")
    finally:
        writer.close()
    if status != "200":
        raise FaultError("UPSTREAM_ERROR", f"it answered {status}", status=int(status))


def calls(name: str, *, policy: Policy = THREE) -> Any:
    """A task that calls the upstream of its name, in a thread."""

    def call(tag: str = "") -> None:
        get(name, tag)

    return app.task(name=name, upstream=name, policy=policy)(call)


# --- upstreams and their tasks --------------------------------------------------------------------
# Where nothing else is said there is no retry budget: one that makes the last few jobs wait for
# their turn would make every test as long as that.


def declared(name: str, **how: Any) -> None:
    app.upstream(Upstream(name, **{"retry_budget": None, **how}))


app.upstream(Upstream("a", breaker=Breaker(open=SHORT, ramp_seconds=3)))
a = calls("a")
b = calls("b")  # as an upstream is that nobody has declared

declared("flaps", breaker=Breaker(open=_opens_for(0.3, 1.0), ramp_seconds=0.5))
flaps = calls("flaps", policy=MANY)

declared("sick", breaker=Breaker(open=SHORT, ramp_seconds=1))
sick = calls("sick")

declared("keyed", breaker=Breaker(open=SHORT, ramp_seconds=0))


@app.task(upstream=lambda tag: f"keyed:{tag}")
def keyed(tag: str) -> None:
    get("keyed", tag)


declared("slow", breaker=Breaker(open=SHORT, ramp_seconds=1))


@app.task(upstream="slow", timeout_seconds=0.7)
async def slow(tag: str = "") -> None:
    await aget("slow", tag)


declared("shaky")
shaky = calls("shaky", policy=MANY)

declared("poisoned")
poisoned = calls("poisoned")

declared("single", breaker=Breaker(open=SHORT, ramp_seconds=1))
single = calls("single", policy=MANY)

declared("probed", breaker=Breaker(open=SHORT, ramp_seconds=1))
probed = calls("probed", policy=MANY)

declared("probes", breaker=Breaker(open=SHORT, probes=3, successes_to_close=6, ramp_seconds=1))
probes = calls("probes", policy=MANY)

declared("throttled", breaker=Breaker(ramp_seconds=1))
throttled = calls("throttled")

declared("narrow", concurrency=6)
narrow = calls("narrow")

declared("metered", per_minute={"requests": 1_200})
metered = calls("metered")

declared("weighed", concurrency=12, per_minute={"tokens": 12_000})


@app.task(upstream="weighed")
async def weighed(tag: str) -> None:
    """Calls for so many tokens."""
    async with upstream("weighed").reserve(tokens=float(tag)):
        await aget("weighed", tag)


declared("shared", concurrency=4, each_owner=Limits(concurrency=3))
shared = calls("shared")

declared(
    "budgeted",
    retry_budget=RetryBudget(share=0.1, floor_per_second=0.5, window_seconds=5),
)
budgeted = calls("budgeted", policy=MANY)

locked = calls("locked", policy=STRICT)
