"""The history of pace: every creation, attempt and end is counted once, whichever way it comes."""

import threading
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from seawall.faults import Fault, FaultCode
from seawall.model import Begin, Lane, Outcome, Usage
from seawall.states import FINISHED, State
from seawall.store import (
    BOUNDS_SECONDS,
    Histogram,
    Turn,
    UpstreamPhase,
    open_store,
    pacing,
    statements,
)
from seawall.store.pace_values import KEEP_PACE_MINUTES, span_bucket
from seawall.store.pacing import MOST_UNFOLDED
from seawall.store.values import Advance, Observation, Redrive, Release
from tests.support.kinds import on_postgres, shared
from tests.support.ledger import at_once, claimed, ended, enqueued, failed, lost, new_job, wanted

OTHER = Lane(task="other", queue="slow")


class ChangedMindError(Exception):
    """Whoever began a transaction leaves it undone."""


NOT_JSON = Fault(FaultCode.INVALID_RESPONSE, "no JSON")


def counted(store, kind="job"):
    """How often each thing happened, whatever the task and the time it took."""
    found = Counter()
    for each in store.totals():
        if each.kind == kind:
            found[each.what] += each.many
    return found


@pytest.fixture(params=["unfolded", "folded"])
def folds(request, store):
    """What is told must be the same, whether somebody has folded or not."""
    return store.fold_pace if request.param == "folded" else lambda: None


# --- all time ---------------------------------------------------------------------------------


def test_a_job_is_counted_when_it_is_created_and_when_it_ends(store, clock, folds):
    first, second = claimed(store, new_job(), new_job(key="k"))
    enqueued(store, new_job(lane=OTHER))
    folds()
    clock.advance(7)
    store.settle([ended(first.token, duration_seconds=0.25)])
    store.settle([ended(second.token, duration_seconds=1, usage=Usage(3, 4, 0.5), raw_output="x")])
    folds()

    found = [each for each in store.totals() if each.task == "work"]

    took, age = BOUNDS_SECONDS.index(0.25), BOUNDS_SECONDS.index(10)
    assert [each[:8] for each in found if each.kind == "attempt"] == [
        ("attempt", "succeeded", "work", "default", "", took, 1, 0.25),
        ("attempt", "succeeded", "work", "default", "", BOUNDS_SECONDS.index(1), 1, 1.0),
    ]
    assert [each[8:] for each in found if each.kind == "attempt"] == [
        (0, 0, 0.0, 0),
        (3, 4, 0.5, 1),
    ]
    assert [each[:8] for each in found if each.kind == "job"] == [
        ("job", "created", "work", "default", "", 0, 2, 0.0),
        ("job", "succeeded", "work", "default", "", age, 2, 14.0),
    ]
    (other,) = [each for each in store.totals() if each.task == "other"]
    assert other[:7] == ("job", "created", "other", "slow", "", 0, 1)


def test_failures_and_retries_are_told_by_their_fault(store, clock, folds):
    first, second = claimed(store, new_job(), new_job())
    store.settle([ended(first.token, Outcome.RETRIED, fault=NOT_JSON, delay_seconds=0)])
    store.settle([ended(second.token, Outcome.FAILED)])
    folds()
    (again,) = store.claim(wanted())
    store.settle([ended(again.token, Outcome.FAILED, fault=NOT_JSON)])
    folds()

    found = Counter({(e.kind, e.what, e.code): e.many for e in store.totals() if e.code})

    assert found == {
        ("attempt", "retried", "INVALID_RESPONSE"): 1,
        ("attempt", "failed", "INVALID_RESPONSE"): 1,
        ("attempt", "failed", "TIMEOUT"): 1,
        ("job", "failed", "INVALID_RESPONSE"): 1,
        ("job", "failed", "TIMEOUT"): 1,
    }


def test_every_way_to_an_end_is_counted_once(store, clock, folds):
    """By whom a job is ended: a settlement, a release, upkeep or a person."""
    soon = clock.now() + timedelta(seconds=5)
    later = {"run_after": soon}
    late, waiting = enqueued(store, new_job(**later, deadline_at=soon), new_job(**later))
    skipped, stopped, handed, gone, over = claimed(store, *[new_job()] * 5)
    store.cancel([waiting, stopped.token.job_id, handed.token.job_id, gone.token.job_id])
    store.settle([ended(skipped.token, Outcome.SKIPPED), ended(stopped.token, Outcome.RETRIED)])
    store.release([Release(token=handed.token)])
    clock.advance(100)
    store.reclaim([lost(gone.token), lost(over.token, None)])
    assert store.expire() == [late]
    folds()

    assert counted(store) == {"created": 7, "skipped": 1, "cancelled": 4, "failed": 2}
    assert counted(store, "attempt") == {"skipped": 1, "retried": 1, "lost": 2}
    codes = {each.code for each in store.totals() if each.what == "failed"}
    assert codes == {"EXPIRED", "WORKER_LOST"}


def test_a_job_that_is_sent_again_and_ends_again_has_ended_twice(store, folds):
    (job_id,) = failed(store, new_job())
    store.redrive([Redrive(job_id), Redrive(job_id + 1)])
    folds()
    store.redrive([Redrive(job_id)])  # it is not failed any more
    (claim,) = store.claim(wanted())
    store.settle([ended(claim.token, Outcome.FAILED)])
    folds()

    assert counted(store) == {"created": 1, "failed": 2, "redriven": 1}


def test_stages_children_inline_jobs_and_keys_are_counted(store, folds):
    begin = Begin(worker="inline:w1", lease_seconds=60)
    enqueued(store, new_job(key="now", begin=begin, lane=OTHER))
    assert store.enqueue([new_job(key="now", lane=OTHER)])[0].taken == "existing"
    (claim,) = claimed(store)
    on = Lane(task="next", stage=1)
    used = {"usage": Usage(1, 2, 3.0), "raw_output": "raw", "duration_seconds": 2}
    store.advance([Advance(token=claim.token, lane=on, **used)])
    store.settle([ended(claim.token.next(), children=(new_job(lane=OTHER), new_job()))])
    folds()

    created = {(e.task, e.queue): e.many for e in store.totals() if e.what == "created"}
    assert created == {("other", "slow"): 2, ("work", "default"): 2}
    (advanced,) = [each for each in store.totals() if each.what == "advanced"]
    assert advanced[2:8] == ("work", "default", "", span_bucket(2_000_000), 1, 2.0)
    assert advanced[8:] == (1, 2, 3.0, 1)
    ends = {(e.kind, e.task) for e in store.totals() if e.what == "succeeded"}
    assert ends == {("job", "next"), ("attempt", "next")}


def test_what_is_handed_back_before_it_began_is_no_attempt(store, folds):
    first, second = claimed(store, new_job(), new_job())
    store.release([Release(token=first.token), Release(token=second.token, duration_seconds=1)])
    folds()

    assert counted(store, "attempt") == {"released": 1}
    assert counted(store) == {"created": 2}


def test_asked_again_it_is_not_counted_again(store, folds):
    (claim,) = claimed(store)
    for _ in range(3):
        store.settle([ended(claim.token)])
        folds()

    assert counted(store) == {"created": 1, "succeeded": 1}
    assert counted(store, "attempt") == {"succeeded": 1}


def test_pruning_takes_nothing_away(store, clock, folds):
    (claim,) = claimed(store)
    store.settle([ended(claim.token)])
    failed(store, new_job())
    folds()
    before = store.totals()
    clock.advance(10)
    for state in FINISHED:
        store.prune(state, older_than_seconds=1)
    folds()

    assert sum(store.counts().values()) == 0
    assert store.totals() == before


def test_a_batch_that_is_rolled_back_is_not_counted(store, folds):
    with suppress(ChangedMindError), store.transaction():
        store.enqueue([new_job()])
        raise ChangedMindError
    folds()

    assert store.totals() == []


@shared
def test_nothing_is_counted_twice_or_lost_while_many_write_and_fold_and_read(store, url, clock):
    workers, each = 4, 25
    seen, done = [], threading.Event()

    def look() -> None:
        with open_store(url, clock=clock) as mine:
            while not done.is_set():
                seen.append(counted(mine))
                mine.fold_pace(limit=3)

    def work(at: int) -> None:
        with open_store(url, clock=clock) as mine:
            for _ in range(each):
                enqueued(mine, new_job(), new_job())
                claims = mine.claim(wanted(worker=f"w{at}"))
                mine.settle([ended(claim.token) for claim in claims])

    reader = threading.Thread(target=look)
    reader.start()
    at_once(workers, work)
    done.set()
    reader.join()

    left = store.counts()[State.QUEUED]
    total = 2 * workers * each
    assert counted(store) == {"created": total, "succeeded": total - left}
    created = [found["created"] for found in seen]
    assert created == sorted(created), "a counter fell"
    assert all(found["created"] >= found["succeeded"] for found in seen)


@on_postgres
def test_whoever_reads_folds_where_nobody_has_for_long(store):
    """Jobs that are asked for one by one, and no worker alive: reading must not grow with them."""
    enqueued(store)
    with store._backend.migrating() as session:
        session.script(
            "INSERT INTO seawall.pace_change (minute, task, queue, outcome, many)"
            f" SELECT 1, 'work', 'default', 'lost', 1 FROM generate_series(1, {MOST_UNFOLDED})"
        )

    assert counted(store, "attempt") == {"lost": MOST_UNFOLDED}
    assert store._backend.all("unfolded_pace")[0][0] < MOST_UNFOLDED


def test_what_was_there_before_anybody_counted_is_counted_as_it_stands(store, clock):
    """The same as if it had been counted from the first."""
    first, second, third = claimed(store, new_job(), new_job(), new_job())
    clock.advance(3)
    used = {"usage": Usage(1, 2, 0.5), "raw_output": "raw"}
    store.settle(
        [ended(first.token, duration_seconds=1), ended(second.token, Outcome.FAILED, **used)]
    )
    store.settle([ended(third.token, Outcome.RETRIED, duration_seconds=40)])
    enqueued(store, new_job(lane=OTHER))
    expected = store.totals()

    _count_anew(store)

    assert store.totals() == expected
    clock.advance(10)
    store.prune(State.SUCCEEDED, older_than_seconds=1)
    _count_anew(store)
    unnamed = [(*each[:2], each.many) for each in store.totals() if not each.task]
    assert unnamed == [("job", "created", 1), ("job", "succeeded", 1)]
    assert counted(store) == {"created": 4, "succeeded": 1, "failed": 1}


def _count_anew(store):
    """As the migration does in a store that nobody has counted in."""
    dialect = store._backend.dialect
    (sql,) = [sql for name, sql in statements.migrations(dialect) if name == "0007_pace"]
    counting = sql.partition("-- What is there already is counted as it stands")[2]
    prefix = "seawall_" if dialect == "sqlite" else "seawall."
    if dialect == "postgres":
        while store.fold():  # as an old store, with nothing in between
            pass
    with store._backend.migrating() as session:
        session.script(f"DELETE FROM {prefix}pace_change; DELETE FROM {prefix}pace_total;")
        session.script("--" + counting)


# --- by the minute ----------------------------------------------------------------------------


def test_a_minute_tells_what_happened_in_it_of_all_tasks_or_of_one(store, clock, folds):
    start = clock.now()
    first, second = claimed(store, new_job(), new_job())
    enqueued(store, new_job(lane=OTHER))
    folds()
    clock.advance(60)
    store.settle([ended(first.token), ended(second.token, Outcome.RETRIED, delay_seconds=0)])
    clock.advance(120)
    (again,) = store.claim(wanted())
    clock.advance(61)
    store.reclaim([lost(again.token, None)])
    folds()

    found = store.pace(start)

    at = start.replace(second=0, microsecond=0)
    assert [each.at for each in found] == [at + timedelta(minutes=n) for n in range(len(found))]
    told = [each for each in found if any(each[1:])]
    assert [(each.created, each.succeeded, each.retried, each.lost, each.failed) for each in told] == [
        (3, 0, 0, 0, 0), (0, 1, 1, 0, 0), (0, 0, 0, 1, 1),
    ]  # fmt: skip
    assert [each.ended for each in told] == [0, 1, 1]
    assert sum(each.created for each in store.pace(start, task="other")) == 1
    assert sum(each.created for each in store.pace(start, task="nobody's")) == 0
    hours = store.pace(start, step_seconds=3_600)
    assert sum(each.created for each in hours) == 3
    assert all(each.at.minute == 0 for each in hours)


def test_what_is_outside_is_not_told(store, clock, folds):
    enqueued(store)
    folds()
    start = clock.now()
    clock.advance(3_600)
    enqueued(store, new_job(), new_job())
    folds()

    (only,) = store.pace(start, start)
    assert only.created == 1
    assert sum(each.created for each in store.pace(start + timedelta(minutes=1))) == 2


def test_minutes_are_forgotten_after_two_days_and_totals_never(store, clock, folds):
    start = clock.now()
    enqueued(store)
    store.observe([Observation("api", "w1", firsts=1, micros=5, spans=((0, 1),))])
    store.fold_pace()
    clock.advance(60 * KEEP_PACE_MINUTES)
    store.fold_pace()
    assert store.forget_pace() == 0
    clock.advance(60)

    # One of the minute for the task and one for all of them; of the upstream its calls and a span.
    assert store.forget_pace() == 2
    assert store.forget_pace() == 0
    assert sum(each.created for each in store.pace(start, step_seconds=3_600)) == 0
    assert counted(store) == {"created": 1}
    (api,) = store.upstream_totals()
    assert (api.calls, api.took.many) == (1, 1)


@pytest.mark.parametrize("step", [0, 1, 59, 61, -60])
def test_a_step_is_a_number_of_whole_minutes(store, clock, step):
    with pytest.raises(ValueError, match="step_seconds"):
        store.pace(clock.now(), step_seconds=step)


def test_nobody_can_ask_for_the_whole_past_by_the_minute(store, clock):
    with pytest.raises(ValueError, match="since"):
        store.pace(clock.now() - timedelta(days=30))
    with pytest.raises(ValueError, match="since"):
        store.upstream_pace("api", clock.now() - timedelta(days=30))
    assert len(store.pace(clock.now() - timedelta(days=30), step_seconds=3_600)) == 30 * 24 + 1
    assert store.pace(clock.now() + timedelta(days=1)) == []


@pytest.mark.parametrize("bad", ["", "x" * 2_000])
def test_a_name_that_is_none_is_refused(store, clock, bad):
    with pytest.raises(ValueError, match="task"):
        store.pace(clock.now(), task=bad)
    for ask in (store.upstream_pace, store.upstream_phases):
        with pytest.raises(ValueError, match="upstream"):
            ask(bad, clock.now())


# --- how long it took -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "micros",
    [0, 1, 999, 1_000, 1_001, 2_500, 2_501, 50_000, 10**6, 10**6 + 1, 10**12, 10**12 + 1, 2**52],
)
def test_the_store_and_python_mean_the_same_bucket(store, micros):
    bucket = "(SELECT bucket FROM seawall_span_bucket WHERE upto >= {} ORDER BY upto LIMIT 1)"
    if store._backend.dialect == "postgres":
        bucket = "seawall.span_bucket({})"
    asked = f"SELECT {bucket.format(micros)}"
    if store._backend.dialect == "postgres":
        with store._backend._connected() as connection:
            ((found,),) = connection.execute(asked).fetchall()
    else:
        ((found,),) = store._backend._connection.execute(asked).fetchall()

    assert found == span_bucket(micros)
    bounds = (0.0, *BOUNDS_SECONDS, float("inf"))
    assert bounds[found] < micros / 1e6 <= bounds[found + 1] or micros == found == 0


def test_a_percentile_is_told_to_within_its_bucket():
    took = Histogram.of([(BOUNDS_SECONDS.index(1), 90), (BOUNDS_SECONDS.index(10), 10)])

    assert (took.many, took.percentile(0.9)) == (100, 1.0)
    assert 0.5 < took.percentile(0.5) <= 1.0
    assert 5.0 < took.percentile(0.95) <= 10.0
    assert Histogram.of([]).percentile(0.5) is None
    assert Histogram.of([(len(BOUNDS_SECONDS), 1)]).percentile(0.5) == BOUNDS_SECONDS[-1]


# --- upstreams --------------------------------------------------------------------------------


def test_calls_at_an_upstream_are_told_by_the_minute_and_over_all_time(store, clock, folds):
    start = clock.now()
    fast, slow = span_bucket(10_000), span_bucket(2_000_000)
    store.observe([
        Observation("api", "w1", firsts=3, retries=1, failures=1, micros=4, spans=((fast, 4),)),
        Observation("api", "w2", firsts=1, denied=1, micros=1, spans=((slow, 1),)),
        Observation("other", "w2", firsts=9),
    ])  # fmt: skip
    clock.advance(60)
    folds()
    store.observe([Observation("api", "w1", firsts=5, micros=5_000_000, spans=((slow, 5),))])
    folds()

    first, second = (each for each in store.upstream_pace("api", start) if each.calls)
    assert (first.calls, first.failures, first.denied) == (5, 1, 1)
    assert first.took == Histogram.of([(fast, 4), (slow, 1)])
    assert (second.at - first.at, second.calls, second.seconds) == (timedelta(minutes=1), 5, 5.0)
    assert first.took.percentile(0.5) <= 0.01
    assert 1 < second.took.percentile(0.5) <= 2.5
    (whole,) = store.upstream_pace("api", start, step_seconds=86_400)[:1]
    api, other = store.upstream_totals()
    assert (api.name, api.calls, api.failures, api.denied) == ("api", 10, 1, 1)
    assert api.took == Histogram.of([(fast, 4), (slow, 6)]) == whole.took
    assert (other.name, other.calls, other.took.many, other.open_seconds) == ("other", 9, 0, 0.0)


@pytest.mark.parametrize("spans", [((29, 1),), ((-1, 1),), ((0, -1),), ((0, 0.5),)])
def test_calls_in_a_bucket_that_is_none_are_refused(store, spans):
    with pytest.raises(ValueError, match="spans"):
        store.observe([Observation("api", "w1", spans=spans)])


def test_a_fold_leaves_the_minute_that_is_not_over(store, clock):
    clock.advance(60 - clock.now().timestamp() % 60)
    store.observe([Observation("api", "w1", firsts=1, spans=((0, 1),))])
    assert store.fold_pace() == 0
    clock.advance(60)
    assert store.fold_pace() == 2
    assert store.fold_pace() == 0
    assert store.upstream_totals()[0].calls == 1


# --- breakers ---------------------------------------------------------------------------------


def turned(store, phase, until=None, name="api"):
    with store.govern(name, wait=True) as desk:
        desk.keep("state", gated=True, turn=Turn(UpstreamPhase(phase), until))


def spans(store, since, name="api"):
    """Each phase, and how long it lasted."""
    found = store.upstream_phases(name, since)
    ends = [each.until for each in found]
    assert ends[:-1] == [each.since for each in found[1:]], "without gaps"
    assert ends[-1] is None
    return [
        (str(each.phase), each.until and (each.until - each.since).total_seconds())
        for each in found
    ]


def test_one_that_nobody_had_anything_against_was_closed(store, clock):
    assert spans(store, clock.now() - timedelta(hours=1)) == [("closed", None)]


def test_a_breakers_phases_follow_one_another_and_time_alone_ends_them(store, clock):
    start = clock.now()
    clock.advance(10)
    turned(store, "open", clock.now() + timedelta(seconds=5))
    clock.advance(8)
    assert spans(store, start) == [("closed", 10), ("open", 5), ("half_open", None)]
    turned(store, "half_open")  # nothing new
    turned(store, "open", clock.now() + timedelta(seconds=10))
    clock.advance(4)
    turned(store, "open", clock.now() + timedelta(seconds=60))  # it asked for more time
    clock.advance(60)
    turned(store, "closed")
    clock.advance(1)
    turned(store, "held", clock.now() + timedelta(seconds=7))
    clock.advance(9)

    assert spans(store, start) == [
        ("closed", 10), ("open", 5), ("half_open", 3), ("open", 4), ("open", 60),
        ("closed", 1), ("held", 7), ("closed", None),
    ]  # fmt: skip
    (api,) = store.upstream_totals()
    assert api.open_seconds == 5 + 4 + 60 + 7


def test_the_time_that_it_is_shut_grows_while_it_is(store, clock):
    turned(store, "held")
    clock.advance(30)
    assert store.upstream_totals()[0].open_seconds == 30
    with store.govern("api", wait=True) as desk:
        desk.drop()
    clock.advance(30)
    assert store.upstream_totals()[0].open_seconds == 30
    turned(store, "forced_closed")
    clock.advance(30)
    assert store.upstream_totals()[0].open_seconds == 30


def test_what_was_not_decided_in_the_end_is_not_told(store, clock):
    start = clock.now()
    with suppress(ChangedMindError), store.govern("api", wait=True) as desk:
        desk.keep("state", gated=True, turn=Turn(UpstreamPhase.OPEN))
        raise ChangedMindError

    assert spans(store, start) == [("closed", None)]
    assert store.upstream_totals() == []


def test_phases_are_forgotten_after_two_days_but_never_the_time_that_it_was_shut(store, clock):
    for _ in range(3):
        turned(store, "open", clock.now() + timedelta(seconds=5))
        clock.advance(6)
        turned(store, "closed")
        clock.advance(60)
    shut = store.upstream_totals()[0].open_seconds
    clock.advance(60 * KEEP_PACE_MINUTES)

    assert store.forget_pace(limit=2) == 2
    assert store.forget_pace() == 3
    assert store.forget_pace() == 0
    assert store.upstream_totals()[0].open_seconds == shut == 15
    assert spans(store, clock.now() - timedelta(hours=1)) == [("closed", None)]


def test_of_a_breaker_that_turns_very_often_the_last_turns_are_told(store, clock, monkeypatch):
    monkeypatch.setattr(pacing, "MOST_PHASES", 3)
    start = clock.now()
    for phase in ("open", "closed", "open", "closed", "open"):
        turned(store, phase)
        clock.advance(1)

    assert spans(store, start) == [("open", 1), ("closed", 1), ("open", None)]
    assert store.upstream_totals()[0].open_seconds == 3


def test_the_times_of_the_store_are_those_of_its_clock(store, clock):
    since = datetime(2020, 1, 1, tzinfo=UTC)
    turned(store, "open", clock.now() + timedelta(days=1))

    before, now = store.upstream_phases("api", since)

    assert (before.since, before.until, now.since) == (since, clock.now(), clock.now())
