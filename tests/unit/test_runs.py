"""Runs, in memory: what becomes of their items, and when they are stopped."""

import json
from datetime import timedelta

import pytest

from seawall import (
    ArgumentsError,
    FaultError,
    KeyConflictError,
    Seawall,
    SeawallError,
    Skip,
    current_job,
    stage,
)
from seawall.store.values import MOST_ROWS
from seawall.testing import in_memory


@pytest.fixture
def app():
    return Seawall("sqlite://")


@pytest.fixture
def reports(app):
    """Items are numbers: every hundredth has nothing in it, those below zero are bad."""

    def fetch(number: int) -> int:
        if number < 0:
            raise FaultError("INVALID_INPUT", "below zero")
        if number % 100 == 0:
            raise Skip("nothing in it")
        return number

    @stage(policy="sample-stage")
    def ask(number: int) -> int:
        current_job().usage(tokens_in=number, cost=0.25)
        if current_job().attempt == 1 and number % 10 == 1:
            raise FaultError("TIMEOUT", "no answer")
        return -number

    return app.pipeline("reports", [fetch, ask])


def test_every_item_is_accounted_for_and_one_bad_item_stops_no_other(app, reports):
    with in_memory(app) as world:
        run = reports.run([*range(1, 201), -1, -2], name="monday")
        assert run.view().status == "running"
        world.drain()
        view = run.wait()
        assert view.status == "completed"
        assert (view.entered, view.succeeded, view.skipped, view.failed) == (202, 198, 2, 2)
        fetch, ask = view.stages
        assert (fetch.done, fetch.skipped, fetch.failed) == (198, 2, 2)
        assert (ask.done, ask.retried, ask.cost) == (198, 20, 218 * 0.25)
        assert app.verify().ok


def test_the_same_call_again_goes_on_and_a_finished_one_starts_anew(app, reports):
    with in_memory(app) as world:
        first = reports.run([1, 2], name="monday")
        again = reports.run([1, 2, 3], name="monday")
        assert again.id == first.id
        world.drain()
        assert first.view().entered == 3
        other = reports.run([1], name="monday")
        assert other.id != first.id
        assert other.view().round == 2


def test_a_run_that_was_cut_off_while_it_was_fed_goes_on_where_it_stood(app, reports):
    def breaks():
        yield from range(1, 1_502)
        raise KeyboardInterrupt

    with in_memory(app) as world:
        with pytest.raises(KeyboardInterrupt):
            reports.run(breaks(), name="monday", key=str)
        (cut_off,) = app.runs()
        assert (cut_off.entered, cut_off.sealed) == (1_000, False)
        world.drain()
        assert app.runs()[0].status == "running"
        run = reports.run(range(1, 2_001), name="monday", key=str)
        world.drain(most_attempts=100_000)
        assert run.id == cut_off.id
        assert (run.view().entered, run.view().status) == (2_000, "completed")


def test_an_item_that_cannot_be_taken_is_a_dead_letter_and_keeps_nobody_out(app, reports):
    with in_memory(app) as world:
        run = reports.run([1, "seven", object(), 2], name="monday", failure_budget=None)
        world.drain()
        view = run.view()
        assert (view.succeeded, view.failed) == (2, 2)
        faults = [job.last_fault for job in app.jobs(state="failed", run=run.id)]
        assert {fault.code for fault in faults} == {"INVALID_INPUT"}
        assert any("valid integer" in fault.message for fault in faults)


def test_items_come_from_files_and_a_bad_line_is_a_dead_letter(app, tmp_path):
    def fetch(path: str, size: int) -> str:
        return f"{path}:{size}"

    reports = app.pipeline("reports", [fetch])
    lines = ['{"path": "a", "size": 1}', "", "{nonsense", '{"path": "b", "size": 2}']
    (tmp_path / "items.jsonl").write_text("\n".join(lines))
    (tmp_path / "items.csv").write_text("path,size\nc,3\nd\n")
    with in_memory(app) as world:
        one = reports.run(tmp_path / "items.jsonl", name="one", failure_budget=None)
        two = reports.run(str(tmp_path / "items.csv"), name="two", failure_budget=None)
        world.drain()
        assert (one.view().succeeded, one.view().failed) == (2, 1)
        assert (two.view().succeeded, two.view().failed) == (1, 1)
        (bad,) = app.jobs(state="failed", run=one.id)
        assert "line 3 of items.jsonl is no JSON" in bad.last_fault.message


def test_the_same_key_with_another_content_is_said_and_the_rest_goes_on(app, reports):
    with in_memory(app) as world:
        with pytest.raises(KeyConflictError, match="1 items were left out"):
            reports.run([1, 2, 11], name="monday", key=lambda number: str(number % 10 % 3))
        world.drain()
        assert app.runs()[0].succeeded == 2


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ({"failure_budget": 2}, "failure_budget"),
        ({"minimum": 0}, "minimum"),
        ({"partial_at": 0.99}, "partial_at"),
        ({"spending_cap": -1}, "spending_cap"),
        ({"name": ""}, "name"),
    ],
)
def test_terms_that_cannot_be_are_refused_and_nothing_is_begun(app, reports, words, line):
    with in_memory(app):
        with pytest.raises(ArgumentsError, match=line):
            reports.run([1], **{"name": "monday", **words})
        assert app.runs() == []


def test_other_stages_than_it_was_begun_with_are_refused(app, reports):
    with in_memory(app) as world:
        reports.run([1], name="monday")
        other = Seawall("sqlite://")
        changed = other.pipeline("reports", [reports.stages[0].function])
        refused = pytest.raises(SeawallError, match="was begun with the stages fetch, ask")
        with other.replaced(world.store, world.clock, other.rng), refused:
            changed.run([1], name="monday")


def test_a_paused_run_waits_and_goes_on_when_it_is_resumed(app, reports):
    with in_memory(app) as world:
        run = reports.run([1, 2, 3], name="monday")
        assert run.pause("while I look")
        world.drain()
        assert (run.status, run.view().ended) == ("paused", 0)
        (waiting, *_) = app.jobs(run=run.id)
        assert "while I look" in str(app.why(waiting.id))
        assert run.resume()
        world.drain()
        assert run.status == "completed"


def test_a_cancelled_run_is_over_for_good(app, reports):
    with in_memory(app) as world:
        run = reports.run(range(1, 1_501), name="monday")
        assert run.cancel() == 1_500
        world.drain()
        assert (run.status, run.view().cancelled, run.view().over) == ("cancelled", 1_500, True)
        assert not run.resume()
        assert reports.run([1], name="monday").id != run.id
        assert app.verify().ok


def test_a_run_that_is_cancelled_while_it_is_fed_takes_no_more_items(app, reports):
    def cancelled_half_way():
        yield from range(1, 1_001)
        app.run(1).cancel()
        yield from range(1_001, 5_001)

    with in_memory(app) as world:
        run = reports.run(cancelled_half_way(), name="monday")
        view = run.view()
        assert (view.status, view.cancelled) == ("cancelled", view.entered)
        assert view.entered <= 2_000
        world.drain()
        assert run.wait().over
        assert app.runs(unfinished=True) == []
        assert app.verify().ok


def test_a_run_whose_items_have_all_ended_can_be_neither_paused_nor_cancelled(app, reports):
    with in_memory(app) as world:
        run = reports.run([1, 2], name="monday")
        world.drain()
        assert not run.pause()
        assert run.cancel() == 0
        assert run.status == "completed"


def test_what_is_sent_again_after_its_run_was_cancelled_goes_its_way(app, reports):
    with in_memory(app) as world:
        run = reports.run([-1, 1], name="monday", failure_budget=None)
        world.work()
        run.cancel()
        run.wait()
        (bad,) = app.jobs(state="failed", run=run.id)
        app.retry(bad.id)
        world.clock.advance(2)
        world.drain()
        assert app.job(bad.id).state == "failed"
        assert app.job(bad.id).job().cycle == 1


def test_a_run_that_fails_too_often_is_aborted_and_says_why(app):
    def check(number: int) -> int:
        if number % 5 == 0:
            raise FaultError("INVALID_INPUT", f"bad {'x' * (number % 7)}")
        return number

    pipeline = app.pipeline("checks", [check])
    with in_memory(app) as world:
        run = pipeline.run(range(3_000), name="monday", minimum=500)
        world.drain(most_attempts=10_000)
        view = run.view()
        assert view.status == "aborted"
        assert "above its budget of 10 %" in view.reason
        assert "INVALID_INPUT" in view.reason
        assert 500 <= view.ended < 1_000
        assert view.unfinished == 3_000 - view.ended
        # Whoever asks for it again has mended something: what failed so far is forgiven.
        again = pipeline.run(range(3_000), name="monday", minimum=500)
        assert (again.id, again.status) == (run.id, "running")


def test_a_run_stays_within_its_spending_cap_but_for_what_is_under_way(app, reports):
    with in_memory(app) as world:
        run = reports.run(range(1, 99), name="monday", spending_cap=5.0)
        world.drain()
        view = run.view()
        assert view.status == "paused"
        assert "spending_cap" in view.reason
        assert 5.0 <= view.cost <= 5.0 + 10 * 0.25


def test_a_run_that_has_spent_its_cap_goes_on_with_a_higher_one_only(app, reports):
    with in_memory(app) as world:
        run = reports.run(range(1, 99), name="monday", spending_cap=5.0)
        world.drain()
        spent = run.view().cost
        for words in ({}, {"spending_cap": 4.0}):
            with pytest.raises(ArgumentsError, match=r"has cost .* give it a higher"):
                run.resume(**words)
        with pytest.raises(ArgumentsError, match="spending_cap: found -1"):
            run.resume(spending_cap=-1)
        world.drain()
        assert (run.status, run.view().cost) == ("paused", spent)
        assert run.resume(spending_cap=10.0)
        world.drain()
        view = run.view()
        assert (view.status, view.terms.spending_cap) == ("paused", 10.0)
        assert 10.0 <= view.cost <= 10.0 + 10 * 0.25
        # The same call with a higher one does the same; and one that runs may be given one, too.
        again = reports.run(range(1, 99), name="monday", spending_cap=15.0)
        assert (again.id, again.status) == (run.id, "running")
        assert run.resume(spending_cap=1_000.0)
        assert not run.resume(spending_cap=1_000.0)
        world.drain()
        assert run.wait().status == "completed"
        assert not run.resume(spending_cap=2_000.0)
        assert run.view().terms.spending_cap == 1_000.0


def test_the_terms_of_the_last_call_hold_and_a_pause_by_hand_does_too(app, reports):
    with in_memory(app):
        run = reports.run(range(1, 9), name="monday", failure_budget=0.5, spending_cap=1.0)
        run.pause("the bill")
        again = reports.run(range(1, 9), name="monday", failure_budget=0.2, spending_cap=2.0)
        view = again.view()
        assert (again.id, view.status, view.reason) == (run.id, "paused", "the bill")
        assert (view.terms.failure_budget, view.terms.spending_cap) == (0.2, 2.0)


def test_a_redrive_says_which_runs_are_stopped(app, reports):
    with in_memory(app) as world:
        over = reports.run([-1, 1], name="monday", failure_budget=None)
        paused = reports.run([-1, *range(1, 50)], name="tuesday", spending_cap=1.0)
        world.drain()
        assert app.redrive(run=over.id, dry_run=True).stopped == ()
        assert app.redrive(run=paused.id, dry_run=True).stopped == (paused.id,)
        (letter,) = app.dead_letters(run=paused.id, stage="fetch").letters
        assert app.redrive(letter.job_id).stopped == (paused.id,)


def test_a_run_that_ended_above_its_budget_is_aborted_however_fast_it_ended(app):
    """Nothing was left to stop; what its end is called must not depend on who looked when."""
    broken = [True]

    def check(number: int) -> int:
        if broken[0] and number % 9 == 0:
            raise FaultError("INVALID_INPUT", "bad")
        return number

    pipeline = app.pipeline("checks", [check])
    with in_memory(app) as world:

        def items():
            yield from range(MOST_ROWS)
            world.drain()  # all of them, before anybody knows that these are all

        run = pipeline.run(items(), name="monday", failure_budget=0.11)
        view = run.wait()
        assert (view.status, view.unfinished) == ("aborted", 0)
        assert view.reason.startswith(
            "failed 112 of 1,000 finished items (11.2 %), above its budget of 11 %; commonest, 112 "
        )
        assert not run.resume()
        broken[0] = False
        app.redrive(run=run.id)
        world.drain()
        assert (run.wait().status, run.view().reason) == ("completed", "")
        assert app.verify().ok


def test_what_is_redriven_mends_the_run(app):
    broken = [True]

    def check(number: int) -> int:
        if broken[0] and number < 3:
            raise FaultError("INVALID_INPUT", "bad")
        return number

    pipeline = app.pipeline("checks", [check])
    with in_memory(app) as world:
        run = pipeline.run(range(4), name="monday", failure_budget=None)
        world.drain()
        assert run.wait().status == "failed"
        broken[0] = False
        for job in app.jobs(state="failed", run=run.id):
            app.retry(job.id)
        assert run.status == "running"
        world.clock.advance(2)
        world.drain()
        assert run.wait().status == "completed"
        assert app.verify().ok


def test_what_becomes_of_a_run_is_logged_once_whoever_sees_it_first(app, caplog):
    pipeline = app.pipeline("plain", [lambda number: number])
    with in_memory(app) as world, caplog.at_level("INFO", logger="seawall"):
        run = pipeline.run(range(3), name="monday")
        world.drain()
        assert run.wait().status == "completed"
        assert run.wait().status == "completed"
        other = pipeline.run(range(3), name="tuesday")
        other.cancel()
        assert other.wait().status == "cancelled"
    told = [each.seawall for each in caplog.records if each.seawall["event"] == "run_finished"]
    assert [(each["run"], each["status"]) for each in told] == [
        (run.id, "completed"), (other.id, "cancelled"),
    ]  # fmt: skip


def test_a_run_can_be_told_as_json(app, reports):
    with in_memory(app):
        run = reports.run([1], name="monday")
        assert json.loads(json.dumps(run.view().stages[0].waiting)) == 1
        assert timedelta(0) <= run.view().at - run.view().created_at


@pytest.mark.parametrize("budget", [0.10, 0.01])
def test_a_stopped_run_is_over_when_its_last_items_that_were_under_way_have_ended(app, budget):
    """Nothing is left to resume: else it would be called unfinished for ever."""
    runs = []

    def late(number: int) -> int:
        if runs[0].status == "running":
            runs[0].pause("the bill")
        if number < 3:
            raise FaultError("INVALID_INPUT", "too small")
        return number

    pipeline = app.pipeline("late", [late])
    with in_memory(app) as world:
        runs.append(pipeline.run(range(10), name="monday", failure_budget=budget, minimum=1))
        world.drain()
        run = runs[0]
        assert run.wait().status == "aborted"  # by its counts
        assert not run.resume()
        assert not app.runs(unfinished=True)
        assert app.verify().ok


def test_an_item_that_has_no_key_is_a_dead_letter_and_keeps_nobody_out(app):
    def fetch(item: dict[str, str]) -> str:
        return item["id"]

    pipeline = app.pipeline("fetches", [fetch])
    items = [{"id": "a"}, {"name": "b"}, {"id": ""}, {"id": "x" * 1_000}, {"id": "c"}]
    with in_memory(app) as world:
        for _ in range(2):  # and the same call again finds what is there
            run = pipeline.run(items, name="monday", key=lambda item: item["id"],
                               failure_budget=None)  # fmt: skip
        world.drain()
        assert (run.view().entered, run.view().succeeded, run.view().failed) == (5, 2, 3)
        lines = [job.last_fault.message for job in app.jobs(state="failed", run=run.id)]
        assert all("key" in line for line in lines), lines
        with pytest.raises(ArgumentsError, match="the key of item 1: KeyError: 'nr'"):
            pipeline.run(items, name="tuesday", key=lambda item: item["nr"])
        assert run.view().entered == 5
