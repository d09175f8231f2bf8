"""All jobs that match: counting them, cancelling them, sending them again, on every store."""

import pytest

from seawall import ArgumentsError, Seawall, finding
from seawall.faults import Fault, FaultCode
from seawall.model import Lane, Outcome
from seawall.states import State
from seawall.store import LetterState
from seawall.store import finding as looks
from tests.support.ledger import claimed, ended, enqueued, new_job, wanted

MAIL = Lane(task="mail")


@pytest.fixture
def app(store, clock):
    app = Seawall("sqlite://")
    with app.replaced(store, clock, app.rng):
        yield app


@pytest.fixture
def near(monkeypatch):
    """A look goes no further than five jobs."""
    monkeypatch.setattr(looks, "LOOKED_AT", 5)
    monkeypatch.setattr(looks, "LOOKED_INTO", 5)
    monkeypatch.setattr(looks, "_LEAST_OF_A_LANE", 5)


def states(store, ids):
    found = store.jobs(ids)
    return [str(found[each].state) for each in ids]


def failed_by(store, *faults, **fields):
    claims = claimed(store, *(new_job(**fields) for _ in faults), limit=100)
    for claim, fault in zip(claims, faults, strict=True):
        store.settle([ended(claim.token, Outcome.FAILED, fault=fault)])
    return [claim.token.job_id for claim in claims]


TIMEOUT, GONE = Fault(FaultCode.TIMEOUT, "late"), Fault(FaultCode.NOT_FOUND, "gone")


# --- counting -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "most", "said"),
    [(0, 5, "0"), (4, 5, "4"), (5, 5, "5"), (6, 5, "5 or more"), (1_234, 2_000, "1,234")],
)
def test_a_count_is_exact_as_far_as_it_goes(store, app, there, most, said):
    if there:
        for start in range(0, there, 1_000):
            enqueued(store, *[new_job(lane=MAIL)] * min(1_000, there - start))
    enqueued(store)

    assert str(app.count_jobs(task="mail", most=most)) == said


def test_a_count_goes_on_over_looks_that_find_nothing(store, app, near):
    (far,) = enqueued(store, new_job('["needle"]'))
    enqueued(store, *[new_job()] * 40)

    assert app.count_jobs(argument="needle") == (1, True)
    assert far


def test_a_count_ends_after_so_many_looks_and_says_so(store, app, near):
    enqueued(store, new_job('["needle"]'))
    enqueued(store, *[new_job()] * 200)

    assert app.count_jobs(argument="needle") == (0, False)


@pytest.mark.parametrize("most", [0, -1, 1.5, True, 10**9])
def test_a_count_of_no_bound_is_refused(app, most):
    with pytest.raises(ArgumentsError, match=r"^most: "):
        app.count_jobs(most=most)


# --- cancelling -----------------------------------------------------------------------------------


def test_all_that_match_and_nothing_else_is_cancelled(store, app, near):
    hers = enqueued(store, *[new_job(owner="ann", tags=("t",))] * 13)
    (running,) = claimed(store, new_job(owner="ann"), limit=1)
    others = enqueued(store, *[new_job(owner="bob")] * 13)
    assert running.token.job_id == hers[0]

    told = app.cancel_all(owner="ann")

    assert (told.found, told.cancelled, told.stopping, told.ended) == (14, 13, 1, 0)
    assert told.whole
    assert set(states(store, hers[1:])) == {"cancelled"}
    assert store.jobs([hers[0]])[hers[0]].cancel_requested
    assert set(states(store, others)) == {"queued"}


def test_a_dry_run_counts_and_changes_nothing(store, app):
    ids = enqueued(store, *[new_job()] * 3)
    store.claim(wanted(1))

    told = app.cancel_all(task="work", dry_run=True)

    assert (told.found, told.cancelled, told.whole, told.dry_run) == (3, 0, True, True)
    assert sorted(states(store, ids)) == ["queued", "queued", "running"]


@pytest.mark.parametrize(("state", "left"), [("queued", "running"), ("running", "queued")])
def test_only_those_in_the_state_that_is_named_are_meant(store, app, state, left):
    ids = enqueued(store, *[new_job()] * 4)
    store.claim(wanted(2))

    told = app.cancel_all(state=state)

    assert (told.found, told.cancelled + told.stopping) == (2, 2)
    found = store.jobs(ids).values()
    untouched = [each for each in found if str(each.state) == left and not each.cancel_requested]
    assert len(untouched) == 2


def test_what_comes_after_the_beginning_is_left_alone(store, app, monkeypatch):
    old = enqueued(store, *[new_job()] * 3)
    real, new = store.find, []

    def find(which, **how):
        if which.state is State.QUEUED and not new:
            new.extend(enqueued(store, *[new_job()] * 3))
        return real(which, **how)

    monkeypatch.setattr(store, "find", find)
    told = app.cancel_all(task="work")

    assert told.found == 3
    assert set(states(store, old)) == {"cancelled"}
    assert set(states(store, new)) == {"queued"}


def test_one_that_begins_meanwhile_is_asked_to_stop_once(store, app, monkeypatch):
    ids = enqueued(store, *[new_job()] * 3)
    real = store.cancel

    def cancel(job_ids):
        store.claim(wanted(1))
        return real(job_ids)

    monkeypatch.setattr(store, "cancel", cancel)
    told = app.cancel_all(task="work")

    assert (told.found, told.cancelled, told.stopping) == (3, 2, 1)
    assert len(store.stopping("w1")) == 1
    assert len(ids) == 3


def test_so_many_at_a_time_and_then_it_is_said_that_there_are_more(store):
    enqueued(store, *[new_job()] * 7)

    first = finding.cancelled(store, {"task": "work"}, most=5)
    then = finding.cancelled(store, {"task": "work"}, most=5)

    assert (first.found, first.cancelled, first.whole) == (5, 5, False)
    assert (then.found, then.cancelled, then.whole) == (2, 2, True)


@pytest.mark.parametrize(
    ("line", "which"),
    [
        ("say which jobs", {}),
        ("state: found failed, expected queued or running", {"state": "failed"}),
        ("state: found 'bogus'", {"state": "bogus"}),
        ("no such filter: 'colour'", {"colour": "red"}),
        ("no fault code 'BOGUS'", {"fault": "BOGUS"}),
        ("argument: found", {"argument": "a\0"}),
    ],
)
def test_an_aim_that_is_none_is_refused_in_one_line(store, app, line, which):
    (job_id,) = enqueued(store)
    with pytest.raises(ArgumentsError, match=line) as refused:
        app.cancel_all(**which)
    assert "\n" not in str(refused.value)
    assert states(store, [job_id]) == ["queued"]


# --- sending again --------------------------------------------------------------------------------


def test_all_failed_jobs_that_match_are_sent_again(store, app, near):
    late = failed_by(store, *[TIMEOUT] * 7, tags=("night",))
    gone = failed_by(store, GONE, tags=("night",))
    other = failed_by(store, TIMEOUT)

    plan = app.redrive_all(tag="night", fault="TIMEOUT", dry_run=True)
    assert (plan.found, plan.sent, plan.dry_run) == (7, 0, True)
    told = app.redrive_all(tag="night", fault="TIMEOUT", by="olga")

    assert (told.found, told.sent, told.refused, told.whole) == (7, 7, 0, True)
    assert set(states(store, late)) == {"queued"}
    assert set(states(store, gone + other)) == {"failed"}
    assert store.letters_of(late)[late[0]].handled_by == "olga"


def test_what_somebody_has_dismissed_is_left_alone(store, app):
    ids = failed_by(store, TIMEOUT, TIMEOUT, GONE)
    store.dismiss(ids[:1], note="no")

    told = app.redrive_all(state="failed")

    assert (told.found, told.sent) == (2, 2)
    assert store.letters_of(ids)[ids[0]].state is LetterState.DISMISSED
    assert states(store, ids) == ["failed", "queued", "queued"]


def test_the_oldest_are_due_first_at_a_rate(store, app, clock):
    ids = []
    for _ in range(3):
        clock.advance(1)
        ids += failed_by(store, TIMEOUT)

    app.redrive_all(task="work", rate=1)

    found = store.jobs(ids)
    waits = [(found[each].due_at - clock.now()).total_seconds() for each in ids]
    assert waits == [0, 1, 2]


def test_more_than_one_redrive_sends_is_said(store, app, monkeypatch):
    monkeypatch.setattr(finding, "MOST_SENT", 2)
    failed_by(store, TIMEOUT, TIMEOUT, TIMEOUT)

    told = [app.redrive_all(task="work") for _ in range(3)]

    assert [(each.found, each.sent, each.whole) for each in told] == [
        (2, 2, False), (1, 1, True), (0, 0, True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "how"),
    [
        ("say which jobs", {"dry_run": True}),
        ("expected failed", {"state": "queued"}),
        ("rate: ", {"task": "work", "rate": -1}),
    ],
)
def test_a_redrive_that_makes_no_sense_is_refused(store, app, line, how):
    failed_by(store, TIMEOUT)
    with pytest.raises(ArgumentsError, match=line):
        app.redrive_all(**how)
