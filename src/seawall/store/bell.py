"""Rung when there may be work, heard by every thread that waits.

Each thread hears what was rung since it last listened, so that a ring between a look for work and
the wait that follows is not missed.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from seawall.store.touched import Touched


class Bell:
    """Counts its rings; every thread remembers the count that it last heard."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rings = 0
        self._heard = threading.local()
        self._others: list[Touched] = []

    def ring(self) -> None:
        with self._changed:
            self._rings += 1
            self._changed.notify_all()
            for other in self._others:
                other.ring()

    def wait(self, timeout_seconds: float) -> bool:
        """Whether it was rung since this thread last heard it, or is before the timeout."""
        heard = getattr(self._heard, "rings", 0)
        with self._changed:
            rung = self._changed.wait_for(lambda: self._rings != heard, timeout_seconds)
            self._heard.rings = self._rings
        return rung

    def pause(self, timeout_seconds: float) -> None:
        """Wait for it without having heard it."""
        heard = getattr(self._heard, "rings", 0)
        with self._changed:
            self._changed.wait_for(lambda: self._rings != heard, timeout_seconds)

    @contextmanager
    def rings(self, other: Touched | None) -> Iterator[None]:
        """Also end the waits of a thread that waits for a file."""
        if other is None:
            yield
            return
        with self._changed:
            self._others.append(other)
        try:
            yield
        finally:
            with self._changed:
                self._others.remove(other)
