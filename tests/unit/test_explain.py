"""Decisions in words: what they say is what is done."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seawall import Fault, FaultCode, presets
from seawall.decisions.explain import backoff_in_words, explain, in_words, schedule

F = FaultCode


def told(name, fault, **more):
    return explain(presets.get(name), fault, rng=random.Random(1), **{"attempt": 1, **more})


@given(
    st.sampled_from(presets.names()),
    st.sampled_from(list(FaultCode)),
    st.integers(1, 20),
    st.none() | st.floats(0.1, 1e5),
    st.floats(0, 1e5),
)
def test_the_words_never_differ_from_the_deed(name, code, attempt, hint, elapsed):
    policy, fault = presets.get(name), Fault(code, retry_after_seconds=hint)
    said = explain(policy, fault, attempt=attempt, rng=random.Random(5), elapsed_seconds=elapsed)
    done = policy.decide(fault, attempt=attempt, rng=random.Random(5), elapsed_seconds=elapsed)
    assert said.verdict == done
    assert len(said.sentences) >= 2
    assert all(sentence.endswith(".") for sentence in said.sentences)


@pytest.mark.parametrize(
    ("name", "fault", "more", "sentence"),
    [
        ("default", Fault(F.RATE_LIMITED, retry_after_seconds=30), {"attempt": 2}, "The upstream asked for 30 s. That is the least; the rest spreads those who were told the same: 30 s – 50 s."),
        ("default", Fault(F.RATE_LIMITED), {}, "Such a failure uses up none of the policy's attempts."),
        ("default", Fault(F.UNKNOWN), {}, "No rule of default is on it, so `otherwise` judges it."),
        ("default", Fault(F.UNKNOWN), {}, "The rule does not retry: the same attempt would end the same way."),
        ("default", Fault(F.CANCELLED), {}, "No policy retries what a person or a deadline has ended."),
        ("default", Fault(F.TIMEOUT, final=True), {}, "The upstream said not to try again."),
        ("default", Fault(F.TIMEOUT), {"elapsed_seconds": 86_399.9}, "The policy allows 24 h from the first attempt on, of which 100 ms is left; the wait is 2.5 s – 5 s."),
        ("llm-reports", Fault(F.TIMEOUT), {"attempt": 4}, "This was attempt 4 of 4."),
        ("llm-reports", Fault(F.TIMEOUT), {"attempt": 4}, "The allowance is used up."),
        ("converter", Fault(F.RATE_LIMITED), {}, "The rule retries only where the upstream says when, and it did not."),
        ("ai-sync", Fault(F.TIMEOUT, retry_after_seconds=9), {}, "The upstream asked for 9 s; the policy waits 800 ms at most."),
        ("ai-worker", Fault(F.UNKNOWN), {"earlier": []}, "This is failure 1 of the 2 that the rule allows."),
        ("llm-reports", Fault(F.TIMEOUT), {}, "Rule 1 of llm-reports judges it, the first that matches: RATE_LIMITED, TIMEOUT, UNAVAILABLE, UPSTREAM_ERROR, IO_ERROR, RESOURCE_EXHAUSTED, NOT_READY."),
    ],
)  # fmt: skip
def test_each_reason_has_its_sentence(name, fault, more, sentence):
    assert sentence in told(name, fault, **more).sentences


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (0.3, "300 ms"), (1, "1 s"), (1.25, "1.25 s"), (90, "90 s"), (120, "2 min"), (158, "2 min 38 s"),
     (480, "8 min"), (3_600, "1 h"), (5_130, "1 h 26 min"), (86_400, "24 h"), (200_000, "2 d 8 h"), (119.99, "2 min"),
     (7_199, "2 h"), (179.8, "3 min"), (0.9999, "1 s")],
)  # fmt: skip
def test_lengths_of_time_are_said_as_people_say_them(seconds, words):
    assert in_words(seconds) == words


def test_every_curve_and_jitter_has_words():
    said = {
        backoff_in_words(rule.backoff)
        for name in presets.names()
        for rule in presets.get(name).rules
    }
    assert "30 s / 2 min / 8 min, ±20%" in said
    assert "300 ms always" not in said
    assert "always 300 ms, plus 0 to 500 ms, at most 800 ms" in said


def test_a_schedule_ends_where_the_allowance_does():
    policy = presets.get("llm-reports")
    waits = schedule(policy, policy.rules[0])
    assert [wait.failure for wait in waits] == [1, 2, 3]
    assert waits[-1].sum_seconds == 630
