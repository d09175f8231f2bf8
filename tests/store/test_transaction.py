"""`transaction`: the caller's own statements and its jobs are written together or not at all."""

# ruff: noqa: PT012 - what a block does before it raises is the point

import asyncio
import threading
import time

import apsw
import psycopg
import pytest
from psycopg.rows import dict_row

from seawall.errors import StoreError
from seawall.model import Lane
from seawall.store import open_store
from seawall.store.values import Enqueued, Scope, Taken
from tests.support.kinds import on_postgres, shared
from tests.support.ledger import enqueued, new_job, wanted

PATIENCE_SECONDS = 30.0
MOMENT_SECONDS = 0.3
LONE_SURROGATE = '["\ud800"]'
on_sqlite = pytest.mark.parametrize("kind", ["memory", "file"], indirect=True)


class OurOwnError(Exception):
    """Something of the caller's."""


@pytest.fixture
def orders(store, kind):
    """A table of the caller's own in the same database: the names in it."""
    with store.transaction() as connection:
        connection.execute("CREATE TABLE orders (name text UNIQUE)")

    def names():
        with store.transaction() as connection:
            return [row[0] for row in connection.execute("SELECT name FROM orders ORDER BY name")]

    yield names
    with store.transaction() as connection:
        connection.execute("DROP TABLE orders")


def _quiet(store):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while store.wait(MOMENT_SECONDS):
        assert time.monotonic() < deadline, "it never falls silent"


def test_the_connection_is_the_drivers(store, kind):
    with store.transaction() as connection:
        expected = psycopg.Connection if kind.startswith("postgres") else apsw.Connection
        assert isinstance(connection, expected)


def test_the_callers_rows_and_its_jobs_are_there_after_the_block(store, orders, clock):
    with store.transaction() as connection:
        connection.execute("INSERT INTO orders VALUES ('one')")
        first = store.enqueue([new_job("1"), new_job("2", key="k")])
        connection.execute("INSERT INTO orders VALUES ('two')")
        second = store.enqueue([new_job("3", lane=Lane(task="work", owner="new"))])

    claims = store.claim(wanted())
    assert {claim.arguments for claim in claims} == {"1", "2", "3"}
    assert {a.job_id for a in first + second} == {claim.token.job_id for claim in claims}
    assert {claim.due_at for claim in claims} == {clock.now()}
    assert orders() == ["one", "two"]


def test_what_the_caller_raises_leaves_nothing_and_is_raised_as_it_was(store, orders):
    raised = OurOwnError("a word")

    with pytest.raises(OurOwnError) as caught, store.transaction() as connection:
        connection.execute("INSERT INTO orders VALUES ('one')")
        store.enqueue([new_job(key="k", lane=Lane(task="work", owner="new"))])
        raise raised

    assert caught.value is raised
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert orders() == []
    assert store.claim(wanted()) == []
    assert store.verify().entered == 0
    # Whatever was known of the lane while it lasted must be forgotten.
    again = new_job("[1]", key="k", lane=Lane(task="work", owner="new"))
    assert store.enqueue([again])[0].taken is Taken.CREATED
    assert len(store.claim(wanted())) == 1


@pytest.mark.parametrize(
    "error", [UnicodeEncodeError("utf-8", "x", 0, 1, "no"), OverflowError(), KeyboardInterrupt()]
)
def test_errors_of_the_caller_are_not_put_in_our_words(store, error):
    with pytest.raises(type(error)), store.transaction():
        raise error
    enqueued(store)


def test_errors_of_the_callers_statements_are_the_drivers(store, orders, kind):
    expected = (
        psycopg.errors.UniqueViolation if kind.startswith("postgres") else apsw.ConstraintError
    )
    with pytest.raises(expected), store.transaction() as connection:
        store.enqueue([new_job()])
        for _ in range(2):
            connection.execute("INSERT INTO orders VALUES ('one')")

    assert orders() == []
    assert store.verify().entered == 0


def test_keys_and_bad_rows_are_answered_as_ever_and_the_transaction_goes_on(store, orders):
    (held,) = enqueued(store, new_job(key="k"))

    with store.transaction() as connection:
        connection.execute("INSERT INTO orders VALUES ('one')")
        answers = store.enqueue(
            [new_job(LONE_SURROGATE), new_job(key="k"), new_job("[1]", key="k"), new_job()]
        )
        connection.execute("INSERT INTO orders VALUES ('two')")

    assert answers[0].taken is Taken.REFUSED
    assert answers[0].reason.startswith("it cannot be stored: ")
    assert answers[1:3] == [Enqueued(Taken.EXISTING, held), Enqueued(Taken.CONFLICT, held)]
    assert answers[3].taken is Taken.CREATED
    assert orders() == ["one", "two"]
    assert store.verify().entered == 2


def test_nothing_enqueued_is_a_transaction_like_any_other(store, orders):
    with store.transaction() as connection:
        connection.execute("INSERT INTO orders VALUES ('one')")
        assert store.enqueue([]) == []
    assert orders() == ["one"]


def test_whoever_waits_is_told_after_the_end_and_only_of_work(store):
    enqueued(store)
    _quiet(store)

    with store.transaction():
        pass
    assert store.wait(MOMENT_SECONDS) is False
    with pytest.raises(OurOwnError), store.transaction():
        store.enqueue([new_job()])
        raise OurOwnError
    assert store.wait(MOMENT_SECONDS) is False
    with store.transaction():
        store.enqueue([new_job()])
    assert store.wait(PATIENCE_SECONDS) is True


# --- one at a time ----------------------------------------------------------------------------


def test_a_transaction_inside_another_is_refused_and_the_outer_goes_on(store):
    with store.transaction():
        with pytest.raises(StoreError, match="is open here already: end it first"):
            store.transaction().__enter__()
        store.enqueue([new_job()])
    assert store.verify().entered == 1


@on_sqlite
def test_other_verbs_of_the_same_thread_are_refused_and_it_goes_on(store, kind):
    asked = (
        lambda: store.claim(wanted()),
        store.counts,
        lambda: store.cancel([1]),
        lambda: store.hold(Scope.TASK, "work", reason="x"),
    )
    with store.transaction():
        store.enqueue([new_job()])
        for ask in asked:
            with pytest.raises(StoreError, match="this thread has a transaction open: end it"):
                ask()
    assert len(store.claim(wanted())) == 1


def test_another_threads_jobs_are_its_own(store, kind):
    """On SQLite it waits for its turn; nowhere does it take part in the transaction."""
    other = threading.Thread(target=lambda: enqueued(store))
    with pytest.raises(OurOwnError), store.transaction():
        store.enqueue([new_job()])
        other.start()
        other.join(MOMENT_SECONDS)
        raise OurOwnError
    other.join()
    assert store.verify().entered == 1


def test_a_thread_that_inherits_the_transaction_is_refused(store):
    async def ask():
        refused = pytest.raises(StoreError, match="enqueue in the thread that opened it")
        with store.transaction(), refused:
            await asyncio.to_thread(store.enqueue, [new_job()])

    asyncio.run(ask())


@shared
def test_transactions_of_two_stores_do_not_mix(store, tmp_path, kind):
    with open_store(f"sqlite:///{tmp_path}/other.db") as other:
        with pytest.raises(OurOwnError), store.transaction():
            with other.transaction():
                other.enqueue([new_job()])
                store.enqueue([new_job()])
            raise OurOwnError
        assert (store.verify().entered, other.verify().entered) == (0, 1)


# --- how long ---------------------------------------------------------------------------------


@on_sqlite
def test_a_transaction_may_last_longer_than_a_statement_of_ours(url, kind):
    with open_store(url, statement_seconds=0.2) as store:
        with store.transaction() as connection:
            time.sleep(0.4)
            connection.execute(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500000)"
                " SELECT max(i) FROM n"
            ).fetchall()
            store.enqueue([new_job()])
        assert store.verify().entered == 1
        assert store._backend._connection.time_limit._seconds == 0.2


@on_sqlite
def test_a_commit_of_the_callers_own_is_told_so(store, kind):
    with pytest.raises(StoreError, match="no transaction is active"), store.transaction() as lent:
        lent.execute("COMMIT")
    enqueued(store)


# --- PostgreSQL -------------------------------------------------------------------------------


@on_postgres
def test_the_connection_is_set_for_the_caller_and_ours_again_afterwards(store, kind):
    pool = store._backend._connections._opened()
    with store.transaction() as connection:
        assert connection.execute("SHOW enable_seqscan").fetchone() == ("on",)
        default = (
            "SELECT reset_val = current_setting(name) FROM pg_settings WHERE name = 'TimeZone'"
        )
        assert connection.execute(default).fetchone() == (True,)
        connection.row_factory = dict_row
        assert store.enqueue([new_job()])[0].taken is Taken.CREATED
        assert connection.execute("SELECT 1 AS one").fetchone() == {"one": 1}
    assert connection.execute("SHOW enable_seqscan").fetchone() == ("off",)
    assert connection.execute("SHOW TimeZone").fetchone() == ("UTC",)
    assert pool is store._backend._connections._opened()


@on_postgres
def test_a_commit_inside_the_block_is_refused_by_the_driver(store, kind):
    with pytest.raises(psycopg.ProgrammingError), store.transaction() as connection:
        store.enqueue([new_job()])
        connection.commit()
    assert store.verify().entered == 0


@on_postgres
def test_a_connection_that_breaks_inside_leaves_nothing(store, url, kind):
    with pytest.raises((psycopg.Error, StoreError)), store.transaction() as connection:
        store.enqueue([new_job()])
        with psycopg.connect(url, autocommit=True) as console:
            console.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))
        connection.execute("SELECT 1")
    assert store.verify().entered == 0
    enqueued(store)
