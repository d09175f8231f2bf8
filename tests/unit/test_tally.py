"""The tally beside a plain list of everything that was ever counted."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seawall.decisions.tally import Tally

START = 1_800_000_000
WINDOWS = st.sampled_from([1, 1.5, 2, 10, 60, 3_600])
MOMENTS = st.lists(
    st.tuples(st.floats(START, START + 200), st.integers(0, 9), st.integers(0, 9)), max_size=40
)


def in_the_window(moment, now, window_seconds):
    """By whole seconds: the present one and those before it, so many in all."""
    return -window_seconds < math.floor(moment) - math.floor(now) <= window_seconds


@settings(deadline=None, max_examples=200)
@given(WINDOWS, MOMENTS, st.floats(START, START + 5_000))
def test_a_total_is_the_sum_over_the_window(window_seconds, moments, now):
    moments = sorted(moments)
    tally = Tally()
    for moment, first, second in moments:
        tally = tally.add((first, second), moment, window_seconds)
    now = max([now, *(moment for moment, _, _ in moments)])
    seen = [row for row in moments if in_the_window(row[0], now, window_seconds)]
    assert tally.total(2, now, window_seconds) == (
        sum(first for _, first, _ in seen),
        sum(second for _, _, second in seen),
    )


@settings(deadline=None, max_examples=200)
@given(WINDOWS, MOMENTS)
def test_its_size_is_bounded_by_the_window_even_when_the_clock_jumps(window_seconds, moments):
    tally = Tally()
    for moment, first, second in moments:
        tally = tally.add((first, second), moment, window_seconds)
        seconds = [when for when, _ in tally.slices]
        assert seconds == sorted(set(seconds))
        assert len(seconds) <= 2 * window_seconds + 1
        assert all(in_the_window(second, moment, window_seconds) for second in seconds)


def test_a_window_of_sixty_seconds_is_sixty_slices():
    tally = Tally()
    for second in range(100):
        tally = tally.add((1,), START + second + 0.5, 60)
    assert len(tally.slices) == 60
    assert tally.total(1, START + 99, 60) == (60,)
    assert tally.total(1, START + 100, 60) == (59,)


def test_counts_of_one_second_are_one_slice():
    tally = Tally().add((1, 2), START, 60).add((3, 4), START + 0.999, 60)
    assert tally == Tally(((START, (4, 6)),))


def test_a_clock_a_little_back_loses_nothing():
    tally = Tally().add((5,), START + 30, 60)
    assert tally.total(1, START, 60) == (5,)
    assert tally.add((1,), START, 60).total(1, START, 60) == (6,)


def test_counts_further_ahead_than_a_window_are_dropped():
    tally = Tally().add((5,), START + 61, 60)
    assert tally.total(1, START, 60) == (0,)
    assert tally.add((1,), START, 60) == Tally(((START, (1,)),))


def test_an_empty_tally_has_zeros():
    assert Tally().total(3, START, 60) == (0, 0, 0)


def test_counts_of_another_kind_are_refused():
    with pytest.raises(ValueError, match="zip"):
        Tally().add((1, 2), START, 60).add((1, 2, 3), START, 60)
