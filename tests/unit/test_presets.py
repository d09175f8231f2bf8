"""The five systems' policies, figure by figure (SPEC A8)."""

import random

import pytest

from seawall import Fail, Fault, FaultCode, Retry, UnknownPolicyError, presets
from seawall.decisions.explain import schedule
from tests.unit.test_backoff import assert_uniform

F = FaultCode
DRAWS = 10_000

TRANSIENT = (F.RATE_LIMITED, F.TIMEOUT, F.UNAVAILABLE, F.UPSTREAM_ERROR)
FATAL = (
    F.INVALID_REQUEST,
    F.UNAUTHORIZED,
    F.NOT_FOUND,
    F.CONFIG_MISSING,
    F.INVALID_INPUT,
    F.REFUSED,
)

# preset, fault, and the window of each delay in seconds; the attempt after them is exhausted.
FIGURES = [
    *[("llm-reports", code, [(24, 36), (96, 144), (384, 576)]) for code in (*TRANSIENT, F.IO_ERROR, F.WORKER_LOST)],
    *[("ai-worker", code, [(0.8, 1.2), (1.6, 2.4)]) for code in (*TRANSIENT, F.INVALID_RESPONSE)],
    *[("ai-worker", code, [(0.8, 1.2)]) for code in (F.UNKNOWN, F.INTERNAL_ERROR)],
    *[("ai-worker-costly", code, [(0.8, 1.2)]) for code in (*TRANSIENT, F.INVALID_RESPONSE, F.UNKNOWN)],
    *[("ai-sync", code, [(0.3, 0.8)]) for code in (F.INVALID_RESPONSE, F.TIMEOUT, F.UNAVAILABLE, F.UPSTREAM_ERROR)],
    ("ai-sync", F.RATE_LIMITED, []),
    ("ai-sync", F.WORKER_LOST, []),
    *[("media-sync", code, [(0, 5), (0, 10), (0, 20), (0, 40), (0, 80)]) for code in TRANSIENT],
    ("media-sync", F.NOT_READY, [(15, 30), (30, 60), (60, 120), (120, 240), (240, 480)] + [(300, 600)] * 7),
    *[("converter", code, [(5, 10), (10, 15)]) for code in (F.UPSTREAM_ERROR, F.UNAVAILABLE, F.TIMEOUT, F.IO_ERROR, F.UNKNOWN)],
    *[("sample-stage", code, [(0.75, 1.25), (1.5, 2.5)]) for code in (*TRANSIENT, *FATAL, F.UNKNOWN, F.INTERNAL_ERROR)],
    *[("sample-llm", code, [(0.75, 1.25), (1.5, 2.5)]) for code in TRANSIENT],
    *[("sample-filter", code, []) for code in (*TRANSIENT, F.UNKNOWN)],
]  # fmt: skip


@pytest.mark.parametrize(("name", "code", "windows"), FIGURES, ids=lambda value: str(value)[:30])
def test_each_delay_is_drawn_evenly_from_the_documents_range(name, code, windows):
    policy, fault, rng = presets.get(name), Fault(code), random.Random(f"{name} {code}")
    for attempt, (least, most) in enumerate(windows, 1):
        verdicts = [policy.decide(fault, attempt=attempt, rng=rng) for _ in range(DRAWS)]
        assert all(isinstance(verdict, Retry) for verdict in verdicts)
        assert_uniform([verdict.delay_seconds for verdict in verdicts], least, most)
    assert policy.decide(fault, attempt=len(windows) + 1, rng=rng) == Fail("exhausted")


# preset and the faults that it fails at once.
FATALS = [
    ("llm-reports", (*FATAL, F.INVALID_RESPONSE, F.QUOTA_EXHAUSTED, F.UNKNOWN, F.INTERNAL_ERROR)),
    ("ai-worker", (*FATAL, F.QUOTA_EXHAUSTED)),
    ("ai-sync", (*FATAL, F.UNKNOWN, F.INTERNAL_ERROR)),
    ("media-sync", (*FATAL, F.INVALID_RESPONSE, F.INTERNAL_ERROR)),
    ("converter", (*FATAL, F.INTERNAL_ERROR, F.INVALID_RESPONSE, F.RATE_LIMITED)),
    ("sample-llm", (*FATAL, F.QUOTA_EXHAUSTED, F.INVALID_RESPONSE, F.UNKNOWN, F.INTERNAL_ERROR)),
    ("default", (*FATAL, F.QUOTA_EXHAUSTED, F.UNKNOWN, F.INTERNAL_ERROR)),
]


@pytest.mark.parametrize(
    ("name", "code"), [(name, code) for name, codes in FATALS for code in codes]
)
def test_what_trying_again_cannot_help_fails_at_once(name, code):
    verdict = presets.get(name).decide(Fault(code), attempt=1, rng=random.Random(0))
    assert verdict == Fail("fatal")


def test_the_synchronous_preset_hands_over_rather_than_wait():
    policy, rng = presets.get("ai-sync"), random.Random(0)
    told = Fault(F.UPSTREAM_ERROR, retry_after_seconds=0.9)
    assert policy.decide(told, attempt=1, rng=rng) == Fail("deadline")
    within = Fault(F.UPSTREAM_ERROR, retry_after_seconds=0.7)
    delays = [policy.decide(within, attempt=1, rng=rng).delay_seconds for _ in range(1_000)]
    assert 0.7 <= min(delays) <= max(delays) <= 0.8
    at_the_limit = Fault(F.UPSTREAM_ERROR, retry_after_seconds=0.8)
    assert policy.decide(at_the_limit, attempt=1, rng=rng) == Retry(0.8)


def test_the_background_preset_takes_retry_after_as_a_floor():
    policy = presets.get("ai-worker")
    verdict = policy.decide(
        Fault(F.RATE_LIMITED, retry_after_seconds=40), attempt=1, rng=random.Random(0)
    )
    assert verdict.delay_seconds >= 40


def test_twelve_waits_for_a_media_server_sum_to_what_its_notes_say():
    policy = presets.get("media-sync")
    rule = policy.rule_for(Fault(F.NOT_READY))
    assert sum(wait.most_seconds for wait in schedule(policy, rule)) == 5_130
    assert "5,130 s" in policy.notes


def test_a_media_server_that_is_still_scanning_does_not_spend_the_others_allowance():
    policy, rng = presets.get("media-sync"), random.Random(0)
    scanning = [F.NOT_READY] * 12
    verdict = policy.decide(Fault(F.TIMEOUT), attempt=13, rng=rng, earlier=scanning)
    assert isinstance(verdict, Retry)
    assert verdict.delay_seconds <= 5


@pytest.mark.parametrize("status", [400, 401, 404, 408, 409, 410, 422, 429, 499])
def test_the_converter_retries_no_4xx(status):
    fault = Fault(F.TIMEOUT if status == 408 else F.INVALID_REQUEST, status=status)
    assert presets.get("converter").decide(fault, attempt=1, rng=random.Random(0)) == Fail("fatal")


def test_the_converter_honours_a_429_that_says_when():
    fault = Fault(F.RATE_LIMITED, status=429, retry_after_seconds=20)
    verdict = presets.get("converter").decide(fault, attempt=1, rng=random.Random(0))
    assert isinstance(verdict, Retry)
    assert verdict.delay_seconds >= 20


@pytest.mark.parametrize(
    ("fault", "retried"),
    [
        *[
            (Fault(F.UPSTREAM_ERROR, status=s), s in (500, 502, 503, 504))
            for s in (500, 501, 502, 503, 504, 505, 529)
        ],
        (Fault(F.RATE_LIMITED, status=429), True),
        (Fault(F.TIMEOUT), True),
        (Fault(F.TIMEOUT, status=408), False),
        (Fault(F.UNAVAILABLE), True),
        (Fault(F.UNAVAILABLE, status=529), False),
    ],
    ids=str,
)
def test_the_sample_llm_retries_its_five_statuses_and_transport_errors_only(fault, retried):
    verdict = presets.get("sample-llm").decide(fault, attempt=1, rng=random.Random(0))
    assert isinstance(verdict, Retry) is retried


def test_a_429_for_an_exhausted_quota_is_transient_nowhere():
    fault = Fault(F.QUOTA_EXHAUSTED, status=429)
    for name in presets.names():
        if name not in ("sample-stage", "sample-filter", "webhook"):
            assert presets.get(name).decide(fault, attempt=1, rng=random.Random(0)) == Fail("fatal")


def test_the_caps_of_the_sample_presets_hold_after_jitter():
    for name, cap in (("sample-stage", 60), ("sample-llm", 30)):
        rule = presets.get(name).rule_for(Fault(F.UPSTREAM_ERROR, status=500))
        assert rule.backoff.window(20)[1] == cap


def test_invalid_output_is_fatal_in_one_preset_and_never_retried_at_once_in_another():
    fault, rng = Fault(F.INVALID_RESPONSE), random.Random(0)
    assert presets.get("llm-reports").decide(fault, attempt=1, rng=rng) == Fail("fatal")
    assert presets.get("ai-worker").judge(fault, attempt=1).window[0] > 0.5


def test_there_are_these_presets():
    assert presets.names() == (
        "default", "llm-reports", "ai-worker", "ai-worker-costly", "ai-sync", "media-sync",
        "converter", "sample-stage", "sample-llm", "sample-filter", "webhook",
    )  # fmt: skip


def test_a_misspelt_preset_names_the_nearest():
    with pytest.raises(UnknownPolicyError, match="did you mean llm-reports"):
        presets.get("llm-report")
    with pytest.raises(LookupError, match="there are: default, "):
        presets.get("zzz")
