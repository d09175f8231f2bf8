"""Schedules: cron lines in time zones, intervals, and what becomes of missed fires."""

import copy
import math
import pickle
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import assume, given
from hypothesis import strategies as st

from seawall.decisions import schedule as module
from seawall.decisions.schedule import GRACE_SECONDS, MISSED, MOST_CAUGHT_UP, Due, Schedule
from seawall.errors import ConfigurationError

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"
SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=s) for s in (1, 60, 3_600, 86_400))
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)

CHANGES = {
    BERLIN: ("2026-03-29T01:00Z", "2026-10-25T01:00Z"),
    NEW_YORK: ("2026-03-08T07:00Z", "2026-11-01T06:00Z"),
    LORD_HOWE: ("2026-04-04T15:00Z", "2026-10-03T15:30Z"),
    "America/Santiago": ("2026-04-05T03:00Z", "2026-09-06T04:00Z"),  # at midnight
    "America/Havana": ("2026-03-08T05:00Z", "2026-11-01T05:00Z"),  # into midnight
    "Pacific/Chatham": ("2026-04-04T14:00Z", "2026-09-26T14:00Z"),
    "Asia/Kolkata": ("2026-06-01T00:00Z",),  # does not change
    "UTC": ("2026-06-01T00:00Z",),
}
"""When the clocks of 2026 are moved."""


def at(text):
    return datetime.fromisoformat(text)


def fires(schedule, start, count):
    found = [schedule.next_after(start)]
    while len(found) < count:
        found.append(schedule.next_after(found[-1]))
    return found


def fires_between(schedule, start, end):
    """Every fire later than the start, up to the end."""
    found, moment = [], start
    while (moment := schedule.next_after(moment)) <= end:
        found.append(moment)
    return found


def shown(cron, zone, start, count):
    """The next fires as the clock on the wall shows them, with its offset."""
    schedule = Schedule(cron=cron, timezone=zone)
    local = [fire.astimezone(ZoneInfo(zone)) for fire in fires(schedule, at(start), count)]
    return [f"{time:%d %H:%M} {time:%z}" for time in local]


minutes = st.sampled_from(["*", "*/5", "*/20", "0", "30", "45", "0,15,59", "10-20", "20/7"])
hours = st.sampled_from(["*", "*/2", "0", "1", "2", "3", "0-3", "2,3", "23"])
dates = st.sampled_from(
    ["* * *"] * 6 + ["* * SUN", "29 * *", "L * *", "1 4,11 *", "* * 7L", "5 * 1"]
)
crons = st.builds("{} {} {}".format, minutes, hours, dates)
zones = st.sampled_from(sorted(CHANGES))
missed = st.sampled_from(MISSED)
intervals = st.floats(1, 400_000) | st.integers(1, 400_000) | st.sampled_from([1, 1.5, 7, 86_400])
schedules = st.builds(
    lambda cron, zone, missed: Schedule(cron=cron, timezone=zone, missed=missed),
    crons,
    zones,
    missed,
) | st.builds(lambda every, missed: Schedule(every_seconds=every, missed=missed), intervals, missed)
moments = st.datetimes(datetime(1990, 1, 1), datetime(2120, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@st.composite
def near_changes(draw):
    """A zone, and a moment about the time at which its clocks are moved."""
    zone = draw(zones)
    change = at(draw(st.sampled_from(CHANGES[zone])))
    off = st.floats(-2 * 86_400, 2 * 86_400) | st.integers(-120, 120).map(lambda m: 60 * m)
    return zone, change + timedelta(seconds=draw(off))


# --- moved clocks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "cron", "start", "expected"),
    [
        (BERLIN, "30 2 * * *", "2026-03-28T12:00Z", ["29 03:00 +0200", "30 02:30 +0200"]),
        (BERLIN, "0,30 2 * * *", "2026-03-28T12:00Z", ["29 03:00 +0200", "30 02:00 +0200"]),
        (BERLIN, "0 2,3 * * *", "2026-03-28T12:00Z", ["29 03:00 +0200", "30 02:00 +0200"]),
        (BERLIN, "0 30 2 * * *", "2026-03-28T12:00Z", ["29 03:00 +0200", "30 02:30 +0200"]),
        (NEW_YORK, "30 2 * * *", "2026-03-07T12:00Z", ["08 03:00 -0400", "09 02:30 -0400"]),
        (LORD_HOWE, "15 2 * * *", "2026-10-03T00:00Z", ["04 02:30 +1100", "05 02:15 +1100"]),
        (LORD_HOWE, "45 2 * * *", "2026-10-03T00:00Z", ["04 02:45 +1100", "05 02:45 +1100"]),
        (
            "America/Santiago",
            "0 0 * * *",
            "2026-09-05T12:00Z",
            ["06 01:00 -0300", "07 00:00 -0300"],
        ),
    ],
)
def test_a_fixed_time_that_is_skipped_in_spring_fires_once_right_after(zone, cron, start, expected):
    assert shown(cron, zone, start, len(expected)) == expected


@pytest.mark.parametrize(
    ("zone", "cron", "start", "expected"),
    [
        (BERLIN, "30 2 * * *", "2026-10-24T12:00Z", ["25 02:30 +0200", "26 02:30 +0100"]),
        (BERLIN, "0 30 2 * * *", "2026-10-24T12:00Z", ["25 02:30 +0200", "26 02:30 +0100"]),
        (BERLIN, "30 2,3 * * *", "2026-10-24T12:00Z", ["25 02:30 +0200", "25 03:30 +0100"]),
        (NEW_YORK, "30 1 * * *", "2026-10-31T12:00Z", ["01 01:30 -0400", "02 01:30 -0500"]),
        (LORD_HOWE, "45 1 * * *", "2026-04-04T00:00Z", ["05 01:45 +1100", "06 01:45 +1030"]),
        (LORD_HOWE, "15 1 * * *", "2026-04-04T00:00Z", ["05 01:15 +1100", "06 01:15 +1030"]),
        (
            "America/Santiago",
            "30 23 * * *",
            "2026-04-04T12:00Z",
            ["04 23:30 -0300", "05 23:30 -0400"],
        ),
    ],
)
def test_a_fixed_time_that_comes_twice_in_autumn_fires_the_first_time_only(
    zone, cron, start, expected
):
    assert shown(cron, zone, start, len(expected)) == expected


def test_a_look_during_the_second_hour_does_not_find_a_fire_of_the_first():
    second_half_past_two = at("2026-10-25T01:30Z")
    schedule = Schedule(cron="45 2 * * *", timezone=BERLIN)
    assert schedule.next_after(second_half_past_two) == at("2026-10-26T01:45Z")
    it = CronSim("45 2 * * *", second_half_past_two.astimezone(ZoneInfo(BERLIN)))
    assert next(it).astimezone(UTC) < second_half_past_two  # why cronsim is not asked


@pytest.mark.parametrize(
    ("zone", "cron", "start", "expected"),
    [
        (BERLIN, "*/30 * * * *", "2026-03-29T00:29Z", ["29 01:30 +0100", "29 03:00 +0200"]),
        (BERLIN, "0 * * * *", "2026-03-28T23:59Z", ["29 01:00 +0100", "29 03:00 +0200"]),
        (BERLIN, "*/30 2 * * *", "2026-03-28T12:00Z", ["30 02:00 +0200", "30 02:30 +0200"]),
        (NEW_YORK, "0 */2 * * *", "2026-03-08T04:59Z", ["08 00:00 -0500", "08 04:00 -0400"]),
        (LORD_HOWE, "45 * * * *", "2026-10-03T15:00Z", ["04 01:45 +1030", "04 02:45 +1100"]),
        (LORD_HOWE, "0 * * * *", "2026-10-03T14:00Z", ["04 01:00 +1030", "04 03:00 +1100"]),
        (LORD_HOWE, "* 3 * * *", "2026-10-03T14:00Z", ["04 03:00 +1100", "04 03:01 +1100"]),
        (
            "America/Santiago",
            "*/30 * * * *",
            "2026-09-06T03:29Z",
            ["05 23:30 -0400", "06 01:00 -0300"],
        ),
    ],
)
def test_a_star_leaves_out_what_is_skipped_in_spring(zone, cron, start, expected):
    assert shown(cron, zone, start, len(expected)) == expected


@pytest.mark.parametrize(
    ("zone", "cron", "start", "expected"),
    [
        (BERLIN, "30 * * * *", "2026-10-25T00:00Z", ["25 02:30 +0200", "25 02:30 +0100", "25 03:30 +0100"]),
        (BERLIN, "*/30 2 * * *", "2026-10-25T00:29Z", ["25 02:30 +0200", "25 02:00 +0100", "25 02:30 +0100", "26 02:00 +0100"]),
        (NEW_YORK, "0 * * * *", "2026-11-01T04:59Z", ["01 01:00 -0400", "01 01:00 -0500", "01 02:00 -0500"]),
        (LORD_HOWE, "45 * * * *", "2026-04-04T14:00Z", ["05 01:45 +1100", "05 01:45 +1030", "05 02:45 +1030"]),
        (LORD_HOWE, "0 * * * *", "2026-04-04T13:59Z", ["05 01:00 +1100", "05 02:00 +1030", "05 03:00 +1030"]),
        (LORD_HOWE, "* 2 * * *", "2026-04-04T14:00Z", ["05 02:00 +1030", "05 02:01 +1030"]),
        (BERLIN, "*/30 2 * 10 7L", "2026-10-25T01:29Z", ["25 02:30 +0100", "31 02:00 +0200"]),
        (BERLIN, "*/30 2 */30 10 SUN", "2026-10-25T00:10Z", ["31 02:00 +0200", "31 02:30 +0200"]),
        (BERLIN, "59 59 * * * *", "2026-10-25T00:30Z", ["25 02:59 +0200", "25 02:59 +0100", "25 03:59 +0100"]),
    ],
)  # fmt: skip
def test_a_star_fires_both_times_in_autumn(zone, cron, start, expected):
    assert shown(cron, zone, start, len(expected)) == expected


@given(crons, near_changes())
def test_a_star_fires_whenever_the_clock_on_the_wall_shows_its_time(cron, near):
    zone, start = near
    schedule = Schedule(cron=cron, timezone=zone)
    assume(not schedule._fixed)
    wanted = CronSim(cron, datetime(2026, 1, 1))  # noqa: DTZ001 - parses; its sets are the oracle
    first = start.replace(second=0, microsecond=0) + MINUTE
    by_the_clock = [
        moment
        for moment in (first + n * MINUTE for n in range(2 * 1_440))
        if (local := moment.astimezone(ZoneInfo(zone))).minute in wanted.minutes
        and local.hour in wanted.hours
        and local.month in wanted.months
        and wanted.match_day(local.date())
    ]
    end = first + (2 * 1_440 - 1) * MINUTE
    assert fires_between(schedule, start, end) == by_the_clock


@given(crons, near_changes())
def test_a_fixed_time_fires_as_cronsim_says_when_it_is_not_asked_in_the_second_hour(cron, near):
    zone, start = near
    schedule = Schedule(cron=cron, timezone=zone)
    local = start.astimezone(ZoneInfo(zone))
    assume(schedule._fixed and not local.fold)
    it = CronSim(cron, local)
    assert fires(schedule, start, 5) == [next(it).astimezone(UTC) for _ in range(5)]


@given(crons, st.sampled_from(["", "0 ", "7,50 "]), near_changes(), st.integers(1, 200))
def test_looking_back_finds_what_looking_forth_finds(cron, seconds, near, most):
    zone, start = near
    schedule = Schedule(cron=seconds + cron, timezone=zone)
    for since, until in ((start, start + DAY), (start - 3 * HOUR, start)):
        forth = fires_between(schedule, since, until)
        assert list(schedule._latest(since + SECOND / 1e6, until, most)) == forth[-most:]


def test_a_look_during_the_second_hour_finds_what_the_first_has_left():
    schedule = Schedule(cron="30 * * * *", timezone=BERLIN, missed="all")
    look = schedule.due(at("2026-10-25T00:30Z"), at("2026-10-25T01:10Z"))
    assert look == Due((at("2026-10-25T00:30Z"),), at("2026-10-25T01:30Z"))


# --- next_after -----------------------------------------------------------------------------------


@given(schedules, moments)
def test_fires_are_strictly_later_and_in_utc(schedule, moment):
    found = [moment, *fires(schedule, moment, 5)]
    assert all(early < late for early, late in pairwise(found))
    assert all(fire.tzinfo is UTC for fire in found)


@given(schedules, moments, st.timedeltas(timedelta(0), 400 * DAY))
def test_the_next_fire_is_the_same_from_anywhere_before_it(schedule, moment, ahead):
    fire = schedule.next_after(moment)
    between = min(moment + ahead, fire - SECOND / 1e6)
    assert schedule.next_after(between) == fire


@given(st.integers(1_000_000, 10**12), moments)
def test_an_interval_counts_from_the_epoch_and_never_drifts(microseconds, moment):
    schedule = Schedule(every_seconds=microseconds / 1e6)
    every = timedelta(microseconds=microseconds)
    fire = schedule.next_after(moment)
    assert (fire - datetime(1970, 1, 1, tzinfo=UTC)) % every == timedelta(0)
    assert schedule.next_after(fire) - fire == every


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("15 10 * * *", "2026-01-01T10:15Z"),
        ("30 15 10 * * *", "2026-01-01T10:15:30Z"),
        ("*/20 * * * * *", "2026-01-01T00:00:20Z"),
        ("0 0 L * *", "2026-01-31T00:00Z"),
        ("0 0 * * fri#2", "2026-01-09T00:00Z"),
        ("0 0 13 * 5", "2026-01-02T00:00Z"),
        ("0 0 29 2 *", "2028-02-29T00:00Z"),
        ("0 0 29 2 */7", "2032-02-29T00:00Z"),
        ("@yearly", "2027-01-01T00:00Z"),
        ("@monthly", "2026-02-01T00:00Z"),
        ("@weekly", "2026-01-04T00:00Z"),
        (" @Daily ", "2026-01-02T00:00Z"),
        ("@hourly", "2026-01-01T01:00Z"),
    ],
)
def test_a_cron_line_fires_at_its_time(cron, expected):
    assert Schedule(cron=cron).next_after(NEW_YEAR) == at(expected)


def test_a_moment_of_any_zone_is_taken_and_one_of_none_is_refused():
    schedule = Schedule(cron="0 12 * * *")
    assert schedule.next_after(at("2026-01-01T12:30+01:00")) == at("2026-01-01T12:00Z")
    naive = datetime(2026, 1, 1)  # noqa: DTZ001
    with pytest.raises(ValueError, match=r"^moment needs a time zone"):
        schedule.next_after(naive)
    with pytest.raises(ValueError, match=r"^planned needs a time zone"):
        schedule.due(naive, NEW_YEAR)


# --- due ------------------------------------------------------------------------------------------


def hourly(missed):
    return Schedule(cron="@hourly", missed=missed)


@pytest.mark.parametrize("missed", MISSED)
def test_a_fire_that_is_due_is_made_whatever_becomes_of_missed_ones(missed):
    look = hourly(missed).due(at("2026-01-01T03:00Z"), at("2026-01-01T03:00:05Z"))
    assert look == Due((at("2026-01-01T03:00Z"),), at("2026-01-01T04:00Z"))


@pytest.mark.parametrize("missed", MISSED)
def test_nothing_is_due_before_its_time(missed):
    planned = at("2026-01-01T03:00Z")
    assert hourly(missed).due(planned, planned - SECOND / 1e6) == Due((), planned)


@pytest.mark.parametrize(
    ("missed", "now", "hours"),
    [
        ("skip", "2026-01-01T05:00:59Z", [5]),
        ("skip", "2026-01-01T05:01:00Z", [5]),
        ("skip", "2026-01-01T05:01:01Z", []),
        ("once", "2026-01-01T05:00:59Z", [5]),
        ("once", "2026-01-01T05:59:59Z", [5]),
        ("all", "2026-01-01T05:00:59Z", [3, 4, 5]),
        ("all", "2026-01-01T05:59:59Z", [3, 4, 5]),
    ],
)
def test_what_becomes_of_missed_fires_is_chosen(missed, now, hours):
    look = hourly(missed).due(at("2026-01-01T03:00Z"), at(now))
    assert look == Due(tuple(NEW_YEAR + h * HOUR for h in hours), at("2026-01-01T06:00Z"))


def test_skip_makes_every_fire_that_is_only_a_little_late():
    schedule = Schedule(every_seconds=1, missed="skip")
    look = schedule.due(NEW_YEAR, NEW_YEAR + 5 * SECOND)
    assert look.fires == tuple(NEW_YEAR + n * SECOND for n in range(6))
    assert len(schedule.due(NEW_YEAR, NEW_YEAR + HOUR).fires) == GRACE_SECONDS + 1


@pytest.mark.parametrize(
    ("given", "last"),
    [
        ({"every_seconds": 1}, "2056-01-01T00:00Z"),
        ({"cron": "* * * * * *"}, "2056-01-01T00:00Z"),
        ({"cron": "* * * * *", "timezone": BERLIN}, "2056-01-01T00:00Z"),
        ({"cron": "* * * 1 7 *"}, "2055-07-01T23:59:59Z"),
    ],
)
def test_after_decades_of_silence_the_latest_hundred_are_made_without_walking_there(
    given, last, monkeypatch
):
    steps = 0

    def counted(self):
        nonlocal steps
        steps += 1
        return step(self)

    step = CronSim.__next__
    monkeypatch.setattr(CronSim, "__next__", counted)
    schedule = Schedule(**given, missed="all")
    look = schedule.due(NEW_YEAR, at("2056-01-01T00:00Z"))
    assert len(look.fires) == MOST_CAUGHT_UP
    assert look.fires[-1] == at(last)
    assert list(look.fires) == fires(schedule, look.fires[0] - SECOND, MOST_CAUGHT_UP)
    assert steps < 3 * MOST_CAUGHT_UP


@pytest.mark.parametrize(
    ("planned", "expected"),
    [
        ("2026-01-01T04:00Z", "2026-01-01T04:00Z"),  # its next fire
        ("2026-01-01T05:00Z", "2026-01-01T04:00Z"),
        ("2062-01-01T00:00Z", "2026-01-01T04:00Z"),
    ],
)
def test_a_schedule_that_a_wrong_clock_set_far_ahead_is_put_right(planned, expected):
    assert hourly("all").due(at(planned), at("2026-01-01T03:30Z")) == Due((), at(expected))


def test_a_fire_that_a_faster_clock_has_made_is_not_made_again():
    """Another worker made the one of 4:00 and moved on; here it is not quite 4:00 yet."""
    planned = at("2026-01-01T05:00Z")
    assert hourly("once").due(planned, at("2026-01-01T03:59:10Z")) == Due((), planned)


def test_a_plan_that_is_no_fire_makes_none_of_its_own():
    """As where the rules of a zone have changed since it was planned."""
    look = hourly("all").due(at("2026-01-01T02:30Z"), at("2026-01-01T03:10Z"))
    assert look == Due((at("2026-01-01T03:00Z"),), at("2026-01-01T04:00Z"))
    look = hourly("all").due(at("2026-01-01T02:30Z"), at("2026-01-01T02:40Z"))
    assert look == Due((), at("2026-01-01T03:00Z"))


@given(schedules, moments, moments)
def test_a_schedule_always_stands_after_now(schedule, planned, now):
    look = schedule.due(planned, now)
    assert look.next_at > now
    assert len(look.fires) <= MOST_CAUGHT_UP
    assert list(look.fires) == sorted(set(look.fires))
    assert all(planned <= fire <= now for fire in look.fires)
    assert all(schedule.next_after(fire - SECOND / 1e6) == fire for fire in look.fires)


@given(
    schedules,
    near_changes(),
    st.lists(st.tuples(st.floats(0, 200_000), st.floats(0, GRACE_SECONDS)), max_size=10),
)
def test_nothing_fires_twice_however_often_one_looks(schedule, near, looks):
    """By several clocks, too, that differ by up to a minute."""
    _, moment = near
    planned, made = schedule.next_after(moment), []
    for passed, behind in looks:
        moment += timedelta(seconds=passed)
        look = schedule.due(planned, moment - timedelta(seconds=behind))
        made += look.fires
        planned = look.next_at
    assert made == sorted(set(made))


@given(
    crons,
    near_changes(),
    st.floats(60, 4_000),
    st.booleans(),
    st.lists(st.floats(0, 60 * MOST_CAUGHT_UP), max_size=12),
)
def test_all_makes_every_fire_once_if_looks_are_at_most_a_hundred_apart(
    cron, near, every, by_cron, looks
):
    zone, start = near
    schedule = (
        Schedule(cron=cron, timezone=zone, missed="all")
        if by_cron
        else Schedule(every_seconds=every, missed="all")
    )
    moment, planned, made = start, schedule.next_after(start), []
    for passed in looks:
        moment += timedelta(seconds=passed)
        found, planned = schedule.due(planned, moment)
        made += found
    assert made == fires_between(schedule, start, moment)


# --- what can be said -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"cron": None}, "cron"),
        ({"every_seconds": 60}, "every_seconds"),
        ({"cron": 5}, "cron"),
        ({"cron": ""}, "cron"),
        ({"cron": "0 3 * *"}, "cron"),
        ({"cron": "0 0 3 * * * *"}, "cron"),
        ({"cron": "0 25 * * *"}, "cron"),
        ({"cron": "0 3 32 2 *"}, "cron"),
        ({"cron": "0 3 30 13 *"}, "cron"),
        ({"cron": "*/0 * * * *"}, "cron"),
        ({"cron": "0" * 5_000 + " 3 * * *"}, "cron"),
        ({"cron": "@reboot"}, "cron"),
        ({"timezone": "Europe/Atlantis"}, "timezone"),
        ({"timezone": "Europe"}, "timezone"),
        ({"timezone": ""}, "timezone"),
        ({"timezone": "../../etc/passwd"}, "timezone"),
        ({"timezone": "\0"}, "timezone"),
        ({"timezone": None}, "timezone"),
        ({"cron": None, "every_seconds": 0.999}, "every_seconds"),
        ({"cron": None, "every_seconds": -60}, "every_seconds"),
        ({"cron": None, "every_seconds": 1e9}, "every_seconds"),
        ({"cron": None, "every_seconds": math.nan}, "every_seconds"),
        ({"cron": None, "every_seconds": "60"}, "every_seconds"),
        ({"cron": None, "every_seconds": True}, "every_seconds"),
        ({"cron": None, "every_seconds": 60, "timezone": BERLIN}, "timezone"),
        ({"missed": "none"}, "missed"),
        ({"missed": ["all"]}, "missed"),
        ({"overlap": None}, "overlap"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(wrong, named):
    with pytest.raises(ConfigurationError, match=f"^{named}: found .*, expected .*$") as caught:
        Schedule(**{"cron": "0 3 * * *", **wrong})
    assert len(str(caught.value)) < 300


def test_the_words_say_which_field_is_wrong():
    with pytest.raises(ConfigurationError, match=r"bad hour$"):
        Schedule(cron="0 25 * * *")
    with pytest.raises(ConfigurationError, match=r"bad month$"):
        Schedule(cron="0 3 30 13 *")


@pytest.mark.parametrize(
    ("cron", "zone"),
    [
        ("0 0 30 2 *", "UTC"),
        ("0 0 31 4,6 *", "UTC"),
        ("0 0 0 31 2 *", "UTC"),
        ("0 0 */31 * 1#5", "UTC"),  # the 1st that is a fifth Monday
        ("*/5 2 * 3 7L", BERLIN),  # the very hour that is skipped, every year
        ("* 2 * 3 SUN#2", NEW_YORK),  # since 2007
    ],
)
def test_a_line_that_never_fires_is_refused(cron, zone):
    with pytest.raises(ConfigurationError, match=r"^cron: found .* never such a time$"):
        Schedule(cron=cron, timezone=zone)


def test_a_line_that_is_impossible_on_one_clock_may_be_possible_on_another():
    assert Schedule(cron="*/5 2 * 3 7L", timezone=NEW_YORK).next_after(NEW_YEAR)
    assert Schedule(cron="2 2 * 3 7L", timezone=BERLIN).next_after(NEW_YEAR) == at(
        "2026-03-29T01:00Z"
    )


@pytest.mark.parametrize(
    ("schedule", "spec", "words"),
    [
        (Schedule(cron="0 3 * * *", timezone=BERLIN), "cron 0 3 * * * Europe/Berlin", "at 03:00 every day in Europe/Berlin"),
        (Schedule(cron="@hourly"), "cron 0 * * * * UTC", "at the start of every hour in UTC"),
        (Schedule(cron=" 0  9 * *   mon-fri"), "cron 0 9 * * MON-FRI UTC", "at 09:00 on Monday through Friday in UTC"),
        (Schedule(cron="*/15 * * * * *"), "cron */15 * * * * * UTC", "every 15th second of every minute in UTC"),
        (Schedule(every_seconds=300), "every 300 s", "every 5 min"),
        (Schedule(every_seconds=1.5), "every 1.5 s", "every 1.5 s"),
        (Schedule(every_seconds=10 / 3), "every 3.333333 s", "every 3.33 s"),
    ],
)  # fmt: skip
def test_a_schedule_says_when_it_fires(schedule, spec, words):
    assert (schedule.spec, schedule.explain()) == (spec, words)


def test_equal_schedules_have_equal_specs():
    daily = Schedule(cron="@daily")
    assert daily == Schedule(cron="0  0 * * *")
    assert hash(daily) == hash(Schedule(cron="0 0 * * *"))
    assert Schedule(cron="0 0 * * mon") == Schedule(cron="0 0 * * MON")
    assert Schedule(every_seconds=60) == Schedule(every_seconds=60.0)
    assert daily.spec != Schedule(cron="@daily", timezone=BERLIN).spec
    assert daily.spec == Schedule(cron="@daily", missed="all", overlap="allow").spec


@given(schedules)
def test_a_spec_is_the_whole_of_when_and_one_line(schedule):
    twin = Schedule(
        cron=schedule.cron, every_seconds=schedule.every_seconds, timezone=schedule.timezone
    )
    assert twin.spec == schedule.spec
    assert twin.next_after(NEW_YEAR) == schedule.next_after(NEW_YEAR)
    for text in (schedule.spec, schedule.explain()):
        assert text == " ".join(text.split())


@given(st.text("0123456789*/-,#LW MONSUNJAN@", max_size=30) | st.text(max_size=30))
def test_any_text_is_either_refused_in_one_line_or_fires(text):
    try:
        schedule = Schedule(cron=text)
    except ConfigurationError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either outcome is right
    else:
        assert schedule.next_after(NEW_YEAR) > NEW_YEAR
        assert schedule.explain()


@given(
    st.lists(
        st.sampled_from(["*", "*/2", "1", "1-5", "1/2", "1,3", "1-7/2", "0", "6,7-9", "L", "LW", "2#3", "5L", "SUN", "JAN-MAR", "7"]),
        min_size=5,
        max_size=6,
    )
)  # fmt: skip
def test_whatever_fires_can_be_explained(fields):
    try:
        schedule = Schedule(cron=" ".join(fields))
    except ConfigurationError:
        return
    assert schedule.explain().endswith(" in UTC")


def test_a_schedule_survives_copying_and_pickling():
    schedule = Schedule(cron="30 2 * * *", timezone=BERLIN, missed="all")
    for twin in (copy.deepcopy(schedule), pickle.loads(pickle.dumps(schedule))):  # noqa: S301
        assert twin == schedule
        assert twin.next_after(NEW_YEAR) == schedule.next_after(NEW_YEAR)


def test_utc_needs_no_zones_on_the_system(monkeypatch):
    def missing(name):
        raise LookupError(name)

    monkeypatch.setattr(module, "ZoneInfo", missing)
    assert Schedule(cron="@daily").next_after(NEW_YEAR) == NEW_YEAR + DAY
    with pytest.raises(ConfigurationError, match="needs the package tzdata"):
        Schedule(cron="@daily", timezone=BERLIN)
