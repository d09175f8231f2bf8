"""What the dashboard costs: pages of a store with a million jobs beside those of one with a
thousand, and what a hundred viewers cost the store beside one.

Both servers are processes of their own; pages are asked for in turns, and ratios taken between the
medians of one run. Each is asked for again and again, as whoever keeps it open does, and cold: by
somebody who has just changed something and is to see it, so that all of it is looked at anew.
Viewers are counted in what is asked of the store, not in seconds: each has a token, listens to
`/api/events` and refreshes as the script of the pages does.

    .venv/bin/python bench/pages.py                     # SQLite
    .venv/bin/python bench/pages.py --store postgres18 --jobs 10000
"""

import argparse
import asyncio
import http.client
import os
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).resolve().parent))

from stores import urls

from seawall import access
from seawall.faults import Fault, FaultCode
from seawall.model import Lane, Outcome, Settlement
from seawall.store import LetterFilter, NewJob, NewRun, Wanted
from web import HOST, _started, application_at

FEW, MANY = 1_000, 1_000_000
ROUNDS, COLD_ROUNDS = 40, 5
MOST = 2.0
"""At most: the median of a page of the full store beside the small one's."""
VIEWERS = 100
MORE_LOOKS = 1.1
"""At most: what is asked of the store for all viewers beside one; two counts are never the same."""
WATCH_SECONDS, WARM_SECONDS = 10.0, 4.0
TASKS, QUEUES, UPSTREAMS, OWNERS = ("noop", "ask"), ("default", "mail"), 10, 20
ITEMS = 500
"""Of the run that is looked at: as many in both stores."""


# --- the stores -----------------------------------------------------------------------------------


@dataclass
class Known:
    """Who may look at a store, and what there is to look at."""

    places: dict[str, str]
    operator: str
    owner: str
    own: list[str] = field(default_factory=list)
    """Jobs of the owner that wait: he cancels one to have changed something."""


def filled(url: str, jobs: int) -> Known:
    """So many jobs in many lanes, of many owners, some of runs; one in ten has ended, one in a
    hundred failed and left a letter.
    """
    with application_at(url).store as store:
        runs = [_run(store, number) for number in range(3 + jobs // 50_000)]
        first = _items(store, runs[0])
        for start in range(0, jobs, 1_000):
            store.enqueue([_job(start + at, runs) for at in range(min(1_000, jobs - start))])
        own = store.enqueue([NewJob(lane=Lane(task="noop"), arguments="{}", owner="ann")] * 500)
        ended = 0
        while ended < jobs // 10:
            claims = store.claim(Wanted("w", None, TASKS, 500, 60))
            store.settle([_end(claim, ended + at) for at, claim in enumerate(claims)])
            ended += len(claims)
        letter = next(iter(store.letters(LetterFilter(), limit=1)))
        places = {
            "job": str(letter.job_id), "group": letter.fingerprint, "run": str(runs[0]),
            "mine": str(own[-1].job_id), "item": str(first),
        }  # fmt: skip
        operator = access.made(store, scope="operator")[0]
        owner = access.made(store, scope="owner", owner="ann")[0]
        return Known(places, operator, owner, [str(each.job_id) for each in own[:-1]])


def _run(store, number: int) -> int:
    owner = "ann" if number == 0 else f"owner-{number % OWNERS}"
    new = NewRun(pipeline="noop", name=f"n{number}", stages=("one",), terms="{}", owner=owner)
    return store.start_run(new).run_id


def _items(store, run: int) -> int:
    lane = Lane(task="noop", run=run)
    new = [NewJob(lane=lane, arguments="{}", owner="ann", run=run) for _ in range(ITEMS)]
    return store.enqueue(new)[0].job_id


def _job(number: int, runs: list[int]) -> NewJob:
    run = runs[1 + number % (len(runs) - 1)] if number % 10 == 3 else 0
    key = number % UPSTREAMS
    lane = Lane(
        task=TASKS[number % len(TASKS)],
        queue=QUEUES[number // 2 % len(QUEUES)],
        upstream="there" if key == 0 else f"there:{key}",
        run=run,
    )
    owner = "ann" if number % OWNERS == 0 else f"owner-{number % OWNERS}"
    tags = ("night",) if number % 50 == 7 else ()
    arguments = f'{{"number":{number},"path":"in/{number % 97}.pdf"}}'
    return NewJob(lane=lane, arguments=arguments, owner=owner, tags=tags, run=run or None)


def _end(claim, number: int) -> Settlement:
    if number % 10 == 0:
        code = (FaultCode.NOT_FOUND, FaultCode.TIMEOUT)[number // 10 % 2]
        fault = Fault(code, f"object {number} of {'abcdefg'[number // 10 % 7] * 3}")
        return Settlement(token=claim.token, outcome=Outcome.FAILED, fault=fault)
    return Settlement.plain(claim.token, 0.01)


# --- pages ----------------------------------------------------------------------------------------

PAGES = (
    "/", "/jobs", "/jobs?state=queued", "/jobs?state=failed", "/jobs?owner=ann",
    "/jobs?argument=in%2F42.pdf", "/jobs?tag=night", "/jobs?fault=NOT_FOUND",
    "/jobs?state=failed&fault=TIMEOUT&task=ask", "/jobs/{job}", "/jobs/{item}",
    "/jobs/act?do=cancel&tag=night", "/jobs/act?do=retry&fault=NOT_FOUND",
    "/dead", "/dead?fault=TIMEOUT&task=noop", "/dead/groups/{group}", "/dead/letters/{job}",
    "/runs", "/runs/{run}", "/runs/{run}/report", "/upstreams", "/upstreams/there", "/fleet",
    "/policies",
)  # fmt: skip
OWNERS_PAGES = ("/", "/jobs", "/jobs/{mine}", "/dead", "/runs", "/runs/{run}", "/runs/{run}/report")


def asked(port: int, path: str, token: str, form: dict[str, str] | None = None) -> float:
    """How long one page takes, or a form to be sent."""
    connection = http.client.HTTPConnection(HOST, port, timeout=120)
    headers = {"authorization": f"Bearer {token}", "accept": "text/html"}
    body = None
    if form is not None:
        body = urlencode(form)
        headers["content-type"] = "application/x-www-form-urlencoded"
    began = time.perf_counter()
    connection.request("GET" if form is None else "POST", path, body, headers)
    answer = connection.getresponse()
    answer.read()
    took = time.perf_counter() - began
    connection.close()
    if answer.status != (200 if form is None else 303):
        raise SystemExit(f"{path}: {answer.status}")
    return took


@dataclass
class Side:
    """A server, and what is known of its store."""

    port: int
    known: Known
    paused: bool = False

    def look(self, path: str, *, mine: bool) -> float:
        token = self.known.owner if mine else self.known.operator
        return asked(self.port, path.format(**self.known.places), token)

    def look_cold(self, path: str, *, mine: bool) -> float:
        """As somebody sees it who has just changed something."""
        if mine:
            asked(self.port, f"/jobs/{self.known.own.pop()}/cancel", self.known.owner, {})
        else:
            to = "resume" if self.paused else "pause"
            self.paused = not self.paused
            asked(self.port, f"/fleet/queues/idle/{to}", self.known.operator, {})
        return self.look(path, mine=mine)


def compare(kind: str, *, many: int, rounds: int) -> bool:
    from tests.support.processes import free_ports  # noqa: PLC0415 - its folder is known now

    with ExitStack() as held:
        sizes = {"few": FEW, "many": many}
        stores = {name: held.enter_context(urls(kind))[kind] for name in sizes}
        known = {name: filled(stores[name], size) for name, size in sizes.items()}
        sides = {}
        for name, port in zip(sizes, free_ports(2), strict=True):
            process = _started("serve", stores[name], port)
            held.callback(process.wait)
            held.callback(process.kill)
            sides[name] = Side(port, known[name])
        print(f"{kind}: {FEW:,} and {many:,} jobs, {rounds} rounds, {COLD_ROUNDS} of them cold")
        print(f"  {'':<42} {'again and again':>26}   {'cold':>26}")
        worst = [0.0, 0.0]
        for mine, pages in ((False, PAGES), (True, OWNERS_PAGES)):
            for path in pages:
                found = [_warm(sides, path, rounds, mine=mine), _cold(sides, path, mine=mine)]
                worst = [max(most, ratio) for most, (_, _, ratio) in zip(worst, found, strict=True)]
                print(_line(f"{'owner: ' if mine else ''}{path}", found))
        print(f"  the slowest page, many ÷ few: {worst[0]:.2f}, cold {worst[1]:.2f} (≤ {MOST:g})")
    return max(worst) <= MOST


def _line(path: str, found: list[tuple[float, float, float]]) -> str:
    figures = "   ".join(
        f"{few * 1000:7.1f} ms {full * 1000:8.1f} ms {ratio:5.2f}" for few, full, ratio in found
    )
    return f"  {path:<42} {figures}"


def _warm(
    sides: dict[str, Side], path: str, rounds: int, *, mine: bool
) -> tuple[float, float, float]:
    took: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in sorted(sides, reverse=number % 2 == 0):
            took[name].append(sides[name].look(path, mine=mine))
        time.sleep(0.03)
    return _medians(took)


def _cold(sides: dict[str, Side], path: str, *, mine: bool) -> tuple[float, float, float]:
    took: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(COLD_ROUNDS):
        for name in sorted(sides, reverse=number % 2 == 0):
            time.sleep(1.1)  # nobody acts again and again: whoever does is made to wait
            took[name].append(sides[name].look_cold(path, mine=mine))
    return _medians(took)


def _medians(took: dict[str, list[float]]) -> tuple[float, float, float]:
    few, full = (statistics.median(took[name]) for name in ("few", "many"))
    return few, full, full / few


# --- viewers --------------------------------------------------------------------------------------


def looks(viewers: int, seconds: float) -> int:
    """How often the store is asked while so many watch the overview and something happens."""
    words = [sys.executable, __file__, "watched", "--viewers", str(viewers)]
    done = subprocess.run(  # noqa: S603 - ourselves
        [*words, "--seconds", str(seconds)], stdout=subprocess.PIPE, check=True, env=os.environ
    )
    return int(done.stdout)


def watched(viewers: int, seconds: float) -> int:
    """What is asked of the store by a server of this process; its viewers come over the wire."""
    from seawall.web.server import Server  # noqa: PLC0415 - only here
    from tests.support.processes import free_ports  # noqa: PLC0415

    (port,) = free_ports(1)
    with urls("sqlite") as found:
        app = application_at(found["sqlite"])
        app.configure(port=port, requests_per_second=1_000_000)
        tokens = [access.made(app.store, scope="operator")[0] for _ in range(viewers)]
        server, up = Server(app), threading.Event()
        counts = _counted(app.store)
        thread = threading.Thread(target=server.run, args=(lambda _: up.set(),))
        thread.start()
        up.wait(60)
        try:
            return asyncio.run(_watch(app, port, tokens, seconds, counts))
        finally:
            server.stop()
            thread.join()
            app.close()


async def _watch(app, port: int, tokens: list[str], seconds: float, counts: list[int]) -> int:
    """How much was asked, once all had come and their tokens were known."""
    viewers = [asyncio.ensure_future(_viewer(port, token)) for token in tokens]
    work = asyncio.ensure_future(_work(app))
    await asyncio.sleep(WARM_SECONDS)
    before = counts[0]
    await asyncio.sleep(seconds)
    asked_of = counts[0] - before
    for task in (*viewers, work):
        task.cancel()
    await asyncio.gather(*viewers, work, return_exceptions=True)
    return asked_of


async def _work(app) -> None:
    while True:
        await asyncio.to_thread(app.tasks["noop"].enqueue, 1)
        await asyncio.sleep(0.5)


async def _viewer(port: int, token: str) -> None:
    """Hears of something, and refreshes: soon, at most once a second, at least once in five."""
    head = f"GET %s HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {token}\r\n%s\r\n"
    heard, writer = await asyncio.open_connection(HOST, port, limit=2**20)
    writer.write((head % ("/api/events", "")).encode())
    news = asyncio.Event()
    listening = asyncio.ensure_future(_listen(heard, news))
    try:
        asked_at = 0.0
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), 5.0)
            await asyncio.sleep(max(0.4, asked_at + 1.0 - time.monotonic()))
            news.clear()
            asked_at = time.monotonic()
            reader, asking = await asyncio.open_connection(HOST, port, limit=2**20)
            more = "Accept: text/html\r\nHX-Request: true\r\nConnection: close\r\n"
            asking.write((head % ("/", more)).encode())
            answer = await reader.read()
            asking.close()
            if not answer.startswith(b"HTTP/1.1 200"):
                raise SystemExit(answer[:200].decode())
    finally:
        listening.cancel()
        writer.close()


async def _listen(reader: asyncio.StreamReader, news: asyncio.Event) -> None:
    while line := await reader.readline():
        if line.startswith(b"event:"):
            news.set()


def _counted(store) -> list[int]:
    """Count whatever is asked of the store from now on, but for the jobs that are enqueued."""
    asked_of = [0]
    for name in dir(store):
        if name.startswith("_") or name in ("enqueue", "close", "many_at_once", "earlier", "nudge"):
            continue
        real = getattr(store, name)
        if not callable(real):
            continue

        def counting(*args, real=real, **how):
            asked_of[0] += 1
            return real(*args, **how)

        setattr(store, name, counting)
    return asked_of


def viewers(seconds: float) -> bool:
    one, many = looks(1, seconds), looks(VIEWERS, seconds)
    ratio = f"{many / one:.2f} (≤ {MORE_LOOKS:g})"
    print(
        f"asked of the store in {seconds:g} s: one viewer {one}, {VIEWERS} viewers {many}, {ratio}"
    )
    return many <= one * MORE_LOOKS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="measure")
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--jobs", type=int, default=MANY)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--viewers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=WATCH_SECONDS)
    said = parser.parse_args()
    if said.what == "watched":
        print(watched(said.viewers, said.seconds))
        return 0
    if said.what == "viewers":
        return 0 if viewers(said.seconds) else 1
    good = compare(said.store, many=said.jobs, rounds=said.rounds)
    return 0 if viewers(said.seconds) and good else 1


if __name__ == "__main__":
    sys.exit(main())
