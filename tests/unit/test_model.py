"""The ledger's values refuse what cannot be."""

from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta

import pytest

from seawall.model import (
    LARGEST_TEXT,
    Attempt,
    Fault,
    FaultCode,
    Job,
    Lane,
    Lease,
    NewJob,
    Outcome,
    Settlement,
    Token,
)
from seawall.states import FINISHED, Move, State, step

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NAIVE = NOON.replace(tzinfo=None)
LEASE = Lease(7, 1, "worker-1", NOON)
FAULT = Fault(FaultCode.TIMEOUT)
SETTLING = {
    Outcome.SUCCEEDED: Move.SUCCEED,
    Outcome.SKIPPED: Move.SKIP,
    Outcome.RETRIED: Move.RETRY,
    Outcome.SNOOZED: Move.SNOOZE,
    Outcome.FAILED: Move.FAIL,
    Outcome.CANCELLED: Move.STOP,
}


def job(state=State.QUEUED, **fields):
    """A job that is as its state demands, but for these fields."""
    right = {
        "lease": LEASE if state is State.RUNNING else None,
        "finished_at": NOON if state in FINISHED else None,
    }
    values = {"id": 7, "task": "t", "due_at": NOON, "created_at": NOON, **right, **fields}
    return Job(state=state, **values)


def attempt(**fields):
    values = {"job_id": 7, "seq": 1, "worker": "w", "started_at": NOON, "finished_at": NOON}
    return Attempt(**{**values, "outcome": Outcome.SUCCEEDED, **fields})


def settlement(outcome, **fields):
    """A settlement with what its outcome demands, but for these fields."""
    right = {
        "fault": FAULT if outcome in {Outcome.RETRIED, Outcome.FAILED} else None,
        "delay_seconds": 5.0 if outcome in {Outcome.RETRIED, Outcome.SNOOZED} else None,
    }
    return Settlement(token=Token(7, 1, 1), outcome=outcome, **{**right, **fields})


@pytest.mark.parametrize("state", State)
def test_a_job_has_a_lease_exactly_while_it_runs(state):
    assert job(state).state is state
    wrong = None if state is State.RUNNING else LEASE
    with pytest.raises(ValueError, match="lease exactly while it runs"):
        job(state, lease=wrong)


@pytest.mark.parametrize("state", State)
def test_finished_at_is_set_exactly_at_the_end(state):
    wrong = None if state in FINISHED else NOON
    with pytest.raises(ValueError, match="finished_at is set exactly at the end"):
        job(state, finished_at=wrong)


@pytest.mark.parametrize("name", ["stage", "cycle", "tries", "losses", "seq", "lease_no"])
def test_no_count_of_a_job_is_negative(name):
    with pytest.raises(ValueError, match="never negative"):
        job(**{name: -1})


@pytest.mark.parametrize(
    "name", ["due_at", "created_at", "started_at", "last_attempt_at", "finished_at", "deadline_at"]
)
def test_every_time_of_a_job_has_a_zone(name):
    state = State.FAILED if name == "finished_at" else State.QUEUED
    with pytest.raises(ValueError, match=f"^{name} needs a time zone"):
        job(state, **{name: NAIVE})
    assert getattr(job(state, **{name: NOON}), name) == NOON


def test_a_lease_has_a_zone_and_a_number_from_one_on():
    with pytest.raises(ValueError, match="until needs a time zone"):
        Lease(7, 1, "w", NAIVE)
    with pytest.raises(ValueError, match="lease_no starts at 1"):
        Lease(7, 0, "w", NOON)


@pytest.mark.parametrize("outcome", SETTLING)
def test_a_settlement_leaves_its_job_where_the_table_says(outcome):
    assert settlement(outcome).state is step(State.RUNNING, SETTLING[outcome])


@pytest.mark.parametrize("outcome", sorted(set(Outcome) - set(SETTLING)))
def test_what_the_store_says_itself_is_no_settlement(outcome):
    with pytest.raises(ValueError, match=f"{outcome} does not settle"):
        settlement(outcome)


@pytest.mark.parametrize("outcome", SETTLING)
def test_a_fault_belongs_to_retried_and_failed_only(outcome):
    wrong = None if outcome in {Outcome.RETRIED, Outcome.FAILED} else FAULT
    with pytest.raises(ValueError, match="a Fault belongs to retried and failed"):
        settlement(outcome, fault=wrong)


@pytest.mark.parametrize("outcome", SETTLING)
def test_a_delay_belongs_to_retried_and_snoozed_only(outcome):
    wrong = None if outcome in {Outcome.RETRIED, Outcome.SNOOZED} else 0.0
    with pytest.raises(ValueError, match="a delay belongs to retried and snoozed"):
        settlement(outcome, delay_seconds=wrong)


@pytest.mark.parametrize("outcome", SETTLING)
def test_only_what_went_well_or_comes_again_leaves_children(outcome):
    child = NewJob(lane=Lane("t"), arguments="[]")
    if outcome in {Outcome.SUCCEEDED, Outcome.SKIPPED, Outcome.SNOOZED}:
        assert settlement(outcome, children=(child,)).children == (child,)
    else:
        with pytest.raises(ValueError, match=f"an attempt that was {outcome} leaves none"):
            settlement(outcome, children=(child,))


@pytest.mark.parametrize(
    "tags", ["abc", ["a"], ("a", "a"), ("",), ("a\n",), tuple(f"t{n}" for n in range(21))]
)
def test_tags_are_a_few_printable_words_each_once(tags):
    with pytest.raises(ValueError, match=r"^tags: found"):
        NewJob(lane=Lane("t"), arguments="[]", tags=tags)


def test_an_attempt_is_numbered_from_one():
    with pytest.raises(ValueError, match="numbered from 1"):
        attempt(seq=0)


@pytest.mark.parametrize("name", ["started_at", "finished_at"])
def test_every_time_of_an_attempt_has_a_zone(name):
    with pytest.raises(ValueError, match=f"^{name} needs a time zone"):
        attempt(**{name: NAIVE})


def test_an_attempt_ends_after_it_began_and_knows_how_long_it_took():
    assert attempt(finished_at=NOON + timedelta(seconds=3)).duration == timedelta(seconds=3)
    assert attempt().duration == timedelta(0)
    with pytest.raises(ValueError, match="cannot end before it began"):
        attempt(finished_at=NOON - timedelta(microseconds=1))


def test_what_is_kept_cannot_be_changed_and_a_changed_copy_is_checked_again():
    kept = job()
    with pytest.raises(FrozenInstanceError):
        kept.state = State.RUNNING
    with pytest.raises(ValueError, match="lease exactly while it runs"):
        replace(kept, state=State.RUNNING)


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_a_delay_is_finite_and_never_negative(wrong):
    with pytest.raises(ValueError, match="delay_seconds: found"):
        settlement(Outcome.RETRIED, delay_seconds=wrong)


@pytest.mark.parametrize("name", ["duration_seconds", "age_seconds"])
def test_a_span_of_a_settlement_is_finite_and_never_negative(name):
    with pytest.raises(ValueError, match=f"^{name}: found -1"):
        settlement(Outcome.SUCCEEDED, **{name: -1})


def test_text_that_no_store_can_keep_is_refused_with_what_to_do():
    with pytest.raises(ValueError, match="output: found a NUL character"):
        settlement(Outcome.SUCCEEDED, output="a\0b")
    with pytest.raises(ValueError, match="keep large content elsewhere"):
        settlement(Outcome.SUCCEEDED, output="x" * (LARGEST_TEXT + 1))


@pytest.mark.parametrize("wrong", ["", "  ", "a\nb", "a\0b", "\ud800", "x" * 201, None, 7])
@pytest.mark.parametrize("name", ["task", "queue"])
def test_the_names_of_a_lane_are_short_and_printable(name, wrong):
    with pytest.raises(ValueError, match=f"^{name}: found"):
        Lane(**{"task": "t", name: wrong})


@pytest.mark.parametrize("fields", [{"stage": -1}, {"stage": 40_000}, {"priority": 2**31}])
def test_the_numbers_of_a_lane_have_bounds(fields):
    (name,) = fields
    with pytest.raises(ValueError, match=f"^{name}: found"):
        Lane(task="t", **fields)


def test_an_advance_goes_on_under_the_same_lease():
    assert Token(7, 3, 5).next() == Token(7, 3, 6)
