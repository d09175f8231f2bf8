"""Batched verbs beside the same statements without the library, in one run, as ratios.

Every round claims and settles the same number of jobs in both ways, in turn, on one store with
every commit synced: the statements of `claim` and `settle`, history included. What the library adds
is the values that go in and come out, their checks, and the answer for each row. The ratio is the
library's rate over the bare one; the median over the rounds is what counts.

    .venv/bin/python bench/store.py
"""

import statistics
import time
from collections.abc import Callable

import apsw
import psycopg
from stores import urls

from seawall.model import Lane, NewJob, Outcome, Settlement
from seawall.store import given, open_store, postgres_connections, statements
from seawall.store.claiming import ATTEMPTS_REMEMBERED
from seawall.store.postgres import _given
from seawall.store.values import Wanted

ROUNDS = 9
JOBS = 6_000
BATCH = 200
LANE = Lane(task="work")
FLOOR = 0.75


def main() -> None:
    print(f"{JOBS:,} jobs a round, batches of {BATCH}, {ROUNDS} rounds; jobs per second\n")
    print(f"{'store':<12} {'bare':>8} {'seawall':>8} {'ratio':>6}   (at least {FLOOR})")
    with urls("sqlite", "postgres16", "postgres18") as stores:
        for kind, url in stores.items():
            print(_line(kind, url))


def _line(kind: str, url: str) -> str:
    with open_store(url) as store:
        bare = _bare_sqlite(url) if kind == "sqlite" else _bare_postgres(url)
        ways: dict[str, Callable[[], int]] = {"bare": bare, "seawall": lambda: _library(store)}
        rates: dict[str, list[float]] = {way: [] for way in ways}
        for round_ in range(ROUNDS):
            for way in sorted(ways, reverse=bool(round_ % 2)):
                for _ in range(JOBS // 1_000):
                    store.enqueue([NewJob(lane=LANE, arguments='{"n": 1}')] * 1_000)
                rates[way].append(_rate(ways[way]))
        assert store.verify().ok
    ratio = statistics.median(a / b for a, b in zip(rates["seawall"], rates["bare"], strict=True))
    bare_rate, ours = (statistics.median(rates[way]) for way in ("bare", "seawall"))
    return f"{kind:<12} {bare_rate:>8,.0f} {ours:>8,.0f} {ratio:>6.2f}"


def _rate(drain: Callable[[], int]) -> float:
    began = time.perf_counter()
    done = drain()
    assert done == JOBS, done
    return done / (time.perf_counter() - began)


def _library(store) -> int:
    wanted = Wanted("bench", ["default"], ["work"], BATCH, 60.0)
    done = 0
    while claims := store.claim(wanted):
        answers = store.settle(
            [Settlement(token=claim.token, outcome=Outcome.SUCCEEDED) for claim in claims]
        )
        done += sum(answer.result == "done" for answer in answers)
    return done


WANTED = {
    "worker": "bench",
    "limit": BATCH,
    "lease": 60_000_000,
    "prefetch": False,
    "known": 1,
    "locked": False,
    "remembered": ATTEMPTS_REMEMBERED,
}


def _succeeded(found: list[tuple]) -> list[tuple]:
    """The least that `succeed` can be given."""
    return [(row[0], row[1], row[2] + 1, 0, 0, None, None) for row in found]


def _bare_sqlite(url: str) -> Callable[[], int]:
    sql = {name: each.sql for name, each in statements.load("sqlite").items()}
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    connection.execute("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000").fetchall()
    connection.execute("PRAGMA temp_store = MEMORY")
    given.make(connection)
    wanted = {
        **WANTED, "queues": '["default"]', "tasks": '["work"]', "visit": "[1]", "guarded": "[]",
    }  # fmt: skip

    def drain() -> int:
        done = 0
        while True:
            now = time.time_ns() // 1_000
            connection.execute("BEGIN IMMEDIATE")
            found = connection.execute(sql["claim"], {**wanted, "now": now}).fetchall()
            connection.execute("COMMIT")
            if not found:
                return done
            ends, now = _succeeded(found), {"now": time.time_ns() // 1_000}
            connection.execute("BEGIN IMMEDIATE")
            done += len(given.run(connection, "succeed", sql["succeed"], ends, now))
            connection.execute("COMMIT")

    return drain


def _bare_postgres(url: str) -> Callable[[], int]:
    sql = {name: each.sql for name, each in statements.load("postgres").items()}
    connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)
    for name, value in postgres_connections._SESSION.items():  # the same plans for both
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    wanted = {
        **WANTED,
        "queues": ["default"],
        "tasks": ["work"],
        "visit": "{1}",
        "guarded": [],
        "since": "{NULL}",
        "now": None,
    }

    def drain() -> int:
        done = 0
        while True:
            cursor = connection.cursor(binary=True)
            found = cursor.execute(sql["claim"], wanted).fetchall()
            if not found:
                return done
            values = _given("succeed", _succeeded(found))
            cursor = connection.cursor(binary=True)
            done += len(cursor.execute(sql["succeed"], {**values, "now": None}).fetchall())

    return drain


if __name__ == "__main__":
    main()
