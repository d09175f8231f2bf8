"""The breaker beside a plain one that forgets nothing and works everything out anew."""

import math
import random
from dataclasses import dataclass, replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seawall.decisions.backoff import Backoff
from seawall.decisions.breaker import (
    Admission,
    AskedToWait,
    Breaker,
    BreakerState,
    Failed,
    Forced,
    Ignored,
    Phase,
    ProbeAsked,
    Slot,
    Succeeded,
    admission,
    at,
    event_of,
    holds_slot,
    step,
)
from seawall.decisions.tally import Tally
from seawall.faults import Fault, FaultCode

START = 1_800_000_000.0
DAY = 86_400.0
FIXED_MINUTE = Backoff(curve="fixed", base_seconds=60, jitter="none")
PLAIN = Breaker(open=FIXED_MINUTE)
"""5 in a row, open for exactly a minute, one probe."""


def after(breaker, state, events, now=START):
    """The state after these events, all at the same moment."""
    for event in events:
        state = step(breaker, state, event, now)
    return state


def opened(breaker, now=START, **fields):
    """A breaker that so many failures in a row have just opened."""
    state = BreakerState(**fields)
    for _ in range(breaker.consecutive_failures):
        state = step(breaker, state, Failed(), now)
    assert state.phase is Phase.OPEN
    return state


def probed(breaker, state, event, now):
    """One probe: asked for, let through, and ended with this event."""
    state = step(breaker, state, ProbeAsked(event.probe), now)
    assert holds_slot(state, event.probe)
    return step(breaker, state, event, now)


# ── The plain breaker ────────────────────────────────────────────────────────────────────────────


@dataclass
class Turn:
    """A change that events have made; what time alone changes is worked out when asked."""

    kind: str
    """opened, closed, forced open, forced closed, released"""
    time: float
    until: float = math.inf


@dataclass
class Call:
    time: float
    failed: bool
    slow: bool
    stretch: int


@dataclass
class Probe:
    holder: str
    began: float
    stretch: int
    ended: bool = False
    failed: bool | None = None


class PlainBreaker:
    """Every turn, call and probe there ever was. Every answer is worked out from all of them."""

    def __init__(self, breaker):
        self.breaker = breaker
        self.turns = []
        self.calls = []
        self.probes = []

    def history(self, now):
        """All turns, those of time among them: a hold whose end has come is a release."""
        turns = []
        for index, turn in enumerate(self.turns):
            turns.append(turn)
            following = self.turns[index + 1].time if index + 1 < len(self.turns) else now
            if turn.kind.startswith("forced") and turn.until <= following:
                turns.append(Turn("released", turn.until))
        return turns

    def phase(self, now):
        """closed, open, half_open, forced open or forced closed."""
        turns = self.history(now)
        if not turns or turns[-1].kind in {"closed", "released"}:
            return "closed"
        if turns[-1].kind == "opened":
            return "open" if now < turns[-1].until else "half_open"
        return turns[-1].kind

    def stretch(self, now):
        """Which stretch this is since the last opening or release; closing does not end one."""
        return sum(turn.kind in {"opened", "released"} for turn in self.history(now))

    def openings_in_a_row(self, now):
        return self.row(now)[0]

    def ramp_began(self, now):
        return self.row(now)[1]

    def row(self, now):
        """(how often it has opened in a row, since when it has been recovering)"""
        row, ramp_began, before = 0, None, None
        for turn in self.history(now):
            if turn.kind == "opened":
                recovering = None if ramp_began is None else turn.time - ramp_began
                over = recovering is not None and recovering >= self.breaker.ramp_seconds
                row, ramp_began = (1 if over else row + 1), None
            elif turn.kind == "closed":
                ramp_began = turn.time
            elif turn.kind == "released":
                row, ramp_began = 0, (turn.time if before == "forced open" else None)
            before = turn.kind
        return row, ramp_began

    def under_way(self, now):
        return [
            probe
            for probe in self.probes
            if not probe.ended and now < probe.began + self.breaker.probe_seconds
        ]

    def admission(self, now):
        phase = self.phase(now)
        if phase == "forced closed":
            return Admission(share=1.0)
        if phase in {"forced open", "open"}:
            return Admission(until=self.history(now)[-1].until)
        if phase == "half_open":
            return Admission(probes=self.breaker.probes - len(self.under_way(now)))
        began = self.ramp_began(now)
        if began is None or now - began >= self.breaker.ramp_seconds:
            return Admission(share=1.0)
        return Admission(share=0.1 + 0.9 * (now - began) / self.breaker.ramp_seconds)

    def happen(self, event, now):
        """Take note of the event. True where it opens the breaker."""
        match event:
            case Forced(None, _):
                if self.phase(now).startswith("forced"):
                    self.turns.append(Turn("released", now))
            case Forced(to, until):
                self.turns.append(Turn(f"forced {to}", now, until))
            case ProbeAsked(holder):
                under_way = self.under_way(now)
                again = [probe for probe in under_way if probe.holder == holder]
                for probe in again:  # it is alive, and its slot lasts from now on
                    probe.began = now
                if (
                    self.phase(now) == "half_open"
                    and len(under_way) < self.breaker.probes
                    and not again
                ):
                    self.probes.append(Probe(holder, now, self.stretch(now)))
            case Ignored(holder):
                self.end(holder, now)
            case Succeeded() | Failed():
                return self.result(event, now)
        return False

    def end(self, holder, now):
        ending = [probe for probe in self.under_way(now) if probe.holder == holder]
        for probe in ending:
            probe.ended = True
        return ending[0] if ending else None

    def result(self, event, now):
        probe = self.end(event.probe, now)
        phase, stretch = self.phase(now), self.stretch(now)
        if phase not in {"closed", "half_open"}:
            return False
        if probe is not None and probe.stretch != stretch:
            return False
        failed = isinstance(event, Failed)
        threshold = self.breaker.slow_call_seconds
        slow = threshold is not None and event.seconds >= threshold
        if phase == "closed":
            recovered = self.ramp_began(now)
            if recovered is not None and now - event.seconds < recovered:
                return False
            self.calls += [Call(now, failed, slow, len(self.history(now)))] * event.count
            return self.too_ill(now)
        if probe is None:
            return False
        failed = failed or slow
        probe.failed = failed
        ended = [p.failed for p in self.probes if p.stretch == stretch]
        if not failed and ended.count(False) >= self.breaker.successes_to_close:
            self.turns.append(Turn("closed", now))
        return failed and ended.count(True) >= self.breaker.failures_to_reopen

    def too_ill(self, now):
        breaker, present = self.breaker, len(self.history(now))
        calls = [call for call in self.calls if call.stretch == present]
        in_a_row = 0
        for call in calls:
            in_a_row = in_a_row + 1 if call.failed else 0
        if breaker.consecutive_failures is not None and in_a_row >= breaker.consecutive_failures:
            return True
        if breaker.window_seconds is None:
            window = calls[-breaker.window_calls :]
        else:
            first = math.floor(now) - breaker.window_seconds
            window = [call for call in calls if math.floor(call.time) > first]
        if len(window) < breaker.minimum_calls:
            return False
        rate = Fraction(sum(call.failed for call in window), len(window))
        slow_rate = Fraction(sum(call.slow for call in window), len(window))
        return (
            breaker.failure_rate is not None and rate >= Fraction(str(breaker.failure_rate))
        ) or (
            breaker.slow_call_seconds is not None
            and slow_rate >= Fraction(str(breaker.slow_call_rate))
        )


class Pair:
    """The real breaker and the plain one, told the same things."""

    def __init__(self, breaker, seed=0):
        self.breaker = breaker
        self.state = BreakerState(seed=seed)
        self.plain = PlainBreaker(breaker)

    def tell(self, event, now):
        opens = self.plain.happen(event, now)
        self.state = step(self.breaker, self.state, event, now)
        if opens:
            # When it ends is drawn by chance: the plain one checks the window, then agrees.
            self.plain.turns.append(Turn("opened", now, self.state.until))
            row = self.plain.openings_in_a_row(now)
            least, most = self.breaker.open.window(row)
            assert self.state.phase is Phase.OPEN
            assert self.state.episode == row
            assert now + least - 1e-6 <= self.state.until <= now + most + 1e-6
        self.compare(now)

    def compare(self, now):
        state, phase = at(self.breaker, self.state, now), self.plain.phase(now)
        shown = f"forced {state.forced}" if state.forced else str(state.phase)
        assert shown == phase
        found, expected = admission(self.breaker, self.state, now), self.plain.admission(now)
        assert found.share == pytest.approx(expected.share)
        assert (found.probes, found.until) == (expected.probes, expected.until)
        holders = {probe.holder for probe in self.plain.under_way(now)}
        assert {slot.holder for slot in state.slots} == holders

    def next_turn_of_time(self, now):
        """When time alone will change something next, or now."""
        turns = self.plain.turns[-1:]
        times = [turn.until for turn in turns]
        times += [turn.time + self.breaker.ramp_seconds for turn in turns]
        times += [p.began + self.breaker.probe_seconds for p in self.plain.under_way(now)]
        return min([time for time in times if now < time < math.inf], default=now)


@st.composite
def breakers(draw):
    window_calls = draw(st.integers(1, 12))
    window_seconds = draw(st.sampled_from([None, None, 1, 2.5, 5, 30]))
    most = window_calls if window_seconds is None else 8
    return Breaker(
        consecutive_failures=draw(st.sampled_from([None, 1, 2, 3, 5])),
        failure_rate=draw(st.sampled_from([None, 0.001, 0.07, 0.3, 0.5, 0.55, 0.9, 1])),
        window_calls=window_calls,
        window_seconds=window_seconds,
        minimum_calls=draw(st.integers(1, most)),
        slow_call_seconds=draw(st.sampled_from([None, 0, 2.0])),
        slow_call_rate=draw(st.sampled_from([0.35, 0.5, 1])),
        open=draw(st.sampled_from([
            FIXED_MINUTE,
            Backoff(curve="fixed", base_seconds=0, jitter="none"),
            Backoff(curve="linear", base_seconds=3, cap_seconds=8, jitter="equal"),
            Backoff(curve="schedule", schedule_seconds=(1, 4, 2), jitter="full"),
            Backoff(curve="exponential", base_seconds=2, cap_seconds=10, jitter="none"),
            Breaker().open,
        ])),
        probes=draw(st.integers(1, 3)),
        probe_seconds=draw(st.sampled_from([0.5, 4, 60])),
        successes_to_close=draw(st.integers(1, 3)),
        failures_to_reopen=draw(st.integers(1, 3)),
        ramp_seconds=draw(st.sampled_from([0, 3, 30])),
    )  # fmt: skip


HOLDERS = st.sampled_from(["ann", "ben", "cleo", "dora"])
SECONDS = st.sampled_from([0.0, 1.99, 2.0, 50.0])
COUNTS = st.sampled_from([1, 1, 1, 2, 7])
RESULTS = st.one_of(
    st.builds(Failed, SECONDS, st.none() | HOLDERS, COUNTS),
    st.builds(Failed, SECONDS, st.none() | HOLDERS, COUNTS),
    st.builds(Succeeded, SECONDS, st.none() | HOLDERS, COUNTS),
)
PROBES = st.one_of(
    st.builds(ProbeAsked, HOLDERS),
    st.builds(ProbeAsked, HOLDERS),
    st.builds(Ignored, st.none() | HOLDERS),
)
FORCES = st.sampled_from([
    ("open", math.inf), ("open", 5.0), ("closed", math.inf), ("closed", 5.0),
    ("open", 0.0), (None, math.inf), (None, math.inf), (None, math.inf),
])  # fmt: skip
EVENTS = st.one_of(*[RESULTS] * 6, *[PROBES] * 5, FORCES)
PAUSES = st.sampled_from([
    0, 0, 0, 0.25, 0.25, 1, 1, 3.5, 31, "next", "next", "next", "just before next", DAY,
])  # fmt: skip


def play(pair, moments):
    now = START
    for pause, event in moments:
        match pause:
            case "next":
                now = pair.next_turn_of_time(now)
            case "just before next":
                now = max(now, pair.next_turn_of_time(now) - 0.001)
            case _:
                now += pause
        if isinstance(event, tuple):
            to, seconds = event
            event = Forced(to, now + seconds)  # noqa: PLW2901 - only now is it known until when
        pair.compare(now)
        pair.tell(event, now)


@settings(deadline=None, max_examples=250)
@given(breakers(), st.lists(st.tuples(PAUSES, EVENTS), max_size=60))
def test_the_breaker_agrees_with_a_plain_one_that_forgets_nothing(breaker, moments):
    play(Pair(breaker), moments)


@settings(deadline=None, max_examples=60)
@given(breakers(), st.integers(0, 2**32), st.integers(1, 20))
def test_it_agrees_over_a_long_life_with_many_workers(breaker, seed, workers):
    rng = random.Random(seed)
    pair, now, names, calling = Pair(breaker, seed), START, 0, []
    for _ in range(150):
        now += rng.choice([0, 0.25, 1, 4])
        if rng.random() < 0.25:
            now = max(now, pair.next_turn_of_time(now))
        if len(calling) < workers and rng.random() < 0.6:
            names += 1
            pair.tell(ProbeAsked(f"call {names}"), now)
            if holds_slot(pair.state, f"call {names}"):
                calling.append(f"call {names}")
                continue
        # A worker may die: it leaves and says nothing, and its slot lapses.
        holder = calling.pop(rng.randrange(len(calling))) if calling else None
        fate = rng.choice(["fails", "fails", "succeeds", "is cancelled", "dies"])
        if fate == "fails":
            pair.tell(Failed(rng.choice([0, 9]), holder), now)
        elif fate == "succeeds":
            pair.tell(Succeeded(rng.choice([0, 9]), holder), now)
        elif fate == "is cancelled":
            pair.tell(Ignored(holder), now)
        pair.compare(now)


# ── Opening: the documents' figures ──────────────────────────────────────────────────────────────


def test_five_failures_in_a_row_open_it():
    four = after(PLAIN, BreakerState(), [Failed()] * 4)
    assert four.phase is Phase.CLOSED
    assert step(PLAIN, four, Failed(), START).phase is Phase.OPEN


def test_a_success_breaks_the_row():
    events = [*[Failed()] * 4, Succeeded(), *[Failed()] * 4]
    assert after(PLAIN, BreakerState(), events).phase is Phase.CLOSED


def test_a_batch_of_failures_counts_as_so_many():
    assert step(PLAIN, BreakerState(), Failed(count=4), START).phase is Phase.CLOSED
    assert step(PLAIN, BreakerState(), Failed(count=5), START).phase is Phase.OPEN


def test_ignored_calls_count_neither_way():
    four = after(PLAIN, BreakerState(), [Failed()] * 4)
    ignored = after(PLAIN, four, [Ignored(), Ignored("somebody")])
    assert ignored == four
    assert step(PLAIN, ignored, Failed(), START).phase is Phase.OPEN


def test_half_of_the_last_twenty_opens_it():
    nine = after(PLAIN, BreakerState(), [*[Succeeded(), Failed()] * 9, Succeeded()])
    assert step(PLAIN, nine, Succeeded(), START).phase is Phase.CLOSED
    assert step(PLAIN, nine, Failed(), START).phase is Phase.OPEN


def test_no_rate_is_judged_on_fewer_calls_than_the_minimum():
    nineteen = after(PLAIN, BreakerState(), [Failed(), *[Succeeded(), Failed()] * 9])
    assert nineteen.phase is Phase.CLOSED
    assert step(PLAIN, nineteen, Succeeded(), START).phase is Phase.OPEN


def test_calls_before_the_last_twenty_are_forgotten():
    old = after(PLAIN, BreakerState(), [Failed(), Failed(), *[Succeeded()] * 20])
    assert after(PLAIN, old, [Failed(), Succeeded()] * 9).phase is Phase.CLOSED
    assert after(PLAIN, old, [Failed(), Succeeded()] * 10).phase is Phase.OPEN


@pytest.mark.parametrize("window_seconds", [60, 90, 120])
def test_half_of_the_calls_of_the_last_minute_or_two_opens_it(window_seconds):
    breaker = replace(
        PLAIN, window_seconds=window_seconds, consecutive_failures=None, minimum_calls=10
    )
    good = step(breaker, BreakerState(), Succeeded(count=6), START)
    still = START + window_seconds - 1
    assert step(breaker, good, Failed(count=5), still).phase is Phase.CLOSED
    assert step(breaker, good, Failed(count=6), still).phase is Phase.OPEN
    # One second later the good calls are out of the window, and too few are left to judge.
    assert step(breaker, good, Failed(count=9), still + 1).phase is Phase.CLOSED
    assert step(breaker, good, Failed(count=10), still + 1).phase is Phase.OPEN


@pytest.mark.parametrize(("rate", "calls", "failures"), [
    (0.55, 20, 11), (0.07, 100, 7), (0.14, 100, 14), (0.29, 100, 29), (0.35, 20, 7),
])  # fmt: skip
def test_a_rate_is_reached_exactly(rate, calls, failures):
    breaker = Breaker(
        consecutive_failures=None, failure_rate=rate, window_calls=calls, minimum_calls=calls
    )
    few = [Failed(count=failures - 1), Succeeded(count=calls - failures)]
    assert after(breaker, BreakerState(), [*few, Succeeded()]).phase is Phase.CLOSED
    assert after(breaker, BreakerState(), [*few, Failed()]).phase is Phase.OPEN


def test_slow_calls_open_it_though_they_succeed():
    breaker = replace(PLAIN, slow_call_seconds=10.0, window_calls=4, minimum_calls=4)
    mixed = [Succeeded(9.9), Succeeded(10.0), Succeeded(9.9)]
    assert after(breaker, BreakerState(), [*mixed, Succeeded(9.9)]).phase is Phase.CLOSED
    assert after(breaker, BreakerState(), [*mixed, Succeeded(11.0)]).phase is Phase.OPEN


def test_without_a_slow_limit_no_call_is_slow():
    assert after(PLAIN, BreakerState(), [Succeeded(1e9)] * 40).phase is Phase.CLOSED


# ── Open: for how long ───────────────────────────────────────────────────────────────────────────


def test_it_is_open_for_sixty_seconds_at_first():
    state = opened(PLAIN)
    assert admission(PLAIN, state, START) == Admission(until=START + 60)
    assert admission(PLAIN, state, START + 59.999) == Admission(until=START + 60)
    assert admission(PLAIN, state, START + 60) == Admission(probes=1)


def reopenings(breaker, times, seed=0):
    """The lengths of so many openings in a row."""
    state, now, lengths = opened(breaker, seed=seed), START, []
    for number in range(times):
        lengths.append(state.until - now)
        now = state.until
        state = probed(breaker, state, Failed(probe=f"probe {number}"), now)
    return lengths


def test_each_reopening_in_a_row_lasts_longer_up_to_the_cap():
    breaker = replace(
        PLAIN, open=Backoff(curve="exponential", base_seconds=5, cap_seconds=300, jitter="none")
    )
    assert reopenings(breaker, 9) == pytest.approx([5, 10, 20, 40, 80, 160, 300, 300, 300])


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**63))
def test_the_open_time_is_drawn_from_a_fifth_around_each_delay(seed):
    lengths = reopenings(Breaker(), 10, seed)
    for centre, length in zip([5, 10, 20, 40, 80, 160, 300, 300, 300, 300], lengths, strict=True):
        assert centre * 0.8 - 1e-6 <= length <= min(centre * 1.2, 300) + 1e-6


def test_the_same_seed_draws_the_same_times_and_other_seeds_others():
    assert reopenings(Breaker(), 5, seed=7) == reopenings(Breaker(), 5, seed=7)
    firsts = {reopenings(Breaker(), 1, seed)[0] for seed in range(50)}
    assert len(firsts) == 50
    assert max(firsts) - min(firsts) > 1


def test_the_seed_is_kept_for_life():
    state = opened(Breaker(), seed=7)
    state = probed(Breaker(), state, Failed(probe="a"), state.until)
    state = probed(Breaker(), state, Succeeded(probe="b"), state.until)
    assert state.seed == 7
    state = after(Breaker(), state, [Forced("open"), Forced(None)], state.closed_at)
    assert state.seed == 7


def test_openings_of_the_same_number_at_other_times_draw_anew():
    lengths = {opened(Breaker(), START + hour).until - START - hour for hour in range(50)}
    assert len(lengths) == 50


def test_a_thousand_failures_later_the_open_time_is_still_the_cap():
    state = replace(opened(Breaker()), episode=1_000_000, until=START)
    state = probed(Breaker(), state, Failed(probe="p"), START)
    assert 240 <= state.until - START <= 300


def recovered_then_opened(breaker, seconds):
    """Opened twice in a row, closed, well for so long, opened again: the last episode's number."""
    state = opened(breaker)
    state = probed(breaker, state, Failed(probe="a"), state.until)
    state = probed(breaker, state, Succeeded(probe="b"), state.until)
    assert (state.phase, state.episode) == (Phase.CLOSED, 2)
    return after(breaker, state, [Failed()] * 5, state.closed_at + seconds)


def test_opening_within_the_ramp_continues_the_row():
    state = recovered_then_opened(PLAIN, PLAIN.ramp_seconds - 0.001)
    assert (state.phase, state.episode) == (Phase.OPEN, 3)


def test_a_recovery_as_long_as_the_ramp_starts_again_at_the_first_delay():
    breaker = replace(PLAIN, open=Backoff(curve="exponential", base_seconds=5, jitter="none"))
    state = recovered_then_opened(breaker, breaker.ramp_seconds)
    assert (state.phase, state.episode) == (Phase.OPEN, 1)
    assert state.until == pytest.approx(START + 5 + 10 + breaker.ramp_seconds + 5, abs=1e-3)


def test_without_a_ramp_every_recovery_starts_again():
    breaker = replace(PLAIN, ramp_seconds=0)
    assert recovered_then_opened(breaker, 0).episode == 1


def test_results_change_nothing_while_it_is_open():
    state = opened(PLAIN)
    late = [Succeeded(), Failed(), Succeeded(count=1000), Failed(probe="unknown"), Ignored()]
    assert after(PLAIN, state, late, START + 30) == state


def test_nobody_gets_a_slot_while_it_is_open_or_closed():
    for state in (opened(PLAIN), BreakerState()):
        assert not holds_slot(step(PLAIN, state, ProbeAsked("me"), START + 1), "me")


# ── Half-open: probes ────────────────────────────────────────────────────────────────────────────


def half_open(breaker):
    """(the state, when it is just half-open)"""
    state = opened(breaker)
    return at(breaker, state, state.until), state.until


def test_one_success_closes_and_one_failure_reopens_it():
    state, now = half_open(PLAIN)
    assert probed(PLAIN, state, Succeeded(probe="p"), now).phase is Phase.CLOSED
    assert probed(PLAIN, state, Failed(probe="p"), now).phase is Phase.OPEN


def test_so_many_successes_close_it():
    breaker = replace(PLAIN, successes_to_close=3)
    state, now = half_open(breaker)
    for number in range(3):
        assert state.phase is Phase.HALF_OPEN
        state = probed(breaker, state, Succeeded(probe=f"{number}"), now)
    assert state.phase is Phase.CLOSED


def test_so_many_failures_reopen_it_and_are_forgotten_in_the_next_episode():
    breaker = replace(PLAIN, failures_to_reopen=2)
    state, now = half_open(breaker)
    for episode in (2, 3):
        state = probed(breaker, state, Failed(probe="a"), now)
        assert state.phase is Phase.HALF_OPEN
        state = probed(breaker, state, Failed(probe="b"), now)
        assert (state.phase, state.episode) == (Phase.OPEN, episode)
        now = state.until


def test_results_of_calls_that_began_before_the_opening_are_no_news():
    state, now = half_open(PLAIN)
    late = [Succeeded(), Failed(), Succeeded(count=50), Failed(count=50), Failed(probe="nobody's")]
    assert after(PLAIN, state, late, now) == state


def test_only_so_many_callers_get_a_slot():
    breaker = replace(PLAIN, probes=3)
    state, now = half_open(breaker)
    for number in range(100):
        state = step(breaker, state, ProbeAsked(f"caller {number}"), now)
    assert [holds_slot(state, f"caller {n}") for n in range(100)] == [True] * 3 + [False] * 97
    assert admission(breaker, state, now) == Admission(probes=0)


def test_asking_twice_under_one_name_takes_one_slot():
    breaker = replace(PLAIN, probes=2)
    state, now = half_open(breaker)
    once = step(breaker, state, ProbeAsked("me"), now)
    assert step(breaker, once, ProbeAsked("me"), now) == once
    assert admission(breaker, once, now) == Admission(probes=1)


def test_a_cancelled_probe_frees_its_slot():
    state, now = half_open(PLAIN)
    taken = step(PLAIN, state, ProbeAsked("me"), now)
    assert admission(PLAIN, taken, now) == Admission(probes=0)
    assert step(PLAIN, taken, Ignored("me"), now) == state


def test_another_ones_cancellation_frees_nothing():
    state, now = half_open(PLAIN)
    taken = step(PLAIN, state, ProbeAsked("me"), now)
    assert after(PLAIN, taken, [Ignored("you"), Ignored(None)], now) == taken


def test_a_dead_probers_slot_comes_back_after_a_while():
    state, now = half_open(PLAIN)
    taken = step(PLAIN, state, ProbeAsked("dead"), now)
    assert admission(PLAIN, taken, now + 59.999) == Admission(probes=0)
    assert admission(PLAIN, taken, now + 60) == Admission(probes=1)
    heir = step(PLAIN, taken, ProbeAsked("heir"), now + 60)
    assert holds_slot(heir, "heir")
    # The dead one was only slow; nobody waits for its word any more.
    assert step(PLAIN, heir, Failed(probe="dead"), now + 61) == heir


def test_slots_outlive_a_reopening():
    breaker = replace(PLAIN, probes=2, probe_seconds=600)
    state, now = half_open(breaker)
    state = after(breaker, state, [ProbeAsked("slow"), ProbeAsked("quick")], now)
    state = step(breaker, state, Failed(probe="quick"), now)
    assert admission(breaker, state, state.until) == Admission(probes=1)


@pytest.mark.parametrize("late", [Succeeded(probe="slow"), Failed(probe="slow")])
def test_a_late_result_of_an_earlier_episode_frees_its_slot_and_changes_nothing_else(late):
    breaker = replace(PLAIN, probes=2, probe_seconds=600)
    state, now = half_open(breaker)
    state = after(breaker, state, [ProbeAsked("slow"), ProbeAsked("quick")], now)
    state = step(breaker, state, Failed(probe="quick"), now)
    assert step(breaker, state, late, now + 1) == replace(state, slots=())
    half = at(breaker, state, state.until)
    assert step(breaker, half, late, state.until) == replace(half, slots=())
    closed = probed(breaker, half, Succeeded(probe="new"), state.until)
    assert step(breaker, closed, late, state.until) == replace(closed, slots=())


@pytest.mark.parametrize("late", [Succeeded(probe="slow"), Failed(probe="slow")])
def test_a_late_result_is_not_taken_for_one_of_an_episode_of_the_same_number(late):
    breaker = replace(PLAIN, probes=2, probe_seconds=600)
    state, now = half_open(breaker)
    state = after(breaker, state, [ProbeAsked("slow"), ProbeAsked("quick")], now)
    state = step(breaker, state, Succeeded(probe="quick"), now)
    now += breaker.ramp_seconds
    state = after(breaker, state, [Failed()] * 5, now)
    assert (state.phase, state.episode) == (Phase.OPEN, 1)
    half = at(breaker, state, state.until)
    assert step(breaker, half, late, state.until) == replace(half, slots=())


@pytest.mark.parametrize("late", [Succeeded(probe="slow"), Failed(probe="slow")])
def test_a_probe_from_before_a_person_decided_is_not_taken_for_a_new_one(late):
    breaker = replace(PLAIN, probe_seconds=600)
    state, now = half_open(breaker)
    state = after(breaker, state, [ProbeAsked("slow"), Forced("open"), Forced(None)], now)
    state = after(breaker, state, [Failed()] * 5, now)
    assert (state.phase, state.episode) == (Phase.OPEN, 1)
    half = at(breaker, state, state.until)
    assert step(breaker, half, late, state.until) == replace(half, slots=())


def test_a_sibling_of_the_probe_that_closed_it_counts_as_any_call():
    breaker = replace(PLAIN, probes=2)
    state, now = half_open(breaker)
    state = after(breaker, state, [ProbeAsked("a"), ProbeAsked("b")], now)
    state = after(breaker, state, [Succeeded(probe="a"), Failed(probe="b")], now)
    assert (state.phase, state.consecutive, state.slots) == (Phase.CLOSED, 1, ())


@settings(deadline=None, max_examples=150)
@given(breakers(), st.integers(0, 2**32))
def test_there_are_never_more_probes_under_way_than_allowed(breaker, seed):
    """Counted by the callers themselves: who was let through, and has neither ended nor lapsed."""
    rng = random.Random(seed)
    state, now, calling = BreakerState(seed=seed), START, {}
    for number in range(120):
        now += rng.choice([0, 0, 0.3, 1, breaker.probe_seconds / 2, 70])
        calling = {who: lapses for who, lapses in calling.items() if now < lapses}
        deed, somebody = rng.random(), rng.choice([None, *calling])
        if deed < 0.5:
            name = f"call {number}"
            room = admission(breaker, state, now).probes
            state = step(breaker, state, ProbeAsked(name), now)
            let_through = holds_slot(state, name)
            assert let_through == (room > 0)
            if let_through:
                calling[name] = now + breaker.probe_seconds
        elif deed < 0.97:
            event = rng.choice([Failed, Succeeded, Ignored])(probe=somebody)
            state = step(breaker, state, event, now)
            calling.pop(somebody, None)
        else:
            to = rng.choice(["open", "closed", None])
            state = step(breaker, state, Forced(to, now + 3), now)
        assert len(calling) <= breaker.probes
        if at(breaker, state, now).phase is Phase.HALF_OPEN and state.forced is None:
            assert admission(breaker, state, now).probes == breaker.probes - len(calling)


# ── Closing: the ramp ────────────────────────────────────────────────────────────────────────────


def closed_again(breaker):
    state, now = half_open(breaker)
    return probed(breaker, state, Succeeded(probe="p"), now)


@settings(deadline=None, max_examples=100)
@given(st.floats(0.01, DAY), st.lists(st.floats(0, 2), min_size=2, max_size=10))
def test_the_ramp_grows_from_a_tenth_to_all(ramp_seconds, moments):
    breaker = replace(PLAIN, ramp_seconds=ramp_seconds)
    state = closed_again(breaker)
    assert admission(breaker, state, state.closed_at).share == pytest.approx(0.1)
    assert admission(breaker, state, state.closed_at + ramp_seconds + 0.001).share == 1
    shares = [
        admission(breaker, state, state.closed_at + moment * ramp_seconds).share
        for moment in sorted(moments)
    ]
    assert shares == sorted(shares)
    assert all(0.1 <= share <= 1 for share in shares)


def test_half_way_through_the_ramp_a_little_more_than_half_may_call():
    state = closed_again(PLAIN)
    assert admission(PLAIN, state, state.closed_at + 15).share == pytest.approx(0.55)


def test_without_a_ramp_all_may_call_at_once():
    breaker = replace(PLAIN, ramp_seconds=0)
    state = closed_again(breaker)
    assert admission(breaker, state, state.closed_at) == Admission(share=1.0)


def test_a_new_breaker_lets_all_through():
    assert admission(PLAIN, BreakerState(), START) == Admission(share=1.0)


# ── A person decides ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("hours", [0, 1, 24 * 365])
def test_forced_open_without_an_end_stays_open(hours):
    state = step(PLAIN, BreakerState(), Forced("open"), START)
    state = after(PLAIN, state, [Succeeded(count=100), ProbeAsked("p")], START)
    assert admission(PLAIN, state, START + hours * 3600) == Admission(until=math.inf)


def test_forced_closed_lets_all_through_whatever_fails():
    state = step(PLAIN, opened(PLAIN), Forced("closed"), START)
    state = after(PLAIN, state, [Failed(count=100)] * 3, START)
    assert admission(PLAIN, state, START + DAY) == Admission(share=1.0)


def test_forced_open_until_a_time_ends_in_a_ramp_that_starts_then():
    state = step(PLAIN, BreakerState(), Forced("open", START + 100), START)
    assert admission(PLAIN, state, START + 99.9) == Admission(until=START + 100)
    # Nobody steps it in between: looking alone must see the ramp grow.
    shares = [admission(PLAIN, state, START + 100 + seconds).share for seconds in (0, 15, 30)]
    assert shares == pytest.approx([0.1, 0.55, 1.0])


def test_forced_closed_until_a_time_ends_with_nothing_held_against_it():
    state = step(PLAIN, opened(PLAIN), Forced("closed", START + 100), START)
    state = step(PLAIN, state, Failed(count=100), START + 99)
    assert admission(PLAIN, state, START + 99) == Admission(share=1.0)
    assert admission(PLAIN, state, START + 100) == Admission(share=1.0)
    assert after(PLAIN, state, [Failed()] * 4, START + 100).phase is Phase.CLOSED
    assert after(PLAIN, state, [Failed()] * 5, START + 100).episode == 1


def test_back_to_automatic_after_forced_open_is_in_a_ramp():
    state = after(PLAIN, opened(PLAIN), [Forced("open"), Forced(None)])
    assert state.phase is Phase.CLOSED
    assert admission(PLAIN, state, START).share == pytest.approx(0.1)
    assert after(PLAIN, state, [Failed()] * 5).phase is Phase.OPEN


def test_back_to_automatic_after_forced_closed_is_at_once():
    state = after(PLAIN, opened(PLAIN), [Forced("closed"), Forced(None)])
    assert admission(PLAIN, state, START) == Admission(share=1.0)


def test_automatic_said_again_changes_nothing():
    for state in (opened(PLAIN), half_open(PLAIN)[0], closed_again(PLAIN), BreakerState()):
        assert step(PLAIN, state, Forced(None), START) == state
    released = after(PLAIN, BreakerState(), [Forced("open"), Forced(None)])
    assert step(PLAIN, released, Forced(None), START + 1) == released


def test_the_later_word_holds():
    state = after(PLAIN, BreakerState(), [Forced("open"), Forced("closed", START + 9)])
    assert admission(PLAIN, state, START) == Admission(share=1.0)


# ── Wrong clocks ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("days", [1, 300, 100_000])
@pytest.mark.parametrize("breaker", [PLAIN, Breaker()])
def test_an_opening_by_a_clock_far_ahead_does_not_strand_it(breaker, days):
    state = opened(breaker, START + days * DAY)
    assert admission(breaker, state, START) == Admission(probes=1)


@pytest.mark.parametrize("days", [1, 300, 100_000])
def test_a_slot_taken_by_a_clock_far_ahead_comes_back(days):
    state, now = half_open(PLAIN)
    state = replace(state, slots=(Slot("ahead", now + days * DAY, state.episode),))
    assert admission(PLAIN, state, now) == Admission(probes=1)


@pytest.mark.parametrize("days", [1, 300, 100_000])
def test_a_ramp_that_a_clock_far_ahead_began_starts_with_the_next_result(days):
    state = replace(closed_again(PLAIN), closed_at=START + days * DAY)
    assert admission(PLAIN, state, START).share == pytest.approx(0.1)
    state = step(PLAIN, state, Succeeded(), START)
    assert admission(PLAIN, state, START + 15).share == pytest.approx(0.55)
    assert admission(PLAIN, state, START + 30).share == 1


def test_calls_counted_by_a_clock_far_ahead_are_left_out():
    breaker = replace(PLAIN, window_seconds=60, consecutive_failures=None, minimum_calls=2)
    state = step(breaker, BreakerState(), Failed(), START + DAY)
    assert step(breaker, state, Failed(), START).phase is Phase.CLOSED


@pytest.mark.parametrize("breaker", [
    PLAIN, replace(PLAIN, open=Backoff(curve="fixed", base_seconds=60, cap_seconds=60)),
])  # fmt: skip
@pytest.mark.parametrize("behind", [0.001, 1, 30])
def test_a_clock_a_little_behind_neither_ends_the_opening_nor_frees_a_slot(breaker, behind):
    state = opened(breaker)
    assert admission(breaker, state, START - behind).until == state.until
    state = step(breaker, state, ProbeAsked("me"), state.until + behind)
    again = step(breaker, state, ProbeAsked("you"), state.until)
    assert not holds_slot(again, "you")
    assert holds_slot(again, "me")


# ── What a breaker may be ────────────────────────────────────────────────────────────────────────

WRONG = [
    (name, value)
    for name, values in {
        "consecutive_failures": [0, -1, 10_001, 2.5],
        "failure_rate": [0, -0.1, 1.01, math.nan],
        "window_calls": [0, 10_001, None, 20.5, 20.0],
        "window_seconds": [0, 0.5, 3_601, math.inf, math.nan],
        "minimum_calls": [0, 10_001, 21, None, 1.5],
        "slow_call_seconds": [-1, 3_601, math.nan],
        "slow_call_rate": [0, 1.01, math.nan, None],
        "probes": [0, 1_001, None, 1.5],
        "probe_seconds": [0, -1, 86_401, math.nan, None],
        "successes_to_close": [0, 1_001, None],
        "failures_to_reopen": [0, 1_001, None],
        "ramp_seconds": [-1, 86_401, math.nan, None, "30"],
    }.items()
    for value in values
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_breaker_that_cannot_be_is_refused_by_the_name_of_its_field(name, value):
    with pytest.raises(ValueError, match=rf"^{name}: found ") as refused:
        Breaker(**{name: value})
    assert repr(value) in str(refused.value)


@pytest.mark.parametrize(
    "name", ["consecutive_failures", "failure_rate", "window_seconds", "slow_call_seconds"]
)
def test_a_limit_may_be_left_out(name):
    breaker = Breaker(**{name: None})
    assert step(breaker, BreakerState(), Succeeded(), START).phase is Phase.CLOSED


def test_a_breaker_with_no_limit_never_opens():
    breaker = Breaker(consecutive_failures=None, failure_rate=None)
    assert after(breaker, BreakerState(), [Failed(1e6)] * 100).phase is Phase.CLOSED


def test_with_a_window_of_seconds_more_calls_than_the_other_window_may_be_the_minimum():
    assert Breaker(window_seconds=60, minimum_calls=1_000).minimum_calls == 1_000


# ── Purity and size ──────────────────────────────────────────────────────────────────────────────


@settings(deadline=None, max_examples=100)
@given(breakers(), st.lists(RESULTS | PROBES, max_size=20), st.floats(0, 1e10), RESULTS | PROBES)
def test_the_same_question_has_the_same_answer(breaker, before, now, event):
    state = after(breaker, BreakerState(), before, now)
    copy = after(breaker, BreakerState(), before, now)
    assert step(breaker, state, event, now) == step(breaker, copy, event, now)
    assert state == copy


def test_what_it_remembers_is_bounded_by_its_windows():
    by_calls, by_seconds = replace(PLAIN, failure_rate=1), replace(PLAIN, window_seconds=60)
    counted = timed = BreakerState()
    for second in range(500):
        now = START + second
        for event in (Failed(count=4), Succeeded(count=1_000)):
            counted = step(by_calls, counted, event, now)
            timed = step(by_seconds, timed, event, now)
    assert len(counted.recent) == 20
    assert counted.tally == Tally()
    assert len(timed.tally.slices) == 60
    assert timed.recent == ""


def test_a_curve_that_does_not_grow_by_itself_is_refused():
    with pytest.raises(ValueError, match=r"^open: found .* expected a Backoff whose curve grows"):
        Breaker(open=Backoff(curve="decorrelated"))


def test_no_calls_are_no_news():
    state = BreakerState(consecutive=4)
    for nothing in (Succeeded(count=0), Failed(count=0)):
        assert step(Breaker(), state, nothing, 0.0) == state


def test_late_failures_of_calls_begun_before_the_opening_do_not_open_it_again():
    breaker, state = Breaker(), BreakerState()
    for _ in range(5):
        state = step(breaker, state, Failed(), 10.0)
    state = step(breaker, state, ProbeAsked("p"), state.until)
    state = step(breaker, state, Succeeded(probe="p"), 20.0)
    for _ in range(20):
        state = step(breaker, state, Failed(seconds=60), 65.0)
    assert state.phase is Phase.CLOSED
    for _ in range(5):
        state = step(breaker, state, Failed(seconds=30), 65.0)
    assert state.phase is Phase.OPEN


def test_a_slow_probe_does_not_close_what_slowness_opened():
    breaker = Breaker(slow_call_seconds=2, minimum_calls=4, window_calls=4)
    state = BreakerState()
    for _ in range(4):
        state = step(breaker, state, Succeeded(seconds=10), 100.0)
    assert state.phase is Phase.OPEN
    for seconds, phase in ((10, Phase.OPEN), (1, Phase.CLOSED)):
        now = state.until + 1
        state = step(breaker, state, ProbeAsked("p"), now)
        state = step(breaker, state, Succeeded(seconds=seconds, probe="p"), now)
        assert state.phase is phase


@pytest.mark.parametrize(
    ("results", "phase"),
    [
        ("ssss", Phase.CLOSED),
        ("sfsss", Phase.CLOSED),
        ("sff", Phase.OPEN),
        ("sss", Phase.HALF_OPEN),
    ],
)
def test_a_health_probes_success_rate_over_a_short_window_decides(results, phase):
    """Four of five."""
    breaker = Breaker(successes_to_close=4, failures_to_reopen=2)
    state = BreakerState(phase=Phase.OPEN, until=5.0, episode=1)
    for second, result in enumerate(results, 10):
        state = step(breaker, state, ProbeAsked("health"), second)
        event = (Succeeded if result == "s" else Failed)(probe="health")
        state = step(breaker, state, event, second)
    assert state.phase is phase


@pytest.mark.parametrize("code", FaultCode)
def test_only_faults_that_speak_of_the_upstream_count_against_it(code):
    event = event_of(Fault(code), seconds=3.0, probe="p")
    bad = code in (FaultCode.TIMEOUT, FaultCode.UNAVAILABLE, FaultCode.UPSTREAM_ERROR)
    assert event == (Failed(3.0, "p") if bad else Ignored("p"))
    assert event_of(None, seconds=3.0, probe="p") == Succeeded(3.0, "p")


@pytest.mark.parametrize("asked", [86_401, 1e9, 1e10])
def test_one_that_asks_for_years_is_probed_after_a_day(asked):
    breaker = Breaker()
    state = step(breaker, BreakerState(), AskedToWait(asked), START)
    assert at(breaker, state, START + 86_399).phase is Phase.OPEN
    assert at(breaker, state, START + 1.1 * 86_400).phase is Phase.HALF_OPEN
