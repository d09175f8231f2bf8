"""pgqueuer on asyncpg and uvloop, which its own command also takes where it finds it."""

import asyncio
import json
import signal
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

import asyncpg
import uvloop
from peers import adapter, meter
from pgqueuer import PgQueuer
from pgqueuer.core.executors import DatabaseRetryEntrypointExecutor
from pgqueuer.models import Job
from pgqueuer.queries import Queries

BATCH = 500
"""Claims, and the ends that it writes at once, are of this many; its default is 10."""
CONNECTIONS = 5
"""A pool lets it write ends while it claims; this is the size that its own command uses."""
at_once = partial(DatabaseRetryEntrypointExecutor, max_attempts=2, initial_delay=timedelta(0))


async def noop(job: Job) -> None:
    meter.mark(json.loads(job.payload))


async def failing(job: Job) -> None:
    if job.attempts == 0:
        raise ConnectionError("reset")
    meter.mark(json.loads(job.payload))


def asked(url: str, ask: Callable[[Queries], Awaitable[None]]) -> float:
    async def run() -> float:
        connection = await asyncpg.connect(url)
        began = time.perf_counter()
        await ask(Queries.from_asyncpg_connection(connection))
        took = time.perf_counter() - began
        await connection.close()
        return took

    return uvloop.run(run())


def prepare(url: str) -> None:
    asked(url, Queries.install)  # "durable", its default: every table is logged


def fill(url: str, jobs: int, task: str, bytes: int) -> dict[str, float]:  # noqa: A002 - the protocol's word
    given = adapter.payloads(jobs, bytes)

    async def ask(queries: Queries) -> None:
        encoded = [json.dumps(each).encode() for each in given]
        await queries.enqueue([task] * jobs, encoded, [0] * jobs)

    return {"seconds": asked(url, ask)}


def single(url: str, jobs: int, task: str, bytes: int) -> dict[str, float]:  # noqa: A002
    given = adapter.payloads(jobs, bytes)

    async def ask(queries: Queries) -> None:
        for each in given:
            await queries.enqueue(task, json.dumps(each).encode())

    return {"seconds": asked(url, ask)}


def ticks(url: str, jobs: int, gap: float) -> None:
    async def ask(queries: Queries) -> None:
        for each in adapter.pauses(jobs, gap):
            await queries.enqueue("noop", json.dumps(each).encode())

    asked(url, ask)


def work(url: str, **_: object) -> None:
    async def run() -> None:
        async with asyncpg.create_pool(url, min_size=CONNECTIONS, max_size=CONNECTIONS) as pool:
            queue = PgQueuer.from_asyncpg_pool(pool)
            queue.entrypoint("noop")(noop)
            queue.entrypoint("failing", executor_factory=at_once)(failing)
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGTERM, queue.shutdown.set)
            await queue.run(batch_size=BATCH)

    uvloop.run(run())


if __name__ == "__main__":
    adapter.main(prepare=prepare, fill=fill, single=single, ticks=ticks, work=work)
