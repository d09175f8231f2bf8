"""`enqueue_on` on SQLite: on the caller's own connection, to a file that only one library opens."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta

import pytest
import sqlalchemy

from seawall.errors import ConfigurationError, StoreError, StoreUnavailableError, StoreVersionError
from seawall.store import (
    aenqueue_beside,
    enqueue_beside,
    migrate_store,
    open_store,
    statements,
    verify_store,
)
from seawall.store.callers_sqlite import divided
from seawall.store.values import Enqueued, Taken
from tests.support.callers import ON_SQLITE, django_connection, of_sqlalchemy, of_sqlite3
from tests.support.ledger import enqueued, new_job

AWKWARD = '["日本語 🌊 ; :now %s %(now)s \' \\" \u2028"]'
LONE_SURROGATE = '["\ud800"]'
ELSEWHERE = """
import json, sys
from seawall.clock import ManualClock
from seawall.store import open_store
from tests.support.ledger import wanted

with open_store(sys.argv[1], clock=ManualClock()) as store:
    entered = store.verify().entered
    assert store.verify().violations == ()
    claims = store.claim(wanted())
    print(json.dumps({
        "entered": entered,
        "ids": [claim.token.job_id for claim in claims],
        "arguments": [claim.arguments for claim in claims],
        "due": [claim.due_at.isoformat() for claim in claims],
        "tags": [store.jobs([claim.token.job_id])[claim.token.job_id].tags for claim in claims],
    }))
"""
TOWARDS = """
import sqlite3, sys
from seawall.errors import StoreError
from seawall.store import enqueue_beside, open_store
from tests.support.ledger import new_job

url = sys.argv[1]
connection = sqlite3.connect(url.removeprefix("sqlite:///"))
enqueue_beside(url, connection, [new_job("mine")], store=None)
assert "apsw" not in sys.modules, "the store's library was loaded"
connection.commit()
connection.close()
try:
    open_store(url)
except StoreError as refused:
    print(refused)
"""

every_connection = pytest.mark.parametrize("opened", ON_SQLITE, ids=lambda each: each.__name__)


@pytest.fixture
def url(tmp_path):
    """A store that is up to date and that this process has no longer open."""
    made = f"sqlite:///{tmp_path}/jobs.db"
    migrate_store(made)
    return made


def _ask(url, connection, *jobs, clock=None):
    """As an application does; the store must not be asked for."""
    return enqueue_beside(url, connection, jobs or [new_job()], clock=clock, store=None)


def _in_another_process(script, url):
    ran = subprocess.run(
        [sys.executable, "-c", script, url], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def _elsewhere(url):
    """What a worker in another process finds and claims."""
    return json.loads(_in_another_process(ELSEWHERE, url))


# --- every connection -------------------------------------------------------------------------


@every_connection
def test_the_callers_commit_makes_the_job_visible_and_claimable(url, opened, clock):
    with opened(url) as caller:
        caller.run("CREATE TABLE orders (name text)")
        caller.run("INSERT INTO orders VALUES ('ours')")
        asked = new_job(AWKWARD, tags=("a", "b"), key="k")
        answers = _ask(url, caller.given, asked, asked, clock=clock)
        caller.commit()

    found = _elsewhere(url)
    (job_id,) = found["ids"]
    assert answers == [Enqueued(Taken.CREATED, job_id), Enqueued(Taken.EXISTING, job_id)]
    assert (found["arguments"], found["due"]) == ([AWKWARD], [clock.now().isoformat()])
    assert found["tags"] == [["a", "b"]]
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        assert connection.execute("SELECT * FROM orders").fetchall() == [("ours",)]


@every_connection
def test_the_callers_rollback_leaves_nothing_of_it(url, opened):
    with opened(url) as caller:
        _ask(url, caller.given, new_job(key="k"), new_job())
        caller.rollback()

    assert _elsewhere(url)["entered"] == 0


@every_connection
def test_keys_and_bad_rows_are_answered_one_by_one_and_the_transaction_goes_on(url, opened):
    with opened(url) as caller:
        caller.run("CREATE TABLE orders (name text)")
        (first,) = _ask(url, caller.given, new_job(key="k"))
        answers = _ask(
            url, caller.given, new_job(), new_job(LONE_SURROGATE), new_job("[1]", key="k")
        )
        caller.run("INSERT INTO orders VALUES ('ours')")
        caller.commit()

    assert [answer.taken for answer in answers] == [Taken.CREATED, Taken.REFUSED, Taken.CONFLICT]
    assert answers[1].reason == "it cannot be stored: its text has characters that are no Unicode"
    assert answers[2].job_id == first.job_id
    assert _elsewhere(url)["entered"] == 2


# --- its transaction --------------------------------------------------------------------------


def test_a_transaction_that_python_opens_by_itself_is_the_callers_to_end(url):
    with of_sqlite3(url) as caller:
        _ask(url, caller.given)
        assert caller.given.in_transaction
        with of_sqlite3(url) as other:
            assert other.run("SELECT count(*) FROM seawall_job").fetchone() == (0,)


def test_a_connection_without_a_transaction_is_refused(url):
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
    with of_sqlite3(url, isolation_level=None) as caller, engine.connect() as connection:
        for given in (caller.given, connection):
            with pytest.raises(StoreError, match="in no transaction: open a transaction on") as no:
                _ask(url, given)
            assert "\n" not in str(no.value)
    engine.dispose()
    refused = pytest.raises(StoreError, match=r"enqueue inside `with transaction\.atomic\(\):`")
    with django_connection(url) as connection, refused:
        _ask(url, connection)
    assert _elsewhere(url)["entered"] == 0


if sys.version_info >= (3, 12):  # before, sqlite3 has no such setting

    @pytest.mark.parametrize("autocommit", [True, False])
    def test_the_newer_way_to_say_autocommit_is_understood(url, autocommit):
        with of_sqlite3(url, autocommit=autocommit) as caller:
            if autocommit:
                with pytest.raises(StoreError, match="in no transaction"):
                    _ask(url, caller.given)
                return
            _ask(url, caller.given)
            caller.commit()
        assert _elsewhere(url)["entered"] == 1


def test_a_file_that_another_has_locked_is_told_so_and_no_transaction_is_left(url):
    with of_sqlite3(url) as other, of_sqlite3(url, timeout=0) as caller:
        other.run("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="is locked by another connection"):
            _ask(url, caller.given)
        assert not caller.given.in_transaction
        other.rollback()
        _ask(url, caller.given)
        caller.commit()


# --- which file -------------------------------------------------------------------------------


def test_another_file_is_refused_and_the_callers_transaction_still_works(url, tmp_path):
    with of_sqlite3(f"sqlite:///{tmp_path}/other.db") as caller:
        caller.run("CREATE TABLE orders (name text)")
        caller.run("INSERT INTO orders VALUES ('ours')")
        with pytest.raises(StoreError, match=r"leads to .*other\.db, and the store is") as refused:
            _ask(url, caller.given)
        assert "\n" not in str(refused.value)
        caller.commit()
        assert caller.run("SELECT name FROM orders").fetchall() == [("ours",)]
    refused = pytest.raises(StoreError, match="leads to a database in memory")
    with closing(sqlite3.connect(":memory:")) as connection, refused:
        _ask(url, connection)


def test_a_store_that_was_never_made_or_is_older_is_to_be_migrated_first(tmp_path):
    with of_sqlite3(f"sqlite:///{tmp_path}/jobs.db") as caller:
        with pytest.raises(StoreError, match=r"no such file; run `seawall migrate` first"):
            _ask(f"sqlite:///{tmp_path}/none.db", caller.given)
        with pytest.raises(StoreVersionError, match="run `seawall migrate` first"):
            _ask(f"sqlite:///{tmp_path}/jobs.db", caller.given)
        assert not caller.given.in_transaction


def test_a_store_in_memory_takes_no_other_connection():
    with closing(sqlite3.connect(":memory:")) as connection, open_store("sqlite://") as store:
        for ask in (
            lambda: _ask("sqlite://", connection),
            lambda: store.enqueue_on(connection, []),
        ):
            with pytest.raises(
                StoreError, match=r"one connection, its own: use `with app\.transac"
            ):
                ask()


def test_what_is_no_connection_is_refused_with_those_that_are(url):
    for given in (None, "jobs.db", object()):
        with pytest.raises(ConfigurationError, match="expected a connection of psycopg, SQLAl"):
            _ask(url, given)


def test_a_store_in_a_file_takes_no_async_connection(url):
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine("postgresql+asyncpg://nobody@127.0.0.1:1/none")
    with pytest.raises(ConfigurationError, match="a SQLite store takes no async one"):
        asyncio.run(aenqueue_beside(url, engine.connect(), [new_job()], store=None))
    refused = pytest.raises(ConfigurationError, match="call the form that is not async")
    with of_sqlite3(url) as caller, refused:
        asyncio.run(aenqueue_beside(url, caller.given, [new_job()], store=None))


def test_a_sqlite_that_is_too_old_is_told_so(url, monkeypatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    refused = pytest.raises(StoreError, match=r"is too old for the store's tables: use")
    with of_sqlite3(url) as caller, refused:
        _ask(url, caller.given)


# --- one library in one process ---------------------------------------------------------------


@pytest.mark.parametrize("through", ["the path", "a symlink", "a hard link"])
def test_a_file_that_the_store_has_open_in_this_process_is_refused(url, tmp_path, through):
    path = tmp_path / "link.db" if through != "the path" else tmp_path / "jobs.db"
    if through == "a symlink":
        path.symlink_to(tmp_path / "jobs.db")
    elif through == "a hard link":
        os.link(tmp_path / "jobs.db", path)
    with open_store(url) as store:
        connection = sqlite3.connect(path)
        for ask in (
            lambda: _ask(url, connection),
            lambda: _ask(f"sqlite:///{path}", connection),
            lambda: store.enqueue_on(connection, [new_job()]),
        ):
            with pytest.raises(
                StoreError, match=r"through `with app\.transaction\(\) as"
            ) as refused:
                ask()
            assert "\n" not in str(refused.value)
        enqueued(store)
    connection.close()


def test_a_file_that_the_store_has_closed_again_may_be_used(url):
    with open_store(url) as store:
        enqueued(store)
        store.verify()
    with of_sqlite3(url) as caller:
        assert _ask(url, caller.given)[0].taken is Taken.CREATED
        caller.rollback()


def test_a_file_that_a_caller_has_used_is_not_opened_by_this_process_any_more(url, tmp_path):
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "jobs.db")
    with of_sqlite3(url) as caller:
        _ask(url, caller.given)
        caller.commit()
    for ask in (open_store, migrate_store, verify_store, lambda _: open_store(f"sqlite:///{link}")):
        with pytest.raises(StoreError, match="run workers and commands in another one") as refused:
            ask(url)
        assert "\n" not in str(refused.value)
    assert _elsewhere(url)["entered"] == 1


def test_a_process_that_never_opened_the_store_may_enqueue_and_then_not_open_it(url):
    said = _in_another_process(TOWARDS, url)

    assert "this process writes it through its own sqlite3 connection" in said
    with open_store(url) as store:  # this one has not used a connection of its own
        assert store.verify().entered == 1


def test_a_new_file_is_nobodys_even_if_it_has_the_number_of_an_old_one(tmp_path, monkeypatch):
    from seawall.store import foreign

    number = (1, 2)
    monkeypatch.setattr(foreign, "file_at", lambda path: number if os.path.exists(path) else None)  # noqa: PTH110
    monkeypatch.setattr(foreign, "_THEIRS", {number})
    with open_store(f"sqlite:///{tmp_path}/jobs.db") as store:
        enqueued(store)
    with open_store(f"sqlite:///{tmp_path}/jobs.db") as store:
        assert store.verify().entered == 1


def test_a_worker_that_waits_is_woken_at_the_commit(url):
    """By another process's commit, so the caller is one."""
    with open_store(url) as store:
        while store.wait(0.2):
            pass
        _in_another_process(TOWARDS, url)
        assert store.wait(30.0) is True


# --- statements -------------------------------------------------------------------------------


def test_every_statement_is_divided_as_its_file_has_it():
    for each in statements.load("sqlite").values():
        parts = list(divided(each.sql))
        assert [part.strip() for part in each.sql.split(";\n")] == parts, each.name


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT ';'; SELECT 2;", ["SELECT ';'", "SELECT 2"]),
        ("SELECT 1 -- a; b\n; SELECT 2 -- c", ["SELECT 1 -- a; b", "SELECT 2 -- c"]),
    ],
)
def test_a_semicolon_in_a_string_or_comment_ends_nothing(sql, parts):
    assert [part.strip() for part in divided(sql)] == parts


def test_times_of_a_job_are_those_of_the_clock(url, clock):
    clock.advance(12.5)
    later = clock.now() + timedelta(seconds=30)
    with of_sqlalchemy(url) as caller:
        _ask(url, caller.given, new_job(run_after=later), new_job(), clock=clock)
        rows = caller.run("SELECT due_at, created_at FROM seawall_job ORDER BY id").fetchall()
        caller.rollback()
    now = round(clock.now().timestamp() * 1_000_000)
    assert [tuple(row) for row in rows] == [(now + 30_000_000, now), (now, now)]
