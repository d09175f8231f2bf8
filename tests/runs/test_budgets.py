"""When a run is stopped, with real workers on both stores: soon enough, and not too soon."""

import os
import random
import re
import time

import pytest

from seawall.states import State
from tests.life.world import eventually

PATIENCE_SECONDS = 120.0
MINIMUM = 400


def over(app, run_id):
    return eventually(lambda: (view := app.run(run_id).view()).over and view, PATIENCE_SECONDS)


def failing(count, percent):
    return [{"number": number, "percent": percent} for number in range(count)]


def test_a_fifth_that_fails_aborts_soon_after_the_minimum_and_not_before(app, fleet):
    fleet.start(4, concurrency=5)
    run = app.tasks["shares"].run(failing(6_000, 20), name="all", minimum=MINIMUM)
    view = over(app, run.id)
    assert view.status == "aborted"
    judged = re.match(
        r"failed [\d,]+ of ([\d,]+) finished items \(.* %\), above its budget of 10 %", view.reason
    )
    assert MINIMUM <= int(judged[1].replace(",", "")) < 2_000
    assert view.unfinished > 0
    eventually(lambda: [e for p in fleet.everyone for e in p.said("run_stopped")])


def test_a_little_too_many_abort_by_the_end(app, fleet):
    fleet.start(2, concurrency=5)
    run = app.tasks["shares"].run(failing(1_000, 11), name="all")
    assert over(app, run.id).status == "aborted"


def test_a_run_just_below_its_budget_completes_or_nearly_so(app, fleet):
    fleet.start(2, concurrency=5)
    run = app.tasks["shares"].run(failing(1_000, 9), name="all", minimum=MINIMUM)
    assert over(app, run.id).status == "partial_success"


def test_a_bad_key_aborts_within_twenty_items(app, fleet):
    fleet.start(1, concurrency=5)
    run = app.tasks["keys"].run(range(5_000), name="all")
    view = over(app, run.id)
    assert view.status == "aborted"
    assert "UNAUTHORIZED" in view.reason
    assert 10 <= view.failed <= 20


def test_the_counts_are_exact_with_four_workers_and_kills(app, store, fleet):
    rng = random.Random()
    many = 3_000
    workers = fleet.start(4, concurrency=5, lease_seconds=1.5)
    run = app.tasks["shares"].run(failing(many, 5), name="all")
    kills = 0
    while not (view := run.view()).over:
        assert view.succeeded + view.failed + view.unfinished == view.entered == many
        time.sleep(rng.uniform(0.1, 0.5))
        if kills < 5:
            victim = workers.pop(rng.randrange(len(workers)))
            victim.kill()
            kills += 1
            workers += fleet.start(1, concurrency=5, lease_seconds=1.5)
    counts = store.counts()
    assert (view.succeeded, view.failed) == (counts[State.SUCCEEDED], counts[State.FAILED])
    assert view.failed == sum((number * 7_919) % 100 < 5 for number in range(many))
    assert (view.status, view.unfinished) == ("completed", 0)


@pytest.mark.parametrize("kind", ["file"], indirect=True)
def test_a_run_pauses_at_its_spending_cap(app, fleet):
    fleet.start(1, concurrency=3)
    run = app.tasks["forms"].run(range(1, 400), name="all", spending_cap=20, failure_budget=None)
    view = eventually(lambda: (view := run.view()).status == "paused" and not view.running and view)
    assert 20 <= view.cost < 400
    assert "spending_cap" in view.reason
    assert os.path.exists(fleet.effects_path)  # noqa: PTH110
