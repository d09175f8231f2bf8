"""huey on SQLite, each commit synced, run by its own consumer."""

import time
from typing import Any

from huey import SqliteHuey
from peers import adapter, meter

THREADS = 1
"""They would share one connection and its lock: more of them only wait for one another."""
LATEST_SECONDS = 0.01
"""How often an idle consumer looks; it looks every 0.1 s and ever less often unless told."""


def opened(url: str) -> dict[str, Any]:
    """Its tasks, by name.

    `fsync` is its word for synchronous = FULL; WAL is its default. Errors that are retried are not
    written, which saves a commit for each.
    """
    path = url.removeprefix("sqlite:///")
    queue = SqliteHuey(filename=path, fsync=True, store_intermediate_errors=False)

    @queue.task()
    def noop(payload: dict) -> None:
        meter.mark(payload)

    @queue.task(retries=1, retry_delay=0, context=True)
    def failing(payload: dict, task: Any = None) -> None:
        if task.retries:
            raise ConnectionError("reset")
        meter.mark(payload)

    return {"queue": queue, "noop": noop, "failing": failing}


def prepare(url: str) -> None:
    opened(url)


def single(url: str, jobs: int, task: str, bytes: int) -> dict[str, Any]:  # noqa: A002 - the protocol's word
    found = opened(url)[task]
    given = adapter.payloads(jobs, bytes)
    began = time.perf_counter()
    for each in given:
        found(each)
    return {"seconds": time.perf_counter() - began}


def fill(**given: Any) -> dict[str, Any]:
    """It has no bulk call."""
    return {**single(**given), "bulk": False}


def ticks(url: str, jobs: int, gap: float) -> None:
    noop = opened(url)["noop"]
    for each in adapter.pauses(jobs, gap):
        noop(each)


def work(url: str, **_: object) -> None:
    consumer = opened(url)["queue"].create_consumer(
        workers=THREADS,
        periodic=False,
        initial_delay=LATEST_SECONDS,
        max_delay=LATEST_SECONDS,
        backoff=1,
    )
    consumer.run()


if __name__ == "__main__":
    adapter.main(prepare=prepare, fill=fill, single=single, ticks=ticks, work=work)
