"""A loop that ends, an application that is closed: nothing stays taken, and nobody waits for ever."""

import asyncio
import threading
import time

import pytest

from seawall import Done, HandedOver, Seawall, Upstream
from seawall.states import State

PATIENCE_SECONDS = 30.0


class Gate:
    """Where something says that it has come, and waits until it is let go."""

    def __init__(self):
        self.reached, self.opened = threading.Event(), threading.Event()

    def passed(self):
        self.reached.set()
        assert self.opened.wait(PATIENCE_SECONDS)


@pytest.fixture
def gate():
    made = Gate()
    yield made
    made.opened.set()


@pytest.fixture
def narrow(gate):
    """An application whose upstream takes one call at a time."""
    app = Seawall("sqlite://")
    app.upstream(Upstream("narrow", concurrency=1))

    @app.task(policy="ai-worker", upstream="narrow")
    def in_a_thread() -> None:
        gate.passed()

    @app.task(policy="ai-worker", upstream="narrow")
    async def on_the_loop() -> None:
        gate.reached.set()
        await asyncio.sleep(PATIENCE_SECONDS)

    @app.task(policy="ai-worker", upstream="narrow")
    def quick() -> str:
        return "done"

    yield app
    gate.opened.set()
    assert app.verify().violations == ()
    app.close()


def soon(is_so):
    until = time.monotonic() + PATIENCE_SECONDS
    while not (found := is_so()) and time.monotonic() < until:
        time.sleep(0.02)
    return found


def loop_that_ends(task, gate):
    """Everything on it is cancelled at once when the gate was reached."""

    async def life():
        calling = asyncio.ensure_future(task.acall_or_enqueue())
        await asyncio.to_thread(gate.reached.wait, PATIENCE_SECONDS)
        del calling

    asyncio.run(life())


def is_free(app):
    return isinstance(app.tasks["quick"].call_or_enqueue(), Done)


@pytest.mark.parametrize("name", ["in_a_thread", "on_the_loop"])
def test_a_loop_that_ends_while_a_handler_runs_gives_its_turn_back(narrow, gate, name):
    loop_that_ends(narrow.tasks[name], gate)
    gate.opened.set()
    assert soon(lambda: is_free(narrow)), "the place at the upstream is taken for ever"
    assert narrow.job(1).job().state is State.QUEUED


def test_a_loop_that_ends_while_its_job_is_written_down_gives_it_back(narrow, gate, monkeypatch):
    begin = narrow._queue.begin

    def slowly(*args):
        monkeypatch.undo()
        gate.passed()
        return begin(*args)

    monkeypatch.setattr(narrow._queue, "begin", slowly)
    loop_that_ends(narrow.tasks["on_the_loop"], gate)
    gate.opened.set()
    assert soon(lambda: narrow.jobs().jobs), "it was never written down"
    assert soon(lambda: narrow.job(1).job().state is State.QUEUED), "its lease has to lapse"
    assert soon(lambda: is_free(narrow)), "the place at the upstream is taken for ever"


def test_whoever_waits_when_the_application_is_closed_is_answered(tmp_path, gate):
    app = Seawall(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    def waits() -> None:
        gate.passed()

    found = []
    caller = threading.Thread(target=lambda: found.append(waits.call_or_enqueue()), daemon=True)
    caller.start()
    assert gate.reached.wait(PATIENCE_SECONDS)
    app.close()
    caller.join(PATIENCE_SECONDS)
    assert isinstance(found[0], HandedOver)
    assert app.job(1).job().state is State.QUEUED
    app.close()


def test_a_path_that_is_left_leaves_no_threads_behind():
    def ours():
        return {each for each in threading.enumerate() if each.name.startswith("seawall-")}

    before = ours()
    app = Seawall("sqlite://")

    @app.task
    def quick() -> str:
        return "done"

    for _ in range(3):
        assert isinstance(quick.call_or_enqueue(), Done)
        app.close()
    assert soon(lambda: not ours() - before), ours() - before
