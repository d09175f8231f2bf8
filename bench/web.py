"""What the server costs: lists of a full store beside those of an empty one, and jobs over HTTP
beside a bare FastAPI route that does one insert.

Servers and clients are processes of their own; rounds go in turns, and ratios are taken within one.

    .venv/bin/python bench/web.py                       # SQLite
    .venv/bin/python bench/web.py --store postgres18
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from stores import urls

from seawall import Seawall, access
from seawall.model import Lane
from seawall.store import NewJob

CONNECTIONS = 200
JOBS = 100_000
ROUNDS = 3
SECONDS = 5.0
LISTS = 2.0
"""At most: p95 of a full store's list beside an empty one's."""
ENQUEUE = 0.5
"""At least: jobs over HTTP beside bare inserts."""
HOST = "127.0.0.1"


# --- what the processes do ------------------------------------------------------------------------


def application() -> Seawall:
    app = Seawall(os.environ["SEAWALL_URL"], requests_per_second=1_000_000)

    @app.task(http=True)
    def noop(number: int) -> int:
        return number

    return app


def serve(port: int) -> None:
    from seawall.web.server import Server  # noqa: PLC0415 - only here

    app = application()
    app.configure(port=port)
    Server(app).run(lambda _: print("up", flush=True))


def bare(port: int) -> None:
    """A FastAPI route that checks its body and does one insert, each in its own commit."""
    import uvicorn  # noqa: PLC0415 - only here
    from fastapi import FastAPI  # noqa: PLC0415
    from pydantic import BaseModel  # noqa: PLC0415

    insert = _inserter(os.environ["SEAWALL_URL"])
    api = FastAPI()

    class Asked(BaseModel):
        number: int

    @api.post("/jobs", status_code=201)
    def ask(asked: Asked) -> dict[str, int]:
        return {"job": insert(asked.number)}

    @api.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    globals()["Asked"] = Asked
    uvicorn.run(api, host=HOST, port=port, log_level="critical", access_log=False)


def _inserter(url: str):
    if url.startswith("sqlite"):
        import threading  # noqa: PLC0415

        import apsw  # noqa: PLC0415

        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")
        connection.execute("CREATE TABLE IF NOT EXISTS bare (id INTEGER PRIMARY KEY, number INT)")
        turn = threading.Lock()

        def insert(number: int) -> int:
            with turn:
                sql = "INSERT INTO bare (number) VALUES (?) RETURNING id"
                return connection.execute(sql, (number,)).fetchall()[0][0]

        return insert
    from psycopg_pool import ConnectionPool  # noqa: PLC0415

    pool = ConnectionPool(url, min_size=8, max_size=8, open=True, kwargs={"autocommit": True})
    with pool.connection() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS bare (id bigserial PRIMARY KEY, number int)")

    def insert_there(number: int) -> int:
        with pool.connection() as connection:
            sql = "INSERT INTO bare (number) VALUES (%s) RETURNING id"
            return connection.execute(sql, (number,)).fetchone()[0]

    return insert_there


async def load(port: int, request: bytes, status: bytes, seconds: float) -> dict[str, float]:
    """Ask over and over on many connections; answers in a second, and how long they took."""
    took: list[float] = []
    over = time.perf_counter() + seconds

    async def ask(at: int) -> None:
        reader, writer = await asyncio.open_connection(HOST, port, limit=2**20)
        number = 0
        while time.perf_counter() < over:
            number += 1
            unique = str(at * 1_000_000 + number).encode()
            began = time.perf_counter()
            writer.write(request.replace(b"@@@@@@@@@", unique.rjust(9, b"1")))
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 " + status):
                raise SystemExit(f"unexpected: {head[:200]!r}")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            took.append(time.perf_counter() - began)
        writer.close()

    await asyncio.gather(*(ask(at) for at in range(CONNECTIONS)))
    took.sort()
    return {
        "rate": len(took) / seconds,
        "p50": took[len(took) // 2],
        "p95": took[int(len(took) * 0.95)],
    }


# --- measuring ------------------------------------------------------------------------------------


def _started(what: str, url: str, port: int) -> subprocess.Popen:
    environ = {**os.environ, "SEAWALL_URL": url}
    words = [sys.executable, __file__, what, "--port", str(port)]
    process = subprocess.Popen(words, env=environ, stdout=subprocess.DEVNULL)  # noqa: S603
    for _ in range(600):
        try:
            socket.create_connection((HOST, port)).close()
        except OSError:
            time.sleep(0.1)
        else:
            return process
    raise SystemExit(f"{what} does not listen")


def _request(method: str, path: str, token: str = "", body: str = "") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {token}\r\n"
    content = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    return (head + content).encode()


def _loaded(port: int, request: bytes, status: str, seconds: float) -> dict[str, float]:
    words = ["load", "--port", str(port), "--status", status, "--seconds", str(seconds)]
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, __file__, *words], input=request, stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout)


def _filled(url: str, jobs: int) -> str:
    """Put so many jobs there, and give a token for it."""
    with application_at(url).store as store:
        for start in range(0, jobs, 1_000):
            many = min(1_000, jobs - start)
            store.enqueue(
                [NewJob(lane=Lane(task="noop"), arguments='{"number":1}', owner="ann")] * many
            )
        return access.made(store, scope="operator")[0]


def application_at(url: str) -> Seawall:
    os.environ["SEAWALL_URL"] = url
    return application()


def measure(kind: str, *, jobs: int, rounds: int, seconds: float) -> bool:
    with ExitStack() as stack:
        names = ("full", "empty", "asked", "bare")
        stores = {name: stack.enter_context(urls(kind))[kind] for name in names}
        tokens = {name: _filled(stores[name], jobs if name == "full" else 0) for name in names[:3]}
        from tests.support.processes import free_ports  # noqa: PLC0415 - its folder is known now

        ports = dict(zip(names, free_ports(4), strict=True))
        servers = [
            _started("bare" if name == "bare" else "serve", stores[name], ports[name])
            for name in names
        ]
        try:
            return _told(kind, tokens, ports, jobs, rounds, seconds)
        finally:
            for each in servers:
                each.kill()
                each.wait()


def _told(kind, tokens, ports, jobs, rounds, seconds) -> bool:
    same, own = "/api/jobs", "/api/jobs?created_before=2999-01-01T00:00:00.@@@@@@@@@Z"
    asked = '{"task":"noop","arguments":{"number":@@@@@@@@@}}'
    found: dict[str, list[dict[str, float]]] = {}
    for number in range(rounds):
        order = ["empty", "full"] if number % 2 == 0 else ["full", "empty"]
        for name, path in (("the same list", same), ("lists of their own", own)):
            for where in order:
                request = _request("GET", path, tokens[where])
                got = _loaded(ports[where], request, "200", seconds)
                found.setdefault(f"{name}, {where}", []).append(got)
        body = '{"number":@@@@@@@@@}'
        got = _loaded(ports["bare"], _request("POST", "/jobs", "", body), "201", seconds)
        found.setdefault("bare insert", []).append(got)
        request = _request("POST", "/api/jobs", tokens["asked"], asked)
        ours = _loaded(ports["asked"], request, "201", seconds)
        found.setdefault("enqueue", []).append(ours)
    print(f"{kind}: {CONNECTIONS} connections, {jobs:,} jobs, {rounds} rounds of {seconds:g} s")
    for name, each in found.items():
        rate, p50, p95 = (statistics.median(one[key] for one in each) for key in each[0])
        print(f"  {name:<28} {rate:8,.0f}/s  p50 {p50 * 1000:7.1f} ms  p95 {p95 * 1000:7.1f} ms")
    ratios = {
        name: statistics.median(
            a["p95"] / b["p95"]
            for a, b in zip(found[f"{name}, full"], found[f"{name}, empty"], strict=True)
        )
        for name in ("the same list", "lists of their own")
    }
    share = statistics.median(
        a["rate"] / b["rate"] for a, b in zip(found["enqueue"], found["bare insert"], strict=True)
    )
    print(f"  p95 of the same list, full ÷ empty:      {ratios['the same list']:.2f} (≤ {LISTS:g})")
    print(f"  p95 of lists of their own, full ÷ empty: {ratios['lists of their own']:.2f}")
    print(f"  enqueue ÷ bare insert:                   {share:.2f} (≥ {ENQUEUE:g})")
    return ratios["the same list"] <= LISTS and share >= ENQUEUE


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="measure")
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--port", type=int)
    parser.add_argument("--status", default="200")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    said = parser.parse_args()
    if said.what == "serve":
        serve(said.port)
    elif said.what == "bare":
        bare(said.port)
    elif said.what == "load":
        request = sys.stdin.buffer.read()
        found = asyncio.run(load(said.port, request, said.status.encode(), said.seconds))
        print(json.dumps(found))
    else:
        good = measure(said.store, jobs=said.jobs, rounds=said.rounds, seconds=said.seconds)
        return 0 if good else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
