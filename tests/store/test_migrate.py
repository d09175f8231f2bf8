"""Migrations go forward, once each, all together, and never over a store that is not ours."""

import threading
from dataclasses import replace

import psycopg
import pytest

from seawall.errors import StoreError, StoreVersionError
from seawall.model import Lane, Outcome
from seawall.store import _backend, migrate, open_store, statements
from seawall.store.letters import LetterFilter
from seawall.store.values import Filter, Scope
from tests.support.kinds import on_postgres, shared
from tests.support.ledger import claimed, ended, enqueued, new_job, wanted

NEWER = ("9999_more", "ALTER TABLE {}job ADD COLUMN mood text NOT NULL DEFAULT 'calm';")


@pytest.fixture
def new_url(kind, tmp_path, request):
    """The address of a place where seawall has never been."""
    if kind == "file":
        return f"sqlite:///{tmp_path}/new.db"
    version = kind.removeprefix("postgres")
    return request.getfixturevalue("postgres_fleet").server(version).new_url()


def _newer(store):
    name, sql = NEWER
    prefix = "seawall_" if store._backend.dialect == "sqlite" else "seawall."
    return (name, sql.format(prefix).replace("text", "TEXT"))


def _known(store):
    return statements.migrations(store._backend.dialect)


@shared
def test_a_new_place_gets_every_migration_and_a_second_opening_none(new_url):
    with open_store(new_url) as store:
        applied = [name for name, _ in store._backend.all("applied")]
        assert applied == [name for name, _ in _known(store)]
        assert migrate.bring_up(store._backend) == []


@shared
def test_many_that_open_a_new_place_at_once_all_succeed(new_url):
    failures = []

    def opened():
        try:
            with open_store(new_url) as store:
                enqueued(store)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=opened) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    with open_store(new_url) as store:
        assert sum(store.counts().values()) == 6
        assert store.verify().ok


@shared
def test_an_upgrade_keeps_every_row_and_the_old_code_that_is_running_goes_on(new_url):
    with open_store(new_url) as store:
        first, second = claimed(store, new_job('["a"]'), new_job('["b"]', key="k"))
        store.settle([ended(first.token)])
        before = store.jobs([first.token.job_id, second.token.job_id])

        applied = migrate.bring_up(store._backend, [*_known(store), _newer(store)])

        assert applied == ["9999_more"]
        assert store.jobs(before) == before
        assert store.settle([ended(second.token)])[0].result == "done"
        enqueued(store, new_job('["c"]'))
        assert [claim.arguments for claim in store.claim(wanted())] == ['["c"]']
        assert store.verify().ok


@shared
def test_a_store_that_is_newer_than_the_code_is_refused_with_a_clear_line(new_url):
    with open_store(new_url) as store:
        (job_id,) = enqueued(store)
        migrate.bring_up(store._backend, [*_known(store), _newer(store)])
        with pytest.raises(StoreVersionError) as refused:
            open_store(new_url)
        assert str(refused.value) == (
            "the store is newer than this version of seawall: it has 9999_more, and"
            f" {_known(store)[-1][0]} is the last known here; upgrade seawall"
        )
        assert job_id in store.jobs([job_id])


@shared
def test_a_migration_that_reads_otherwise_is_refused(new_url):
    with open_store(new_url) as store:
        other = [(name, sql + "\n-- changed") for name, sql in _known(store)]
        with pytest.raises(StoreVersionError, match=r"0000_migrations is not the one of this"):
            migrate.bring_up(store._backend, other)


def test_line_endings_do_not_change_what_a_migration_is():
    assert migrate.checksum("a\nb\n") == migrate.checksum("a\r\nb")


@shared
def test_a_migration_that_fails_leaves_the_store_as_it_was(new_url):
    with open_store(new_url) as store:
        (job_id,) = enqueued(store)
        broken = [
            *_known(store),
            _newer(store),
            ("9999_z_broken", "ALTER TABLE nowhere RENAME TO x;"),
        ]
        with pytest.raises(StoreError):
            migrate.bring_up(store._backend, broken)
        assert job_id in store.jobs([job_id])
    with open_store(new_url) as store:
        assert migrate.bring_up(store._backend) == []


@on_postgres
def test_a_role_that_may_not_create_tables_can_open_a_store_that_is_up_to_date(new_url, kind):
    open_store(new_url).close()
    role = f"worker_of_{new_url.rpartition('/')[2]}"
    with psycopg.connect(new_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute(f"GRANT USAGE ON SCHEMA seawall TO {role}")
        connection.execute(
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA seawall TO {role}"
        )
        connection.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA seawall TO {role}")

    with open_store(new_url.replace("postgres@", f"{role}@")) as store:
        (claim,) = claimed(store)
        assert store.settle([ended(claim.token)])[0].result == "done"
        assert store.verify().ok


def _first_release(url):
    """A store as 0001 left it: jobs in several states, with history. Answers their rows."""
    backend = _backend(url)
    prefix = "seawall_" if backend.dialect == "sqlite" else "seawall."
    now = "1767225600000000" if backend.dialect == "sqlite" else "'2026-01-01T00:00:00Z'"
    true = "1" if backend.dialect == "sqlite" else "true"
    rows = f"""
    INSERT INTO $lane (queue, task, stage, upstream, priority, owner)
    VALUES ('default', 'work', 0, '', 0, '');
    INSERT INTO $job (id, lane, state, due_at, stage, tries, seq, lease_no, worker, claimed_at,
        leased_at, lease_until, cancel_requested, owner, created_at, started_at, last_attempt_at,
        finished_at, last_fault)
    VALUES
        (1, 1, 'failed', {now}, 0, 1, 1, 1, NULL, NULL, NULL, NULL, NOT {true}, 'o', {now}, {now},
            {now}, {now}, '{{"code":"TIMEOUT"}}'),
        (2, 1, 'queued', {now}, 0, 1, 1, 1, NULL, NULL, NULL, NULL, NOT {true}, NULL, {now}, {now},
            {now}, NULL, '{{"code":"TIMEOUT"}}');
    INSERT INTO $job_data (job, codec, arguments) VALUES (1, 'json', '["a"]'), (2, 'json', '["b"]');
    INSERT INTO $job_key (task, key, job, digest) VALUES ('work', 'k', 1, 'd');
    INSERT INTO $attempt (job, seq, lease_no, cycle, stage, worker, started_at, finished_at,
        outcome, counted, fault, delay)
    VALUES
        (1, 1, 1, 0, 0, 'w', {now}, {now}, 'failed', {true}, '{{"code":"TIMEOUT"}}', NULL),
        (2, 1, 1, 0, 0, 'w', {now}, {now}, 'retried', {true}, '{{"code":"TIMEOUT"}}', 5000000);
    UPDATE $tally SET jobs = 2 WHERE name = 'enqueued';
    """.replace("$", prefix)
    try:
        migrate.bring_up(backend, statements.migrations(backend.dialect)[:2])
        with backend.migrating() as session:
            session.script(rows)
            if backend.dialect == "postgres":
                session.script("SELECT setval('seawall.job_id_seq', 2)")
        return _attempts(backend)
    finally:
        backend.close()


def _attempts(backend):
    """The history of the first job, in the columns that there always were."""
    columns = (
        "job, seq, cycle, stage, worker, started_at, finished_at, outcome, fault, delay, policy"
    )
    if backend.dialect == "sqlite":
        asked = f"SELECT {columns} FROM seawall_attempt WHERE job = 1 ORDER BY seq"
        return backend._connection.execute(asked).fetchall()
    with backend._connected() as connection:
        asked = f"SELECT {columns} FROM seawall.attempt WHERE job = 1 ORDER BY seq"
        return connection.execute(asked).fetchall()


@shared
def test_a_store_of_the_first_release_keeps_its_jobs_and_their_history(new_url):
    before = _first_release(new_url)
    with open_store(new_url) as store:
        assert _attempts(store._backend) == before
        assert store.verify().ok
        failed, queued = store.jobs([1, 2]).values()
        assert (failed.state, failed.key, failed.tags) == ("failed", "k", ())
        assert [job.id for job in store.page(Filter(owner="o"))] == [failed.id]
        (letter,) = store.letters(LetterFilter())
        assert (letter.job_id, letter.state, letter.owner) == (failed.id, "open", "o")
        assert (letter.fault, letter.attempts, letter.times) == (failed.last_fault, 1, 1)
        assert letter.first_at == letter.last_at == failed.finished_at
        assert store.new_letters(every=1) == 0  # nobody is told of what failed long ago

        (claim,) = store.claim(wanted())
        assert [past.delay_seconds for past in store.earlier(claim)] == [5.0]
        assert claim.token.job_id == queued.id
        snoozed = ended(claim.token, Outcome.SNOOZED, counts=False, traceback="t")
        assert store.settle([snoozed])[0].result == "done"
        assert [each.outcome for each in store.attempts(queued.id)] == ["retried", "snoozed"]
        with pytest.raises(Exception, match="attempts are never changed"):
            _change_history(store)
        assert store.verify().ok


LANES_BEFORE = (
    Lane(task="work"),
    Lane(task="work", upstream="api", priority=-3, owner="o"),
    Lane(task="work", queue="second", stage=2, upstream="api"),
)


def _second_release(url):
    """A store as 0002 left it: lanes that no longer begin at 1, with jobs in them. Answers all."""
    backend = _backend(url)
    prefix = "seawall_" if backend.dialect == "sqlite" else "seawall."
    now = "1767225600000000" if backend.dialect == "sqlite" else "'2026-01-01T00:00:00Z'"
    lanes = ", ".join(
        f"({at}, '{lane.queue}', 'work', {lane.stage}, '{lane.upstream}', {lane.priority}, '{lane.owner}')"
        for at, lane in zip((3, 5, 8), LANES_BEFORE, strict=True)
    )
    given = "" if backend.dialect == "sqlite" else "OVERRIDING SYSTEM VALUE"
    rows = f"""
    INSERT INTO $lane (id, queue, task, stage, upstream, priority, owner) {given} VALUES {lanes};
    INSERT INTO $job (id, lane, state, due_at, stage, created_at) {given}
    VALUES (1, 3, 'queued', {now}, 0, {now}), (2, 5, 'queued', {now}, 0, {now}),
        (4, 8, 'queued', {now}, 2, {now});
    INSERT INTO $job_data (job, codec, arguments)
    VALUES (1, 'json', '[1]'), (2, 'json', '[2]'), (4, 'json', '[4]');
    INSERT INTO $hold (scope, name, held_at, reason) VALUES ('queue', 'second', {now}, 'a test');
    UPDATE $tally SET jobs = 3 WHERE name = 'enqueued';
    """.replace("$", prefix)
    try:
        migrate.bring_up(backend, statements.migrations(backend.dialect)[:3])
        with backend.migrating() as session:
            session.script(rows)
            for table, last in (("job", 4), ("lane", 8)) if backend.dialect == "postgres" else ():
                session.script(f"SELECT setval('seawall.{table}_id_seq', {last})")
    finally:
        backend.close()


@shared
def test_a_store_of_the_second_release_keeps_its_lanes_with_their_ids(new_url):
    _second_release(new_url)
    with open_store(new_url) as store:
        assert store.verify().ok
        assert store._lanes.every() == dict(zip((3, 5, 8), LANES_BEFORE, strict=True))
        jobs = store.jobs([1, 2, 4])
        assert [(job.queue, job.stage, job.priority) for job in jobs.values()] == [
            (lane.queue, lane.stage, lane.priority) for lane in LANES_BEFORE
        ]
        assert [hold.name for hold in store.holds()] == ["second"]

        first, second = store.claim(wanted(queues=None))
        assert [claim.lane for claim in (first, second)] == list(LANES_BEFORE[:2])
        store.resume(Scope.QUEUE, "second")
        assert [claim.lane for claim in store.claim(wanted(queues=None))] == [LANES_BEFORE[2]]


@shared
def test_and_its_lanes_take_no_other_number_and_can_have_one_for_retries(new_url):
    _second_release(new_url)
    again = replace(LANES_BEFORE[1], retry=True)
    with open_store(new_url) as store, open_store(new_url) as other:
        with store.govern("api") as desk:
            (claim,) = desk.claim(wanted())
        store.settle([ended(claim.token, Outcome.RETRIED, delay_seconds=0, lane=again)])
        enqueued(other, new_job(lane=LANES_BEFORE[0]), new_job(lane=Lane(task="new")))

        lanes = other._lanes.every()
        assert list(lanes) == [3, 5, 8, 9, 10]
        assert (lanes[9], lanes[10]) == (again, Lane(task="new"))
        assert store.verify().ok


def _change_history(store):
    prefix = "seawall_" if store._backend.dialect == "sqlite" else "seawall."
    with store._backend.migrating() as session:
        session.script(f"UPDATE {prefix}attempt SET worker = 'somebody else'")
