"""Being told by the system that a file was written to, where the system can.

On Linux a process may wait for that without looking: it costs nothing while nothing happens. What
is told is only that somebody writes, not that it can be seen yet: look for yourself, now and again
for a moment. Elsewhere there is none, and whoever waits has to look from time to time.
"""

import ctypes
import os
import select
import sys
from functools import cache

_IN_MODIFY = 0x2
_MOST_READ = 65_536


class Touched:
    """Ends one thread's waits when a file is written to, or when somebody rings.

    It is kept for the next wait: to let go of it may take the system many milliseconds.
    """

    def __init__(self) -> None:
        self._files = int(_libc().inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
        if self._files < 0:
            raise OSError(ctypes.get_errno(), "no more files can be watched")
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._files, select.POLLIN)
        self._poll.register(self._bell, select.POLLIN)

    def __del__(self) -> None:
        for name in ("_files", "_bell"):
            if (file := getattr(self, name, -1)) >= 0:
                os.close(file)

    def watches(self, path: str) -> bool:
        """Watch whatever file has this name now; false where that cannot be."""
        return bool(_libc().inotify_add_watch(self._files, os.fsencode(path), _IN_MODIFY) >= 0)

    def ring(self) -> None:
        """End the wait; from any thread."""
        os.eventfd_write(self._bell, 1)

    def wait(self, seconds: float) -> bool:
        """Whether the file was written to; false after the time, or when somebody rang."""
        found = {file for file, _ in self._poll.poll(max(0.0, seconds) * 1_000)}
        if self._bell in found:
            os.eventfd_read(self._bell)
        if self._files in found:
            os.read(self._files, _MOST_READ)
        return self._files in found


def touched() -> Touched | None:
    """A new one; None where the system has none, or no more of them."""
    if sys.platform != "linux":
        return None
    try:
        return Touched()
    except OSError:
        return None


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
