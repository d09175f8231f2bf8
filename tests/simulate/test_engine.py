"""The simulation: the same by seed, and as production decides."""

import json
from dataclasses import replace

import pytest

from seawall import Backoff, Breaker, Policy, Rule, Upstream, presets
from seawall.simulate import Choice, Fleet, Load, Phase, Scenario, Service, compare
from seawall.simulate.engine import run

QUICK = Service(distribution="fixed", mean_seconds=0.2, timeout_seconds=2)
OUTAGE = Scenario(
    load=Load(per_second=4, for_seconds=300),
    workers=Fleet(count=2, concurrency=5),
    service=QUICK,
    phases=(Phase("healthy", 60), Phase("down", 120), Phase("healthy")),
)
BARE = Choice(presets.get("default"), None)


def policy(**backoff):
    return Policy(name="own", max_attempts=4, rules=(Rule(on="all", backoff=Backoff(**backoff)),))


def test_the_same_seed_gives_the_same_result_byte_for_byte():
    found = [json.dumps(compare(OUTAGE, seeds=2).as_data()) for _ in range(2)]
    assert found[0] == found[1]
    assert json.dumps(compare(OUTAGE, seeds=2, first_seed=7).as_data()) != found[0]


def test_every_job_is_accounted_for():
    for choice in (Choice(), BARE):
        record = run(OUTAGE, choice, 1)
        assert record.jobs == record.succeeded + record.dead + record.unfinished
        assert record.calls == record.jobs + record.retries
        assert record.calls == sum(record.calls_by_second)
        assert record.failed_calls == sum(record.failed_by_second)
        assert len(record.times) == record.succeeded


def test_a_breaker_holds_what_would_else_be_lost():
    impatient = presets.get("ai-worker")
    held, bare = run(OUTAGE, Choice(impatient), 1), run(OUTAGE, Choice(impatient, None), 1)
    assert held.dead <= 10
    assert bare.dead > 100
    assert held.failed_calls < bare.failed_calls / 10
    assert any(row[-1] for row in held.states), "it was never held"


def test_without_trouble_each_job_is_called_for_once():
    well = replace(OUTAGE, phases=(Phase("healthy"),))
    record = run(well, Choice(), 1)
    assert (record.calls, record.failed_calls, record.dead) == (record.jobs, 0, 0)
    assert max(record.times) < 0.5


def test_a_schedule_without_jitter_is_kept_to_the_moment():
    """30/120/480 seconds: the fourth attempt is 630 seconds after the first."""
    down = Scenario(
        load=Load(jobs=1),
        workers=Fleet(count=1, concurrency=1),
        service=QUICK,
        phases=(Phase("down", 600, answer_seconds=0.1), Phase("healthy")),
        choices=(
            Choice(policy(curve="schedule", schedule_seconds=(30, 120, 480), jitter="none"), None),
        ),
    )
    record = run(down, down.choices[0], 1)
    began = [second for second, calls in enumerate(record.calls_by_second) if calls]
    assert began == [0, 30, 150, 630]
    assert record.succeeded == 1


def test_a_retry_after_is_read_and_kept():
    """Told 40 seconds, nobody comes back sooner, whatever the curve says."""
    scenario = Scenario(
        load=Load(jobs=20),
        workers=Fleet(count=1, concurrency=20),
        service=QUICK,
        phases=(Phase("errors", 1, rate=1.0, status=429, retry_after_seconds=40), Phase("healthy")),
    )
    record = run(scenario, Choice(policy(curve="fixed", base_seconds=1), None), 1)
    assert record.calls_by_second[0] == 20
    assert sum(record.calls_by_second[1:40]) == 0
    assert record.succeeded == 20
    held = run(scenario, Choice(policy(curve="fixed", base_seconds=1)), 1)
    assert sum(held.calls_by_second[1:40]) == 0


def test_a_limit_is_never_exceeded_in_any_minute():
    scenario = Scenario(load=Load(jobs=400), workers=Fleet(count=3, concurrency=10), service=QUICK)
    record = run(scenario, Choice(upstream=Upstream("u", per_minute={"requests": 120})), 1)
    calls = record.calls_by_second
    assert record.succeeded == 400
    assert max(sum(calls[at : at + 60]) for at in range(len(calls))) <= 120


def test_concurrency_is_never_exceeded():
    scenario = Scenario(load=Load(jobs=200), workers=Fleet(count=3, concurrency=10), service=QUICK)
    record = run(scenario, Choice(upstream=Upstream("u", concurrency=4)), 1)
    assert record.succeeded == 200
    assert max(running for _, _, running, *_ in record.states) <= 4


def test_retries_stay_within_their_budget():
    failing = Scenario(
        load=Load(per_second=20, for_seconds=120),
        workers=Fleet(count=2, concurrency=20),
        service=QUICK,
        phases=(Phase("errors", rate=0.4),),
        seconds=130,
    )
    never = Breaker(consecutive_failures=None, failure_rate=None)
    record = run(failing, Choice(upstream=Upstream("u", breaker=never)), 1)
    assert record.retries <= 0.1 * record.jobs + 1.0 * 130 + 60
    unbounded = run(failing, Choice(upstream=Upstream("u", breaker=never, retry_budget=None)), 1)
    assert unbounded.retries > 2 * record.retries


@pytest.mark.parametrize(
    ("phase", "fails"),
    [
        (Phase("slow", factor=2), False),
        (Phase("slow", factor=20), True),
        (Phase("down", hangs=True), True),
        (Phase("errors", rate=0.5, status=500), True),
        (Phase("rate-limit", limit=1, retry_after=True), True),
        (Phase("flapping", up_seconds=5, down_seconds=5), True),
        (Phase("recovering", 60), True),
    ],
)
def test_each_behaviour_does_what_it_says(phase, fails):
    scenario = replace(OUTAGE, phases=(phase,), seconds=60)
    record = run(scenario, BARE, 1)
    assert bool(record.failed_calls) is fails


def test_every_choice_meets_the_same_arrivals():
    found = compare(replace(OUTAGE, choices=(Choice(), BARE)), seeds=1)
    held, bare = found
    assert held.record.jobs == bare.record.jobs
    assert found["default"].dead_letters.mean == 0
