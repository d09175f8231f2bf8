"""The retry budget beside a plain list of all calls and retries."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seawall.decisions.budget import RetryBudget
from seawall.decisions.tally import Tally

START = 1_800_000_000.0
ROUNDING = 1e-6

BUDGETS = st.builds(
    RetryBudget,
    share=st.sampled_from([0, 0.1, 0.29, 0.5, 1]) | st.floats(0, 1),
    floor_per_second=st.sampled_from([0, 0.1, 0.5, 3]),
    window_seconds=st.sampled_from([1, 2.5, 5, 10, 60]),
)
MOMENTS = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0.25, 0.5, 1, 4, 30, 200]),
        st.one_of(st.tuples(st.just("calls"), st.integers(1, 30)), st.just(("retry", 1))),
    ),
    max_size=80,
)


def allowed(budget, calls):
    return budget.share * calls + budget.floor_per_second * budget.window_seconds


def spent(budget, tally, now, most=1_000):
    """How many retries are granted at this moment, one after the other, and the state then."""
    for granted in range(most):
        tally, may = budget.take_retry(tally, now)
        if not may:
            return granted, tally
    raise AssertionError(f"{most} retries and no end")


@settings(deadline=None, max_examples=300)
@given(BUDGETS, MOMENTS)
def test_a_retry_is_granted_exactly_while_the_window_has_room(budget, moments):
    tally, now, book = Tally(), START, []
    for pause, (kind, count) in moments:
        now += pause
        if kind == "calls":
            tally = budget.record_call(tally, now, count)
            book += [(now, "call")] * count
            continue
        first = math.floor(now) - budget.window_seconds
        window = [entry for when, entry in book if math.floor(when) > first]
        most = allowed(budget, window.count("call"))
        tally, granted = budget.take_retry(tally, now)
        if granted:
            book.append((now, "retry"))
            assert window.count("retry") + 1 <= most + ROUNDING
        else:
            assert window.count("retry") + 1 > most - ROUNDING


@settings(deadline=None, max_examples=100)
@given(BUDGETS, st.integers(0, 500))
def test_a_storm_of_retries_gets_its_share_and_the_floor_and_no_more(budget, calls):
    tally = budget.record_call(Tally(), START, calls)
    granted, _ = spent(budget, tally, START)
    assert allowed(budget, calls) - 1 - ROUNDING <= granted <= allowed(budget, calls) + ROUNDING


def test_retries_add_a_tenth_of_the_load_and_one_a_second():
    tally = RetryBudget().record_call(Tally(), START, 1_000)
    assert spent(RetryBudget(), tally, START)[0] == 160


def test_a_quiet_service_may_retry_by_the_floor():
    assert spent(RetryBudget(), Tally(), START)[0] == 60


def test_without_a_floor_a_quiet_service_may_not_retry():
    assert spent(RetryBudget(floor_per_second=0), Tally(), START)[0] == 0


def test_a_refused_retry_is_not_charged():
    _, tally = spent(RetryBudget(), Tally(), START)
    assert RetryBudget().take_retry(tally, START) == (tally, False)


def test_room_recovers_when_the_window_slides():
    _, tally = spent(RetryBudget(), Tally(), START)
    assert spent(RetryBudget(), tally, START + 59)[0] == 0
    assert spent(RetryBudget(), tally, START + 60)[0] == 60


def test_room_goes_when_the_calls_that_gave_it_slide_out():
    tally = RetryBudget().record_call(Tally(), START, 1_000)
    assert RetryBudget().room(tally, START + 59) == pytest.approx(160)
    assert RetryBudget().room(tally, START + 60) == pytest.approx(60)


def test_retries_of_a_clock_far_ahead_do_not_strand_it():
    _, tally = spent(RetryBudget(), Tally(), START + 86_400)
    assert spent(RetryBudget(), tally, START)[0] == 60


@pytest.mark.parametrize(("name", "value"), [
    ("share", -0.1), ("share", 1.1), ("share", math.nan),
    ("floor_per_second", -1), ("floor_per_second", math.inf), ("floor_per_second", math.nan),
    ("window_seconds", 0), ("window_seconds", 0.9), ("window_seconds", 3_601),
    ("window_seconds", math.nan),
])  # fmt: skip
def test_a_budget_that_cannot_be_is_refused_by_the_name_of_its_field(name, value):
    with pytest.raises(ValueError, match=rf"^{name}: found ") as refused:
        RetryBudget(**{name: value})
    assert repr(value) in str(refused.value)
