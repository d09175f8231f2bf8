"""The application of the worker processes: pipelines whose second stage pays an LLM provider.

Every call says which attempt of which job makes it, so that the provider's own ledger can be held
against the store's history.
"""

import os
import time
from functools import cache
from typing import Any

from seawall import Backoff, FaultError, Policy, Rule, Seawall, Skip, Upstream, current_job, stage
from seawall.decisions.breaker import Breaker

SOON = Backoff(curve="fixed", base_seconds=0.2)
PATIENT = Policy(
    name="patient",
    max_attempts=60,
    rules=(
        Rule(on=("WORKER_LOST", "RATE_LIMITED"), max_attempts=1_000, counts=False, backoff=SOON),
        Rule(on=("INVALID_INPUT", "UNAUTHORIZED"), retry=False),
        Rule(on="all", backoff=SOON),
    ),
)
ONCE = Policy(
    name="once",
    max_attempts=1,
    rules=(Rule(on="WORKER_LOST", max_attempts=1_000, counts=False, backoff=SOON),),
)

app = Seawall(policies=(PATIENT, ONCE), policy="patient")
app.upstream(
    Upstream(
        "llm",
        breaker=Breaker(open=Backoff(curve="fixed", base_seconds=0.3), ramp_seconds=0.5),
        retry_budget=None,
    )
)


@cache
def client() -> Any:
    import openai  # it takes its time, and most pipelines do without

    url = os.environ["LLM_URL"]
    return openai.AsyncOpenAI(base_url=url, api_key="any", max_retries=0, timeout=5)


def note(what: str) -> None:
    """A line outside the store, of the stage that is under way."""
    job = current_job()
    line = f"{what} {job.id} {job.seq} {job.stage}\n".encode()
    file = os.open(os.environ["RUN_EFFECTS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, line)
    os.close(file)


def fetch(item: dict[str, Any]) -> dict[str, Any]:
    if item.get("bad") == "fetch":
        raise FaultError("INVALID_INPUT", "there is nothing of that name")
    if item.get("empty"):
        raise Skip("an empty document")
    return {"text": f"document {item['id']}", "model": item.get("model", "gpt-5")}


@stage(upstream="llm", timeout_seconds=10, config={"prompt": 3})
async def ask(document: dict[str, Any]) -> dict[str, Any]:
    job = current_job()
    answer, reason = "", None
    async with await client().chat.completions.create(
        model=document["model"],
        messages=[{"role": "user", "content": document["text"]}],
        user=f"{job.id}:{job.seq}",
        stream=True,
    ) as chunks:
        async for chunk in chunks:
            for choice in chunk.choices:
                answer += choice.delta.content or ""
                reason = choice.finish_reason or reason
    if reason is None:
        raise FaultError("SCHEMA_INVALID", "the answer ends in the middle", raw_output=answer)
    job.usage(tokens_in=len(document["text"]), tokens_out=len(answer), cost=0.01)
    return {"answer": answer}


def check(answer: dict[str, Any], item: dict[str, Any]) -> dict[str, Any]:
    if item.get("bad") == "check":
        raise FaultError("INVALID_INPUT", "the answer is about something else")
    return answer


def store(answer: dict[str, Any], item: dict[str, Any]) -> int:
    note("stored")
    return int(item["id"])


reports = app.pipeline("reports", [fetch, ask, check, store])


# --- without a provider ---------------------------------------------------------------------------


@stage(policy="once")
def paid(number: int) -> int:
    note("paid")
    current_job().usage(cost=1.0)
    return number


@stage(policy="once")
def judge(number: int) -> int:
    if os.path.exists(os.environ.get("RUN_MENDED", "")):  # noqa: PTH110
        return number
    if number % 5 == 0:
        raise FaultError("INVALID_INPUT", "the answer does not fit the form")
    return number


forms = app.pipeline("forms", [paid, judge])


@stage(policy="once")
async def knock(number: int) -> int:
    raise FaultError("UNAUTHORIZED", "the key is not accepted")


keys = app.pipeline("keys", [knock])


@stage(policy="once")
async def share(number: int, percent: int) -> int:
    if (number * 7_919) % 100 < percent:
        raise FaultError("INVALID_INPUT", f"bad {'x' * (number % 11)}")
    return number


shares = app.pipeline("shares", [share])


def raised(number: int) -> int:
    raise RuntimeError("raised")


def returned(number: int) -> object:
    return RuntimeError("returned")


@stage(timeout_seconds=0.5, policy="once")
async def hangs(number: int) -> int:
    import asyncio

    await asyncio.sleep(60)
    return number


@stage(isolated=True, memory_mib=300, policy="once")
def eats(number: int) -> int:
    return len(bytearray(2**30))


@stage(isolated=True, policy="once")
def dies(number: int) -> int:
    os.kill(os.getpid(), 9)
    time.sleep(60)
    return number


def well(number: int) -> int:
    return number


def kind(item: str) -> str:
    return item


ways = {
    each.__name__: app.pipeline(f"way-{each.__name__}", [well, each])
    for each in (raised, returned, hangs, eats, dies, well)
    if each is not well
}
raised_items, returned_items, hanging_items, eating_items, dying_items = ways.values()
