"""Telling and being told, between processes, that there may be work on PostgreSQL.

A notification is only a hint: it may be late, doubled or missing, and whoever waits for it looks
for itself now and then. Telling is coalesced, because every NOTIFY makes its commit wait for those
of others: the first goes out at once, and those of the next moment together at its end.
"""

import threading
import time
from collections.abc import Callable

import psycopg

from seawall.store.bell import Bell

QUIET_SECONDS = 0.01
"""How long after telling the next is put off."""
_RECONNECT_SECONDS = (0.1, 5.0)
_SLICE_SECONDS = 0.2
"""How long the listener hears before it looks whether it is to stop."""
_SILENCE_SECONDS = 30.0
_CLOSING_SECONDS = 5.0


class Waker:
    """Sends what is told at once, and what follows too soon a little later, together."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._last = -QUIET_SECONDS
        self._timer: threading.Timer | None = None

    def wake(self) -> None:
        """Tell whoever waits, now or in a moment."""
        with self._lock:
            if self._timer is not None:
                return
            wait = self._last + QUIET_SECONDS - time.monotonic()
            if wait > 0 and self._put_off(wait):
                return
            self._last = time.monotonic()
        self._tell()

    def may_tell(self) -> bool:
        """Whether the caller may tell by itself, now; if so, it counts as told."""
        with self._lock:
            now = time.monotonic()
            if self._timer is not None or now < self._last + QUIET_SECONDS:
                return False
            self._last = now
        return True

    def _put_off(self, seconds: float) -> bool:
        timer = threading.Timer(seconds, self._late)
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError:  # no more threads, or the interpreter is ending
            return False
        self._timer = timer
        return True

    def _late(self) -> None:
        with self._lock:
            if self._timer is None:
                return
            self._timer = None
            self._last = time.monotonic()
        self._tell()

    def close(self) -> None:
        """Send what was put off."""
        timer = self._timer
        if timer is not None:
            timer.cancel()
            self._late()


class Listener:
    """A thread that rings the bell at every notification; without an address, none."""

    def __init__(self, conninfo: str | None, bell: Bell) -> None:
        self._conninfo = conninfo
        self._bell = bell
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        if conninfo is not None:
            self._thread = threading.Thread(target=self._run, name="seawall-listen", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        self._pause, longest = _RECONNECT_SECONDS
        while not self._closed.is_set():
            try:
                self._listen()
            except (psycopg.Error, OSError):
                self._closed.wait(self._pause)
                self._pause = min(2 * self._pause, longest)

    def _listen(self) -> None:
        """Hear until the connection breaks or the listener is closed."""
        with psycopg.connect(self._conninfo or "", autocommit=True) as connection:
            connection.execute("LISTEN seawall")
            self._pause = _RECONNECT_SECONDS[0]
            self._bell.ring()  # for what was told before we listened
            heard = time.monotonic()
            while not self._closed.is_set():
                for _ in connection.notifies(timeout=_SLICE_SECONDS, stop_after=1):
                    self._bell.ring()
                    heard = time.monotonic()
                if time.monotonic() - heard > _SILENCE_SECONDS:
                    connection.execute("SELECT 1")  # a silent connection may be a dead one
                    heard = time.monotonic()

    def close(self) -> None:
        """Stop hearing."""
        self._closed.set()
        self._bell.ring()
        if self._thread is not None:
            self._thread.join(_CLOSING_SECONDS)  # it is a daemon: one that hangs holds nobody up
