"""What the dashboard costs: pages of a store with a million jobs beside those of one with a
thousand, and what a hundred viewers cost the store beside one.

Both servers are processes of their own; pages are asked for in turns, and ratios taken between the
medians of one run. Viewers are counted in looks at the store, not in seconds.

    .venv/bin/python bench/pages.py                     # SQLite
    .venv/bin/python bench/pages.py --store postgres18
"""

import argparse
import http.client
import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from stores import urls

from seawall import access
from seawall.faults import Fault, FaultCode
from seawall.model import Lane, Outcome, Settlement
from seawall.store import LetterFilter, NewJob, Wanted
from web import HOST, _started, application_at

FEW, MANY = 1_000, 1_000_000
ROUNDS = 40
MOST = 2.0
"""At most: the median of a page of the full store beside the small one's."""
VIEWERS = 100
WATCH_SECONDS = 10.0


def filled(url: str, jobs: int) -> dict[str, str]:
    """So many jobs, one in ten of them ended, one in a thousand failed; a token, and places."""
    with application_at(url).store as store:
        lane = Lane(task="noop", upstream="there")
        for start in range(0, jobs, 1_000):
            many = min(1_000, jobs - start)
            store.enqueue(
                [NewJob(lane=lane, arguments=f'{{"number":{start}}}', owner="ann")] * many
            )
        ended = 0
        while ended < jobs // 10:
            claims = store.claim(Wanted("w", None, ["noop"], 500, 60))
            store.settle([_end(claim, ended + at) for at, claim in enumerate(claims)])
            ended += len(claims)
        letter = next(iter(store.letters(LetterFilter(), limit=1))) if jobs else None
        word = access.made(store, scope="operator")[0]
        return {"token": word, "job": str(letter.job_id), "group": letter.fingerprint}


def _end(claim, number: int) -> Settlement:
    if number % 100 == 0:
        fault = Fault(FaultCode.NOT_FOUND, f"object {number} is not there")
        return Settlement(token=claim.token, outcome=Outcome.FAILED, fault=fault)
    return Settlement.plain(claim.token, 0.01)


PAGES = (
    "/", "/jobs", "/jobs?state=queued", "/jobs?state=failed", "/jobs?owner=ann", "/jobs/{job}",
    "/dead", "/dead/groups/{group}", "/runs", "/upstreams", "/upstreams/there", "/fleet",
)  # fmt: skip


def asked(port: int, path: str, token: str) -> float:
    """How long one page takes."""
    connection = http.client.HTTPConnection(HOST, port, timeout=120)
    began = time.perf_counter()
    headers = {"authorization": f"Bearer {token}", "accept": "text/html"}
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    answer.read()
    took = time.perf_counter() - began
    connection.close()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status}")
    return took


def compare(kind: str, *, many: int, rounds: int) -> bool:
    from tests.support.processes import free_ports  # noqa: PLC0415 - its folder is known now

    with ExitStack() as held:
        sizes = {"few": FEW, "many": many}
        stores = {name: held.enter_context(urls(kind))[kind] for name in sizes}
        known = {name: filled(stores[name], size) for name, size in sizes.items()}
        ports = dict(zip(sizes, free_ports(2), strict=True))
        for name in sizes:
            process = _started("serve", stores[name], ports[name])
            held.callback(process.wait)
            held.callback(process.kill)
        print(f"{kind}: {FEW:,} and {many:,} jobs, {rounds} rounds")
        worst = 0.0
        for path in PAGES:
            took: dict[str, list[float]] = {name: [] for name in sizes}
            for number in range(rounds):
                for name in sorted(sizes, reverse=number % 2 == 0):
                    at = path.format(**known[name])
                    took[name].append(asked(ports[name], at, known[name]["token"]))
                time.sleep(0.03)
            few, full = (statistics.median(took[name]) for name in ("few", "many"))
            first = took["many"][0]
            worst = max(worst, full / few)
            print(
                f"  {path:<24} {few * 1000:7.1f} ms  {full * 1000:7.1f} ms  {full / few:5.2f}"
                f"   first {first * 1000:7.1f} ms"
            )
        print(f"  the slowest page, many ÷ few: {worst:.2f} (≤ {MOST:g})")
    return worst <= MOST


# --- viewers --------------------------------------------------------------------------------------


def looks(viewers: int, seconds: float) -> int:
    """How often the store is asked while so many watch the overview and something happens."""
    words = [sys.executable, __file__, "watched", "--viewers", str(viewers)]
    done = subprocess.run(  # noqa: S603 - ourselves
        [*words, "--seconds", str(seconds)], stdout=subprocess.PIPE, check=True, env=os.environ
    )
    return int(done.stdout)


def watched(viewers: int, seconds: float) -> int:
    """The looks themselves, counted in a server of this process."""
    import asyncio  # noqa: PLC0415 - only here

    import httpx  # noqa: PLC0415

    from seawall.web import api  # noqa: PLC0415
    from seawall.web.house import opened  # noqa: PLC0415

    app = application_at("sqlite://")
    app.configure(requests_per_second=1_000_000)
    asked_of = _counted(app)
    house = opened(app, open_to_anybody=True)
    transport = httpx.ASGITransport(api.created(house))

    async def watch() -> None:
        until = time.monotonic() + seconds
        listeners = [house.tail.join(f"viewer {n % 50}", None) for n in range(viewers)]

        async def one(listener) -> None:
            base = "http://localhost"
            async with httpx.AsyncClient(transport=transport, base_url=base) as client:
                while time.monotonic() < until:
                    await client.get("/", headers={"accept": "text/html"})
                    with suppress(TimeoutError):
                        await asyncio.wait_for(listener.waiting.get(), 1.0)
                    await asyncio.sleep(1.0)

        async def work() -> None:
            while time.monotonic() < until:
                app.tasks["noop"].enqueue(1)
                await asyncio.sleep(0.5)

        await asyncio.gather(*map(one, listeners), work())

    asyncio.run(watch())
    house.close()
    return asked_of[0]


def _counted(app) -> list[int]:
    """Count every verb that is asked of the store, from now on."""
    asked_of = [0]
    store = app.store
    for name in ("jobs", "page", "backlog", "counts", "pace", "letters", "count_letters",
                 "changes", "observed", "watched", "workers", "runs"):  # fmt: skip
        real = getattr(store, name)

        def counting(*args, real=real, **how):
            asked_of[0] += 1
            return real(*args, **how)

        setattr(store, name, counting)
    return asked_of


def viewers(seconds: float) -> bool:
    one, many = looks(1, seconds), looks(VIEWERS, seconds)
    print(f"looks at the store in {seconds:g} s: one viewer {one}, {VIEWERS} viewers {many}")
    return many <= one * 1.5


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
    good = compare(said.store, many=said.jobs, rounds=said.rounds)
    return 0 if viewers(said.seconds) and good else 1


if __name__ == "__main__":
    sys.exit(main())
