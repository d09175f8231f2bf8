"""Many who ask at once: one look for those who ask the same, one commit for those who bring jobs."""

import asyncio
import threading
import time

import pytest

from seawall.errors import StoreUnavailableError
from seawall.model import Lane
from seawall.store import NewJob, Taken, open_store
from seawall.web.intake import Intake
from seawall.web.problems import ProblemError
from seawall.web.shared import Shared
from seawall.web.threads import Threads
from tests.support.doors import until


@pytest.fixture
def threads():
    made = Threads("test", 4)
    yield made
    made.close()


def test_those_who_come_while_a_look_is_under_way_share_the_next_one(threads):
    looks, gate = [], threading.Event()

    def look():
        looks.append(time.monotonic())
        gate.wait(30)
        return len(looks)

    async def all_ask():
        shared = Shared(threads)
        first = asyncio.ensure_future(shared.ask("a", look))
        await asyncio.to_thread(until, lambda: looks, "the first look")
        others = [asyncio.ensure_future(shared.ask("a", look)) for _ in range(20)]
        other = asyncio.ensure_future(shared.ask("b", lambda: "b"))
        assert (await other).body == b'"b"'
        gate.set()
        answers = [(await each).body for each in (first, *others)]
        assert shared._looks == {}
        return answers

    answers = asyncio.run(all_ask())

    assert len(looks) == 2
    assert answers == [b"1"] + [b"2"] * 20


def test_many_who_ask_again_and_again_are_all_answered_by_looks_that_began_after_they_asked(
    threads,
):
    """Each reads what it has just written, however the looks fall."""
    written = [0]

    async def ask_on_and_on(shared):
        for _ in range(50):
            written[0] += 1
            mine = written[0]
            seen = int((await shared.ask("a", lambda: written[0])).body)
            assert seen >= mine

    async def all_ask():
        shared = Shared(threads)
        await asyncio.gather(*(ask_on_and_on(shared) for _ in range(20)))
        assert shared._looks == {}

    asyncio.run(all_ask())


def test_a_look_that_breaks_breaks_for_those_who_wait_for_it_and_no_longer(threads):
    asked, gate = [], threading.Event()

    def look():
        asked.append(1)
        gate.wait(30)
        if len(asked) < 3:
            raise StoreUnavailableError("away")
        return "back"

    async def all_ask():
        shared = Shared(threads)
        first = asyncio.ensure_future(shared.ask("a", look))
        await asyncio.to_thread(until, lambda: asked, "the first look")
        second = asyncio.ensure_future(shared.ask("a", look))
        await asyncio.sleep(0.01)
        gate.set()
        for each in (first, second):
            with pytest.raises(StoreUnavailableError):
                await each
        return (await shared.ask("a", look)).body

    assert asyncio.run(all_ask()) == b'"back"'


def test_too_many_who_wait_are_turned_away_at_once():
    threads = Threads("test", 1, most_waiting=1)
    gate = threading.Event()

    async def all_ask():
        waiting = [asyncio.ensure_future(threads.ask(gate.wait, 30)) for _ in range(2)]
        await asyncio.sleep(0.01)
        with pytest.raises(ProblemError) as refused:
            await threads.ask(lambda: None)
        gate.set()
        await asyncio.gather(*waiting)
        await asyncio.sleep(0)
        return refused.value, await threads.ask(lambda: "again")

    refused, again = asyncio.run(all_ask())
    threads.close()

    assert (refused.status, refused.code, refused.headers) == (503, "busy", {"retry-after": "1"})
    assert again == "again"


def new(**fields):
    return NewJob(lane=Lane(task="work"), arguments="[]", **fields)


@pytest.fixture
def store():
    with open_store("sqlite://") as made:
        yield made


def test_jobs_that_come_together_share_commits_and_each_gets_its_own_answer(store, monkeypatch):
    batches = []
    enqueue = store.enqueue

    def counted(jobs):
        batches.append(len(jobs))
        time.sleep(0.02)
        return enqueue(jobs)

    monkeypatch.setattr(store, "enqueue", counted)
    intake = Intake(store)

    async def all_ask():
        jobs = [new(key=f"k{n % 50}") for n in range(100)]
        return await asyncio.gather(*(intake.ask(job) for job in jobs))

    answers = asyncio.run(all_ask())
    intake.close()

    assert len(batches) < 20
    assert sum(each.taken is Taken.CREATED for each in answers) == 50
    assert len({each.job_id for each in answers}) == 50


def test_when_the_store_is_away_all_that_wait_are_told(store, monkeypatch):
    def away(jobs):
        raise StoreUnavailableError("away")

    monkeypatch.setattr(store, "enqueue", away)
    intake = Intake(store)

    async def all_ask():
        return await asyncio.gather(*(intake.ask(new()) for _ in range(3)), return_exceptions=True)

    answers = asyncio.run(all_ask())
    intake.close()

    assert [type(each) for each in answers] == [StoreUnavailableError] * 3


def test_what_was_taken_in_is_written_before_it_ends_and_then_nothing_is(store):
    intake = Intake(store)

    async def ask():
        return await intake.ask(new())

    assert asyncio.run(ask()).taken is Taken.CREATED
    intake.close()
    intake.close()
    with pytest.raises(ProblemError):
        asyncio.run(ask())
