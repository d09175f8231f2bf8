"""What a fleet believes about an upstream, it believes together: probes, holds, one bad worker."""

import os
import time

import pytest

from seawall import Seawall
from seawall.states import State
from seawall.store import Store
from tests.upstreams import jobs
from tests.upstreams.server import (
    Server,
    at_first,
    dead,
    longest_silence,
    most_at_once,
    poisoned,
    silent,
    throttling,
    unauthorized,
    well,
)
from tests.upstreams.world import (
    Fleet,
    Watch,
    all_succeeded,
    at_the_end,
    await_all_done,
    enqueued,
    eventually,
    upstream,
)

WORKERS = 4
SLOTS = 8
TO_OPEN = 5
IN_VAIN = WORKERS * (SLOTS + TO_OPEN - 1)
"""Calls that may fail before all have stopped: what is under way, and, until a worker has seen enough
to stop by itself, what takes the place of that.
"""
SHORT_LEASE_SECONDS = 2.0
RETRY_AFTER_SECONDS = 30.0 if "CI" in os.environ else 8.0
"""Half a minute takes as long as it says; at home a clock that a test moves shows it (`test_governor`)."""

on_a_server = pytest.mark.parametrize("kind", ["postgres18"])
on_the_older_server = pytest.mark.parametrize("kind", ["postgres16"])


def test_a_worker_that_alone_cannot_call_stops_itself_and_nobody_else(
    url: str, store: Store, server: Server, fleet: Fleet, app: Seawall
):
    single, nowhere = server.service("/single"), server.service("/nowhere/single")
    single.does, nowhere.does = well(0.03), dead()
    ids = enqueued(store, *[jobs.single.job() for _ in range(400)])
    with at_the_end(single), Watch(app, "single") as watch:
        fleet.start(1, concurrency=SLOTS, calls=f"{server.url}/nowhere")
        eventually(lambda: nowhere.count >= 1)
        fleet.start(3, concurrency=SLOTS)
        await_all_done(store)
    all_succeeded(store, url, ids)
    began = single.calls()[0].begun
    seen = [glimpse.phase for glimpse in watch.seen if glimpse.asked > began + 5]
    assert set(seen) <= {"closed"}
    seconds = single.calls()[-1].begun - nowhere.calls()[0].begun
    assert nowhere.count <= SLOTS + TO_OPEN + seconds / 0.25, "one probe after each opening"
    assert {call.worker for call in single.calls()} == {each.pid for each in fleet.everyone[1:]}


@on_a_server
def test_a_prober_that_is_killed_gives_its_slot_back_with_its_lease(
    url: str, store: Store, server: Server, fleet: Fleet, app: Seawall
):
    probed = server.service("/probed")
    probed.does = dead()
    ids = enqueued(store, *[jobs.probed.job() for _ in range(60)])
    with at_the_end(probed), Watch(app, "probed") as watch:
        workers = fleet.start(2, concurrency=SLOTS, lease_seconds=SHORT_LEASE_SECONDS)
        watch.await_("open")
        time.sleep(0.2)
        probed.does = silent()
        since = time.monotonic()
        eventually(lambda: probed.under_way == 1)
        (probe,) = [call for call in probed.calls(since) if call.ended is None]
        (prober,) = [worker for worker in workers if worker.pid == probe.worker]
        time.sleep(0.5)
        assert probed.under_way == 1, "another began beside it"
        prober.kill()
        killed = time.monotonic()
        probed.does = well(0.02)
        await_all_done(store)
    all_succeeded(store, url, ids)
    after = probed.calls(since=killed)
    assert {call.worker for call in after} == {w.pid for w in workers} - {prober.pid}
    assert after[0].beside == 1
    assert after[0].begun < killed + 30, "long before the probe's own time is over"


def test_no_more_probes_are_under_way_than_were_asked_for_however_many_workers_there_are(
    url: str, store: Store, server: Server, fleet: Fleet, app: Seawall
):
    probes = server.service("/probes")
    probes.does = dead()
    ids = enqueued(store, *[jobs.probes.job() for _ in range(80)])
    with at_the_end(probes), Watch(app, "probes") as watch:
        fleet.start(WORKERS, concurrency=SLOTS)
        watch.await_("open")
        eventually(lambda: probes.under_way == 0)
        time.sleep(0.5)
        # Slow ones, so that there is time to see them together; six must succeed.
        probes.does = well(0.5)
        since = time.monotonic()
        eventually(lambda: len([c for c in probes.calls(since) if c.succeeded]) >= 6)
        probes.does = well(0.01)
        await_all_done(store)
    all_succeeded(store, url, ids)
    good = sorted(call.ended or 0.0 for call in probes.calls(since) if call.succeeded)
    probing = probes.calls(since, until=good[5])
    assert most_at_once(probing) == 3


@on_the_older_server
def test_a_retry_after_holds_the_upstream_for_everybody(
    url: str, store: Store, server: Server, fleet: Fleet, app: Seawall
):
    throttled = server.service("/throttled")
    throttled.does = at_first(100, well(0.02), throttling(RETRY_AFTER_SECONDS))
    ids = enqueued(store, *[jobs.throttled.job() for _ in range(400)])
    with at_the_end(throttled):
        fleet.start(WORKERS, concurrency=SLOTS)
        eventually(lambda: any(call.status == 429 for call in throttled.calls()))
        told = next(call for call in throttled.calls() if call.status == 429).ended
        assert told is not None
        time.sleep(1.0)
        throttled.does = well(0.02)
        await_all_done(store)
        all_succeeded(store, url, ids)

        # Whoever was about to call when the first was told, and nobody after that.
        soon = [call for call in throttled.calls(since=told) if call.begun < told + 1.0]
        assert len(soon) <= IN_VAIN
        assert throttled.calls(told + 1.0, told + RETRY_AFTER_SECONDS) == []
        begun = [call.begun for call in throttled.calls(since=told)]
        assert longest_silence(begun) >= RETRY_AFTER_SECONDS - 1.0
        last = max(call.begun for call in throttled.calls())
        assert last < told + RETRY_AFTER_SECONDS + 90, "and not for ever"


def test_a_key_that_is_not_accepted_stops_the_work_before_it_is_all_dead_letters(
    url: str, store: Store, server: Server, fleet: Fleet, app: Seawall
):
    locked = server.service("/locked")
    locked.does = unauthorized()
    enqueued(store, *[jobs.locked.job() for _ in range(200)])
    with at_the_end(locked), Watch(app, "locked") as watch:
        fleet.start(WORKERS, concurrency=SLOTS)
        seen = watch.await_("open")
        time.sleep(2.0)
        counts = store.counts()
        assert counts[State.FAILED] <= IN_VAIN
        assert counts[State.FAILED] == locked.count
        assert counts[State.QUEUED] == 200 - counts[State.FAILED]
        assert seen.reason, "people are told why"
        shown = upstream(app, "locked")
        assert (shown.phase, shown.waiting) == ("open", counts[State.QUEUED])
        # Somebody puts the key right.
        locked.does = well()
        app.upstreams.resume("locked")
        await_all_done(store)
    assert store.counts()[State.SUCCEEDED] == counts[State.QUEUED]


def test_each_key_of_an_upstream_is_held_for_itself(
    url: str, store: Store, server: Server, fleet: Fleet, app: Seawall
):
    service = server.service("/keyed")
    service.does = poisoned("1", 0.01)
    ids = {tag: enqueued(store, *[jobs.keyed.job(tag) for _ in range(60)]) for tag in "012"}
    with at_the_end(service), Watch(app, "keyed:1") as watch:
        fleet.start(2, concurrency=SLOTS)
        watch.await_("open")
        others = [*ids["0"], *ids["2"]]
        eventually(lambda: {State.SUCCEEDED} == {j.state for j in store.jobs(others).values()})
        assert {each.name for each in app.upstreams if each.phase != "closed"} == {"keyed:1"}
        assert State.SUCCEEDED not in {job.state for job in store.jobs(ids["1"]).values()}
        service.does = well(0.01)
        await_all_done(store)
    all_succeeded(store, url, [*ids["0"], *ids["1"], *ids["2"]])


def test_what_a_person_holds_stays_held_until_it_is_resumed(
    url: str, store: Store, server: Server, fleet: Fleet, app: Seawall
):
    single = server.service("/single")
    app.upstreams.hold("single", seconds=600, why="maintenance")
    ids = enqueued(store, *[jobs.single.job() for _ in range(20)])
    fleet.start(2, concurrency=SLOTS)
    time.sleep(1.0)
    assert single.count == 0
    shown = upstream(app, "single")
    assert (shown.waiting, shown.running) == (20, 0)
    assert "maintenance" in shown.reason
    app.upstreams.resume("single")
    await_all_done(store)
    all_succeeded(store, url, ids)
