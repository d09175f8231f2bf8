"""The schema forbids what one row alone can get wrong, and reads as it is written down."""

import pytest

from seawall.states import State
from seawall.store import statements
from seawall.store.backend import BadRowError
from tests.support.ledger import claimed, ended, enqueued, new_job
from tools import generate_schema


def test_sqlites_schema_is_the_one_written_down():
    written = (generate_schema.SQL / "sqlite" / "schema.sql").read_text()
    assert generate_schema.sqlite_schema() == written, "run `make schema`"


def test_postgres_schema_is_the_one_written_down(postgres):
    written = (generate_schema.SQL / "postgres" / "schema.sql").read_text()
    assert generate_schema.postgres_schema(postgres) == written, "run `make schema`"


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_the_states_of_the_schema_are_those_of_the_table(dialect):
    (ledger,) = [sql for name, sql in statements.migrations(dialect) if name == "0001_ledger"]
    states = ", ".join(f"'{state}'" for state in State)
    assert f"CHECK (state IN ({states}))" in ledger


IMPOSSIBLE = {
    "a state that is none": "state = 'asleep'",
    "queued with a lease": "lease_until = due_at, leased_at = due_at",
    "running without a lease": "state = 'running', lease_no = 1",
    "finished without a time": "state = 'succeeded'",
    "a time of finishing while queued": "finished_at = due_at",
    "failed without a fault": "state = 'failed', finished_at = due_at",
    "a cancel asked of a queued job": "cancel_requested = true",
    "more tries than attempts": "tries = 1",
    "more losses than attempts": "losses = 1",
    "attempts without times": "seq = 1",
    "a negative stage": "stage = -1",
    "a negative cycle": "cycle = -1",
    "no lane": "lane = NULL",
    "no due time": "due_at = NULL",
}


def _execute(store, sql):
    """Run raw SQL on the store's own database, as somebody with a console would."""
    backend = store._backend
    prefix = "seawall_" if backend.dialect == "sqlite" else "seawall."
    with backend.migrating() as session:
        session.script(sql.replace("$", prefix))


@pytest.mark.parametrize("change", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_row_that_cannot_be_is_refused(store, change):
    (job_id,) = enqueued(store)
    before = store.jobs([job_id])

    with pytest.raises(BadRowError):
        _execute(store, f"UPDATE $job SET {change} WHERE id = {job_id}")

    assert store.jobs([job_id]) == before


def test_history_cannot_be_changed(store):
    (claim,) = claimed(store)
    store.settle([ended(claim.token)])
    with pytest.raises(Exception, match="attempts are never changed"):
        _execute(store, "UPDATE $attempt SET outcome = 'failed', fault = '{}'")
    assert [attempt.outcome for attempt in store.attempts(claim.token.job_id)] == ["succeeded"]


def test_a_key_is_held_by_one_job(store):
    first, second = enqueued(store, *[new_job(key=name) for name in "ab"])
    with pytest.raises(BadRowError):
        _execute(store, f"UPDATE $job_key SET key = 'a' WHERE job = {second}")
    assert store.jobs([first])[first].key == "a"
