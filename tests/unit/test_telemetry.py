"""Events become log records, whole or not at all."""

import logging

import pytest

from seawall.faults import Fault, FaultCode
from seawall.states import State
from seawall.telemetry import (
    EVENTS,
    LOGGER,
    AttemptEvent,
    DeadLettersWait,
    JobEvent,
    emit,
    fault_fields,
)

FAULT = Fault(FaultCode.RATE_LIMITED, "slow down", status=429, request_id="req-1")
COMMON = {"task": "ask", "attempt": 1, "policy": "default@1", "duration_ms": 12}


OF_A_JOB = {"job": 7, "task": "ask", "stage": 0, "state": State.QUEUED, "attempt": 1}
REQUEST = {
    "method": "GET",
    "route": "/api/jobs",
    "status": 200,
    "duration_ms": 3,
    "request_id": "r1",
}
MORE = {
    "webhooks_not_delivered": {"worker": "w", "advice": "x"},
    "retry_scheduled": {"delay_ms": 250, "counts": True},
    "gave_up": {"reason": "attempts_used_up"},
    "job_skipped": {"reason": "nothing to do"},
    "job_snoozed": {"delay_ms": 1_000},
    "job_handed_over": {"reason": "exhausted", "delay_ms": 1_000},
    "thread_left_behind": {"reason": "timeout"},
    "loop_blocked": {"worker": "w", "task": "ask", "job": 7, "seconds": 1.5, "where": "a.py:3 in f"},
    "worker_started": {"worker": "w", "queues": "all", "tasks": "ask", "concurrency": 10},
    "worker_stopping": {"worker": "w", "running": 3, "grace_seconds": 30.0},
    "worker_stopped": {"worker": "w"},
    "store_away": {"worker": "w", "unwritten": 3, "message": "no answer"},
    "store_back": {"worker": "w", "seconds": 2.5},
    "not_written": {"worker": "w", "jobs": 3},
    "dead_letters_wait": {"letters": 3, "newest": ("job 3 (ask, stage 0): TIMEOUT: slow",)},
    "dead_letters_new": {"new": 10, "letters": 3, "newest": ()},
    "reclaimed": {
        "job": 7, "task": "ask", "stage": 0, "state": State.QUEUED, "worker": "w", "losses": 1, "delay_ms": 0,
    },
    "expired": {"jobs": 3, "first": 7},
    "clock_put_right": {"due_times": 1, "leases": 2, "holds": 3},
    "pruned": {"state": State.SUCCEEDED, "jobs": 3},
    "schedule_fired": {"schedule": "s", "task": "ask", "due_at": "2026-01-01T00:00:00+00:00", "job": 7},
    "nobody_serves": {"queue": "q", "task": "ask", "waiting_seconds": 12.0, "advice": "start a worker"},
    "process_ended": {"process": 1, "delay_ms": 500, "exit_code": 1},
    "upstream_held": {"upstream": "api", "seconds": 5.0, "reason": "its calls fail"},
    "upstream_needs_you": {
        "upstream": "api", "seconds": 600.0, "reason": "its allowance is used up", "advice": "raise it",
    },
    "upstream_released": {"upstream": "api"},
    "run_stopped": {
        "run": 3, "pipeline": "p", "run_name": "r", "status": "aborted", "reason": "too many failed",
    },
    "run_finished": {
        "run": 3, "pipeline": "p", "run_name": "r", "status": "completed",
        "succeeded": 7, "skipped": 0, "failed": 1, "cancelled": 0,
    },
    "upkeep_failed": {"chore": "prune", "message": "broke"},
    "tracing_on": {"endpoint": "http://collector:4318"},
    "tracing_off": {"reason": "OpenTelemetry is not installed"},
    "hook_failed": {"job": 7, "hook": "sentry", "message": "broke"},
    "server_started": {"host": "127.0.0.1", "port": 8080, "auth": "tokens"},
    "server_stopping": {"grace_seconds": 30.0},
    "request_served": REQUEST,
    "request_changed": REQUEST,
    "request_refused": REQUEST,
    "request_broke": {**REQUEST, "message": "broke", "where": "a.py:3 in f"},
}  # fmt: skip


def example(kind, **fields):
    """An event of that kind, with what its kind has, but for these fields."""
    common = {}
    if issubclass(kind, AttemptEvent):
        common = {**fault_fields(FAULT), **COMMON}
    elif issubclass(kind, JobEvent):
        common = {**OF_A_JOB, "duration_ms": 12}
    return kind(**{**common, **MORE.get(kind.name, {}), **fields})


def event_named(name, **fields):
    (kind,) = [kind for kind in EVENTS if kind.name == name]
    return example(kind, **fields)


def retry(**fields):
    return event_named("retry_scheduled", **fields)


@pytest.fixture
def records():
    """Every record of the `seawall` logger, at every level."""
    found = []
    handler = logging.Handler()
    handler.emit = found.append
    level = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.DEBUG)
    yield found
    LOGGER.removeHandler(handler)
    LOGGER.setLevel(level)


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.name)
def test_an_event_becomes_one_record_with_its_level_name_and_fields(kind, records):
    event = example(kind)
    emit(event)
    (record,) = records
    assert (record.name, record.levelno) == ("seawall", event.level)
    assert record.seawall == {"event": event.name, **event.fields()}
    words = record.getMessage()
    assert words.startswith(f"{event.name} ")
    assert words.isprintable()
    for name in event.fields():
        assert f" {name}=" in words


def test_the_fields_are_in_the_order_of_their_declaration():
    assert list(retry().fields()) == [
        "task", "attempt", "fault_code", "status", "fingerprint", "message", "ambiguous",
        "upstream_request_id", "policy", "duration_ms", "delay_ms", "counts",
    ]  # fmt: skip


def test_fields_without_a_value_are_left_out(records):
    emit(retry(max_attempts=None, status=None))
    (record,) = records
    assert {"max_attempts", "status"}.isdisjoint(record.seawall)
    assert "max_attempts" not in record.getMessage()
    assert "None" not in record.getMessage()


def test_values_that_are_false_or_zero_are_said(records):
    emit(retry(duration_ms=0))
    assert records[0].seawall["duration_ms"] == 0
    assert "ambiguous=False" in records[0].getMessage()
    assert "duration_ms=0" in records[0].getMessage()


@pytest.mark.parametrize(("value", "shown"), [
    ("plain", "plain"), ("two words", "'two words'"), ("", "''"),
    ("two\nlines", r"'two\nlines'"), ("a\tb", r"'a\tb'"), ("\x1b[31m", r"'\x1b[31m'"),
])  # fmt: skip
def test_a_value_never_ends_its_field_or_its_line(value, shown, records):
    emit(retry(task=value))
    (record,) = records
    assert f"task={shown} attempt=1" in record.getMessage()
    assert record.getMessage().isprintable()
    assert record.seawall["task"] == value


def test_several_values_are_said_one_after_the_other(records):
    emit(DeadLettersWait(letters=2, newest=("job 2: slow", "job 1: it's gone")))
    (record,) = records
    assert record.getMessage().endswith(' newest="job 2: slow; job 1: it\'s gone"')
    assert record.seawall["newest"] == ("job 2: slow", "job 1: it's gone")


class Loud:
    """A value that must not be looked at."""

    def __str__(self):
        raise AssertionError("formatted though nobody listens")

    __repr__ = __format__ = __str__


def test_nothing_is_formatted_when_nobody_listens_at_that_level(records):
    LOGGER.setLevel(logging.ERROR)
    emit(retry(task=Loud()))
    assert records == []
    LOGGER.setLevel(logging.INFO)
    with pytest.raises(AssertionError, match="nobody listens"):
        emit(retry(task=Loud()))


def test_an_event_goes_to_the_logger_that_is_given(records):
    other = logging.Logger("elsewhere", logging.INFO)  # noqa: LOG001 - one that nobody shares
    found = []
    other.addFilter(found.append)
    emit(retry(), other)
    assert [record.name for record in found] == ["elsewhere"]
    assert records == []


def test_seawall_says_nothing_to_a_program_that_has_not_set_up_logging():
    assert any(isinstance(handler, logging.NullHandler) for handler in LOGGER.handlers)


def test_a_faults_fields_are_fields_of_every_event_about_an_attempt():
    assert fault_fields(FAULT) == {
        "fault_code": FaultCode.RATE_LIMITED,
        "status": 429,
        "fingerprint": FAULT.fingerprint,
        "message": "slow down",
        "ambiguous": False,
        "upstream_request_id": "req-1",
    }


def test_names_are_unique_and_every_event_has_a_meaning():
    assert len({event.name for event in EVENTS}) == len(EVENTS)
    assert all(event.meaning.endswith(".") for event in EVENTS)


LEVELS = {
    logging.DEBUG: {"job_succeeded", "job_advanced", "job_snoozed", "pruned", "request_served"},
    logging.ERROR: {
        "config_missing",
        "not_written",
        "upkeep_failed",
        "hook_failed",
        "upstream_needs_you",
        "request_broke",
    },
}


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.name)
def test_what_happens_by_the_thousand_is_quiet_and_what_needs_people_is_loud(kind):
    assert kind.level in {logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR}
    for level, names in LEVELS.items():
        assert (kind.level == level) == (kind.name in names)
