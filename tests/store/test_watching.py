"""What is known of upstreams: how calls ended, which are gated, and who may claim their jobs."""

import threading
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from seawall.errors import StoreError
from seawall.model import Lane, Outcome, Token
from seawall.states import State
from seawall.store import open_store, values
from seawall.store.values import (
    MOST_ROWS,
    Answer,
    Observation,
    Observed,
    Presence,
    Release,
    Result,
    Scope,
    Watched,
)
from tests.support.kinds import on_postgres, shared
from tests.support.ledger import at_once, claimed, ended, enqueued, lost, new_job, wanted

API = Lane(task="work", upstream="api")
AGAIN = replace(API, retry=True)
OTHER = Lane(task="work", upstream="other")
SHOP = Lane(task="work", upstream="shop:one")
MINE = replace(API, owner="me")
PATIENCE_SECONDS = 30.0
MOMENT_SECONDS = 0.3
DONE = Answer(Result.DONE, State.SUCCEEDED)


@pytest.fixture
def second(clock):
    """The second that the store's clock stands at."""
    return int(clock.now().timestamp())


@pytest.fixture
def other(url, kind, clock):
    """A second store at the same address, as another process has it."""
    with open_store(url, clock=clock) as opened:
        yield opened


def seen(upstream="api", worker="w1", **amounts):
    return Observation(upstream, worker, **amounts)


def lanes_of(claims):
    return [claim.lane for claim in claims]


def ids_of(claims):
    return [claim.token.job_id for claim in claims]


def decide(store, upstream="api", state="decided", *, gated=True, **how):
    with store.govern(upstream) as desk:
        desk.keep(state, gated=gated, **how)


def taken_at(store, upstream="api", **asked):
    """What is claimed at an upstream's desk."""
    with store.govern(upstream, wait=True) as desk:
        return desk.claim(wanted()._replace(**asked))


# --- how calls ended ----------------------------------------------------------------------------


def test_what_is_observed_adds_up_by_second_and_worker(store, clock, second):
    store.observe([seen(firsts=3, retries=1, failures=2, denied=1, slow=1, micros=70)])
    store.observe([seen(firsts=1, micros=5), seen(worker="w2", retries=4, micros=1)])

    assert store.observed("api", within_seconds=60) == [
        Observed("w1", second, 4, 1, 2, 1, 1, 75),
        Observed("w2", second, 0, 4, 0, 0, 0, 1),
    ]
    assert [each.calls for each in store.observed("api", within_seconds=60)] == [5, 4]


def test_a_batch_that_tells_of_an_upstream_twice_adds_up(store, second):
    store.observe([seen(firsts=1, micros=2), seen("other", firsts=9), seen(firsts=2, micros=3)])

    assert store.observed("api", within_seconds=1) == [Observed("w1", second, 3, 0, 0, 0, 0, 5)]
    assert store.observed("other", within_seconds=1) == [Observed("w1", second, 9, 0, 0, 0, 0, 0)]


def test_the_newest_come_first_and_within_a_second_the_workers_by_name(store, clock, second):
    for worker in ("w2", "w1"):
        store.observe([seen(worker=worker, firsts=1)])
    clock.advance(1)
    store.observe([seen(worker="w3", firsts=1)])

    found = store.observed("api", within_seconds=60)

    assert [(each.second, each.worker) for each in found] == [
        (second + 1, "w3"),
        (second, "w1"),
        (second, "w2"),
    ]


def test_only_so_many_seconds_are_looked_back(store, clock, second):
    for _ in range(5):
        store.observe([seen(firsts=1)])
        clock.advance(1)

    def seconds(within):
        return [each.second - second for each in store.observed("api", within_seconds=within)]

    assert seconds(60) == [4, 3, 2, 1, 0]
    assert seconds(3) == [4, 3]
    assert seconds(0) == []


def test_only_so_many_lines_are_read_the_newest(store, clock, second, monkeypatch):
    monkeypatch.setattr("seawall.store.watching.MOST_OBSERVED", 3)
    for _ in range(5):
        store.observe([seen(firsts=1)])
        clock.advance(1)

    found = store.observed("api", within_seconds=60)

    assert [each.second - second for each in found] == [4, 3, 2]


def test_of_an_upstream_that_nobody_called_there_is_nothing(store):
    store.observe([seen(firsts=1)])

    assert store.observed("ap", within_seconds=60) == []
    assert store.observed("API", within_seconds=60) == []


def test_upstreams_are_told_at_which_calls_ended_lately_each_once_and_by_name(store, clock):
    assert store.called(within_seconds=60) == []
    store.observe([seen("old", firsts=1)])
    clock.advance(50)
    store.observe([seen("b", firsts=1), seen("b", worker="w2", retries=1), seen("a", firsts=1)])
    clock.advance(1)
    store.observe([seen("b", firsts=1)])

    assert store.called(within_seconds=60) == ["a", "b", "old"]
    assert store.called(within_seconds=20) == ["a", "b"]
    assert store.called(within_seconds=1) == ["b"]
    clock.advance(600)
    assert store.called(within_seconds=60) == []


def test_a_desk_sees_the_same(store, second):
    store.observe([seen(firsts=1), seen("other", firsts=2)])

    with store.govern("api") as desk:
        assert desk.observed(within_seconds=60) == [Observed("w1", second, 1, 0, 0, 0, 0, 0)]


def test_what_is_too_old_is_forgotten_a_few_at_a_time(store, clock, second):
    for _ in range(5):
        store.observe([seen(firsts=1), seen("other", firsts=1)])
        clock.advance(10)

    assert store.forget_observations(older_than_seconds=30, limit=3) == 3
    assert store.forget_observations(older_than_seconds=30, limit=3) == 1
    assert store.forget_observations(older_than_seconds=30) == 0
    assert [each.second - second for each in store.observed("api", within_seconds=60)] == [
        40,
        30,
        20,
    ]
    assert store.forget_observations(older_than_seconds=0) == 6


def test_to_observe_nothing_is_nothing(store):
    store.observe([])
    store.observe([seen()])

    assert [each.calls for each in store.observed("api", within_seconds=60)] == [0]


BAD = [
    ("upstream", seen(upstream="")),
    ("upstream", seen(upstream="a\0b")),
    ("worker", seen(worker="\ud800")),
    ("firsts", seen(firsts=-1)),
    ("micros", seen(micros=2**53)),
    ("slow", seen(slow=0.5)),
]


@pytest.mark.parametrize(("field", "bad"), BAD)
def test_what_cannot_be_kept_is_refused_by_name_and_nothing_is_written(store, field, bad):
    (claim,) = claimed(store)
    enqueued(store)
    given = [seen(firsts=1), bad]

    with pytest.raises(ValueError, match=f"^{field}: "):
        store.observe(given)
    with pytest.raises(ValueError, match=f"^{field}: "):
        store.settle([ended(claim.token)], given)
    with pytest.raises(ValueError, match=f"^{field}: "):
        store.settle([ended(claim.token, children=(new_job(),))], given)
    with pytest.raises(ValueError, match=f"^{field}: "):
        store.exchange([ended(claim.token)], wanted(), observations=given)

    assert store.observed("api", within_seconds=60) == []
    assert store.counts() == {**dict.fromkeys(State, 0), State.RUNNING: 1, State.QUEUED: 1}


def test_a_batch_of_observations_is_as_long_as_any_other(store):
    (claim,) = claimed(store)
    many = [seen(firsts=1)] * (MOST_ROWS + 1)

    for ask in (store.observe, lambda given: store.settle([ended(claim.token)], given)):
        with pytest.raises(ValueError, match="1,001 rows"):
            ask(many)
    store.observe(many[1:])

    assert [each.firsts for each in store.observed("api", within_seconds=60)] == [MOST_ROWS]
    assert store.counts()[State.RUNNING] == 1


@pytest.mark.parametrize("bad", [-1, float("nan"), 1e11])
def test_how_far_to_look_back_must_be_a_span_of_time(store, bad):
    with pytest.raises(ValueError, match="within_seconds"):
        store.observed("api", within_seconds=bad)
    with pytest.raises(ValueError, match="within_seconds"):
        store.called(within_seconds=bad)
    with pytest.raises(ValueError, match="older_than_seconds"):
        store.forget_observations(older_than_seconds=bad)
    with pytest.raises(ValueError, match="upstream"):
        store.observed("", within_seconds=1)


@shared
def test_many_that_tell_of_the_same_second_lose_nothing(store, url, kind, clock):
    stores = [open_store(url, clock=clock) for _ in range(4)]

    def tell(at):
        for _ in range(25):
            stores[at].observe([seen(firsts=1), seen("other", retries=1)])

    at_once(4, tell)
    for each in stores:
        each.close()

    assert [each.firsts for each in store.observed("api", within_seconds=1)] == [100]
    assert [each.retries for each in store.observed("other", within_seconds=1)] == [100]


# --- told with the ends of attempts -------------------------------------------------------------


def observed_once(store, calls=1):
    return [each.calls for each in store.observed("api", within_seconds=60)] == [calls]


def test_attempts_end_and_tell_of_their_calls_in_one_ask(store):
    first, second = claimed(store, new_job(), new_job())

    answers = store.settle(
        [ended(first.token), ended(second.token, Outcome.RETRIED)], [seen(firsts=2)]
    )

    assert answers == [DONE, Answer(Result.DONE, State.QUEUED)]
    assert observed_once(store, 2)


def test_an_exchange_tells_of_calls_too(store):
    (claim,) = claimed(store)
    (next_id,) = enqueued(store)

    answers, claims = store.exchange(
        [ended(claim.token)], wanted(), wanted(prefetch=True), observations=[seen(firsts=1)]
    )

    assert answers == [DONE]
    assert ids_of(claims) == [next_id]
    assert observed_once(store)


def test_calls_can_be_told_of_without_an_attempt_that_ended(store):
    (job_id,) = enqueued(store)

    assert store.settle([], [seen(firsts=1)]) == []
    answers, claims = store.exchange([], wanted(), observations=[seen(firsts=1)])

    assert (answers, ids_of(claims)) == ([], [job_id])
    assert observed_once(store, 2)


def test_a_row_that_cannot_be_stored_keeps_neither_the_others_nor_the_observations_back(store):
    claims = claimed(store, *(new_job() for _ in range(3)))
    rows = [ended(claim.token) for claim in claims]
    rows[1] = ended(claims[1].token, output="\ud800")

    answers = store.settle(rows, [seen(firsts=3)])

    assert [answer.result for answer in answers] == [Result.DONE, Result.REFUSED, Result.DONE]
    assert observed_once(store, 3)
    assert store.jobs([claims[1].token.job_id])[claims[1].token.job_id].state is State.RUNNING


def test_nor_does_it_in_an_exchange(store):
    claims = claimed(store, new_job(), new_job())
    (next_id,) = enqueued(store)

    answers, taken = store.exchange(
        [ended(claims[0].token, output="\ud800"), ended(claims[1].token)],
        wanted(),
        observations=[seen(firsts=2)],
    )

    assert [answer.result for answer in answers] == [Result.REFUSED, Result.DONE]
    assert ids_of(taken) == [next_id]
    assert observed_once(store, 2)


@pytest.mark.parametrize("exchanged", [False, True])
@pytest.mark.parametrize("refused", [False, True])
def test_with_children_they_are_told_once(store, exchanged, refused):
    enqueued(store, new_job("[1]", key="k", lane=OTHER))
    store.hold(Scope.UPSTREAM, "other", reason="a test")
    (claim,) = claimed(store)
    child = new_job("[2]", key="k" if refused else None, lane=Lane(task="child"))
    if refused:
        enqueued(store, new_job("[1]", key="k", lane=Lane(task="child")))
    rows = [ended(claim.token, children=(child,))]

    if exchanged:
        answers, _ = store.exchange(rows, wanted(), observations=[seen(firsts=1)])
    else:
        answers = store.settle(rows, [seen(firsts=1)])

    assert [answer.result for answer in answers] == [Result.REFUSED if refused else Result.DONE]
    assert observed_once(store)


@pytest.mark.parametrize("exchanged", [False, True])
def test_with_a_batch_that_is_too_heavy_to_travel_at_once_they_are_told_once(
    store, exchanged, monkeypatch
):
    claims = claimed(store, *(new_job() for _ in range(4)))
    monkeypatch.setattr(values, "HEAVIEST_BATCH", 10)
    rows = [ended(claim.token, output="12345678") for claim in claims]

    if exchanged:
        answers, _ = store.exchange(rows, wanted(), observations=[seen(firsts=1)])
    else:
        answers = store.settle(rows, [seen(firsts=1)])

    assert answers == [DONE] * 4
    assert observed_once(store)


def test_what_a_lost_attempt_saw_is_told_all_the_same(store, clock):
    (claim,) = claimed(store)
    clock.advance(60)
    store.reclaim([lost(claim.token)])

    assert store.settle([ended(claim.token)], [seen(firsts=1)]) == [Answer(Result.LOST)]
    assert observed_once(store)


# --- retries wait in lanes of their own ---------------------------------------------------------


def test_a_retry_waits_where_its_settlement_says(store):
    (claim,) = claimed(store, new_job(lane=API))
    before = store.jobs([claim.token.job_id])[claim.token.job_id]

    store.settle([ended(claim.token, Outcome.RETRIED, delay_seconds=0, lane=AGAIN)])

    assert store.claim(wanted()) == []
    assert taken_at(store) == []
    (again,) = taken_at(store, retry=True)
    assert (again.token, again.lane) == (Token(claim.token.job_id, 2, 2), AGAIN)
    after = store.jobs([claim.token.job_id])[claim.token.job_id]
    assert (after.task, after.queue, after.upstream) == (before.task, before.queue, "api")


def test_it_stays_there_until_somebody_says_otherwise(store, clock):
    (claim,) = claimed(store, new_job(lane=API))
    store.settle([ended(claim.token, Outcome.RETRIED, delay_seconds=0, lane=AGAIN)])
    (claim,) = taken_at(store, retry=True)

    store.release([Release(token=claim.token)])
    (claim,) = taken_at(store, retry=True)
    clock.advance(60)
    store.reclaim([lost(claim.token, 0)])
    (claim,) = taken_at(store, retry=True)
    store.settle([ended(claim.token, Outcome.SNOOZED, delay_seconds=0)])
    (claim,) = taken_at(store, retry=True)
    store.settle([ended(claim.token, Outcome.RETRIED, delay_seconds=0)])
    (claim,) = taken_at(store, retry=True)
    store.settle([ended(claim.token, Outcome.RETRIED, delay_seconds=0, lane=API)])

    assert lanes_of(store.claim(wanted())) == [API]


def test_asked_again_or_too_late_a_settlement_moves_nothing(store, clock):
    first, second = claimed(store, new_job(lane=API), new_job(lane=API))
    clock.advance(60)
    store.reclaim([lost(second.token, 0)])
    rows = [
        ended(each.token, Outcome.RETRIED, delay_seconds=0, lane=AGAIN) for each in (first, second)
    ]
    store.settle(rows[:1])
    (again,) = taken_at(store, retry=True)
    store.settle([ended(again.token, Outcome.RETRIED, delay_seconds=0, lane=API)])

    answers = store.settle(rows)

    assert [answer.result for answer in answers] == [Result.ALREADY, Result.LOST]
    assert lanes_of(store.claim(wanted())) == [API, API]


def test_one_that_was_to_stop_is_cancelled_and_waits_nowhere(store):
    (claim,) = claimed(store, new_job(lane=API))
    store.cancel([claim.token.job_id])

    answers = store.settle([ended(claim.token, Outcome.RETRIED, delay_seconds=0, lane=AGAIN)])

    assert answers == [Answer(Result.DONE, State.CANCELLED)]
    assert store.due_at(wanted(), ["api"]) == []


def test_retries_and_others_may_end_together_whatever_else_they_bring(store):
    first, second, third = claimed(store, *(new_job(lane=API) for _ in range(3)))

    store.settle(
        [
            ended(first.token, Outcome.RETRIED, delay_seconds=0, lane=AGAIN),
            ended(second.token, children=(new_job(lane=OTHER),)),
            ended(third.token, Outcome.RETRIED, delay_seconds=0),
        ]
    )

    assert sorted(lanes_of(store.claim(wanted())), key=repr) == sorted([API, OTHER], key=repr)
    assert ids_of(taken_at(store, retry=True)) == [first.token.job_id]


def test_an_exchange_moves_a_retry_out_of_its_own_reach(store):
    (claim,) = claimed(store, new_job(lane=API))

    answers, claims = store.exchange(
        [ended(claim.token, Outcome.RETRIED, delay_seconds=0, lane=AGAIN)], wanted()
    )

    assert (answers, claims) == ([Answer(Result.DONE, State.QUEUED)], [])
    assert lanes_of(taken_at(store, retry=True)) == [AGAIN]


def test_retries_are_nobodys_to_claim_plainly_even_where_nothing_is_gated(store):
    enqueued(store, new_job(lane=AGAIN), new_job(lane=API))

    claims = [*store.claim(wanted()), *store.claim(wanted(prefetch=True))]

    assert lanes_of(claims) == [API]


@shared
def test_nor_is_a_retry_in_a_lane_that_another_process_has_just_made(store, other):
    enqueued(store, new_job(lane=API))
    store.claim(wanted())  # it has looked at the lanes
    enqueued(other, new_job(lane=AGAIN), new_job(lane=MINE))

    assert lanes_of(store.claim(wanted())) == [MINE]


# --- which are under watch ----------------------------------------------------------------------


def test_nothing_is_under_watch_at_first(store):
    assert store.watched() == []


def test_every_upstream_under_watch_is_told_by_name(store, clock):
    until = clock.now() + timedelta(minutes=5)
    given = [
        Watched("API", "{}", gated=False, held_until=None, reason=""),
        Watched("api", '{"a":1}', gated=True, held_until=until, reason="too many 529"),
        Watched("shop:日本", "🌊", gated=True, held_until=None, reason="storm"),
    ]
    for each in reversed(given):
        decide(
            store, each.name, each.state,
            gated=each.gated, held_until=each.held_until, reason=each.reason,
        )  # fmt: skip

    assert store.watched() == given


def test_a_later_decision_replaces_the_earlier(store, clock):
    decide(store, state="first", held_until=clock.now(), reason="because")
    decide(store, state="second", gated=False)

    assert store.watched() == [Watched("api", "second", gated=False, held_until=None, reason="")]


def test_what_was_decided_is_what_the_next_one_reads(store, clock):
    with store.govern("api") as desk:
        assert (desk.name, desk.state, desk.now) == ("api", "", clock.now())
        desk.keep("first", gated=True)
        desk.keep("second", gated=True)
    with store.govern("api") as desk:
        assert desk.state == "second"
    with store.govern("other") as desk:
        assert desk.state == ""


def test_one_who_decides_nothing_leaves_everything_as_it_was(store):
    with store.govern("api"):
        pass
    assert store.watched() == []

    decide(store, state="first")
    with store.govern("api"):
        pass
    assert [each.state for each in store.watched()] == ["first"]


def test_what_is_dropped_is_forgotten(store):
    decide(store)
    decide(store, "other")

    with store.govern("api") as desk:
        desk.drop()
    with store.govern("api") as desk:
        assert desk.state == ""
        desk.drop()

    assert [each.name for each in store.watched()] == ["other"]


def test_dropped_and_kept_at_one_desk_the_last_word_counts(store):
    with store.govern("api") as desk:
        desk.keep("a", gated=True)
        desk.drop()
    assert store.watched() == []

    decide(store)
    with store.govern("api") as desk:
        desk.drop()
        desk.keep("b", gated=True)
    assert [each.state for each in store.watched()] == ["b"]


def test_a_desk_knows_which_workers_are_alive(store, clock):
    for n in range(3):
        store.appear(
            Presence(
                worker=f"w{n}", host="h", pid=1, version="1", queues=None, tasks=(), concurrency=1
            )
        )
        clock.advance(10)

    with store.govern("api") as desk:
        alive = [desk.workers(within_seconds=within) for within in (60, 20, 0)]
    named = [[each.presence.worker for each in workers] for workers in alive]
    assert named == [["w0", "w1", "w2"], ["w1", "w2"], []]


def test_a_desk_knows_the_lanes_of_exactly_its_upstream(store):
    enqueued(store, *(new_job(lane=lane) for lane in (API, AGAIN, MINE, OTHER, SHOP)))
    with store.govern("api") as desk:
        assert set(desk.lanes()) == {API, AGAIN, MINE}
    with store.govern("nobody's") as desk:
        assert desk.lanes() == []


@on_postgres
def test_whoever_falls_asleep_at_a_desk_loses_it_long_before_the_others_leases_are_over(store):
    with store.govern("api") as desk:
        (waits,) = desk._session._connection.execute(
            "SELECT current_setting('idle_in_transaction_session_timeout')"
        ).fetchone()
    assert waits == "5s"


@pytest.mark.parametrize(
    ("field", "how"),
    [
        ("state", {"state": "a\0b"}),
        ("reason", {"reason": "x" * 201}),
        ("held_until", {"held_until": datetime(2026, 1, 1)}),  # noqa: DTZ001
    ],
)
def test_what_cannot_be_written_down_is_refused_by_name(store, field, how):
    with store.govern("api") as desk, pytest.raises(ValueError, match=f"^{field}"):
        desk.keep(**{"state": "a", "gated": True, **how})

    assert store.watched() == []


def test_text_that_is_no_unicode_leaves_nothing_behind(store):
    (job_id,) = enqueued(store, new_job(lane=API))

    def take_and_keep():
        with store.govern("api") as desk:
            desk.claim(wanted())
            desk.keep("\ud800", gated=True)

    with pytest.raises(StoreError, match="no Unicode"):
        take_and_keep()
    assert store.watched() == []
    assert store.jobs([job_id])[job_id].state is State.QUEUED


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 201])
def test_an_upstream_must_have_a_name(store, name):
    with pytest.raises(ValueError, match="upstream"), store.govern(name):
        pass


def test_a_wish_that_cannot_be_carried_out_is_refused_at_the_desk_too(store):
    with store.govern("api") as desk, pytest.raises(ValueError, match="limit"):
        desk.claim(wanted(0))


# --- what is gated ------------------------------------------------------------------------------


@pytest.mark.parametrize("prefetch", [False, True])
def test_what_is_gated_is_claimed_at_its_desk_and_nowhere_else(store, prefetch):
    job_ids = enqueued(store, new_job(lane=API), new_job(lane=OTHER), new_job())
    decide(store)

    plain = store.claim(wanted(prefetch=prefetch))
    governed = taken_at(store, prefetch=prefetch)

    assert ids_of(plain) == job_ids[1:]
    assert ids_of(governed) == job_ids[:1]
    assert governed[0].lane == API


def test_an_exchange_passes_over_what_is_gated(store):
    (claim,) = claimed(store)
    _, other = enqueued(store, new_job(lane=API), new_job(lane=OTHER))
    decide(store)

    _, claims = store.exchange([ended(claim.token)], wanted(), wanted(prefetch=True))

    assert ids_of(claims) == [other]


def test_what_is_under_watch_but_not_gated_is_everybodys_but_for_retries(store):
    enqueued(store, new_job(lane=API), new_job(lane=AGAIN))
    decide(store, gated=False)

    assert lanes_of(store.claim(wanted())) == [API]
    assert lanes_of(taken_at(store, retry=True)) == [AGAIN]


def test_what_is_dropped_is_everybodys_again(store):
    (job_id,) = enqueued(store, new_job(lane=API))
    decide(store)
    assert store.claim(wanted()) == []

    with store.govern("api") as desk:
        desk.drop()

    assert ids_of(store.claim(wanted())) == [job_id]


def test_a_gate_is_for_present_and_future_lanes_of_exactly_that_name(store):
    enqueued(store, new_job(lane=API))
    decide(store)
    others = [replace(API, upstream=name) for name in ("", "ap", "API", "api:one")]
    enqueued(store, new_job(lane=MINE), *(new_job(lane=lane) for lane in others))

    assert {lane.upstream for lane in lanes_of(store.claim(wanted()))} == {
        lane.upstream for lane in others
    }
    assert {lane.owner for lane in lanes_of(taken_at(store))} == {"", "me"}


@shared
@pytest.mark.parametrize("exchanged", [False, True])
def test_so_it_is_for_a_lane_that_another_process_has_just_made(store, other, exchanged):
    enqueued(store, new_job())
    store.claim(wanted())  # it has looked at the lanes
    decide(other)
    enqueued(other, new_job(lane=API), new_job(lane=OTHER))

    claims = store.exchange([], wanted())[1] if exchanged else store.claim(wanted())

    assert lanes_of(claims) == [OTHER]


@shared
def test_what_one_store_gates_is_gated_for_every_store(store, other):
    enqueued(store, new_job(lane=API))
    assert lanes_of(other.claim(wanted(1, tasks=("nothing",)))) == []

    decide(other)

    assert store.watched() == other.watched()
    assert store.claim(wanted()) == other.claim(wanted()) == []


def test_to_leave_out_what_is_known_to_be_gated_changes_nothing(store):
    job_ids = enqueued(store, new_job(lane=API), new_job(lane=OTHER), new_job(lane=SHOP))
    decide(store)
    decide(store, "shop:one")

    claims = store.claim(wanted()._replace(without=frozenset({"api", "shop:one", "unheard of"})))

    assert ids_of(claims) == job_ids[1:2]
    with store.govern("api") as desk:
        desk.drop()
    assert ids_of(store.claim(wanted())) == job_ids[:1]


@pytest.mark.parametrize("guarded", ["shop", "shop:one"])
def test_what_is_guarded_is_gated_before_anybody_has_said_so(store, guarded):
    lanes = [SHOP, replace(SHOP, upstream="shopping"), replace(SHOP, upstream=""), API]
    job_ids = enqueued(store, *(new_job(lane=lane) for lane in lanes))
    plain = wanted()._replace(guarded=frozenset({guarded}))

    assert set(ids_of(store.claim(plain))) == set(job_ids[1:])
    assert ids_of(taken_at(store, "shop:one", guarded=frozenset({guarded}))) == job_ids[:1]


@shared
@pytest.mark.parametrize("guarded", ["shop", "shop:one"])
def test_so_it_is_in_a_lane_that_another_process_has_just_made(store, other, guarded):
    enqueued(store, new_job())
    store.claim(wanted())  # it has looked at the lanes
    enqueued(other, new_job(lane=SHOP), new_job(lane=replace(SHOP, upstream="shopping")))

    claims = store.claim(wanted()._replace(guarded=frozenset({guarded})))

    assert [lane.upstream for lane in lanes_of(claims)] == ["shopping"]


# --- what a desk claims -------------------------------------------------------------------------


def test_a_desk_claims_of_its_upstream_only_first_tries_or_retries(store):
    lanes = [API, AGAIN, MINE, OTHER, Lane(task="work"), replace(API, upstream="api:one")]
    enqueued(store, *(new_job(lane=lane) for lane in lanes))

    with store.govern("api") as desk:
        first, again = desk.claim(wanted()), desk.claim(wanted()._replace(retry=True))

    assert set(lanes_of(first)) == {API, MINE}
    assert lanes_of(again) == [AGAIN]
    assert len(store.claim(wanted())) == 3


@pytest.mark.parametrize(
    ("owner", "owners"), [(None, {"", "me", "you"}), ("me", {"me"}), ("", {""})]
)
def test_it_may_ask_for_what_belongs_to_an_owner(store, owner, owners):
    enqueued(store, *(new_job(lane=replace(API, owner=each)) for each in ("", "me", "you")))

    assert {lane.owner for lane in lanes_of(taken_at(store, owner=owner))} == owners


@pytest.mark.parametrize(("priority", "found"), [(None, {0, 5}), (5, {5}), (0, {0}), (9, set())])
def test_it_may_ask_for_what_has_a_priority(store, priority, found):
    enqueued(store, *(new_job(lane=replace(API, priority=each)) for each in (0, 5, 0)))

    assert {lane.priority for lane in lanes_of(taken_at(store, priority=priority))} == found


def test_it_claims_as_everybody_does(store, clock):
    """Of these queues and tasks, at most so many, the best first, each to one worker."""
    urgent = replace(API, priority=5)
    later = clock.now() + timedelta(seconds=1)
    low, low_too, high, *_ = enqueued(
        store,
        new_job(lane=API),
        new_job(lane=API),
        new_job(lane=urgent),
        new_job(lane=replace(API, queue="other")),
        new_job(lane=replace(API, task="another")),
        new_job(lane=API, run_after=later),
        new_job(lane=API, deadline_at=clock.now()),
    )

    with store.govern("api") as desk:
        two, rest = desk.claim(wanted(2, worker="w7", lease_seconds=9)), desk.claim(wanted())

    assert ids_of(two) == [high, low]
    assert ids_of(rest) == [low_too]
    job = store.jobs([high])[high]
    assert (job.state, job.lease.worker) == (State.RUNNING, "w7")
    assert job.lease.until == clock.now() + timedelta(seconds=9)


def test_what_was_lost_is_left_for_a_free_slot_there_too(store, clock):
    (claim,) = claimed(store, new_job(lane=API))
    clock.advance(60)
    store.reclaim([lost(claim.token, 0)])

    assert taken_at(store, prefetch=True) == []
    assert len(taken_at(store)) == 1


@pytest.mark.parametrize(
    ("scope", "name"), [(Scope.QUEUE, "default"), (Scope.TASK, "work"), (Scope.UPSTREAM, "api")]
)
@pytest.mark.parametrize("retry", [False, True])
def test_a_hold_holds_at_a_desk_too(store, scope, name, retry):
    enqueued(store, new_job(lane=replace(API, retry=retry)))
    decide(store)
    store.hold(scope, name, reason="a test")
    assert taken_at(store, retry=retry) == []

    store.resume(scope, name)

    assert len(taken_at(store, retry=retry)) == 1


def test_what_a_desk_took_can_be_settled_like_anything_else(store):
    enqueued(store, new_job(lane=API), new_job(lane=API))
    decide(store)
    first, second = taken_at(store)

    answers = store.settle([ended(first.token), ended(second.token, Outcome.FAILED)])

    assert answers == [DONE, Answer(Result.DONE, State.FAILED)]


# --- together or not at all ---------------------------------------------------------------------


class ChangedMindError(Exception):
    pass


def test_whoever_leaves_with_an_error_has_claimed_and_decided_nothing(store, clock):
    decide(store, state="before")
    job_ids = []
    for _ in range(3):
        job_ids += enqueued(store, new_job(lane=API), new_job(lane=AGAIN))
        clock.advance(60)
    before = store.jobs(job_ids)

    with suppress(ChangedMindError), store.govern("api") as desk:
        assert len(desk.claim(wanted())) == 3
        assert len(desk.claim(wanted()._replace(retry=True))) == 3
        desk.keep("after", gated=False)
        raise ChangedMindError

    assert store.jobs(job_ids) == before
    assert [each.state for each in store.watched()] == ["before"]
    assert [claim.token.lease_no for claim in taken_at(store)] == [1, 1, 1]
    assert ids_of(taken_at(store, retry=True)) == job_ids[1::2]


def test_one_that_was_not_under_watch_is_not_after_an_error(store):
    with suppress(ChangedMindError), store.govern("api") as desk:
        desk.keep("after", gated=True)
        raise ChangedMindError

    assert store.watched() == []


def test_one_that_was_to_be_dropped_is_still_under_watch_after_an_error(store):
    decide(store)

    with suppress(ChangedMindError), store.govern("api") as desk:
        desk.drop()
        raise ChangedMindError

    assert [each.gated for each in store.watched()] == [True]


@shared
def test_nobody_sees_what_is_done_at_a_desk_before_it_is_left(store, other):
    (job_id,) = enqueued(store, new_job(lane=API))

    with store.govern("api") as desk:
        desk.claim(wanted())
        desk.keep("decided", gated=True)
        assert other.watched() == []
        assert other.jobs([job_id])[job_id].state is State.QUEUED

    assert [each.state for each in other.watched()] == ["decided"]
    assert other.jobs([job_id])[job_id].state is State.RUNNING


# --- one at a time ------------------------------------------------------------------------------

AT_THE_DESK = {
    "nothing": lambda desk: None,
    "a claim": lambda desk: desk.claim(wanted()),
    "a decision": lambda desk: desk.keep("mine", gated=True),
    "a drop": lambda desk: desk.drop(),
}


def left_there(does, *, watched):
    """What stands written after whoever did so has left."""
    return {"a decision": "mine", "a drop": ""}.get(does, "decided" if watched else "")


@on_postgres
@pytest.mark.parametrize("does", AT_THE_DESK)
@pytest.mark.parametrize("watched", [False, True])
def test_while_somebody_is_at_a_desk_others_are_told_so_at_once(store, other, does, watched):
    enqueued(store, new_job(lane=API))
    if watched:
        decide(store)

    with store.govern("api") as first:
        AT_THE_DESK[does](first)
        for asked in (other, store):
            with asked.govern("api") as second:
                assert second is None
        with other.govern("other") as elsewhere:
            assert elsewhere is not None

    with other.govern("api") as second:
        assert second.state == left_there(does, watched=watched)


class Waiting:
    """A thread that asks for the desk, and has to wait for it."""

    def __init__(self, store, *, wait):
        self._found = []
        self._thread = threading.Thread(target=self._ask, args=(store, wait))
        self._thread.start()
        self._thread.join(MOMENT_SECONDS)
        assert self._thread.is_alive(), f"it did not wait: {self._found}"

    def _ask(self, store, wait):
        with store.govern("api", wait=wait) as desk:
            self._found.append(None if desk is None else desk.state)

    def found(self):
        """What was written there when its turn came; None where it was sent away."""
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "it waits for ever"
        return self._found[0]


@shared
@pytest.mark.parametrize("does", AT_THE_DESK)
@pytest.mark.parametrize("watched", [False, True])
def test_whoever_waits_is_let_in_next_and_sees_what_was_decided(store, other, does, watched):
    enqueued(store, new_job(lane=API))
    if watched:
        decide(store)

    with store.govern("api") as desk:
        AT_THE_DESK[does](desk)
        next_one = Waiting(other, wait=True)

    assert next_one.found() == left_there(does, watched=watched)


@shared
def test_whoever_waits_while_it_is_dropped_is_let_in_as_well(store, other):
    decide(store)

    with store.govern("api") as desk:
        next_one = Waiting(other, wait=True)
        desk.drop()

    assert next_one.found() == ""


@pytest.mark.parametrize("kind", ["memory", "file"], indirect=True)
@pytest.mark.parametrize("wait", [False, True])
def test_where_there_is_one_writer_all_take_turns(store, kind, wait):
    with store.govern("api") as desk:
        desk.keep("mine", gated=True)
        next_one = Waiting(store, wait=wait)

    assert next_one.found() == "mine"


@pytest.mark.parametrize("kind", ["file"], indirect=True)
def test_and_so_do_all_the_stores_of_a_file(store, other, kind):
    with store.govern("api") as desk:
        desk.keep("mine", gated=True)
        next_one = Waiting(other, wait=False)

    assert next_one.found() == "mine"


@shared
def test_many_who_decide_at_once_never_let_more_through_than_they_allow(store, url, kind, clock):
    allowed, jobs = 25, 60
    enqueued(store, *(new_job(lane=(API, MINE)[n % 2]) for n in range(jobs)))
    decide(store, state="0")
    stores = [open_store(url, clock=clock) for _ in range(5)]

    def worked(at):
        """The last of them claims plainly, as one would that knows of no gate."""
        taken = []
        for _ in range(10_000):
            if at == len(stores) - 1:
                taken += stores[at].claim(wanted(3, worker=f"w{at}"))
                if _left(stores[at], allowed) == 0:
                    return taken
                continue
            with stores[at].govern("api", wait=at % 2 == 0) as desk:
                if desk is None:
                    continue
                used = int(desk.state)
                if used == allowed:
                    return taken
                claims = desk.claim(wanted(min(3, allowed - used), worker=f"w{at}"))
                desk.keep(str(used + len(claims)), gated=True)
            taken += claims
        raise AssertionError("it never ends")

    taken = [claim for part in at_once(len(stores), worked) for claim in part]
    for each in stores:
        each.close()

    assert len({claim.token for claim in taken}) == len(taken) == allowed
    assert store.counts()[State.RUNNING] == allowed


def _left(store, allowed):
    (api,) = store.watched()
    return allowed - int(api.state)


# --- where something is due ---------------------------------------------------------------------


def test_it_is_told_at_which_of_the_named_upstreams_something_is_due(store, clock):
    lanes = [API, MINE, OTHER, SHOP, Lane(task="work")]
    enqueued(store, *(new_job(lane=lane) for lane in lanes for _ in range(2)))

    assert set(store.due_at(wanted(), ["api", "shop"])) == {API, MINE}
    assert store.due_at(wanted(), ["unheard of"]) == []
    assert store.due_at(wanted(), []) == []


def test_retries_are_told_of_at_any_upstream(store):
    enqueued(store, *(new_job(lane=replace(lane, retry=True)) for lane in (API, OTHER)))
    enqueued(store, new_job(lane=API), new_job(lane=OTHER))

    assert set(store.due_at(wanted(), [])) == {AGAIN, replace(OTHER, retry=True)}
    assert set(store.due_at(wanted(), ["api"])) == {API, AGAIN, replace(OTHER, retry=True)}


@pytest.mark.parametrize("guarded", ["shop", "shop:one"])
def test_what_is_guarded_is_told_of_unasked(store, guarded):
    enqueued(store, *(new_job(lane=lane) for lane in (API, SHOP, Lane(task="work"))))

    assert store.due_at(wanted()._replace(guarded=frozenset({guarded})), []) == [SHOP]


def test_only_these_queues_and_tasks_are_looked_into(store):
    lanes = [API, replace(API, queue="second"), replace(AGAIN, task="another")]
    enqueued(store, *(new_job(lane=lane) for lane in lanes))

    def due(**asked):
        return set(store.due_at(wanted(**asked), ["api"]))

    assert due() == {API}
    assert due(queues=None) == set(lanes[:2])
    assert due(queues=("second",)) == {lanes[1]}
    assert due(tasks=("another", "work")) == {API, lanes[2]}
    assert due(tasks=()) == set()


def test_what_is_due_later_or_no_longer_waits_is_not_told_of(store, clock):
    later = clock.now() + timedelta(seconds=10)
    enqueued(store, new_job(lane=API, run_after=later))
    assert store.due_at(wanted(), ["api"]) == []

    clock.advance(10)
    assert store.due_at(wanted(), ["api"]) == [API]
    store.claim(wanted())
    assert store.due_at(wanted(), ["api"]) == []


def test_to_ask_where_something_is_due_changes_nothing(store):
    (job_id,) = enqueued(store, new_job(lane=API))
    before = store.jobs([job_id])

    store.due_at(wanted(), ["api"])

    assert store.jobs([job_id]) == before
    assert store.watched() == []
