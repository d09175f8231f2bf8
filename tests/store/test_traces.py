"""Traces: what a job was asked for in comes with every claim, and the last attempt's span with it."""

import sqlite3
from contextlib import closing

import pytest

from seawall.model import Begin, Lane, NewJob, Outcome, Token
from seawall.store import enqueue_beside, migrate_store
from seawall.store.values import Advance, Redrive, Release
from tests.support.callers import ON_POSTGRES, ON_SQLITE
from tests.support.kinds import on_postgres
from tests.support.ledger import claimed, ended, enqueued, lost, new_job, wanted

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 vendor=x"
SPAN = "00-4bf92f3577b34da6a3ce929d0e0e4736-{:016x}-01"


@pytest.mark.parametrize(
    "job",
    [
        NewJob.plain(Lane("work"), "[]", "json").in_trace(TRACE),
        new_job(request_id="r", trace=TRACE),
        new_job(key="k", tags=("t",), trace=TRACE),
        new_job(run_after_seconds=0, trace=TRACE),
    ],
    ids=["plain", "short", "keyed", "later"],
)
def test_what_a_job_was_asked_for_in_comes_with_its_claim(store, job):
    (claim,) = claimed(store, job)
    assert (claim.trace, claim.span, claim.request_id) == (TRACE, None, job.request_id)


def test_a_job_without_a_trace_has_none(store):
    claims = claimed(store, new_job(), new_job(trace=TRACE), new_job())
    assert [claim.trace for claim in claims] == [None, TRACE, None]


def test_in_bulk_each_job_keeps_its_own(store):
    traces = [None if n % 3 == 0 else SPAN.format(n) for n in range(1_000)]
    plain = NewJob.plain(Lane("work"), "[]", "json")
    enqueued(store, *[plain if t is None else plain.in_trace(t) for t in traces])
    claims = store.claim(wanted(1_000))
    assert [claim.trace for claim in claims] == traces


@on_postgres
@pytest.mark.parametrize("opened", ON_POSTGRES, ids=lambda each: each.__name__)
def test_in_a_callers_own_transaction_it_is_kept_too(store, url, opened):
    with opened(url) as caller:
        store.enqueue_on(caller.given, [new_job(trace=TRACE)])
        caller.commit()
    (claim,) = store.claim(wanted())
    assert claim.trace == TRACE


@pytest.mark.parametrize("opened", ON_SQLITE, ids=lambda each: each.__name__)
def test_in_a_callers_own_transaction_on_sqlite_it_is_kept_too(tmp_path, opened):
    path = tmp_path / "jobs.db"
    url = f"sqlite:///{path}"
    migrate_store(url)
    with opened(url) as caller:
        enqueue_beside(url, caller.given, [new_job(trace=TRACE)], store=None)
        caller.commit()
    with closing(sqlite3.connect(path)) as found:
        assert found.execute("SELECT trace FROM seawall_job_data").fetchall() == [(TRACE,)]


def test_children_and_transactions_of_our_own_keep_it(store):
    (claim,) = claimed(store)
    store.settle([ended(claim.token, children=(new_job(trace=TRACE),))])
    with store.transaction():
        enqueued(store, new_job(trace=TRACE))
    assert [each.trace for each in store.claim(wanted())] == [TRACE, TRACE]


@pytest.mark.parametrize("outcome", [Outcome.RETRIED, Outcome.SNOOZED])
def test_the_span_of_the_last_attempt_comes_with_the_next_claim(store, clock, outcome):
    (claim,) = claimed(store, new_job(trace=TRACE))
    for number in (1, 2, 3):
        store.settle([ended(claim.token, outcome, span=SPAN.format(number))])
        clock.advance(60)
        (claim,) = store.claim(wanted())
        assert (claim.trace, claim.span) == (TRACE, SPAN.format(number))


def test_after_attempts_that_were_lost_it_is_that_of_the_last_that_has_one(store, clock):
    (claim,) = claimed(store, new_job(trace=TRACE))
    store.settle([ended(claim.token, Outcome.RETRIED, span=SPAN.format(1))])
    for _ in range(2):
        clock.advance(120)
        (claim,) = store.claim(wanted())
        clock.advance(120)
        store.reclaim([lost(claim.token)])
    clock.advance(60)
    (claim,) = store.claim(wanted())
    assert (claim.token.seq, claim.span) == (4, SPAN.format(1))


def test_a_job_that_was_handed_back_tells_the_span_of_what_had_begun(store):
    (claim,) = claimed(store)
    store.release([Release(token=claim.token, duration_seconds=1, span=SPAN.format(1))])
    (claim,) = store.claim(wanted())
    assert claim.span == SPAN.format(1)
    store.release([Release(token=claim.token)])
    (claim,) = store.claim(wanted())
    assert claim.span == SPAN.format(1)


def test_the_span_of_a_stage_comes_with_the_next_one_wherever_that_is_made(store):
    (claim,) = claimed(store)
    after = Lane("work", stage=1)
    (answer,) = store.settle([Advance(token=claim.token, lane=after, span=SPAN.format(1))])
    assert answer.state == "running"
    store.release([Release(token=claim.token.next())])
    (claim,) = store.claim(wanted())
    assert (claim.lane.stage, claim.span) == (1, SPAN.format(1))


def test_whoever_takes_a_job_back_has_both(store):
    begin = Begin(worker="inline:me", lease_seconds=30)
    (job_id,) = enqueued(store, new_job(begin=begin, trace=TRACE))
    token = Token(job_id, 1, 1)
    store.settle([ended(token, Outcome.RETRIED, counts=False, span=SPAN.format(1))])
    claim = store.take_back(token, worker="inline:me", lease_seconds=20)
    assert (claim.trace, claim.span) == (TRACE, SPAN.format(1))


def test_a_redriven_job_is_in_its_old_trace(store):
    (claim,) = claimed(store, new_job(trace=TRACE))
    store.settle([ended(claim.token, Outcome.FAILED, span=SPAN.format(1))])
    store.redrive([Redrive(claim.token.job_id, arguments='["new"]')])
    (claim,) = store.claim(wanted())
    assert (claim.trace, claim.span, claim.arguments) == (TRACE, SPAN.format(1), '["new"]')
