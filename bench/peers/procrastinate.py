"""procrastinate on psycopg and uvloop, run by its own worker."""

import time
from collections.abc import Awaitable, Callable

import uvloop
from peers import adapter, meter
from procrastinate import App, JobContext, PsycopgConnector, RetryStrategy
from psycopg import AsyncConnection

CONCURRENCY = 20
"""Jobs are claimed one after the other, and each is ended by itself: 100 were not faster."""
CONNECTIONS = 20
"""So that no job waits for a connection to end."""
app = App(connector=PsycopgConnector())


@app.task(name="noop")
async def noop(**payload: object) -> None:
    meter.mark(payload)


@app.task(name="failing", retry=RetryStrategy(max_attempts=1), pass_context=True)
async def failing(context: JobContext, **payload: object) -> None:
    if context.job.attempts == 0:
        raise ConnectionError("reset")
    meter.mark(payload)


async def each_alone(connection: AsyncConnection) -> None:
    """It never has two statements in a transaction, so this only saves it a BEGIN and a COMMIT."""
    await connection.set_autocommit(True)


def asked(url: str, ask: Callable[[], Awaitable[object]]) -> dict[str, float]:
    connector = PsycopgConnector(conninfo=url, max_size=CONNECTIONS, configure=each_alone)

    async def run() -> float:
        async with app.open_async():
            began = time.perf_counter()
            await ask()
            return time.perf_counter() - began

    with app.replace_connector(connector):
        return {"seconds": uvloop.run(run())}


def prepare(url: str) -> None:
    asked(url, lambda: app.schema_manager.apply_schema_async())  # noqa: PLW0108 - made when asked


def fill(url: str, jobs: int, task: str, bytes: int) -> dict[str, float]:  # noqa: A002 - the protocol's word
    given = adapter.payloads(jobs, bytes)
    return asked(url, lambda: app.tasks[task].batch_defer_async(*given))


def single(url: str, jobs: int, task: str, bytes: int) -> dict[str, float]:  # noqa: A002
    given = adapter.payloads(jobs, bytes)

    async def ask() -> None:
        for each in given:
            await app.tasks[task].defer_async(**each)

    return asked(url, ask)


def ticks(url: str, jobs: int, gap: float) -> None:
    async def ask() -> None:
        for each in adapter.pauses(jobs, gap):
            await noop.defer_async(**each)

    asked(url, ask)


def work(url: str, **_: object) -> None:
    """It listens for new jobs and keeps the finished ones, as are its defaults."""
    asked(url, lambda: app.run_worker_async(concurrency=CONCURRENCY))


if __name__ == "__main__":
    adapter.main(prepare=prepare, fill=fill, single=single, ticks=ticks, work=work)
