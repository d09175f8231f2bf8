"""`page`: jobs that match, in an order that holds still while others come and go."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seawall.faults import Fault, FaultCode
from seawall.model import Lane, Outcome
from seawall.redact import redacted
from seawall.states import State
from seawall.store import finding, open_store
from seawall.store.values import MOST_ROWS, Filter, Redrive
from tests.support.kinds import shared
from tests.support.ledger import claimed, ended, enqueued, new_job, wanted

OTHER = Lane(task="other", queue="slow")


def ids(store, which, **how):
    return [job.id for job in store.page(which, **how)]


def all_ids(store, which, limit):
    """Every job of the list, part by part; no part but the last is short, and the last is the end."""
    found, after = [], None
    while True:
        page = store.page(which, after=after, limit=limit)
        found += [job.id for job in page]
        after = page.next
        if after is None:
            return found
        assert len(page) == limit


def looked_for(store, which, limit):
    """Every job of the list, where a look may end before a part is full."""
    found, after, looks = [], None, 0
    while True:
        page = store.page(which, after=after, limit=limit)
        found += [job.id for job in page]
        after, looks = page.next, looks + 1
        assert page.whole or (after is not None and len(page) <= limit)
        if after is None:
            assert page.whole
            return found
        assert not page.whole or len(page) == limit
        assert looks < 200, "it goes round in a circle"


ARGUMENTS = (
    '{"path":"Report-A.pdf","n":1}',
    '{"path":"b.PDF","password":"hunter2pdf"}',
    '["Größe ÄÖ","C:\\\\x"]',
    '{"url":"https://x.test/a?token=Report-A"}',
    "[]",
)
SEALED = 5
"""The one whose arguments another codec wrote."""
FAULTS = (Fault(FaultCode.TIMEOUT, "no answer"), Fault(FaultCode.NOT_FOUND, '"code":"TIMEOUT"'))


def some_jobs(store, clock):
    """Twelve jobs of every state, in three lanes; answers the ids."""
    lanes = (Lane(task="work"), Lane(task="work", owner="x"), OTHER)
    made = []
    for at in range(12):
        clock.advance(1)
        made += enqueued(
            store,
            new_job(
                ARGUMENTS[at % 5],
                lane=lanes[at % 3],
                codec="sealed" if at == SEALED else "json",
                key=f"k{at}" if at % 2 else None,
                owner=("ann", "bob", None)[at % 3],
                tags=(("red",), ("red", "blue"), ())[at % 3],
                run_after=clock.now() + timedelta(seconds=100 - at) if at >= 10 else None,
            ),
        )
    ends = [Outcome.SUCCEEDED, Outcome.SKIPPED, Outcome.FAILED, Outcome.SUCCEEDED]
    for at in range(8):
        clock.advance(1)
        (claim,) = store.claim(wanted(1, tasks=("work", "other"), queues=None))
        if at < 6:
            outcome = ends[at % 4]
            fault = {"fault": FAULTS[at // 4]} if outcome is Outcome.FAILED else {}
            store.settle([ended(claim.token, outcome, **fault)])
    clock.advance(1)
    cancelled = [job.id for job in store.jobs(made).values() if job.state is State.QUEUED][:1]
    store.cancel(cancelled)
    return made


def expected(store, made, which):
    """What the page owes: the same filter in plain Python, in the order that the port promises."""
    found = [
        job
        for job in store.jobs(made).values()
        if matches(job, which) and holds(store, made, job, which.argument)
    ]
    if which.key is None and which.state is State.QUEUED:
        return [job.id for job in sorted(found, key=lambda job: (job.due_at, job.id))]
    if which.key is which.run is None and which.state not in (None, State.RUNNING):
        found.sort(key=lambda job: (job.finished_at, job.id), reverse=True)
        return [job.id for job in found]
    return sorted((job.id for job in found), reverse=True)


def holds(store, made, job, text):
    """Whether the text stands in the arguments, both as they are kept and as they are shown."""
    if text is None:
        return True
    kept = store.arguments(job.id)
    if made.index(job.id) == SEALED:
        return False
    shown = json.dumps(redacted(json.loads(kept)), ensure_ascii=False, separators=(",", ":"))
    return small(text) in small(kept) and small(text) in small(shown)


def small(text):
    return "".join(c.lower() if c.isascii() else c for c in text)


def matches(job, which):
    same = all(
        getattr(which, name) in (None, getattr(job, name))
        for name in ("state", "task", "queue", "owner", "key", "run")
    )
    fault = None if job.last_fault is None else job.last_fault.code
    after, before = which.created_after, which.created_before
    return (
        same
        and which.fault in (None, fault)
        and (which.tag is None or which.tag in job.tags)
        and (after is None or job.created_at >= after)
        and (before is None or job.created_at < before)
    )


@pytest.mark.parametrize("state", [None, *State])
@pytest.mark.parametrize("limit", [1, 2, 50])
def test_every_list_can_be_read_part_by_part(store, clock, state, limit):
    made = some_jobs(store, clock)
    for which in (
        Filter(state=state),
        Filter(state=state, tag="red"),
        Filter(state=state, owner="ann"),
        Filter(state=state, owner="bob", tag="blue"),
        Filter(state=state, task="work"),
        Filter(state=state, queue="slow"),
        Filter(state=state, key="k3"),
        Filter(state=state, key="k3", task="work"),
        Filter(state=state, task="nobody's"),
    ):
        assert all_ids(store, which, limit) == expected(store, made, which), which


@pytest.mark.parametrize("looked_at", [1, 2, 5, 10_000])
def test_any_filter_finds_what_it_names_however_short_a_look_is(
    store, clock, monkeypatch, looked_at
):
    monkeypatch.setattr(finding, "LOOKED_AT", looked_at)
    monkeypatch.setattr(finding, "LOOKED_INTO", looked_at)
    monkeypatch.setattr(finding, "_LEAST_OF_A_LANE", 1)
    monkeypatch.setattr(finding, "_READ_AT_ONCE", 2)
    made = some_jobs(store, clock)
    first = store.jobs(made)[made[0]].created_at
    times = st.none() | st.integers(-1, 13).map(lambda at: first + timedelta(seconds=at))
    filters = st.builds(
        Filter,
        state=st.none() | st.sampled_from(State),
        task=st.sampled_from([None, "work", "other"]),
        queue=st.sampled_from([None, "default", "slow"]),
        owner=st.sampled_from([None, "ann", "bob"]),
        tag=st.sampled_from([None, "red", "blue"]),
        key=st.sampled_from([None, None, None, "k1", "k4"]),
        fault=st.sampled_from([None, None, FaultCode.TIMEOUT, FaultCode.NOT_FOUND]),
        argument=st.sampled_from(
            [
                None,
                None,
                "pdf",
                "REPORT-A",
                "hunter2",
                "ö",
                "Ö",
                "x",
                '"path"',
                "redacted",
                "%",
                "_",
            ]
        ),
        created_after=times,
        created_before=times,
    )

    @settings(max_examples=40, suppress_health_check=list(HealthCheck))
    @given(which=filters, limit=st.integers(1, 5))
    def found(which, limit):
        assert looked_for(store, which, limit) == expected(store, made, which)

    found()


def test_a_state_may_be_said_in_words(store):
    (job_id,) = enqueued(store)

    assert ids(store, Filter(state="queued")) == [job_id]
    assert ids(store, Filter(state="failed")) == []


def test_jobs_are_shown_whole(store):
    (job_id,) = enqueued(store, new_job(key="k", owner="o", tags=("t",)))

    assert store.page(Filter()).jobs == (store.jobs([job_id])[job_id],)


def test_what_comes_meanwhile_does_not_move_the_rest(store, clock):
    old = enqueued(store, *(new_job() for _ in range(4)))
    page = store.page(Filter(), limit=2)
    enqueued(store, new_job(), new_job())

    assert [job.id for job in page] == old[:1:-1]
    assert ids(store, Filter(), after=page.next) == old[1::-1]


def test_what_goes_meanwhile_does_not_move_the_rest(store, clock):
    claims = claimed(store, *(new_job() for _ in range(4)))
    for claim in claims:
        clock.advance(1)
        store.settle([ended(claim.token)])
    page = store.page(Filter(state=State.SUCCEEDED), limit=2)
    store.prune(State.SUCCEEDED, older_than_seconds=2, limit=1)

    left = ids(store, Filter(state=State.SUCCEEDED), after=page.next)

    assert [job.id for job in page] == [claims[3].token.job_id, claims[2].token.job_id]
    assert left == [claims[1].token.job_id]


def test_the_place_of_a_job_that_is_gone_is_still_a_place(store, clock):
    claims = claimed(store, *(new_job() for _ in range(3)))
    store.settle([ended(claims[2].token)])
    page = store.page(Filter(), limit=1)
    clock.advance(1)
    store.prune(State.SUCCEEDED, older_than_seconds=0)

    assert ids(store, Filter(), after=page.next) == [
        claims[1].token.job_id, claims[0].token.job_id,
    ]  # fmt: skip


def test_jobs_that_ended_in_the_same_moment_are_each_shown_once(store):
    claims = claimed(store, *(new_job() for _ in range(7)))
    store.settle([ended(claim.token) for claim in claims])

    found = all_ids(store, Filter(state=State.SUCCEEDED), 2)

    assert found == sorted((claim.token.job_id for claim in claims), reverse=True)


def test_a_place_is_a_word_that_fits_into_an_address(store):
    enqueued(store, *(new_job() for _ in range(3)))

    for which in (Filter(), Filter(state=State.QUEUED)):
        after = store.page(which, limit=1).next
        assert after
        assert all(letter.isalnum() or letter in "-_" for letter in after)


@pytest.mark.parametrize(
    "after", ["", "x", "!!!", "äöü", "cGFnZV9uZXdlc3Q", "cGFnZV9uZXdlc3QgeCA", 7, "A" * 10_000]
)
@pytest.mark.parametrize("state", [None, State.QUEUED, State.FAILED])
def test_a_word_that_is_no_place_is_refused_in_one_line(store, state, after):
    with pytest.raises(ValueError, match=r"^after: found .*expected the `next` of a page") as no:
        store.page(Filter(state=state), after=after)
    assert len(str(no.value)) < 200


def test_a_place_in_another_list_is_refused(store):
    enqueued(store, new_job(), new_job())
    after = store.page(Filter(), limit=1).next

    with pytest.raises(ValueError, match=r"^after: "):
        store.page(Filter(state=State.QUEUED), after=after)


@pytest.mark.parametrize("limit", [0, -1, MOST_ROWS + 1, 1.5])
def test_a_limit_out_of_bounds_is_refused(store, limit):
    with pytest.raises(ValueError, match=r"^limit: "):
        store.page(Filter(), limit=limit)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("task", ""), ("tag", "a\nb"), ("owner", 7), ("created_after", "today"), ("key", "x" * 201),
        ("argument", ""), ("argument", "a\0b"), ("argument", "\ud800"), ("argument", "x" * 201),
    ],
)  # fmt: skip
def test_a_filter_that_can_match_nothing_is_refused(field, wrong):
    with pytest.raises(ValueError, match=f"^{field}: "):
        Filter(**{field: wrong})


@shared
def test_jobs_in_a_lane_that_another_process_has_just_made_are_shown(url, clock):
    with open_store(url, clock=clock) as store, open_store(url, clock=clock) as other:
        enqueued(store)
        store.page(Filter())
        (job_id,) = enqueued(other, new_job(lane=OTHER, key="k"))

        for which in (
            Filter(task="other"),
            Filter(queue="slow", state=State.QUEUED),
            Filter(key="k"),
        ):
            assert ids(store, which) == [job_id]


def test_a_fault_that_is_none_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean TIMEOUT"):
        Filter(fault="TIMEOUTS")
    assert Filter(fault="TIMEOUT").fault is FaultCode.TIMEOUT


# --- looking only so far --------------------------------------------------------------------------


@pytest.fixture
def near(monkeypatch):
    """A look goes no further than ten jobs."""
    monkeypatch.setattr(finding, "LOOKED_AT", 10)
    monkeypatch.setattr(finding, "LOOKED_INTO", 10)


FAR = {
    "the newest": Filter(argument="needle"),
    "by task": Filter(task="other"),
    "an owner's that wait": Filter(state=State.QUEUED, owner="ann"),
    "what waits, by argument": Filter(state=State.QUEUED, argument="needle"),
    "with a tag": Filter(tag="t", argument="needle"),
    "of an owner": Filter(owner="bob", argument="needle"),
    "of a run": Filter(run=7, argument="needle"),
}


@pytest.mark.parametrize("which", FAR.values(), ids=FAR)
def test_a_page_says_that_it_looked_only_so_far_and_goes_on_from_there(store, near, which):
    hay = new_job(owner="bob", tags=("t",), run=7, lane=Lane(task="work", run=7))
    late = datetime(2999, 1, 1, tzinfo=UTC)
    needles = (
        new_job('["needle"]', owner="bob", tags=("t",), run=7, lane=Lane(task="work", run=7)),
        new_job('["needle"]', owner="ann", lane=Lane(task="other")),
    )
    made = enqueued(store, *(replace(each, run_after=late) for each in needles))
    enqueued(store, *[hay] * 45)

    first = store.page(which, limit=3)

    assert (first.jobs, first.whole) == ((), False)
    assert first.next is not None
    found = looked_for(store, which, 3)
    assert found == expected(store, made, which)
    assert found


@pytest.mark.parametrize("state", [State.FAILED, State.SUCCEEDED])
def test_what_has_ended_is_looked_through_so_far_and_no_further(store, near, clock, state):
    outcome = Outcome.FAILED if state is State.FAILED else Outcome.SUCCEEDED
    (first,) = claimed(store, new_job(owner="ann"))
    store.settle([ended(first.token, outcome)])
    clock.advance(1)
    claims = claimed(store, *[new_job(owner="bob") for _ in range(45)], limit=45)
    store.settle([ended(claim.token, outcome) for claim in claims])

    page = store.page(Filter(state=state, owner="ann"))

    assert (page.jobs, page.whole) == ((), False)
    assert looked_for(store, Filter(state=state, owner="ann"), 3) == [first.token.job_id]


@pytest.mark.parametrize("which", [Filter(), Filter(state=State.QUEUED), Filter(owner="bob")])
def test_a_list_that_has_an_index_is_told_without_a_look_at_others(store, near, which):
    made = enqueued(store, *[new_job(owner="bob") for _ in range(45)])

    page = store.page(which, limit=45)

    assert sorted(job.id for job in page) == made
    assert page.whole


def test_a_secret_is_not_to_be_found_out_by_looking_for_it(store, near):
    secret = '{"password":"hunter2","path":"a.pdf"}'
    enqueued(store, *[new_job(secret)] * 3, *[new_job("[]")] * 4)

    guess, wrong = Filter(argument="hunter2"), Filter(argument="hunter3")

    for limit in (1, 2, 50):
        assert store.find(guess, limit=limit) == store.find(wrong, limit=limit)
    assert len(store.page(Filter(argument="A.PDF"))) == 3
    assert len(store.page(Filter(argument="password"))) == 3


def test_a_job_that_was_sent_again_has_no_fault_to_be_found_by(store):
    (claim,) = claimed(store)
    store.settle([ended(claim.token, Outcome.FAILED)])
    assert len(store.page(Filter(fault="TIMEOUT"))) == 1

    store.redrive([Redrive(claim.token.job_id)])

    assert len(store.page(Filter(fault="TIMEOUT"))) == 0


def test_numbers_are_found_as_pages_are(store):
    made = enqueued(store, *[new_job() for _ in range(5)])

    first = store.find(Filter(), limit=2)

    assert first.ids == (made[4], made[3])
    assert store.find(Filter(), after=first.next, limit=9).ids == tuple(made[2::-1])
