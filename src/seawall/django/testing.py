"""Testing a Django project's tasks: they run in the test's own thread, when the test says so.

    from seawall.django.testing import in_memory

    class Orders(TestCase):
        def test_an_order_is_confirmed(self):
            with in_memory() as world:
                self.client.post("/orders", {"number": 17})
                world.drain()
            self.assertTrue(Order.objects.get(number=17).confirmed)

Jobs are kept in memory, on a clock that moves only when it is told to: an hour of back-off takes no
time. It works in a `TestCase`, whose transaction never commits: what was enqueued in a transaction
that rolled back is gone, and all else is run.
"""

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager

from django.tasks import DEFAULT_TASK_BACKEND_ALIAS, task_backends
from django.utils import timezone

from seawall.clock import ManualClock
from seawall.django import results, waiting
from seawall.django.address import IN_MEMORY, place_of
from seawall.django.home import Home, instead
from seawall.store import Store, open_store
from seawall.testing import MOST_ATTEMPTS
from seawall.testing import World as PlainWorld

__all__ = ["World", "in_memory"]


@contextmanager
def in_memory(alias: str = DEFAULT_TASK_BACKEND_ALIAS, *, seed: int = 0) -> Iterator["World"]:
    """The backend of that name, in memory and on a manual clock, until the end of the block."""
    options = dict(task_backends[alias].options)
    place = place_of(alias, options)._replace(url=IN_MEMORY, direct=False)
    home = Home(alias, place, options, inline=True)
    clock = ManualClock(results.moment(timezone.now()))
    with (
        open_store(IN_MEMORY, clock=clock) as store,
        home.app.replaced(store, clock, random.Random(seed)),
        instead(home),
        closing(World(home, store, clock)) as world,
    ):
        yield world


class World(PlainWorld):
    """A Django project under test."""

    def __init__(self, home: Home, store: Store, clock: ManualClock) -> None:
        super().__init__(home.app, store, clock)
        self._home = home

    def work(self) -> int:
        """Run what is due now, and what becomes due without waiting; how many attempts that was."""
        return self._through(MOST_ATTEMPTS, wait=False)

    def drain(self, *, most_attempts: int = MOST_ATTEMPTS) -> int:
        """Run everything to its end, moving the clock from one due time to the next."""
        return self._through(most_attempts, wait=True)

    def _through(self, most_attempts: int, *, wait: bool) -> int:
        """What tasks enqueue in transactions of their own is run as well."""
        attempts = 0
        self._moved()
        while True:
            attempts += self._worked(most_attempts - attempts, wait=wait)
            if not self._moved():
                return attempts

    def _moved(self) -> int:
        moved = 0
        while many := waiting.moved(self._home):
            moved += many
        return moved
