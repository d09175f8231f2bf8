"""From SQLite to PostgreSQL: everything or nothing, and afterwards the work goes on there."""

import json
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import apsw
import psycopg
import pytest

from seawall import FaultError, Seawall, Worker
from seawall.clock import ManualClock
from seawall.errors import ConfigurationError, NotMovedError, StoreError, StoreVersionError
from seawall.model import Lane, Outcome, Usage
from seawall.states import State
from seawall.store import (
    AccessScope,
    Filter,
    NewAccess,
    NewRun,
    NewWebhook,
    Observation,
    Presence,
    Progress,
    Redrive,
    Scope,
    Turn,
    UpstreamPhase,
    catalogue,
    open_store,
    verify_store,
)
from seawall.store.moving import move_store
from seawall.store.values import Advance
from tests.support.ledger import claimed, ended, enqueued, failed, lost, new_job, wanted
from tests.support.pgbouncer import pooled

ODD = 'ä 日本 🌊 \\N \\. \t "quoted" \\\\ \r end'
NAME = "ä 日本 🌊 \\N \\."
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
def old(tmp_path):
    return f"sqlite:///{tmp_path}/old.db"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "old.db"


@pytest.fixture
def new(postgres_fleet):
    """A database in which nobody has been."""
    return postgres_fleet.server("18").new_url()


def moved(old, new, **how):
    return move_store(old, new, alive_seconds=30, tell=lambda *_: None, **how)


def application(url):
    app = Seawall(url)

    @app.task
    def double(number: int, text: str = "") -> tuple[int, str]:
        if number < 0:
            raise FaultError("INVALID_INPUT", f"{number} is below zero")
        return 2 * number, text

    return app, double


def fill(url):
    """Something of every kind, by the store's own verbs; the jobs that wait are asked for by an app."""
    clock = ManualClock(datetime.now(UTC) - timedelta(hours=2))
    with open_store(url, clock=clock) as store:
        ends(store, clock)
        pipeline(store)
        fleet(store)
    app, double = application(url)
    double.using(key=NAME, tags=["nightly", NAME], owner="ann", request_id="r-1").enqueue(21, ODD)
    double.using(run_after=timedelta(days=400), priority=7).enqueue(1)
    double.using(deadline=timedelta(hours=1)).enqueue(4)
    app.close()


def presence(worker):
    return Presence(
        worker=worker, host="here", pid=1, version="0", queues=None, tasks=("work",), concurrency=1
    )


def ends(store, clock):
    pruned, skipped, snoozed, again, dismissed = claimed(
        store, *(new_job(f'["{ODD!r}"]'.replace("'", "")) for _ in range(5)), limit=5
    )
    store.settle([ended(pruned.token)])
    store.prune(State.SUCCEEDED, older_than_seconds=0)
    store.settle([
        ended(skipped.token, Outcome.SKIPPED),
        ended(snoozed.token, Outcome.SNOOZED, delay_seconds=86_400, policy="p@1", config="c"),
        ended(again.token, Outcome.FAILED, traceback="line 1\nline 2", raw_output=ODD),
        ended(dismissed.token, Outcome.FAILED),
    ])  # fmt: skip
    store.redrive([Redrive(again.token.job_id, by="ann")])
    store.cancel([again.token.job_id])
    store.dismiss([dismissed.token.job_id], note="a test\\N\tfile", by="ann")
    failed(store, new_job(owner="ann"))
    (gone,) = claimed(store)
    store.report([Progress(token=gone.token, done=1.5, total=3.0, message="half-way")])
    clock.advance(100)
    store.reclaim([lost(gone.token, 86_400)])


def pipeline(store):
    run = store.start_run(
        NewRun(pipeline="work", name="monday", stages=("a", "b"), terms="{}", owner="ann")
    ).run_id
    first = Lane(task="work", run=run)
    (claim,) = claimed(store, new_job(lane=first, run=run), new_job(lane=first, run=run), limit=1)
    used = Usage(tokens_in=3, tokens_out=4, cost=0.1)
    onward = Advance(
        token=claim.token, lane=Lane(task="work", stage=1, run=run), output='"one"', usage=used
    )
    store.advance([onward])
    store.settle([ended(claim.token.next(), output='{"two": 2}', usage=used)])
    store.hold(Scope.RUN, str(run), reason="enough for today")


def fleet(store):
    store.hold(Scope.QUEUE, "reports", reason="moving house", seconds=3_600)
    store.observe([Observation("api", "w1", firsts=3, failures=1, micros=10, spans=((0, 3),))])
    store.add_webhook(
        NewWebhook(
            url="https://x.example", secret="whsec_x", events=("job.queued",), owners=("ann",)
        )
    )
    with store.govern("api") as desk:
        desk.keep('{"state": "open"}', gated=True, held_until=desk.now, reason="five in a row",
            turn=Turn(UpstreamPhase.OPEN, desk.now),
        )  # fmt: skip
    store.fold_pace()
    plan = store.plan("nightly", "0 3 * * *", store.now())
    store.fire(plan, next_at=store.now() + timedelta(days=1), job=new_job(key="nightly-1"))
    store.add_access(NewAccess(id="t", digest="d" * 64, scope=AccessScope.OWNER, owner="ann"))
    store.shared_secret("sessions", "hush")
    store.take_turn("prune", "w1", every_seconds=60)
    store.new_letters(every=1)
    store.appear(presence("w-gone"))


def forget_workers(file):
    """As if those that are gone had been silent for long."""
    _execute(file, "UPDATE seawall_worker SET seen_at = seen_at - 60000000")


def _execute(file, sql):
    connection = apsw.Connection(str(file))
    found = connection.execute(sql).fetchall()
    connection.close()
    return found


def content(url, file=None):
    """Every row of every table that is moved, times as times."""
    if file is not None:
        connection = apsw.Connection(str(file))
        tables, prefix = catalogue.on_sqlite(connection), "seawall_"
    else:
        connection = psycopg.connect(url)
        tables, prefix = catalogue.on_postgres(connection), "seawall."
    with connection:
        return {
            name: sorted(
                (
                    {
                        column: value
                        for column, value in zip(
                            table.names, map(_value, table.columns, row), strict=True
                        )
                        if column != "id" or name not in catalogue.NUMBERED_ON_POSTGRES
                    }
                    for row in connection.execute(
                        f"SELECT {', '.join(table.names)} FROM {prefix}{name}"
                    ).fetchall()
                ),
                key=str,
            )
            for name, table in catalogue.to_be_moved(tables).items()
            if name not in catalogue.ONLY_ON_POSTGRES
        }


def _value(column, found):
    named = ("at", "lease_until", "held_until", "until", "old_until")
    is_time = column.name.endswith("_at") or column.name in named
    if column.name in ("events", "owners") and isinstance(found, str):
        return json.loads(found)
    if is_time and isinstance(found, int):
        return EPOCH + timedelta(microseconds=found)
    return int(found) if isinstance(found, bool) else found


@pytest.mark.parametrize("server", ["postgres16", "postgres18"])
def test_everything_that_was_there_is_there_and_the_work_goes_on(old, file, postgres_fleet, server):
    new = postgres_fleet.server(server.removeprefix("postgres")).new_url()
    fill(old)
    with open_store(old) as store:
        (held,) = store.claim(wanted(1, tasks=("double",), lease_seconds=1))  # its worker dies
        given = enqueued(store)[0]
        store.cancel([given])
        store.prune(State.CANCELLED, older_than_seconds=0)  # the highest number is of none
    forget_workers(file)
    before = content(old, file)
    time.sleep(1.05)

    told = moved(old, new)

    assert told.rows == {name: len(rows) for name, rows in before.items()}
    assert content(new) == before
    found = verify_store(new)
    assert found.ok, found.violations
    assert found.present[State.RUNNING] == 1
    app, double = application(new)
    with open_store(new) as store:
        (next_one,) = enqueued(store)
        assert next_one == given + 1
        store.cancel([next_one])
    assert not double.using(key=NAME).enqueue(21, ODD).created
    worker = Worker(app, queues=["default"])
    ids = [each.id for each in app.jobs(task="double", state="queued")]
    _until_ended(worker, app, held.token.job_id)
    assert [each.outcome for each in app.job(held.token.job_id).attempts()][:1] == [Outcome.LOST]
    ends = {each.id: each.state for each in app.jobs(task="double")}
    assert {ends[id_] for id_ in ids if app.job(id_).job().due_at < datetime.now(UTC)} == {
        State.SUCCEEDED
    }
    assert verify_store(new).ok
    app.close()


def _until_ended(worker, app, job_id):
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        app.job(job_id).wait(60)
    finally:
        worker.stop()
        thread.join()


def test_the_store_of_this_test_has_something_in_every_table(old, file):
    fill(old)
    bare = [name for name, rows in content(old, file).items() if not rows]
    assert bare == [], "let `fill` put something there: what is moved must be shown to be moved"


def test_no_table_is_forgotten(old, new, file):
    open_store(old).close()
    open_store(new).close()
    ours = catalogue.on_sqlite(apsw.Connection(str(file)))
    with psycopg.connect(new) as connection:
        theirs = catalogue.on_postgres(connection)
    catalogue.need_alike(ours, theirs)
    assert catalogue.LEFT_BEHIND.keys() <= ours.keys()
    assert theirs.keys() - ours.keys() == catalogue.ONLY_ON_POSTGRES.keys()

    for one, other, words in [
        (ours, {k: v for k, v in theirs.items() if k != "usage"}, "the table usage is known on SQLite"),
        ({k: v for k, v in ours.items() if k != "usage"}, theirs, "the table usage is known on Post"),
        (ours, {**theirs, "hold": theirs["lane"]}, "the column hold.scope has no place"),
        ({**ours, "tally": catalogue.Table("tally", ours["tally"].columns[:1])}, theirs, "tally.jobs is"),
    ]:  # fmt: skip
        with pytest.raises(StoreError, match=words):
            catalogue.need_alike(one, other)


def test_the_next_number_of_every_table_is_a_new_one(old, new, file):
    fill(old)
    forget_workers(file)
    moved(old, new)

    with psycopg.connect(new) as connection:
        numbered = connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = 'seawall' AND is_identity = 'YES'"
        ).fetchall()
        assert {"job", "lane", "run", "upstream_phase", "webhook"} <= {name for name, _ in numbered}
        for table, column in numbered:
            sequence = f"pg_get_serial_sequence('seawall.{table}', '{column}')"
            ((number, highest),) = connection.execute(
                f"SELECT nextval({sequence}), (SELECT max({column}) FROM seawall.{table})"
            ).fetchall()
            assert number > (highest or 0), table


def test_a_dry_run_says_how_much_there_is_and_writes_nothing(old, new, file):
    fill(old)
    forget_workers(file)
    before = content(old, file)

    told = moved(old, new, dry_run=True)

    assert told.rows == {name: len(rows) for name, rows in before.items()}
    assert told.place.startswith("127.0.0.1:")
    with psycopg.connect(new) as connection:
        assert connection.execute("SELECT to_regnamespace('seawall')").fetchone() == (None,)
    open_store(old).close()
    open_store(new).close()  # made, and never used
    assert moved(old, new, dry_run=True).rows == told.rows
    assert moved(old, new).rows == told.rows


def test_a_pooler_may_stand_in_between(old, new, file):
    fill(old)
    forget_workers(file)
    before = content(old, file)
    with pooled(new) as behind:
        assert moved(old, behind, dry_run=True).rows == moved(old, behind).rows
    assert content(new) == before


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("reason", ["worker", "lease", "used", "broken", "nul"])
def test_what_stands_in_the_way_is_said_and_nothing_is_moved(old, new, file, reason, dry_run):
    with open_store(old) as store:
        (claim,) = claimed(store, new_job(key="k"), lease_seconds=60)
        if reason == "worker":
            store.appear(presence("w1"))
        if reason != "lease":
            store.settle([ended(claim.token, Outcome.FAILED, raw_output="page")])
    words = {
        "worker": r"workers are alive \(1\): stop them first",
        "lease": r"attempts are under way \(1\)",
        "used": r"the new store is not empty \(intake, job, job_data, lane, pace_change\): name another database",
        "broken": r"the store to be moved is not whole \(jobs_without_data\)",
        "nul": "evidence.raw_output holds a NUL character, .* where job is 1",
    }[reason]
    if reason == "used":
        with open_store(new) as store:
            enqueued(store)
    if reason == "broken":
        _execute(file, "DELETE FROM seawall_job_data")
    if reason == "nul":
        _execute(file, "UPDATE seawall_evidence SET raw_output = 'a' || char(0) || 'b'")
    before = content(old, file)

    with pytest.raises(NotMovedError, match=words):
        moved(old, new, dry_run=dry_run)

    assert content(old, file) == before
    open_store(old).close()
    with psycopg.connect(new) as connection:
        made = connection.execute("SELECT to_regclass('seawall.job')").fetchone() != (None,)
        assert made == (reason == "used")


@pytest.mark.parametrize(
    ("source", "target"),
    [("postgresql://h/d", "postgresql://h/d"), ("sqlite:///a.db", "sqlite:///b.db")],
)
def test_there_is_one_direction(source, target):
    with pytest.raises(ConfigurationError, match="expected sqlite:///FILE first"):
        moved(source, target)


def test_there_must_be_a_store_to_move(old, new):
    with pytest.raises(StoreError, match="no such file"):
        moved(old, new)
    with pytest.raises(ConfigurationError, match="in memory"):
        moved("sqlite://", new)


CUT_OFF = """
import sys, time
from seawall.store import moving

def tell(table, done, rows):
    if table == {table!r}:
        print("there", flush=True)
        time.sleep(600)

if {table!r} == "closing":
    moving._close = lambda *_: tell("closing", 0, 0)
moving.move_store({old!r}, {new!r}, alive_seconds=30, tell=tell)
"""


def _killed_at(table, old, new):
    code = CUT_OFF.format(table=table, old=old, new=new)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"there\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_killed_on_the_way_it_leaves_both_as_they_were_and_can_be_called_again(old, new, file):
    fill(old)
    forget_workers(file)
    before = content(old, file)
    for table in ("attempt", "job", "usage"):
        _killed_at(table, old, new)
        assert content(old, file) == before
        open_store(old).close()

    told = moved(old, new)

    assert content(new) == before
    assert sum(told.rows.values()) == sum(map(len, before.values()))


def test_killed_between_the_two_commits_it_leaves_two_whole_stores_and_says_so(old, new, file):
    fill(old)
    forget_workers(file)
    before = content(old, file)

    _killed_at("closing", old, new)

    assert content(old, file) == content(new) == before
    assert verify_store(new).ok
    with pytest.raises(NotMovedError, match="the new store is not empty"):
        moved(old, new)


def test_afterwards_the_old_store_is_closed(old, new, file):
    app, double = application(old)
    double.enqueue(1)
    with open_store(old) as open_before:
        moved(old, new)

        with pytest.raises(StoreVersionError, match=r"moved to PostgreSQL \(127.0.0.1:\d+/test_"):
            open_store(old)
        with pytest.raises(StoreVersionError, match="set url to that one"):
            verify_store(old)
        with pytest.raises(StoreError, match="were moved to PostgreSQL"):
            double.enqueue(2)  # by a process that has it open
        with pytest.raises(StoreVersionError, match="were moved to PostgreSQL"):
            open_before.enqueue([new_job(key="k")])
        with pytest.raises(StoreError, match="were moved to PostgreSQL"):
            open_before.claim(wanted(tasks=("double",)))
        assert [job.state for job in open_before.page(Filter())] == [State.QUEUED]
    app.close()


def test_a_caller_with_a_connection_of_his_own_is_told_as_well(old, new, file):
    open_store(old).close()
    moved(old, new)
    code = f"""
import sqlite3
from seawall import Seawall
app = Seawall({old!r})
@app.task
def double(number: int) -> int: ...
with sqlite3.connect({str(file)!r}) as connection:
    double.using(connection=connection).enqueue(1)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "moved to PostgreSQL" in done.stderr


def test_what_the_page_says_opens_the_old_store_again(old, new, file):
    with open_store(old) as store:
        enqueued(store)
    moved(old, new)
    _execute(file, REOPEN)
    with open_store(old) as store:
        enqueued(store)
        assert store.verify().ok


REOPEN = """
DELETE FROM seawall_migration WHERE name = 'moved';
DROP TRIGGER seawall_moved_no_job;
DROP TRIGGER seawall_moved_no_change;
"""
