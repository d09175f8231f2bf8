"""What a fork must not inherit.

A connection belongs to the process that opened it. SQLite is the strictest: it remembers by process
which files it has locked, so a child that inherits an open file believes in locks that it does not
have, and its writes can be lost. So every backend lets go before a fork, and both sides open anew
when they next need to. Programs started in the usual way (`subprocess`) do not come through here.
"""

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Something that cannot be shared with a child process as it is."""

    def before_fork(self) -> None:
        """Let go of what must not be inherited; wait for threads that use it."""
        ...

    def after_fork(self, *, child: bool) -> None:
        """Go on, in the parent or as the child."""
        ...


_OPEN: "weakref.WeakSet[Forkable]" = weakref.WeakSet()


def watch(backend: Forkable) -> None:
    """Have it told of every fork of this process, as long as it lives."""
    _OPEN.add(backend)


def _before() -> None:
    for backend in list(_OPEN):
        backend.before_fork()


def _after(*, child: bool) -> None:
    for backend in list(_OPEN):
        backend.after_fork(child=child)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(child=False),
        after_in_child=lambda: _after(child=True),
    )
