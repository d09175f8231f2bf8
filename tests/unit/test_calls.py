"""The block around a call, with somebody who lets it through by hand."""

import asyncio
import threading

import pytest

from seawall import upstream
from seawall.calls import LONGEST_AWAY_SECONDS, Ticket, UpstreamHeld
from seawall.current import CurrentJob, made_current
from seawall.model import Token

PATIENCE_SECONDS = 30.0


class Door:
    """Lets calls through when a test says so."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked, self.may = threading.Event(), threading.Event()
        self.left, self.gone = [], threading.Event()

    def enter(self, name, units):
        self.asked.set()
        assert self.may.wait(PATIENCE_SECONDS)
        return (
            self.answers.pop(0) if self.answers else Ticket(name, "", units, False, Token(0, 0, 1))
        )

    def stands(self, ticket):
        return ticket.use_by > 0

    def leave(self, ticket, error, seconds, used):
        self.left.append((ticket.upstream, type(error)))
        self.gone.set()
        return True


def job(door):
    return CurrentJob(
        id=1, task="t", attempt=1, seq=1, cycle=0, stage=0, owner=None, request_id=None, caller=door
    )


def test_whoever_is_stopped_while_it_asks_gives_back_what_it_gets():
    door = Door()

    async def call():
        async with upstream("vision"):
            raise AssertionError("it was stopped before that")

    async def run():
        calling = asyncio.create_task(call())
        await asyncio.to_thread(door.asked.wait, PATIENCE_SECONDS)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert door.left == []
        door.may.set()
        await asyncio.to_thread(door.gone.wait, PATIENCE_SECONDS)

    with made_current(job(door)):
        asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))
    assert door.left == [("vision", asyncio.CancelledError)]


def test_whoever_is_stopped_while_it_asks_in_vain_has_nothing_to_give_back():
    door = Door(60.0)

    async def call():
        async with upstream("vision"):
            raise AssertionError("it was not let in")

    async def run():
        calling = asyncio.create_task(call())
        await asyncio.to_thread(door.asked.wait, PATIENCE_SECONDS)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        door.may.set()
        await asyncio.sleep(0.1)

    with made_current(job(door)):
        asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))
    assert door.left == []


@pytest.mark.parametrize("seconds", [6.0, 3_600.0, float("inf")])
def test_a_job_stays_away_for_as_long_as_it_must_but_looks_again_now_and_then(seconds):
    door = Door(seconds)
    door.may.set()
    with (
        made_current(job(door)),
        pytest.raises(UpstreamHeld) as held,
        upstream("vision"),
    ):
        raise AssertionError("it was not let in")
    assert held.value.seconds == min(seconds, LONGEST_AWAY_SECONDS)


def late(name="words"):
    return Ticket(name, "", {"tokens": 5.0}, False, Token(0, 0, 1), -1.0)


def test_what_comes_too_late_to_be_used_is_given_back_and_asked_for_anew():
    door = Door(late(), late())
    door.may.set()
    with made_current(job(door)), upstream("words").reserve(tokens=5) as call:
        assert door.left == [("words", asyncio.CancelledError)] * 2
        call.settle(tokens=3)
    assert door.left[2:] == [("words", type(None))]


def test_the_same_in_an_async_handler():
    door = Door(late())
    door.may.set()

    async def run():
        async with upstream("words"):
            assert door.left == [("words", asyncio.CancelledError)]

    with made_current(job(door)):
        asyncio.run(run())


def test_whoever_never_comes_in_time_goes_back_to_the_queue():
    door = Door(*[late() for _ in range(100)])
    door.may.set()
    with made_current(job(door)), pytest.raises(UpstreamHeld), upstream("words"):
        raise AssertionError("it was never let through")
    assert 1 < len(door.left) < 10
