"""Why a job is not running now: every case, in words that say what to do."""

from datetime import timedelta

import pytest

from seawall import (
    Backoff,
    Breaker,
    FaultError,
    Limits,
    Policy,
    RetryBudget,
    Rule,
    Seawall,
    Snooze,
    State,
    Upstream,
    Why,
)
from seawall.decisions import gate as gates
from seawall.decisions import gate_text
from seawall.decisions.breaker import AskedToWait
from seawall.store import Presence, Scope, Wanted
from seawall.testing import in_memory
from seawall.upstreams import settle_down
from seawall.why import ALIVE_SECONDS, span, times

FIXED = Backoff(curve="fixed", base_seconds=90.0, jitter="none")
PATIENT = Policy(name="patient", max_attempts=3, rules=(Rule(on="all", backoff=FIXED),))


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Seawall()


@pytest.fixture
def world(app):
    with in_memory(app) as world:
        yield world


@pytest.fixture
def task(app):
    steps = []

    @app.task(name="t", policy=PATIENT, upstream="openai")
    def handler():
        for step in steps:
            raise step

    handler.steps = steps
    return handler


def appear(world, *, worker="w-1", queues=None, tasks=("t",), **more):
    facts = {"host": "h", "pid": 1, "version": "1", "concurrency": 2, **more}
    world.store.appear(Presence(worker=worker, queues=queues, tasks=tuple(tasks), **facts))


def lines(world, job):
    """The lines of the answer, each whole and none twice."""
    answer = world.app.why(job.id)
    assert isinstance(answer, Why)
    assert (answer.job_id, answer.state) == (job.id, job.state)
    assert str(answer).splitlines() == list(answer.lines)
    assert len(set(answer.lines)) == len(answer.lines)
    assert all(line[0].isupper() and "  " not in line for line in answer.lines)
    return list(answer.lines)


# ── Queued ───────────────────────────────────────────────────────────────────────────────────────


def test_a_job_that_is_due_will_begin_as_soon_as_a_worker_has_a_free_slot(world, task):
    job = task.enqueue()
    appear(world)
    world.clock.advance(2)
    assert lines(world, job) == [
        "It is queued.",
        (
            "It is due since 2.0 s and will begin as soon as a worker has a free slot: all that serve"
            " it are busy, or are about to take it."
        ),
    ]


def test_a_job_that_was_asked_for_later_says_until_when(world, task):
    job = task.using(run_after=timedelta(hours=3)).enqueue()
    appear(world)
    assert lines(world, job) == [
        "It is queued.",
        (
            "It is due in 3 h, at 2026-01-01 03:00:00 UTC: whoever asked for it wanted it not before"
            " then."
        ),
    ]


def test_a_job_that_will_be_tried_again_says_what_its_last_attempt_came_to(world, task):
    task.steps.append(TimeoutError("slow"))
    job = task.enqueue()
    appear(world)
    world.work()
    first, second = lines(world, job)
    assert first == "It is queued."
    assert second.startswith("It is due in 90 s, at 2026-01-01 00:01:30 UTC: its last attempt came")
    assert "TIMEOUT" in second
    assert second.endswith("(tries used: 1 of 3).")


def test_a_job_of_a_task_that_is_not_known_here_says_its_tries_without_their_most(world, task):
    task.steps.append(TimeoutError("slow"))
    job = task.enqueue()
    appear(world)
    world.work()
    world.app.tasks.clear()
    assert lines(world, job)[1].endswith("(tries used: 1).")


def test_a_job_whose_workers_were_lost_says_how_many(world, task):
    job = task.enqueue()
    world.store.claim(Wanted("w-1", None, ("t",), 1, 10.0))
    world.advance(11)
    appear(world)
    found = job.job()
    assert (found.state, found.losses) == (State.QUEUED, 1)
    if found.due_at > world.now:
        assert "WORKER_LOST" in lines(world, job)[1]
        assert lines(world, job)[1].endswith("(tries used: 0 of 3, lost 1 worker).")
    else:
        assert len(lines(world, job)) == 2


def test_a_snoozed_job_says_so(world, task):
    task.steps.append(Snooze(30))
    job = task.enqueue()
    appear(world)
    world.work()
    assert lines(world, job)[1] == (
        "It is due in 30 s, at 2026-01-01 00:00:30 UTC: its handler snoozed it, or called what could"
        " not be called then."
    )


def test_a_redriven_job_does_not_blame_its_earlier_life(world, task):
    task.steps.append(TimeoutError("slow"))
    job = task.enqueue()
    world.drain()
    assert job.state is State.FAILED
    world.app.retry(job.id)
    appear(world)
    assert not any("TIMEOUT" in line for line in lines(world, job))


def test_a_paused_queue_is_named_with_the_command_that_resumes_it(world, task):
    job = task.enqueue()
    appear(world)
    world.app.pause("default", reason="deploy")
    assert lines(world, job) == [
        "It is queued.",
        (
            "The queue default is held (deploy), until somebody resumes it: seawall queues resume"
            " default."
        ),
    ]


@pytest.mark.parametrize(("scope", "name"), [(Scope.TASK, "t"), (Scope.UPSTREAM, "openai")])
def test_a_held_task_or_upstream_is_named_with_its_end(world, task, scope, name):
    job = task.enqueue()
    appear(world)
    world.store.hold(scope, name, reason="429", seconds=300)
    assert lines(world, job)[1] == (
        f"The {scope} {name} is held (429), for another 5 min; its jobs go on by themselves then."
    )
    world.store.hold(scope, name, reason="by hand")
    command = ": seawall resume openai" if scope is Scope.UPSTREAM else ""
    assert lines(world, job)[1] == (
        f"The {scope} {name} is held (by hand), until somebody resumes it{command}."
    )


def test_every_hold_that_matters_is_named_and_no_other(world, task):
    job = task.enqueue()
    appear(world)
    for scope, name in (
        (Scope.QUEUE, "default"), (Scope.UPSTREAM, "openai"), (Scope.QUEUE, "other"), (Scope.TASK, "other"),
        (Scope.UPSTREAM, "t"),
    ):  # fmt: skip
        world.store.hold(scope, name, reason="r")
    assert len(lines(world, job)) == 3


def test_a_passed_deadline_is_told_first(world, task):
    job = task.using(deadline=timedelta(seconds=5)).enqueue()
    appear(world)
    world.clock.advance(6)
    assert lines(world, job)[1] == (
        "Its deadline has passed: it will be failed as EXPIRED at the next upkeep."
    )


def test_where_no_worker_is_alive_it_says_how_to_start_one(world, task):
    job = task.enqueue()
    alone = [
        "It is queued.",
        "No worker is alive: start one that serves its queue, default, with `seawall worker --app MODULE:APP`.",
    ]
    assert lines(world, job) == alone
    appear(world)
    assert lines(world, job) != alone
    world.clock.advance(ALIVE_SECONDS + 1)
    assert lines(world, job) == alone


def test_a_worker_that_stops_is_not_counted_on(world, task):
    job = task.enqueue()
    appear(world, stopping=True)
    assert "No worker is alive" in lines(world, job)[1]


def test_where_nobody_serves_its_queue_it_says_so(world, task):
    job = task.using(queue="reports").enqueue()
    appear(world, queues=("default", "mail"))
    assert lines(world, job) == [
        "It is queued.",
        "No worker serves its queue, reports, of the 1 that are alive: start one with --queues reports.",
    ]


def test_where_nobody_knows_its_task_it_says_so(world, task):
    job = task.enqueue()
    appear(world, tasks=("other",))
    appear(world, worker="w-2", tasks=("another",))
    appear(world, worker="w-3", tasks=("t",), queues=("elsewhere",))
    assert lines(world, job) == [
        "It is queued.",
        (
            "No worker of its queue, of the 2 that are alive, knows the task t: start one whose application"
            " declares it."
        ),
    ]


def test_where_all_slots_have_been_taken_for_a_while_it_says_so(world, task):
    job = task.enqueue()
    world.clock.advance(60)
    appear(world, concurrency=2, running=2)
    appear(world, worker="w-2", concurrency=1_500, running=1_500)
    assert lines(world, job) == [
        "It is queued.",
        (
            "It is due since 60 s, but all 1,502 slots of the 2 workers that serve it are taken: add"
            " workers, or raise --concurrency."
        ),
    ]


def test_where_a_slot_is_free_it_does_not_speak_of_slots(world, task):
    job = task.enqueue()
    world.clock.advance(60)
    appear(world, concurrency=2, running=1)
    assert "slots" not in lines(world, job)[1]


def test_a_job_for_later_that_nobody_will_serve_says_both(world, task):
    job = task.using(run_after=timedelta(hours=1)).enqueue()
    found = lines(world, job)
    assert len(found) == 3
    assert "due in 60 min" in found[1]
    assert "No worker is alive" in found[2]


# ── Upstreams ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def decide(world):
    """Change what the fleet knows of the upstream, as a worker does."""

    def change(step, name="openai"):
        upstream = world.app.upstreams.of(name)
        with world.store.govern(name, wait=True) as desk:
            now = desk.now.timestamp()
            settle_down(desk, upstream, step(upstream, gate_text.read(desk.state), now))

    return change


def failing(upstream, gate, now):
    seen = [gates.Seen(worker, int(now), 9, 0, 9, 0, 0) for worker in ("w-1", "w-2")]
    return gates.watched(upstream, gate, seen, 2, now)


def begun(count, *, holder="w-9", owner="", retries=0):
    return lambda upstream, gate, now: gates.begun(
        upstream, gate, holder, {owner: count}, now, retries=retries, probes=(), hold_seconds=60.0
    )


def declared(world, **said):
    world.app.upstream(Upstream("openai", **said))


def test_what_a_person_holds_is_told_with_the_reason_the_end_and_the_command(world, task):
    job = task.enqueue()
    appear(world)
    world.app.upstreams.hold("openai", seconds=600, why="maintenance")
    assert lines(world, job) == [
        "It is queued.",
        (
            "Its upstream openai is held by hand (maintenance), for another 10 min; its jobs go on by"
            " themselves then, and no attempt of theirs is used up. To let them go on now: seawall resume"
            " openai"
        ),
    ]
    world.app.upstreams.hold("openai")
    assert lines(world, job)[1] == (
        "Its upstream openai is held by hand, until somebody resumes it, and no attempt of theirs is used"
        " up. To let them go on now: seawall resume openai"
    )


def test_an_upstream_that_its_breaker_holds_is_told_with_what_comes_then(world, task, decide):
    declared(world, breaker=Breaker(open=FIXED))
    job = task.enqueue()
    appear(world)
    decide(failing)
    assert lines(world, job) == [
        "It is queued.",
        (
            "Its upstream openai is held (its calls fail), for another 90 s: then it is probed, and once it"
            " is well its jobs go on by themselves. Meanwhile no attempt of theirs is used up."
        ),
    ]
    world.clock.advance(90)
    assert lines(world, job)[1] == (
        "Its upstream openai was held (its calls fail) and is being probed, with one call at a time: once"
        " it is well its jobs go on by themselves. Meanwhile no attempt of theirs is used up."
    )


def test_whoever_asked_for_time_is_given_it_and_many_probes_are_many(world, task, decide):
    declared(world, breaker=Breaker(probes=3))
    job = task.enqueue()
    appear(world)
    decide(lambda upstream, gate, now: gates.heard(upstream, gate, AskedToWait(3_000), now))
    assert "is held (it asked to be left alone), for another 5" in lines(world, job)[1]
    world.clock.advance(4_000)
    appear(world)
    assert "being probed, with 3 calls at a time" in lines(world, job)[1]


def test_a_job_for_later_is_told_of_a_held_upstream_and_of_no_limit(world, task, decide):
    declared(world, concurrency=1)
    job = task.using(run_after=timedelta(hours=3)).enqueue()
    appear(world)
    decide(begun(1))
    assert len(lines(world, job)) == 2
    world.app.upstreams.hold("openai")
    held, later = lines(world, job)[1:]
    assert held.startswith("Its upstream openai is held by hand")
    assert later.startswith("It is due in 3 h")


def test_an_upstream_that_is_let_go_again_says_how_much(world, task):
    job = task.enqueue()
    appear(world)
    world.app.upstreams.hold("openai")
    world.app.upstreams.resume("openai")
    world.clock.advance(10)
    assert lines(world, job)[1] == (
        "Its upstream openai was held, and its jobs are let go little by little: 40% of the usual now,"
        " all of it within 30 s."
    )
    world.clock.advance(20)
    assert "Its upstream" not in lines(world, job)[1]


def test_one_that_is_forced_closed_keeps_nobody_waiting(world, task, decide):
    job = task.enqueue()
    appear(world)
    decide(failing)
    world.app.upstreams.force("openai", "closed")
    assert "Its upstream" not in str(world.app.why(job.id))


def test_a_limit_that_is_used_up_is_named_with_the_time_it_goes_on(world, task, decide):
    declared(world, concurrency=20, per_minute={"requests": 31, "tokens": 200_000})
    job = task.enqueue()
    appear(world)
    assert "Its upstream" not in str(world.app.why(job.id))
    decide(begun(1))
    assert lines(world, job) == [
        "It is queued.",
        (
            "Its upstream openai has used up its requests, 31 a minute: there is room again in 1.0 s, and"
            " this job begins when its turn has come."
        ),
    ]
    world.clock.advance(10)
    assert "Its upstream" not in str(world.app.why(job.id))


def test_places_that_are_all_taken_are_counted(world, task, decide):
    declared(world, concurrency=2)
    job = task.enqueue()
    appear(world)
    decide(begun(2))
    assert lines(world, job)[1] == (
        "Its upstream openai has 2 calls under way, which is all that it may: this job begins when one of"
        " them has ended and its turn has come."
    )
    world.clock.advance(61)
    assert "Its upstream" not in str(world.app.why(job.id))


def test_an_owners_limit_is_told_to_that_owner_and_to_nobody_else(world, task, decide):
    declared(world, each_owner=Limits(concurrency=1))
    ann, bob = (task.using(owner=name).enqueue() for name in ("ann", "bob"))
    appear(world)
    decide(begun(1, owner="ann"))
    assert lines(world, ann)[1] == (
        "Its owner ann, at openai, has 1 call under way, which is all that it may: this job begins when"
        " one of them has ended and its turn has come."
    )
    assert "under way" not in str(world.app.why(bob.id))


def test_a_retry_whose_budget_is_used_up_says_so_and_a_first_call_does_not(world, task, decide):
    declared(world, retry_budget=RetryBudget(share=0.1, floor_per_second=0.5))
    task.steps.append(TimeoutError("slow"))
    job = task.enqueue()
    world.work()
    task.steps.clear()
    world.clock.advance(100)
    appear(world)
    assert "budget" not in str(world.app.why(job.id))
    decide(begun(30, retries=30))
    assert lines(world, job)[1] == (
        "The retry budget of its upstream openai is used up (10% of the first calls of 60 s, and 0.5 a"
        " second): first calls go on, and it is tried again as soon as there is room. That uses up no"
        " attempt."
    )
    assert "budget" not in str(world.app.why(task.enqueue().id))
    world.clock.advance(61)
    assert "budget" not in str(world.app.why(job.id))


def test_an_upstream_without_a_budget_has_none_to_use_up(world, task, decide):
    declared(world, retry_budget=None)
    task.steps.append(TimeoutError("slow"))
    job = task.enqueue()
    world.work()
    world.clock.advance(100)
    decide(begun(500, retries=500))
    assert "budget" not in str(world.app.why(job.id))


# ── Running ──────────────────────────────────────────────────────────────────────────────────────


def test_a_running_job_says_where_and_for_how_long(world, task):
    job = task.enqueue()
    world.store.claim(Wanted("w-1", None, ("t",), 1, 600.0))
    world.clock.advance(150)
    assert lines(world, job) == ["It is running, for 2 min, on the worker w-1 (attempt 1 in all)."]


def test_a_job_that_is_called_now_says_when_workers_take_it_if_its_caller_died(world, task):
    job = task.enqueue()
    world.store.claim(Wanted("inline:w-1", None, ("t",), 1, 35.0))
    world.clock.advance(5)
    where, until = lines(world, job)
    assert where == "It is running, for 5.0 s, called now, as inline:w-1 (attempt 1 in all)."
    assert until == (
        "Its caller waits for it. Should the caller have died, workers take it in 30 s, when its"
        " lease lapses."
    )


def test_a_running_job_that_is_to_stop_says_so(world, task):
    job = task.enqueue()
    world.store.claim(Wanted("w-1", None, ("t",), 1, 600.0))
    job.cancel()
    assert lines(world, job)[1] == "It was asked to stop, and its worker has not done so yet."


def test_a_job_whose_worker_is_silent_says_since_when(world, task):
    job = task.enqueue()
    world.store.claim(Wanted("w-1", None, ("t",), 1, 10.0))
    world.clock.advance(25)
    assert lines(world, job)[1] == (
        "Its lease lapsed 15 s ago: its worker was not heard of since; whichever worker looks next"
        " will take it back."
    )


# ── Ended ────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_that_is_done_says_that_nothing_is_left_to_do(world, task):
    job = task.enqueue()
    world.drain()
    world.clock.advance(86_400 * 3)
    assert lines(world, job) == ["It succeeded 3 days ago: there is nothing left to do."]


def test_a_cancelled_job_says_so(world, task):
    job = task.enqueue()
    job.cancel()
    assert lines(world, job)[0].startswith("It was cancelled ")


def test_a_failed_job_says_why_by_which_policy_and_how_to_send_it_again(world, task):
    task.steps.append(TimeoutError("slow"))
    job = task.enqueue()
    world.drain()
    first, second, third, fourth = lines(world, job)
    assert first.startswith("It failed 0.0 s ago, after 3 attempts: TIMEOUT")
    assert second == f"The policy {PATIENT.id} gave it no further attempt; tries used: 3 of 3."
    assert third == f"To send it again: seawall redrive {job.id}"
    assert fourth == f'To be done with it: seawall dismiss {job.id} --note "…"'


def test_a_failed_job_says_how_many_failed_alike_and_that_it_came_back(world, task):
    task.steps += [TimeoutError("slow")]
    jobs = [task.enqueue() for _ in range(3)]
    world.drain()
    group = world.app.dead_letter(jobs[0].id).fingerprint
    assert (
        f"It is not alone: 2 others failed alike. To send them all again: seawall redrive --group"
        f" {group} --canary 5" in lines(world, jobs[0])
    )
    world.app.redrive(jobs[0].id)
    world.drain()
    assert "It has come back: it failed for good 2 times." in lines(world, jobs[0])


def test_a_dismissed_job_says_by_whom_and_why(world, task):
    task.steps.append(TimeoutError("slow"))
    job = task.enqueue()
    world.drain()
    world.app.dismiss(job.id, note="a test file", by="ann")
    told = lines(world, job)
    assert "It was dismissed 0.0 s ago by ann: a test file" in told
    assert told[-1] == f"To send it again all the same: seawall redrive {job.id}"


def test_a_job_that_expired_unbegun_says_so(world, task):
    job = task.using(deadline=timedelta(seconds=5)).enqueue()
    world.advance(6)
    found = lines(world, job)
    assert job.state is State.FAILED
    assert "EXPIRED" in found[0]
    assert f"To send it again: seawall redrive {job.id}" in found


@pytest.mark.parametrize("told", [{"only": "ann"}, {"commands": False}])
def test_who_cannot_run_commands_is_told_none(world, task, told):
    task.steps.append(TimeoutError("slow"))
    failed = task.using(owner="ann").enqueue()
    task.using(owner="ann").enqueue()
    world.drain()
    task.steps.clear()
    waiting = task.using(owner="ann").enqueue()
    world.app.pause("default")
    world.app.upstreams.hold("api")

    for job in (failed, waiting):
        full = " ".join(world.app.why(job.id).lines)
        words = " ".join(world.app.why(job.id, **told).lines)
        assert "seawall " in full
        assert "seawall " not in words
        assert "--" not in words
        assert words[-1] in ".…)"


# ── Words ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("seconds", "words"), [
    (-5, "0.0 s"), (0, "0.0 s"), (0.04, "0.0 s"), (9.94, "9.9 s"), (10, "10 s"), (119, "119 s"), (120, "2 min"),
    (7_199, "120 min"), (7_200, "2 h"), (47 * 3_600, "47 h"), (48 * 3_600, "2 days"), (400 * 86_400, "400 days"),
])  # fmt: skip
def test_a_span_is_said_as_people_say_it(seconds, words):
    assert span(timedelta(seconds=seconds)) == words


@pytest.mark.parametrize(("count", "words"), [(0, "0 jobs"), (1, "1 job"), (2_000, "2,000 jobs")])
def test_one_is_one_and_many_are_many(count, words):
    assert times(count, "job") == words


def test_a_fault_that_its_policy_does_not_retry_is_named(world, app):
    @app.task(policy="llm-reports")
    def refused() -> None:
        raise FaultError("UNAUTHORIZED", "the key was refused")

    job = refused.enqueue()
    world.drain()
    assert lines(world, job)[1] == f"The policy {refused.policy.id} does not retry UNAUTHORIZED."
