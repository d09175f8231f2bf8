"""What webhooks cost those who have none, and those who have one, in one run, as µs a job.

On one SQLite file after another, each new: `without` has the triggers dropped by which notes are
written; `none` has no webhook; `other` has one that wants to hear of something else; `both` one
that is told of every job that comes in and every one that succeeds.

    .venv/bin/python bench/webhooks.py
"""

import random
import statistics
import tempfile
import time

import apsw

from seawall.model import Lane, NewJob, Outcome, Settlement
from seawall.store import NewWebhook, Store, open_store
from seawall.store.values import Wanted

ROUNDS = 7
JOBS = 10_000
BATCH = 1_000
EVENTS = {"other": ("job.failed",), "both": ("job.queued", "job.complete")}
WAYS = ("without", "none", *EVENTS)


def main() -> None:
    took: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        for way in random.sample(WAYS, len(WAYS)):
            took[way].append(_round(way))
    print(f"{JOBS:,} jobs a round, batches of {BATCH:,}, medians of {ROUNDS} rounds; µs a job\n")
    print(f"{'webhooks':<10} {'enqueue':>8} {'claim and settle':>17}")
    for way, rounds in took.items():
        enqueue, settle = (statistics.median(each) for each in zip(*rounds, strict=True))
        print(f"{way:<10} {enqueue:>8.1f} {settle:>17.1f}")


def _round(way: str) -> tuple[float, float]:
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(f"sqlite:///{folder}/jobs.db") as store,
    ):
        if way == "without":
            _drop_triggers(f"{folder}/jobs.db")
        if way in EVENTS:
            store.add_webhook(NewWebhook(url="https://x", secret="x", events=EVENTS[way]))  # noqa: S106
        return _timed(store)


def _drop_triggers(path: str) -> None:
    connection = apsw.Connection(path)
    named = "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name LIKE '%told_of'"
    for (name,) in connection.execute(named).fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.close()


def _timed(store: Store) -> tuple[float, float]:
    jobs = [NewJob(lane=Lane(task="work"), arguments="[]")] * BATCH
    wanted = Wanted("w", None, ("work",), BATCH, 60.0)
    began = time.process_time()
    for _ in range(JOBS // BATCH):
        store.enqueue(jobs)
    between = time.process_time()
    while claims := store.claim(wanted):
        store.settle([Settlement(token=c.token, outcome=Outcome.SUCCEEDED) for c in claims])
    end = time.process_time()
    return (between - began) / JOBS * 1e6, (end - between) / JOBS * 1e6


if __name__ == "__main__":
    main()
