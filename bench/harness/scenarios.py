"""What is measured, each on an empty store: every function gives one number, or several."""

import os
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from harness.adapters import Crew, Mark, NotMeasuredError, Queue

DRAIN_SECONDS = 120
CONCURRENCY = 100
PROCESSES_OF_ITS_OWN = 2 * (os.cpu_count() or 1)
"""How many isolated handlers run at once: each of them is a process."""
SMALL = 0
SAMPLE = 1_000
"""Jobs of the drain that shows how many a real one should have."""
MOST_JOBS = 60_000
OUT_OF_PLACE = 0.05
GAP = 0.02
FIRST_TICKS = 10
START_SECONDS = 30
WARM_SECONDS = 3


@dataclass(frozen=True)
class Bench:
    """One queue on one backend, and how to get an empty store for it."""

    name: str
    new_url: Callable[[], str]

    def queue(self) -> Queue:
        made = Queue(self.name, self.new_url())
        made.ask("prepare")
        return made


def drain(
    bench: Bench, jobs: int, *, processes: int = 1, task: str = "noop", size: int = SMALL
) -> float:
    """Jobs a second, from the moment that every process has begun."""
    queue = bench.queue()
    queue.ask("fill", jobs=jobs, task=task, bytes=size)
    with working(queue, processes, task) as crew:
        crew.wait_for(jobs, DRAIN_SECONDS)
        return rate(list(crew.marks().values()), jobs)


def rate(marks: list[list[Mark]], jobs: int) -> float:
    """Without the time in which some processes were still starting, if it was the lesser part."""
    times = _times([mark for each in marks for mark in each], jobs)
    everyone = max(each[0][0] for each in marks)
    since = [at for at in times if at >= everyone]
    if len(since) < len(times) / 2:
        since = times
    return (len(since) - 1) / (since[-1] - since[0])


def failing(bench: Bench, jobs: int) -> float:
    """Jobs a second, each of them run twice.

    An attempt that fails leaves no mark. So a job that succeeds goes before all of them, and its
    mark, the only one that says when it was sent, is when the first attempts began.
    """
    queue = bench.queue()
    queue.ask("ticks", jobs=1, gap=0)
    queue.ask("fill", jobs=jobs, task="failing", bytes=SMALL)
    with working(queue, task="failing", what="failing") as crew:
        crew.wait_for(1 + jobs, DRAIN_SECONDS)
        marks = sorted(mark for each in crew.marks().values() for mark in each)
    place = next(place for place, (_, _, waited) in enumerate(marks) if waited)
    if place > OUT_OF_PLACE * jobs:
        raise NotMeasuredError("ran the first job late")
    return jobs / (_times(marks, jobs)[-1] - marks[place][0])


def _times(marks: list[Mark], jobs: int) -> list[float]:
    done = {n for _, n, _ in marks}
    if len(done) != jobs:
        raise NotMeasuredError(f"ran {len(done)} of {jobs} jobs")
    return sorted(at for at, _, _ in marks)


def fitting(bench: Bench, seconds: float, task: str) -> int:
    """How many jobs keep one worker of this queue busy for about so long."""
    wanted = drain(bench, SAMPLE, task=task) * seconds
    return min(MOST_JOBS, max(SAMPLE, round(wanted / 100) * 100))


def pickup(bench: Bench, jobs: int) -> dict[str, float]:
    """Milliseconds from just before a job is asked for until an idle worker runs it."""
    queue = bench.queue()
    with working(queue, 1, "noop", "pickup") as crew:
        _warm(queue, crew)
        queue.ask("ticks", jobs=jobs, gap=GAP)
        crew.wait_for(FIRST_TICKS + jobs, START_SECONDS)
        marks = sorted(mark for each in crew.marks().values() for mark in each)
    waits = [waited * 1_000 for _, _, waited in marks[FIRST_TICKS:]]
    ranks = statistics.quantiles(waits, n=20)
    return {"p50 ms": statistics.median(waits), "p95 ms": ranks[-1]}


def enqueue(bench: Bench, single: int, bulk: int) -> dict[str, float]:
    """Jobs a second, one by one and all at once, while no worker runs."""
    found = {}
    for column, verb, jobs in (("one by one/s", "single", single), ("in bulk/s", "fill", bulk)):
        answer = bench.queue().ask(verb, jobs=jobs, task="noop", bytes=SMALL)
        if answer.get("bulk", True):
            found[column] = jobs / answer["seconds"]
    return found


def idle(bench: Bench, seconds: float) -> float:
    """What a worker with nothing to do uses, in per cent of a core."""
    queue = bench.queue()
    with working(queue, 1, "noop", "idle") as crew:
        _warm(queue, crew)
        time.sleep(WARM_SECONDS)
        before = crew.cpu_seconds()
        time.sleep(seconds)
        return (crew.cpu_seconds() - before) / seconds * 100


def working(
    queue: Queue, processes: int = 1, task: str = "noop", what: str = "drain"
) -> AbstractContextManager[Crew]:
    concurrency = PROCESSES_OF_ITS_OWN if task == "noop_isolated" else CONCURRENCY
    return queue.working(processes, task=task, concurrency=concurrency, **{"for": what})


def _warm(queue: Queue, crew: Crew) -> None:
    queue.ask("ticks", jobs=FIRST_TICKS, gap=GAP)
    crew.wait_for(FIRST_TICKS, START_SECONDS)
