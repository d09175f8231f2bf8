"""`enqueue_on` on PostgreSQL: a job is there exactly if the caller commits."""

import asyncio
import time
import traceback

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from seawall.errors import ConfigurationError, StoreError, StoreUnavailableError
from seawall.model import Lane
from seawall.store import Filter, aenqueue_beside, enqueue_beside, open_store
from seawall.store.callers_postgres import in_colons
from seawall.store.values import MOST_ROWS, Enqueued, Taken
from tests.support.callers import (
    ASYNC,
    ON_POSTGRES,
    django_connection,
    of_a_session,
    of_django,
    of_psycopg,
    of_psycopg_set_otherwise,
    of_sqlalchemy,
)
from tests.support.kinds import on_postgres
from tests.support.ledger import LANE, enqueued, new_job, wanted

PATIENCE_SECONDS = 30.0
MOMENT_SECONDS = 0.3
AWKWARD = '["日本語 🌊 :now %s %(now)s %% ::text \\\\: \' \\" \u2028"]'
LONE_SURROGATE = '["\ud800"]'

every_connection = pytest.mark.parametrize("opened", ON_POSTGRES, ids=lambda each: each.__name__)
every_async_connection = pytest.mark.parametrize("opened", ASYNC.values(), ids=ASYNC)

pytestmark = on_postgres


@pytest.fixture
def own_table(url):
    """A table of the application's own, in the same database."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS orders; CREATE TABLE orders (name text)")

        def names():
            return [name for (name,) in connection.execute("SELECT name FROM orders ORDER BY name")]

        yield names
        connection.execute("DROP TABLE orders")


def _quiet(store):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while store.wait(MOMENT_SECONDS):
        assert time.monotonic() < deadline, "it never falls silent"


# --- what a transaction sees of its own ----------------------------------------------------------


@pytest.mark.parametrize("opened", [of_psycopg, of_psycopg_set_otherwise, of_django])
def test_a_transaction_sees_the_jobs_that_it_has_written_itself(store, url, opened, clock):
    (before,) = enqueued(store, new_job(key="before"))
    with opened(url) as caller:
        (answer,) = store.enqueue_on(caller.given, [new_job('["x"]', key="k", tags=("a",))])
        seen = store.seen_on(caller.given)
        (job,) = seen.page(Filter(key="k")).jobs
        assert (job.id, job.tags, job.created_at) == (answer.job_id, ("a",), clock.now())
        assert seen.arguments(job.id) == '["x"]'
        assert seen.attempts(job.id) == []
        assert set(seen.jobs([before, job.id])) == {before, job.id}
        assert store.jobs([job.id]) == {}
        caller.rollback()
    assert store.page(Filter(key="k")).jobs == ()


def test_what_a_connection_cannot_read_is_said_so(store, url):
    (known,) = enqueued(store, new_job(AWKWARD))
    with of_django(url) as caller:
        assert store.seen_on(caller.given).arguments(known) == AWKWARD
    with of_psycopg_set_otherwise(url) as caller:
        caller.run("SELECT 1")
        with pytest.raises(StoreError, match="such an encoding"):
            store.seen_on(caller.given).arguments(known)
        caller.rollback()


def test_only_a_transaction_is_looked_into(store, url):
    idle = psycopg.connect(url, autocommit=True)
    with idle, pytest.raises(StoreError, match="in no transaction"):
        store.seen_on(idle)
    with of_sqlalchemy(url) as caller, pytest.raises(ConfigurationError, match="psycopg or Django"):
        store.seen_on(caller.given)


# --- every connection -------------------------------------------------------------------------


@every_connection
def test_the_callers_commit_makes_the_job_visible_and_claimable(
    store, url, opened, own_table, clock
):
    with opened(url) as caller:
        caller.run("INSERT INTO orders VALUES ('ours')")
        answers = store.enqueue_on(caller.given, [new_job(AWKWARD, tags=("a", "b"))])
        assert store.claim(wanted()) == []
        caller.commit()

    (claim,) = store.claim(wanted())
    assert answers == [Enqueued(Taken.CREATED, claim.token.job_id)]
    assert (claim.arguments, claim.lane, claim.due_at) == (AWKWARD, LANE, clock.now())
    assert store.jobs([claim.token.job_id])[claim.token.job_id].tags == ("a", "b")
    assert own_table() == ["ours"]


@every_connection
def test_the_callers_rollback_leaves_nothing_of_it(store, url, opened, own_table):
    with opened(url) as caller:
        caller.run("INSERT INTO orders VALUES ('ours')")
        store.enqueue_on(caller.given, [new_job(key="k"), new_job()])
        caller.rollback()

    assert store.claim(wanted()) == []
    assert store.verify().entered == 0
    assert own_table() == []
    assert store.enqueue([new_job("[1]", key="k")])[0].taken is Taken.CREATED


@every_connection
def test_a_key_is_given_once(store, url, opened):
    (first,) = enqueued(store, new_job(key="k"))

    with opened(url) as caller:
        answers = store.enqueue_on(
            caller.given,
            [new_job(key="k"), new_job("[1]", key="k"), new_job(key="l"), new_job(key="l")],
        )
        caller.commit()

    new = answers[2].job_id
    assert answers == [
        Enqueued(Taken.EXISTING, first),
        Enqueued(Taken.CONFLICT, first),
        Enqueued(Taken.CREATED, new),
        Enqueued(Taken.EXISTING, new),
    ]


@every_connection
def test_a_row_that_cannot_be_stored_is_refused_alone_and_the_transaction_goes_on(
    store, url, opened, own_table
):
    with opened(url) as caller:
        caller.run("INSERT INTO orders VALUES ('before')")
        answers = store.enqueue_on(
            caller.given, [new_job(), new_job(LONE_SURROGATE), new_job(), new_job(LONE_SURROGATE)]
        )
        caller.run("INSERT INTO orders VALUES ('behind')")
        caller.commit()

    taken = [answer.taken for answer in answers]
    assert taken == [Taken.CREATED, Taken.REFUSED, Taken.CREATED, Taken.REFUSED]
    assert answers[1].reason.startswith("it cannot be stored: ")
    assert "\n" not in answers[1].reason
    assert own_table() == ["before", "behind"]
    assert len(store.claim(wanted())) == 2


@every_connection
def test_another_database_is_refused_and_the_callers_transaction_still_works(
    store, opened, postgres_fleet, kind
):
    other = postgres_fleet.server(kind.removeprefix("postgres")).new_url()

    with opened(other) as caller:
        caller.run("CREATE TABLE orders (name text)")
        with pytest.raises(StoreError, match="leads to another database") as refused:
            store.enqueue_on(caller.given, [new_job()])
        caller.run("INSERT INTO orders VALUES ('ours')")
        caller.commit()

    assert "\n" not in str(refused.value)
    with psycopg.connect(other) as connection:
        assert connection.execute("SELECT * FROM orders").fetchall() == [("ours",)]
    with open_store(other):  # the same tables do not make it the same database
        enqueued(store)
        with of_psycopg(other) as caller, pytest.raises(StoreError, match="another database"):
            store.enqueue_on(caller.given, [new_job()])


# --- every async connection -------------------------------------------------------------------


@every_async_connection
def test_the_commit_of_an_async_caller_makes_the_job_visible(store, url, opened, own_table, clock):
    async def ask():
        async with opened(url) as caller:
            await caller.run("INSERT INTO orders VALUES ('ours')")
            answers = await store.aenqueue_on(caller.given, [new_job(AWKWARD), new_job(key="k")])
            assert await asyncio.to_thread(store.claim, wanted()) == []
            await caller.commit()
            return answers

    answers = asyncio.run(ask())

    claims = store.claim(wanted())
    assert answers == [Enqueued(Taken.CREATED, claim.token.job_id) for claim in claims]
    assert (claims[0].arguments, claims[0].due_at) == (AWKWARD, clock.now())
    assert own_table() == ["ours"]


@every_async_connection
def test_the_rollback_of_an_async_caller_leaves_nothing(store, url, opened):
    async def ask():
        async with opened(url) as caller:
            await store.aenqueue_on(caller.given, [new_job(key="k")])
            await caller.rollback()

    asyncio.run(ask())

    assert store.claim(wanted()) == []
    assert store.verify().entered == 0


@every_async_connection
def test_an_async_callers_bad_rows_and_keys_are_answered_one_by_one(store, url, opened):
    (first,) = enqueued(store, new_job(key="k"))

    async def ask():
        async with opened(url) as caller:
            answers = await store.aenqueue_on(
                caller.given,
                [new_job(LONE_SURROGATE), new_job("[1]", key="k"), new_job(LONE_SURROGATE)],
            )
            await caller.commit()
            return answers

    bad, taken, worse = asyncio.run(ask())

    assert (bad.taken, worse.taken) == (Taken.REFUSED, Taken.REFUSED)
    assert taken == Enqueued(Taken.CONFLICT, first)


@every_async_connection
def test_an_async_connection_to_another_database_is_refused_and_goes_on(
    store, opened, postgres_fleet, kind
):
    other = postgres_fleet.server(kind.removeprefix("postgres")).new_url()

    async def ask():
        async with opened(other) as caller:
            await caller.run("CREATE TABLE orders (name text)")
            with pytest.raises(StoreError, match="leads to another database"):
                await store.aenqueue_on(caller.given, [new_job()])
            await caller.run("INSERT INTO orders VALUES ('ours')")
            await caller.commit()

    asyncio.run(ask())


# --- its transaction --------------------------------------------------------------------------


def test_whoever_waits_is_woken_at_the_commit_and_not_before(store, url):
    enqueued(store)
    _quiet(store)

    with of_psycopg(url) as caller:
        store.enqueue_on(caller.given, [new_job()])
        assert store.wait(MOMENT_SECONDS) is False
        caller.commit()

        assert store.wait(PATIENCE_SECONDS) is True


def test_how_safe_the_callers_commit_is_stays_the_callers_choice(store, url):
    with of_psycopg(url) as caller:
        caller.run("SET LOCAL synchronous_commit = 'remote_apply'")
        store.enqueue_on(caller.given, [new_job()])

        assert caller.run("SHOW synchronous_commit").fetchone() == ("remote_apply",)
        caller.rollback()


def test_a_connection_without_a_transaction_is_refused(store, url):
    engine = sqlalchemy.create_engine(
        url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT"
    )
    with of_psycopg(url, autocommit=True) as caller, engine.connect() as connection:
        for given in (caller.given, connection):
            with pytest.raises(StoreError, match="in no transaction: open a transaction on") as no:
                store.enqueue_on(given, [new_job()])
            assert "\n" not in str(no.value)
    engine.dispose()
    assert store.verify().entered == 0


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_an_async_connection_without_a_transaction_is_refused(store, url, driver):
    async def ask():
        engine = create_async_engine(
            url.replace("postgresql:", f"postgresql+{driver}:"), isolation_level="AUTOCOMMIT"
        )
        async with engine.connect() as connection:
            with pytest.raises(StoreError, match="in no transaction"):
                await store.aenqueue_on(connection, [new_job()])
        await engine.dispose()
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            with pytest.raises(StoreError, match="in no transaction"):
                await store.aenqueue_on(connection, [new_job()])

    asyncio.run(ask())
    assert store.verify().entered == 0


def test_django_outside_of_atomic_is_refused(store, url):
    refused = pytest.raises(StoreError, match=r"enqueue inside `with transaction\.atomic\(\):`")
    with django_connection(url) as connection, refused:
        store.enqueue_on(connection, [new_job()])
    assert store.verify().entered == 0


@pytest.mark.parametrize("opened", [of_psycopg, of_sqlalchemy])
def test_a_transaction_that_has_failed_is_told_so(store, url, opened):
    with opened(url) as caller:
        with pytest.raises((psycopg.Error, sqlalchemy.exc.DBAPIError)):
            caller.run("SELECT 1/0")
        with pytest.raises(StoreError, match="has failed already: roll it back"):
            store.enqueue_on(caller.given, [new_job()])
        caller.rollback()

        store.enqueue_on(caller.given, [new_job()])
        caller.commit()
    assert len(store.claim(wanted())) == 1


def test_a_transaction_that_may_only_read_is_told_so(store, url):
    with of_psycopg(url) as caller:
        caller.run("SET TRANSACTION READ ONLY")
        with pytest.raises(StoreError, match="may only read: begin one that may write"):
            store.enqueue_on(caller.given, [new_job()])
        assert caller.run("SELECT 1").fetchone() == (1,)


def test_a_transaction_too_old_to_see_a_new_lane_is_to_begin_anew(store, url):
    lane = Lane(task="work", owner="new")
    with of_psycopg(url) as caller:
        caller.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        caller.run("SELECT 1")
        with pytest.raises(StoreUnavailableError, match="begin it anew"):
            store.enqueue_on(caller.given, [new_job(lane=lane)])
        caller.rollback()

        store.enqueue_on(caller.given, [new_job(lane=lane)])
        caller.commit()
    assert len(store.claim(wanted())) == 1


@pytest.mark.parametrize("opened", [of_psycopg, of_sqlalchemy])
def test_a_transaction_that_cannot_see_who_holds_a_key_is_to_begin_anew(store, url, opened):
    enqueued(store, new_job())
    with opened(url) as caller:
        caller.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        caller.run("SELECT 1")
        (held,) = enqueued(store, new_job(key="k"))
        with pytest.raises(StoreUnavailableError, match=r"could not serialize .* begin it anew"):
            store.enqueue_on(caller.given, [new_job(key="k")])
        caller.run("SELECT 1")
        caller.rollback()

        assert store.enqueue_on(caller.given, [new_job(key="k")]) == [
            Enqueued(Taken.EXISTING, held)
        ]


@pytest.mark.parametrize("opened", [of_psycopg, of_sqlalchemy, of_a_session])
def test_a_connection_that_broke_is_told_so_without_the_arguments(store, url, opened):
    with pytest.raises(StoreUnavailableError) as refused, opened(url) as caller:  # noqa: PT012
        (pid,) = caller.run("SELECT pg_backend_pid()").fetchone()
        with psycopg.connect(url, autocommit=True) as console:
            console.execute("SELECT pg_terminate_backend(%s)", (pid,))
        store.enqueue_on(caller.given, [new_job('["secret"]')])
    told = "".join(traceback.format_exception(refused.value))
    assert "secret" not in told.replace("new_job('[\"secret\"]')", "")
    assert store.verify().entered == 0


def test_a_plain_role_that_may_use_the_tables_may_enqueue(store, url):
    with of_psycopg(url) as caller:
        caller.run("CREATE ROLE plain")
        caller.run("GRANT USAGE ON SCHEMA seawall TO plain")
        caller.run("GRANT ALL ON ALL TABLES IN SCHEMA seawall TO plain")
        caller.run("GRANT ALL ON ALL SEQUENCES IN SCHEMA seawall TO plain")
        caller.run("SET LOCAL ROLE plain")
        assert store.enqueue_on(caller.given, [new_job()])[0].taken is Taken.CREATED
        caller.rollback()


def test_a_role_that_may_not_is_told_so_and_its_transaction_goes_on(store, url):
    with of_psycopg(url) as caller:
        caller.run("CREATE ROLE stranger")
        caller.run("SET LOCAL ROLE stranger")
        with pytest.raises(StoreError, match="permission denied") as refused:
            store.enqueue_on(caller.given, [new_job()])
        assert "\n" not in str(refused.value)
        assert caller.run("SELECT 1").fetchone() == (1,)
        caller.rollback()


def test_a_whole_batch_goes_at_once_and_more_is_refused(store, url):
    with of_psycopg(url) as caller:
        answers = store.enqueue_on(caller.given, [new_job()] * MOST_ROWS)
        assert [answer.job_id for answer in answers] == sorted({a.job_id for a in answers})
        with pytest.raises(ValueError, match="at most 1,000"):
            store.enqueue_on(caller.given, [new_job()] * (MOST_ROWS + 1))
        caller.commit()
    assert store.verify().entered == MOST_ROWS


def test_nothing_asked_for_is_nothing_done(store, url):
    with of_psycopg(url) as caller:
        assert store.enqueue_on(caller.given, []) == []
        assert caller.given.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


# --- what is no such connection ---------------------------------------------------------------


def test_an_async_connection_is_sent_to_the_async_form_and_the_other_way_round(store, url):
    async def ask():
        async with await psycopg.AsyncConnection.connect(url) as connection:
            with pytest.raises(ConfigurationError, match="AsyncConnection is async; await the"):
                store.enqueue_on(connection, [new_job()])
        with of_psycopg(url) as caller, of_sqlalchemy(url) as other:
            for given in (caller.given, other.given):
                with pytest.raises(ConfigurationError, match="call the form that is not async"):
                    await store.aenqueue_on(given, [new_job()])

    asyncio.run(ask())


@pytest.mark.parametrize("given", [None, 7, "postgresql://x", object()])
def test_what_is_no_connection_is_refused_with_those_that_are(store, given):
    with pytest.raises(ConfigurationError, match=r"expected a connection of psycopg") as refused:
        store.enqueue_on(given, [new_job()])
    assert "\n" not in str(refused.value)
    with pytest.raises(ConfigurationError, match=r"expected an AsyncConnection of psycopg or"):
        asyncio.run(store.aenqueue_on(given, [new_job()]))


def test_a_connection_to_sqlite_is_refused(store, tmp_path):
    refused = pytest.raises(StoreError, match=r"another database .* it is one of sqlite")
    with of_sqlalchemy(f"sqlite:///{tmp_path}/other.db") as caller, refused:
        store.enqueue_on(caller.given, [new_job()])


# --- the way in -------------------------------------------------------------------------------


def test_beside_a_connection_the_open_store_is_asked(store, url):
    with of_psycopg(url) as caller:
        enqueue_beside(url, caller.given, [new_job()], store=lambda: store)
        caller.commit()

    async def ask():
        async with ASYNC["psycopg"](url) as caller:
            await aenqueue_beside(url, caller.given, [new_job()], store=lambda: store)
            await caller.commit()

    asyncio.run(ask())
    assert len(store.claim(wanted())) == 2


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a %(rows)s b", "a CAST(:rows AS json) b"),
        ("%(now)s::timestamptz", "CAST(:now AS text)::timestamptz"),
        ("'%%' :word a::b", r"'%' \:word a::b"),
    ],
)
def test_a_statement_in_sqlalchemys_terms(sql, expected, kind):
    assert in_colons(sql) == expected
