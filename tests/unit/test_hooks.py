"""Hooks hear of every fault and can do no harm."""

import logging
from datetime import timedelta

import pytest

from seawall import (
    FaultCode,
    FaultReport,
    Policy,
    Rule,
    Seawall,
    Skip,
    Snooze,
    State,
    current_job,
)
from seawall.current import LARGEST_CAPTURE
from seawall.store import Wanted
from seawall.telemetry import LOGGER
from seawall.testing import in_memory

SECRET = "hunter2-Zq9"


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Seawall(policies=[Policy(name="twice", max_attempts=2, rules=(Rule(on="all"),))])


@pytest.fixture
def world(app):
    with in_memory(app) as world:
        yield world


@pytest.fixture
def heard(app):
    found = []
    app.on_fault(found.append)
    return found


@pytest.fixture
def records():
    found = []
    handler = logging.Handler()
    handler.emit = found.append
    LOGGER.addHandler(handler)
    yield found
    LOGGER.removeHandler(handler)


def failing(error):
    def task():
        raise error

    return task


def test_a_hook_hears_of_every_fault_and_which_is_the_last(app, world, heard):
    error = TimeoutError("slow")
    task = app.task(name="t", policy="twice")(failing(error))
    job = task.using(owner="ann", request_id="req-1").enqueue()
    world.drain()
    assert [(report.attempt, report.final) for report in heard] == [(1, False), (2, True)]
    assert all(isinstance(report, FaultReport) for report in heard)
    for report in heard:
        assert (report.job_id, report.task) == (job.id, "t")
        assert (report.owner, report.request_id) == ("ann", "req-1")
        assert report.fault.code is FaultCode.TIMEOUT
        assert report.error is error


@pytest.mark.parametrize("end", [Skip("no"), Snooze(1)])
def test_a_hook_does_not_hear_of_ends_that_are_no_faults(app, world, heard, end):
    steps = iter([end])

    @app.task
    def t():
        for step in steps:
            raise step

    t.enqueue()
    world.drain()
    assert heard == []


def test_the_decorator_leaves_the_function_as_it_is(app):
    def hook(report):
        return 5

    assert app.on_fault(hook) is hook


@pytest.mark.parametrize("error", [
    RuntimeError("in the hook"), SystemExit(1), KeyboardInterrupt(), Skip("x"), Snooze(5), GeneratorExit(),
], ids=lambda it: type(it).__name__)  # fmt: skip
def test_a_hook_that_raises_changes_nothing_and_the_others_are_called(app, world, records, error):
    @app.on_fault
    def bad(report):
        raise error

    found = []
    app.on_fault(found.append)
    job = app.task(name="t", policy="twice")(failing(TimeoutError("slow"))).enqueue()
    world.drain()
    assert job.state is State.FAILED
    assert job.job().last_fault.code is FaultCode.TIMEOUT
    assert len(found) == 2
    assert any("hook_failed" in record.getMessage() for record in records)


def test_what_is_logged_of_a_broken_hook_holds_no_secret_of_the_handlers_error(app, world, records):
    """The hook's exception has the handler's behind it, with whatever the upstream said."""

    @app.on_fault
    def bad(report):
        raise RuntimeError("the tracker is away")

    app.task(name="t", policy="twice")(failing(ValueError(f"password={SECRET}"))).enqueue()
    world.drain()
    shown = [logging.Formatter().format(record) for record in records]
    assert shown
    assert SECRET not in "\n".join(shown)


def test_a_hook_of_one_application_hears_nothing_of_another(app, world, heard):
    other = Seawall()
    with in_memory(other) as elsewhere:
        other.task(name="t")(failing(ValueError())).enqueue()
        elsewhere.drain()
    assert heard == []


# --- jobs that have failed ------------------------------------------------------------------------


@pytest.fixture
def failed(app):
    """Of which jobs it was told, by which faults, and what the store said of them just then."""
    found = []

    @app.on_failed
    def hear(report):
        found.append((report.job_id, app.job(report.job_id).state, report.fault.code, report.final))

    return found


def test_a_failed_job_is_told_once_and_stands_in_the_store_by_then(app, world, failed, heard):
    job = app.task(name="t", policy="twice")(failing(TimeoutError("slow"))).enqueue()
    world.drain()
    assert failed == [(job.id, State.FAILED, FaultCode.TIMEOUT, True)]
    assert len(heard) == 2


def test_a_job_whose_deadline_passed_while_it_waited_is_told(app, world, failed):
    task = app.task(name="t")(failing(ValueError()))
    job = task.using(deadline=timedelta(seconds=5), run_after=timedelta(seconds=9)).enqueue()
    world.advance(6)
    assert failed == [(job.id, State.FAILED, FaultCode.EXPIRED, True)]


def test_a_job_whose_workers_were_all_lost_is_told(app, world, failed):
    never_again = Policy(name="never", rules=(Rule(on=FaultCode.WORKER_LOST, retry=False),))
    task = app.task(name="t", policy=never_again)(failing(ValueError()))
    job = task.enqueue()
    assert world.store.claim(Wanted("gone", None, ("t",), 1, 5.0))
    world.advance(6)
    assert failed == [(job.id, State.FAILED, FaultCode.WORKER_LOST, True)]


def test_a_hook_for_failed_jobs_that_raises_changes_nothing(app, world, failed, records):
    @app.on_failed
    def bad(report):
        raise RuntimeError("the tracker is away")

    job = app.task(name="t", policy="twice")(failing(TimeoutError("slow"))).enqueue()
    world.drain()
    assert job.state is State.FAILED
    assert any("hook_failed" in record.getMessage() for record in records)


# --- what was captured ----------------------------------------------------------------------------


def captured(app, world, text):
    """What is kept of it, where the handler captures it and fails."""

    def task():
        current_job().capture(text)
        raise TimeoutError("slow")

    job = app.task(name=f"capture {len(app.tasks)}", policy="twice")(task).enqueue()
    world.work()
    evidence = world.store.evidence(job.id, 1)
    return None if evidence is None else evidence.raw_output


def test_captured_output_is_kept_as_it_is_where_nobody_minds(app, world):
    assert captured(app, world, "all of it") == "all of it"


def test_each_capture_hook_gets_what_the_one_before_left(app, world):
    app.on_capture(lambda text: text.replace(SECRET, "…"))
    app.on_capture(str.upper)
    assert captured(app, world, f"key {SECRET}") == "KEY …"


def test_a_capture_hook_may_keep_nothing(app, world):
    app.on_capture(lambda text: None)
    app.on_capture(str.upper)
    assert captured(app, world, "x") is None


@pytest.mark.parametrize("answer", [5, b"bytes", ["x"]])
def test_what_is_no_text_is_not_kept(app, world, answer):
    app.on_capture(lambda text: answer)
    assert captured(app, world, SECRET).startswith("(not kept: the capture hook ")


@pytest.mark.parametrize("error", [ValueError(SECRET), SystemExit(SECRET), KeyboardInterrupt()])
def test_a_capture_hook_that_raises_loses_the_capture_and_not_the_attempt(
    app, world, records, error
):
    @app.on_capture
    def bad(text):
        raise error

    kept = captured(app, world, SECRET)

    assert kept.startswith("(not kept: the capture hook ")
    assert type(error).__name__ in kept
    shown = [logging.Formatter().format(record) for record in records]
    assert any("hook_failed" in line for line in shown)
    assert SECRET not in "\n".join([*shown, kept])


def test_what_a_hook_makes_of_it_is_bounded(app, world):
    app.on_capture(lambda text: text * 10_000_000)
    assert len(captured(app, world, "x")) == LARGEST_CAPTURE


def test_what_a_hook_makes_of_it_can_be_stored(app, world):
    app.on_capture(lambda text: "a\0b\ud800")
    assert captured(app, world, "x") == "a\ufffdb?"


def test_the_capture_decorator_leaves_the_function_as_it_is(app):
    def hook(text):
        return text

    assert app.on_capture(hook) is hook


def test_what_a_stage_captured_before_another_is_looked_at_as_well(app, world):
    def ask(number: int) -> int:
        current_job().capture(f"the key is {SECRET}\n{number}")
        return number

    def check(number: int) -> int:
        return number

    app.on_capture(lambda text: text.replace(SECRET, "[key]"))
    job = app.pipeline("asked", [ask, check]).enqueue(7)
    world.drain()
    assert job.state == State.SUCCEEDED
    assert app.store.evidence(job.id, 1).raw_output == "the key is [key]\n7"
