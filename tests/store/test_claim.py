"""`claim`: due jobs, best first, each to one worker only."""

import random
import time
from collections import Counter
from datetime import timedelta

import psycopg
import pytest

from seawall.clock import ManualClock
from seawall.model import Lane, Outcome, Token
from seawall.states import State
from seawall.store import open_store
from seawall.store.claiming import ATTEMPTS_REMEMBERED
from seawall.store.lanes import MARGIN
from seawall.store.values import MOST_ROWS, Advance, Redrive, Release
from tests.support.kinds import shared
from tests.support.ledger import claimed, ended, enqueued, failed, lost, new_job, wanted


def _ids(claims):
    return [claim.token.job_id for claim in claims]


def test_a_claim_leases_the_job_and_charges_nothing(store, clock):
    (claim,) = claimed(store, worker="me", lease_seconds=90)

    assert claim.token == Token(claim.token.job_id, 1, 1)
    assert (claim.cycle, claim.tries, claim.losses, claim.input) == (0, 0, 0, None)
    assert claim.lease_until == clock.now() + timedelta(seconds=90)
    job = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert (job.state, job.tries, job.losses, job.seq) == (State.RUNNING, 0, 0, 0)
    assert (job.lease.lease_no, job.lease.worker, job.lease.until) == (1, "me", claim.lease_until)
    assert job.started_at == job.last_attempt_at == clock.now()
    assert store.attempts(job.id) == []


def test_a_job_is_claimed_by_one_worker_only(store, clock):
    first = claimed(store, new_job(), new_job(), limit=1)
    second = store.claim(wanted(worker="w2"))
    clock.advance(3_600)

    assert not set(_ids(first)) & set(_ids(second))
    assert store.claim(wanted(worker="w3")) == []  # lapsed is not given back


@shared
def test_two_stores_never_claim_the_same_job(store, url, kind, clock):
    ids = enqueued(store, *(new_job() for _ in range(20)))
    with open_store(url, clock=clock) as other:
        taken = [_ids(each.claim(wanted(3))) for _ in range(5) for each in (store, other)]

    assert sorted(job_id for some in taken for job_id in some) == ids


def test_at_most_as_many_as_wanted_are_taken(store):
    ids = enqueued(store, *(new_job() for _ in range(5)))

    assert _ids(store.claim(wanted(3))) == ids[:3]
    assert _ids(store.claim(wanted(3))) == ids[3:]
    assert store.claim(wanted(3)) == []


def test_within_a_lane_the_order_is_due_time_and_then_id(store, clock):
    later = clock.now() + timedelta(seconds=5)
    ids = enqueued(store, new_job(run_after=later), new_job(), new_job(run_after=later), new_job())
    clock.advance(60)
    ids += enqueued(store, new_job())

    taken = [_ids(store.claim(wanted(1)))[0] for _ in ids]

    assert taken == [ids[1], ids[3], ids[0], ids[2], ids[4]]


def test_higher_priorities_come_first_however_long_others_wait(store, clock):
    lanes = [Lane(task="work", priority=priority) for priority in (-1, 0, 9)]
    ids = []
    for lane in lanes:
        ids += enqueued(store, new_job(lane=lane), new_job(lane=lane))
        clock.advance(60)

    assert _ids(store.claim(wanted(3))) == [ids[4], ids[5], ids[2]]
    assert _ids(store.claim(wanted(3))) == [ids[3], ids[0], ids[1]]


def test_what_is_taken_together_is_told_best_first(store, clock):
    low, high = Lane(task="work"), Lane(task="work", priority=1)
    other = Lane(task="work", owner="other")
    ids = enqueued(store, *(new_job(lane=lane) for lane in (low, other, high, low, other, high)))

    assert _ids(store.claim(wanted())) == [ids[2], ids[5], ids[0], ids[1], ids[3], ids[4]]


@pytest.mark.parametrize("lanes", [2, 3, 10])
def test_lanes_of_the_same_priority_take_turns(url, clock, lanes):
    owners = [f"o{n}" for n in range(lanes)]
    with open_store(url, clock=clock, rng=random.Random(1)) as store:
        for owner in owners:
            lane = Lane(task="work", owner=owner)
            enqueued(store, *(new_job(lane=lane) for _ in range(150)))

        claims = [claim for _ in range(100) for claim in store.claim(wanted(1))]

    served = Counter(claim.lane.owner for claim in claims)
    assert set(served) == set(owners)
    assert min(served.values()) >= 100 / lanes / 5


def test_the_same_dice_give_the_same_turns(url, clock):
    lanes = [Lane(task="work", owner=f"o{n}") for n in range(9)]

    def turns():
        with open_store(url, clock=clock, rng=random.Random(7)) as store:
            enqueued(store, *(new_job(lane=lane) for lane in lanes for _ in range(10)))
            return [claim.lane.owner for _ in range(10) for claim in store.claim(wanted(1))]

    assert turns() == turns()


@shared
def test_a_worker_that_has_just_begun_keeps_to_priorities_too(store, url, kind, clock):
    lanes = [Lane(task="work", priority=priority) for priority in range(3)]
    ids = [job_id for lane in lanes for job_id in enqueued(store, new_job(lane=lane))]

    with open_store(url, clock=clock) as fresh:
        taken = [_ids(fresh.claim(wanted(1))) for _ in ids]

    assert taken == [[job_id] for job_id in reversed(ids)]


@shared
def test_a_lane_that_another_store_has_just_made_does_not_jump_its_priority(
    store, url, kind, clock
):
    ids = enqueued(store, new_job(), new_job())
    with open_store(url, clock=clock) as other:
        ids += enqueued(other, new_job(lane=Lane(task="work", priority=-1)))

    assert [_ids(store.claim(wanted(1))) for _ in ids] == [[job_id] for job_id in ids]


@shared
def test_a_lane_that_another_store_has_just_made_is_visited(store, url, kind, clock):
    enqueued(store)
    store.claim(wanted())
    with open_store(url, clock=clock) as other:
        ids = enqueued(other, *(new_job(lane=Lane(task="work", owner=o)) for o in "abc"))

    assert sorted(_ids(store.claim(wanted()))) == ids


def test_only_the_queues_and_tasks_wanted_are_visited(store):
    lanes = [Lane(task=task, queue=queue) for task in ("a", "b") for queue in ("x", "y")]
    ids = enqueued(store, *(new_job(lane=lane) for lane in lanes))

    assert store.claim(wanted(tasks=("b",), queues=("z",))) == []
    assert store.claim(wanted(tasks=("b", "c"), queues=())) == []
    assert store.claim(wanted(tasks=(), queues=("x", "y"))) == []
    assert _ids(store.claim(wanted(tasks=("b",), queues=("y", "z")))) == [ids[3]]
    assert _ids(store.claim(wanted(tasks=("a", "b"), queues=("x", "y")))) == ids[:3]


def test_a_job_is_not_taken_once_its_deadline_is_there(store, clock):
    deadline = clock.now() + timedelta(seconds=10)
    ids = enqueued(store, new_job(deadline_at=deadline), new_job(deadline_at=deadline), new_job())

    clock.advance(9.999999)
    assert _ids(store.claim(wanted(1))) == ids[:1]
    clock.advance(0.000001)
    assert _ids(store.claim(wanted())) == ids[2:]


def test_a_deadline_is_told_to_the_worker(store, clock):
    deadline = clock.now() + timedelta(seconds=10)

    (claim,) = claimed(store, new_job(deadline_at=deadline))

    assert claim.deadline_at == deadline


def test_what_was_lost_before_is_left_for_a_free_slot(store, clock):
    (first,) = claimed(store)
    clock.advance(60)
    store.reclaim([lost(first.token, 0)])
    (fresh,) = enqueued(store, new_job())

    assert _ids(store.claim(wanted(prefetch=True))) == [fresh]
    assert store.claim(wanted(prefetch=True)) == []
    (again,) = store.claim(wanted())
    assert (again.token.job_id, again.losses) == (first.token.job_id, 1)


def test_lease_and_attempt_numbers_never_go_back(store, clock):
    (job_id,) = enqueued(store)
    numbers = []

    def claim():
        (found,) = store.claim(wanted())
        numbers.append(found.token)
        return found.token

    store.release([Release(token=claim())])
    store.release([Release(token=claim(), duration_seconds=1)])
    store.settle([ended(claim(), Outcome.RETRIED, delay_seconds=0)])
    token = claim()
    clock.advance(60)
    store.reclaim([lost(token, 0)])
    store.advance([Advance(token=claim(), lane=Lane(task="work", stage=1))])
    store.settle([ended(numbers[-1].next(), Outcome.FAILED)])
    store.redrive([Redrive(job_id)])
    store.settle([ended(claim())])

    assert [(token.lease_no, token.seq) for token in numbers] == [
        (1, 1), (2, 1), (3, 2), (4, 3), (5, 4), (6, 6),
    ]  # fmt: skip
    assert [attempt.seq for attempt in store.attempts(job_id)] == [1, 2, 3, 4, 5, 6]
    job = store.jobs([job_id])[job_id]
    assert (job.lease_no, job.seq, job.cycle) == (6, 6, 1)


def test_a_claim_tells_how_the_job_fared_so_far(store, clock):
    (job_id,) = failed(store)
    store.redrive([Redrive(job_id)])
    (first,) = store.claim(wanted())
    store.settle([ended(first.token, Outcome.RETRIED, delay_seconds=0)])
    (second,) = store.claim(wanted())
    clock.advance(60)
    store.reclaim([lost(second.token, 0)])

    (claim,) = store.claim(wanted())

    assert (claim.cycle, claim.tries, claim.losses) == (1, 1, 1)
    assert claim.due_at == clock.now()


@pytest.mark.parametrize("limit", [0, -1, MOST_ROWS + 1])
def test_a_limit_out_of_bounds_takes_nothing(store, limit):
    enqueued(store)

    with pytest.raises(ValueError, match="limit"):
        store.claim(wanted(limit))

    assert store.counts()[State.RUNNING] == 0


def test_the_largest_limit_takes_a_thousand(store):
    ids = enqueued(store, *(new_job() for _ in range(MOST_ROWS)))

    assert _ids(store.claim(wanted(MOST_ROWS))) == ids


@pytest.mark.parametrize("worker", ["", " ", "a\0b", "\ud800", "x" * 201])
def test_a_worker_must_have_a_name(store, worker):
    enqueued(store)

    with pytest.raises(ValueError, match="worker"):
        store.claim(wanted(worker=worker))

    assert store.counts()[State.RUNNING] == 0


@pytest.mark.parametrize("seconds", [0, -1, 0.0001, float("nan"), float("inf")])
def test_a_lease_must_have_a_length(store, seconds):
    enqueued(store)

    with pytest.raises(ValueError, match="lease_seconds"):
        store.claim(wanted(lease_seconds=seconds))

    assert store.counts()[State.RUNNING] == 0


@pytest.mark.parametrize("apart", [1, 10, 500])
def test_of_a_thousand_lanes_two_busy_ones_are_served_alike_however_far_apart(store, apart):
    lanes = [Lane(task="work", owner=f"o{n}") for n in range(1_000)]
    enqueued(store, *[new_job(lane=lane) for lane in lanes])
    while store.claim(wanted(1_000)):
        pass
    busy = (lanes[100], lanes[100 + apart])
    enqueued(store, *[new_job(lane=lane) for lane in busy for _ in range(30)])

    owners = [claim.lane.owner for _ in range(40) for claim in store.claim(wanted(1))]

    assert [owners.count(lane.owner) for lane in busy] == [20, 20]


@pytest.mark.parametrize("version", ["16", "18"])
def test_a_job_that_another_store_releases_to_its_old_place_is_seen_after_a_second(
    postgres_urls, version
):
    """A visit begins where the last one ended, but once a second at the very start."""
    url = postgres_urls(version)
    with open_store(url, clock=ManualClock()) as one, open_store(url, clock=ManualClock()) as other:
        enqueued(other)
        (old,) = other.claim(wanted())
        other._backend._clock.advance(60)
        one._backend._clock.advance(60)
        enqueued(one)
        assert len(one.claim(wanted())) == 1
        other.release([Release(token=old.token)])

        deadline = time.monotonic() + 20
        while not (claims := one.claim(wanted())) and time.monotonic() < deadline:
            time.sleep(0.05)

        assert [claim.token.job_id for claim in claims] == [old.token.job_id]


@pytest.mark.parametrize("version", ["16", "18"])
def test_what_was_done_while_a_snapshot_is_held_is_not_read_again_by_each_claim(
    postgres_urls, version
):
    url = postgres_urls(version)
    with open_store(url) as store, psycopg.connect(url) as pinned:
        pinned.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        pinned.execute("SELECT count(*) FROM seawall.job")
        for _ in range(3):
            enqueued(store, *[new_job() for _ in range(1_000)])
            time.sleep(0.5)
        while claims := store.claim(wanted(1_000)):
            store.settle([ended(claim.token) for claim in claims])

        read = [_blocks_read(store, since) for since in ("-infinity", "now")]

        assert read[1] * 2 < read[0]


def _blocks_read(store, since):
    """Blocks that a claim of nothing looks at when its visit begins there."""
    visit = store._lanes.visit(wanted())
    marks = (
        [None] * len(visit.order)
        if since == "-infinity"
        else [store.now() - MARGIN] * len(visit.order)
    )
    values = {
        "now": None, "worker": "w", "lease": 1, "limit": 10, "prefetch": False, "known": visit.known,
        "remembered": ATTEMPTS_REMEMBERED,
        "queues": ["default"], "tasks": ["work"], "visit": store._backend.ids(visit.order),
        "since": store._backend.times(marks), "locked": False, "guarded": [],
    }  # fmt: skip
    explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + store._backend._sql["claim"]
    with store._backend._connected() as connection:
        (plan,) = connection.execute(explain, values, prepare=False).fetchone()
    return plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"]
