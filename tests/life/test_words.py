"""What handlers say: progress, captured output, faults, other ends; and where it is found."""

import json
from pathlib import Path

import pytest

from seawall.states import State
from seawall.store import Store
from tests.life import tasks
from tests.life.world import Crew, await_state, enqueued, eventually, outcomes, states


@pytest.fixture
def kind():
    """What handlers say is kept by the same verbs on every store: one is enough."""
    return "postgres18"


def test_progress_is_seen_while_it_runs_and_captured_output_afterwards(
    store: Store, crew: Crew, tmp_path: Path
):
    go_on = tmp_path / "go on"
    telling = enqueued(store, tasks.tells.job(str(go_on)), tasks.tells_apart.job(str(go_on)))
    crew.start()
    for each in telling:
        seen = eventually(lambda each=each: store.progress(each))
        assert (seen.done, seen.total, seen.message) == (3.0, 10.0, "three of ten")
    await_state(store, State.RUNNING, *telling)
    go_on.touch()
    await_state(store, State.SUCCEEDED, *telling)
    for each in telling:
        evidence = store.evidence(each, 1)
        assert evidence is not None
        assert evidence.raw_output == "half of what it said"


def test_what_went_wrong_leaves_its_traceback_or_what_the_upstream_said(store: Store, crew: Crew):
    kinds = [tasks.ends, tasks.ends_apart]
    bugs = enqueued(store, *[task.job("bug") for task in kinds])
    faults = enqueued(store, *[task.job("fault") for task in kinds])
    crew.start()
    await_state(store, State.FAILED, *bugs, *faults)
    for each in [*bugs, *faults]:
        assert outcomes(store, each) == ["retried", "retried", "failed"]
    for seq in (1, 3):
        for bug in bugs:
            left = store.evidence(bug, seq)
            assert left is not None
            assert "in ends" in (left.traceback or "")
            assert "ZeroDivisionError: a bug" in (left.traceback or "")
        for fault in faults:
            said = store.evidence(fault, seq)
            assert said is not None
            assert said.raw_output == "<html>"
            assert "<html>" not in str(store.attempts(fault))


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


def test_progress_that_makes_no_sense_costs_no_lease(store: Store, crew: Crew):
    """It is its handler's affair alone: the thread that keeps the leases goes on."""
    nonsense = [("-1", ""), ("nan", ""), ("1e300", ""), ("1", "\x1b[31mred\x00")]
    babble = enqueued(store, *[tasks.babbles.job(*words) for words in nonsense])
    (beside,) = enqueued(store, tasks.slow.job(2.5))
    worker = crew.start(lease_seconds=1.0)
    await_state(store, State.SUCCEEDED, beside)
    assert outcomes(store, beside) == ["succeeded"]
    eventually(lambda: set(states(store, babble)) <= {State.SUCCEEDED, State.FAILED})
    for each in babble:
        assert outcomes(store, each) in (["succeeded"], ["failed"])
    assert worker.said("lease_lost") == []
