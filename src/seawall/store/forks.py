"""What a fork must not inherit.

A connection belongs to the process that opened it. SQLite is the strictest: it remembers by process
which files it has locked, so a child that inherits an open file believes in locks that it does not
have, and its writes can be lost. So a SQLite store lets go of its file before a fork, and both
sides open it anew when they next need it; PostgreSQL's connections are left to the parent, and the
child makes its own. A child of a store that could not let go in time is told so when it asks, and
never hangs.
Programs started in the usual way (`subprocess`) do not come through here.
"""

import os
import threading
import weakref
from contextlib import suppress
from typing import Protocol


class Forkable(Protocol):
    """Something that cannot be shared with a child process as it is."""

    def before_fork(self) -> None:
        """Let go of what must not be inherited; wait a little for threads that use it."""
        ...

    def after_fork(self, *, child: bool) -> None:
        """Go on, in the parent or as the child, whose locks are all new."""
        ...


_OPEN: "weakref.WeakSet[Forkable]" = weakref.WeakSet()
_ONE_FORK_AT_A_TIME = threading.Lock()
_TOLD: list[Forkable] = []


def watch(backend: Forkable) -> None:
    """Have it told of every fork of this process, as long as it lives."""
    _OPEN.add(backend)


def _before() -> None:
    _ONE_FORK_AT_A_TIME.acquire()
    _TOLD[:] = _OPEN
    for backend in _TOLD:
        with suppress(Exception):  # the others must be told whatever happens to one
            backend.before_fork()


def _after(*, child: bool) -> None:
    for backend in _TOLD:
        with suppress(Exception):
            backend.after_fork(child=child)
    _TOLD.clear()
    _ONE_FORK_AT_A_TIME.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(child=False),
        after_in_child=lambda: _after(child=True),
    )
