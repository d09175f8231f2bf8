"""Pictures and words of pages, as functions."""

import re
from types import SimpleNamespace

import pytest

from seawall.web.pages.happenings import in_words
from seawall.web.pages.pictures import Bit, Chart, Line, Scale, spread, timeline
from seawall.web.pages.stages import stage_names


def test_a_chart_tells_the_last_and_the_highest_of_each_line():
    lines = [
        Line("p50", "good", [0.1, None, 0.3, 0.2], unit=" s"),
        Line("calls", "sea", [5, 40, 30, 12]),
        Line("failed", "bad", [None] * 4),
    ]
    told = Chart("Calls", [0, 1, 2, 3], lines).told
    assert told == "Calls: p50 0.2 s, 0.3 s at most; calls 12, 40 at most; failed none"


@pytest.mark.parametrize("values", [[], [None], [0], [3]])
def test_a_chart_of_next_to_nothing_is_drawn(values):
    made = Chart("Calls", list(range(len(values))), [Line("calls", "sea", values, fill=True)])
    assert made.picture.count("<svg") == 2
    assert 'class="picture narrow"' in made.picture
    assert made.told.startswith("Calls: calls")


def widths(picture):
    return [float(each) for each in re.findall(r'viewBox="0 0 ([\d.]+)', picture)]


def test_a_life_is_drawn_narrower_for_a_phone_and_no_wider_than_for_a_desk():
    short = [
        Bit("wait", 1, "rest", "1 s", "waited 1 s"),
        Bit("attempt", 1, "good", "1", "attempt 1"),
    ]
    desk, phone = widths(timeline("Its life", short, [""]))
    assert phone < desk / 2
    desk, phone = widths(timeline("Its life", short * 30, [""]))
    assert phone == desk


def test_a_life_has_room_for_the_names_of_stages():
    bits = [Bit("attempt", 1, "good", "1", "attempt 1", 1)]
    for picture in timeline("Its life", bits, ["fetch", "a-very-long-name-of-a-stage"]).split(
        "<div"
    ):
        assert ">fetch<" in picture
        assert "a-very-long-name-of-a-stage<" not in picture


def test_what_took_next_to_no_time_has_its_place_on_the_scale():
    scale = Scale.of([0.0002, 3.0])
    assert scale == Scale(0.0001, 10.0)
    assert 0 < scale.place(0.0002) < scale.place(0.003) < scale.place(3.0) < 1
    assert 'class="mark"' in spread("took", scale, 0.0002, 0.001, 0.1, 3.0)


TASKS = {
    "reports": SimpleNamespace(stages=[SimpleNamespace(name=each) for each in ("fetch", "ask")]),
    "add": SimpleNamespace(stages=[SimpleNamespace(name="add")]),
}


@pytest.mark.parametrize(
    ("of", "stages", "said"),
    [
        (("reports",), (0,), ["fetch"]),
        (("reports",), (0, 1), ["fetch", "ask"]),
        (("reports",), (0, 7), ["fetch", "number 8"]),
        (("add",), (0,), []),
        (("add", "reports"), (0,), ["fetch"]),
        (("elsewhere",), (0,), []),
        (("elsewhere",), (1,), ["number 2"]),
        ((), (), []),
    ],
)
def test_stages_go_by_their_names(of, stages, said):
    assert stage_names(TASKS, of, stages) == said


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        ({"queue": "mail", "priority": 0}, "in the queue mail"),
        ({"queue": "mail", "priority": 3}, "in the queue mail, priority 3"),
        ({"stage": 1}, "stage ask"),
        ({"stage": 7}, "stage number 8"),
        (
            {
                "stage": 0,
                "duration_ms": 1500,
                "fault_code": "TIMEOUT",
                "message": "late",
                "delay_ms": 250,
            },
            "stage fetch, took 1.5 s, TIMEOUT: late, again after 250 ms",
        ),
        ({"fault_code": "EXPIRED"}, "EXPIRED"),
        (
            {"fault_code": "UNAVAILABLE", "message": "away", "counted": False},
            "UNAVAILABLE: away, did not count",
        ),
        ({"cycle": 2}, "cycle 2"),
        ({}, ""),
    ],
)
def test_what_happened_is_told_in_words(meta, said):
    assert in_words(meta, ["fetch", "ask"]) == said
