"""What handlers say: progress, captured output, faults, other ends; and where it is found."""

import json
from pathlib import Path

import pytest

from seawall.faults import FaultCode
from seawall.states import State
from seawall.store import Store
from tests.life import tasks
from tests.life.world import Crew, await_state, enqueued, eventually, outcomes


@pytest.mark.parametrize("task", [tasks.tells, tasks.tells_apart])
def test_progress_is_seen_while_it_runs_and_captured_output_afterwards(
    store: Store, crew: Crew, tmp_path: Path, task
):
    (telling,) = enqueued(store, task.job(str(tmp_path / "go on")))
    crew.start()
    seen = eventually(lambda: store.progress(telling))
    assert (seen.done, seen.total, seen.message) == (3.0, 10.0, "three of ten")
    await_state(store, State.RUNNING, telling)
    (tmp_path / "go on").touch()
    await_state(store, State.SUCCEEDED, telling)
    evidence = store.evidence(telling, 1)
    assert evidence is not None
    assert evidence.raw_output == "half of what it said"


@pytest.mark.parametrize("task", [tasks.ends, tasks.ends_apart])
def test_what_went_wrong_leaves_its_traceback_or_what_the_upstream_said(
    store: Store, crew: Crew, task
):
    bug, fault = enqueued(store, task.job("bug"), task.job("fault"))
    crew.start()
    await_state(store, State.FAILED, bug, fault)
    assert outcomes(store, bug) == outcomes(store, fault) == ["retried", "retried", "failed"]
    for seq in (1, 3):
        left = store.evidence(bug, seq)
        assert left is not None
        assert "in ends" in (left.traceback or "")
        assert "ZeroDivisionError: a bug" in (left.traceback or "")
        said = store.evidence(fault, seq)
        assert said is not None
        assert said.raw_output == "<html>"
    assert "<html>" not in json.dumps([str(each) for each in store.attempts(fault)])


def test_an_isolated_handler_may_return_skip_or_snooze_as_any_other(store: Store, crew: Crew):
    value, skip, snooze = enqueued(
        store, *[tasks.ends_apart.job(how) for how in ("value", "skip", "snooze")]
    )
    crew.start(concurrency=3)
    await_state(store, State.SUCCEEDED, value, snooze)
    await_state(store, State.SKIPPED, skip)
    assert json.loads(store.output(value, 0) or "") == "value"
    assert json.loads(store.output(skip, 0) or "") == "nothing there"
    assert outcomes(store, snooze) == ["snoozed", "succeeded"]
    assert [each.counted for each in store.attempts(snooze)] == [False, True]


@pytest.mark.parametrize(
    ("done", "message"), [(-1.0, ""), (float("nan"), ""), (1e300, ""), (1.0, "\x1b[31mred\x00")]
)
def test_progress_that_makes_no_sense_costs_no_lease(
    store: Store, crew: Crew, done: float, message: str
):
    """It is its handler's affair alone: the thread that keeps the leases goes on."""
    babble, beside = enqueued(store, tasks.babbles.job(repr(done), message), tasks.slow.job(2.5))
    worker = crew.start(lease_seconds=0.6)
    await_state(store, State.SUCCEEDED, beside)
    assert outcomes(store, beside) == ["succeeded"]
    eventually(lambda: store.jobs([babble])[babble].state in (State.SUCCEEDED, State.FAILED))
    assert "lost" not in outcomes(store, babble)
    fault = store.jobs([babble])[babble].last_fault
    assert fault is None or fault.code is not FaultCode.WORKER_LOST
    assert worker.said("lease_lost") == []
