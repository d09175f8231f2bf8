"""Rules, allowances, Retry-After and deadlines (SPEC A4, A6, A7)."""

import dataclasses
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seawall import Backoff, Fail, Fault, FaultCode, Policy, PolicyError, Retry, Rule, presets
from seawall.decisions.policy import MOST_RULES
from seawall.decisions.rule import WORKER_LOST
from tests.unit.test_backoff import backoffs

F = FaultCode
ONE_SECOND = Backoff(curve="fixed", base_seconds=1, jitter="none")


def decide(policy, fault, attempt=1, seed=0, **more):
    fault = Fault(fault) if isinstance(fault, FaultCode) else fault
    return policy.decide(fault, attempt=attempt, rng=random.Random(seed), **more)


def test_the_first_rule_that_matches_judges():
    policy = Policy(
        name="p",
        max_attempts=3,
        rules=[
            Rule(on=429, backoff=Backoff(curve="fixed", base_seconds=7, jitter="none")),
            Rule(on="RATE_LIMITED", retry=False),
        ],
    )
    assert decide(policy, Fault(F.RATE_LIMITED, status=429)) == Retry(7)
    assert decide(policy, Fault(F.RATE_LIMITED, status=503)) == Fail("fatal")


def test_otherwise_judges_the_rest_and_fails_by_default():
    assert decide(Policy(name="p", max_attempts=3), F.TIMEOUT) == Fail("fatal")
    kind = Policy(name="p", max_attempts=3, otherwise=Rule(on="all", backoff=ONE_SECOND))
    assert decide(kind, F.TIMEOUT) == Retry(1)


def test_the_attempt_after_the_last_is_exhausted_not_fatal():
    policy = Policy(name="p", max_attempts=3, rules=[Rule(on="all", backoff=ONE_SECOND)])
    verdicts = [decide(policy, F.TIMEOUT, n) for n in (1, 2, 3, 4)]
    assert verdicts == [Retry(1), Retry(1), Fail("exhausted"), Fail("exhausted")]


def test_a_rules_own_allowance_counts_only_failures_by_that_rule():
    policy = Policy(
        name="p",
        max_attempts=10,
        rules=[
            Rule(on="UNKNOWN", max_attempts=2, backoff=ONE_SECOND),
            Rule(on="TIMEOUT", backoff=ONE_SECOND),
        ],
    )
    timeouts = [F.TIMEOUT, F.TIMEOUT]
    assert decide(policy, F.UNKNOWN, 3, earlier=timeouts) == Retry(1)
    assert decide(policy, F.UNKNOWN, 4, earlier=[*timeouts, F.UNKNOWN]) == Fail("exhausted")
    assert decide(policy, F.TIMEOUT, 4, earlier=[*timeouts, F.UNKNOWN]) == Retry(1)


def test_a_rule_with_an_allowance_of_its_own_has_a_curve_of_its_own():
    doubling = Backoff(curve="exponential", base_seconds=30, jitter="none")
    policy = Policy(
        name="p",
        max_attempts=10,
        rules=[
            Rule(on="NOT_READY", max_attempts=9, backoff=doubling),
            Rule(on="TIMEOUT", backoff=doubling),
        ],
    )
    timeouts = [F.TIMEOUT, F.TIMEOUT]
    assert decide(policy, F.NOT_READY, 3, earlier=timeouts) == Retry(30)
    assert decide(policy, F.NOT_READY, 4, earlier=[F.NOT_READY, *timeouts]) == Retry(60)
    assert decide(policy, F.TIMEOUT, 3, earlier=[F.NOT_READY, F.NOT_READY]) == Retry(120)


def test_a_bare_code_like_the_present_one_counts_for_rules_on_statuses_and_names():
    for on, fault in (
        (503, Fault(F.UPSTREAM_ERROR, status=503)),
        ("httpx.ReadError", Fault(F.UNAVAILABLE, kinds=("httpx.ReadError",))),
    ):
        policy = Policy(
            name="p",
            max_attempts=99,
            rules=[Rule(on=on, max_attempts=3, counts=False, backoff=ONE_SECOND)],
        )
        assert decide(policy, fault, 1, earlier=[fault.code]) == Retry(1, counts=False)
        assert decide(policy, fault, 1, earlier=[fault.code] * 50) == Fail("exhausted")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"retry": "no"}, "^retry: found 'no', expected true or false"),
        ({"backoff": None}, "^backoff: found None, expected a Backoff"),
        ({"max_attempts": 2.5}, "^max_attempts: found 2.5, expected 1 to"),
        (
            {"retry": False, "max_attempts": 3},
            "^retry: found False beside keys that would do nothing",
        ),
        ({"on": "CANCELLED"}, "^on: found CANCELLED, which nothing retries"),
        ({"on": 429.0}, "^on: found 429.0, expected a fault code"),
    ],
)
def test_a_rule_that_means_nothing_is_refused(wrong, said):
    with pytest.raises(PolicyError, match=said):
        Rule(**{"on": "TIMEOUT", **wrong})


def test_a_rule_can_be_adapted():
    rule = presets.get("llm-reports").rules[0]
    assert dataclasses.replace(rule, max_attempts=2).matchers == rule.matchers


def test_without_history_every_earlier_attempt_is_taken_to_have_failed_alike():
    policy = Policy(name="p", rules=[Rule(on="all", max_attempts=3, backoff=ONE_SECOND)])
    assert decide(policy, F.TIMEOUT, 2) == Retry(1)
    assert decide(policy, F.TIMEOUT, 3) == Fail("exhausted")


def test_earlier_faults_may_be_whole_faults_that_match_by_status():
    policy = Policy(
        name="p", max_attempts=9, rules=[Rule(on=503, max_attempts=2, backoff=ONE_SECOND)]
    )
    past = [Fault(F.UPSTREAM_ERROR, status=503)]
    assert decide(policy, past[0], 2, earlier=past) == Fail("exhausted")
    assert decide(policy, past[0], 2, earlier=[F.TIMEOUT]) == Retry(1)


def test_a_failure_that_does_not_count_is_not_bound_by_the_policys_attempts():
    policy = Policy(
        name="p",
        max_attempts=2,
        rules=[Rule(on="RATE_LIMITED", counts=False, max_attempts=50, backoff=ONE_SECOND)],
    )
    assert decide(policy, F.RATE_LIMITED, 9) == Retry(1, counts=False)
    assert decide(policy, F.RATE_LIMITED, 1, earlier=[F.RATE_LIMITED] * 49) == Fail("exhausted")


def test_in_default_a_throttled_job_is_not_a_failing_one():
    verdict = decide(presets.get("default"), F.RATE_LIMITED, 5, earlier=[F.RATE_LIMITED] * 100)
    assert isinstance(verdict, Retry)
    assert not verdict.counts


def test_a_lost_worker_has_an_allowance_of_its_own_in_every_policy():
    strict = Policy(name="p", max_attempts=1, rules=[Rule(on="all", backoff=ONE_SECOND)])
    assert WORKER_LOST in strict.rules
    for losses in range(4):
        verdict = decide(strict, F.WORKER_LOST, 1, earlier=[F.WORKER_LOST] * losses)
        assert isinstance(verdict, Retry)
        assert not verdict.counts
    assert decide(strict, F.WORKER_LOST, 1, earlier=[F.WORKER_LOST] * 4) == Fail("exhausted")


def test_a_policy_may_say_otherwise_about_lost_workers():
    policy = Policy(name="p", max_attempts=3, rules=[Rule(on="WORKER_LOST", retry=False)])
    assert decide(policy, F.WORKER_LOST) == Fail("fatal")


@pytest.mark.parametrize("code", [F.CANCELLED, F.EXPIRED])
def test_nothing_retries_what_a_person_or_a_deadline_has_ended(code):
    policy = Policy(name="p", max_attempts=9, rules=[Rule(on="all", backoff=ONE_SECOND)])
    assert decide(policy, code) == Fail("fatal")


def test_an_upstream_that_says_no_retry_is_believed():
    policy = Policy(name="p", max_attempts=9, rules=[Rule(on="all", backoff=ONE_SECOND)])
    assert decide(policy, Fault(F.UPSTREAM_ERROR, status=500, final=True)) == Fail("fatal")


def test_a_rule_may_retry_only_where_the_upstream_said_when():
    policy = Policy(
        name="p",
        max_attempts=3,
        rules=[Rule(on="RATE_LIMITED", needs_retry_after=True, backoff=ONE_SECOND)],
    )
    assert decide(policy, F.RATE_LIMITED) == Fail("fatal")
    verdict = decide(policy, Fault(F.RATE_LIMITED, retry_after_seconds=9))
    assert isinstance(verdict, Retry)
    assert verdict.delay_seconds >= 9


# ------------------------------------------------------------------ Retry-After

PATIENT = Policy(name="p", max_attempts=3, rules=[Rule(on="all", backoff=ONE_SECOND)])


@pytest.mark.parametrize(
    "name", [n for n in presets.names() if n not in ("ai-sync", "sample-filter")]
)
def test_a_thousand_clients_told_thirty_seconds_are_spread(name):
    fault = Fault(F.RATE_LIMITED, status=429, retry_after_seconds=30)
    policy = presets.get(name)
    delays = [
        policy.decide(fault, attempt=1, rng=random.Random(client)).delay_seconds
        for client in range(1_000)
    ]
    assert min(delays) >= 30
    busiest = max(sum(start <= d < start + 1 for d in delays) for start in delays)
    assert busiest <= 100


@pytest.mark.parametrize("hint", [0.02, 1, 5, 30, 600, 86_400])
def test_clients_told_the_same_wait_do_not_come_back_in_the_same_second(hint):
    fault = Fault(F.RATE_LIMITED, retry_after_seconds=hint)
    delays = [decide(PATIENT, fault, seed=client).delay_seconds for client in range(1_000)]
    assert min(delays) >= hint
    busiest = max(sum(start <= d < start + 1 for d in delays) for start in delays)
    assert busiest <= 300


def test_our_own_curve_may_wait_longer_than_the_upstream_asked():
    slow = Policy(
        name="p",
        max_attempts=3,
        rules=[Rule(on="all", backoff=Backoff(curve="fixed", base_seconds=99, jitter="none"))],
    )
    assert decide(slow, Fault(F.RATE_LIMITED, retry_after_seconds=1)) == Retry(99)


@pytest.mark.parametrize("absurd", [1e8, 1e9, 31_536_000.0])
def test_an_absurd_wait_is_neither_cut_down_nor_a_crash(absurd):
    verdict = decide(PATIENT, Fault(F.RATE_LIMITED, retry_after_seconds=absurd))
    assert isinstance(verdict, Retry)
    assert verdict.delay_seconds >= absurd


@pytest.mark.parametrize("rubbish", [math.nan, math.inf, -math.inf, -1.0, 0.0])
def test_a_wait_that_is_no_wait_is_no_hint(rubbish):
    assert decide(PATIENT, Fault(F.RATE_LIMITED, retry_after_seconds=rubbish)) == Retry(1)


def test_somebody_who_waits_is_not_kept_waiting():
    policy = Policy(
        name="p", max_attempts=2, max_wait_seconds=0.8, rules=[Rule(on="all", backoff=ONE_SECOND)]
    )
    assert decide(policy, Fault(F.TIMEOUT, retry_after_seconds=0.9)) == Fail("deadline")
    quick = Policy(
        name="p",
        max_attempts=2,
        max_wait_seconds=0.8,
        rules=[Rule(on="all", backoff=Backoff(curve="fixed", base_seconds=0.1))],
    )
    assert decide(quick, Fault(F.TIMEOUT, retry_after_seconds=0.8)) == Retry(0.8)


@given(
    backoffs(),
    st.none() | st.floats(1e-3, 1e6),
    st.integers(1, 50),
    st.integers(0, 999),
    st.sampled_from(list(FaultCode)),
)
def test_a_delay_is_never_below_retry_after_nor_above_its_cap_unless_retry_after_is(
    backoff, hint, attempt, seed, code
):
    policy = Policy(name="p", max_attempts=100, rules=[Rule(on="all", backoff=backoff)])
    verdict = decide(policy, Fault(code, retry_after_seconds=hint), attempt, seed)
    if not isinstance(verdict, Retry) or code is F.WORKER_LOST:
        return
    assert math.isfinite(verdict.delay_seconds)
    assert verdict.delay_seconds >= max(0.0, hint or 0.0)
    if hint is None or hint < backoff.ceiling_seconds:
        assert verdict.delay_seconds <= backoff.ceiling_seconds


# ------------------------------------------------------------------ time


def test_a_retry_that_would_begin_too_late_fails_as_deadline():
    policy = dataclasses.replace(PATIENT, max_elapsed_seconds=10)
    assert decide(policy, F.TIMEOUT, elapsed_seconds=8.9) == Retry(1)
    assert decide(policy, F.TIMEOUT, elapsed_seconds=9.1) == Fail("deadline")
    assert decide(policy, Fault(F.TIMEOUT, retry_after_seconds=60)) == Fail("deadline")


# ------------------------------------------------------------------ as data


def test_the_version_follows_the_content_and_not_the_name():
    one = Policy(name="a", max_attempts=3, rules=[Rule(on="all", backoff=ONE_SECOND)])
    other = Policy(name="b", max_attempts=3, rules=[Rule(on="all", backoff=ONE_SECOND)], notes="…")
    assert one.version == other.version
    assert one.id == f"a@{one.version}"
    assert (
        dataclasses.replace(one, max_elapsed_seconds=60).version
        == dataclasses.replace(one, max_elapsed_seconds=60.0).version
    )
    assert one.version != dataclasses.replace(one, max_attempts=4).version
    assert one.version != Policy(name="a", max_attempts=3, rules=[Rule(on="all")]).version


def test_codes_may_be_given_as_text_or_as_members():
    assert Rule(on="TIMEOUT") == Rule(on=F.TIMEOUT) == Rule(on=[F.TIMEOUT])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": "two words"}, "^name: found 'two words'"),
        ({"name": None}, "^name: found None"),
        ({"rules": None}, "^rules: found None, expected a list of rules"),
        ({"max_attempts": 0}, "^max_attempts: found 0"),
        ({"max_attempts": True}, "^max_attempts: found True"),
        ({"max_elapsed_seconds": -1}, "^max_elapsed_seconds: found -1"),
        ({"max_elapsed_seconds": True}, "^max_elapsed_seconds: found True"),
        ({"rules": [{"on": "all"}]}, r"^rules\[0\]: found {'on': 'all'}, expected a Rule"),
        (
            {"rules": [Rule(on="all"), Rule(on=429)]},
            r"^rules\[1\] \(429\): is never reached, rules\[0\] is on all",
        ),
        ({"otherwise": Rule(on="TIMEOUT")}, "^otherwise.on: expected"),
        ({"max_wait_seconds": math.nan}, "^max_wait_seconds: found nan"),
        (
            {"max_attempts": None, "rules": [Rule(on="all")]},
            r"^rules\[0\] \(all\): would retry for ever",
        ),
        (
            {"rules": [Rule(on="all", counts=False)]},
            r"^rules\[0\] \(all\): its failures use up none .* would retry for ever; give the rule max_attempts, or the policy max_elapsed",
        ),
        ({"rules": [Rule(on="none")] * (MOST_RULES + 1)}, "^rules: found 101, expected at most"),
    ],
)
def test_a_policy_that_cannot_be_used_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        Policy(**{"name": "p", "max_attempts": 3, **wrong})


def test_attempts_are_numbered_from_one():
    with pytest.raises(ValueError, match="attempt: found 0, expected 1 or more"):
        decide(PATIENT, F.TIMEOUT, 0)
