"""What follows a fault while somebody waits, by two policies."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seawall import Backoff, Fail, Fault, FaultCode, Policy, Rule, presets
from seawall.decisions.call_now import TAKE_BACK_SECONDS, Again, HandOver, follows

SYNC = presets.get("ai-sync")
WORKER = presets.get("ai-worker")
BAD_GATEWAY = Fault(FaultCode.UPSTREAM_ERROR, "bad gateway", status=502)


def after(fault=BAD_GATEWAY, **changes):
    usual = {
        "own": WORKER, "inline": SYNC, "attempt": 1, "earlier": (), "elapsed_seconds": 0.0,
        "patience_seconds": 30.0, "deadline_seconds": None, "rng": random.Random(1),
    }  # fmt: skip
    return follows(fault, **{**usual, **changes})


@given(st.integers(0, 2**32))
def test_a_first_502_is_tried_again_here_and_only_later_by_workers(seed):
    found = after(rng=random.Random(seed))
    assert isinstance(found, Again)
    assert 0.3 <= found.delay_seconds <= 0.8
    assert found.due_seconds >= found.delay_seconds + TAKE_BACK_SECONDS


def test_a_second_one_is_handed_over_with_the_first_delay_of_the_jobs_own_policy():
    found = after(attempt=2, earlier=[BAD_GATEWAY])
    assert isinstance(found, HandOver)
    assert found.reason == "exhausted"
    assert 0.8 <= found.delay_seconds <= 1.2


def test_a_rate_limit_is_handed_over_at_once_not_before_it_said():
    found = after(Fault(FaultCode.RATE_LIMITED, "slow", retry_after_seconds=40))
    assert isinstance(found, HandOver)
    assert found.delay_seconds >= 40


@pytest.mark.parametrize("hint", [0.9, 5.0, 600.0])
def test_a_longer_retry_after_than_anybody_waits_for_is_handed_over(hint):
    fault = Fault(FaultCode.UNAVAILABLE, "down", retry_after_seconds=hint)
    found = after(fault)
    assert isinstance(found, HandOver)
    assert (found.reason, found.delay_seconds >= hint) == ("deadline", True)


@pytest.mark.parametrize("code", ["INVALID_REQUEST", "CONFIG_MISSING", "INVALID_INPUT", "REFUSED"])
def test_what_is_fatal_is_fatal(code):
    assert after(Fault(FaultCode(code))) == Fail("fatal")


def test_what_only_the_inline_policy_gives_up_is_handed_over():
    """Trouble of our own storage is none that a caller waits for, and none that is final."""
    found = after(Fault(FaultCode.IO_ERROR, "disk"), own=presets.get("default"))
    assert isinstance(found, HandOver)
    assert after(Fault(FaultCode.UNKNOWN)) != Fail("fatal"), "ai-worker allows one more"
    assert after(Fault(FaultCode.UNKNOWN), own=presets.get("default")) == Fail("fatal")


def test_what_is_fatal_to_the_jobs_own_policy_is_not_tried_here_either():
    fault = Fault(FaultCode.INVALID_RESPONSE, "no JSON")
    assert isinstance(after(fault), Again)
    assert after(fault, own=presets.get("llm-reports")) == Fail("fatal")


@pytest.mark.parametrize("hint", [None, 12.0])
def test_a_policy_of_one_attempt_leaves_the_workers_that_one(hint):
    once = Policy(name="once", max_attempts=1, rules=[Rule(on="all")])
    fault = Fault(FaultCode.UPSTREAM_ERROR, "bad", retry_after_seconds=hint)
    found = after(fault, own=once, attempt=2, earlier=[fault])
    assert isinstance(found, HandOver)
    assert found.delay_seconds >= (hint or 0.0)


def test_nobody_waits_longer_than_its_caller_does():
    found = after(patience_seconds=0.2)
    assert isinstance(found, HandOver)
    assert found.reason == "deadline"


def test_a_job_that_would_come_too_late_has_failed():
    assert after(attempt=2, earlier=[BAD_GATEWAY], deadline_seconds=0.5) == Fail("deadline")
    assert isinstance(after(deadline_seconds=5.0), Again)


@given(
    code=st.sampled_from(list(FaultCode)),
    attempt=st.integers(1, 3),
    hint=st.sampled_from([None, 0.0, 0.5, 30.0, 1e6]),
    patience=st.sampled_from([-1.0, 0.0, 0.5, 30.0]),
    own=st.sampled_from([presets.get(name) for name in presets.names()]),
    inline=st.sampled_from([presets.get(name) for name in presets.names()]),
    seed=st.integers(0, 2**32),
)
def test_whatever_the_policies_no_wait_is_shorter_than_the_upstream_asked_for(
    code, attempt, hint, patience, own, inline, seed
):
    fault = Fault(code, "x", retry_after_seconds=hint)
    found = after(
        fault, own=own, inline=inline, attempt=attempt, earlier=[fault] * (attempt - 1),
        patience_seconds=patience, rng=random.Random(seed),
    )  # fmt: skip
    match found:
        case Again(delay, due):
            assert (hint or 0.0) <= delay < patience
            assert due >= max(delay, hint or 0.0)
        case HandOver(delay):
            assert delay >= (hint or 0.0)
        case Fail(reason):
            assert reason in ("fatal", "deadline")


def test_another_curve_can_be_chosen():
    slow = Policy(
        name="slow",
        max_attempts=5,
        rules=[Rule(on="all", backoff=Backoff(base_seconds=3, jitter="none"))],
    )
    found = after(inline=slow, attempt=3, earlier=[BAD_GATEWAY] * 2)
    assert isinstance(found, Again)
