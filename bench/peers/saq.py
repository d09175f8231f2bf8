"""saq on Redis and uvloop, run by its own worker in this process."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop
from peers import adapter, meter
from saq import Queue, Worker

CONCURRENCY = 20
"""Each waits for a job on a connection of its own; its default is 10."""
AT_ONCE = {"retries": 2, "retry_delay": 0.0, "ttl": -1}
"""Retried once and without a pause; nothing is stored about a job when it has ended."""


async def noop(_: dict, *, payload: dict) -> None:
    meter.mark(payload)


async def failing(context: dict, *, payload: dict) -> None:
    if context["job"].attempts == 1:
        raise ConnectionError("reset")
    meter.mark(payload)


def asked(url: str, ask: Callable[[Queue], Awaitable[None]]) -> dict[str, Any]:
    async def run() -> float:
        queue = Queue.from_url(url)
        await queue.connect()
        began = time.perf_counter()
        await ask(queue)
        took = time.perf_counter() - began
        await queue.disconnect()
        return took

    return {"seconds": uvloop.run(run())}


def prepare(url: str) -> None:
    """There is nothing to make."""


def single(url: str, jobs: int, task: str, bytes: int) -> dict[str, Any]:  # noqa: A002 - the protocol's word
    given = adapter.payloads(jobs, bytes)

    async def ask(queue: Queue) -> None:
        for each in given:
            await queue.enqueue(task, payload=each, **AT_ONCE)

    return asked(url, ask)


def fill(**given: Any) -> dict[str, Any]:
    """It has no bulk call."""
    return {**single(**given), "bulk": False}


def ticks(url: str, jobs: int, gap: float) -> None:
    async def ask(queue: Queue) -> None:
        for each in adapter.pauses(jobs, gap):
            await queue.enqueue("noop", payload=each, **AT_ONCE)

    asked(url, ask)


def work(url: str, **_: object) -> None:
    async def ask(queue: Queue) -> None:
        await Worker(queue, [noop, failing], concurrency=CONCURRENCY).start()

    asked(url, ask)


if __name__ == "__main__":
    adapter.main(prepare=prepare, fill=fill, single=single, ticks=ticks, work=work)
