"""Who may use the server, as the store keeps it; and what has become of jobs, as servers tell it."""

import hashlib
from datetime import timedelta

import pytest

from seawall.errors import StoreVersionError
from seawall.model import Outcome
from seawall.store import AccessScope, NewAccess, Redrive, open_store
from tests.support.kinds import shared
from tests.support.ledger import at_once, claimed, ended, enqueued, failed, new_job


def digest(word):
    return hashlib.sha256(word.encode()).hexdigest()


def new(word="a", **fields):
    usual = {"id": word, "digest": digest(word), "scope": AccessScope.OWNER, "owner": "ann"}
    return NewAccess(**{**usual, **fields})


def test_a_token_is_found_by_its_hash_and_by_its_public_part(store, clock):
    kept = store.add_access(new())

    assert kept == store.access(digest=digest("a")) == store.access(access_id="a")
    assert (kept.owner, kept.scope, kept.stands) == ("ann", AccessScope.OWNER, True)
    assert kept.created_at == clock.now()
    assert kept.expires_at is kept.last_used_at is kept.revoked_at is None
    assert store.access(digest=digest("b")) is None
    assert store.access(access_id="b") is None


def test_the_hash_of_one_is_not_the_public_part_of_another(store):
    store.add_access(new(id=digest("x")))

    assert store.access(digest=digest("x")) is None


def test_it_stands_until_it_expires_by_the_stores_clock(store, clock):
    store.add_access(new(lasts_seconds=60))
    clock.advance(59.999)
    assert store.access(access_id="a").stands
    clock.advance(0.001)

    found = store.access(access_id="a")

    assert not found.stands
    assert found.expires_at == clock.now()


def test_it_stands_until_it_is_revoked_and_then_never_again(store, clock):
    store.add_access(new())
    assert store.revoke_access("a")
    revoked = clock.now()
    clock.advance(5)

    assert not store.revoke_access("a")
    assert not store.revoke_access("b")
    assert not store.access(digest=digest("a")).stands
    assert store.access(digest=digest("a")).revoked_at == revoked


def test_that_it_was_used_is_noted_now_and_then(store, clock):
    store.add_access(new())
    first = clock.now()
    store.note_access("a", every_seconds=300)
    clock.advance(299)
    store.note_access("a", every_seconds=300)
    assert store.access(access_id="a").last_used_at == first
    clock.advance(2)
    store.note_access("a", every_seconds=300)

    assert store.access(access_id="a").last_used_at == clock.now()


def test_all_are_listed_in_parts(store):
    for word in "cab":
        store.add_access(new(word))

    assert [each.id for each in store.accesses(limit=2)] == ["a", "b"]
    assert [each.id for each in store.accesses(after="b", limit=2)] == ["c"]


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("id", {"id": ""}),
        ("digest", {"digest": "secret"}),
        ("scope", {"scope": "admin"}),
        ("owner", {"owner": None}),
        ("owner", {"owner": "\n"}),
        ("lasts_seconds", {"lasts_seconds": 0}),
    ],
)
def test_what_is_no_token_is_refused(field, wrong):
    with pytest.raises(ValueError, match=f"^{field}: "):
        new(**wrong)


@shared
def test_servers_of_one_store_share_one_secret_whoever_comes_first(url):
    with open_store(url) as one, open_store(url) as other:
        found = at_once(8, lambda at: (one, other)[at % 2].shared_secret("session", f"secret {at}"))
    assert len(set(found)) == 1


def test_a_store_that_was_opened_is_up_to_date(store):
    store.need_current()


def test_one_whose_tables_are_newer_is_not(store):
    session = store._backend
    session.all("record_migration", name="9999_later", checksum="0")
    try:
        with pytest.raises(StoreVersionError, match="newer"):
            store.need_current()
    finally:
        with store._backend.migrating() as migrating:
            name = "seawall.migration" if session.dialect == "postgres" else "seawall_migration"
            migrating.script(f"DELETE FROM {name} WHERE name = '9999_later'")


# --- what has become of jobs ------------------------------------------------------------------


def told(store, since, **how):
    return [(each.event, each.job_id) for each in store.changes(since, **how).changes]


def test_a_jobs_way_is_told_by_where_it_stands(store, clock):
    start = clock.now()
    (job,) = enqueued(store, new_job(owner="ann"))
    assert told(store, start) == [("queued", job)]
    clock.advance(1)
    (claim,) = claimed(store, new_job(owner="bob"), limit=1)
    assert claim.token.job_id == job
    assert told(store, clock.now()) == [("running", job), ("queued", job + 1)]
    clock.advance(1)
    store.settle([ended(claim.token, Outcome.RETRIED)])
    assert told(store, clock.now()) == [("retry", job)]
    found = store.changes(clock.now()).changes[0]
    assert (found.owner, found.task, found.attempts, found.fault_code) == (
        "ann",
        "work",
        1,
        "TIMEOUT",
    )


@pytest.mark.parametrize(
    ("outcome", "event"),
    [("succeeded", "complete"), ("skipped", "skipped"), ("failed", "failed")],
)
def test_its_end_is_told(store, clock, outcome, event):
    (claim,) = claimed(store)
    clock.advance(1)

    store.settle([ended(claim.token, Outcome(outcome))])

    assert told(store, clock.now()) == [(event, claim.token.job_id)]


def test_what_expired_was_cancelled_or_redriven_is_told_so(store, clock):
    (late,) = enqueued(store, new_job(deadline_seconds=1))
    clock.advance(2)
    store.expire()
    assert told(store, clock.now()) == [("expired", late)]
    clock.advance(1)
    store.redrive([Redrive(late)])
    assert told(store, clock.now()) == [("redriven", late)]
    clock.advance(1)
    store.cancel([late])
    assert told(store, clock.now()) == [("cancelled", late)]


def test_what_is_older_is_left_out_and_where_there_is_too_much_the_newest_is_told(store, clock):
    start = clock.now()
    ids = enqueued(store, *[new_job() for _ in range(5)])
    clock.advance(10)

    assert told(store, clock.now()) == []
    assert told(store, start, limit=3) == [("queued", each) for each in ids[-3:]]
    assert not store.changes(start, limit=3).whole
    assert store.changes(start).whole
    assert store.changes(start).at == clock.now()


def test_a_job_that_failed_at_once_is_told_of_twice(store, clock):
    start = clock.now() - timedelta(seconds=1)
    (job,) = failed(store)

    assert told(store, start) == [("queued", job), ("failed", job)]
