"""`hold`, `resume` and `holds`: what is held waits, and nothing else happens to it."""

from datetime import timedelta

import pytest

from seawall.model import Lane
from seawall.states import State
from seawall.store import open_store
from seawall.store.values import Hold, Release, Scope
from tests.support.kinds import shared
from tests.support.ledger import claimed, ended, enqueued, new_job, wanted

LANE = Lane(task="work", queue="default", upstream="openai")
SCOPES = [(Scope.QUEUE, "default"), (Scope.TASK, "work"), (Scope.UPSTREAM, "openai")]


def _hold(store, scope=Scope.TASK, name="work", **how):
    store.hold(scope, name, **{"reason": "too many 529", **how})


@pytest.mark.parametrize(("scope", "name"), SCOPES)
def test_what_is_held_is_not_claimed_until_it_is_resumed(store, clock, scope, name):
    (job_id,) = enqueued(store, new_job(lane=LANE))
    before = store.jobs([job_id])

    _hold(store, scope, name)
    clock.advance(10**9)
    assert store.claim(wanted()) == []
    assert store.jobs([job_id]) == before

    assert store.resume(scope, name) is True
    assert [claim.token.job_id for claim in store.claim(wanted())] == [job_id]


@pytest.mark.parametrize(("scope", "name"), SCOPES)
def test_only_what_it_names_is_held(store, scope, name):
    others = [
        Lane(task="work", queue="other", upstream=""),
        Lane(task="other", queue="default", upstream=""),
        Lane(task="other", queue="other", upstream="openai"),
        Lane(task="openai", queue="work", upstream="default"),
    ]
    ids = dict(
        zip(
            [LANE, *others],
            enqueued(store, *(new_job(lane=x) for x in [LANE, *others])),
            strict=True,
        )
    )
    _hold(store, scope, name)

    everything = wanted(tasks=("work", "other", "openai"), queues=("default", "other", "work"))
    taken = {claim.token.job_id for claim in store.claim(everything)}

    assert taken == {job_id for lane, job_id in ids.items() if getattr(lane, scope) != name}


@pytest.mark.parametrize(("scope", "name"), SCOPES)
def test_lanes_made_after_the_hold_are_held_too(store, scope, name):
    _hold(store, scope, name)

    enqueued(store, new_job(lane=LANE), new_job(lane=Lane(**{**_fields(LANE), "priority": 9})))

    assert store.claim(wanted()) == []


def _fields(lane):
    return {name: getattr(lane, name) for name in ("task", "queue", "upstream")}


@shared
def test_a_hold_of_one_store_holds_every_store(store, url, kind, clock):
    enqueued(store)
    with open_store(url, clock=clock) as other:
        _hold(other)

        assert store.claim(wanted()) == other.claim(wanted()) == []
        assert store.holds() == other.holds()


def test_a_hold_touches_nothing_that_runs(store):
    (claim,) = claimed(store)

    _hold(store)

    assert store.renew([claim.token], lease_seconds=60)[0].state is State.RUNNING
    assert store.settle([ended(claim.token)])[0].state is State.SUCCEEDED


def test_what_is_handed_back_is_held_like_the_rest(store):
    (claim,) = claimed(store)
    _hold(store)
    store.release([Release(token=claim.token)])

    assert store.claim(wanted()) == []


def test_what_two_holds_hold_waits_for_both(store):
    (job_id,) = enqueued(store, new_job(lane=LANE))
    _hold(store, Scope.TASK, "work")
    _hold(store, Scope.UPSTREAM, "openai")

    assert store.resume(Scope.TASK, "work") is True
    assert store.claim(wanted()) == []
    assert store.resume(Scope.UPSTREAM, "openai") is True
    assert [claim.token.job_id for claim in store.claim(wanted())] == [job_id]


def test_a_hold_ends_by_itself_when_its_time_is_there(store, clock):
    (job_id,) = enqueued(store)
    _hold(store, seconds=10)

    clock.advance(9.999999)
    assert store.claim(wanted()) == []
    assert len(store.holds()) == 1
    clock.advance(0.000001)
    assert store.holds() == []
    assert [claim.token.job_id for claim in store.claim(wanted())] == [job_id]


def test_the_longest_hold_can_be_told(store, clock):
    _hold(store, seconds=1e10)

    assert [hold.until for hold in store.holds()] == [clock.now() + timedelta(seconds=1e10)]


def test_a_hold_of_no_time_holds_nothing(store):
    enqueued(store)
    _hold(store, seconds=0)

    assert store.holds() == []
    assert len(store.claim(wanted())) == 1


def test_a_later_hold_of_the_same_name_replaces_the_earlier(store, clock):
    enqueued(store)
    _hold(store, reason="first")
    clock.advance(5)

    _hold(store, reason="second", seconds=10)

    until = clock.now() + timedelta(seconds=10)
    assert store.holds() == [
        Hold(scope=Scope.TASK, name="work", reason="second", since=clock.now(), until=until)
    ]
    clock.advance(10)
    assert len(store.claim(wanted())) == 1


def test_a_hold_that_has_ended_can_be_made_anew(store, clock):
    enqueued(store)
    _hold(store, seconds=1)
    clock.advance(1)

    _hold(store)

    assert store.claim(wanted()) == []


def test_resuming_what_is_not_held_is_false(store, clock):
    assert store.resume(Scope.TASK, "work") is False
    _hold(store, Scope.QUEUE, "work")
    assert store.resume(Scope.TASK, "work") is False
    assert store.resume(Scope.QUEUE, "work") is True
    assert store.resume(Scope.QUEUE, "work") is False


def test_resuming_what_has_ended_by_itself_is_false(store, clock):
    _hold(store, seconds=10)
    clock.advance(10)

    assert store.resume(Scope.TASK, "work") is False


def test_every_hold_in_force_is_told_with_its_reason(store, clock):
    now, later = clock.now(), clock.now() + timedelta(hours=1)
    given = [
        Hold(scope=Scope.QUEUE, name="日本", reason="🌊 storm", since=now, until=None),
        Hold(scope=Scope.TASK, name="work", reason="slow", since=now, until=later),
        Hold(scope=Scope.UPSTREAM, name="openai", reason="down", since=now, until=None),
        Hold(scope=Scope.UPSTREAM, name="work", reason="down", since=now, until=None),
    ]
    for hold in reversed(given):
        seconds = None if hold.until is None else 3_600
        store.hold(hold.scope, hold.name, reason=hold.reason, seconds=seconds)

    assert store.holds() == given


def test_nothing_is_held_at_first(store):
    assert store.holds() == []


@pytest.mark.parametrize("name", ["", " ", "a\0b", "\ud800", "x" * 201])
@pytest.mark.parametrize("field", ["name", "reason"])
def test_a_hold_must_say_what_and_why(store, field, name):
    with pytest.raises(ValueError, match=field):
        _hold(store, **{field: name})

    assert store.holds() == []


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e11])
def test_a_hold_must_last_a_span_of_time(store, seconds):
    with pytest.raises(ValueError, match="seconds"):
        _hold(store, seconds=seconds)

    assert store.holds() == []


def test_a_hold_of_nothing_that_can_be_held_is_refused(store):
    with pytest.raises(ValueError, match="owner"):
        _hold(store, "owner")
    with pytest.raises(ValueError, match="owner"):
        store.resume("owner", "work")

    assert store.holds() == []


def test_many_holds_keep_many_lanes_and_leave_the_others(store):
    names = [f"customer {n}" for n in range(60)]
    enqueued(store, *[new_job(lane=Lane(task="work", upstream=name)) for name in names])
    for name in names[:50]:
        store.hold(Scope.UPSTREAM, name, reason="broken")

    claims = store.claim(wanted(100))

    assert sorted(claim.lane.upstream for claim in claims) == sorted(names[50:])
