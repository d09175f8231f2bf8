"""Events become log records, whole or not at all."""

import logging

import pytest

from seawall.faults import Fault, FaultCode
from seawall.telemetry import (
    EVENTS,
    LOGGER,
    ConfigMissing,
    GaveUp,
    RetryScheduled,
    emit,
    fault_fields,
)

FAULT = Fault(FaultCode.RATE_LIMITED, "slow down", status=429, request_id="req-1")
COMMON = {"task": "ask", "attempt": 1, "policy": "default@1", "duration_ms": 12}


def events(**fields):
    """One of each kind."""
    common = {**fault_fields(FAULT), **COMMON, **fields}
    return [
        RetryScheduled(**common, delay_ms=250, counts=True),
        GaveUp(**common, reason="attempts_used_up"),
        ConfigMissing(**common),
    ]


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


def test_there_is_an_example_of_every_event():
    assert [type(event) for event in events()] == list(EVENTS)


@pytest.mark.parametrize("event", events(), ids=lambda event: event.name)
def test_an_event_becomes_one_record_with_its_level_name_and_fields(event, records):
    emit(event)
    (record,) = records
    assert (record.name, record.levelno) == ("seawall", event.level)
    assert record.seawall == {"event": event.name, **event.fields()}
    assert record.getMessage().startswith(f"{event.name} task=ask attempt=1 ")
    for name in event.fields():
        assert f" {name}=" in record.getMessage()


def test_the_fields_are_in_the_order_of_their_declaration():
    assert list(events()[0].fields()) == [
        "task", "attempt", "fault_code", "status", "fingerprint", "message", "ambiguous",
        "upstream_request_id", "policy", "duration_ms", "delay_ms", "counts",
    ]  # fmt: skip


def test_fields_without_a_value_are_left_out(records):
    emit(events(max_attempts=None, status=None)[0])
    (record,) = records
    assert {"max_attempts", "status"}.isdisjoint(record.seawall)
    assert "max_attempts" not in record.getMessage()
    assert "None" not in record.getMessage()


def test_values_that_are_false_or_zero_are_said(records):
    emit(events(duration_ms=0)[0])
    assert records[0].seawall["duration_ms"] == 0
    assert "ambiguous=False" in records[0].getMessage()
    assert "duration_ms=0" in records[0].getMessage()


@pytest.mark.parametrize(("value", "shown"), [
    ("plain", "plain"), ("two words", "'two words'"), ("", "''"),
    ("two\nlines", r"'two\nlines'"), ("a\tb", r"'a\tb'"), ("\x1b[31m", r"'\x1b[31m'"),
])  # fmt: skip
def test_a_value_never_ends_its_field_or_its_line(value, shown, records):
    emit(events(task=value)[0])
    (record,) = records
    assert f"task={shown} attempt=1" in record.getMessage()
    assert record.getMessage().isprintable()
    assert record.seawall["task"] == value


class Loud:
    """A value that must not be looked at."""

    def __str__(self):
        raise AssertionError("formatted though nobody listens")

    __repr__ = __format__ = __str__


def test_nothing_is_formatted_when_nobody_listens_at_that_level(records):
    LOGGER.setLevel(logging.ERROR)
    emit(events(task=Loud())[0])
    assert records == []
    LOGGER.setLevel(logging.INFO)
    with pytest.raises(AssertionError, match="nobody listens"):
        emit(events(task=Loud())[0])


def test_an_event_goes_to_the_logger_that_is_given(records):
    other = logging.Logger("elsewhere", logging.INFO)  # noqa: LOG001 - one that nobody shares
    found = []
    other.addFilter(found.append)
    emit(events()[0], other)
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
    assert all(event.meaning and event.level >= logging.INFO for event in EVENTS)
