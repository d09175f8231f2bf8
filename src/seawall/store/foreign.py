"""Which SQLite library has a file open in this process: ours or the caller's, never both.

POSIX gives a file's locks to the process, and takes all of them when any of its descriptors of the
file is closed. One SQLite library knows of its own descriptors only. So if Python's sqlite3 closed
a file that apsw has open in the same process, apsw's locks would be gone without its knowledge, and
two writers would damage the file. A file is known by device and inode, whatever path leads to it.
What apsw has open is forgotten when it closes; a caller's connection is nobody's to watch, so
a file that one was used on stays marked for the rest of the process's life.
"""

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from seawall.errors import StoreError

File = tuple[int, int]
"""Device and inode."""

_LOCK = threading.Lock()
_OURS: "weakref.WeakKeyDictionary[object, File]" = weakref.WeakKeyDictionary()
"""The connections of apsw that are open, and to what."""
_THEIRS: set[File] = set()


def file_at(path: str) -> File | None:
    """The file that the path leads to, if there is one."""
    try:
        found = os.stat(path)  # noqa: PTH116 - `Path` would refuse some of what SQLite opens
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def opening(connection: object, path: str) -> Iterator[None]:
    """What is opened inside is open through apsw until `closed`.

    `StoreError` where a caller's own connection to the file was used in this process.
    """
    if path == ":memory:":
        yield
        return
    with _LOCK:
        before = file_at(path)
        if before in _THEIRS:
            raise StoreError(
                f"{path}: this process writes it through its own sqlite3 connection, and two SQLite"
                " libraries in one process damage a file: run workers and commands in another one"
            )
        yield
        file = file_at(path)
        if file is not None:
            _OURS[connection] = file
            if before is None:  # it is new: an older one of that number is gone
                _THEIRS.discard(file)


def closed(connection: object) -> None:
    """It was open through apsw and is no longer."""
    with _LOCK:
        _OURS.pop(connection, None)


def mark(path: str, file: File) -> None:
    """A caller's own connection will write this file; `StoreError` where apsw has it open."""
    with _LOCK:
        if file in _OURS.values():
            raise StoreError(
                f"{path}: this process has the file open itself, and two SQLite libraries in one"
                " process damage it: write through `with app.transaction() as connection:` instead"
            )
        _THEIRS.add(file)


def _in_a_child() -> None:
    """The marks stay, because a child inherits the descriptors; the lock may be anybody's."""
    global _LOCK  # noqa: PLW0603 - a lock that a thread of the parent holds is never released
    _LOCK = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_a_child)
