"""celery on Redis, run by its own worker."""

import os
import time
from typing import Any

from celery import Celery, Task
from peers import adapter, meter

POOL = "solo"
"""Runs the jobs in the process that fetches them: with no pool to hand them to, it is fastest."""
app = Celery("bench")
app.conf.update(
    task_acks_late=True,  # a job is gone when it has run, as with the others; it costs nothing
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
)


@app.task(name="noop")
def noop(payload: dict) -> None:
    meter.mark(payload)


@app.task(
    name="failing",
    bind=True,
    autoretry_for=(ConnectionError,),
    max_retries=1,
    default_retry_delay=0,
)
def failing(self: Task, payload: dict) -> None:
    if self.request.retries == 0:
        raise ConnectionError("reset")
    meter.mark(payload)


def prepare(url: str) -> None:
    """There is nothing to make."""


def single(url: str, jobs: int, task: str, bytes: int) -> dict[str, Any]:  # noqa: A002 - the protocol's word
    app.conf.broker_url = url
    found = app.tasks[task]
    given = adapter.payloads(jobs, bytes)
    with app.producer_pool.acquire(block=True) as producer:
        began = time.perf_counter()
        for each in given:
            found.apply_async((each,), producer=producer)
        return {"seconds": time.perf_counter() - began}


def fill(**given: Any) -> dict[str, Any]:
    """It has no bulk call: a group is sent one by one."""
    return {**single(**given), "bulk": False}


def ticks(url: str, jobs: int, gap: float) -> None:
    app.conf.broker_url = url
    for each in adapter.pauses(jobs, gap):
        noop.delay(each)


def work(url: str, **_: object) -> None:
    """By itself: it does not ask other workers how they are, nor tell them."""
    app.conf.broker_url = url
    app.worker_main(
        ["--quiet", "worker", "--hostname", f"{os.getpid()}@%h", "--loglevel", "INFO",
         "--pool", POOL, "--concurrency", "1",
         "--without-gossip", "--without-mingle", "--without-heartbeat"]
    )  # fmt: skip


if __name__ == "__main__":
    adapter.main(prepare=prepare, fill=fill, single=single, ticks=ticks, work=work)
