"""What is to be thought of a group of dead letters: a pure judgment."""

from datetime import UTC, datetime, timedelta

import pytest

from seawall.store.letters import NEW_FOR, LetterKind, kind_of

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("age", "came_back", "kind"),
    [
        (timedelta(0), 0, LetterKind.NEW),
        (NEW_FOR - MOMENT, 0, LetterKind.NEW),
        (NEW_FOR, 0, LetterKind.RECURRING),
        (timedelta(days=400), 0, LetterKind.RECURRING),
        (timedelta(0), 1, LetterKind.CAME_BACK),
        (timedelta(days=400), 7, LetterKind.CAME_BACK),
        (-MOMENT, 0, LetterKind.NEW),  # a clock that was ahead
    ],
)
def test_a_group_is_new_recurring_or_came_back(age, came_back, kind):
    assert kind_of(first_at=NOW - age, came_back=came_back, now=NOW) is kind
