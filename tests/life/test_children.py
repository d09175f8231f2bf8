"""Whose child a job is: kept on every way on which a handler asks for one, by whole workers."""

import psycopg
import pytest

from seawall import Seawall, current_job
from seawall.states import State
from seawall.store import Store
from tests.life import tasks
from tests.life.conftest import KINDS
from tests.life.world import await_state, eventually


def family(url: str) -> Seawall:
    """An application whose task asks for others in each way that there is."""
    app = Seawall(url, lease_seconds=5)

    @app.task
    def child(n: int) -> int:
        return n

    @app.task
    def in_a_thread() -> int:
        child.enqueue(1)
        app.enqueue_many(child.job(n) for n in (2, 3))
        child.using(key="once", tags=["t"]).enqueue(4)
        return current_job().id

    @app.task
    async def async_() -> int:
        await child.aenqueue(1)
        await app.aenqueue_many(child.job(n) for n in (2, 3))
        await child.using(key="again").aenqueue(4)
        return current_job().id

    @app.task
    def in_a_transaction() -> int:
        with app.transaction():
            child.enqueue(1)
            app.enqueue_many(child.using(owner="ann").job(n) for n in (2, 3))
            child.using(key="then").enqueue(4)
        return current_job().id

    @app.task
    def beside() -> int:
        with psycopg.connect(url) as connection:
            here = child.using(connection=connection)
            here.enqueue(1)
            app.enqueue_many(here.job(n) for n in (2, 3))
            child.using(connection=connection, key="beside").enqueue(4)
        return current_job().id

    return app


def of(store: Store, job_id: int) -> list[str | None]:
    return [store.arguments(job.id) for job in store.children(job_id)]


WAYS = [(kind, way) for kind in KINDS for way in ("in_a_thread", "async_", "in_a_transaction")]
# A worker has its file open, so that its handlers can take no connection of sqlite3 beside it.
WAYS.append(("postgres18", "beside"))


@pytest.mark.parametrize(("kind", "way"), WAYS)
def test_a_child_is_the_job_whose_handler_asked_for_it(url, kind, store, hire, way):
    app = family(url)
    hire(app)

    parent = app.tasks[way].enqueue()

    assert parent.wait(40) == parent.id
    eventually(lambda: len(store.children(parent.id)) == 4)
    assert of(store, parent.id) == ['{"n":1}', '{"n":2}', '{"n":3}', '{"n":4}']
    assert parent.job().parent is None


def test_children_of_a_job_that_its_caller_runs_are_its_own_too(url, store):
    app = family(url)

    outcome = app.tasks["in_a_thread"].call_or_enqueue()

    assert len(of(store, outcome.value)) == 4


def test_what_is_asked_for_outside_of_a_handler_has_no_parent(url, store):
    app = family(url)
    child = app.tasks["child"]
    with app.transaction():
        child.enqueue(1)
    made = [child.enqueue(2), child.using(key="k").enqueue(3)]

    assert {each.job().parent for each in made} == {None}


def test_the_child_of_an_isolated_handler_is_its_own_too(store, crew):
    (answer,) = store.enqueue([tasks.asks_apart.job().new_job()])
    crew.start()

    await_state(store, State.SUCCEEDED, answer.job_id)

    (found,) = store.children(answer.job_id)
    assert (found.task, found.parent) == ("ends_apart", answer.job_id)
