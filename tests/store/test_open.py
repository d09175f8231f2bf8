"""Opening a store: what cannot be opened says so in one line, with no secret and nothing changed."""

import os
import resource
import socket
import threading
import traceback

import apsw
import psycopg
import pytest

from seawall.errors import ConfigurationError, StoreError, StoreUnavailableError
from seawall.store import open_store, sqlite, sqlite_connection
from tests.support import postgres
from tests.support.kinds import shared
from tests.support.ledger import enqueued, new_job


@pytest.mark.parametrize("url", ["mysql://x", "seawall.db", "", "sqlite:jobs.db"])
def test_an_address_of_no_store_is_refused(url):
    with pytest.raises(ConfigurationError, match=r"expected sqlite:///FILE or postgresql://"):
        open_store(url)


def test_two_slashes_before_a_file_are_refused_and_what_follows_is_not_repeated():
    """Somebody may have changed the scheme only, and left a password in place."""
    with pytest.raises(ConfigurationError, match="expected three slashes before the") as refused:
        open_store("sqlite://ann:hunter2@host/jobs")
    assert "hunter2" not in str(refused.value)


def test_a_file_takes_no_options(tmp_path):
    with pytest.raises(ConfigurationError, match="takes no options"):
        open_store(f"sqlite:///{tmp_path}/jobs.db?mode=ro")
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_does_not_keep_unicode_is_refused(postgres):
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS bytes")
        connection.execute(
            "CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
        )
    with pytest.raises(StoreError, match="keeps text as SQL_ASCII: make one with UTF8"):
        open_store(f"postgresql://postgres@127.0.0.1:{postgres.port}/bytes")


def test_a_server_that_goes_away_is_named_with_the_reason():
    with postgres.running(postgres.binaries("16")) as server:
        store = open_store(server.new_url(), statement_seconds=0.5)
        enqueued(store)
    try:
        with pytest.raises(StoreUnavailableError):
            store.counts()
        with pytest.raises(StoreUnavailableError, match=r"no connection in time: .*refused"):
            store.counts()
    finally:
        store.close()


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StoreError, match=r"nowhere does not exist; make it first"):
        open_store(f"sqlite:///{tmp_path}/nowhere/jobs.db")


def test_a_file_that_is_no_database_is_left_alone(tmp_path):
    file = tmp_path / "letter.txt"
    file.write_text("Dear all, " * 100)
    with pytest.raises(StoreError, match=r"letter.txt: is not a SQLite database"):
        open_store(f"sqlite:///{file}")
    assert file.read_text() == "Dear all, " * 100


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(StoreError, match="cannot be opened"):
        open_store(f"sqlite:///{tmp_path}")


def test_a_server_that_is_not_there_is_named_without_the_password():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(StoreUnavailableError, match="refused") as refused:
            open_store(f"postgresql://ann:hunter2@127.0.0.1:{port}/jobs")
    assert "hunter2" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_wrong_password_is_no_passing_trouble(postgres):
    url = f"postgresql://locked_out:hunter2@127.0.0.1:{postgres.port}/postgres"
    with pytest.raises(StoreError, match="password authentication failed") as refused:
        open_store(url)
    assert not isinstance(refused.value, StoreUnavailableError)
    assert "hunter2" not in str(refused.value)


def test_a_database_that_is_not_there_is_no_passing_trouble(postgres):
    with pytest.raises(StoreError, match='database "nowhere" does not exist') as refused:
        open_store(f"postgresql://postgres@127.0.0.1:{postgres.port}/nowhere")
    assert not isinstance(refused.value, StoreUnavailableError)


def test_a_closed_store_says_so_and_closing_twice_is_nothing(url):
    store = open_store(url)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="the store is closed"):
        store.counts()


@shared
def test_what_was_written_is_there_after_opening_again(url, kind):
    with open_store(url) as store:
        (job_id,) = enqueued(store)
    with open_store(url) as store:
        assert job_id in store.jobs([job_id])


def test_a_file_is_durable_by_default(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/jobs.db") as store:
        connection = store._backend._connection
        assert connection.pragma("journal_mode") == "wal"
        assert connection.pragma("synchronous") == 2  # FULL


def test_a_file_locked_by_another_is_unavailable_and_then_recovers(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with open_store(url, statement_seconds=0.2) as store:
        other = apsw.Connection(f"{tmp_path}/jobs.db")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="is locked by another process"):
            enqueued(store)
        assert sum(store.counts().values()) == 0
        other.execute("ROLLBACK")
        enqueued(store)
        assert sum(store.counts().values()) == 1
        other.close()


def test_a_statement_that_takes_too_long_is_given_up(url):
    with open_store(url, statement_seconds=0.2) as store:
        endless = {
            "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
            "postgres": "SELECT pg_sleep(60)",
        }
        store._backend._sql["count_states"] = endless[store._backend.dialect]
        with pytest.raises(StoreUnavailableError):
            store.counts()
        assert len(enqueued(store)) == 1


def test_a_child_process_uses_a_connection_of_its_own(url, kind):
    with open_store(url) as store:
        enqueued(store)
        child = os.fork()
        if child == 0:  # pragma: no cover - the child
            code = 1
            try:
                if kind == "memory":
                    try:
                        store.counts()
                    except StoreError as error:
                        code = 0 if "cannot be used by this child process" in str(error) else 2
                else:
                    enqueued(store)
                    code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        enqueued(store)
        assert sum(store.counts().values()) == (2 if kind == "memory" else 3)
        assert store.verify().ok


def test_a_child_that_outlives_its_parents_store_loses_nothing(tmp_path):
    """SQLite remembers locks by process: a child that shared the open file would write into the void."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    store = open_store(url)
    enqueued(store)
    parent_is_done, child_may_write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - the child
        try:
            enqueued(store)
            os.read(parent_is_done, 1)
            enqueued(store, *[new_job() for _ in range(5)])
            os._exit(0)
        finally:
            os._exit(1)
    enqueued(store)
    store.close()
    os.write(child_may_write, b"x")
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    with open_store(url) as again:
        assert sum(again.counts().values()) == 8
        assert again.verify().ok


@shared
def test_a_child_forked_in_the_midst_of_traffic_can_work(url, kind):
    with open_store(url) as store:
        stop = threading.Event()

        def busy():
            while not stop.is_set():
                enqueued(store)

        threads = [threading.Thread(target=busy) for _ in range(3)]
        for thread in threads:
            thread.start()
        children = []
        for _ in range(4):
            child = os.fork()
            if child == 0:  # pragma: no cover - the child
                try:
                    enqueued(store)
                    os._exit(0)
                finally:
                    os._exit(1)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        stop.set()
        for thread in threads:
            thread.join()
        assert codes == [0] * 4
        assert store.verify().ok


def test_a_process_with_thousands_of_open_files_can_use_postgres(postgres_urls):
    """`select` cannot look at file 1,024 and beyond."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] != resource.RLIM_INFINITY and limits[1] < 2_000:
        pytest.skip("this process may not open that many")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(2_000, limits[0]), limits[1]))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    try:
        with open_store(postgres_urls("16")) as store:
            assert len(enqueued(store)) == 1
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("setting", ["url", "listen_url"])
def test_an_address_that_cannot_be_read_keeps_its_secret(setting, postgres):
    good = f"postgresql://postgres@127.0.0.1:{postgres.port}/postgres"
    bad = "postgresql://ann:hunter%zz2@127.0.0.1/jobs"
    urls = {"url": good, "listen_url": good, setting: bad}
    with pytest.raises(ConfigurationError, match=f"^{setting}: is no address") as refused:
        open_store(urls["url"], listen_url=urls["listen_url"])
    assert "hunter" not in "".join(traceback.format_exception(refused.value))


def test_no_row_is_quoted_by_an_error_however_it_is_shown(store):
    secret = "hunter2-Zq"
    (job_id,) = enqueued(store, new_job(f'["{secret}"]'))
    prefix = "seawall_" if store._backend.dialect == "sqlite" else "seawall."
    with pytest.raises(StoreError) as refused, store._backend.migrating() as session:
        session.script(f"UPDATE {prefix}job SET tries = 99, owner = '{secret}' WHERE id = {job_id}")
    assert secret not in "".join(traceback.format_exception(refused.value))


def test_a_server_that_was_restarted_is_found_again(postgres_fleet, postgres_urls):
    """Every connection is cut at once, as a restart does; the next call simply works."""
    with open_store(postgres_urls("18")) as store:
        enqueued(store)
        with psycopg.connect(postgres_fleet.server("18").dsn(), autocommit=True) as console:
            console.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE datname = %s AND application_name = 'seawall'",
                [postgres_urls("18").rpartition("/")[2]],
            )
        assert len(enqueued(store)) == 1


def test_a_child_forked_while_another_thread_opens_the_file_loses_nothing(tmp_path, monkeypatch):
    """The file is open before its store is: a fork may come just then."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    open_store(url).close()
    opening, go_on = threading.Event(), threading.Event()
    switch = sqlite_connection.Connection.begin_to_keep_a_log

    def slowly(connection):
        switch(connection)
        opening.set()
        go_on.wait(10)

    monkeypatch.setattr(sqlite_connection.Connection, "begin_to_keep_a_log", slowly)
    opened = []
    thread = threading.Thread(target=lambda: opened.append(open_store(url)))
    thread.start()
    opening.wait(10)
    threading.Timer(0.1, go_on.set).start()
    child = os.fork()
    if child == 0:  # pragma: no cover - the child
        try:
            monkeypatch.undo()
            with open_store(url) as store:
                enqueued(store, *[new_job() for _ in range(5)])
            os._exit(0)
        finally:
            os._exit(1)
    thread.join()
    enqueued(opened[0])
    opened[0].close()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    with open_store(url) as store:
        assert sum(store.counts().values()) == 6
        assert store.verify().ok


def test_a_child_of_a_store_that_could_not_let_go_is_told_so_and_never_hangs(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "_FORK_PATIENCE_SECONDS", 0.05)
    with open_store(f"sqlite:///{tmp_path}/jobs.db") as store:
        busy, done = threading.Event(), threading.Event()

        def work():
            with store._backend.transaction():
                busy.set()
                done.wait(30)

        thread = threading.Thread(target=work)
        thread.start()
        busy.wait(10)
        child = os.fork()
        if child == 0:  # pragma: no cover - the child
            code = 1
            try:
                for ask in (store.counts, store.verify, lambda: store.wait(1)):
                    with pytest.raises(StoreError, match="cannot be used by this child process"):
                        ask()
                store.close()
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        done.set()
        thread.join()
        assert os.waitstatus_to_exitcode(status) == 0
        assert len(enqueued(store)) == 1


def test_threads_that_fork_at_once_leave_the_store_usable(tmp_path):
    with (
        open_store(f"sqlite:///{tmp_path}/a.db") as one,
        open_store(f"sqlite:///{tmp_path}/b.db") as two,
    ):
        codes = []

        def forked():
            for _ in range(5):
                child = os.fork()
                if child == 0:  # pragma: no cover - the child
                    try:
                        enqueued(one)
                        os._exit(0)
                    finally:
                        os._exit(1)
                codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

        threads = [threading.Thread(target=forked) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            enqueued(two)
        for thread in threads:
            thread.join()
        assert codes == [0] * 15
        assert sum(one.counts().values()) == 15
        assert sum(two.counts().values()) == 20
        assert one.verify().ok
