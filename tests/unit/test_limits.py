"""The fleet's limits, seen from the upstream: plain lists of all calls and charges."""

import copy
import json
import math
import pickle
import random
from bisect import bisect_left
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, pairwise

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from seawall.decisions.limits import (
    BURST_SECONDS,
    CLOCK_SKEW_SECONDS,
    DEBT_SECONDS,
    LATE_SECONDS,
    LONGEST_HOLD_SECONDS,
    REQUESTS,
    WINDOW_SECONDS,
    Limits,
    LimitState,
    as_data,
    begin,
    book,
    from_data,
    next_at,
    reserve,
    room,
    settle,
    under_way,
)

START = 1_800_000_000.0
TINY = 1e-5
"""More than the rounding of a time since the epoch, and than the margin on the burst."""
STRETCH = WINDOW_SECONDS + LATE_SECONDS + BURST_SECONDS
HOLD = 30.0

WHOLE_LIMITS = st.integers(1, 30) | st.sampled_from([60, 62, 100, 997, 3_600, 50_000, 100_000])
PAUSES = st.sampled_from([0, 0, 0.001, 0.05, 0.3, 0.999, 1, 1.001, 7, 59, 60, 61, 62]) | st.floats(
    0, 130
)


def requests(limit, **more):
    return Limits(per_minute={REQUESTS: limit}, **more)


def begun(limits, state, calls, now, holder="w"):
    return begin(limits, state, holder, calls, now, hold_seconds=HOLD)


def said(limits, state, calls, now, holder="w", hold_seconds=HOLD):
    return under_way(limits, state, holder, calls, now, hold_seconds=hold_seconds)


def reserved(limits, state, units, now):
    granted = reserve(limits, state, units, now)
    assert isinstance(granted, LimitState), f"to wait {granted} s"
    return granted


def most_in_a_window(uses, seconds=WINDOW_SECONDS):
    """The largest sum of amounts within any half-open window; uses are (time, amount)."""
    uses = sorted(uses)
    times = [time for time, _ in uses]
    sums = [0, *accumulate(amount for _, amount in uses)]
    ends = [bisect_left(times, time + seconds) for time in times]
    return max((sums[end] - sums[first] for first, end in enumerate(ends)), default=0)


# ── At most so many a minute ─────────────────────────────────────────────────────────────────────


@st.composite
def askings(draw):
    """Who asks when, how many of those that may begin do, and how late each lot is used."""
    pause = draw(st.sampled_from([0.05, 0.3, 1, 5]) | st.floats(0.01, 10))
    steady = draw(st.integers(0, 300))
    lots = [(pause, 1.0)] * steady + draw(st.lists(st.tuples(PAUSES, st.floats(0, 1)), max_size=60))
    lates = draw(st.lists(st.sampled_from([0.0, 1.0]) | st.floats(0, 1), min_size=1, max_size=9))
    return draw(st.permutations(lots)) if draw(st.booleans()) else lots, lates


@settings(max_examples=300)
@given(WHOLE_LIMITS, askings(), st.floats(1e9, 4e9))
def test_the_upstream_never_sees_more_than_the_limit_in_any_minute(limit, asking, now):
    limits, state, uses, grants = requests(limit), LimitState(), [], []
    lots, lates = asking
    for turn, (pause, share) in enumerate(lots):
        now += pause
        calls = math.ceil(share * room(limits, state, now))
        state = begun(limits, state, calls, now, f"w{turn % 4}")
        grants.append((now, calls))
        uses.append((now + LATE_SECONDS * lates[turn % len(lates)], calls))
    assert most_in_a_window(uses) <= limit
    # The worst there is: what was granted first is used as late as may be, and the rest at once.
    assert most_in_a_window(grants, WINDOW_SECONDS + LATE_SECONDS) <= limit


@pytest.mark.parametrize("limit", [1, 2, 7, 61, 62, 63, 1_000, 7_919, 100_000])
@pytest.mark.parametrize("pause", [0.05, 0.0437])
def test_work_that_always_waits_uses_nearly_all_of_it(limit, pause):
    limits, state, grants = requests(limit), LimitState(), []
    minutes = 4 if limit > 100 else 60
    for turn in range(math.floor(minutes * 60 / pause)):
        now = START + turn * pause
        calls = room(limits, state, now)
        if calls:
            state = begun(limits, state, calls, now)
            grants.append((now, calls))
    assert sum(calls for _, calls in grants) >= 0.95 * limit * minutes
    assert most_in_a_window(grants, WINDOW_SECONDS + LATE_SECONDS) <= limit


def test_calls_that_begin_one_by_one_do_not_get_ahead_by_rounding():
    """62 / 49 500 s is no whole number of what a double can tell apart at this time."""
    limits, state, now, grants = requests(49_500), LimitState(), START, []
    while now < START + 70:
        if room(limits, state, now, spread=1):
            state = begun(limits, state, 1, now)
            grants.append((now, 1))
        else:
            before, now = now, next_at(limits, state, now)
            assert now > before
    assert 47_025 <= most_in_a_window(grants, WINDOW_SECONDS + LATE_SECONDS) <= 49_500


@given(st.floats(1e9, 4e9), st.floats(1e-3, 1e12), st.floats(1e-9, 1e15), st.floats(-5, 0.9))
def test_a_charge_is_never_rounded_down(now, limit, amount, ahead):
    limits, state = Limits(per_minute={"x": limit}), LimitState((("x", now + ahead),))
    after = reserve(limits, state, {"x": amount}, now)
    assume(isinstance(after, LimitState))
    due = Fraction(max(now, now + ahead)) + Fraction(amount) * min(
        Fraction(STRETCH) / Fraction(limit), Fraction(DEBT_SECONDS)
    )
    ((_, until),) = after.used_until
    assert until >= min(due, Fraction(now + DEBT_SECONDS))


@settings(max_examples=200)
@given(
    st.floats(0.5, 1e6),
    st.lists(st.tuples(PAUSES, st.sampled_from([1, 0.01, 0.5, 2]) | st.floats(0, 3)), max_size=100),
)
def test_of_amounts_a_minute_sees_less_than_the_limit_and_the_last_of_them(limit, asked):
    """Beyond the limit is less than one where all of them fit the burst."""
    limits, state, now, grants = Limits(per_minute={"tokens": limit}), LimitState(), START, []
    burst = 1 + limit * BURST_SECONDS / STRETCH
    for pause, bursts in asked:
        now += pause
        answer = reserve(limits, state, {"tokens": bursts * burst}, now)
        if isinstance(answer, LimitState):
            state = answer
            grants.append((now, bursts * burst))
    largest = max((amount for _, amount in grants), default=0)
    beyond = 1 if largest < burst - 1 else max(1, largest)
    seen = most_in_a_window(grants, WINDOW_SECONDS + LATE_SECONDS)
    assert seen <= (limit + beyond) * (1 + 1e-9)


def test_a_share_of_a_call_is_rounded_up():
    limits, state, begins = requests(2.5), LimitState(), []
    for tenth in range(36_000):
        now = START + tenth / 10
        if room(limits, state, now):
            state = begun(limits, state, 1, now)
            begins.append((now, 1))
    assert most_in_a_window(begins) == 3
    assert len(begins) == math.ceil(3_600 / (STRETCH / 2.5))


@pytest.mark.parametrize(("limit", "calls"), [(1, 1), (62, 1), (124, 2), (620, 10), (62_000, 1000)])
def test_an_idle_key_grants_a_second_of_its_allowance_at_once(limit, calls):
    assert room(requests(limit), LimitState(), START) == calls


def test_after_a_burst_calls_come_back_one_by_one():
    limits, state = requests(62), begun(requests(62), LimitState(), 1, START)
    rooms = [room(limits, state, START + seconds) for seconds in (0, TINY, 0.5, 1, 9)]
    assert rooms == [0, 1, 1, 1, 1]
    state = begun(limits, state, 1, START + TINY)
    assert [room(limits, state, START + seconds) for seconds in (TINY, 0.9, 1 + TINY)] == [0, 0, 1]


@given(WHOLE_LIMITS, st.floats(-5, 5), st.integers(0, 2_000), st.none() | st.integers(1, 50))
def test_room_is_the_least_of_all_limits_and_begin_takes_no_more(limit, ahead, spread, places):
    limits, state = requests(limit, concurrency=places), LimitState(((REQUESTS, START + ahead),))
    free = room(limits, state, START)
    asked = room(limits, state, START, spread=spread)
    assert asked == min(free, spread)
    assert free <= (places or free)
    assert begun(limits, state, free, START)
    with pytest.raises(ValueError, match=rf"^calls: found {free + 1}, expected 0 to {free}, "):
        begun(limits, state, free + 1, START)


def test_where_none_begin_nothing_is_charged():
    state = LimitState(((REQUESTS, START + 0.5),))
    assert begun(requests(60), state, 0, START) == state


def test_what_is_not_limited_has_all_the_room_that_was_asked_for():
    assert room(Limits(), LimitState(), START) == 1_000_000
    assert room(Limits(), LimitState(), START, spread=7) == 7
    assert begun(Limits(), LimitState(), 7, START) == LimitState()


def test_no_call_begins_while_another_unit_is_in_debt():
    limits = Limits(per_minute={REQUESTS: 600, "tokens": 6_200})
    state = LimitState((("tokens", START + 3),))
    assert room(limits, state, START + 1.9) == 0
    assert room(limits, state, START + 2 + TINY) == 10


# ── Calls at once ────────────────────────────────────────────────────────────────────────────────


@dataclass
class PlainPlaces:
    """Every holder's last word, and until when it is believed; nothing is ever dropped."""

    words: dict = field(default_factory=dict)

    def of(self, holder, now):
        calls, until = self.words.get(holder, (0, now))
        return calls if now < until else 0

    def sum(self, now):
        return sum(self.of(holder, now) for holder in self.words)


HOLDERS = st.sampled_from(["a", "b", "c", "d"])
STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 0.5, 1, 4.75, 5, 10, 30]),
        HOLDERS,
        st.sampled_from(["begin", "end", "beat"]),
        st.integers(1, 6),
        st.sampled_from([1, 5, 30]),
    ),
    max_size=60,
)


@settings(max_examples=300)
@given(st.integers(1, 8), STEPS)
def test_places_are_never_more_than_the_limit_and_come_back_exactly_in_time(concurrency, steps):
    limits, state, now, plain = Limits(concurrency=concurrency), LimitState(), START, PlainPlaces()
    for pause, holder, kind, calls, hold in steps:
        now += pause
        held = plain.of(holder, now)
        assert room(limits, state, now) == concurrency - plain.sum(now)
        if kind == "begin":
            more = min(calls, room(limits, state, now))
            state = begin(limits, state, holder, more, now, hold_seconds=hold)
            held += more
        else:
            held = max(0, held - calls) if kind == "end" else held
            state = said(limits, state, held, now, holder, hold)
        plain.words[holder] = (held, now + hold)
        assert sum(count for _, count, _ in state.places) == plain.sum(now) <= concurrency
        assert [name for name, *_ in state.places] == sorted(
            name for name in plain.words if plain.of(name, now)
        )


def test_a_dead_holders_places_come_back_when_their_time_is_over_and_not_before():
    limits = Limits(concurrency=5)
    state = begun(limits, LimitState(), 5, START)
    assert room(limits, state, math.nextafter(START + HOLD, 0)) == 0
    assert room(limits, state, START + HOLD) == 5


def test_a_holder_that_says_none_is_taken_off():
    limits = Limits(concurrency=5)
    state = said(limits, begun(limits, LimitState(), 5, START), 0, START)
    assert state == LimitState()


def test_a_holder_back_from_the_dead_is_believed_and_nobody_begins():
    limits = Limits(concurrency=5)
    state = begun(limits, LimitState(), 5, START, "slow")
    state = begun(limits, state, 4, START + HOLD, "new")
    state = said(limits, state, 5, START + HOLD + 1, "slow")
    assert room(limits, state, START + HOLD + 1) == 0
    state = said(limits, state, 2, START + HOLD + 2, "slow")
    state = said(limits, state, 2, START + HOLD + 2, "new")
    assert room(limits, state, START + HOLD + 2) == 1


def test_where_calls_at_once_are_not_limited_nobody_keeps_a_place():
    limits, counted = requests(60), begun(Limits(concurrency=5), LimitState(), 2, START, "other")
    assert said(limits, LimitState(), 3, START) == LimitState()
    assert begun(limits, counted, 1, START).places == counted.places


# ── Reservations ─────────────────────────────────────────────────────────────────────────────────

UNITS = ("requests", "tokens", "dollars", "free")
TIMES = st.builds(
    lambda ahead: tuple(sorted((unit, START + seconds) for unit, seconds in ahead.items())),
    st.dictionaries(st.sampled_from(UNITS[:3]), st.floats(-50, 3_000)),
)
AMOUNTS = st.dictionaries(
    st.sampled_from(UNITS), st.sampled_from([0, 1, 5]) | st.floats(1e-6, 1e6), max_size=4
)
PER_MINUTE = st.dictionaries(
    st.sampled_from(UNITS[:3]), st.sampled_from([1, 60]) | st.floats(0.1, 1e7)
)

LIMITS = st.builds(Limits, per_minute=PER_MINUTE, concurrency=st.none() | st.integers(1, 9))


@given(PER_MINUTE, TIMES, AMOUNTS)
def test_a_reservation_is_charged_whole_or_not_at_all(per_minute, times, units):
    limits, state = Limits(per_minute=per_minute), LimitState(times)
    answer = reserve(limits, state, units, START)
    alone = {
        unit: isinstance(reserve(limits, state, {unit: amount}, START), LimitState)
        for unit, amount in units.items()
    }
    assert isinstance(answer, LimitState) == all(alone.values())
    if not isinstance(answer, LimitState):
        return
    before, after = dict(times), dict(answer.used_until)
    for unit in UNITS:
        amount = units.get(unit, 0) if unit in per_minute else 0
        if amount:
            cost = amount * STRETCH / per_minute[unit]
            due = min(START + DEBT_SECONDS, max(START, before.get(unit, START)) + cost)
            assert after[unit] == pytest.approx(due, abs=TINY)
        else:
            assert after.get(unit) == before.get(unit)


@given(PER_MINUTE, TIMES, AMOUNTS, st.floats(1.1, 3_600), st.floats(1e-6, 1e6))
def test_it_could_be_granted_in_as_many_seconds_as_it_says_and_not_before(
    per_minute, times, units, ahead, tokens
):
    limits = Limits(per_minute={"tokens": 600, **per_minute})
    state = LimitState(tuple(sorted((dict(times) | {"tokens": START + ahead}).items())))
    units = {**units, "tokens": tokens}
    wait = reserve(limits, state, units, START)
    assert 0 < wait < math.inf
    assert isinstance(reserve(limits, state, units, START + wait + TINY), LimitState)
    assert 0 < reserve(limits, state, units, START + wait - TINY) <= 2 * TINY


def test_a_charge_larger_than_the_burst_waits_until_the_unit_is_idle_and_becomes_debt():
    limits = Limits(per_minute={"tokens": 6_200})
    state = reserved(limits, LimitState(), {"tokens": 1_000}, START)
    assert dict(state.used_until)["tokens"] == pytest.approx(START + 10)
    assert reserve(limits, state, {"tokens": 1_000}, START) == pytest.approx(10)
    assert reserve(limits, state, {"tokens": 51}, START) == pytest.approx(9.5, abs=TINY)
    assert reserve(limits, state, {"tokens": 1}, START) == pytest.approx(9, abs=TINY)
    assert reserve(limits, state, {"tokens": 0, "other": 9e9}, START) == state


def test_a_charge_larger_than_the_whole_limit_goes_through_and_an_hour_of_debt_is_the_most():
    limits = Limits(per_minute={"tokens": 10})
    state = reserved(limits, LimitState(), {"tokens": 1e300}, START)
    assert state.used_until == (("tokens", START + DEBT_SECONDS),)
    assert reserve(limits, state, {"tokens": 1e300}, START) == DEBT_SECONDS


def test_small_charges_that_never_pause_do_not_keep_a_larger_one_waiting():
    """It is booked for the moment at which it fits, and those that come later come after it."""
    limits = Limits(per_minute={"tokens": 6_200})  # a hundred a second
    state, now, waited = LimitState(), START, 0.0
    while isinstance(state, LimitState) and now < START + 5:  # as many as there is room for
        found = reserve(limits, state, {"tokens": 1}, now)
        state = found if isinstance(found, LimitState) else state
        now += 0.001
    assert isinstance(reserve(limits, state, {"tokens": 1_000}, now), float)
    found = book(limits, state, {"tokens": 1_000}, now)
    while isinstance(found, float):
        assert found <= 0.02, "as soon as one unit could be had"
        waited += found + TINY
        found = book(limits, state, {"tokens": 1_000}, now + waited)
    state, begins_in = found
    assert 0 < begins_in <= 1
    assert reserve(limits, state, {"tokens": 1}, now + waited) == pytest.approx(
        begins_in + 9, abs=0.02
    )


@given(PER_MINUTE, TIMES, AMOUNTS)
def test_what_is_booked_is_what_could_be_reserved_at_that_moment(per_minute, times, units):
    limits, state = Limits(per_minute=per_minute), LimitState(times)
    found = book(limits, state, units, START)
    now = reserve(limits, state, units, START)
    if isinstance(now, LimitState):
        assert found == (now, 0.0)
    elif isinstance(found, float):
        assert 0 < found <= now, "nobody is told to come later than he could"
    else:
        booked, begins_in = found
        assert 0 < begins_in <= 1 + TINY
        then = reserve(limits, state, units, START + begins_in + TINY)
        assert isinstance(then, LimitState)
        for unit, until in then.used_until:
            assert dict(booked.used_until)[unit] == pytest.approx(until, abs=2 * TINY)


@settings(max_examples=20)
@given(st.integers(1_000, 100_000), st.integers(0, 2**32), st.floats(0, 1))
def test_no_minute_sees_more_than_its_tokens_whoever_books_how_much(limit, seed, late):
    """Charges within the burst, used up to a second late; a larger one adds itself, as ever."""
    limits, state, rng, now = (
        Limits(per_minute={"tokens": limit}),
        LimitState(),
        random.Random(seed),
        START,
    )
    used = []
    for _ in range(400):
        amount = rng.randint(1, max(1, limit // 80))
        found = book(limits, state, {"tokens": amount}, now)
        while isinstance(found, float):
            now += found + TINY
            found = book(limits, state, {"tokens": amount}, now)
        state, begins_in = found
        used.append((now + begins_in + rng.random() * late, amount))
        now += rng.choice([0, 0, rng.random()])
    used.sort()
    for at, _ in used:
        assert sum(amount for time, amount in used if at <= time < at + 60) <= limit


@given(st.integers(1, 9), st.integers(0, 9))
def test_requests_may_be_reserved_like_any_other_unit(begins, reservations):
    limits = requests(620)
    state = begun(limits, LimitState(), begins, START)
    for _ in range(reservations):
        answer = reserve(limits, state, {REQUESTS: 1}, START)
        state = answer if isinstance(answer, LimitState) else state
    assert room(limits, state, START) == max(0, 10 - begins - reservations)


# ── Settling ─────────────────────────────────────────────────────────────────────────────────────


@given(PER_MINUTE, TIMES, AMOUNTS, AMOUNTS)
def test_settling_charges_what_was_used_more_and_gives_back_what_was_not(
    per_minute, times, before, used
):
    limits, state = Limits(per_minute=per_minute), LimitState(times)
    after = dict(settle(limits, state, before, used, START).used_until)
    for unit in UNITS:
        until = dict(times).get(unit, START)
        more = used.get(unit, 0) - before.get(unit, 0) if unit in per_minute else 0
        if more == 0 or (more < 0 and until <= START):
            assert after.get(unit) == dict(times).get(unit)
            continue
        due = max(START, until) + more * STRETCH / per_minute[unit]
        assert after[unit] == pytest.approx(
            max(START, min(START + DEBT_SECONDS, due)), abs=TINY, rel=0
        )
        assert (after[unit] <= until) if more < 0 else (after[unit] >= START)
        assert after[unit] >= START


@given(st.floats(0, 3_000), st.floats(0.1, 1e7), st.sampled_from([0, 1e-12]) | st.floats(0, 1e6))
@example(5.0, 60.0, 1e-12)
@example(5.0, 60.0, 1e6)
def test_what_is_given_back_lies_between_now_and_what_was_used_before(ahead, limit, rest):
    limits, state = Limits(per_minute={"x": limit}), LimitState((("x", START + ahead),))
    ((_, until),) = settle(limits, state, {"x": rest}, {}, START).used_until
    assert START <= until <= START + ahead
    due = Fraction(START + ahead) - Fraction(rest) * Fraction(STRETCH) / Fraction(limit)
    assert until >= due


def test_what_was_used_more_is_debt_and_later_calls_wait_for_it():
    limits = Limits(per_minute={REQUESTS: 6_200, "tokens": 6_200})
    state = reserved(limits, LimitState(), {"tokens": 50}, START)
    assert room(limits, state, START) == 100
    state = settle(limits, state, {"tokens": 50}, {"tokens": 1_050, "other": 5}, START)
    assert room(limits, state, START) == 0
    assert next_at(limits, state, START) == pytest.approx(START + 9.5, abs=TINY)


def test_what_was_not_used_can_be_reserved_again_but_not_twice():
    limits = Limits(per_minute={"tokens": 6_200})
    state = reserved(limits, LimitState(), {"tokens": 1_000}, START)
    back = settle(limits, state, {"tokens": 1_000}, {"tokens": 100}, START)
    assert dict(back.used_until)["tokens"] == pytest.approx(START + 1)
    for seconds in (0, 5, 20):
        gone = settle(limits, state, {"tokens": 1_000_000}, {}, START + seconds)
        again = reserved(limits, gone, {"tokens": 1_000}, START + seconds)
        assert dict(again.used_until)["tokens"] == pytest.approx(START + seconds + 10)


@settings(max_examples=200)
@given(st.floats(1, 1e5), st.integers(0, 2**32))
def test_over_all_time_no_more_is_used_than_the_limit(limit, seed):
    rng = random.Random(seed)
    limits, state, now = Limits(per_minute={"x": limit}), LimitState(), START
    waiting, used, largest = [], 0.0, 1.0
    for _ in range(150):
        now += rng.choice([0, 0.05, 1, 10])
        amount = rng.random() * limit / rng.choice([2, 60, 600])
        answer = reserve(limits, state, {"x": amount}, now)
        if isinstance(answer, LimitState):
            state, largest = answer, max(largest, amount)
            waiting.append(amount)
        if waiting and rng.random() < 0.7:
            amount = waiting.pop(rng.randrange(len(waiting)))
            took = amount * rng.choice([0, 0.1, 1, 1, 1])
            state = settle(limits, state, {"x": amount}, {"x": took}, now)
            used += took
        in_all = (now - START + BURST_SECONDS) * limit / STRETCH + largest
        assert used + sum(waiting) <= in_all * (1 + 1e-9)


# ── When to ask again ────────────────────────────────────────────────────────────────────────────

PLACES = st.builds(
    lambda held: tuple((name, n, START + until) for name, (n, until) in sorted(held.items())),
    st.dictionaries(HOLDERS, st.tuples(st.integers(1, 9), st.floats(-50, 80_000))),
)


@settings(max_examples=300)
@given(LIMITS, st.builds(LimitState, TIMES, PLACES))
@example(Limits(concurrency=1), LimitState((), (("a", 9, START + 5), ("b", 1, START + 7))))
@example(requests(60, concurrency=1), LimitState(((REQUESTS, START + 99),), (("a", 1, START + 7),)))
def test_it_says_from_when_on_there_is_room(limits, state):
    moment = next_at(limits, state, START)
    if room(limits, state, START):
        assert moment is None
        return
    assert room(limits, state, moment) >= 1
    assert room(limits, state, max(START, moment - TINY)) == 0


@pytest.mark.parametrize(
    ("limits", "moment"),
    [
        (Limits(), None),
        (Limits(concurrency=5), None),
        (Limits(concurrency=4), START + 20),
        (Limits(concurrency=3), START + 20),
        (Limits(concurrency=1), START + 50),
        (Limits(concurrency=4, per_minute={"x": 1}), START + 29),
        (Limits(per_minute={"x": 1}), START + 29),
    ],
)
def test_when_debts_are_paid_and_the_time_of_enough_holders_is_over(limits, moment):
    state = LimitState((("x", START + 30),), (("a", 2, START + 50), ("b", 2, START + 20)))
    found = next_at(limits, state, START)
    assert found == (moment if moment is None else pytest.approx(moment, abs=TINY, rel=0))


# ── Wrong clocks ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ahead", [3_661, 86_400, 1e9])
def test_a_debt_of_a_clock_far_ahead_binds_nobody(ahead):
    limits = Limits(per_minute={REQUESTS: 620, "tokens": 6})
    state = LimitState(((REQUESTS, START + ahead), ("tokens", START + ahead)))
    assert room(limits, state, START) == 10
    assert next_at(limits, state, START) is None
    state = reserved(limits, begun(limits, state, 1, START), {"tokens": 1}, START)
    assert all(until < START + 20 for _, until in state.used_until)


@pytest.mark.parametrize("ahead", [LONGEST_HOLD_SECONDS + 61, 1e9])
def test_a_place_of_a_clock_far_ahead_is_free(ahead):
    state = LimitState((), (("w", 5, START + ahead),))
    assert room(Limits(concurrency=5), state, START) == 5
    assert said(Limits(concurrency=5), state, 1, START, "me").places == (("me", 1, START + HOLD),)


def test_a_debt_and_a_place_as_long_as_they_may_be_bind():
    limits = Limits(per_minute={"x": 1}, concurrency=1)
    debt = LimitState((("x", START + DEBT_SECONDS),))
    assert room(limits, debt, START - CLOCK_SKEW_SECONDS) == 0
    place = begin(limits, LimitState(), "w", 1, START, hold_seconds=LONGEST_HOLD_SECONDS)
    assert room(limits, place, START - CLOCK_SKEW_SECONDS) == 0


def test_a_clock_a_little_behind_gets_no_second_burst():
    limits, state = requests(620), begun(requests(620), LimitState(), 10, START)
    state = said(limits, state, 0, START + 2)
    assert room(limits, state, START + 0.5) == 5


def test_less_than_one_an_hour_is_one_an_hour():
    limits = requests(5e-324)
    state = begun(limits, LimitState(), 1, START)
    assert next_at(limits, state, START) == pytest.approx(START + 3_599, abs=TINY, rel=0)


def test_what_it_remembers_is_bounded():
    limits, state = requests(60_000, concurrency=1_000), LimitState((("old", START),))
    for turn in range(1_000):
        now = START + turn
        state = begin(limits, state, f"w{turn}", 1, now, hold_seconds=5)
    assert [unit for unit, _ in state.used_until] == [REQUESTS]
    assert len(state.places) == 5


# ── A fleet ──────────────────────────────────────────────────────────────────────────────────────


class Fleet:
    """Four workers that share one state. A killed one says no more, and another takes its turn.

    Its calls go on for as long as it is believed, which is the worst that the upstream can see.
    """

    BEAT, HOLD = 4.0, 10.0

    def __init__(self, limits, seed):
        self.limits, self.rng = limits, random.Random(seed)
        self.state, self.now, self.born = LimitState(), START, 0
        self.calls = []
        """(start, end) of every call at the upstream"""
        self.workers = [self.worker() for _ in range(4)]

    def worker(self):
        self.born += 1
        return {"name": f"w{self.born}", "said": self.now, "calls": []}

    def run(self, seconds, kills):
        while self.now < START + seconds:
            self.now += self.rng.choice([0.01, 0.05, 0.2])
            index = self.rng.randrange(4)
            if self.rng.random() < kills:
                self.kill(self.workers[index])
                self.workers[index] = self.worker()
            else:
                self.act(self.workers[index])
            for worker in self.workers:
                if self.now - worker["said"] > self.BEAT:
                    self.act(worker)
        for worker in self.workers:
            self.calls += worker["calls"]

    def act(self, worker):
        self.calls += [call for call in worker["calls"] if call[1] <= self.now]
        worker["calls"] = [call for call in worker["calls"] if call[1] > self.now]
        name, held, worker["said"] = worker["name"], len(worker["calls"]), self.now
        self.state = from_data(json.loads(json.dumps(as_data(self.state))))
        self.state = said(self.limits, self.state, held, self.now, name, self.HOLD)
        more = room(self.limits, self.state, self.now, spread=self.rng.randrange(1, 40))
        self.state = begin(self.limits, self.state, name, more, self.now, hold_seconds=self.HOLD)
        for _ in range(more):
            start = self.now + self.rng.choice([0, self.rng.random(), LATE_SECONDS])
            worker["calls"].append((start, start + self.rng.expovariate(1 / 3)))

    def kill(self, worker):
        last = worker["said"] + self.HOLD
        self.calls += [(start, min(end, last)) for start, end in worker["calls"] if start < last]

    def most_at_once(self):
        edges = [(start, 1) for start, _ in self.calls] + [(end, -1) for _, end in self.calls]
        return max(accumulate(change for _, change in sorted(edges)), default=0)


@settings(max_examples=15)
@given(
    st.integers(1, 200),
    st.sampled_from([20, 100, 600, 3_000]),
    st.sampled_from([0, 0.01, 0.1]),
    st.integers(0, 2**32),
)
def test_a_fleet_with_deaths_stays_within_both_limits(concurrency, limit, kills, seed):
    fleet = Fleet(requests(limit, concurrency=concurrency), seed)
    fleet.run(150, kills)
    assert fleet.most_at_once() <= concurrency
    assert most_in_a_window([(start, 1) for start, _ in fleet.calls]) <= limit
    assert len(fleet.calls) >= min(limit, concurrency)


def test_a_fleet_uses_nearly_all_of_what_it_may():
    by_minute, by_place = Fleet(requests(600), 1), Fleet(Limits(concurrency=50), 1)
    by_minute.run(300, 0.01)
    assert len(by_minute.calls) >= 0.95 * 600 * 5
    by_place.run(300, 0)
    assert by_place.most_at_once() == 50
    busy = sum(end - start for start, end in by_place.calls)
    assert busy >= 0.5 * 50 * 300


# ── Data ─────────────────────────────────────────────────────────────────────────────────────────

FINITE = st.floats(allow_nan=False, allow_infinity=False)
STATES = st.builds(
    LimitState,
    st.dictionaries(st.text(), FINITE).map(lambda used: tuple(sorted(used.items()))),
    st.dictionaries(st.text(), st.tuples(st.integers(1, 10**6), FINITE)).map(
        lambda held: tuple((name, *place) for name, place in sorted(held.items()))
    ),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(STATES)
def test_a_state_is_the_same_after_its_way_through_json(state):
    assert from_data(json.loads(json.dumps(as_data(state)))) == state


@given(JSON | st.fixed_dictionaries({"used_until": JSON, "places": JSON}))
def test_whatever_the_data_is_there_is_a_state_that_works(data):
    state = from_data(data)
    assert room(requests(60, concurrency=5), state, START) >= 0
    assert from_data(as_data(state)) == state


@pytest.mark.parametrize("data", [
    None, [], "x", 5, {}, {"used_until": {}}, {"used_until": [], "places": {}},
    {"used_until": {"x": "1"}, "places": {}}, {"used_until": {"x": True}, "places": {}},
    {"used_until": {"x": math.nan}, "places": {}}, {"used_until": {"x": math.inf}, "places": {}},
    {"used_until": {"x": 10**400}, "places": {}}, {"used_until": {5: 1.0}, "places": {}},
    {"used_until": {"x": 1.0}, "places": {"w": 5}}, {"used_until": {}, "places": {"w": [1]}},
    {"used_until": {}, "places": {"w": [0, 1.0]}}, {"used_until": {}, "places": {"w": [True, 1.0]}},
    {"used_until": {}, "places": {"w": [1.5, 1.0]}}, {"used_until": {}, "places": {"w": [1, None]}},
    {"used_until": {}, "places": {"w": [1, 1.0, 2]}}, {"used_until": {}, "places": {"w": "12"}},
])  # fmt: skip
def test_damaged_data_is_an_empty_state(data):
    assert from_data(data) == LimitState()


def test_whole_numbers_are_times_too_and_what_is_new_in_the_data_is_left_alone():
    data = {"used_until": {"x": 5}, "places": {"w": [1, 7]}, "later": 1}
    assert from_data(data) == LimitState((("x", 5.0),), (("w", 1, 7.0),))


@given(LIMITS, st.builds(LimitState, TIMES, PLACES), AMOUNTS, AMOUNTS)
def test_every_new_state_is_sorted_alive_and_json(limits, state, before, used):
    news = [
        begun(limits, state, room(limits, state, START, spread=3), START),
        said(limits, state, 2, START),
        settle(limits, state, before, used, START),
        reserve(limits, state, used, START),
    ]
    for new in news:
        if isinstance(new, LimitState):
            assert list(new.used_until) == sorted(new.used_until)
            assert list(new.places) == sorted(new.places)
            assert all(until > START for *_, until in new.places)
            assert from_data(json.loads(json.dumps(as_data(new)))) == new


# ── What limits may be ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("name", "value", "shown"), [
    *[("concurrency", value, repr(value)) for value in (0, -1, 1_000_001, 1.5, 2.0, True, "5", math.nan)],
    *[("per_minute", value, repr(value)) for value in (None, 5, "x", [("x", 5)])],
    *[("per_minute", {unit: 5}, repr(unit)) for unit in ("", "x" * 51, 5, None)],
    ("per_minute", {f"u{n}": 1 for n in range(21)}, "u20"),
])  # fmt: skip
def test_limits_that_cannot_be_are_refused_by_the_name_of_their_field(name, value, shown):
    with pytest.raises(ValueError, match=rf"^{name}: found .*, expected ") as refused:
        Limits(**{name: value})
    assert shown in str(refused.value)


@pytest.mark.parametrize("value", [0, -1, 1.1e12, math.nan, math.inf, True, "5", None, 10**400])
def test_a_unit_that_cannot_be_limited_so_is_refused_by_its_name(value):
    with pytest.raises(ValueError, match=r"^per_minute\['x'\]: found .*, expected ") as refused:
        Limits(per_minute={"y": 1, "x": value})
    assert repr(value) in str(refused.value)


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, "5", None])
def test_amounts_that_cannot_be_are_refused(value):
    limits, wrong = Limits(per_minute={"x": 1}), {"x": value}
    for name, step in (
        ("units", lambda: reserve(limits, LimitState(), wrong, START)),
        ("reserved", lambda: settle(limits, LimitState(), wrong, {}, START)),
        ("used", lambda: settle(limits, LimitState(), {}, wrong, START)),
    ):
        with pytest.raises(ValueError, match=rf"^{name}\['x'\]: found .*, expected "):
            step()


@pytest.mark.parametrize("calls", [-1, 1.5, True, "1", None])
def test_calls_are_whole_numbers(calls):
    for step in (begun, said):
        with pytest.raises(ValueError, match=r"^calls: found .*, expected "):
            step(Limits(), LimitState(), calls, START)


@pytest.mark.parametrize("hold_seconds", [0, -1, 86_401, math.nan, math.inf, None])
def test_a_place_is_held_for_a_day_at_most(hold_seconds):
    with pytest.raises(ValueError, match=r"^hold_seconds: found .*, expected "):
        said(Limits(), LimitState(), 1, START, hold_seconds=hold_seconds)


@pytest.mark.parametrize(("limits", "bounded"), [
    (Limits(), False), (Limits(concurrency=1), True), (Limits(per_minute={"x": 1e12}), True),
])  # fmt: skip
def test_limits_are_bounded_where_anything_is_limited(limits, bounded):
    assert limits.bounded is bounded


@given(LIMITS)
def test_limits_are_values(limits):
    backwards = dict(reversed(limits.per_minute.items()))
    same = Limits(per_minute=backwards, concurrency=limits.concurrency)
    for other in (same, copy.deepcopy(limits), pickle.loads(pickle.dumps(limits))):  # noqa: S301
        assert other == limits
        assert hash(other) == hash(limits)
    more = Limits(per_minute={**backwards, "more": 1}, concurrency=limits.concurrency)
    assert limits != more


def test_limits_do_not_change_with_what_they_were_made_of():
    mine = {REQUESTS: 60}
    limits = Limits(per_minute=mine)
    mine[REQUESTS] = 1
    assert limits == requests(60)
    with pytest.raises(TypeError):
        limits.per_minute[REQUESTS] = 1


@given(PER_MINUTE, st.lists(st.floats(0, 60), min_size=2, max_size=9), TIMES)
def test_room_never_shrinks_by_itself(per_minute, moments, times):
    limits, state = Limits(per_minute=per_minute), LimitState(times)
    rooms = [room(limits, state, START + moment) for moment in sorted(moments)]
    assert all(before <= after for before, after in pairwise(rooms))
