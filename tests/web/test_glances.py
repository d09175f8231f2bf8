"""Glances: one look for all who ask, for as long as it is good; and who is shown what anew."""

import asyncio
import threading
import time
from contextlib import asynccontextmanager

import pytest

from seawall.errors import StoreUnavailableError
from seawall.web import glances as module
from seawall.web.glances import Asker, Glances
from seawall.web.threads import Threads

FOR_EVER = 3_600.0


class Looked:
    """A look that counts itself, and can be held up."""

    def __init__(self):
        self.times = 0
        self.go = threading.Event()
        self.go.set()
        self.begun = threading.Event()

    def __call__(self):
        self.times += 1
        self.begun.set()
        seen = self.times
        assert self.go.wait(30)
        return seen


@asynccontextmanager
async def watching(**how):
    threads = Threads("test", 4)
    yield Glances(threads, **how), Looked()
    threads.close()


def checked(test):
    """Run the test on an event loop of its own."""

    def run():
        asyncio.run(asyncio.wait_for(test(), 60))

    run.__name__ = test.__name__
    return run


@checked
async def test_a_hundred_who_ask_at_once_cost_one_look():
    async with watching(fresh_seconds=FOR_EVER) as (glances, look):
        look.go.clear()
        asked = [asyncio.ensure_future(glances.ask("it", look)) for _ in range(100)]
        await asyncio.sleep(0.01)
        look.go.set()

        assert await asyncio.gather(*asked) == [1] * 100
        assert await glances.ask("it", look) == 1
        assert await glances.ask("other", look) == 2


@checked
async def test_whoever_acted_sees_it_done_and_nobody_else_pays_for_it():
    async with watching(fresh_seconds=FOR_EVER) as (glances, look):
        ann, bob = Asker("ann"), Asker("bob")
        assert await glances.ask("it", look, asker=ann) == 1

        glances.acted("ann")

        assert await glances.ask("it", look, asker=bob) == 1
        assert await glances.ask("it", look, asker=ann) == 2
        assert await glances.ask("it", look, asker=ann) == 2
        assert await glances.ask("it", look, asker=bob) == 2


@checked
async def test_a_look_that_began_before_the_act_does_not_do_for_the_actor():
    async with watching(fresh_seconds=FOR_EVER) as (glances, look):
        look.go.clear()
        early = asyncio.ensure_future(glances.ask("it", look))
        await asyncio.to_thread(look.begun.wait, 30)
        glances.acted("ann")
        hers = asyncio.ensure_future(glances.ask("it", look, asker=Asker("ann")))
        await asyncio.sleep(0.01)
        look.go.set()

        assert await early == 1
        assert await hers == 2


@checked
async def test_whoever_acts_again_and_again_does_not_look_all_the_time():
    async with watching(fresh_seconds=FOR_EVER) as (glances, _):
        slow = Looked()

        def look():
            time.sleep(0.05)
            return slow()

        began = time.monotonic()
        for _ in range(4):
            glances.acted("ann")
            await glances.ask("it", look, asker=Asker("ann"))
        passed = time.monotonic() - began

        # Three looks after the first, each no sooner than so many times as long as the one before.
        assert passed >= 3 * 0.05 * module.ACTED_SHARE
        assert slow.times == 4


@checked
async def test_what_is_heard_makes_older_sights_old_and_younger_ones_not():
    async with watching(fresh_seconds=0.4) as (glances, look):
        assert await glances.ask("it", look) == 1

        glances.news(time.monotonic())

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "NEWS_SECONDS", FOR_EVER)
            patch.setattr(glances, "fresh_seconds", FOR_EVER)
            assert await glances.ask("it", look) == 1, "it is too young for who comes by"
        assert await glances.ask("it", look, asker=Asker(patient=True)) == 2
        assert await glances.ask("it", look, asker=Asker(patient=True)) == 2, "it has seen that"
        glances.news(0.0)
        assert await glances.ask("it", look, asker=Asker(patient=True)) == 2


@checked
async def test_a_hundred_pages_that_refresh_themselves_wait_for_one_look():
    async with watching(fresh_seconds=0.3) as (glances, look):
        await glances.ask("it", look)
        glances.news(time.monotonic())

        seen = await asyncio.gather(
            *(glances.ask("it", look, asker=Asker(f"w{n}", patient=True)) for n in range(100))
        )

        assert set(seen) == {2}


@checked
async def test_news_does_not_have_a_long_look_begin_more_often_than_its_share():
    async with watching(fresh_seconds=0.01) as (glances, look):

        def long():
            time.sleep(0.2)
            return look()

        assert await glances.ask("it", long) == 1
        glances.news(time.monotonic())

        assert await glances.ask("it", long, asker=Asker(patient=True)) == 1
        assert await glances.ask("it", long) == 1
        assert look.times == 1


@checked
async def test_only_the_look_is_timed_not_the_wait_for_a_thread():
    threads = Threads("test", 1)
    glances, look = Glances(threads, fresh_seconds=0.01), Looked()
    busy = asyncio.ensure_future(threads.ask(time.sleep, 0.3))

    assert await glances.ask("it", look) == 1
    await asyncio.sleep(0.1)  # less than twenty times what it waited for

    await glances.ask("it", look)
    await busy
    threads.close()
    assert look.times == 2


@checked
async def test_a_look_that_fails_is_told_to_all_who_wait_and_begun_anew_for_the_next():
    async with watching(fresh_seconds=FOR_EVER) as (glances, look):

        def broken():
            raise StoreUnavailableError("away")

        answers = await asyncio.gather(
            *(glances.ask("it", broken) for _ in range(3)), return_exceptions=True
        )

        assert [type(each) for each in answers] == [StoreUnavailableError] * 3
        assert await glances.ask("it", look) == 1


@checked
async def test_who_needs_a_look_since_a_moment_gets_one():
    async with watching(fresh_seconds=FOR_EVER) as (glances, look):
        await glances.ask("it", look)

        assert await glances.ask("it", look, asker=Asker(since=time.monotonic())) == 2


@checked
async def test_what_is_kept_is_bounded():
    async with watching(fresh_seconds=FOR_EVER) as (glances, look):
        for number in range(module.MOST_KEPT + 1):
            await glances.ask(number, look)
        before = look.times

        await glances.ask(module.MOST_KEPT, look)
        assert look.times == before
        await glances.ask(0, look)
        assert look.times == before + 1
        for number in range(module.MOST_WHO_ACTED + 5):
            glances.acted(f"who {number}")
        assert len(glances._acted) == module.MOST_WHO_ACTED


@pytest.mark.parametrize("path", ["/", "/jobs", "/dead", "/fleet", "/upstreams"])
def test_a_refused_form_makes_no_page_cold(make_world, monkeypatch, path):
    world = make_world()
    world.house.glances.fresh_seconds = FOR_EVER
    html = {"accept": "text/html"}
    assert world.get(path, headers=html).status_code == 200
    seen = dict(world.house.glances._sights)

    refused = world.post("/dead/dismiss", headers=html, data={"note": "x"})
    assert refused.status_code == 303
    world.client.cookies.clear()
    assert world.get(path, headers=html).status_code == 200

    after = world.house.glances._sights
    assert all(after[name] is sight for name, sight in seen.items())
