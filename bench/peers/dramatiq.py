"""dramatiq on Redis, run by its own worker in this process."""

import signal
import threading
import time
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import CurrentMessage
from peers import adapter, meter

THREADS = 8
"""Its default; they share one interpreter, so more do not help these jobs."""
PREFETCH = 500
"""Messages taken at once; with its default of two for each thread it is half as fast."""
LATEST_MS = 10
"""How often an idle worker looks, at the least; its default is 1,000."""
SOONEST_MS = 1
"""The shortest that a retry can wait."""


def opened(url: str) -> dict[str, Any]:
    """Its tasks, by name; no results are stored."""
    broker = RedisBroker(url=url)
    broker.add_middleware(CurrentMessage())

    @dramatiq.actor(broker=broker)
    def noop(payload: dict) -> None:
        meter.mark(payload)

    @dramatiq.actor(broker=broker, max_retries=1, min_backoff=SOONEST_MS, max_backoff=SOONEST_MS)
    def failing(payload: dict) -> None:
        if not CurrentMessage.get_current_message().options.get("retries"):
            raise ConnectionError("reset")
        meter.mark(payload)

    return {"broker": broker, "noop": noop, "failing": failing}


def prepare(url: str) -> None:
    opened(url)["broker"].flush_all()


def single(url: str, jobs: int, task: str, bytes: int) -> dict[str, Any]:  # noqa: A002 - the protocol's word
    found = opened(url)[task]
    given = adapter.payloads(jobs, bytes)
    began = time.perf_counter()
    for each in given:
        found.send(each)
    return {"seconds": time.perf_counter() - began}


def fill(**given: Any) -> dict[str, Any]:
    """It has no bulk call: a group is sent one by one."""
    return {**single(**given), "bulk": False}


def ticks(url: str, jobs: int, gap: float) -> None:
    noop = opened(url)["noop"]
    for each in adapter.pauses(jobs, gap):
        noop.send(each)


def work(url: str, **_: object) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    broker = opened(url)["broker"]
    worker = dramatiq.Worker(broker, worker_threads=THREADS, worker_timeout=LATEST_MS)
    worker.queue_prefetch = PREFETCH  # what its variable dramatiq_queue_prefetch sets
    worker.start()
    stop.wait()
    worker.stop()


if __name__ == "__main__":
    adapter.main(prepare=prepare, fill=fill, single=single, ticks=ticks, work=work)
