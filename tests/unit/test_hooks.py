"""Hooks hear of every fault and can do no harm."""

import logging

import pytest

from seawall import FaultCode, FaultReport, Policy, Rule, Seawall, Skip, Snooze, State
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
