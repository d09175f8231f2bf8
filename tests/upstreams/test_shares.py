"""Limits hold for the whole fleet, exactly, whoever dies; owners take turns; retries are rationed."""

import time

import pytest

from seawall import Seawall
from seawall.states import State
from seawall.store import Store
from tests.upstreams import jobs
from tests.upstreams.server import (
    Server,
    failing,
    most_at_once,
    most_overlapping,
    most_within,
    repeats,
    well,
)
from tests.upstreams.world import (
    Fleet,
    Stream,
    all_succeeded,
    at_the_end,
    await_all_done,
    enqueued,
    eventually,
)

WORKERS = 4
SLOTS = 8
SHORT_LEASE_SECONDS = 2.0
MOST_AT_ONCE = 6
PER_MINUTE = 1_200
TOKENS_PER_MINUTE = 12_000
MOST_WEIGHED_AT_ONCE = 12
MINUTE_SECONDS = 60.0
LOOKED_AT_SECONDS = 20.0
LATE_SECONDS = 2.5
"""A second's burst, a second in which a grant may be used, and the way to the call itself."""
ARRIVALS_PER_SECOND = 20
BUDGET_SECONDS = 8.0

on_a_server = pytest.mark.parametrize("kind", ["postgres18"])
on_both_stores = pytest.mark.parametrize("kind", ["file", "postgres18"])


def replaced(fleet: Fleet, **how: object) -> None:
    """Kill one worker while it calls; another takes its place."""
    fleet.everyone[0].kill()
    fleet.start(1, **how)


@on_both_stores
def test_never_more_calls_at_once_than_the_limit_whoever_is_killed(
    url: str, store: Store, server: Server, fleet: Fleet
):
    narrow = server.service("/narrow")
    narrow.does = well(0.3)
    ids = enqueued(store, *[jobs.narrow.job() for _ in range(120)])
    how = {"concurrency": SLOTS, "lease_seconds": SHORT_LEASE_SECONDS}
    with at_the_end(narrow):
        fleet.start(WORKERS, **how)
        eventually(lambda: narrow.count >= 30)
        replaced(fleet, **how)
        await_all_done(store)
        all_succeeded(store, url, ids)
        assert most_at_once(narrow.calls()) == MOST_AT_ONCE
        assert narrow.count <= len(ids) + MOST_AT_ONCE, "only what the dead had under way"
        # And it is used, though the dead one's places stood empty until its lease was over.
        calls = narrow.calls()
        at_once = sum((call.ended or call.begun) - call.begun for call in calls)
        assert at_once / (calls[-1].begun - calls[0].begun) >= MOST_AT_ONCE / 3


@on_a_server
def test_limits_by_the_minute_are_nearly_used_up_and_never_exceeded_whoever_is_killed(
    url: str, store: Store, server: Server, fleet: Fleet
):
    """A part of the minute sees its part, and a second's burst, and what came a second late.

    Whole minutes pass more quickly by a clock that a test moves: see `test_governor`.
    """
    metered, weighed = server.service("/metered"), server.service("/weighed")
    metered.does, weighed.does = well(0.02), well(0.05)
    enqueued(store, *[jobs.metered.job() for _ in range(PER_MINUTE)])
    enqueued(store, *[jobs.weighed.job(str(30 + n % 21)) for n in range(TOKENS_PER_MINUTE // 30)])
    how = {"concurrency": 2 * SLOTS, "lease_seconds": SHORT_LEASE_SECONDS}
    with at_the_end(metered), at_the_end(weighed):
        fleet.start(WORKERS, **how)
        eventually(lambda: metered.count >= 1 and weighed.count >= 1)
        began = max(metered.calls()[0].begun, weighed.calls()[0].begun)
        time.sleep(LOOKED_AT_SECONDS / 2)
        replaced(fleet, **how)
        time.sleep(max(0.0, began + LOOKED_AT_SECONDS + 1 - time.monotonic()))
        requests, tokens = metered.calls(), weighed.calls()
        assert store.counts()[State.QUEUED] > 0, "work waits all the time"

        weights = [(call.sent, float(call.tag)) for call in tokens]
        assert most_at_once(tokens) <= MOST_WEIGHED_AT_ONCE
        for seconds in (5.0, 10.0, LOOKED_AT_SECONDS):
            most = (seconds + LATE_SECONDS) / (MINUTE_SECONDS + 2)
            assert most_within(((c.sent, 1.0) for c in requests), seconds) <= most * PER_MINUTE
            assert most_within(weights, seconds) <= most * TOKENS_PER_MINUTE

        part, span = LOOKED_AT_SECONDS / MINUTE_SECONDS, (began, began + LOOKED_AT_SECONDS)
        assert len(metered.calls(*span)) >= 0.95 * part * PER_MINUTE
        used = sum(float(call.tag) for call in weighed.calls(*span))
        assert used >= 0.95 * part * TOKENS_PER_MINUTE


def test_one_owners_thousands_do_not_keep_anothers_few_waiting(
    store: Store, server: Server, fleet: Fleet
):
    shared = server.service("/shared")
    shared.does = well(0.02)
    enqueued(store, *[jobs.shared.using(owner="ann").job("ann") for _ in range(2_000)])
    with at_the_end(shared):
        fleet.start(WORKERS, concurrency=SLOTS)
        eventually(lambda: shared.count >= 100)
        asked = time.monotonic()
        bobs = enqueued(store, *[jobs.shared.using(owner="bob").job("bob") for _ in range(10)])
        eventually(lambda: {State.SUCCEEDED} == {j.state for j in store.jobs(bobs).values()})
        done = max(call.ended or 0.0 for call in shared.calls() if call.tag == "bob")
        meanwhile = [call for call in shared.calls(asked, done) if call.tag == "ann"]
        assert len(meanwhile) <= 200
        assert most_at_once(shared.calls()) <= 4
        for owner in ("ann", "bob"):
            assert most_overlapping([c for c in shared.calls() if c.tag == owner]) <= 3


def test_retries_are_no_more_than_their_share_of_the_calls(
    store: Store, server: Server, fleet: Fleet, app: Seawall
):
    budgeted = server.service("/budgeted")
    budgeted.does = failing(500, 0.01)
    app.upstreams.force("budgeted", "closed", seconds=600, why="to see what retries do alone")
    with at_the_end(budgeted), Stream(store, jobs.budgeted.job, ARRIVALS_PER_SECOND) as stream:
        fleet.start(WORKERS, concurrency=SLOTS)
        time.sleep(BUDGET_SECONDS)
        calls = budgeted.calls()
        asked = stream.stop()
        again = len(repeats(calls))
        firsts = len(calls) - again
        assert firsts >= 0.8 * (len(asked) - ARRIVALS_PER_SECOND), "first calls do not wait"
        seconds = calls[-1].begun - calls[0].begun
        share, floor, window = 0.1, 0.5, 5.0
        assert again <= share * firsts + floor * (seconds + window) + 2
        # Nor in any window: what was granted may come a little later than what it was granted for.
        late = repeats(calls)
        for last in late:
            since = last.begun - window
            within = [call for call in late if since < call.begun <= last.begun]
            allowed = [c for c in calls if since - 2 < c.begun <= last.begun and c not in late]
            assert len(within) <= share * len(allowed) + floor * (window + 2) + 2
        assert again >= (share * firsts + floor * seconds) / 3, "the budget is there to be used"
        assert store.counts()[State.FAILED] == 0
        # Rationed they stay when all is well again, and go on.
        budgeted.does = well()
        eventually(lambda: store.counts()[State.SUCCEEDED] >= 3)
