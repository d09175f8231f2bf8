"""What a claim costs with much in front of it, as ratios to a claim with little, in one run.

Every store is filled once for each scene; then rounds claim a hundred jobs in each scene in turn
and hand them back. The ratio is the median time of the scene over that of the first one.

    .venv/bin/python bench/claim.py
"""

import contextlib
import statistics
import time

from stores import urls

from seawall.model import Lane, NewJob
from seawall.store import open_store
from seawall.store.values import Release, Scope, Wanted

ROUNDS = 61
BATCH = 100
MANY = 1_000_000
CEILING = 1.5

WORST = "and 999 lanes of later jobs"
"""Not bound: each of a thousand lanes is looked into before the claim has enough."""
SCENES = {
    "1,000 due jobs": {},
    "and 1,000,000 due later": {"later": MANY},
    "and 1,000,000 held": {"held": MANY},
    "and 1,000,000 gated": {"gated": MANY},
    "in 1,000 lanes": {"lanes": 1_000},
    WORST: {"later_lanes": 999},
}


def main() -> None:
    print(f"milliseconds for a claim of {BATCH}, median of {ROUNDS}; ratio at most {CEILING}\n")
    for kind in ("sqlite", "postgres16", "postgres18"):
        with contextlib.ExitStack() as stack:
            stores = {}
            for scene, what in SCENES.items():
                (url,) = stack.enter_context(urls(kind)).values()
                stores[scene] = stack.enter_context(open_store(url))
                fill(stores[scene], **what)
            report(kind, measured(stores))


def fill(
    store,
    *,
    later: int = 0,
    held: int = 0,
    gated: int = 0,
    lanes: int = 1,
    later_lanes: int = 0,
) -> None:
    due = [Lane(task="work", owner=f"owner {n}" if lanes > 1 else "") for n in range(lanes)]
    for start in range(0, 1_000, 500):
        jobs = [NewJob(lane=due[n % lanes], arguments="{}") for n in range(start, start + 500)]
        store.enqueue(jobs)
    if later:
        _many(store, Lane(task="work"), later, "+ 86400 * 1000000", "+ interval '1 day'")
    if held:
        _many(store, Lane(task="work", upstream="down"), held, "- 1000000", "- interval '1 s'")
        store.hold(Scope.UPSTREAM, "down", reason="bench")
    if gated:
        _many(store, Lane(task="work", upstream="down"), gated, "- 1000000", "- interval '1 s'")
        with store.govern("down") as desk:
            desk.keep("{}", gated=True, reason="bench")
    for n in range(later_lanes):
        lane = Lane(task="work", owner=f"later {n}")
        _many(store, lane, 1, "+ 86400 * 1000000", "+ interval '1 day'")
    if store._backend.dialect == "postgres":
        with store._backend._connected() as connection:
            connection.execute("VACUUM ANALYZE seawall.job")


def _many(store, lane: Lane, many: int, sqlite_due: str, postgres_due: str) -> None:
    """As many jobs as would be waiting, by the shortest way: they are never claimed."""
    lane_id = store._lanes.ids([lane])[lane]
    if store._backend.dialect == "sqlite":
        now = time.time_ns() // 1_000
        sql = f"""
            INSERT INTO seawall_job (lane, state, due_at, stage, created_at)
            WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number LIMIT {many})
            SELECT {lane_id}, 'queued', {now} {sqlite_due}, 0, {now} FROM number;
            UPDATE seawall_tally SET jobs = jobs + {many} WHERE name = 'enqueued';
        """
    else:
        sql = f"""
            INSERT INTO seawall.job (lane, state, due_at, stage, created_at)
            SELECT {lane_id}, 'queued', now() {postgres_due}, 0, now()
            FROM generate_series(1, {many});
            INSERT INTO seawall.intake (jobs) VALUES ({many});
        """
    with store._backend.migrating() as session:
        session.script(sql)


def measured(stores) -> dict[str, float]:
    wanted = Wanted("bench", ["default"], ["work"], BATCH, 60.0)
    times: dict[str, list[float]] = {scene: [] for scene in stores}
    for _ in range(ROUNDS):
        for scene, store in stores.items():
            began = time.perf_counter()
            claims = store.claim(wanted)
            times[scene].append(time.perf_counter() - began)
            assert len(claims) == BATCH, (scene, len(claims))
            store.release([Release(token=claim.token) for claim in claims])
    return {scene: statistics.median(found) * 1_000 for scene, found in times.items()}


def report(kind: str, found: dict[str, float]) -> None:
    base = next(iter(found.values()))
    for scene, milliseconds in found.items():
        bound = "" if scene == WORST or milliseconds <= CEILING * base else "  too slow"
        print(f"{kind:<12} {scene:<28} {milliseconds:>7.2f} ms {milliseconds / base:>6.2f}{bound}")


if __name__ == "__main__":
    main()
