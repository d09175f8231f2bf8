"""persist-queue's SQLite queue with acknowledgement; the worker is the plainest loop over it."""

import fcntl
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from peers import adapter, meter
from persistqueue import Empty, SQLiteAckQueue

IDLE_SECONDS = 0.01
"""Its `get` waits only for a `put` of the same process: an idle worker looks this often."""
BUSY_SECONDS = 60
"""How long one process waits for another's lock: SQLite has one writer."""


def opened(url: str) -> SQLiteAckQueue:
    """Every commit is synced: FULL is SQLite's default, which it leaves; it is set all the same.

    Nothing is resumed on opening: that would also take back what another process runs now.
    """
    path = Path(url.removeprefix("sqlite:///"))
    queue = SQLiteAckQueue(
        str(path.parent), db_file_name=path.name, auto_resume=False, timeout=BUSY_SECONDS
    )
    queue._conn.execute("PRAGMA synchronous = FULL")
    return queue


def prepare(url: str) -> None:
    opened(url).close()


def single(url: str, jobs: int, task: str, bytes: int) -> dict[str, Any]:  # noqa: A002 - the protocol's word
    queue, given = opened(url), adapter.payloads(jobs, bytes)
    began = time.perf_counter()
    for each in given:
        queue.put((task, each))
    return {"seconds": time.perf_counter() - began}


def fill(**given: Any) -> dict[str, Any]:
    """It has no bulk call: this queue commits each `put`."""
    return {**single(**given), "bulk": False}


def ticks(url: str, jobs: int, gap: float) -> None:
    queue = opened(url)
    for each in adapter.pauses(jobs, gap):
        queue.put(("noop", each))


def work(url: str, **_: object) -> dict[str, str]:
    """One process at most: it reads the next job and marks it in two steps, with no lock."""
    with Path(url.removeprefix("sqlite:///") + ".worker").open("w") as alone:
        try:
            fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return {"cannot": "two processes may get the same job"}
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        return loop(opened(url))


def loop(queue: SQLiteAckQueue) -> NoReturn:
    """Get, run, acknowledge: a commit for each of the two, as it cannot get many.

    To go on after the last one keeps it from reading all acknowledged jobs again each time.
    """
    last, failed = 0, set()
    while True:
        try:
            found = queue.get(block=False, id=last, next_in_order=True, raw=True)
        except Empty:
            time.sleep(IDLE_SECONDS)
            continue
        number, last = found["pqid"], found["pqid"]
        try:
            run(*found["data"], first=number not in failed)
        except ConnectionError:
            failed.add(number)  # jobs have no count of their attempts
            queue.nack(id=number)
            last = number - 1
        else:
            queue.ack(id=number)


def run(task: str, payload: dict, *, first: bool) -> None:
    if task == "failing" and first:
        raise ConnectionError("reset")
    meter.mark(payload)


if __name__ == "__main__":
    adapter.main(prepare=prepare, fill=fill, single=single, ticks=ticks, work=work)
