"""seawall itself: asked through its API, run by its command, as in production."""

import os
import sys
import time

from peers import adapter, meter

from seawall import Backoff, Policy, Rule, Seawall, current_job

app = Seawall()
at_once = Policy(
    name="at-once",
    max_attempts=2,
    rules=[Rule(on="all", backoff=Backoff(curve="fixed", base_seconds=0, jitter="none"))],
)


@app.task
async def noop(n: int, pad: str, sent: float | None) -> None:
    meter.mark({"n": n, "pad": pad, "sent": sent})


@app.task(upstream="api")
async def noop_watched(n: int, pad: str, sent: float | None) -> None:
    meter.mark({"n": n, "pad": pad, "sent": sent})


@app.task
def noop_sync(n: int, pad: str, sent: float | None) -> None:
    meter.mark({"n": n, "pad": pad, "sent": sent})


@app.task(isolated=True)
def noop_isolated(n: int, pad: str, sent: float | None) -> None:
    meter.mark({"n": n, "pad": pad, "sent": sent})


@app.task(policy=at_once)
async def failing(n: int, pad: str, sent: float | None) -> None:
    if current_job().attempt == 1:
        raise ConnectionError("reset")
    meter.mark({"n": n, "pad": pad, "sent": sent})


def opened(url: str) -> Seawall:
    """Connected, and with everything imported."""
    app.configure(url=url)
    assert app.store
    noop.job(n=0, pad="", sent=None)
    return app


def prepare(url: str) -> None:
    opened(url)


def fill(url: str, jobs: int, task: str, bytes: int) -> dict[str, float]:  # noqa: A002 - the protocol's word
    found = opened(url).tasks[task]
    given = adapter.payloads(jobs, bytes)
    began = time.perf_counter()
    app.enqueue_many(found.job(**each) for each in given)
    return {"seconds": time.perf_counter() - began}


def single(url: str, jobs: int, task: str, bytes: int) -> dict[str, float]:  # noqa: A002
    found = opened(url).tasks[task]
    given = adapter.payloads(jobs, bytes)
    began = time.perf_counter()
    for each in given:
        found.enqueue(**each)
    return {"seconds": time.perf_counter() - began}


def ticks(url: str, jobs: int, gap: float) -> None:
    opened(url)
    for each in adapter.pauses(jobs, gap):
        noop.enqueue(**each)


def work(url: str, concurrency: int, **_: object) -> None:
    """Becomes `seawall worker`, which logs at INFO."""
    os.environ["SEAWALL_URL"] = url
    words = ["worker", "--app", "peers.seawall:app", "--concurrency", str(concurrency)]
    os.execv(sys.executable, [sys.executable, "-m", "seawall", *words])  # noqa: S606 - no shell


if __name__ == "__main__":
    adapter.main(prepare=prepare, fill=fill, single=single, ticks=ticks, work=work)
