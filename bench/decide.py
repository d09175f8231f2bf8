"""What a decision costs, beside tenacity's wait functions: `make bench`.

Each line is the best of several rounds, in microseconds for one call; compare lines of one run,
not runs. tenacity computes a wait from a retry state that already exists; seawall's `decide` also
chooses the rule, checks allowances and time, and honours Retry-After.
"""

import random
import timeit

import httpx2
import openai
import tenacity
from rich.console import Console
from rich.table import Table

from seawall import Fault, FaultCode, classify, presets
from seawall.decisions.breaker import Breaker, BreakerState, Failed, Succeeded, step

ROUNDS, CALLS = 7, 5_000


def microseconds(function):
    return min(timeit.repeat(function, number=CALLS, repeat=ROUNDS)) / CALLS * 1e6


def retry_state():
    state = tenacity.RetryCallState(retry_object=tenacity.Retrying(), fn=None, args=(), kwargs={})
    state.attempt_number = 2
    return state


def real_errors():
    """A real 429 of the openai client with its usual headers, and a refused connection, wrapped."""
    headers = {
        "retry-after": "20", "x-request-id": "req_1", "content-type": "application/json",
        "x-ratelimit-limit-requests": "500", "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "120ms", "x-ratelimit-limit-tokens": "30000",
        "x-ratelimit-remaining-tokens": "29000", "x-ratelimit-reset-tokens": "6m0s",
        "date": "Mon, 16 Nov 2026 03:00:00 GMT", "server": "cloudflare", "cf-ray": "8e3a1b",
        "openai-organization": "acme", "openai-processing-ms": "12", "openai-version": "2020-10-01",
        "alt-svc": "h3", "connection": "keep-alive", "strict-transport-security": "max-age=1",
    }  # fmt: skip
    body = {"error": {"message": "Rate limit reached for requests", "type": "requests"}}
    request = httpx2.Request("POST", "http://127.0.0.1:1/v1/chat/completions")
    response = httpx2.Response(429, headers=headers, json=body, request=request)
    throttled = openai.RateLimitError("429", response=response, body=body["error"])
    try:
        openai.OpenAI(api_key="k", base_url="http://127.0.0.1:1", max_retries=0).models.list()
    except openai.APIConnectionError as refused:
        return throttled, refused


def main():
    rng, state = random.Random(1), retry_state()
    throttled = Fault(FaultCode.RATE_LIMITED, retry_after_seconds=30)
    slow = Fault(FaultCode.TIMEOUT)
    reports, default, ai = (presets.get(n) for n in ("llm-reports", "default", "ai-worker"))
    error = TimeoutError("no answer")
    throttling, refused = real_errors()
    breaker, closed = Breaker(), BreakerState()
    exponential = tenacity.wait_random_exponential(multiplier=1, max=60)
    combined = tenacity.wait_exponential_jitter(initial=1, max=60, jitter=1)
    lines = {
        "tenacity wait_random_exponential": lambda: exponential(state),
        "tenacity wait_exponential_jitter": lambda: combined(state),
        "backoff.delay_seconds": lambda: reports.rules[0].backoff.delay_seconds(2, rng),
        "decide: llm-reports, TIMEOUT": lambda: reports.decide(slow, attempt=2, rng=rng),
        "decide: default, Retry-After": lambda: default.decide(throttled, attempt=2, rng=rng),
        "decide: ai-worker, 2 earlier faults": lambda: ai.decide(
            slow, attempt=3, rng=rng, earlier=(FaultCode.UNKNOWN, FaultCode.TIMEOUT)
        ),
        "classify: TimeoutError": lambda: classify(error),
        "classify: openai 429, 18 headers": lambda: classify(throttling),
        "classify: openai, refused connection": lambda: classify(refused),
        "breaker step: success": lambda: step(breaker, closed, Succeeded(), 100.0),
        "breaker step: failure": lambda: step(breaker, closed, Failed(), 100.0),
    }
    measured = {name: microseconds(function) for name, function in lines.items()}
    base = measured["tenacity wait_random_exponential"]
    table = Table("what", "µs", "× tenacity's wait", box=None)
    for name, value in measured.items():
        table.add_row(name, f"{value:.1f}", f"{value / base:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
