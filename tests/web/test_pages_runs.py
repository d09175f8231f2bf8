"""Runs on pages: what each shows, to whom, and what their forms do."""

from dataclasses import replace
from datetime import timedelta

import pytest

from seawall.model import Outcome, Usage
from seawall.standings import Pace
from seawall.store import Wanted
from seawall.web.pages.standing import time_left
from tests.support.ledger import ended
from tests.web.looking import HOSTILE, HTML, Person, is_harmless, words


def started(world, items=10, name="nightly", owner="ann", **terms):
    """A run through one stage, of which nothing has begun."""

    def one(item: int) -> int:
        return item

    pipeline = world.app.tasks.get("reports") or world.app.pipeline("reports", [one])
    return pipeline.run(range(items), name=name, owner=owner, **terms)


def settled(world, succeeded=0, failed=0, **how):
    """End so many items; those that are due first."""
    wanted = Wanted("w1", None, ["reports"], succeeded + failed, 60)
    claims = world.store.claim(wanted)
    assert len(claims) == succeeded + failed
    world.store.settle(
        [
            ended(claim.token, Outcome.FAILED if at < failed else Outcome.SUCCEEDED, **how)
            for at, claim in enumerate(claims)
        ]
    )


# --- the list -------------------------------------------------------------------------------------


def test_runs_are_listed_from_the_newest_with_how_far_each_has_come(world):
    first = started(world, 4, "first")
    settled(world, 3, 1)
    second = started(world, 5, "second")
    text = Person(world).sees("/runs")

    assert text.index(f"/runs/{second.id}") < text.index(f"/runs/{first.id}")
    assert "4 of 4" in text
    assert "0 of 5" in text
    assert "3 succeeded, 1 failed" in text  # of the bar


def test_runs_are_found_by_pipeline_and_whether_they_are_over(world):
    over = started(world, 1, "over", failure_budget=None)
    over.cancel()
    over.wait(10, live=False)  # and looks at it: it is closed
    started(world, 1, "under way")
    operator = Person(world)

    assert "over" in operator.reads("/runs")
    shown = operator.reads("/runs?unfinished=1")
    assert "under way" in shown
    assert "reports over" not in shown
    assert "under way" in operator.reads("/runs?pipeline=reports")
    assert "No run matches" in operator.reads("/runs?pipeline=nothing")
    assert "No run matches" in operator.reads("/runs?pipeline=%00")


def test_a_long_list_of_runs_goes_on(world):
    for number in range(30):
        world.run(name=f"run number {number}.")
    operator = Person(world)
    first = operator.sees("/runs?unfinished=1")
    more = first.partition('rel="next"')[0].rpartition('href="')[2].partition('"')[0]
    second = words(operator.sees(more.replace("&amp;", "&")))

    assert "run number 29." in first
    assert "run number 0." not in first
    assert "run number 0." in second
    assert "run number 29." not in second
    assert "unfinished=1" in more
    assert "Nothing can match" in operator.reads("/runs?after=x")


def test_an_owner_sees_his_own_runs_and_no_others(world):
    started(world, 1, "the affair of ann", "ann")
    bobs = started(world, 1, "the affair of bob", "bob")
    ann = Person(world, "owner")

    shown = ann.reads("/runs")
    assert "the affair of ann" in shown
    assert "the affair of bob" not in shown
    for path in ("", "/report", "/cancel"):
        answer = ann.ask(f"/runs/{bobs.id}{path}")
        assert answer.status_code == 404
        assert f"there is no run {bobs.id}" in answer.text
    refused = world.client.post(f"/runs/{bobs.id}/pause", data={"csrf": ann.csrf()}, headers=HTML)
    assert refused.status_code == 404
    assert bobs.status == "running"


def test_without_a_run_the_page_says_how_to_start_one(world):
    shown = Person(world).reads("/runs")

    assert "There are no runs yet" in shown
    assert "seawall runs start" in shown


# --- one ------------------------------------------------------------------------------------------


def test_a_run_shows_its_stages_budget_and_spend(world):
    run = started(world, 50, minimum=40, failure_budget=0.2, spending_cap=10.0)
    settled(world, 18, 2, usage=Usage(tokens_in=100, tokens_out=7, cost=0.25))
    wanted = Wanted("w1", None, ["reports"], 2, 60)
    running, retried = world.store.claim(wanted)
    world.store.settle([ended(retried.token, Outcome.RETRIED)])
    operator = Person(world)
    shown = operator.reads(f"/runs/{run.id}")

    assert running
    assert "20 of 50 items ended" in shown
    assert "18 succeeded 2 failed 30 unfinished, 1 of them running" in shown
    assert "one 18 1 28 1 2 0 0 1" in shown  # ok, running, waiting, retrying, dead, …
    assert "10.0% failed 20% may fail" in shown
    assert "2 of 20 finished items failed." in shown
    assert "judged from 40 finished items on" in shown
    assert "5 of 10" in shown
    assert "2,000 tokens in, 140 out" in shown
    text = operator.sees(f"/runs/{run.id}")
    assert f'href="/jobs?run={run.id}&amp;state=failed"' in text
    assert f'href="/dead?run={run.id}"' in text
    for path in (f"/jobs?run={run.id}&state=failed", f"/dead?run={run.id}"):
        operator.sees(path)


def test_a_run_without_budget_or_cap_says_so(world):
    run = started(world, 1, failure_budget=None)
    shown = Person(world).reads(f"/runs/{run.id}")

    assert "it goes on, whatever fails" in shown
    assert "no spending cap" in shown


def test_a_run_that_was_aborted_says_why_and_what_is_not_held_against_it_afterwards(world):
    run = started(world, 50, minimum=10)
    settled(world, 2, 18)
    run.pause()  # looks at it: its budget is exceeded
    operator = Person(world)
    page = f"/runs/{run.id}"
    assert "Aborted: failed 18 of 20 finished items" in operator.reads(page)

    assert operator.presses(page, f"{page}/resume") == (f"Run {run.id} goes on.", True)

    assert run.status == "running"
    assert "18 more before it was resumed" in operator.reads(page)


# --- what people do -------------------------------------------------------------------------------


def test_a_run_is_paused_with_a_reason_and_resumed(world):
    run = started(world)
    owner, page = Person(world, "owner"), f"/runs/{run.id}"

    told = owner.presses(page, f"{page}/pause", why="the bill\nis <high>")
    assert told == (f"Run {run.id} is paused.", True)
    assert run.view().reason == "the bill is <high>"
    assert "Paused: the bill is <high>" in owner.reads(page)
    assert f'action="{page}/pause"' not in owner.sees(page)
    line, well = owner.sends(f"{page}/pause", csrf=owner.csrf())
    assert not well
    assert "stopped already" in line

    assert owner.presses(page, f"{page}/resume") == (f"Run {run.id} goes on.", True)
    assert run.status == "running"
    assert not owner.sends(f"{page}/resume", csrf=owner.csrf())[1]


def test_a_run_that_has_cost_as_much_as_it_may_is_resumed_with_a_higher_cap(world):
    run = started(world, 10, spending_cap=1.0)
    settled(world, 4, usage=Usage(cost=0.5))
    run.pause()  # looks at it: it has cost too much
    assert run.status == "paused"
    page = f"/runs/{run.id}"

    owner = Person(world, "owner")
    assert 'name="spending_cap"' not in owner.sees(page)
    line, well = owner.presses(page, f"{page}/resume")
    assert not well
    assert "give it a higher spending_cap" in line
    answer = world.client.post(
        f"{page}/resume", data={"csrf": owner.csrf(), "spending_cap": "9"}, headers=HTML
    )
    assert answer.status_code == 403

    operator = Person(world)
    for wrong in ("x", "-1", "nan", "0"):
        line, well = operator.presses(page, f"{page}/resume", spending_cap=wrong)
        assert not well, wrong
        assert "expected a number above 0" in line
    assert operator.presses(page, f"{page}/resume", spending_cap="9")[1]
    assert run.view().terms.spending_cap == 9


def test_cancelling_says_first_how_many_items_it_would_cancel(world):
    run = started(world, 10)
    settled(world, 3)
    world.store.claim(Wanted("w1", None, ["reports"], 2, 60))
    operator, page = Person(world), f"/runs/{run.id}"
    assert f'href="{page}/cancel"' in operator.sees(page)

    asked = operator.reads(f"{page}/cancel")
    assert "7 items would be cancelled: 5 that wait end at once, 2 that run are asked" in asked
    assert run.status == "running"

    line, well = operator.presses(f"{page}/cancel", f"{page}/cancel", why="a mistake")
    assert (line, well) == (f"Run {run.id} is cancelled, with 7 items of it.", True)
    assert run.status == "cancelled"
    assert run.view().reason == "a mistake"
    assert "There is nothing left to cancel" in operator.reads(f"{page}/cancel")
    assert f'href="{page}/cancel"' not in operator.sees(page)


def test_forms_of_runs_without_their_word_or_by_readers_change_nothing(world):
    run = started(world)
    Person(world, "owner")
    for act in ("pause", "resume", "cancel"):
        answer = world.client.post(f"/runs/{run.id}/{act}", data={"why": "x"}, headers=HTML)
        assert answer.status_code == 403, act
    reader = Person(world, "ann's reader")
    text = reader.sees(f"/runs/{run.id}")
    assert f'action="/runs/{run.id}/pause"' not in text
    assert f'href="/runs/{run.id}/cancel"' not in text
    for act in ("pause", "resume", "cancel"):
        answer = world.client.post(
            f"/runs/{run.id}/{act}", data={"csrf": reader.csrf()}, headers=HTML
        )
        assert answer.status_code == 403, act
    assert run.status == "running"


# --- the report -----------------------------------------------------------------------------------


def test_a_report_tells_what_the_history_of_a_run_comes_to(world):
    run = started(world, 20, failure_budget=None)
    wanted = Wanted("w1", None, ["reports"], 3, 60)
    again = [
        ended(claim.token, Outcome.RETRIED, delay_seconds=0.0, config="a" * 12)
        for claim in world.store.claim(wanted)
    ]
    world.store.settle(again)
    usage = Usage(tokens_in=10, tokens_out=1, cost=0.5)
    settled(world, 16, 4, usage=usage, duration_seconds=0.2, config="b" * 12)
    operator = Person(world)
    shown = operator.reads(f"/runs/{run.id}/report")

    assert "Items 20" in shown
    assert "Attempts 23" in shown
    assert "one 23 69.6% 3 4 0 200 20 10" in shown  # attempts, well, retried, failed, lost, …
    assert "200 ms" in shown
    assert "one 1 17 2 3" in shown  # so many items needed one attempt, and two
    assert "TIMEOUT no answer one 7" in shown
    assert "aaaaaaaaaaaa" in shown  # two configurations: it changed
    assert "Items that failed first" in shown
    assert operator.sees(f"/runs/{run.id}/report").count("<svg") > 5


def test_a_report_of_nothing_says_so(world):
    run = world.run("ann")
    shown = Person(world).reads(f"/runs/{run}/report")

    assert "Nothing went wrong" in shown


def test_a_run_with_a_hostile_name_is_text_everywhere(world):
    run = started(world, 2, HOSTILE, HOSTILE, failure_budget=None)
    settled(world, 1, 1)
    run.pause(HOSTILE)
    operator = Person(world)

    for path in ("/runs", f"/runs/{run.id}", f"/runs/{run.id}/report", f"/runs/{run.id}/cancel"):
        text = operator.sees(path)
        assert HOSTILE not in text
        assert HOSTILE in words(text), path
        is_harmless(text)
    is_harmless(operator.sees("/runs?pipeline=%22%3E%3Cscript%3Ealert(1)%3C/script%3E"))


def test_a_run_that_is_not_there_is_a_page(world):
    operator = Person(world)
    for path in ("/runs/99", "/runs/99/report", "/runs/99/cancel"):
        answer = operator.ask(path)
        assert answer.status_code == 404
        assert "there is no run 99" in answer.text
    assert operator.ask("/runs/x").status_code == 404


# --- how long it will take ------------------------------------------------------------------------


@pytest.fixture
def view(world):
    run = started(world, 100)
    settled(world, 10)
    world.store.claim(Wanted("w1", None, ["reports"], 1, 60))
    found = run.view()
    return replace(found, at=found.created_at + timedelta(seconds=60))


def test_the_time_left_is_told_by_the_present_pace(view):
    pace = Pace()
    pace.saw(replace(view, succeeded=0, at=view.at - timedelta(seconds=10)))
    pace.saw(view)

    assert time_left(view, pace) == "about 2 min at the present pace"


def test_whoever_looks_for_the_first_time_is_told_by_the_pace_so_far(view):
    assert time_left(view, Pace()) == "about 9 min at its pace so far"


def test_where_nothing_moves_nobody_can_tell(view):
    pace = Pace()
    pace.saw(replace(view, at=view.at - timedelta(seconds=30)))
    pace.saw(view)

    assert time_left(view, pace) == "no telling: nothing has ended of late"
    assert time_left(replace(view, sealed=False), pace) == "no telling: more items may come"
    for status in ("paused", "completed", "aborted"):
        assert time_left(replace(view, status=status), pace) == ""
    idle = replace(view, stages=tuple(replace(each, running=0) for each in view.stages))
    assert time_left(idle, Pace()) == ""


def test_a_pace_from_long_ago_is_no_present_one(world, view, monkeypatch):
    import seawall.web.paces

    now = [100.0]
    monkeypatch.setattr(seawall.web.paces.time, "monotonic", lambda: now[0])
    paces = world.house.paces
    paces.saw(replace(view, at=view.at - timedelta(seconds=10)))
    assert paces.saw(view).per_second == 0
    now[0] += 1_000
    assert paces.saw(view).per_second is None
