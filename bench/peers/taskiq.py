"""taskiq on Redis streams and uvloop, run by its own receiver in this process."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop
from peers import adapter, meter
from taskiq import Context, SimpleRetryMiddleware, TaskiqDepends
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

PREFETCH = 100
"""Messages read at once; its default."""


def opened(url: str) -> RedisStreamBroker:
    """Streams are its broker that acknowledges; `0` is from the first message on, sent before."""
    broker = RedisStreamBroker(url, consumer_id="0", xread_count=PREFETCH)
    broker.add_middlewares(SimpleRetryMiddleware())

    @broker.task(task_name="noop")
    async def noop(payload: dict) -> None:
        meter.mark(payload)

    @broker.task(task_name="failing", retry_on_error=True, max_retries=2)
    async def failing(payload: dict, context: Context = TaskiqDepends()) -> None:  # noqa: B008 - its way
        if not context.message.labels.get("_retries"):
            raise ConnectionError("reset")
        meter.mark(payload)

    return broker


def asked(url: str, ask: Callable[[RedisStreamBroker], Awaitable[None]]) -> dict[str, Any]:
    async def run() -> float:
        broker = opened(url)
        await broker.startup()
        began = time.perf_counter()
        await ask(broker)
        took = time.perf_counter() - began
        await broker.shutdown()
        return took

    return {"seconds": uvloop.run(run())}


def prepare(url: str) -> None:
    async def ask(_: RedisStreamBroker) -> None:
        """To open it is enough."""

    asked(url, ask)


def single(url: str, jobs: int, task: str, bytes: int) -> dict[str, Any]:  # noqa: A002 - the protocol's word
    given = adapter.payloads(jobs, bytes)

    async def ask(broker: RedisStreamBroker) -> None:
        found = broker.find_task(task)
        for each in given:
            await found.kiq(each)

    return asked(url, ask)


def fill(**given: Any) -> dict[str, Any]:
    """It has no bulk call."""
    return {**single(**given), "bulk": False}


def ticks(url: str, jobs: int, gap: float) -> None:
    async def ask(broker: RedisStreamBroker) -> None:
        noop = broker.find_task("noop")
        for each in adapter.pauses(jobs, gap):
            await noop.kiq(each)

    asked(url, ask)


def work(url: str, concurrency: int, **_: object) -> None:
    async def ask(broker: RedisStreamBroker) -> None:
        receiver = asyncio.create_task(
            run_receiver_task(
                broker,
                max_async_tasks=concurrency,
                max_prefetch=PREFETCH,
                validate_params=False,  # the payload is used as it came
            )
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, receiver.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await receiver

    asked(url, ask)


if __name__ == "__main__":
    adapter.main(prepare=prepare, fill=fill, single=single, ticks=ticks, work=work)
