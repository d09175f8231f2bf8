"""What a long queue, a long life and a reader that never ends cost a worker of seawall.

On each backend: the first 10,000 jobs of a million that wait beside those of a queue that holds no
more; a worker's memory after a thousand jobs and after a million; and, while a snapshot is held
from the start, so that nothing of what ended can be cleared away, the rate at the end beside that
at the beginning.

    .venv/bin/python bench/growth.py
"""

import argparse
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import psycopg

BENCH = Path(__file__).resolve().parent
sys.path[:0] = [str(BENCH), str(BENCH.parent)]

from harness import report, servers  # noqa: E402 - found by the line above
from harness.adapters import Crew, Queue  # noqa: E402
from harness.scenarios import Bench, working  # noqa: E402
from harness.standstill import Watch  # noqa: E402

MANY = 1_000_000
FEW = 10_000
YOUNG = 1_000
AT_ONCE = 100_000
PATIENCE_SECONDS = 1_800


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=MANY, help="fewer, for a try")
    jobs = parser.parse_args().jobs
    with servers.running({"postgres", "sqlite"}) as new_urls, Watch() as watch:
        found = {name: grown(Bench("seawall", new_urls[name]), jobs) for name in new_urls}
    words = table(found, jobs)
    if watch.stood_still:
        words += f"\n\nThe machine once stood still for {watch.worst_seconds:.1f} s meanwhile."
    print(words)
    if jobs == MANY:
        report.put("growth", words)


def grown(bench: Bench, jobs: int) -> dict[str, str]:
    """The short queue is drained before, between and after the long ones."""
    short = [_of_few(bench)]
    queue = _filled(bench, jobs)
    with working(queue) as crew:
        crew.wait_for(YOUNG, PATIENCE_SECONDS)
        young = _memory(crew)
        crew.wait_for(jobs, PATIENCE_SECONDS)
        old, times = _memory(crew), _times(crew)
    short.append(_of_few(bench))
    queue = _filled(bench, jobs)
    with _reader(queue.url), working(queue) as crew:
        crew.wait_for(jobs, PATIENCE_SECONDS)
        watched = _times(crew)
    short.append(_of_few(bench))
    tenth = jobs // 10
    return {
        f"first {FEW:,} of {FEW:,}": f"{statistics.median(short):,.0f} jobs/s",
        f"first {FEW:,} of {jobs:,}": _beside(_rate(times[:FEW]), statistics.median(short)),
        f"memory after {YOUNG:,} jobs": f"{young:.0f} MiB",
        f"memory after {jobs:,} jobs": f"{old:.0f} MiB ({old / young:.2f})",
        "snapshot held: first tenth": f"{_rate(watched[:tenth]):,.0f} jobs/s",
        "snapshot held: last tenth": _beside(_rate(watched[-tenth:]), _rate(watched[:tenth])),
    }


def table(found: dict[str, dict[str, str]], jobs: int) -> str:
    lines = [
        f"One worker process, {jobs:,} jobs; in brackets the ratio to the line above.",
        "",
        "| | " + " | ".join(report.BACKENDS[name] for name in found) + " |",
        "| --- |" + " ---: |" * len(found),
    ]
    lines += [
        f"| {what} | " + " | ".join(each[what] for each in found.values()) + " |"
        for what in next(iter(found.values()))
    ]
    return "\n".join(lines)


def _beside(rate: float, base: float) -> str:
    return f"{rate:,.0f} jobs/s ({rate / base:.2f})"


def _of_few(bench: Bench) -> float:
    queue = _filled(bench, FEW)
    with working(queue) as crew:
        crew.wait_for(FEW, PATIENCE_SECONDS)
        return _rate(_times(crew))


def _filled(bench: Bench, jobs: int) -> Queue:
    queue = bench.queue()
    for start in range(0, jobs, AT_ONCE):
        queue.ask("fill", jobs=min(AT_ONCE, jobs - start), task="noop", bytes=0)
    return queue


def _times(crew: Crew) -> list[float]:
    return sorted(at for marks in crew.marks().values() for at, _, _ in marks)


def _rate(times: list[float]) -> float:
    return (len(times) - 1) / (times[-1] - times[0])


def _memory(crew: Crew) -> float:
    """MiB, without the meter's file, which grows with the jobs."""
    (process,) = crew.processes
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    found = {name: value for name, _, value in (line.partition(":") for line in lines)}
    return sum(int(found[name].split()[0]) for name in ("RssAnon", "RssFile")) / 1_024


@contextmanager
def _reader(url: str) -> Iterator[None]:
    """Somebody who looks at the store as it is now, and never finishes."""
    if url.startswith("sqlite"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
        yield
        connection.close()
        return
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT 1").fetchall()
        yield


if __name__ == "__main__":
    main()
