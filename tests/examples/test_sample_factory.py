"""The sample factory, on a clock that is moved by hand: the real policies, a real provider."""

import os
import random
from collections import Counter
from dataclasses import replace
from math import comb, sqrt
from typing import Any, NamedTuple

import httpx2
import pytest

from examples.sample_factory import app as factory_app
from examples.sample_factory.app import app, factory
from examples.sample_factory.provider import Ledger, trouble
from examples.sample_factory.samples import Kind, kind_of, kinds, written
from seawall import (
    Backoff,
    Fault,
    FaultError,
    Policy,
    Rule,
    RunView,
    Seawall,
    current_job,
    presets,
    stage,
)
from seawall.simulate import load_scenario
from seawall.simulate.engine import run as simulated
from seawall.testing import in_memory
from tests.examples.sample_factory_world import KEY, expected, serving, tries_of, url_of

SAMPLES = 250
FEW = 100


@pytest.fixture(scope="module")
def provider():
    with serving() as server, pytest.MonkeyPatch.context() as patched:
        patched.setenv("LLM_URL", url_of(server))
        patched.setenv("EMBEDDER_URL", url_of(server))
        patched.setenv("PROVIDER_KEY", KEY)
        patched.setattr(factory_app, "client", brief_client)
        yield server


def brief_client():
    """The factory's own, without connections that would outlive the test."""
    key = {"Authorization": f"Bearer {os.environ['PROVIDER_KEY']}"}
    return httpx2.AsyncClient(
        headers=key, limits=httpx2.Limits(max_keepalive_connections=0), verify=False
    )


@pytest.fixture
def world(provider):
    provider.ledger = Ledger()
    with in_memory(app) as found:
        yield found


def pushed(world, folder, many, **terms):
    """A run of so many samples that has ended."""
    run = factory.run(written(folder / "samples.jsonl", many), name="monday", **terms)
    world.drain()
    return run


@pytest.fixture(scope="module")
def monday(provider, tmp_path_factory):
    """A run to look at: nobody changes it."""
    provider.ledger = Ledger()
    with in_memory(app) as world:
        run = pushed(world, tmp_path_factory.mktemp("monday"), SAMPLES)
        prose = app.dead_letters(run=run.id, fault="INVALID_RESPONSE")
        said = [world.store.evidence(each.job_id, each.attempts).raw_output for each in prose]
        letters = letters_of(run)
        yield Monday(run.view(), run.report(), provider.ledger.page(), letters, said, app.verify())


class Monday(NamedTuple):
    view: RunView
    report: Any
    ledger: dict
    letters: list
    said: list
    books: Any


def letters_of(run):
    found = app.dead_letters(run=run.id, limit=100)
    return [(each, app.job(each.job_id).attempts()) for each in found.letters]


def test_every_sample_is_accounted_for_and_ends_as_its_kind_and_the_provider_say(monday):
    view, told = monday.view, expected(SAMPLES)
    ends = {
        (stage.name, end): getattr(stage, end)
        for stage in view.stages
        for end in ("skipped", "failed")
        if getattr(stage, end)
    }
    assert ends == {key: many for key, many in told.ends.items() if key[1] != "succeeded"}
    assert view.succeeded == told.ends["measure", "succeeded"]
    assert view.succeeded + view.skipped + view.failed == view.entered == SAMPLES
    assert (view.unfinished, view.cancelled) == (0, 0)
    assert monday.books.ok


def test_the_retry_histogram_is_exact_and_stages_are_as_reliable_as_their_upstreams(monday):
    report, told = monday.report, expected(SAMPLES)
    keep, label, embed, measure = report.stages
    assert label.tries == dict(told.tries["label"])
    assert embed.tries == dict(told.tries["embed"])
    assert keep.tries == {1: SAMPLES}  # one attempt for the filter, whatever comes of it
    assert measure.reliability == 1.0
    for each, endpoint in ((label, "chat"), (embed, "embeddings")):
        calls = sum(monday.ledger[endpoint]["answers"].values())
        assert each.attempts == calls  # a row for every call
        assert each.attempts == sum(tries * items for tries, items in each.tries.items())
    assert label.retried == label.attempts - sum(label.tries.values())
    assert embed.reliability < label.reliability < measure.reliability


def test_the_commonest_errors_are_told_and_of_which_kind_they_are(monday):
    commonest = monday.report.troubles[0]
    assert (commonest.stage, commonest.code) == ("embed", "INVALID_REQUEST")
    assert commonest.items == kinds(SAMPLES)[Kind.LONG]
    codes = {each.code for each in monday.report.troubles}
    assert codes >= {"RATE_LIMITED", "UPSTREAM_ERROR", "UNAVAILABLE", "INVALID_INPUT"}
    counts = [each.attempts for each in monday.report.troubles]
    assert counts == sorted(counts, reverse=True)


def test_dead_letters_keep_stage_fault_and_time_newest_first(monday):
    letters = [letter for letter, _ in monday.letters]
    assert len(letters) == monday.view.failed
    stages = Counter(("keep", "label", "embed")[letter.stage] for letter in letters)
    ends = expected(SAMPLES).ends
    assert stages == {name: many for (name, end), many in ends.items() if end == "failed"}
    newest_first = [letter.last_at for letter in letters]
    assert newest_first == sorted(newest_first, reverse=True)
    for letter, attempts in monday.letters:
        assert attempts[-1].fault == letter.fault
        assert len(attempts) == letter.attempts or letter.stage == 0


def test_what_the_model_really_said_is_kept_for_review(monday):
    assert monday.said == ["I would rather talk about the weather."] * (SAMPLES // 500 + 1)


def test_a_samples_history_has_a_row_for_every_attempt(world):
    number = next(
        n for n in range(1, 10_000) if kind_of(n) is Kind.GOOD and tries_of("chat", n) == 3
    )
    job = factory.enqueue(id=number, text="one two three four five six")
    world.drain()
    rows = [(each.stage, each.outcome) for each in job.attempts()]
    assert rows[:4] == [(0, "advanced"), (1, "retried"), (1, "retried"), (1, "advanced")]
    faults = [each.fault for each in job.attempts()][:4]
    assert [fault is None for fault in faults] == [True, False, False, True]
    assert all(each.config for each in job.attempts())
    assert all(each.policy.startswith("sample-llm@") for each in job.attempts()[1:3])


def test_after_the_fix_only_the_failed_stage_is_done_again_and_the_run_is_mended(
    world, provider, tmp_path, monkeypatch
):
    run = pushed(world, tmp_path, FEW)
    before = run.view()
    assert before.status == "partial_success"
    assert 0.50 <= before.success_rate < 0.95
    calls = provider.ledger.page()["chat"]
    monkeypatch.setattr(factory_app, "IN_PIECES", True)

    plan = app.redrive(run=run.id, stage="embed", dry_run=True)
    assert plan.found >= kinds(FEW)[Kind.LONG]
    assert app.redrive(run=run.id, stage="embed").sent == plan.found
    world.drain()

    after = run.view()
    assert after.status == "completed"
    assert after.failed == before.failed - plan.found
    assert provider.ledger.page()["chat"] == calls, "nothing that was paid for is asked for again"
    assert provider.ledger.page()["chat"]["paid_twice"] == 0
    assert app.verify().ok


def test_a_wrong_key_stops_the_run_within_twenty_samples(world, provider, tmp_path, monkeypatch):
    monkeypatch.setenv("PROVIDER_KEY", "sk-mistyped")
    run = pushed(world, tmp_path, FEW)
    view = run.view()
    assert view.status == "aborted"
    assert "UNAUTHORIZED" in view.reason
    assert provider.ledger.page()["chat"]["answers"]["401"] <= 20
    assert view.unfinished > FEW / 2


def test_the_failure_budget_is_ten_percent_judged_from_a_thousand_on():
    run_terms = factory.run.__kwdefaults__
    assert (run_terms["failure_budget"], run_terms["minimum"]) == (0.10, 1_000)
    assert (run_terms["complete_at"], run_terms["partial_at"]) == (0.95, 0.50)


@pytest.mark.parametrize(
    ("damaged", "status"), [(0, "completed"), (30, "partial_success"), (60, "failed")]
)
def test_a_run_is_called_by_the_share_that_succeeded(world, tmp_path, monkeypatch, damaged, status):
    monkeypatch.setattr(factory_app, "IN_PIECES", True)
    file = written(tmp_path / "samples.jsonl", 100, damaged_of_100=damaged)
    run = factory.run(file, name="small", failure_budget=None)
    world.drain()
    assert run.view().status == status


# --- the policies of the stages -------------------------------------------------------------------


def test_each_stage_has_the_policy_that_it_deserves():
    named = {each.name: app.policy(each.policy).name for each in factory.stages}
    assert named == {
        "keep": "sample-filter", "label": "sample-llm",
        "embed": "sample-stage", "measure": "sample-stage",
    }  # fmt: skip
    assert [presets.get(name).max_attempts for name in named.values()] == [1, 3, 3, 3]


def test_delays_are_about_one_two_and_four_seconds():
    for name in ("sample-stage", "sample-llm"):
        backoff = presets.get(name).rule_for(Fault("UPSTREAM_ERROR", status=503)).backoff
        assert [backoff.window(n) for n in (1, 2, 3)] == [(0.75, 1.25), (1.5, 2.5), (3.0, 5.0)]
        # With three attempts a sample waits for 3.75 s at most: the caps are for more of them.
        assert sum(backoff.window(n)[1] for n in (1, 2)) == 3.75


@pytest.mark.parametrize("seed", range(50))
def test_a_hundred_second_delays_are_two_seconds_on_average(seed):
    """Uniform from 1.5 to 2.5 s: the mean of 100 has a deviation of 0.029 s, and 0.2 s is seven."""
    policy, rng = presets.get("sample-stage"), random.Random(seed)
    fault = Fault("UPSTREAM_ERROR", status=503)
    delays = [policy.decide(fault, attempt=2, rng=rng).delay_seconds for _ in range(100)]
    assert 1.8 <= sum(delays) / 100 <= 2.2
    assert len({round(delay, 3) for delay in delays}) > 80, "they do not come back together"


# --- half of the calls fail, and there are three attempts -----------------------------------------


def flaky(fails):
    """An application of one stage, which fails where it is told to, and how many samples succeed."""
    found = Seawall(policy="sample-stage")

    @stage
    def shaky(number: int) -> int:
        if fails(number, current_job().attempt):
            raise FaultError("RATE_LIMITED", "too many requests", status=429)
        return number

    return found, found.pipeline("flaky", [shaky])


def test_of_every_way_that_three_attempts_can_go_seven_in_eight_succeed():
    """50 % failures and 3 attempts: 87.5 of 100 are to be expected, 70 of 80 exactly."""
    found, pipeline = flaky(lambda number, attempt: number >> (attempt - 1) & 1)
    with in_memory(found) as world:
        run = pipeline.run(range(80), name="all", failure_budget=None)
        world.drain()
        view = run.view()
        assert (view.succeeded, view.failed) == (70, 10)
        assert run.report().stages[0].tries == {1: 40, 2: 20, 3: 20}


def test_a_hundred_samples_that_fail_by_chance_are_near_87_and_not_surely_90():
    dice = random.Random(4)
    found, pipeline = flaky(lambda *_: dice.random() < 0.5)
    with in_memory(found) as world:
        run = pipeline.run(range(100), name="all", failure_budget=None)
        world.drain()
        mean, deviation = 87.5, sqrt(100 * 0.875 * 0.125)
        assert abs(run.view().succeeded - mean) <= 5 * deviation
    at_least_90 = sum(comb(100, n) * 0.875**n * 0.125 ** (100 - n) for n in range(90, 101))
    assert 0.2 < at_least_90 < 0.4, "a test that expects 90 fails three times in four"


def test_a_curve_may_be_jittered_fixed_or_linear():
    fixed = Backoff(curve="fixed", base_seconds=1, jitter="none")
    linear = Backoff(curve="linear", base_seconds=1, cap_seconds=3, jitter="none")
    assert [fixed.window(n) for n in (1, 2, 5)] == [(1, 1)] * 3
    assert [linear.window(n) for n in (1, 2, 5)] == [(1, 1), (2, 2), (3, 3)]
    assert Policy(name="none", max_attempts=3, rules=(Rule(on="none"),)).rule_for(
        Fault("TIMEOUT")
    ).retry is False  # fmt: skip


def test_the_providers_plan_fails_the_shares_that_it_says():
    many = 20_000
    for endpoint, share in (("chat", 0.05), ("embeddings", 0.015)):
        failed = sum(trouble(endpoint, n, 1) is not None for n in range(many))
        assert abs(failed / many - share) < 5 * sqrt(share * (1 - share) / many)


def test_a_real_provider_is_asked_again_no_sooner_than_it_says(world, llm, monkeypatch):
    monkeypatch.setenv("LLM_URL", llm.url)
    llm.behave(
        llm.rate_limited(times=2, retry_after=20), llm.saying('```json\n{"topic": "tides"}\n```')
    )
    begun = world.now
    number = next(n for n in range(1, 999) if tries_of("embeddings", n) == 1)
    job = factory.enqueue(id=number, text="one two three four five six")
    world.drain()
    assert job.result()["topic"] == "tides"
    assert [each["status"] for each in llm.requests()] == [429, 429, 200]
    assert (world.now - begun).total_seconds() >= 40


def test_jittered_doubling_meets_far_fewer_429s_than_a_fixed_delay():
    """The design measured 80 % fewer 429s and 30 % fewer retries; here, where all get through."""
    scenario = load_scenario("samples")
    storm = replace(scenario, load=replace(scenario.load, jobs=600))
    by_name = {choice.name: choice for choice in scenario.choices}
    fixed = simulated(storm, by_name["fixed, 60 attempts"], 1)
    jittered = simulated(storm, by_name["doubling ±25 %, 60 attempts"], 1)
    assert (fixed.dead, jittered.dead) == (0, 0)
    assert jittered.failed_calls < 0.25 * fixed.failed_calls
    assert jittered.retries < 0.7 * fixed.retries
