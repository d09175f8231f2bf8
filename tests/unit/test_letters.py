"""An application's dead letters: found, dismissed, sent again, and what is refused on the way."""

import threading
import time
from datetime import date, timedelta

import pytest

from seawall import (
    ArgumentsError,
    FaultCode,
    FaultError,
    NoSuchJobError,
    Policy,
    Rule,
    Seawall,
    State,
    Upstream,
)
from seawall.letters import PAGE
from seawall.model import Lane, Outcome
from seawall.store import Advance, LetterState, Presence
from seawall.testing import in_memory
from tests.support.ledger import claimed, ended, new_job

BROKEN = {"now": True}


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    BROKEN["now"] = True
    made = Seawall(policies=[Policy(name="once", max_attempts=1, rules=(Rule(on="all"),))])

    @made.task(policy="once")
    def fetch(path: str, day: date = date(2026, 1, 1), *, tries: int = 1) -> str:
        if BROKEN["now"] and path != "good":
            raise FaultError("NOT_FOUND", f"no file {path}")
        return f"{path} {day} {tries}"

    @made.task(policy="once", upstream=lambda model, text="": f"llm:{model}")
    def ask(model: str, text: str = "") -> str:
        if BROKEN["now"]:
            raise TimeoutError("slow")
        return model

    return made


@pytest.fixture
def world(app):
    with in_memory(app) as world:
        yield world


def asked(app, name, *args, **options):
    return app.tasks[name].using(**options).enqueue(*args)


def test_what_failed_is_found_and_told(app, world):
    job = asked(app, "fetch", "a.pdf", owner="ann")
    asked(app, "ask", "small")
    asked(app, "fetch", "good")
    world.drain()

    assert [letter.task for letter in app.dead_letters()] == ["ask", "fetch"]
    letter = app.dead_letter(job.id)
    assert (letter.state, letter.code, letter.owner) == ("open", FaultCode.NOT_FOUND, "ann")
    assert list(app.dead_letters(fault="NOT_FOUND", task="fetch", owner="ann")) == [letter]
    assert list(app.dead_letters(group=letter.fingerprint)) == [letter]
    assert list(app.dead_letters(stage=0, queue="default", since=world.now)) != []
    assert list(app.dead_letters(until=world.now - timedelta(hours=1))) == []
    assert {group.tasks for group in app.dead_letter_groups()} == {("ask",), ("fetch",)}


def test_a_list_goes_on_where_its_page_ended(app, world):
    for n in range(5):
        asked(app, "fetch", f"{n}")
    world.drain()
    first = app.dead_letters(limit=3)
    rest = app.dead_letters(limit=3, after=first.next)
    assert [letter.job_id for letter in (*first, *rest)] == [5, 4, 3, 2, 1]
    assert rest.next is None


def test_a_job_without_one_says_why(app, world):
    job = asked(app, "fetch", "good")
    with pytest.raises(NoSuchJobError, match=f"job {job.id} has no dead letter: it is queued"):
        app.dead_letter(job.id)
    with pytest.raises(NoSuchJobError, match="there is no job 99"):
        app.dead_letter(99)


@pytest.mark.parametrize(
    ("which", "said"),
    [
        ({"fault": "TIMEUOT"}, "no fault code 'TIMEUOT'; did you mean TIMEOUT"),
        ({"state": "shut"}, "state: found 'shut', expected one of open, redriven, dismissed, all"),
        ({"colour": "red"}, "no such filter: 'colour'; there are: state, fault, group"),
        ({"stage": "ask"}, "stage: 'ask' is a name: name its task or run as well"),
        ({"stage": "ask", "task": "fetch"}, "fetch: no stage 'ask'; there are: fetch"),
        ({"stage": "ask", "task": "other"}, "the task other is not known here"),
        ({"stage": -1}, "stage: found -1"),
        ({"limit": 0}, "limit: found 0"),
        ({"after": "x"}, "after: found 'x'"),
    ],
)
def test_what_cannot_be_asked_for_is_one_line(app, world, which, said):
    with pytest.raises(ArgumentsError, match=said) as refused:
        app.dead_letters(**which)
    assert "\n" not in str(refused.value)


def test_a_stage_may_be_named_and_a_job_sent_again_from_any_that_it_has_reached(app, world):
    calls = []

    def load(path: str) -> str:
        calls.append("load")
        return path

    def ask(text: str) -> str:
        calls.append("ask")
        if len(calls) < 5:
            raise FaultError("INVALID_INPUT", "no answer fits")
        return text

    def store(text: str) -> str:
        return text

    pipeline = app.pipeline("steps", [load, ask, store])
    job = pipeline.enqueue("a")
    world.drain()
    (letter,) = app.dead_letters(stage="ask", task="steps")
    assert letter.stage == 1
    assert list(app.dead_letters(stage="load", task="steps")) == []
    with pytest.raises(ArgumentsError, match="stage 1"):
        app.redrive(job.id, from_stage="store")
    assert app.redrive(job.id, from_stage="load").sent == 1
    world.drain()
    assert calls == ["load", "ask"] * 2
    assert app.redrive(job.id).sent == 1
    world.drain()
    assert (calls[4:], job.result()) == (["ask"], "a")


# --- dismissing -----------------------------------------------------------------------------------


def test_dismissed_ones_leave_the_list_and_can_come_back(app, world):
    for path in ("a", "b"):
        asked(app, "fetch", path)
    world.drain()

    told = app.dismiss(1, 9, note="a test file", by="ann")

    assert (told.done, told.refused) == (1, 1)
    assert told.refusals[0].job_id == 9
    assert [letter.job_id for letter in app.dead_letters()] == [2]
    assert [letter.note for letter in app.dead_letters(state="dismissed")] == ["a test file"]
    assert app.undismiss(1).done == 1
    assert app.dismiss(fault="NOT_FOUND", note="all of them").done == 2
    assert app.undismiss(fault="NOT_FOUND").done == 2
    assert len(app.dead_letters(state="all")) == 2


@pytest.mark.parametrize(
    ("ids", "how", "said"),
    [
        ((), {}, "name jobs, or say which"),
        ((1,), {"fault": "TIMEOUT"}, "not both"),
        ((1,), {"note": ""}, "note: found ''"),
    ],
)
def test_what_is_to_be_dismissed_must_be_clear(app, world, ids, how, said):
    with pytest.raises(ArgumentsError, match=said):
        app.dismiss(*ids, **{"note": "x", **how})


# --- sending again --------------------------------------------------------------------------------


def test_a_group_is_sent_again_and_succeeds_once_it_is_mended(app, world):
    jobs = [asked(app, "fetch", f"{n}") for n in range(3)]
    other = asked(app, "ask", "small")
    world.drain()
    group = app.dead_letter(jobs[0].id).fingerprint
    BROKEN["now"] = False

    told = app.redrive(group=group, by="ann")
    world.drain()

    assert (told.found, told.sent, told.ok) == (3, 3, True)
    assert {job.state for job in jobs} == {State.SUCCEEDED}
    assert other.state is State.FAILED
    assert {letter.handled_by for letter in app.dead_letters(state="redriven")} == {"ann"}


def test_what_fails_again_while_all_are_sent_is_not_sent_twice(app, world):
    jobs = [asked(app, "fetch", f"{n}") for n in range(3)]
    world.drain()
    told = app.redrive(state="open")
    world.drain()
    assert told.sent == 3
    assert [app.dead_letter(job.id).times for job in jobs] == [2, 2, 2]


def test_more_than_a_page_is_sent(app, world):
    app.enqueue_many(app.tasks["fetch"].job(f"{n}") for n in range(PAGE + 3))
    world.drain()
    assert app.redrive(task="fetch").sent == PAGE + 3


def test_a_dry_run_says_what_would_happen_and_changes_nothing(app, world):
    for path in "ab":
        asked(app, "fetch", path)
    asked(app, "ask", "small")
    world.drain()
    world.store.appear(
        Presence(
            worker="w", host="h", pid=1, version="1", queues=None, tasks=("ask",), concurrency=1
        )
    )
    before = list(app.dead_letters())

    told = app.redrive(state="open", dry_run=True, rate=1)

    assert (told.found, told.sent, told.dry_run, told.held_back) == (3, 0, True, 0)
    assert [(pile.task, pile.stage, pile.letters) for pile in told.piles] == [
        ("fetch", 0, 2), ("ask", 0, 1),
    ]  # fmt: skip
    assert told.unserved == ("fetch",)
    assert told.last_due_seconds == 2
    assert list(app.dead_letters()) == before


def test_a_rate_spreads_due_times_the_oldest_first(app, world):
    jobs = []
    for n in range(4):
        jobs.append(asked(app, "fetch", f"{n}"))
        world.drain()
        world.clock.advance(1)

    told = app.redrive(task="fetch", rate=2)

    start = world.now
    assert [(job.job().due_at - start).total_seconds() for job in jobs] == [0, 0.5, 1, 1.5]
    assert told.last_due_seconds == 1.5
    assert "sent again, and not all at once" in str(app.why(jobs[3].id))


def test_jobs_named_go_in_the_order_named(app, world):
    jobs = [asked(app, "fetch", f"{n}") for n in range(3)]
    world.drain()
    app.redrive(jobs[2].id, jobs[0].id, rate=1)
    assert (jobs[0].job().due_at - jobs[2].job().due_at).total_seconds() == 1


def test_each_that_cannot_be_sent_is_told_with_its_reason(app, world):
    failing = asked(app, "fetch", "a")
    good = asked(app, "fetch", "good")
    world.drain()
    app.redrive(failing.id)

    told = app.redrive(failing.id, good.id, 99, good.id)

    assert (told.found, told.sent, told.refused, told.ok) == (3, 0, 3, False)
    assert dict(told.refusals) == {
        failing.id: "it was sent again already, and has not failed since",
        good.id: "it is succeeded, and only failed jobs are",
        99: "there is no such job; it may have been pruned",
    }


def test_nothing_found_is_nothing_sent(app, world):
    told = app.redrive(group="nothing")
    assert (told.found, told.sent, told.ok) == (0, 0, True)


def test_dismissed_ones_are_passed_over_unless_named(app, world):
    one, two = asked(app, "fetch", "a"), asked(app, "fetch", "b")
    world.drain()
    app.dismiss(one.id, note="x")
    assert app.redrive(task="fetch").sent == 1
    assert (one.state, two.state) == (State.FAILED, State.QUEUED)
    assert app.redrive(one.id).sent == 1


@pytest.mark.parametrize(
    ("ids", "how", "said"),
    [
        ((), {}, "name jobs, or say which"),
        ((1,), {"task": "fetch"}, "not both"),
        ((), {"state": "redriven"}, "only failed jobs are sent again"),
        ((), {"state": "all"}, "only failed jobs are sent again"),
        ((1,), {"rate": 0}, "rate: found 0"),
        ((1,), {"rate": "10/s"}, "rate: found '10/s'"),
        ((1,), {"canary": 0}, "canary: found 0"),
        ((1,), {"canary": True}, "canary: found True"),
        ((1,), {"canary_seconds": -1}, "canary_seconds: found -1"),
        ((1,), {"edit": "x"}, "edit: found 'x'"),
        ((1,), {"by": ""}, "by: found ''"),
        (("1",), {}, "job id: found '1'"),
        ((1,), {"from_start": True, "from_stage": 0}, "not both"),
        ((1,), {"colour": "red"}, "not both|no such filter"),
        ((1,), {"canary": 1}, "nobody works while a test waits"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_nothing_is_sent(app, world, ids, how, said):
    job = asked(app, "fetch", "a")
    world.drain()
    with pytest.raises(ArgumentsError, match=said) as refused:
        app.redrive(*ids, **how)
    assert "\n" not in str(refused.value)
    assert job.state is State.FAILED


def test_from_the_start_and_from_a_stage(app, world):
    job = asked(app, "fetch", "a")
    world.drain()
    with pytest.raises(ArgumentsError, match="failed at stage 0, which comes before 1"):
        app.redrive(job.id, from_stage=1)
    with pytest.raises(ArgumentsError, match="fetch: no stage 'load'"):
        app.redrive(job.id, from_stage="load")
    assert app.redrive(job.id, from_start=True).sent == 1


def test_from_the_start_of_what_is_a_plain_task_now(app, world):
    (claim,) = claimed(world.store, new_job('{"model":"m"}', lane=Lane("ask", "q")), tasks=("ask",),
                       queues=None)  # fmt: skip
    world.store.advance([Advance(token=claim.token, lane=Lane("ask", "q", stage=1, upstream="x"))])
    world.store.settle([ended(claim.token.next(), Outcome.FAILED)])
    assert app.redrive(claim.token.job_id, from_start=True).sent == 1
    job = app.job(claim.token.job_id).job()
    assert (job.stage, job.queue, job.upstream) == (0, "q", "llm:m")


# --- another input --------------------------------------------------------------------------------


def test_the_input_can_be_edited(app, world):
    job = asked(app, "fetch", "bad", key="k")
    world.drain()

    app.redrive(job.id, edit={"path": "good", "day": "2026-05-04"})
    world.drain()

    assert job.result() == "good 2026-05-04 1"
    again = asked(app, "fetch", "good", key="other")
    assert again.created
    fetch = app.tasks["fetch"]
    same = fetch.using(key="k").enqueue("good", date(2026, 5, 4))
    assert (same.created, same.id) == (False, job.id)


def test_or_made_anew_for_each_by_a_function(app, world):
    jobs = [asked(app, "fetch", path) for path in ("bad 1", "bad 2")]
    world.drain()
    told = app.redrive(
        task="fetch", edit=lambda there: {**there, "path": "good", "tries": len(there["path"])}
    )
    world.drain()
    assert told.sent == 2
    assert [job.result() for job in jobs] == ["good 2026-01-01 5"] * 2


@pytest.mark.parametrize(
    "edit", [{"pth": "b"}, {"path": 7}, {"day": "tomorrow"}, {"tries": "x" * 300_000}]
)
def test_what_does_not_fit_the_task_is_refused_as_by_enqueue(app, world, edit):
    fetch = app.tasks["fetch"]
    job = fetch.enqueue("a")
    world.drain()
    with pytest.raises(ArgumentsError) as by_redrive:
        app.redrive(job.id, edit=edit)
    with pytest.raises(ArgumentsError) as by_enqueue:
        fetch.enqueue(**{"path": "a", **edit})
    assert str(by_redrive.value).split(":")[:2] == str(by_enqueue.value).split(":")[:2]
    assert job.state is State.FAILED


def test_of_many_only_those_that_do_not_fit_stay(app, world):
    jobs = [asked(app, "fetch", path) for path in ("a", "bb")]
    world.drain()
    BROKEN["now"] = False

    def edit(there):
        return there if there["path"] == "a" else {"path": 7}

    assert app.redrive(task="fetch", edit=edit, dry_run=True).refused == 1
    told = app.redrive(task="fetch", edit=edit)

    assert (told.sent, told.refused) == (1, 1)
    assert [job.state for job in jobs] == [State.QUEUED, State.FAILED]
    assert told.refusals[0].reason.startswith("fetch: path:")


def test_an_edit_that_changes_what_it_calls_changes_where_it_waits(app, world):
    app.upstream(Upstream("llm", concurrency=1))
    job = asked(app, "ask", "small", priority=3)
    world.drain()
    app.redrive(job.id, edit={"model": "large"})
    assert (job.job().upstream, job.job().priority) == ("llm:large", 3)


# --- canaries, with somebody at work --------------------------------------------------------------


@pytest.fixture
def at_work(app, tmp_path):
    """The application on a store in a file, and a thread that works on it."""
    app.configure(url=f"sqlite:///{tmp_path}/jobs.db")
    stop = threading.Event()

    def work():
        while not stop.is_set():
            for claim in app.store.claim(_wanted()):
                bad = BROKEN["now"] or "odd" in claim.arguments
                how = Outcome.FAILED if bad else Outcome.SUCCEEDED
                app.store.settle([ended(claim.token, how)])
            time.sleep(0.01)

    thread = threading.Thread(target=work)
    thread.start()
    yield app
    stop.set()
    thread.join()
    app.close()


def _wanted():
    from tests.support.ledger import wanted

    return wanted(limit=100, tasks=("fetch", "ask"), queues=None)


def failed(app, *paths):
    jobs = [asked(app, "fetch", path) for path in paths]
    while {job.state for job in jobs} != {State.FAILED}:
        time.sleep(0.01)
    return jobs


def test_the_rest_follows_canaries_that_succeed(at_work):
    jobs = failed(at_work, *"abcdefgh")
    BROKEN["now"] = False
    told = at_work.redrive(task="fetch", canary=2)
    assert (told.found, told.sent, told.canary, len(told.canaries)) == (8, 8, "succeeded", 2)
    for job in jobs:
        job.wait(20)


def test_jobs_that_are_named_have_canaries_too(at_work):
    jobs = failed(at_work, *"abcd")
    BROKEN["now"] = False
    told = at_work.redrive(*(job.id for job in jobs), canary=1, rate=1_000)
    assert (told.found, told.sent, told.refused, told.ok) == (4, 4, 0, True)
    for job in jobs:
        job.wait(20)
        assert job.job().cycle == 1


def test_the_rest_stays_where_canaries_fail(at_work):
    jobs = failed(at_work, *"abcdefgh")
    told = at_work.redrive(task="fetch", canary=3)
    assert (told.sent, told.canary, told.held_back, told.ok) == (3, "failed", 5, False)
    # The first that fails decides; the other two end in their own time, and no other is sent.
    while sum(at_work.dead_letter(job.id).times for job in jobs) < 11:
        time.sleep(0.01)
    time.sleep(0.2)
    assert sum(at_work.dead_letter(job.id).times for job in jobs) == 11


def test_the_rest_stays_where_canaries_take_too_long(app, tmp_path):
    app.configure(url=f"sqlite:///{tmp_path}/jobs.db")
    claims = claimed(app.store, *(new_job("{}") for _ in range(4)))
    app.store.settle([ended(claim.token, Outcome.FAILED) for claim in claims])
    told = app.redrive(task="work", canary=2, canary_seconds=0.1)
    assert (told.sent, told.canary, told.held_back) == (2, "undecided", 2)
    assert app.store.counts()[State.FAILED] == 2
    app.close()


def test_canaries_are_of_as_many_kinds_as_may_be(at_work):
    failed(at_work, *"abcdef")
    asked(at_work, "ask", "small")
    while len(at_work.dead_letters()) < 7:
        time.sleep(0.01)
    BROKEN["now"] = False
    told = at_work.redrive(state="open", canary=2)
    tasks = {at_work.job(job_id).job().task for job_id in told.canaries}
    assert tasks == {"fetch", "ask"}


def test_a_letter_that_is_dealt_with_meanwhile_is_left(at_work, monkeypatch):
    """Between the look and the write somebody dismisses one."""
    BROKEN["now"] = True
    jobs = failed(at_work, "a", "b")
    store = at_work.store
    honest = store.redrive

    def late(redrives):
        store.dismiss([jobs[0].id], note="no")
        return honest(redrives)

    monkeypatch.setattr(store, "redrive", late)
    told = at_work.redrive(task="fetch")
    assert (told.sent, told.refused) == (1, 1)
    assert told.refusals[0].reason == "somebody has dismissed it meanwhile"
    assert at_work.dead_letter(jobs[0].id).state is LetterState.DISMISSED
