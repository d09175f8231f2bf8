"""Noticing that the whole machine stood still, as virtual ones do: what was measured is void."""

import threading
import time
from types import TracebackType
from typing import Self

LOOK_SECONDS = 0.05
LONGEST_SECONDS = 0.5
"""Far more than a thread waits for its turn on a machine that is only busy."""


class Watch:
    """A thread that does nothing but look at the clock, again and again."""

    def __init__(self) -> None:
        self.worst_seconds = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    @property
    def stood_still(self) -> bool:
        return self.worst_seconds > LONGEST_SECONDS

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        before = time.monotonic()
        while not self._over.wait(LOOK_SECONDS):
            now = time.monotonic()
            self.worst_seconds = max(self.worst_seconds, now - before)
            before = now
