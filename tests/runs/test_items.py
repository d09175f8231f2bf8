"""Thousands of items through a pipeline that pays a provider: each is accounted for, whatever the
provider does and whoever is killed, and nothing that was paid for is paid for twice.
"""

import json
import os
import random
import time
from collections import Counter

import pytest

from tests.life.world import eventually
from tests.runs.pipelines import ways

ITEMS = int(os.environ.get("SEAWALL_RUN_ITEMS", "500"))
"""Ten thousand for a proof; the suite has less time."""
KILLED_ITEMS = 500
PATIENCE_SECONDS = 240.0


def written(path, items):
    path.write_text("".join(f"{json.dumps(item)}\n" for item in items))
    return path


def ended(app, run_id):
    return eventually(lambda: (view := app.run(run_id).view()).over and view, PATIENCE_SECONDS)


def calls_by_attempt(llm):
    """How often the provider answered each attempt, as it remembers it itself."""
    return Counter(each["body"]["user"] for each in llm.requests() if each.get("status") == 200)


def test_a_run_completes_although_its_provider_is_flaky_and_every_bad_item_has_its_reason(
    app, store, fleet, llm, tmp_path
):
    fleet.environ["LLM_URL"] = llm.base_url()
    llm.behave(
        llm.rate_limited(retry_after=0.3, times=6, match={"model": "limited"}),
        llm.failing(500, times=40, match={"model": "shaky"}),
        llm.truncated(times=40, match={"model": "cut"}),
        llm.stalled(0.5, times=3, match={"model": "stalls"}),
    )
    models = {1: "limited", 2: "shaky", 3: "cut", 4: "stalls"}
    items = [
        {
            "id": str(number),
            "model": models.get(number % 50, "gpt-5"),
            **({"bad": "fetch" if number % 200 else "check"} if number % 100 == 0 else {}),
            **({"empty": True} if number % 500 == 7 else {}),
        }
        for number in range(1, ITEMS + 1)
    ]
    bad = {item["id"]: item["bad"] for item in items if "bad" in item}
    empty = sum("empty" in item for item in items)
    fleet.start(2, concurrency=20)
    run = app.tasks["reports"].run(items, name="nightly", key=lambda item: item["id"])
    view = ended(app, run.id)

    assert view.status == "completed"
    assert (view.entered, view.failed, view.skipped) == (ITEMS, len(bad), empty)
    assert view.succeeded == ITEMS - len(bad) - empty
    assert view.unfinished == 0
    fetch, ask, check, stored = view.stages
    assert (fetch.failed, ask.failed, check.failed, stored.failed) == (
        list(bad.values()).count("fetch"), 0, list(bad.values()).count("check"), 0,
    )  # fmt: skip
    assert ask.retried >= min(40, ITEMS // 50)
    assert ask.cost == pytest.approx(0.01 * ask.done)
    failed = {job.key.partition(":")[2]: job for job in pages(app, state="failed", run=run.id)}
    assert failed.keys() == bad.keys()
    for key, job in failed.items():
        assert job.stage == {"fetch": 0, "check": 2}[bad[key]]
        assert job.last_fault.code == "INVALID_INPUT"
    assert Counter(each.job for each in fleet.effects()).total() == view.succeeded
    assert calls_by_attempt(llm).most_common(1)[0][1] == 1
    eventually(lambda: [each for p in fleet.everyone for each in p.said("run_finished")])


def pages(app, **which):
    found, after = [], None
    while True:
        page = app.jobs(**which, after=after, limit=500)
        found += page
        after = page.next
        if after is None:
            return found


def test_whoever_is_killed_the_same_call_goes_on_and_nothing_paid_for_is_paid_for_again(
    app, store, fleet, llm, tmp_path
):
    fleet.environ["LLM_URL"] = llm.base_url()
    rng = random.Random()
    items = [{"id": str(number)} for number in range(1, KILLED_ITEMS + 1)]
    path = written(tmp_path / "items.jsonl", items)
    workers = fleet.start(2, concurrency=8, lease_seconds=1.5)
    driver, kills, driven = fleet.drive("reports", "nightly", path), 0, 0
    while not (app.runs() and app.runs()[0].over):
        time.sleep(rng.uniform(0.4, 1.2))
        if driver.poll() is None and driven < 3 and (app.runs() and app.runs()[0].entered):
            driver.kill()
            driver.wait()
            driven += 1
            driver = fleet.drive("reports", "nightly", path)
        if kills < 6:
            victim = workers.pop(rng.randrange(len(workers)))
            victim.kill()
            kills += 1
            workers += fleet.start(1, concurrency=8, lease_seconds=1.5)
    assert driver.wait(60) == 0
    (view,) = app.runs()
    assert (view.status, view.entered, view.succeeded) == ("completed", KILLED_ITEMS, KILLED_ITEMS)
    assert kills > 2
    last_paid, kept = {}, {}
    for user in calls_by_attempt(llm):
        job, seq = map(int, user.split(":"))
        last_paid[job] = max(seq, last_paid.get(job, 0))
    for job_id in last_paid:
        stages = [(each.stage, each.outcome) for each in store.attempts(job_id)]
        assert [s for s, outcome in stages if outcome in ("advanced", "succeeded")] == [0, 1, 2, 3]
        kept[job_id] = next(
            each.seq
            for each in store.attempts(job_id)
            if each.stage == 1 and each.outcome == "advanced"
        )
    assert len(kept) == KILLED_ITEMS
    assert {job: seq for job, seq in last_paid.items() if seq > kept[job]} == {}


@pytest.mark.parametrize(
    ("way", "code"),
    [
        ("raised", "UNKNOWN"),
        ("returned", "UNKNOWN"),
        ("hangs", "TIMEOUT"),
        ("eats", "RESOURCE_EXHAUSTED"),
        ("dies", "RESOURCE_EXHAUSTED"),
    ],
)
@pytest.mark.parametrize("kind", ["file"], indirect=True)
def test_however_an_item_ends_badly_it_is_its_own_affair(app, store, fleet, way, code):
    fleet.start(1, concurrency=4)
    pipeline = ways[way]
    run = pipeline.run([1, 2, 3], name="all", failure_budget=None)
    view = ended(app, run.id)
    assert (view.status, view.failed) == ("failed", 3)
    jobs = pages(app, state="failed", run=run.id)
    assert [(job.stage, job.last_fault.code) for job in jobs] == [(1, code)] * 3


def test_a_group_is_redriven_with_a_canary_from_the_stage_that_failed(app, store, fleet):
    """431 of one trouble: before the fix the canaries fail and the rest stays; after it, all go."""
    workers = fleet.start(2, concurrency=8)
    many = 431 * 5
    run = app.tasks["forms"].run(range(1, many + 1), name="all", failure_budget=None)
    assert (ended(app, run.id).failed, ended(app, run.id).status) == (431, "partial_success")
    paid = len(fleet.effects())
    (group,) = app.dead_letter_groups(run=run.id).groups
    assert group.count == 431

    early = app.redrive(group=group.fingerprint, run=run.id, canary=5, canary_seconds=60)
    assert early.sent == 5
    assert ended(app, run.id).failed == 431

    fleet.mended.touch()
    assert app.redrive(group=group.fingerprint, run=run.id, canary=5, canary_seconds=60).sent == 431
    view = eventually(
        lambda: (view := app.run(run.id).view()).status == "completed" and view, PATIENCE_SECONDS
    )
    assert (view.succeeded, view.failed, view.unfinished) == (many, 0, 0)
    assert len(fleet.effects()) == paid, "what was paid for was not paid for again"
    assert len({each.job for each in fleet.effects()}) == many
    assert all(worker.is_alive for worker in workers)
