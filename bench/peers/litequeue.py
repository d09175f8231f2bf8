"""litequeue: a table in SQLite, a message at a time; the worker is the plainest loop over it."""

import json
import signal
import sys
import time

from litequeue import LiteQueue
from peers import adapter, meter

IDLE_SECONDS = 0.01
"""It has no call that waits: an idle worker looks this often."""
BUSY_SECONDS = 60
"""How long one process waits for another's lock: SQLite has one writer."""


def opened(url: str) -> LiteQueue:
    """Every commit is synced: it asks for NORMAL, so FULL is set on its connection afterwards."""
    queue = LiteQueue(url.removeprefix("sqlite:///"), timeout=BUSY_SECONDS)
    queue.conn.execute("PRAGMA synchronous = FULL")
    return queue


def message(task: str, payload: dict) -> str:
    return json.dumps({"task": task, "payload": payload})


def prepare(url: str) -> None:
    opened(url).close()


def fill(url: str, jobs: int, task: str, bytes: int) -> dict[str, float]:  # noqa: A002 - the protocol's word
    """Its own transaction around many `put`: it has no other call for many."""
    queue, given = opened(url), adapter.payloads(jobs, bytes)
    began = time.perf_counter()
    with queue.transaction(mode="IMMEDIATE"):
        for each in given:
            queue.put(message(task, each))
    return {"seconds": time.perf_counter() - began}


def single(url: str, jobs: int, task: str, bytes: int) -> dict[str, float]:  # noqa: A002
    queue, given = opened(url), adapter.payloads(jobs, bytes)
    began = time.perf_counter()
    for each in given:
        queue.put(message(task, each))
    return {"seconds": time.perf_counter() - began}


def ticks(url: str, jobs: int, gap: float) -> None:
    queue = opened(url)
    for each in adapter.pauses(jobs, gap):
        queue.put(message("noop", each))


def work(url: str, **_: object) -> None:
    """Pop, run, mark as done: a commit for each of the two, as it cannot pop many."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    queue, failed = opened(url), set()
    while True:
        found = queue.pop()
        if found is None:
            time.sleep(IDLE_SECONDS)
            continue
        try:
            run(**json.loads(found.data), first=found.message_id not in failed)
        except ConnectionError:
            failed.add(found.message_id)  # messages have no count of their attempts
            queue.retry(found.message_id)
        else:
            queue.done(found.message_id)


def run(task: str, payload: dict, *, first: bool) -> None:
    if task == "failing" and first:
        raise ConnectionError("reset")
    meter.mark(payload)


if __name__ == "__main__":
    adapter.main(prepare=prepare, fill=fill, single=single, ticks=ticks, work=work)
