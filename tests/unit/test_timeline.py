"""A job's event log, from what its history keeps."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from seawall.faults import Fault, FaultCode
from seawall.model import Attempt, Job, Lease, Outcome
from seawall.states import State
from seawall.timeline import _ENDS, EVENTS, events

START = datetime(2026, 1, 1, tzinfo=UTC)
TIMEOUT, EXPIRED = Fault(FaultCode.TIMEOUT), Fault(FaultCode.EXPIRED)
JOB = Job(id=1, task="t", state=State.QUEUED, due_at=START, created_at=START)


def attempt(seq, outcome, cycle=0, fault=None, delay=None):
    at = START + timedelta(seconds=seq)
    return Attempt(
        job_id=1, seq=seq, cycle=cycle, worker="w", started_at=at, finished_at=at, outcome=outcome,
        fault=fault, delay_seconds=delay,
    )  # fmt: skip


def told(job, *attempts):
    return [each.event for each in events(job, attempts, None)]


def ended(state, fault=None, cycle=0):
    return replace(JOB, state=state, finished_at=START, last_fault=fault, cycle=cycle)


def test_every_way_an_attempt_ends_has_a_word():
    assert set(_ENDS) == set(Outcome)
    assert set(_ENDS.values()) <= set(EVENTS)


def test_a_deadline_that_passed_after_an_attempt():
    tried = attempt(1, Outcome.RETRIED, fault=TIMEOUT, delay=5.0)
    assert told(ended(State.FAILED, EXPIRED), tried) == ["queued", "running", "retry", "expired"]


def test_an_attempt_that_itself_found_the_deadline_passed_is_told_once():
    late = attempt(1, Outcome.FAILED, fault=EXPIRED)
    assert told(ended(State.FAILED, EXPIRED), late) == ["queued", "running", "expired"]


def test_workers_lost_once_too_often():
    lost = attempt(1, Outcome.LOST, fault=Fault(FaultCode.WORKER_LOST))
    again = replace(JOB, cycle=1)
    assert told(ended(State.FAILED, lost.fault), lost) == ["queued", "running", "lost"]
    assert told(again, lost) == ["queued", "running", "lost", "redriven"]


def test_redrives_that_led_to_no_attempt():
    failed = attempt(1, Outcome.FAILED, fault=TIMEOUT)
    done = attempt(2, Outcome.SUCCEEDED, cycle=2)
    assert told(ended(State.SUCCEEDED, cycle=2), failed, done) == [
        "queued", "running", "failed", "redriven", "expired", "redriven", "running", "complete",
    ]  # fmt: skip


def test_a_cancel_while_it_waited_or_ran():
    waited = attempt(1, Outcome.RETRIED, fault=TIMEOUT, delay=5.0)
    stopped = attempt(1, Outcome.CANCELLED)
    assert told(ended(State.CANCELLED), waited)[-2:] == ["retry", "cancelled"]
    assert told(ended(State.CANCELLED), stopped)[-2:] == ["running", "cancelled"]


def test_one_that_runs_is_told_by_the_number_of_its_attempt():
    running = replace(
        JOB, state=State.RUNNING, seq=1, lease=Lease(1, 1, "w", START), last_attempt_at=START
    )
    *_, last = events(running, [attempt(1, Outcome.RETRIED, fault=TIMEOUT, delay=0.0)], None)
    assert (last.event, last.attempt) == ("running", 2)
