"""An application that calls a real upstream, in the tests' own process and in others."""

import os
import time
from typing import Any

import httpx

from seawall import RetryBudget, Seawall, Skip, Snooze, Upstream, current_job, stage


def _headers() -> dict[str, str]:
    job = current_job()
    return {
        "idempotency-key": job.idempotency_key,
        "x-attempt": f"{job.attempt}/{job.seq}",
        "x-pid": str(os.getpid()),
    }


def application(url: str | None = None, **settings: Any) -> Seawall:  # noqa: C901
    """A new one, with its tasks; `$SEAWALL_URL` where none is given."""
    app = Seawall(url, **settings)
    app.upstream(Upstream("narrow", concurrency=1))
    app.upstream(Upstream("once", retry_budget=RetryBudget(share=0, floor_per_second=0)))

    @app.task(policy="ai-worker", upstream="api")
    async def ask(url: str, secret: str = "") -> dict[str, str]:
        async with httpx.AsyncClient(timeout=60) as client:
            answer = await client.post(url, headers=_headers(), json={"secret": secret})
        answer.raise_for_status()
        return dict(answer.json())

    @app.task(policy="ai-worker", upstream="api")
    def look(url: str, secret: str = "") -> dict[str, str]:
        answer = httpx.post(url, headers=_headers(), json={"secret": secret}, timeout=60)
        answer.raise_for_status()
        return dict(answer.json())

    @app.task(policy="ai-worker", upstream="narrow")
    def squeeze(url: str) -> dict[str, str]:
        return dict(look(url))

    @app.task(policy="ai-worker")
    def unwatched(url: str) -> dict[str, str]:
        return dict(look(url))

    @app.task(policy="ai-worker", upstream="once")
    def once(url: str) -> dict[str, str]:
        return dict(look(url))

    @app.task(policy="ai-worker")
    async def no_breaker(url: str) -> dict[str, str]:
        return dict(await ask(url))

    @app.task(policy="llm-reports")
    def strict(url: str) -> dict[str, str]:
        return dict(look(url))

    @app.task
    def odd(what: str) -> str | None:
        if what == "skip":
            raise Skip("nothing to do")
        if what == "snooze":
            raise Snooze(60)
        if what == "child":
            odd.enqueue("none")
        if what == "refused":
            odd.using(key="taken").enqueue("other")
        if what == "sleep":
            time.sleep(1.0)
        return None if what == "none" else what

    @stage(policy="ai-worker")
    def fetch(url: str) -> str:
        return url

    @stage(policy="ai-worker", upstream="api")
    def inquire(url: str) -> dict[str, str]:
        return dict(look(url))

    @stage(policy="ai-worker")
    async def keep(answer: dict[str, str]) -> str:
        return answer["answer"]

    app.pipeline("reports", [fetch, inquire, keep])
    return app


app = application()
"""For other processes, which find the store by $SEAWALL_URL."""


@app.task(isolated=True)
def apart(seconds: float) -> int:
    """A process of its own finds it by its name."""
    time.sleep(seconds)
    return os.getpid()
