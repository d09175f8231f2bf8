"""`enqueue`: each job is written whole or not at all, and a key is given once."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from seawall.model import LAST_YEAR, Begin, Lane, Outcome, Token
from seawall.states import State
from seawall.store import open_store
from seawall.store.values import MOST_ROWS, Enqueued, Result, Taken
from tests.support.kinds import shared
from tests.support.ledger import LANE, claimed, ended, enqueued, failed, new_job, wanted

LONE_SURROGATE = '["\ud800"]'
AWKWARD = [
    "\\N",
    "\\.",
    "a\tb\nc\rd\\",
    '"',
    "'",
    "%s %(now)s :now",
    "",
    "日本語 🌊 \u2028 e\u0301 \u202e",
]


def test_a_new_job_is_queued_due_now_and_has_no_history(store, clock):
    (answer,) = store.enqueue([new_job()])

    assert (answer.taken, answer.reason) == (Taken.CREATED, "")
    job = store.jobs([answer.job_id])[answer.job_id]
    assert (job.state, job.due_at, job.created_at) == (State.QUEUED, clock.now(), clock.now())
    assert (job.cycle, job.tries, job.losses, job.seq, job.lease_no) == (0, 0, 0, 0, 0)
    assert (job.lease, job.started_at, job.last_attempt_at, job.finished_at) == (None,) * 4
    assert (job.cancel_requested, job.last_fault, job.key, job.deadline_at) == (
        False,
        None,
        None,
        None,
    )
    assert store.attempts(job.id) == []


def test_everything_that_was_asked_for_is_kept(store, clock):
    lane = Lane(task="work", queue="slow", stage=3, upstream="openai", priority=-7, owner="turn")
    times = {
        "run_after": clock.now() + timedelta(minutes=1),
        "deadline_at": clock.now() + timedelta(hours=1, microseconds=1),
    }
    asked = new_job(
        '{"a":1}', lane=lane, codec="mine", key="k", owner="o", run=7, request_id="r", **times
    )

    (job_id,) = enqueued(store, asked)

    job = store.jobs([job_id])[job_id]
    assert (job.task, job.queue, job.stage) == ("work", "slow", 3)
    assert (job.upstream, job.priority) == ("openai", -7)
    assert (job.key, job.owner, job.run) == ("k", "o", 7)
    assert (job.due_at, job.deadline_at) == (times["run_after"], times["deadline_at"])
    clock.advance(60)
    (claim,) = store.claim(wanted(queues=("slow",)))
    assert (claim.lane, claim.codec, claim.arguments) == (lane, "mine", '{"a":1}')
    assert (claim.owner, claim.run, claim.request_id) == ("o", 7, "r")
    assert claim.deadline_at == times["deadline_at"]


def test_ids_grow_in_the_order_given(store):
    first = enqueued(store, *(new_job(str(n)) for n in range(20)))
    second = enqueued(store, *(new_job(str(n)) for n in range(600)))

    assert first + second == sorted({*first, *second})


def test_nothing_asked_for_is_nothing_written(store):
    assert store.enqueue([]) == []
    assert store.verify().entered == 0


# --- times ------------------------------------------------------------------------------------


def test_a_job_for_later_is_not_due_before(store, clock):
    (job_id,) = enqueued(store, new_job(run_after=clock.now() + timedelta(seconds=10)))

    clock.advance(9.999999)
    assert store.claim(wanted()) == []
    clock.advance(0.000001)
    assert [claim.token.job_id for claim in store.claim(wanted())] == [job_id]


def test_a_time_in_the_past_is_now_and_jumps_no_line(store, clock):
    ids = enqueued(store, new_job(), new_job(run_after=clock.now() - timedelta(days=1)))

    assert [claim.token.job_id for claim in store.claim(wanted())] == ids
    assert store.jobs(ids)[ids[1]].due_at == clock.now()


def test_times_of_any_zone_are_kept_as_the_same_instant_in_utc(store):
    given = datetime(2026, 3, 1, 5, 30, 0, 123456, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    (job_id,) = enqueued(store, new_job(run_after=given, deadline_at=given))

    job = store.jobs([job_id])[job_id]

    assert job.due_at == job.deadline_at == datetime(2026, 3, 1, 0, 0, 0, 123456, tzinfo=UTC)
    assert (job.due_at.tzinfo, job.deadline_at.tzinfo) == (UTC, UTC)


@pytest.mark.parametrize("many", [1, 500])
def test_the_last_moment_that_may_be_named_is_kept(store, many):
    end = datetime(LAST_YEAR, 1, 1, tzinfo=UTC) - timedelta(microseconds=1)

    ids = enqueued(store, *(new_job(run_after=end, deadline_at=end) for _ in range(many)))

    assert {(job.due_at, job.deadline_at) for job in store.jobs(ids).values()} == {(end, end)}


@pytest.mark.parametrize("time", [datetime.max, datetime.min, datetime(LAST_YEAR, 1, 1)])  # noqa: DTZ001, DTZ901
@pytest.mark.parametrize("field", ["run_after", "deadline_at"])
def test_a_time_that_not_every_store_can_keep_is_refused_before(field, time):
    with pytest.raises(ValueError, match=f"{field}: found the year"):
        new_job(**{field: time.replace(tzinfo=UTC)})


# --- keys -------------------------------------------------------------------------------------


def test_a_key_that_comes_again_answers_the_job_that_has_it(store):
    (job_id,) = enqueued(store, new_job("[1]", key="k"))

    assert store.enqueue([new_job("[1]", key="k")]) == [Enqueued(Taken.EXISTING, job_id)]
    assert store.verify().entered == 1


@pytest.mark.parametrize("other", [new_job("[2]", key="k"), new_job("[1]", key="k", codec="mine")])
def test_a_key_with_other_arguments_is_a_conflict_and_changes_nothing(store, other):
    (job_id,) = enqueued(store, new_job("[1]", key="k"))
    before = store.jobs([job_id])

    assert store.enqueue([other]) == [Enqueued(Taken.CONFLICT, job_id)]

    assert store.jobs([job_id]) == before
    assert [claim.arguments for claim in store.claim(wanted())] == ["[1]"]


def test_the_same_key_is_free_in_another_task(store):
    ids = enqueued(store, new_job(key="k"), new_job(key="k", lane=Lane(task="other")))

    assert len(set(ids)) == 2


def test_a_key_is_its_tasks_whatever_the_lane(store):
    (job_id,) = enqueued(store, new_job(key="k"))
    lane = Lane(task="work", queue="slow", stage=1, upstream="openai", priority=5, owner="me")

    assert store.enqueue([new_job(key="k", lane=lane)]) == [Enqueued(Taken.EXISTING, job_id)]


def test_keys_are_compared_letter_by_letter(store):
    keys = ["k", "K", "k ", " k", "é", "e\u0301", "%", "_", "日本"]

    assert len(set(enqueued(store, *(new_job(key=key) for key in keys)))) == len(keys)


@pytest.mark.parametrize(
    "outcome",
    [Outcome.SUCCEEDED, Outcome.SKIPPED, Outcome.RETRIED, Outcome.FAILED, Outcome.CANCELLED],
)
def test_a_key_stays_taken_however_its_job_ended(store, outcome):
    (claim,) = claimed(store, new_job(key="k"))
    store.settle([ended(claim.token, outcome)])

    assert store.enqueue([new_job(key="k")]) == [Enqueued(Taken.EXISTING, claim.token.job_id)]


def test_a_key_is_free_again_once_its_job_is_pruned(store, clock):
    (job_id,) = failed(store, new_job("[1]", key="k"))
    clock.advance(1)
    store.prune(State.FAILED, older_than_seconds=0)

    (answer,) = store.enqueue([new_job("[2]", key="k")])

    assert answer.taken is Taken.CREATED
    assert answer.job_id > job_id


def test_of_a_key_that_is_twice_in_a_batch_the_first_is_written(store):
    first, same, other = store.enqueue(
        [new_job("[1]", key="k"), new_job("[1]", key="k"), new_job("[2]", key="k")]
    )

    assert first.taken is Taken.CREATED
    assert same == Enqueued(Taken.EXISTING, first.job_id)
    assert other == Enqueued(Taken.CONFLICT, first.job_id)


def test_of_keys_that_are_many_times_in_a_batch_the_first_of_each_is_written(store):
    keys = ["b", "a", "c"] * 40

    answers = store.enqueue([new_job(str(at), key=key) for at, key in enumerate(keys)])

    assert [answer.taken for answer in answers] == [Taken.CREATED] * 3 + [Taken.CONFLICT] * 117
    firsts = dict(zip(keys, answers[:3], strict=False))
    assert [answer.job_id for answer in answers] == [firsts[key].job_id for key in keys]


def test_answers_come_in_the_order_asked(store):
    (taken,) = enqueued(store, new_job("[1]", key="taken"))

    answers = store.enqueue(
        [
            new_job("[1]", key="z"),
            new_job("[1]", key="taken"),
            new_job(LONE_SURROGATE, key="bad"),
            new_job("[2]", key="taken"),
            new_job("[1]", key="a"),
            new_job(),
        ]
    )

    assert [answer.taken for answer in answers] == [
        Taken.CREATED, Taken.EXISTING, Taken.REFUSED, Taken.CONFLICT, Taken.CREATED, Taken.CREATED,
    ]  # fmt: skip
    assert answers[1].job_id == answers[3].job_id == taken
    keys = [store.jobs([answers[at].job_id])[answers[at].job_id].key for at in (0, 4, 5)]
    assert keys == ["z", "a", None]


# --- born running -----------------------------------------------------------------------------


def test_a_job_that_begins_at_once_is_born_running_under_lease_1(store, clock):
    (job_id,) = enqueued(store, new_job(begin=Begin(worker="me", lease_seconds=30)))

    job = store.jobs([job_id])[job_id]
    assert (job.state, job.lease_no, job.seq) == (State.RUNNING, 1, 0)
    assert (job.lease.worker, job.lease.until) == ("me", clock.now() + timedelta(seconds=30))
    assert job.started_at == job.last_attempt_at == clock.now()
    assert store.claim(wanted()) == []
    (answer,) = store.settle([ended(Token(job_id, 1, 1))])
    assert (answer.result, answer.state) == (Result.DONE, State.SUCCEEDED)


def test_a_key_that_is_taken_begins_nothing(store):
    (job_id,) = enqueued(store, new_job(key="k"))

    (answer,) = store.enqueue([new_job(key="k", begin=Begin(worker="me", lease_seconds=30))])

    assert answer == Enqueued(Taken.EXISTING, job_id)
    assert store.jobs([job_id])[job_id].state is State.QUEUED


def test_a_job_that_began_at_once_can_be_lost_like_any_other(store, clock):
    (job_id,) = enqueued(store, new_job(begin=Begin(worker="me", lease_seconds=30)))
    clock.advance(30)

    (lapse,) = store.lapsed()

    assert (lapse.token, lapse.worker) == (Token(job_id, 1, 1), "me")


# --- bulk -------------------------------------------------------------------------------------


def test_a_thousand_at_once_are_the_same_as_one_by_one(store, clock):
    jobs = [
        new_job(
            f"[{n}]",
            lane=Lane(task="work", priority=n % 3, stage=n % 2, upstream="u" * (n % 2)),
            run_after=clock.now() + timedelta(seconds=n - 500) if n % 4 else None,
            deadline_at=clock.now() + timedelta(days=n + 1) if n % 5 else None,
            owner=f"o{n}" if n % 6 else None,
            run=n if n % 7 else None,
            request_id=f"r{n}" if n % 8 else None,
        )
        for n in range(MOST_ROWS)
    ]

    bulk = store.jobs(enqueued(store, *jobs))
    singles = store.jobs([job_id for job in jobs[:60] for job_id in enqueued(store, job)])

    assert len(bulk) == MOST_ROWS
    for one, of_many in zip(_by_id(singles), _by_id(bulk), strict=False):
        assert _but_id(one) == _but_id(of_many)
    assert store.verify().entered == MOST_ROWS + 60


@pytest.mark.parametrize("many", [1, 2, MOST_ROWS])
def test_plain_jobs_are_written_in_their_order_with_what_is_theirs(store, clock, many):
    """They go a shorter way than others: the same must come of it, in one write."""
    lanes = [Lane(task="work"), Lane(task="work", stage=1)]
    jobs = [
        new_job(
            f"[{n}]",
            lane=lanes[n % 2],
            owner=f"o{n}" if n % 3 else None,
            request_id=f"r{n}" if n % 5 else None,
        )
        for n in range(many)
    ]
    enqueued(store, new_job("[-1]", key="first"))
    writes = []
    whole = store._backend.enqueue_plain
    store._backend.enqueue_plain = lambda given: writes.append(len(given)) or whole(given)
    ids = enqueued(store, *jobs)

    assert writes == [many]
    assert ids == list(range(ids[0], ids[0] + many))
    taken = store.claim(wanted(MOST_ROWS)) + store.claim(wanted(MOST_ROWS))
    claims = {claim.token.job_id: claim for claim in taken}
    for job_id, job in zip(ids, jobs, strict=True):
        claim = claims[job_id]
        assert (claim.arguments, claim.owner) == (job.arguments, job.owner)
        assert (claim.request_id, claim.lane) == (job.request_id, job.lane)
        assert claim.due_at == clock.now()
    assert store.verify().entered == many + 1
    assert store.verify().ok


@pytest.mark.parametrize("copies", [1, 20])
def test_awkward_text_comes_back_as_it_was_given(store, copies):
    jobs = [new_job(text, request_id="日本 🌊") for text in AWKWARD * copies]

    claims = claimed(store, *jobs, limit=MOST_ROWS)

    assert [claim.arguments for claim in claims] == AWKWARD * copies
    assert {claim.request_id for claim in claims} == {"日本 🌊"}


def test_a_payload_of_a_megabyte_is_kept(store):
    text = '"' + "ü🌊" * 200_000 + '"'

    (claim,) = claimed(store, new_job(text))

    assert claim.arguments == text


# --- rows that cannot be stored ---------------------------------------------------------------


@pytest.mark.parametrize("many", [1, 2, 7, 600])
@pytest.mark.parametrize("bad", [new_job(LONE_SURROGATE), new_job(run=2**63)])
def test_a_row_that_cannot_be_stored_is_refused_alone(store, many, bad):
    jobs = [new_job(str(n)) for n in range(many)]
    jobs.insert(many // 2, bad)

    answers = store.enqueue(jobs)

    refused = answers.pop(many // 2)
    assert (refused.taken, refused.job_id) == (Taken.REFUSED, None)
    assert "cannot be stored" in refused.reason
    assert {answer.taken for answer in answers} == {Taken.CREATED}
    assert [claim.arguments for claim in store.claim(wanted(MOST_ROWS))] == [
        str(n) for n in range(many)
    ]
    assert store.verify().entered == many


def test_a_refused_row_leaves_its_key_free(store):
    store.enqueue([new_job(LONE_SURROGATE, key="k")])

    enqueued(store, new_job("[1]", key="k"))


def test_more_rows_than_a_batch_may_have_are_refused_as_a_whole(store):
    with pytest.raises(ValueError, match="1,001 rows"):
        store.enqueue([new_job()] * (MOST_ROWS + 1))

    assert store.verify().entered == 0


@pytest.mark.parametrize("name", ["", "  ", "a\0b", "a\nb", "\ud800", "x" * 201, "🌊" * 151, 7])
@pytest.mark.parametrize("field", ["key", "owner", "request_id", "codec"])
def test_a_name_must_be_one_that_every_store_can_keep(field, name):
    with pytest.raises(ValueError, match=field):
        new_job(**{field: name})


@pytest.mark.parametrize("name", ["", "  ", "a\0b", "\ud800", "x" * 201])
@pytest.mark.parametrize("field", ["task", "queue"])
def test_a_lane_must_have_such_names_too(field, name):
    with pytest.raises(ValueError, match=field):
        Lane(**{"task": "work", field: name})


def test_the_longest_names_are_kept_by_every_store(store):
    long = "🌊" * 150
    lane = Lane(task=long, queue=long, upstream=long, owner=long)

    (job_id,) = enqueued(
        store, new_job(lane=lane, key=long, owner=long, request_id=long, codec=long)
    )

    job = store.jobs([job_id])[job_id]
    assert {job.task, job.queue, job.upstream, job.owner, job.key} == {long}
    (claim,) = store.claim(wanted(worker=long, tasks=(long,), queues=(long,)))
    assert (claim.lane, claim.codec, claim.request_id) == (lane, long, long)


@pytest.mark.parametrize("field", ["run_after", "deadline_at"])
def test_a_time_without_a_zone_is_no_time(field):
    with pytest.raises(ValueError, match=f"{field} needs a time zone"):
        new_job(**{field: datetime(2026, 1, 1)})  # noqa: DTZ001


def test_arguments_with_a_nul_are_refused_before_any_store_sees_them():
    with pytest.raises(ValueError, match="arguments: found a NUL"):
        new_job("a\0b")


@pytest.mark.parametrize("seconds", [0, -1, 0.0001, float("nan"), float("inf")])
def test_a_job_cannot_begin_under_a_lease_of_no_length(seconds):
    with pytest.raises(ValueError, match="lease_seconds"):
        Begin(worker="me", lease_seconds=seconds)


@pytest.mark.parametrize(
    "lane", [{"priority": 2**31}, {"priority": -(2**31) - 1}, {"stage": -1}, {"stage": 2**15}]
)
def test_a_lane_beyond_its_bounds_cannot_be_named(lane):
    with pytest.raises(ValueError, match="expected"):
        Lane(task="work", **lane)


def test_a_lane_at_its_bounds_is_kept(store):
    lanes = [Lane(task="work", priority=p, stage=2**15 - 1) for p in (2**31 - 1, 0, -(2**31))]

    claims = claimed(store, *(new_job(lane=lane) for lane in reversed(lanes)))

    assert [claim.lane for claim in claims] == lanes


@shared
def test_a_lane_made_by_another_store_is_found_not_made_twice(store, url, kind, clock):
    (first,) = enqueued(store, new_job(lane=LANE))
    with open_store(url, clock=clock) as other:
        (second,) = enqueued(other, new_job(lane=LANE))

        assert [claim.token.job_id for claim in other.claim(wanted())] == [first, second]


def _by_id(jobs):
    return [jobs[job_id] for job_id in sorted(jobs)]


def _but_id(job):
    return {name: getattr(job, name) for name in type(job).__slots__ if name != "id"}


@pytest.mark.parametrize("many", [1, 600])
def test_a_lane_that_is_gone_is_made_again_and_no_job_waits_where_nobody_looks(url, clock, many):
    """A server restored from yesterday's backup lacks the lanes of today."""
    with open_store(url, clock=clock) as store:
        enqueued(store)
        prefix = "seawall_" if store._backend.dialect == "sqlite" else "seawall."
        with store._backend.migrating() as session:
            session.script(f"DELETE FROM {prefix}lane")
            session.script(f"DELETE FROM {prefix}job")
        ids = enqueued(store, *[new_job() for _ in range(many)])
        assert sorted(claim.token.job_id for claim in store.claim(wanted(1_000))) == ids


@pytest.mark.parametrize("many", [1, 600])  # one by one, and in bulk
def test_spans_are_counted_by_the_stores_own_clock(store, clock, many):
    jobs = [new_job(run_after_seconds=10.0, deadline_seconds=30.0) for _ in range(many)]
    ids = enqueued(store, *jobs)

    job = store.jobs(ids[-1:])[ids[-1]]
    assert job.due_at == clock.now() + timedelta(seconds=10)
    assert job.deadline_at == clock.now() + timedelta(seconds=30)
    assert store.claim(wanted(1)) == []
    clock.advance(10)
    assert len(store.claim(wanted(1))) == 1


def test_a_due_time_counted_from_a_wrong_clock_is_put_right(store, clock):
    clock.advance(3_600)  # an hour ahead
    (job_id,) = enqueued(store, new_job(run_after_seconds=10.0))
    clock._now -= timedelta(hours=1)

    assert store.straighten().due_times == 1
    assert store.jobs([job_id])[job_id].due_at == clock.now() + timedelta(seconds=10)
