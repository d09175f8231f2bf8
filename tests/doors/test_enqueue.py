"""`seawall enqueue`: asking for a job by hand."""

import json

import pytest

from seawall.cli.enqueue import read_arguments
from seawall.store import open_store

URL = "sqlite:///jobs.db"


@pytest.mark.parametrize(
    ("words", "args", "kwargs"),
    [
        ([], [], {}),
        (['{"a": 1}'], [], {"a": 1}),
        (['[1, "x"]'], [1, "x"], {}),
        (["a=1", "b=x", 'c="2"', "d=[1]", "e=a=b", "f="], [],
         {"a": 1, "b": "x", "c": "2", "d": [1], "e": "a=b", "f": ""}),
        (['{"a": 1}', "b=null"], [], {"a": 1, "b": None}),
        (["[1]", "b=2"], [1], {"b": 2}),
    ],
)  # fmt: skip
def test_arguments_are_read_as_they_are_typed(words, args, kwargs):
    assert read_arguments(words) == (args, kwargs)


def test_a_job_is_asked_for_with_all_that_can_be_said(seawall, app):
    words = (
        "--key", "k", "--priority", "5", "--run-after", "10m", "--deadline", "2030-01-01",
        "--owner", "ann", "--tag", "eu", "--tag", "x", "--queue", "other",
    )  # fmt: skip
    assert seawall("enqueue", "add", '{"a": 1}', "b=3", *words, "--app", app) == "1\n"
    with open_store(URL) as store:
        job = store.jobs([1])[1]
        assert store.arguments(1) == '{"a":1,"b":3}'
    assert (job.key, job.priority, job.owner, job.queue) == ("k", 5, "ann", "other")
    assert set(job.tags) == {"eu", "x"}
    assert 590 < (job.due_at - job.created_at).total_seconds() <= 600
    assert job.deadline_at.isoformat() == "2030-01-01T00:00:00+00:00"

    assert seawall("enqueue", "add", '{"a": 1}', "b=3", "--key", "k", "--app", app) == "1\n"
    assert "has this key already" in seawall.err
    assert "other arguments" in seawall("enqueue", "add", "a=9", "--key=k", "--app", app, expect=2)
    told = json.loads(seawall("enqueue", "add", "a=1", "--json", "--app", app))
    assert told == {"id": 2, "created": True}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nothing",), "no task 'nothing'; there are: add, fails, skips, slow"),
        (("add",), "add: missing a required argument: 'a'; it takes (a: int, b: int = 2) -> int"),
        (("add", "a=x"), "add: a: Input should be a valid integer"),
        (("add", "1"), "found '1', expected NAME=VALUE, or all as JSON"),
        (("add", "a=1", "[2]"), "found '[2]', expected NAME=VALUE"),
        (("add", "a=1", "--run-after", "soon"), "--run-after: found 'soon', expected a span"),
        (("add", "a=1", "--deadline", "1x"), "--deadline: found '1x', expected a span"),
        (("add", "a=1", "--queue", ""), "add: queue: found ''"),
        (("add", "a=1", "--tag", "x", "--tag", "x"), "expected each only once"),
    ],
)
def test_what_a_task_does_not_take_is_one_line(seawall, app, words, said):
    line = seawall("enqueue", *words, "--app", app, expect=2)
    assert line.startswith(f"seawall: {said}") or said in line
    assert line.count("\n") == 1


def test_a_result_can_be_waited_for(seawall, start, app):
    start("worker", "--app", app)
    assert seawall("enqueue", "add", "a=40", "--wait", "--app", app) == "1\n42\n"
    told = json.loads(seawall("enqueue", "add", "a=1", "--wait", "--json", "--app", app))
    assert told == {"id": 2, "created": True, "state": "succeeded", "result": 3}
    assert seawall("enqueue", "fails", "--wait-seconds", "30", "--app", app, expect=1) == "3\n"
    assert seawall.err == "seawall: job 3 (fails) failed: INVALID_INPUT: cannot do it\n"
    told = json.loads(seawall("enqueue", "skips", "--wait", "--json", "--app", app, expect=1))
    assert told == {"id": 4, "created": True, "state": "skipped"}


def test_waiting_ends_when_it_takes_too_long(seawall, app):
    words = ("enqueue", "add", "a=1", "--wait-seconds", "0.1", "--app", app)
    assert seawall(*words, expect=1) == "1\n"
    assert "is queued still: `seawall why 1` says why" in seawall.err
