"""What runs cost: an item's stage beside a plain job, memory by the number of items, and resuming.

Each part is a process of its own, so that one's memory is not another's; ratios are of one run.

    .venv/bin/python bench/runs.py            # a million items
    .venv/bin/python bench/runs.py --items 100000
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from stores import urls

from seawall import Seawall, Worker

MANY = 1_000_000
FEW = 10_000
SMALL = 8_000
STAGES = 4
ROUNDS = 3
OVERHEAD = 1.5
FLAT = 1.25


def application() -> Seawall:
    app = Seawall(os.environ["SEAWALL_URL"])

    async def noop(number: int) -> int:
        return number

    app.task(noop)
    app.pipeline("stages", [_step(at) for at in range(STAGES)])
    app.pipeline("one", [_step(0)])
    return app


def _step(at: int):
    async def step(number: int) -> int:
        return number

    step.__name__ = f"step{at}"
    return step


# --- what the processes do ------------------------------------------------------------------------


def drained(what: str) -> dict[str, float]:
    """Seconds for each attempt, with everything waiting when the worker starts."""
    app = application()
    if what == "jobs":
        app.enqueue_many(app.tasks["noop"].job(number) for number in range(SMALL))
        attempts = SMALL
    else:
        app.tasks["stages"].run(range(SMALL // STAGES), name="bench", failure_budget=None)
        attempts = SMALL // STAGES * STAGES
    worker = Worker(app, concurrency=50, drain=True)
    began = time.perf_counter()
    worker.run()
    return {"seconds": (time.perf_counter() - began) / attempts}


def fed(count: int) -> dict[str, float]:
    """A driver's memory, and how long an item takes it."""
    app = application()
    began = time.perf_counter()
    app.tasks["one"].run(iter(range(count)), name=f"run of {count}", key=str)
    seconds = (time.perf_counter() - began) / count
    return {"mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024, "seconds": seconds}


def worked(count: int) -> dict[str, float]:
    """A worker's memory after so many items, and how soon it had begun with the first."""
    app = application()
    began = time.perf_counter()
    done, first = [0], [0.0]
    worker = Worker(app, concurrency=50)

    async def step(number: int) -> int:
        first[0] = first[0] or time.perf_counter() - began
        done[0] += 1
        if done[0] == count:
            worker.stop()
        return number

    app.tasks["one"].stages[0].function = step
    worker.run()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    return {"mib": peak, "first": first[0]}


def _apart(url: str, part: str, given: object) -> dict[str, float]:
    found = subprocess.run(  # noqa: S603
        [sys.executable, __file__, "--part", part, json.dumps(given)],
        env={**os.environ, "SEAWALL_URL": url},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(found.stdout)


# --- what is measured -----------------------------------------------------------------------------


def overhead(kind: str) -> float:
    """An item's stage beside a plain job, median of a few rounds."""
    ratios = []
    for _ in range(ROUNDS):
        with urls(kind) as one:
            plain = _apart(one[kind], "drained", "jobs")["seconds"]
        with urls(kind) as other:
            ratios.append(_apart(other[kind], "drained", "items")["seconds"] / plain)
    return statistics.median(ratios)


def grown(kind: str, items: int) -> dict[str, float]:
    with urls(kind) as found:
        few_fed, few_worked = _apart(found[kind], "fed", FEW), _apart(found[kind], "worked", FEW)
    with urls(kind) as found:
        many_fed = _apart(found[kind], "fed", items)
        resumed = time.perf_counter()
        _apart(found[kind], "fed", items)
        resumed = time.perf_counter() - resumed
        many_worked = _apart(found[kind], "worked", items)
    return {
        "driver's memory": many_fed["mib"] / few_fed["mib"],
        "worker's memory": many_worked["mib"] / few_worked["mib"],
        "seconds to feed again": resumed,
        "seconds to the first item": many_worked["first"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=MANY, help="fewer, for a try")
    parser.add_argument("--part", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        part, words = given.part
        print(json.dumps(globals()[part](json.loads(words))))
        return
    for kind in ("sqlite", "postgres18"):
        ratio = overhead(kind)
        print(f"{kind}: an item's stage costs {ratio:.2f} of a plain job (at most {OVERHEAD})")
        for what, found in grown(kind, given.items).items():
            bound = f" (at most {FLAT}), {given.items:,} to {FEW:,}" if "memory" in what else ""
            print(f"{kind}: {what}: {found:.2f}{bound}")


if __name__ == "__main__":
    main()
