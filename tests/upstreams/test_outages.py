"""An upstream is away, comes and goes, is slow, or fails now and then: no job pays for it.

Real workers, four processes of them, call a real server that is told what to do. What they did is
read from what the server saw, not from what they say about themselves.
"""

import time
from collections import Counter

import pytest

from seawall import Seawall
from seawall.states import State
from seawall.store import Filter, Store
from tests.upstreams import jobs
from tests.upstreams.server import Server, failing, flapping, most_at_once, shaky, silent, well
from tests.upstreams.server import poisoned as poisoned_by
from tests.upstreams.world import (
    Fleet,
    Stream,
    Watch,
    all_succeeded,
    at_the_end,
    await_all_done,
    charged,
    enqueued,
    eventually,
    unfinished,
)

WORKERS = 4
SLOTS = 8
TO_OPEN = 5
"""Failures in a row, by the usual breaker."""
OUTAGE_SECONDS = 3.0
FLAP_SECONDS = 2.0
B_PER_SECOND = 30
HEARD_SECONDS = 0.5
"""How long word of an opening may take to the last worker."""
IN_VAIN = WORKERS * (SLOTS + TO_OPEN - 1)
"""Calls that may fail before all have stopped: what is under way, and, until a worker has seen enough
to stop by itself, what takes the place of that.
"""
MOST_PROBES = 8
"""More than fit into the outages of these tests."""

on_both_stores = pytest.mark.parametrize("kind", ["file", "postgres18"])


@on_both_stores
def test_an_outage_costs_a_handful_of_calls_and_not_one_job(
    url: str, store: Store, server: Server, fleet: Fleet, app: Seawall
):
    """Work for others goes on meanwhile, and the backlog comes back gently."""
    a, b = server.service("/a"), server.service("/b")
    a.does, b.does = well(0.05), well(0.01)
    ids = enqueued(store, *[jobs.a.job() for _ in range(2_000)])
    fleet.start(WORKERS, concurrency=SLOTS)
    with at_the_end(a), Watch(app, "a") as watch, Stream(store, jobs.b.job, B_PER_SECOND) as stream:
        eventually(lambda: a.count >= 500 and b.count >= 20)
        died = a.dies()
        watch.await_("open")
        time.sleep(OUTAGE_SECONDS)
        back = time.monotonic()
        a.does = well(0.05)
        eventually(lambda: len(a.calls(since=back)) >= 2_000 - a.count // 2)
        ids += stream.stop()
        await_all_done(store)

        # Nobody paid.
        books = all_succeeded(store, url, ids)
        good = Counter(call.job for call in [*a.calls(), *b.calls()] if call.succeeded)
        twice = {job: books.history[job] for job, times in good.items() if times > 1}
        assert twice == {}, "a job was answered well, and yet it called again"
        assert set(good) == set(ids)
        paid = charged(books)
        assert set(paid.values()) <= {1}
        assert len(paid) <= IN_VAIN

        # Few calls failed: those that were under way, and one probe at a time.
        opened = next(watch.spans("open"))[0]
        failed = [call for call in a.calls() if call.failed]
        probes = [call for call in failed if call.begun > opened + HEARD_SECONDS]
        assert len(failed) - len(probes) <= IN_VAIN + 1  # the first probe may have been quick
        assert {call.beside for call in probes} <= {1}
        assert len(probes) <= MOST_PROBES
        for since, until in watch.spans("open"):
            # Who watches may see late that the next probe is on its way.
            assert len(a.calls(since + HEARD_SECONDS, until)) <= 1

        # Others went on as if nothing had happened.
        assert len(b.calls(died, back)) / (back - died) >= B_PER_SECOND / 2

        # It came back once, and gently.
        probe = next(call for call in a.calls(since=back) if call.succeeded)
        assert probe.ended is not None
        gently = a.calls(probe.ended, probe.ended + 0.5)
        assert most_at_once(gently) <= most_at_once(a.calls(until=died)) / 2
        later = [glimpse for glimpse in watch.seen if glimpse.asked > probe.ended + 1]
        assert {glimpse.phase for glimpse in later} <= {"closed"}


def test_an_upstream_that_comes_and_goes_loses_no_job(
    url: str, store: Store, server: Server, fleet: Fleet, app: Seawall
):
    flaps = server.service("/flaps")
    flaps.does = flapping(FLAP_SECONDS * 0.6, FLAP_SECONDS * 0.4, 0.05)
    ids = enqueued(store, *[jobs.flaps.job() for _ in range(800)])
    with at_the_end(flaps), Watch(app, "flaps") as watch:
        fleet.start(WORKERS, concurrency=SLOTS)
        await_all_done(store)
    books = all_succeeded(store, url, ids)
    assert watch.phases().count("open") >= 1
    # Each time it went away it cost what was under way, and a probe or two.
    seconds = flaps.calls()[-1].begun - flaps.calls()[0].begun
    failed = [call for call in flaps.calls() if call.failed]
    assert len(failed) <= (seconds / FLAP_SECONDS + 1) * (IN_VAIN + MOST_PROBES)
    assert max(charged(books).values(), default=0) < jobs.MANY.max_attempts


def test_an_upstream_that_does_not_answer_is_left_alone_until_it_does(
    url: str, store: Store, server: Server, fleet: Fleet, app: Seawall
):
    slow = server.service("/slow")
    slow.does = silent()
    ids = enqueued(store, *[jobs.slow.job() for _ in range(400)])
    with at_the_end(slow), Watch(app, "slow") as watch:
        fleet.start(WORKERS, concurrency=SLOTS)
        watch.await_("open")
        time.sleep(OUTAGE_SECONDS)
        late = [call for call in slow.calls() if call.failed]
        slow.does = well(0.02)
        await_all_done(store)
    books = all_succeeded(store, url, ids)
    assert len(late) <= IN_VAIN + MOST_PROBES
    assert set(charged(books).values()) <= {1}


def test_one_that_fails_three_times_of_ten_is_not_given_up(
    url: str, store: Store, server: Server, fleet: Fleet, app: Seawall
):
    service = server.service("/shaky")
    service.does = shaky(0.3, 0.02)
    ids = enqueued(store, *[jobs.shaky.job() for _ in range(400)])
    with at_the_end(service), Watch(app, "shaky") as watch:
        fleet.start(WORKERS, concurrency=SLOTS)
        await_all_done(store)
    all_succeeded(store, url, ids)
    # Five in a row are not impossible, but two workers that have them together are rare.
    assert watch.phases().count("open") <= 2
    share = sum(call.failed for call in service.calls()) / service.count
    assert 0.25 < share < 0.35


def test_a_job_that_always_fails_speaks_for_itself_alone(
    url: str, store: Store, server: Server, fleet: Fleet, app: Seawall
):
    service = server.service("/poisoned")
    service.does = poisoned_by("bad", 0.02)
    asked = [jobs.poisoned.job("bad" if n % 100 == 50 else "good") for n in range(300)]
    enqueued(store, *asked)
    with at_the_end(service), Watch(app, "poisoned") as watch:
        fleet.start(2, concurrency=SLOTS)
        await_all_done(store)
    assert watch.phases() == ["closed"]
    failed = list(store.page(Filter(state=State.FAILED)))
    assert len(failed) == 3
    assert {job.tries for job in failed} == {jobs.THREE.max_attempts}
    assert {call.tag for call in service.calls() if call.failed} == {"bad"}
    assert store.counts()[State.SUCCEEDED] == 297


def test_an_upstream_that_answers_nothing_but_errors_keeps_its_jobs_waiting(
    url: str, store: Store, server: Server, fleet: Fleet, app: Seawall
):
    """However long: none is given up for it, and none is called for but by probes."""
    sick = server.service("/sick")
    sick.does = failing(500, 0.01)
    ids = enqueued(store, *[jobs.sick.job() for _ in range(200)])
    with at_the_end(sick), Watch(app, "sick") as watch:
        fleet.start(WORKERS, concurrency=SLOTS)
        watch.await_("open")
        time.sleep(OUTAGE_SECONDS)
        assert sick.count <= IN_VAIN + MOST_PROBES
        assert unfinished(store) == len(ids)
        sick.does = well()
        await_all_done(store)
    all_succeeded(store, url, ids)
