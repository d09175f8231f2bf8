"""Time as an argument."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from seawall.clock import ManualClock, SystemClock


def test_a_manual_clock_stands_still_until_it_is_told_to_move():
    clock = ManualClock(datetime(2026, 5, 1, tzinfo=UTC))
    assert (clock.now(), clock.monotonic()) == (datetime(2026, 5, 1, tzinfo=UTC), 0.0)
    assert (clock.now(), clock.monotonic()) == (datetime(2026, 5, 1, tzinfo=UTC), 0.0)
    clock.advance(90)
    assert (clock.now(), clock.monotonic()) == (datetime(2026, 5, 1, 0, 1, 30, tzinfo=UTC), 90.0)


def test_sleeping_on_a_manual_clock_moves_it():
    clock = ManualClock()
    clock.sleep(86_400)
    assert clock.now() == datetime(2026, 1, 2, tzinfo=UTC)
    assert clock.monotonic() == 86_400


def test_a_manual_clock_tells_utc_wherever_it_was_set():
    clock = ManualClock(datetime(2026, 5, 1, 2, tzinfo=timezone(timedelta(hours=2))))
    assert clock.now().tzinfo is UTC
    assert clock.now() == datetime(2026, 5, 1, tzinfo=UTC)


def test_a_manual_clock_needs_a_time_zone():
    with pytest.raises(ValueError, match="tzinfo=UTC"):
        ManualClock(datetime(2026, 5, 1))  # noqa: DTZ001 - the mistake under test


@pytest.mark.parametrize("seconds", [-1, -0.001])
def test_a_manual_clock_cannot_go_back(seconds):
    clock = ManualClock()
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(seconds)
    assert clock.monotonic() == 0


def test_the_system_clock_tells_utc_and_its_seconds_never_go_back():
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    before = clock.monotonic()
    clock.sleep(0)
    assert clock.monotonic() >= before
