"""`heads` and `backlog`: what waits and runs, lane by lane."""

from datetime import timedelta

from seawall.model import Lane, Outcome
from seawall.store import open_store
from seawall.store.values import Backlog, Head
from tests.support.kinds import shared
from tests.support.ledger import LANE, claimed, ended, enqueued, new_job, wanted

OTHER = Lane(task="other", queue="slow", priority=3, owner="o")


def test_an_empty_store_has_neither(store):
    assert store.heads() == []
    assert store.backlog() == []


def test_a_head_is_the_first_due_time_of_what_waits_in_a_lane(store, clock):
    now = clock.now()
    enqueued(
        store,
        new_job(run_after=now + timedelta(hours=2)),
        new_job(run_after=now + timedelta(hours=1)),
        new_job(lane=OTHER),
        new_job(lane=Lane(task="third")),
    )
    store.claim(wanted(tasks=("third",)))

    assert store.heads() == [Head(LANE, now + timedelta(hours=1)), Head(OTHER, now)]


def test_a_backlog_counts_what_is_due_what_comes_later_and_what_runs(store, clock):
    (claim,) = claimed(store)
    began = clock.now()
    enqueued(store, new_job(), new_job(lane=OTHER))
    clock.advance(10)
    later = clock.now() + timedelta(hours=1)
    enqueued(store, new_job(), new_job(run_after=later), new_job(lane=OTHER, run_after=later))

    assert by_task(store) == {
        "other": Backlog(OTHER, due=1, later=1, running=0, oldest_due_at=began),
        "work": Backlog(LANE, due=2, later=1, running=1, oldest_due_at=began),
    }
    store.settle([ended(claim.token, Outcome.SNOOZED, delay_seconds=60)])
    assert by_task(store)["work"] == Backlog(LANE, 2, 2, 0, began)


def by_task(store):
    return {found.lane.task: found for found in store.backlog()}


def test_a_lane_of_which_all_runs_has_no_oldest(store):
    claimed(store)

    assert store.backlog() == [Backlog(LANE, 0, 0, 1, None)]
    assert store.heads() == []


def test_what_has_ended_is_in_neither(store):
    (claim,) = claimed(store)
    store.settle([ended(claim.token)])

    assert (store.heads(), store.backlog()) == ([], [])


@shared
def test_a_lane_that_another_process_has_just_made_is_there_at_once(url, clock):
    with open_store(url, clock=clock) as store, open_store(url, clock=clock) as other:
        enqueued(store)
        store.backlog()
        enqueued(other, new_job(lane=OTHER))

        assert {found.lane for found in store.backlog()} == {LANE, OTHER}
        assert {found.lane for found in store.heads()} == {LANE, OTHER}
