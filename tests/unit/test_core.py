"""The worker's core, stepped by hand, event by event, on a clock that the test holds."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from seawall.execute import Stop
from seawall.faults import Fault, FaultCode
from seawall.model import Lane, Outcome, Settlement, Token
from seawall.store import Claim, Release
from seawall.store.values import MOST_ROWS
from seawall.worker import core as module
from seawall.worker.core import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    LOOK_FOR_LOST_SECONDS,
    MOST_PREFETCHED,
    Core,
)
from seawall.worker.events import (
    Abort,
    Asked,
    Began,
    Ended,
    Exit,
    Freed,
    Rest,
    Signal,
    Start,
    Taken,
    Turn,
    Turned,
    TurnFailed,
    Woken,
)
from seawall.worker.slots import _SPENT_LIMITS, BEGIN_SECONDS, LET_GO_SECONDS, Limit

LEASE_SECONDS = 60.0
CLAIMED_AT = datetime(2026, 1, 1, tzinfo=UTC)
FAULT = Fault(FaultCode.TIMEOUT, "too slow")


def claim(job_id, *, losses=0, deadline_seconds=None, task="t", lease_no=1):
    """A claim made at this moment; its deadline so many seconds from then."""
    deadline = (
        None if deadline_seconds is None else CLAIMED_AT + timedelta(seconds=deadline_seconds)
    )
    return Claim(
        token=Token(job_id, lease_no, 1),
        lane=Lane(task),
        cycle=0,
        tries=0,
        losses=losses,
        due_at=CLAIMED_AT,
        lease_until=CLAIMED_AT + timedelta(seconds=LEASE_SECONDS),
        deadline_at=deadline,
        run=None,
        owner=None,
        codec="json",
        arguments="{}",
        request_id=None,
        input=None,
    )


def claims(*job_ids, **more):
    return tuple(claim(job_id, **more) for job_id in job_ids)


def done(token, *, took=1.0, outcome=Outcome.SUCCEEDED, **more):
    return Settlement(token=token, outcome=outcome, duration_seconds=took, **more)


def retried(token, delay_seconds):
    return done(token, outcome=Outcome.RETRIED, fault=FAULT, delay_seconds=delay_seconds)


def new_core(**more):
    told = {
        "concurrency": 2,
        "poll_seconds": 1.0,
        "grace_seconds": 30.0,
        "lease_seconds": LEASE_SECONDS,
        "timeout_of": {"t": 100.0, "slow": 10_000.0, "isolated": 10.0},
        **more,
    }
    timeout_of = told.pop("timeout_of")
    return Core(**told, limit_of=lambda lane: Limit(timeout_of[lane.task], lane.task == "isolated"))


def started(actions):
    return [action.claim.token.job_id for action in actions if isinstance(action, Start)]


def the(kind, actions):
    """The one action of that kind."""
    (found,) = [action for action in actions if isinstance(action, kind)]
    return found


def written(turn):
    """Whose ends a turn writes."""
    return sorted(turn.tokens)


def none_of(kind, actions):
    return not any(isinstance(action, kind) for action in actions)


def running_core(*job_ids, now=0.0, **more):
    """A core whose slots are taken by these jobs, and which knows of no others."""
    more.setdefault("concurrency", len(job_ids))
    core = new_core(**more)
    core.step(Woken(look=True), now)
    actions = core.step(Turned(claims(*job_ids)), now)
    assert started(actions) == list(job_ids)
    return core


def token_of(job_id):
    return Token(job_id, 1, 1)


# ── Claiming and starting ────────────────────────────────────────────────────────────────────────


def test_an_idle_worker_claims_as_many_as_it_has_slots():
    actions = new_core(concurrency=7).step(Woken(look=True), 0.0)
    assert actions == [Turn((), (), 7, prefetch=False)]


def test_no_claim_is_for_more_than_a_batch_may_have():
    actions = new_core(concurrency=5_000).step(Woken(look=True), 0.0)
    assert the(Turn, actions).limit == MOST_ROWS


def test_what_was_claimed_is_started_in_its_order():
    core = new_core(concurrency=3)
    core.step(Woken(look=True), 0.0)
    actions = core.step(Turned(claims(5, 3, 4)), 0.0)
    assert started(actions) == [5, 3, 4]
    assert set(core.tokens) == {token_of(5), token_of(3), token_of(4)}


def test_a_worker_with_nothing_to_do_rests_until_its_next_look():
    core = new_core(poll_seconds=0.7)
    core.step(Woken(look=True), 0.0)
    assert core.step(Turned(), 0.2) == [Rest(pytest.approx(0.7))]
    assert core.step(Woken(), 0.5) == [Rest(pytest.approx(0.4))]
    assert isinstance(core.step(Woken(), 0.9)[0], Turn)


def test_a_wake_up_without_work_asks_nothing_of_the_store_and_one_with_work_asks_at_once():
    core = new_core()
    core.step(Woken(look=True), 0.0)
    core.step(Turned(), 0.0)
    assert none_of(Turn, core.step(Woken(), 0.1))
    assert the(Turn, core.step(Woken(look=True), 0.1)).limit == 2


def test_word_of_work_that_comes_while_the_store_is_asked_is_not_forgotten():
    """The claim may have looked before that work was there."""
    core = new_core()
    core.step(Woken(look=True), 0.0)
    assert core.step(Woken(look=True), 0.1) == []
    assert the(Turn, core.step(Turned(), 0.2)).limit == 2


def test_a_worker_whose_slots_are_all_taken_claims_nothing_even_when_told_of_work():
    core = running_core(1, 2)
    assert core.step(Woken(look=True), 0.5) == [Rest(pytest.approx(1.0))]


def test_slots_that_a_claim_left_empty_are_claimed_for_at_the_next_look():
    core = new_core(concurrency=3)
    core.step(Woken(look=True), 0.0)
    core.step(Turned(claims(1)), 0.0)
    assert the(Turn, core.step(Woken(look=True), 0.1)).limit == 2


def test_each_end_makes_room_for_one_claim_in_the_turn_that_writes_it():
    core = running_core(1, 2)
    turn = the(Turn, core.step(Ended(token_of(1), done(token_of(1))), 1.0))
    assert (written(turn), turn.limit, turn.prefetch) == ([token_of(1)], 1, False)


def test_a_delay_of_a_job_of_its_own_sets_an_alarm_for_the_moment_when_it_is_due():
    core = running_core(1, poll_seconds=60.0)
    core.step(Ended(token_of(1), retried(token_of(1), 5.0)), 1.0)
    rest = the(Rest, core.step(Turned(), 1.0))
    assert 5.0 <= rest.seconds < 5.1
    assert none_of(Turn, core.step(Woken(), 5.9))
    assert the(Turn, core.step(Woken(), 1.0 + rest.seconds)).limit == 1


def test_alarms_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "MOST_ALARMS", 3)
    core = running_core(*range(1, 11))
    for job_id in range(1, 11):
        core.hear(Ended(token_of(job_id), retried(token_of(job_id), 50.0)), 0.0)
    assert len(core._alarms) == 3


# ── Turns ────────────────────────────────────────────────────────────────────────────────────────


def test_never_two_turns_at_once():
    core = running_core(1, 2, 3)
    assert the(Turn, core.step(Ended(token_of(1), done(token_of(1))), 1.0))
    for event in (
        Ended(token_of(2), done(token_of(2))),
        Woken(look=True),
        Taken(token_of(3)),
        Signal(),
    ):
        actions = core.step(event, 2.0)
        assert none_of(Turn, actions)
        assert none_of(Rest, actions)  # who waits for the store does not rest
        assert none_of(Exit, actions)


def test_all_that_ended_during_a_turn_goes_with_the_next_one():
    core = running_core(*range(1, 6))
    first = the(Turn, core.step(Ended(token_of(1), done(token_of(1))), 1.0))
    for job_id in (2, 3, 4):
        core.step(Ended(token_of(job_id), done(token_of(job_id))), 1.0)
    second = the(Turn, core.step(Turned(), 1.0))
    assert written(first) == [token_of(1)]
    assert written(second) == [token_of(2), token_of(3), token_of(4)]
    assert core.unwritten == 3


def test_a_turn_writes_no_more_than_a_batch_may_have_and_the_rest_follows():
    many = MOST_ROWS + 7
    core = new_core(concurrency=many)
    core.step(Woken(look=True), 0.0)
    core.step(Turned(claims(*range(1, MOST_ROWS + 1))), 0.0)
    core.step(Turned(claims(*range(MOST_ROWS + 1, many + 1))), 0.0)
    for job_id in range(1, many + 1):
        core.hear(Ended(token_of(job_id), done(token_of(job_id))), 1.0)
    first = the(Turn, core.act(1.0))
    assert len(first.settlements) == MOST_ROWS
    assert len(the(Turn, core.step(Turned(), 1.0)).settlements) == 7


def test_a_lease_is_kept_until_its_end_is_written():
    core = running_core(1)
    core.step(Ended(token_of(1), done(token_of(1))), 1.0)
    assert set(core.tokens) == {token_of(1)}
    assert (core.unwritten, core.idle) == (1, False)
    core.step(Turned(), 1.1)
    assert core.tokens == []
    assert (core.unwritten, core.idle) == (0, True)


def test_a_turn_that_failed_is_made_again_with_all_that_it_was_to_write():
    core = running_core(1, 2)
    core.step(Ended(token_of(1), done(token_of(1))), 1.0)
    assert core.step(TurnFailed(), 1.0) == [Rest(pytest.approx(FIRST_PAUSE_SECONDS))]
    assert set(core.tokens) == {token_of(1), token_of(2)}
    core.step(Ended(token_of(2), done(token_of(2))), 1.05)
    again = the(Turn, core.step(Woken(), 1.0 + FIRST_PAUSE_SECONDS))
    assert written(again) == [token_of(1), token_of(2)]


def test_a_store_that_does_not_answer_is_asked_ever_more_rarely_and_then_at_once_again():
    core, now, pauses = new_core(poll_seconds=60.0), 0.0, []
    core.step(Woken(look=True), now)
    for _ in range(8):
        rest = the(Rest, core.step(TurnFailed(), now))
        pauses.append(rest.seconds)
        assert none_of(Turn, core.step(Woken(look=True), now + rest.seconds * 0.9))
        now += rest.seconds
        assert the(Turn, core.step(Woken(), now + 1e-9))
        now += 1e-9
    expected = [min(FIRST_PAUSE_SECONDS * 2**n, LONGEST_PAUSE_SECONDS) for n in range(8)]
    assert pauses == [pytest.approx(seconds) for seconds in expected]
    core.step(Turned(), now)
    core.step(Woken(look=True), now)
    assert the(Rest, core.step(TurnFailed(), now)).seconds == pytest.approx(FIRST_PAUSE_SECONDS)


def test_an_end_that_had_to_wait_for_the_store_says_for_how_long():
    core = running_core(1)
    core.step(Ended(token_of(1), done(token_of(1))), 1.0)
    core.step(TurnFailed(), 31.0)
    (written,) = the(Turn, core.step(Woken(), 32.0)).settlements
    assert written.age_seconds == pytest.approx(31.0)


def test_an_end_that_is_written_at_once_is_not_dated():
    core = running_core(1)
    settlement = done(token_of(1))
    (written,) = the(Turn, core.step(Ended(token_of(1), settlement), 1.0)).settlements
    assert written is settlement


def test_what_the_store_would_not_take_is_replaced_in_the_next_turn():
    core = running_core(1)
    core.step(Ended(token_of(1), done(token_of(1), output='"x"')), 1.0)
    failed = done(token_of(1), outcome=Outcome.FAILED, fault=FAULT)
    again = the(Turn, core.step(Turned(instead=(failed,)), 1.0))
    assert again.settlements == (failed,)
    assert set(core.tokens) == {token_of(1)}
    core.step(Turned(), 1.0)
    assert core.idle


def test_an_answer_to_a_turn_that_was_never_asked_for_is_a_bug():
    with pytest.raises(AssertionError, match="no turn was under way"):
        new_core().hear(Turned(), 0.0)


# ── Prefetch ─────────────────────────────────────────────────────────────────────────────────────


def busy_core(*, took, concurrency=2, **more):
    """A core that ran a job that took so long, with all slots taken and more work behind."""
    core = new_core(concurrency=concurrency, **more)
    core.step(Woken(look=True), 0.0)
    core.step(Turned(claims(*range(1, concurrency + 1))), 0.0)
    actions = core.step(Ended(token_of(1), done(token_of(1), took=took)), 0.0)
    assert the(Turn, actions).limit == 1
    return core, core.step(Turned(claims(concurrency + 1)), 0.0)


@pytest.mark.parametrize(
    ("took", "expected"),
    [(0.001, 400), (0.01, 40), (0.1, 4), (0.2, 2), (0.0, MOST_PREFETCHED), (1e-9, MOST_PREFETCHED)],
)
def test_about_a_fifth_of_a_second_of_work_is_prefetched_and_never_more_than_the_most(
    took, expected
):
    _, actions = busy_core(took=took)
    turn = the(Turn, actions)
    assert turn.prefetch
    assert turn.limit == pytest.approx(expected, abs=1)


@pytest.mark.parametrize("took", [0.21, 1.0, 600.0])
def test_long_jobs_are_not_prefetched(took):
    _, actions = busy_core(took=took)
    assert none_of(Turn, actions)


def test_nothing_is_prefetched_before_it_is_known_how_long_jobs_take():
    core = new_core()
    core.step(Woken(look=True), 0.0)
    assert none_of(Turn, core.step(Turned(claims(1, 2)), 0.0))


def test_nothing_is_prefetched_by_a_worker_that_may_not():
    _, actions = busy_core(took=0.001, prefetch=False)
    assert none_of(Turn, actions)


def test_nothing_is_prefetched_where_the_last_claim_found_less_than_it_wanted():
    core, actions = busy_core(took=0.01)
    limit = the(Turn, actions).limit
    assert none_of(Turn, core.step(Turned(claims(*range(10, 10 + limit - 1))), 0.0))
    for job_id in range(10, 10 + limit - 1):
        token = next(iter(core.running))
        actions = core.step(Ended(token, done(token, took=0.01)), 0.1)
        assert started(actions) == [job_id]
        if core._turn:
            actions = core.step(Turned(), 0.1)
        assert none_of(Turn, actions)


def test_prefetching_ends_when_jobs_become_long():
    core, _ = busy_core(took=0.01)
    job_ids, now = iter(range(100, 10_000)), 0.0
    core.step(Turned(claims(*(next(job_ids) for _ in range(40)))), now)
    for _ in range(600):
        token = next(iter(core.running))
        now += 0.05
        actions = core.step(Ended(token, done(token, took=60.0)), now)
        while turns := [action for action in actions if isinstance(action, Turn)]:
            new = claims(*(next(job_ids) for _ in range(turns[0].limit)))
            actions = core.step(Turned(new), now)
        if not core.waiting:
            break
    assert not core.waiting
    now += 0.05
    token = next(iter(core.running))
    turn = the(Turn, core.step(Ended(token, done(token, took=60.0)), now))
    assert not turn.prefetch
    assert none_of(Turn, core.step(Turned(claims(next(job_ids))), now))


def test_prefetched_jobs_start_when_slots_are_freed_without_asking_the_store_first():
    core, _ = busy_core(took=0.01)
    core.step(Turned(claims(10, 11, 12)), 0.0)
    actions = core.step(Ended(token_of(2), done(token_of(2), took=0.01)), 0.01)
    assert started(actions) == [10]


def with_prefetched(*waiting):
    """A core that has these in its hands, all slots taken, and no turn under way."""
    core, actions = busy_core(took=0.01)
    assert the(Turn, actions).prefetch
    actions = core.step(Turned(claims(*waiting)), 0.0)
    assert not started(actions)
    while [action for action in actions if isinstance(action, Turn)]:
        actions = core.step(Turned(), 0.0)
    assert [waits.token.job_id for waits, _ in core.waiting] == list(waiting)
    return core


def test_once_a_second_a_freed_slot_is_kept_for_jobs_that_may_not_be_prefetched():
    core = with_prefetched(*range(10, 40))
    core._more = True
    actions = core.step(Ended(token_of(2), done(token_of(2), took=0.01)), 0.1)
    assert started(actions) == [10]
    if core._turn:
        core.step(Turned(), 0.1)
    core._more = True
    later = LOOK_FOR_LOST_SECONDS + 0.1
    actions = core.step(Ended(token_of(10), done(token_of(10), took=0.01)), later)
    assert started(actions) == []
    turn = the(Turn, actions)
    assert (turn.limit, turn.prefetch) == (1, False)


def test_what_a_turn_has_taken_counts_as_under_way_from_then_on_and_once():
    core = new_core()
    the(Turn, core.step(Woken(look=True), 0.0))
    at = Lane("t", upstream="words")
    taken = tuple(each._replace(lane=at) for each in claims(1, 2))
    core.coming(taken)
    assert core.under_way("words") == {"": 2}
    assert all(core.has(each.token) for each in taken)
    core.step(Turned(taken), 0.1)
    assert core.under_way("words") == {"": 2}
    assert all(core.has(each.token) for each in taken)
    core.step(Ended(taken[0].token, done(taken[0].token)), 0.2)
    assert core.under_way("words") == {"": 1}


def test_a_slot_that_is_kept_free_is_not_filled_while_its_claim_is_under_way():
    core = with_prefetched(*range(10, 40))
    core._more = True
    core.step(Ended(token_of(2), done(token_of(2), took=0.01)), 2.0)
    assert core._kept_free == 1
    # The other slot is freed meanwhile: that one may be filled.
    running = next(iter(core.running))
    assert started(core.step(Ended(running, done(running, took=0.01)), 2.0)) == [10]
    assert core._slots.free == 1


def test_a_job_that_was_lost_before_starts_at_once_in_the_slot_that_was_kept_for_it():
    """It must not wait behind what was prefetched: a kill would charge it another loss."""
    core = with_prefetched(*range(10, 40))
    core._more = True
    core.step(Ended(token_of(2), done(token_of(2), took=0.01)), 2.0)
    actions = core.step(Turned((claim(99, losses=1),)), 2.0)
    assert started(actions) == [99]
    assert all(not waits.losses for waits, _ in core.waiting)


def test_a_slot_that_was_kept_free_in_vain_is_filled_at_once():
    core = with_prefetched(*range(10, 40))
    core._more = True
    core.step(Ended(token_of(2), done(token_of(2), took=0.01)), 2.0)
    assert started(core.step(Turned(), 2.0)) == [10]


def test_a_slot_is_not_kept_free_for_a_store_that_does_not_answer():
    core = with_prefetched(*range(10, 40))
    core._more = True
    core.step(Ended(token_of(2), done(token_of(2), took=0.01)), 2.0)
    assert started(core.step(TurnFailed(), 2.0)) == [10]


# ── Losing a lease ───────────────────────────────────────────────────────────────────────────────


def test_a_running_job_whose_lease_is_lost_is_aborted_and_nothing_is_written_for_it():
    core = running_core(1, 2)
    actions = core.step(Taken(token_of(1)), 1.0)
    assert the(Abort, actions) == Abort(token_of(1), Stop.LOST)
    assert set(core.tokens) == {token_of(2)}
    actions = core.step(Ended(token_of(1), done(token_of(1))), 2.0)
    assert written(the(Turn, actions)) == []
    assert core.unwritten == 0


def test_an_end_that_is_not_yet_written_is_forgotten_with_its_lease():
    core = running_core(1, 2)
    core.step(Ended(token_of(1), done(token_of(1))), 1.0)
    core.step(TurnFailed(), 1.0)
    core.step(Taken(token_of(1)), 1.0)
    assert core.unwritten == 0
    actions = core.step(Woken(), 2.0)
    assert written(the(Turn, actions)) == []


def test_a_job_that_waits_in_our_hands_is_dropped_with_its_lease_and_never_started():
    core = with_prefetched(10, 11, 12)
    core.step(Taken(token_of(10)), 0.1)
    assert started(core.step(Ended(token_of(2), done(token_of(2))), 0.1)) == [11]
    assert token_of(10) not in core.tokens


def test_a_handler_whose_lease_is_lost_is_left_behind_when_it_does_not_stop():
    core = running_core(1)
    core.step(Taken(token_of(1)), 1.0)
    actions = core.step(Woken(), 1.0 + LET_GO_SECONDS)
    assert the(Abort, actions) == Abort(token_of(1), Stop.LOST, leave=True)
    core.step(Ended(token_of(1), Release(token=token_of(1)), freed=False), 6.0)
    assert core.left_behind == {token_of(1)}
    assert core.unwritten == 0


def test_a_lost_lease_is_a_stronger_reason_than_any_other():
    core = running_core(1)
    assert the(Abort, core.step(Woken(), 100.0)).why is Stop.TIMEOUT
    assert the(Abort, core.step(Taken(token_of(1)), 101.0)).why is Stop.LOST
    assert none_of(Abort, core.step(Taken(token_of(1)), 102.0))
    assert none_of(Abort, core.step(Asked(token_of(1)), 103.0))


def test_a_job_that_comes_again_under_a_new_lease_has_lost_the_old_one():
    """This worker was silent for so long that its job was taken back, and got it anew."""
    core = running_core(1, concurrency=2)
    core.step(Woken(look=True), 1.0)
    actions = core.step(Turned((claim(1, lease_no=2),)), 1.0)
    assert started(actions) == [1]
    assert the(Abort, actions) == Abort(token_of(1), Stop.LOST)
    assert core.tokens == [Token(1, 2, 1)]
    actions = core.step(Ended(token_of(1), done(token_of(1))), 2.0)
    assert core.unwritten == 0
    assert core.tokens == [Token(1, 2, 1)]


def test_the_loss_of_a_lease_that_nobody_has_changes_nothing():
    core = running_core(1)
    assert core.step(Taken(token_of(9)), 0.5) == [Rest(pytest.approx(1.0))]


# ── Cancelling ───────────────────────────────────────────────────────────────────────────────────


def test_a_job_that_is_to_stop_is_asked_once_and_never_left_behind():
    core = running_core(1, timeout_of={"t": 10_000.0})
    assert the(Abort, core.step(Asked(token_of(1)), 1.0)) == Abort(token_of(1), Stop.CANCEL)
    for seconds in (1.5, 2.0, 60.0, 600.0, 9_000.0):
        assert none_of(Abort, core.step(Asked(token_of(1)), seconds))


def test_a_cancelled_job_that_does_not_stop_still_has_its_time_limit():
    core = running_core(1)
    core.step(Asked(token_of(1)), 1.0)
    assert the(Abort, core.step(Woken(), 100.0)) == Abort(token_of(1), Stop.TIMEOUT)
    assert the(Abort, core.step(Woken(), 105.0)) == Abort(token_of(1), Stop.TIMEOUT, leave=True)


def test_asking_a_job_to_stop_that_does_not_run_changes_nothing():
    core = with_prefetched(10, 11)
    assert none_of(Abort, core.step(Asked(token_of(10)), 0.1))
    assert none_of(Abort, core.step(Asked(token_of(77)), 0.1))


# ── Time limits ──────────────────────────────────────────────────────────────────────────────────


def test_an_attempt_is_stopped_at_its_time_limit_and_left_behind_if_it_goes_on():
    core = running_core(1)
    assert none_of(Abort, core.step(Woken(), 99.9))
    assert the(Abort, core.step(Woken(), 100.0)) == Abort(token_of(1), Stop.TIMEOUT)
    assert none_of(Abort, core.step(Woken(), 100.0 + LET_GO_SECONDS - 0.1))
    left = the(Abort, core.step(Woken(), 100.0 + LET_GO_SECONDS))
    assert left == Abort(token_of(1), Stop.TIMEOUT, leave=True)
    assert none_of(Abort, core.step(Woken(), 200.0))


def test_a_worker_wakes_for_a_time_limit_and_for_letting_go():
    core = running_core(1, poll_seconds=1_000.0)
    assert the(Rest, core.step(Woken(), 1.0)).seconds == pytest.approx(99.0)
    assert the(Rest, core.step(Woken(), 100.0)).seconds == pytest.approx(LET_GO_SECONDS)


def test_the_deadline_stops_an_attempt_where_it_comes_before_the_time_limit():
    core = new_core(concurrency=1)
    core.step(Woken(look=True), 0.0)
    core.step(Turned((claim(1, deadline_seconds=7.0),)), 0.0)
    assert none_of(Abort, core.step(Woken(), 6.9))
    assert the(Abort, core.step(Woken(), 7.0)) == Abort(token_of(1), Stop.EXPIRED)


def test_a_deadline_after_the_time_limit_does_not_matter():
    core = new_core(concurrency=1)
    core.step(Woken(look=True), 0.0)
    core.step(Turned((claim(1, deadline_seconds=101.0),)), 0.0)
    assert the(Abort, core.step(Woken(), 100.0)).why is Stop.TIMEOUT


def test_a_job_whose_deadline_has_passed_since_the_claim_is_handed_back_unbegun():
    core = new_core(concurrency=1)
    core.step(Woken(look=True), 0.0)
    actions = core.step(Turned((claim(1, deadline_seconds=-1.0),)), 0.0)
    assert started(actions) == []
    assert the(Turn, actions).releases == (Release(token=token_of(1)),)


def holding_one(deadline_seconds):
    """A core of one slot, taken by job 2, with job 3 in its hands, which has a deadline."""
    core = new_core(concurrency=1)
    core.step(Woken(look=True), 0.0)
    core.step(Turned(claims(1)), 0.0)
    core.step(Ended(token_of(1), done(token_of(1), took=0.01)), 0.0)
    assert the(Turn, core.step(Turned(claims(2)), 0.0)).prefetch
    core.step(Turned((claim(3, deadline_seconds=deadline_seconds),)), 0.0)
    return core


def test_the_time_that_a_job_waited_in_our_hands_brings_its_deadline_no_later():
    core = holding_one(50.0)
    core._look_for_lost_at = math.inf
    assert started(core.step(Ended(token_of(2), done(token_of(2))), 30.0)) == [3]
    assert none_of(Abort, core.step(Turned(), 49.9))
    assert the(Abort, core.step(Woken(), 50.0)) == Abort(token_of(3), Stop.EXPIRED)


def test_a_job_whose_deadline_passed_in_our_hands_is_handed_back_unbegun():
    core = holding_one(20.0)
    core._look_for_lost_at = math.inf
    actions = core.step(Ended(token_of(2), done(token_of(2))), 30.0)
    assert started(actions) == []
    assert the(Turn, actions).releases == (Release(token=token_of(3)),)


def test_the_process_of_an_isolated_handler_may_take_a_while_to_come_up():
    core = new_core(concurrency=1)
    core.step(Woken(look=True), 0.0)
    core.step(Turned((claim(1, task="isolated"),)), 0.0)
    assert none_of(Abort, core.step(Woken(), 10.0 + BEGIN_SECONDS - 0.1))
    assert the(Abort, core.step(Woken(), 10.0 + BEGIN_SECONDS)).why is Stop.TIMEOUT


def test_the_time_limit_of_an_isolated_handler_runs_from_when_it_began():
    core = new_core(concurrency=1)
    core.step(Woken(look=True), 0.0)
    core.step(Turned((claim(1, task="isolated"),)), 0.0)
    core.step(Began(token_of(1)), 5.0)
    assert none_of(Abort, core.step(Woken(), 14.9))
    assert the(Abort, core.step(Woken(), 15.0)).why is Stop.TIMEOUT


@pytest.mark.parametrize(("deadline_seconds", "stopped_at", "why"), [
    (65.0, 15.0, Stop.TIMEOUT), (14.0, 14.0, Stop.EXPIRED), (500.0, 15.0, Stop.TIMEOUT),
])  # fmt: skip
def test_an_isolated_handler_that_began_has_its_time_limit_or_its_deadline_whichever_is_first(
    deadline_seconds, stopped_at, why
):
    core = new_core(concurrency=1)
    core.step(Woken(look=True), 0.0)
    core.step(Turned((claim(1, task="isolated", deadline_seconds=deadline_seconds),)), 0.0)
    core.step(Began(token_of(1)), 5.0)
    assert none_of(Abort, core.step(Woken(), stopped_at - 0.1))
    assert the(Abort, core.step(Woken(), stopped_at)).why is why


def test_one_that_began_after_its_end_changes_nothing():
    core = running_core(1)
    core.step(Ended(token_of(1), done(token_of(1))), 1.0)
    core.step(Turned(), 1.0)
    assert core.step(Began(token_of(1)), 1.5) == [Rest(pytest.approx(0.5))]


def test_the_limits_of_jobs_that_have_ended_do_not_pile_up():
    core, now = running_core(1, timeout_of={"t": 10_000.0}), 0.0
    for job_id in range(1, 5_000):
        now += 0.001
        core.step(Ended(token_of(job_id), done(token_of(job_id))), now)
        core.step(Turned(claims(job_id + 1)), now)
    assert len(core._slots._limits) <= 4 + _SPENT_LIMITS + 1


# ── Handlers that go on ──────────────────────────────────────────────────────────────────────────


def test_a_handler_that_was_left_behind_keeps_its_slot_until_it_returns():
    core = running_core(1, concurrency=1)
    settlement = done(token_of(1), outcome=Outcome.FAILED, fault=FAULT)
    turn = the(Turn, core.step(Ended(token_of(1), settlement, freed=False), 5.0))
    assert (written(turn), turn.limit) == ([token_of(1)], 0)
    core.step(Turned(), 5.0)
    assert core.tokens == []
    assert none_of(Turn, core.step(Woken(look=True), 6.0))
    assert the(Turn, core.step(Freed(token_of(1)), 7.0)).limit == 1
    assert core.left_behind == set()


def test_a_return_of_one_that_was_never_left_behind_changes_nothing():
    core = running_core(1)
    assert core.step(Freed(token_of(1)), 0.5) == [Rest(pytest.approx(1.0))]
    assert set(core.running) == {token_of(1)}


def test_a_worker_need_not_wait_for_those_left_behind_to_exit():
    core = running_core(1)
    core.step(Ended(token_of(1), Release(token=token_of(1)), freed=False), 1.0)
    core.step(Turned(), 1.0)
    assert core.step(Signal(), 2.0) == [Exit()]


# ── Stopping ─────────────────────────────────────────────────────────────────────────────────────


def test_an_idle_worker_exits_at_once():
    core = new_core()
    core.step(Woken(look=True), 0.0)
    core.step(Turned(), 0.0)
    assert core.step(Signal(), 0.5) == [Exit()]


def test_what_had_not_begun_is_handed_back_at_once():
    core = with_prefetched(10, 11, 12)
    turn = the(Turn, core.step(Signal(), 0.5))
    assert [release.token.job_id for release in turn.releases] == [10, 11, 12]
    assert all(release.duration_seconds is None for release in turn.releases)
    assert turn.limit == 0
    assert core.waiting == type(core.waiting)()
    assert {token_of(10), token_of(11), token_of(12)} <= set(core.tokens)


def test_what_is_claimed_while_the_signal_comes_is_handed_back_unbegun():
    core = new_core()
    core.step(Woken(look=True), 0.0)
    assert core.step(Signal(), 0.1) == []
    actions = core.step(Turned(claims(1, 2)), 0.2)
    assert started(actions) == []
    assert written(the(Turn, actions)) == [token_of(1), token_of(2)]
    assert core.step(Turned(), 0.3) == [Exit()]


def test_what_runs_may_finish_within_the_grace_period():
    core = running_core(1, poll_seconds=1_000.0)
    actions = core.step(Signal(), 10.0)
    assert actions == [Rest(pytest.approx(30.0))]
    turn = the(Turn, core.step(Ended(token_of(1), done(token_of(1))), 39.0))
    assert (written(turn), turn.limit) == ([token_of(1)], 0)
    assert core.step(Turned(), 39.1) == [Exit()]


def test_what_has_not_finished_in_the_grace_period_is_stopped_and_handed_back():
    core = running_core(1)
    core.step(Signal(), 10.0)
    assert none_of(Abort, core.step(Woken(), 39.9))
    assert the(Abort, core.step(Woken(), 40.0)) == Abort(token_of(1), Stop.SHUTDOWN)
    release = Release(token=token_of(1), duration_seconds=40.0)
    assert the(Turn, core.step(Ended(token_of(1), release), 40.1)).releases == (release,)
    assert core.step(Turned(), 40.2) == [Exit()]


def test_a_second_signal_hurries():
    core = running_core(1)
    core.step(Signal(), 10.0)
    assert the(Abort, core.step(Signal(), 11.0)) == Abort(token_of(1), Stop.SHUTDOWN)
    left = the(Abort, core.step(Woken(), 11.0 + LET_GO_SECONDS))
    assert left == Abort(token_of(1), Stop.SHUTDOWN, leave=True)


def test_a_worker_does_not_exit_before_all_is_written():
    core = running_core(1)
    core.step(Signal(), 1.0)
    core.step(Ended(token_of(1), done(token_of(1))), 2.0)
    for n in range(5):
        actions = core.step(TurnFailed(), 3.0 + 10 * n)
        assert none_of(Exit, actions)
        assert written(the(Turn, core.step(Woken(), 8.0 + 10 * n))) == [token_of(1)]
    assert core.step(Turned(), 100.0) == [Exit()]


def test_a_worker_that_stops_claims_nothing_more():
    core = running_core(1, concurrency=3)
    core.step(Signal(), 1.0)
    assert none_of(Turn, core.step(Woken(look=True), 2.0))
    assert the(Turn, core.step(Ended(token_of(1), done(token_of(1))), 2.0)).limit == 0


def test_a_stop_that_was_asked_for_gives_way_to_the_workers_own_end():
    core = running_core(1)
    core.step(Asked(token_of(1)), 1.0)
    core.step(Signal(), 2.0)
    assert the(Abort, core.step(Signal(), 3.0)) == Abort(token_of(1), Stop.SHUTDOWN)


# ── Resting ──────────────────────────────────────────────────────────────────────────────────────


def rests(core, now, times=5):
    """The rests that follow when nothing at all happens."""
    for _ in range(times):
        rest = the(Rest, core.act(now))
        yield rest.seconds
        now += rest.seconds
        core.hear(Woken(), now)


def test_a_stopping_worker_whose_failed_turn_has_nothing_left_to_write_does_not_spin():
    core = running_core(1, 2)
    core.step(Signal(), 0.0)
    core.step(Ended(token_of(1), done(token_of(1))), 0.0)
    core.step(TurnFailed(), 0.0)
    core.step(Taken(token_of(1)), 0.05)
    assert sum(rests(core, 1.0)) > 0


def test_a_full_worker_whose_failed_turn_has_nothing_left_to_write_does_not_spin():
    core = running_core(1)
    core.step(Ended(token_of(1), done(token_of(1)), freed=False), 0.0)
    core.step(TurnFailed(), 0.0)
    core.step(Taken(token_of(1)), 0.05)
    assert sum(rests(core, 1.0)) > 0


def test_a_worker_that_no_longer_prefetches_after_a_failed_prefetch_does_not_spin():
    core, actions = busy_core(took=0.01)
    assert the(Turn, actions).prefetch
    core.step(TurnFailed(), 0.0)
    core._mean_seconds = 60.0
    assert sum(rests(core, 1.0)) > 0


def test_no_rest_is_longer_than_the_poll_nor_without_end():
    core = running_core(1, poll_seconds=3.0, timeout_of={"t": math.inf})
    assert list(rests(core, 0.5)) == [pytest.approx(3.0)] * 5


# ── Claiming ahead ───────────────────────────────────────────────────────────────────────────────

SLOTS = 16
FEW = SLOTS // 8 + 1
"""As many empty slots as are filled without claiming ahead."""


def starved_core(*, ended=SLOTS, found=SLOTS, took=0.01, **more):
    """A core that filled its slots, as far as it found jobs, and of which so many end at once."""
    core = new_core(concurrency=SLOTS, **more)
    core.step(Woken(look=True), 0.0)
    core.step(Turned(claims(*range(1, found + 1))), 0.0)
    for job_id in range(1, ended + 1):
        core.hear(Ended(token_of(job_id), done(token_of(job_id), took=took)), 0.0)
    return core, core.act(0.0)


def test_where_many_slots_stand_empty_jobs_are_claimed_for_them_and_ahead():
    _, actions = starved_core()
    turn = the(Turn, actions)
    assert (turn.limit, turn.prefetch) == (SLOTS, False)
    assert turn.ahead == pytest.approx(0.2 / 0.01 * SLOTS, abs=1)
    assert len(turn.settlements) == SLOTS


@pytest.mark.parametrize(("ended", "ahead"), [(1, False), (FEW, False), (FEW + 1, True)])
def test_nothing_is_claimed_ahead_where_only_a_few_slots_stand_empty(ended, ahead):
    turn = the(Turn, starved_core(ended=ended)[1])
    assert (turn.limit, turn.prefetch, turn.ahead > 0) == (ended, False, ahead)


def test_nothing_is_claimed_ahead_where_the_last_claim_found_less_than_it_wanted():
    core, actions = starved_core(found=SLOTS - 1, ended=SLOTS - 1)
    assert the(Turn, actions).limit == 0
    actions = core.step(Turned(), 0.0)
    turn = the(Turn, core.step(Woken(look=True), 0.1))
    assert (turn.limit, turn.ahead) == (SLOTS, 0)


@pytest.mark.parametrize("why", [{"took": 0.21}, {"prefetch": False}])
def test_nothing_is_claimed_ahead_that_would_not_be_prefetched(why):
    turn = the(Turn, starved_core(**why)[1])
    assert (turn.limit, turn.ahead) == (SLOTS, 0)


def test_no_more_is_claimed_ahead_than_may_be_prefetched():
    turn = the(Turn, starved_core(took=1e-9)[1])
    assert turn.ahead == min(MOST_PREFETCHED, MOST_ROWS)


def test_what_was_claimed_ahead_waits_and_what_was_claimed_for_slots_begins():
    core, actions = starved_core()
    turn = the(Turn, actions)
    ids = list(range(100, 100 + turn.limit + turn.ahead))
    actions = core.step(Turned(claims(*ids)), 0.0)
    assert started(actions) == ids[: turn.limit]
    assert [waits.token.job_id for waits, _ in core.waiting] == ids[turn.limit :]
    assert set(core.tokens) == {token_of(job_id) for job_id in ids}
    assert started(core.step(Ended(token_of(100), done(token_of(100))), 0.01)) == [ids[turn.limit]]


def test_what_is_claimed_ahead_waits_behind_what_waited_before():
    core, actions = starved_core()
    turn = the(Turn, actions)
    first = range(100, 100 + turn.limit + turn.ahead)
    core.step(Turned(claims(*first)), 0.0)
    later = LOOK_FOR_LOST_SECONDS + 0.1  # the slots are kept free for what may not be prefetched
    for job_id in first[:SLOTS]:
        core.hear(Ended(token_of(job_id), done(token_of(job_id), took=0.005)), later)
    again = the(Turn, core.act(later))
    room = core._depth() - turn.ahead
    assert (again.limit, again.prefetch, again.ahead) == (SLOTS, False, room)
    ids = list(range(1_000, 1_000 + SLOTS + room))
    actions = core.step(Turned(claims(*ids)), later)
    assert started(actions) == ids[:SLOTS]
    behind = [*first[SLOTS:], *ids[SLOTS:]]
    assert [waits.token.job_id for waits, _ in core.waiting] == behind


def test_a_claim_that_found_less_than_was_wanted_ahead_has_found_all_there_is():
    core, actions = starved_core()
    turn = the(Turn, actions)
    ids = range(100, 100 + turn.limit + turn.ahead - 1)
    assert none_of(Turn, core.step(Turned(claims(*ids)), 0.0))
    assert not core._more


def test_what_was_claimed_ahead_when_the_signal_came_is_handed_back_unbegun():
    core, actions = starved_core()
    turn = the(Turn, actions)
    core.step(Signal(), 0.0)
    ids = range(100, 100 + turn.limit + turn.ahead)
    actions = core.step(Turned(claims(*ids)), 0.0)
    assert started(actions) == []
    assert written(the(Turn, actions)) == [token_of(job_id) for job_id in ids]


# ── Claimed, and perhaps not written ─────────────────────────────────────────────────────────────


def half_turned(*came, now=1.0):
    """A core of two slots that runs job 2; the end of job 1 was perhaps not written."""
    core = running_core(1, 2)
    assert written(the(Turn, core.step(Ended(token_of(1), done(token_of(1))), now))) == [
        token_of(1)
    ]
    return core, core.step(Turned(came, written=False), now)


def test_claims_begin_although_the_ends_of_their_turn_were_perhaps_not_written():
    core, actions = half_turned(*claims(3))
    assert started(actions) == [3]
    assert set(core.tokens) == {token_of(1), token_of(2), token_of(3)}
    assert (core.unwritten, core.idle) == (1, False)


def test_ends_that_were_perhaps_not_written_go_with_another_turn_after_a_pause():
    core, actions = half_turned(*claims(3))
    assert the(Rest, actions).seconds == pytest.approx(FIRST_PAUSE_SECONDS)
    assert none_of(Turn, core.step(Woken(look=True), 1.0 + FIRST_PAUSE_SECONDS / 2))
    again = the(Turn, core.step(Woken(), 1.0 + FIRST_PAUSE_SECONDS))
    (settlement,) = again.settlements
    assert settlement.token == token_of(1)
    assert settlement.age_seconds == pytest.approx(FIRST_PAUSE_SECONDS)
    core.step(Turned(), 1.2)
    assert set(core.tokens) == {token_of(2), token_of(3)}
    assert core.unwritten == 0


def test_a_store_that_does_not_write_is_asked_ever_more_rarely_until_it_does():
    core, _ = half_turned()
    now, pauses = 1.0, []
    for _ in range(8):
        pauses.append(core._try_again_at - now)
        now = core._try_again_at
        assert token_of(1) in the(Turn, core.step(Woken(), now)).tokens
        core.step(Turned(written=False), now)
    expected = [min(FIRST_PAUSE_SECONDS * 2**n, LONGEST_PAUSE_SECONDS) for n in range(8)]
    assert pauses == [pytest.approx(seconds) for seconds in expected]
    core.step(Woken(), core._try_again_at)
    core.step(Turned(), now)
    assert (core.unwritten, core._pause) == (0, FIRST_PAUSE_SECONDS)


def test_what_waits_begins_while_the_store_is_let_be():
    core, actions = starved_core()
    turn = the(Turn, actions)
    ids = range(100, 100 + turn.limit + turn.ahead)
    core.step(Turned(claims(*ids), written=False), 0.0)
    assert core.unwritten == SLOTS
    actions = core.step(Ended(token_of(100), done(token_of(100), took=0.01)), 0.01)
    assert started(actions) == [ids[turn.limit]]
    assert none_of(Turn, actions)
    again = the(Turn, core.step(Woken(), FIRST_PAUSE_SECONDS + 0.01))
    assert len(again.settlements) == SLOTS + 1


def test_a_job_that_comes_back_with_those_claims_drops_its_old_end():
    """It was written after all, and is to be tried again at once: its old lease is no more."""
    core = running_core(1)
    core.step(Ended(token_of(1), retried(token_of(1), 0.0)), 1.0)
    actions = core.step(Turned((claim(1, lease_no=2),), written=False), 1.0)
    assert started(actions) == [1]
    assert none_of(Abort, actions)
    assert core.unwritten == 0
    assert core.tokens == [Token(1, 2, 1)]
    later = 1.0 + FIRST_PAUSE_SECONDS
    assert none_of(Turn, core.step(Woken(), later))
    token = Token(1, 2, 1)
    assert written(the(Turn, core.step(Ended(token, done(token)), later))) == [token]


def test_a_job_that_was_handed_back_and_comes_back_with_those_claims_is_not_handed_back_again():
    core = new_core(concurrency=2)
    core.step(Woken(look=True), 0.0)
    actions = core.step(Turned((claim(1, deadline_seconds=-1.0), claim(2))), 0.0)
    assert the(Turn, actions).releases == (Release(token=token_of(1)),)
    actions = core.step(Turned((claim(1, lease_no=2),), written=False), 0.0)
    assert started(actions) == [1]
    assert core.unwritten == 0
    assert set(core.tokens) == {Token(1, 2, 1), token_of(2)}


def test_an_end_that_is_lost_while_it_waits_to_be_written_again_is_forgotten():
    core, _ = half_turned(*claims(3))
    core.step(Taken(token_of(1)), 1.05)
    assert core.unwritten == 0
    assert set(core.tokens) == {token_of(2), token_of(3)}


def test_a_worker_that_is_to_end_writes_first_what_was_perhaps_not_written():
    core, _ = half_turned()
    core.step(Signal(), 1.0)
    core.step(Ended(token_of(2), done(token_of(2))), 1.01)
    turn = the(Turn, core.step(Woken(), 1.0 + FIRST_PAUSE_SECONDS))
    assert (written(turn), turn.limit) == ([token_of(1), token_of(2)], 0)
    assert core.step(Turned(), 1.2) == [Exit()]
