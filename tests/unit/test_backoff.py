"""Curves, jitters and the cap (SPEC A5)."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seawall import Backoff
from seawall.decisions.backoff import JITTERS, LONGEST_SECONDS

DRAWS = 10_000


def draws(backoff, attempt, previous=None, seed=1):
    rng = random.Random(seed)
    return [backoff.delay_seconds(attempt, rng, previous) for _ in range(DRAWS)]


def assert_uniform(values, least, most):
    """Ten equal bins each hold a tenth, within five standard deviations."""
    assert min(values) >= least
    assert max(values) <= most
    bins = [0] * 10
    for value in values:
        bins[min(9, int((value - least) / (most - least) * 10))] += 1
    allowed = 5 * math.sqrt(len(values) * 0.1 * 0.9)
    assert all(abs(count - len(values) / 10) <= allowed for count in bins), bins


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (Backoff(curve="fixed", base_seconds=5, jitter="none"), [5, 5, 5, 5]),
        (Backoff(curve="linear", base_seconds=3, jitter="none"), [3, 6, 9, 12]),
        (Backoff(curve="exponential", base_seconds=1, jitter="none"), [1, 2, 4, 8]),
        (Backoff(curve="exponential", base_seconds=2, factor=3, jitter="none"), [2, 6, 18, 54]),
        (Backoff(curve="exponential", base_seconds=1, cap_seconds=3, jitter="none"), [1, 2, 3, 3]),
        (
            Backoff(curve="schedule", schedule_seconds=(30, 120, 480), jitter="none"),
            [30, 120, 480, 480],
        ),
        (
            Backoff(curve="schedule", schedule_seconds=(30, 120), cap_seconds=60, jitter="none"),
            [30, 60, 60],
        ),
    ],
)
def test_a_curve_without_jitter_is_exact(backoff, delays):
    rng = random.Random(0)
    assert [backoff.delay_seconds(n, rng) for n in range(1, len(delays) + 1)] == delays


@pytest.mark.parametrize(
    ("jitter", "window"),
    [
        ({"jitter": "full"}, (0, 8)),
        ({"jitter": "equal"}, (4, 8)),
        ({"jitter": "proportional", "jitter_ratio": 0.25}, (6, 10)),
        ({"jitter": "additive", "jitter_seconds": 5}, (8, 13)),
    ],
)
def test_a_jitter_is_uniform_over_its_window(jitter, window):
    backoff = Backoff(curve="exponential", base_seconds=1, **jitter)
    assert backoff.window(4) == window
    assert_uniform(draws(backoff, 4), *window)


@pytest.mark.parametrize(
    ("jitter", "window"),
    [
        ({"jitter": "full"}, (0, 60)),
        ({"jitter": "equal"}, (30, 60)),
        ({"jitter": "proportional", "jitter_ratio": 0.25}, (45, 60)),
        ({"jitter": "additive", "jitter_seconds": 5}, (55, 60)),
    ],
)
def test_at_the_cap_the_window_shrinks_or_slides_and_stays_uniform(jitter, window):
    backoff = Backoff(curve="exponential", base_seconds=1, cap_seconds=60, **jitter)
    assert backoff.window(50) == window
    assert_uniform(draws(backoff, 50), *window)


def test_the_decorrelated_curve_grows_from_its_previous_delay():
    backoff = Backoff(curve="decorrelated", base_seconds=2, cap_seconds=60)
    assert backoff.window(1) == (2, 6)
    assert backoff.window(2, 5.0) == (2, 15)
    assert backoff.window(9, 50.0) == (2, 60)
    assert_uniform(draws(backoff, 2, previous=5.0), 2, 15)


def test_the_decorrelated_curve_without_a_cap_stays_bounded():
    backoff = Backoff(curve="decorrelated", base_seconds=2)
    delay, rng = None, random.Random(3)
    for attempt in range(1, 2_000):
        delay = backoff.delay_seconds(attempt, rng, delay)
        assert 2 <= delay <= LONGEST_SECONDS


@pytest.mark.parametrize("jitter", JITTERS)
@pytest.mark.parametrize("attempt", [10_000, 10**9])
def test_no_attempt_number_overflows(jitter, attempt):
    extra = {"proportional": {"jitter_ratio": 0.2}, "additive": {"jitter_seconds": 5}}
    for curve in ("fixed", "linear", "exponential"):
        backoff = Backoff(curve=curve, base_seconds=5, jitter=jitter, **extra.get(jitter, {}))
        delay = backoff.delay_seconds(attempt, random.Random(0))
        assert 0 <= delay <= LONGEST_SECONDS


def test_the_same_seed_draws_the_same_delays():
    backoff = Backoff(curve="exponential", base_seconds=1, jitter="full")
    assert draws(backoff, 3, seed=9) == draws(backoff, 3, seed=9)
    assert draws(backoff, 3, seed=9) != draws(backoff, 3, seed=10)


@st.composite
def backoffs(draw):
    seconds = st.floats(0, 1e5)
    base = draw(seconds)
    curve = draw(st.sampled_from(["fixed", "linear", "exponential", "decorrelated", "schedule"]))
    jitter = "none" if curve == "decorrelated" else draw(st.sampled_from(JITTERS))
    return Backoff(
        curve=curve,
        base_seconds=base,
        factor=draw(st.floats(1, 1_000)),
        schedule_seconds=draw(st.lists(seconds, min_size=1, max_size=5))
        if curve == "schedule"
        else (),
        cap_seconds=draw(st.none() | st.floats(base, 2e5)),
        jitter=jitter,
        jitter_ratio=draw(st.floats(0.01, 1)) if jitter == "proportional" else None,
        jitter_seconds=draw(st.floats(0.01, 1e5)) if jitter == "additive" else None,
    )


@given(backoffs(), st.integers(1, 10**6), st.none() | st.floats(0, 1e9), st.integers(0, 99))
def test_a_delay_is_finite_never_negative_and_never_above_the_cap(backoff, attempt, previous, seed):
    least, most = backoff.window(attempt, previous)
    delay = backoff.delay_seconds(attempt, random.Random(seed), previous)
    assert 0 <= least <= delay <= most <= backoff.ceiling_seconds
    assert math.isfinite(delay)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"curve": "expo"}, "curve"),
        ({"jitter": "some"}, "jitter"),
        ({"base_seconds": -1}, "base_seconds"),
        ({"base_seconds": math.nan}, "base_seconds"),
        ({"factor": 0.5}, "factor"),
        ({"cap_seconds": math.inf}, "cap_seconds"),
        ({"base_seconds": "2"}, "base_seconds"),
        ({"base_seconds": True}, "base_seconds"),
        ({"base_seconds": 10**400}, "base_seconds"),
        ({"base_seconds": 60, "cap_seconds": 2}, "cap_seconds"),
        ({"schedule_seconds": ["1"]}, "schedule_seconds"),
        ({"jitter": "full", "jitter_ratio": 0.2}, "jitter_ratio"),
        ({"jitter": "additive"}, "jitter_seconds"),
        ({"curve": "schedule"}, "schedule_seconds"),
        ({"schedule_seconds": (1,)}, "schedule_seconds"),
        ({"curve": "decorrelated", "jitter": "full"}, "jitter"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(wrong, named):
    with pytest.raises(ValueError, match=f"^{named}: (found .*|is missing, )expected"):
        Backoff(**{"curve": "fixed", **wrong})


def test_attempts_are_numbered_from_one():
    with pytest.raises(ValueError, match="numbered from 1"):
        Backoff(curve="fixed").window(0)


@pytest.mark.parametrize(
    ("given", "jitter", "cap"),
    [
        ({}, "equal", 300),
        ({"curve": "linear"}, "equal", 300),
        ({"base_seconds": 900}, "equal", 900),
        ({"curve": "decorrelated"}, "none", 300),
        ({"curve": "fixed"}, "proportional", None),
        ({"curve": "schedule", "schedule_seconds": [480]}, "proportional", None),
    ],
)
def test_what_is_not_said_is_safe(given, jitter, cap):
    backoff = Backoff(**given)
    assert (backoff.jitter, backoff.cap_seconds) == (jitter, cap)
    assert backoff.jitter_ratio == (0.2 if jitter == "proportional" else None)


def test_setting_one_key_leaves_the_rest_as_it_is():
    assert Backoff(curve="exponential") == Backoff(base_seconds=2) == Backoff()
