"""A job's life as a picture: what each wait was for, told apart as far as history tells."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from seawall.faults import Fault, FaultCode
from seawall.model import Attempt, Job, Lease, Outcome
from seawall.states import State
from seawall.store import DeadLetter, LetterState, PhaseSpan, UpstreamPhase
from seawall.web.pages.life import MOST_DRAWN, Known, bits_of, life_of

BEGAN = datetime(2026, 11, 15, 12, tzinfo=UTC)
TIMEOUT = Fault(FaultCode.TIMEOUT, "no answer")


def at(minutes):
    return BEGAN + timedelta(minutes=minutes)


def job(state=State.QUEUED, **fields):
    usual = {"id": 7, "task": "fetch", "created_at": BEGAN, "due_at": BEGAN, "upstream": "api"}
    if state is State.RUNNING:
        usual["lease"] = Lease(7, 1, "w9", at(1_000_000))
    if state in (State.FAILED, State.SUCCEEDED):
        usual["finished_at"] = at(1_000)
    return Job(state=state, **{**usual, **fields})


def attempt(seq, begin, end, outcome=Outcome.SUCCEEDED, **fields):
    fault = TIMEOUT if outcome in (Outcome.RETRIED, Outcome.FAILED) else None
    return Attempt(
        job_id=7, seq=seq, worker="w1", started_at=at(begin), finished_at=at(end),
        outcome=outcome, fault=fault, **fields,
    )  # fmt: skip


def letter(handled):
    return DeadLetter(
        job_id=7, state=LetterState.REDRIVEN, task="fetch", queue="default", stage=0,
        upstream="api", owner=None, run=None, fault=TIMEOUT, fingerprint="f", first_at=BEGAN,
        last_at=BEGAN, attempts=1, times=1, handled_at=at(handled),
    )  # fmt: skip


def told(one, attempts=(), now=0, **known):
    """The pieces, as (what, minutes, title)."""
    return [
        (bit.what, round(bit.seconds / 60, 3), bit.title)
        for bit in bits_of(one, list(attempts), Known(**known), at(now))
    ]


def test_a_job_that_is_due_later_is_not_said_to_wait_for_a_worker():
    assert told(job(due_at=at(60)), now=30) == [
        ("later", 30, "waited 30 min: it was not to begin before that")
    ]
    assert told(job(due_at=at(60)), now=61) == [
        ("later", 60, "waited 1 h: it was not to begin before that"),
        ("wait", 1, "waited 60 s for a worker"),
    ]


def test_one_that_ran_when_it_was_due_waited_for_its_time_and_not_for_a_worker():
    done = job(State.SUCCEEDED, seq=1, due_at=at(60))

    first, second, ran = told(done, [attempt(1, 61, 62)], now=100)

    assert first[:2] == ("later", 60)
    assert second[:2] == ("wait", 1)
    assert ran[0] == "attempt"


def test_one_that_lay_failed_is_not_said_to_have_waited():
    attempts = [attempt(1, 0, 1, Outcome.FAILED), attempt(2, 2_882, 2_883, cycle=1)]
    done = job(State.SUCCEEDED, seq=2, cycle=1, due_at=at(2_881))

    pieces = told(done, attempts, now=3_000, letter=letter(2_881))

    assert [each[:2] for each in pieces] == [
        ("attempt", 1), ("wait", 2_880), ("wait", 1), ("attempt", 1),
    ]  # fmt: skip
    assert "lay failed" in pieces[1][2]
    assert "until it was redriven" in pieces[1][2]
    assert pieces[2][2] == "waited 60 s for a worker"


def test_of_an_older_redrive_nobody_knows_when_and_it_is_said_so():
    attempts = [
        attempt(1, 0, 1, Outcome.FAILED),
        attempt(2, 100, 101, Outcome.FAILED, cycle=1),
        attempt(3, 202, 203, cycle=2),
    ]
    done = job(State.SUCCEEDED, seq=3, cycle=2, due_at=at(201))

    pieces = told(done, attempts, now=300, letter=letter(201))

    assert pieces[1] == (
        "wait",
        99,
        "lay failed, for 1 h 39 min, until it was redriven and begun",
    )
    assert pieces[3][1] == 100


def test_the_delay_of_a_policy_is_told_apart_from_the_wait_for_a_worker():
    attempts = [attempt(1, 0, 1, Outcome.RETRIED, delay_seconds=300.0)]

    pieces = told(job(seq=1, due_at=at(6)), attempts, now=10)

    assert [each[:2] for each in pieces] == [("attempt", 1), ("delay", 5), ("wait", 4)]
    assert pieces[1][2] == "waited 5 min by its policy"
    early = told(job(seq=1, due_at=at(6)), attempts, now=3)
    assert [each[:2] for each in early] == [("attempt", 1), ("delay", 2)]


def test_holds_of_its_upstream_are_shown_apart_from_waiting():
    phases = [
        PhaseSpan(UpstreamPhase.CLOSED, at(-60), at(5)),
        PhaseSpan(UpstreamPhase.OPEN, at(5), at(15)),
        PhaseSpan(UpstreamPhase.HALF_OPEN, at(15), at(16)),
        PhaseSpan(UpstreamPhase.CLOSED, at(16), at(20)),
        PhaseSpan(UpstreamPhase.HELD, at(20), None),
    ]

    pieces = told(job(), now=30, phases=phases)

    assert [each[:2] for each in pieces] == [
        ("wait", 5), ("held", 10), ("held", 1), ("wait", 4), ("held", 10),
    ]  # fmt: skip
    assert "while its upstream was held, and no attempt was used up" in pieces[1][2]
    assert "being tried" in pieces[2][2]
    assert "by hand" in pieces[4][2]


def test_a_hold_counts_from_when_the_job_was_due():
    phases = [PhaseSpan(UpstreamPhase.OPEN, at(0), None)]

    assert [each[:2] for each in told(job(due_at=at(10)), now=30, phases=phases)] == [
        ("later", 10), ("held", 20),
    ]  # fmt: skip


def test_what_an_earlier_stage_waited_for_is_not_laid_to_the_upstream_of_a_later_one():
    phases = [PhaseSpan(UpstreamPhase.OPEN, at(-60), None)]
    one = job(stage=1, seq=1, due_at=at(10))

    pieces = told(one, [attempt(1, 8, 10, Outcome.ADVANCED)], now=20, phases=phases)

    assert [each[0] for each in pieces] == ["wait", "attempt", "held"]


def test_workers_are_named_to_those_who_may_know_them():
    attempts = [attempt(1, 0, 1, Outcome.RETRIED, delay_seconds=60.0)]
    running = job(State.RUNNING, seq=1, last_attempt_at=at(2))

    shown = list(bits_of(running, attempts, Known(), at(5)))
    assert shown[0].title == "attempt 1, 60 s, on w1: retried, TIMEOUT: no answer"
    assert (shown[0].label, shown[0].longer) == ("1 · TIMEOUT", "1 · TIMEOUT · w1")
    assert shown[-1].title == "attempt 2 runs, for 3 min, on w9"
    hidden = list(bits_of(running, attempts, Known(names_workers=False), at(5)))
    assert not any("w1" in bit.title + bit.longer or "w9" in bit.title for bit in hidden)


def test_the_picture_has_a_name_and_the_last_attempts():
    attempts = [
        attempt(seq, seq, seq + 0.5, Outcome.RETRIED, delay_seconds=30.0)
        for seq in range(1, MOST_DRAWN + 11)
    ]
    one = job(seq=len(attempts), due_at=at(100))

    life = life_of(one, attempts, Known(stages=["fetch"]), at(50))

    assert life.hidden == 10
    assert f"The life of job 7: {MOST_DRAWN + 10} attempts, queued now" in life.picture
    assert life_of(replace(one, seq=0), [], Known(), at(1)).hidden == 0
