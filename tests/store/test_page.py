"""`page`: jobs that match, in an order that holds still while others come and go."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seawall.model import Lane, Outcome
from seawall.states import State
from seawall.store import open_store
from seawall.store.values import MOST_ROWS, Filter
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


def some_jobs(store, clock):
    """Twelve jobs of every state, in three lanes; answers the ids."""
    lanes = (Lane(task="work"), Lane(task="work", owner="x"), OTHER)
    made = []
    for at in range(12):
        clock.advance(1)
        made += enqueued(
            store,
            new_job(
                lane=lanes[at % 3],
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
            store.settle([ended(claim.token, ends[at % 4])])
    clock.advance(1)
    cancelled = [job.id for job in store.jobs(made).values() if job.state is State.QUEUED][:1]
    store.cancel(cancelled)
    return made


def expected(store, made, which):
    """What the page owes: the same filter in plain Python, in the order that the port promises."""
    found = [job for job in store.jobs(made).values() if matches(job, which)]
    if which.key is None and which.state is State.QUEUED:
        return [job.id for job in sorted(found, key=lambda job: (job.due_at, job.id))]
    if which.key is None and which.state not in (None, State.RUNNING):
        found.sort(key=lambda job: (job.finished_at, job.id), reverse=True)
        return [job.id for job in found]
    return sorted((job.id for job in found), reverse=True)


def matches(job, which):
    same = all(
        getattr(which, name) in (None, getattr(job, name))
        for name in ("state", "task", "queue", "owner", "key")
    )
    after, before = which.created_after, which.created_before
    return (
        same
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


def test_any_filter_finds_what_it_names(store, clock):
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
        created_after=times,
        created_before=times,
    )

    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(which=filters, limit=st.integers(1, 5))
    def found(which, limit):
        assert all_ids(store, which, limit) == expected(store, made, which)

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
    [("task", ""), ("tag", "a\nb"), ("owner", 7), ("created_after", "today"), ("key", "x" * 201)],
)
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
