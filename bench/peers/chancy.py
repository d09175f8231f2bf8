"""chancy on psycopg and uvloop, run by its own worker with its asyncio executor."""

import logging
import time
from collections.abc import Awaitable, Callable

import uvloop
from chancy import Chancy, Job, Queue, QueuedJob, Worker
from peers import adapter, meter

CONCURRENCY = 100
"""Its default. With more it runs ahead of writing which jobs have ended; no more are written."""
SEND_SECONDS = 0.02
"""How often it writes which jobs have ended, in one transaction; its default of 1 is no faster."""
QUEUE = Queue(
    "default",
    concurrency=CONCURRENCY,
    executor=Chancy.Executor.Async,
    polling_interval=1,  # the least; only retries wait for it
    eager_polling=True,  # claim again as soon as a job has ended
)


async def noop(**payload: object) -> None:
    meter.mark(payload)


async def failing(*, context: QueuedJob, **payload: object) -> None:
    if context.attempts == 0:
        raise ConnectionError("reset")
    meter.mark(payload)


def job(task: str, payload: dict) -> Job:
    return Job(func=f"__main__.{task}", kwargs=payload, max_attempts=2)


def asked(url: str, ask: Callable[[Chancy], Awaitable[None]]) -> dict[str, float]:
    async def run() -> float:
        async with Chancy(url, log=logging.getLogger("chancy")) as chancy:
            await chancy.pool.wait()
            began = time.perf_counter()
            await ask(chancy)
            return time.perf_counter() - began

    return {"seconds": uvloop.run(run())}


def prepare(url: str) -> None:
    async def ask(chancy: Chancy) -> None:
        await chancy.migrate()
        await chancy.declare(QUEUE)

    asked(url, ask)


def fill(url: str, jobs: int, task: str, bytes: int) -> dict[str, float]:  # noqa: A002 - the protocol's word
    given = adapter.payloads(jobs, bytes)

    async def ask(chancy: Chancy) -> None:
        async for _ in chancy.push_many([job(task, each) for each in given]):
            pass

    return asked(url, ask)


def single(url: str, jobs: int, task: str, bytes: int) -> dict[str, float]:  # noqa: A002
    given = adapter.payloads(jobs, bytes)

    async def ask(chancy: Chancy) -> None:
        for each in given:
            await chancy.push(job(task, each))

    return asked(url, ask)


def ticks(url: str, jobs: int, gap: float) -> None:
    async def ask(chancy: Chancy) -> None:
        for each in adapter.pauses(jobs, gap):
            await chancy.push(job("noop", each))

    asked(url, ask)


def work(url: str, **_: object) -> None:
    async def ask(chancy: Chancy) -> None:
        worker = Worker(chancy)
        worker.send_outgoing_interval = SEND_SECONDS
        async with worker:
            await worker.wait_for_shutdown()

    asked(url, ask)


if __name__ == "__main__":
    adapter.main(prepare=prepare, fill=fill, single=single, ticks=ticks, work=work)
