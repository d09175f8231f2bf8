"""A fleet's gate: what is written can be read, an outage closes it, and nothing slips past it."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from seawall.decisions import gate as gates
from seawall.decisions import gate_text
from seawall.decisions import limits as bounds
from seawall.decisions.backoff import Backoff
from seawall.decisions.breaker import (
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
    at,
)
from seawall.decisions.budget import RetryBudget
from seawall.decisions.evidence import Seen
from seawall.decisions.gate import DENIED, FAILING, Gate
from seawall.decisions.limits import Limits, LimitState
from seawall.decisions.tally import Tally
from seawall.decisions.upstream import Upstream

START = 1_800_000_000.0
HOLD = 60.0
DAY = 86_400.0
MINUTE = Backoff(curve="fixed", base_seconds=60, jitter="none")
PLAIN = Upstream("u", breaker=Breaker(open=MINUTE))
"""5 failures in a row, open for exactly a minute, a ramp of 30 seconds, a quorum of 2."""


def seen(worker="w1", second=START, *, well=0, failures=0, denied=0, retries=0, slow=0):
    calls = well + failures + denied
    return Seen(worker, int(second), calls - retries, retries, failures, denied, slow)


def watched(upstream, *rows, gate=None, alive=2, now=START + 1):
    return gates.watched(upstream, gate or Gate(), rows, alive, now)


def opened(upstream=PLAIN, now=START + 1):
    gate = watched(upstream, seen("w1", failures=9), seen("w2", failures=9), now=now)
    assert gate.breaker.phase is Phase.OPEN
    return gate


def let(upstream, gate, now, *, wanted=10, mine=0, slots=10, firsts=0):
    return gates.admitted(
        upstream, gate, wanted=wanted, mine=mine, slots=slots, firsts=firsts, now=now
    )


def begun(upstream, gate, calls, now, *, holder="w1", owner="", retries=0, probes=()):
    return gates.begun(
        upstream, gate, holder, {owner: calls}, now,
        retries=retries, probes=probes, hold_seconds=HOLD,
    )  # fmt: skip


# ── Any upstream, any life ───────────────────────────────────────────────────────────────────────

BREAKERS = st.builds(
    Breaker,
    consecutive_failures=st.none() | st.integers(1, 8),
    failure_rate=st.none() | st.floats(0.1, 1),
    window_calls=st.integers(20, 40),
    window_seconds=st.none() | st.integers(1, 300),
    open=st.sampled_from([MINUTE, Backoff(base_seconds=5), Backoff(base_seconds=1, cap_seconds=9)]),
    probes=st.integers(1, 4),
    probe_seconds=st.sampled_from([5.0, 60.0, 600.0]),
    successes_to_close=st.integers(1, 3),
    ramp_seconds=st.sampled_from([0, 1, 30, 500]),
)
LIMITS = st.builds(
    Limits,
    concurrency=st.none() | st.integers(1, 20),
    per_minute=st.dictionaries(
        st.sampled_from(["requests", "tokens"]), st.sampled_from([1, 7, 60, 3_000]), max_size=2
    ),
)
BUDGETS = st.none() | st.builds(
    RetryBudget,
    share=st.floats(0, 1),
    floor_per_second=st.sampled_from([0, 0.1, 1]),
    window_seconds=st.sampled_from([1, 10, 60, 300]),
)
UPSTREAMS = st.builds(
    lambda breaker, limits, each_owner, budget, quorum: Upstream(
        "u",
        breaker=breaker,
        concurrency=limits.concurrency,
        per_minute=limits.per_minute,
        each_owner=each_owner,
        retry_budget=budget,
        quorum=quorum,
    ),
    BREAKERS,
    LIMITS,
    st.none() | LIMITS,
    BUDGETS,
    st.integers(1, 3),
)
WORKERS = st.sampled_from(["w1", "w2", "w3"])
OWNERS = st.sampled_from(["", "ann", "bob"])
COUNTS = st.integers(0, 30)
ROWS = st.lists(
    st.builds(
        lambda worker, ago, well, failures, denied, slow: (
            worker, ago, {"well": well, "failures": failures, "denied": denied, "slow": slow},
        ),
        WORKERS, st.integers(0, 300), COUNTS, COUNTS, st.integers(0, 3), st.integers(0, 3),
    ),
    max_size=6,
)  # fmt: skip
PROBES = st.none() | st.sampled_from(["p1", "p2", "p3"])
EVENTS = st.one_of(
    st.builds(Succeeded, st.floats(0, 90), PROBES),
    st.builds(Failed, st.floats(0, 90), PROBES),
    st.builds(Ignored, PROBES),
    st.builds(AskedToWait, st.sampled_from([0.5, 7.0, 600.0])),
    st.builds(ProbeAsked, st.sampled_from(["p1", "p2", "p3"]), st.sampled_from([1.0, 60.0])),
    st.builds(
        lambda to, ahead: Forced(to, START + ahead),
        st.sampled_from(["open", "closed", None]),
        st.sampled_from([5.0, 100.0, 1e6, math.inf]),
    ),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 0.01, 1, 4.9, 31, 61, 400]) | st.floats(0, 100),
        st.one_of(
            st.tuples(st.just("watched"), ROWS, st.integers(0, 4)),
            st.tuples(st.just("heard"), EVENTS),
            st.tuples(st.just("begun"), WORKERS, OWNERS, st.integers(1, 20), st.booleans()),
            st.tuples(st.just("under_way"), WORKERS, OWNERS, st.integers(0, 9)),
        ),
    ),
    max_size=14,
)


def told(rows, now):
    return [seen(worker, now - ago, **counts) for worker, ago, counts in rows]


def stepped(upstream, gate, step, now):
    match step:
        case "watched", rows, alive:
            return gates.watched(upstream, gate, told(rows, now), alive, now)
        case "heard", event:
            return gates.heard(upstream, gate, event, now, "why")
        case "begun", holder, owner, wanted, retry:
            room = gates.owner_room(upstream, gate, owner, now)
            may = let(upstream, gate, now, wanted=wanted, slots=20, firsts=30)
            calls = min(may.retries if retry else may.calls, room)
            return begun(
                upstream, gate, calls, now, holder=holder, owner=owner,
                retries=calls if retry else 0,
                probes=[f"{holder}/{now}/{at}" for at in range(calls)] if may.probe else [],
            )  # fmt: skip
        case "under_way", holder, owner, calls:
            return gates.under_way(upstream, gate, holder, {owner: calls}, now, hold_seconds=HOLD)


@st.composite
def lives(draw):
    """An upstream, a gate that has come to be what it is step by step, and the time then."""
    upstream, now, gate = draw(UPSTREAMS), START, Gate()
    for pause, step in draw(STEPS):
        now += pause
        gate = stepped(upstream, gate, step, now)
    return upstream, gate, now


# ── Written and read ─────────────────────────────────────────────────────────────────────────────


@given(lives())
def test_what_was_written_is_read_as_it_was(life):
    _, gate, _ = life
    # What calls came to is told each time anew: the breaker's own book of them is not kept.
    kept = replace(gate, breaker=replace(gate.breaker, tally=Tally()))
    assert gate_text.read(gate_text.written(gate)) == kept


@given(lives())
def test_whoever_reads_it_decides_as_whoever_wrote_it(life):
    upstream, gate, now = life
    again = gate_text.read(gate_text.written(gate))
    for later in (0, 1, 30, 100, 1_000):
        when = now + later
        assert let(upstream, again, when) == let(upstream, gate, when)
        assert gates.is_gated(upstream, again, when) == gates.is_gated(upstream, gate, when)
        assert gates.held_until(upstream, again, when) == gates.held_until(upstream, gate, when)


def test_a_gate_of_which_everything_is_said_is_kept_whole():
    gate = Gate(
        breaker=BreakerState(
            phase=Phase.HALF_OPEN, forced="open", until=math.inf, episode=3, asked_seconds=7.5,
            closed_at=START, consecutive=2, recent="sfSF", slots=(Slot("w/1", START + 9, 3),),
            successes=1, failures=2, seed=11,
        ),
        why="maintenance “tonight”",
        limits=LimitState((("requests", START),), (("w1", 3, START + 60),)),
        owners=(("ann", LimitState((), (("w1", 2, START),))),),
        retries=Tally(((1_800_000_000, (0, 4)),)),
    )  # fmt: skip
    assert gate_text.read(gate_text.written(gate)) == gate


@pytest.mark.parametrize("text", [
    "", "{", "[]", "3", "null", '"x"', "{}", '{"breaker": 3}', '{"breaker": {"phase": "ajar"}}',
    '{"breaker": {"unheard_of": 1}}', '{"breaker": {"slots": [3]}}', '{"limits": []}', '{"owners": 3}',
    '{"retries": [[1]]}', '{"retries": 7}', '{"limits": {"used_until": {"x": "soon"}, "places": {}}}',
])  # fmt: skip
def test_what_nobody_can_read_is_a_new_gate_and_stops_nobody(text):
    assert gate_text.read(text) == Gate()


def test_a_new_gate_lets_everybody_through_and_need_not_be_written():
    assert let(PLAIN, Gate(), START) == gates.Let(10, 10, False, START + 4 * gates.SOON_SECONDS)
    assert gates.is_plain(PLAIN, Gate(), START)
    assert not gates.is_gated(PLAIN, Gate(), START)
    assert gates.held_until(PLAIN, Gate(), START) is None


# ── Opening ──────────────────────────────────────────────────────────────────────────────────────


@given(
    alive=st.integers(1, 20),
    quorum=st.integers(1, 5),
    failures=st.integers(5, 500),
    seconds=st.integers(1, 20),
)
def test_an_outage_that_a_quorum_has_seen_opens_it_for_all(alive, quorum, failures, seconds):
    upstream = replace(PLAIN, quorum=quorum)
    workers = min(alive, quorum)
    rows = [
        seen(f"w{worker}", START - second, failures=-(-failures // (workers * seconds)))
        for worker in range(workers)
        for second in range(seconds)
    ]
    assume(sum(row.failures for row in rows) >= 5)
    gate = watched(upstream, *rows, alive=alive)
    assert (gate.breaker.phase, gate.why) == (Phase.OPEN, FAILING)
    assert gates.held_until(upstream, gate, START + 2) == START + 61
    assert let(upstream, gate, START + 2) == gates.Let(0, 0, again_at=START + 61)


@given(
    alive=st.integers(2, 20),
    failures=st.integers(1, 500),
    well=st.integers(0, 50),
    denied=st.booleans(),
)
def test_what_one_worker_alone_has_seen_stops_nobody_else(alive, failures, well, denied):
    bad = seen("w1", **{"denied" if denied else "failures": failures})
    good = seen("w2", well=well)
    gate = watched(PLAIN, bad, good, alive=alive)
    assert gate == Gate()


@given(failures=st.integers(1, 100), more=st.integers(9, 1_000))
def test_a_failure_now_and_then_of_others_does_not_make_one_broken_host_the_fleets(failures, more):
    """However quickly the broken one fails: the others have seen that it answers."""
    before = [seen("w2", START - 5, well=failures * more, failures=failures)]
    gate = watched(PLAIN, *before, seen("w1", START, failures=500))
    assert gate == Gate()


def test_what_a_worker_saw_last_is_what_it_says():
    """It was well for as long as anybody looks back, and has just gone away."""
    before = [seen(worker, START - 90 + n, well=50) for worker in ("w1", "w2") for n in range(80)]
    gone = [seen("w1", START, failures=5), seen("w2", START, failures=5)]
    assert watched(PLAIN, *before, *gone).breaker.phase is Phase.OPEN
    assert watched(PLAIN, *before, gone[0], seen("w2", START, well=5)).breaker == BreakerState()


def test_the_only_worker_there_is_speaks_for_the_fleet():
    assert watched(PLAIN, seen(failures=5), alive=1).breaker.phase is Phase.OPEN
    assert watched(PLAIN, seen(failures=5), alive=0).breaker.phase is Phase.OPEN
    assert watched(PLAIN, seen(failures=4), alive=1).breaker.phase is Phase.CLOSED


@given(
    st.lists(
        st.tuples(st.integers(10, 300) | st.integers(300, 50_000), st.floats(0, 0.3)),
        min_size=1,
        max_size=100,
    ),
    st.integers(1, 8),
)
def test_three_calls_of_ten_that_fail_do_not_open_it(seconds, workers):
    rows = []
    for ago, (calls, share) in enumerate(seconds):
        failures = int(calls * share)
        for worker in range(workers):
            # As evenly among the workers as can be; each has some of both where there are enough.
            mine = (failures + worker) // workers
            well = (calls - failures + worker) // workers
            rows.append(seen(f"w{worker}", START - ago, well=well, failures=mine))
    assert watched(PLAIN, *rows, alive=workers).breaker.phase is Phase.CLOSED


@given(st.integers(20, 200) | st.integers(200, 100_000), st.floats(0.55, 1))
def test_half_of_the_calls_that_fail_open_it_however_busy_it_is(calls, share):
    failures = math.ceil(calls * share)
    halves = [failures // 2, failures - failures // 2]
    rows = [
        seen(f"w{worker}", failures=half, well=(calls - failures + worker) // 2)
        for worker, half in enumerate(halves)
    ]
    assert watched(PLAIN, *rows).breaker.phase is Phase.OPEN


def test_what_happened_before_it_closed_is_old_news():
    gate = Gate(breaker=BreakerState(closed_at=START))
    before = [seen(worker, START - 5, failures=50) for worker in ("w1", "w2")]
    after = [seen(worker, START + 5, failures=50) for worker in ("w1", "w2")]
    assert watched(PLAIN, *before, gate=gate, now=START + 6).breaker.phase is Phase.CLOSED
    assert watched(PLAIN, *before, *after, gate=gate, now=START + 6).breaker.phase is Phase.OPEN


@given(lives(), ROWS, st.integers(0, 4))
def test_only_a_closed_breaker_that_nobody_has_forced_is_moved_by_what_was_seen(life, rows, alive):
    upstream, gate, now = life
    state = at(upstream.breaker, gate.breaker, now)
    assume(state.forced is not None or state.phase is not Phase.CLOSED)
    after = gates.watched(upstream, gate, told(rows, now), alive, now)
    assert after == replace(gate, breaker=state)


@given(st.integers(1, 60), st.integers(1, 60))
def test_where_every_call_is_denied_it_is_held_and_says_whose_matter_that_is(one, other):
    gate = watched(PLAIN, seen("w1", denied=one), seen("w2", denied=other))
    enough = one + other >= gates.LEAST_DENIED
    assert gate.breaker.phase is (Phase.OPEN if enough else Phase.CLOSED)
    assert gate.why == (DENIED if enough else "")


@given(st.integers(1, 200), st.integers(1, 5))
def test_where_anything_else_came_of_a_call_a_few_denials_are_nobodys_matter(denied, well):
    rows = [seen(f"w{each}", denied=denied) for each in (1, 2)]
    assert watched(PLAIN, *rows, seen("w2", START - 1, well=well)) == Gate()


def test_slow_calls_open_it_where_they_may():
    breaker = Breaker(open=MINUTE, slow_call_seconds=3.0)
    rows = [seen(worker, well=12, slow=12) for worker in ("w1", "w2")]
    assert watched(replace(PLAIN, breaker=breaker), *rows).breaker.phase is Phase.OPEN
    assert watched(replace(PLAIN, breaker=breaker), rows[0]).breaker.phase is Phase.CLOSED
    assert watched(PLAIN, *rows).breaker.phase is Phase.CLOSED


@pytest.mark.parametrize(("after_seconds", "phase"), [(4.9, Phase.OPEN), (5, Phase.CLOSED)])
def test_workers_that_are_stopped_at_the_same_time_stop_all(after_seconds, phase):
    """One whose time is over has to find out anew: what it saw then is no quorum for another's."""
    stop = gates.Stop(DENIED, START + 5)
    gate = gates.stopped(PLAIN, Gate(), "w1", 4, START, stop)
    assert gate.breaker.phase is Phase.CLOSED
    assert not gates.is_plain(PLAIN, gate, START + 4)
    assert gates.is_plain(PLAIN, gate, START + 5)
    assert gates.stopped(PLAIN, gate, "w1", 4, START, stop) == gate, "twice is once"
    now = START + after_seconds
    gate = gates.stopped(PLAIN, gate, "w2", 4, now, gates.Stop(DENIED, now + 5))
    assert (gate.breaker.phase, gate.why) == (phase, DENIED if phase is Phase.OPEN else "")


def test_a_worker_that_alone_may_call_stops_all_by_stopping():
    gate = gates.stopped(PLAIN, Gate(), "w1", 1, START, gates.Stop(FAILING, START + 5))
    assert (gate.breaker.phase, gate.why) == (Phase.OPEN, FAILING)


def test_a_stop_of_a_clock_far_ahead_is_nobodys():
    gate = Gate(stopped=(("w1", START + DAY),))
    gate = gates.stopped(PLAIN, gate, "w2", 4, START, gates.Stop(FAILING, START + DAY))
    assert gate.breaker.phase is Phase.CLOSED
    assert gates.is_plain(PLAIN, gate, START + gates.LONGEST_STOP_SECONDS)


# ── What is told ─────────────────────────────────────────────────────────────────────────────────


def test_an_upstream_that_asks_for_time_is_given_it_and_that_is_why():
    gate = gates.heard(PLAIN, Gate(), AskedToWait(100), START)
    assert gate.why == gates.ASKED
    assert START + 100 <= gates.held_until(PLAIN, gate, START) <= START + 110
    quota = gates.heard(PLAIN, gate, AskedToWait(5_000), START, "its allowance is used up")
    assert quota.why == "its allowance is used up"
    assert gates.heard(PLAIN, quota, AskedToWait(1), START, "a moment").why == quota.why


def test_what_a_person_says_is_why_and_goes_with_the_decision():
    held = gates.heard(PLAIN, Gate(), Forced("open", START + 60), START, "maintenance")
    assert held.why == "maintenance"
    assert gates.held_until(PLAIN, held, START) == START + 60
    for event in (AskedToWait(600), Failed(), Succeeded()):
        assert gates.heard(PLAIN, held, event, START).why == "maintenance"
    assert gates.heard(PLAIN, held, Forced(None), START).why == ""


def test_the_reason_is_gone_once_it_is_well_and_stays_while_it_is_not():
    gate = opened()
    now = gate.breaker.until
    probing = begun(PLAIN, gate, 1, now, probes=["p"])
    again = gates.heard(PLAIN, probing, Failed(1, "p"), now + 1)
    assert (again.breaker.phase, again.why) == (Phase.OPEN, FAILING)
    well = gates.heard(PLAIN, probing, Succeeded(1, "p"), now + 1)
    assert (well.breaker.phase, well.why) == (Phase.CLOSED, "")


# ── Who may call ─────────────────────────────────────────────────────────────────────────────────


@given(lives(), st.integers(0, 50), st.integers(0, 20), st.integers(1, 20), st.integers(0, 999))
@example((PLAIN, Gate(), START), 0, 0, 1, 0)
def test_no_more_is_let_through_than_wanted_and_limits_and_probes_allow(
    life, wanted, mine, slots, firsts
):
    upstream, gate, now = life
    may = let(upstream, gate, now, wanted=wanted, mine=mine, slots=slots, firsts=firsts)
    state = at(upstream.breaker, gate.breaker, now)
    assert 0 <= may.retries <= may.calls <= wanted
    assert may.calls <= bounds.room(upstream.limits, gate.limits, now)
    if state.forced == "open" or (state.forced is None and state.phase is Phase.OPEN):
        assert may == gates.Let(0, 0, again_at=state.until)
    elif state.forced is None and state.phase is Phase.HALF_OPEN:
        assert may.probe
        assert may.calls + len(state.slots) <= max(upstream.breaker.probes, len(state.slots))
    else:
        assert not may.probe
        assert may.retries <= max(0, gates.retries_left(upstream, gate, firsts, now))
    assert may.again_at is None or may.again_at > now or may.calls == wanted == 0


@given(lives(), WORKERS, st.integers(1, 30))
def test_what_was_let_through_can_begin_and_is_counted(life, holder, wanted):
    upstream, gate, now = life
    may = let(upstream, gate, now, wanted=wanted, slots=20)
    probes = [f"new/{each}" for each in range(may.calls)] if may.probe else []
    after = begun(upstream, gate, may.calls, now, holder=holder, retries=may.retries, probes=probes)
    if upstream.concurrency is not None:
        held = sum(count for _, count, until in after.limits.places if until > now)
        assert held <= upstream.concurrency or not may.calls
    if may.probe:
        assert {slot.holder for slot in after.breaker.slots} >= set(probes)
        assert len(after.breaker.slots) <= upstream.breaker.probes or not may.calls
        assert let(upstream, after, now, wanted=99).calls <= upstream.breaker.probes - may.calls
    if upstream.retry_budget is not None and may.retries and not may.probe:
        left = gates.retries_left(upstream, gate, 0, now)
        assert gates.retries_left(upstream, after, 0, now) == left - may.retries


@given(st.integers(1, 40), st.lists(st.integers(1, 30), max_size=20))
def test_probes_under_way_are_never_more_than_were_asked_for(slots, wants):
    upstream = replace(PLAIN, breaker=Breaker(open=MINUTE, probes=3))
    gate = opened(upstream)
    now, under_way = gate.breaker.until, 0
    for at_, wanted in enumerate(wants):
        may = let(upstream, gate, now, wanted=wanted, slots=slots)
        probes = [f"{at_}/{each}" for each in range(may.calls)]
        gate = begun(upstream, gate, may.calls, now, holder=f"w{at_}", probes=probes)
        under_way += may.calls
        assert under_way <= 3
    assert under_way == min(3, sum(wants))


@given(
    ramp=st.sampled_from([1, 30, 600]),
    slots=st.integers(1, 100),
    times=st.lists(st.floats(0, 700), min_size=2, max_size=10),
)
def test_after_closing_more_is_let_through_from_moment_to_moment(ramp, slots, times):
    upstream = replace(PLAIN, breaker=Breaker(open=MINUTE, ramp_seconds=ramp))
    gate = Gate(breaker=BreakerState(closed_at=START))
    calls = [
        let(upstream, gate, START + each, wanted=slots, slots=slots).calls
        for each in sorted([0.0, *times, ramp])
    ]
    assert calls == sorted(calls)
    assert calls[0] == max(1, slots // 10)
    assert let(upstream, gate, START + ramp, wanted=slots, slots=slots).calls == slots
    for mine in range(slots):
        may = let(upstream, gate, START, wanted=slots, mine=mine, slots=slots)
        assert may.calls == max(0, calls[0] - mine)


def test_an_owners_limit_is_the_owners_alone():
    upstream = replace(PLAIN, each_owner=Limits(concurrency=2))
    gate = begun(upstream, Gate(), 2, START, owner="ann")
    assert gates.owner_room(upstream, gate, "ann", START) == 0
    assert gates.owner_room(upstream, gate, "bob", START) == 2
    assert gates.owner_room(upstream, gate, "", START) == bounds.MOST_CALLS
    gate = gates.under_way(upstream, gate, "w1", {"ann": 1}, START, hold_seconds=HOLD)
    assert gates.owner_room(upstream, gate, "ann", START) == 1
    gate = gates.under_way(upstream, gate, "w1", {}, START, hold_seconds=HOLD)
    assert gate.owners == ()


def test_places_of_a_worker_that_is_gone_come_back_with_its_lease():
    upstream = replace(PLAIN, concurrency=3)
    gate = begun(upstream, Gate(), 3, START)
    assert let(upstream, gate, START).calls == 0
    assert let(upstream, gate, START + HOLD - 1).calls == 0
    assert let(upstream, gate, START + HOLD).calls == 3


@given(
    BUDGETS.filter(lambda budget: budget is not None),
    st.integers(0, 500),
    st.lists(st.tuples(st.sampled_from([0, 0.3, 1, 5, 10, 61]), st.integers(0, 200)), max_size=40),
)
def test_retries_are_never_more_than_their_share_of_first_calls_and_the_floor(
    budget, firsts, wishes
):
    upstream, gate, now, granted = replace(PLAIN, retry_budget=budget), Gate(), START, []
    allowed = budget.share * firsts + budget.floor_per_second * budget.window_seconds
    for pause, wish in wishes:
        now += pause
        take = max(0, min(wish, gates.retries_left(upstream, gate, firsts, now)))
        gate = begun(upstream, gate, take, now, retries=take)
        granted.append((math.floor(now), take))
        since = math.floor(now) - budget.window_seconds
        assert sum(count for second, count in granted if second > since) <= allowed + 1e-9


def test_a_budget_that_was_used_up_lets_retries_go_again_before_its_window_is_over():
    upstream = replace(PLAIN, retry_budget=RetryBudget(share=0.1, floor_per_second=1))
    gate, now, granted = Gate(), START, []
    for _ in range(120):
        take = max(0, min(100, gates.retries_left(upstream, gate, 0, now)))
        gate = begun(upstream, gate, take, now, retries=take)
        granted.append(take)
        now += 1
    pauses = [len(each) for each in "".join("x" if n else "." for n in granted).split("x")]
    assert max(pauses) < 30
    assert 60 <= sum(granted) <= 180


def test_first_calls_go_on_where_no_retry_may_and_more_of_them_allow_more():
    upstream = replace(PLAIN, retry_budget=RetryBudget(share=0.1, floor_per_second=0))
    gate = begun(upstream, Gate(), 10, START, retries=10)
    assert gates.retries_left(upstream, gate, 100, START) <= 0
    may = let(upstream, gate, START, firsts=100)
    assert (may.calls, may.retries) == (10, 0)
    assert gates.retries_left(upstream, gate, 5_000, START) > 0
    assert gates.retries_left(upstream, gate, 100, START + 61) > 0
    assert let(replace(upstream, retry_budget=None), gate, START).retries == 10


# ── What need not be remembered ──────────────────────────────────────────────────────────────────


@given(lives(), st.sampled_from([0, 1, 29, 60, 119, 400]), ROWS, st.integers(0, 4))
def test_a_plain_gate_says_nothing_that_a_new_one_would_not(life, later, rows, alive):
    upstream, gate, now = life
    now += later
    assume(gates.is_plain(upstream, gate, now))
    for when in (now, now + 1, now + 1_000):
        assert let(upstream, gate, when) == let(upstream, Gate(), when)
        assert not gates.is_gated(upstream, gate, when)
        assert gates.held_until(upstream, gate, when) is None
    was = gates.watched(upstream, gate, told(rows, now), alive, now)
    new = gates.watched(upstream, Gate(), told(rows, now), alive, now)
    assert was.breaker.phase is new.breaker.phase
    assert let(upstream, was, now) == let(upstream, new, now)


def test_an_outage_that_is_over_is_not_met_again_when_its_ramp_is_over():
    gate = opened()
    now = gate.breaker.until
    gate = begun(PLAIN, gate, 1, now, probes=["p"])
    gate = gates.heard(PLAIN, gate, Succeeded(1, "p"), now)
    now += PLAIN.breaker.ramp_seconds + 1
    rows = [seen("w1", failures=9), seen("w2", failures=9), seen("w2", now - 1, failures=1)]
    assert gates.watched(PLAIN, Gate(), rows, 2, now).breaker.phase is Phase.OPEN
    assert not gates.is_plain(PLAIN, gate, now)
    assert gates.watched(PLAIN, gate, rows, 2, now).breaker.phase is Phase.CLOSED
    assert gates.is_plain(PLAIN, gate, now + gates.LOOK_SECONDS)


@given(lives())
def test_what_has_to_be_let_through_one_by_one_is_written_down(life):
    upstream, gate, now = life
    if gates.is_gated(upstream, gate, now):
        assert not gates.is_plain(upstream, gate, now)
    if upstream.limited:
        assert gates.is_gated(upstream, gate, now)


def test_the_text_of_a_gate_is_json_and_small():
    gate = Gate()
    for worker in range(100):
        gate = begun(replace(PLAIN, concurrency=1_000), gate, 10, START, holder=f"w{worker}")
    text = gate_text.written(gate)
    assert json.loads(text)["limits"]["places"]["w7"] == [10, START + HOLD]
    assert len(text) < 5_000


@pytest.mark.parametrize(("breaker", "budget", "seconds"), [
    (Breaker(), None, 120), (Breaker(window_seconds=300), None, 300),
    (Breaker(window_seconds=10), RetryBudget(window_seconds=60), 60),
    (Breaker(), RetryBudget(window_seconds=3_600), 3_600),
])  # fmt: skip
def test_as_far_back_is_looked_as_anybody_wants_to(breaker, budget, seconds):
    upstream = Upstream("u", breaker=breaker, retry_budget=budget)
    assert gates.window_seconds(upstream) == seconds
