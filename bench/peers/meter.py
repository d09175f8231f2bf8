"""What every handler of every queue calls, and how the harness reads it: which jobs ran, and when.

The folder $BENCH_METER holds a file for each process, named by its id and mapped into memory. Each
call takes a slot of its own, so threads cannot disturb each other; the calls cost well under a
microsecond. Times are of `time.monotonic()`, one clock for all processes of a machine.
"""

import itertools
import mmap
import os
import struct
import time
from pathlib import Path

SLOT = struct.Struct("dqd")
"""When it ran, which job it was, and how long after it was sent, or 0."""
SLOTS = 1 << 21
"""More than any process is given. The file is sparse: what is not written takes no room."""


def mark(payload: dict) -> None:
    """The job of this payload has run."""
    sent = payload["sent"]
    waited = time.time() - sent if sent else 0.0
    SLOT.pack_into(_memory, next(_offsets), time.monotonic(), payload["n"], waited)


def read(path: Path) -> list[tuple[float, int, float]]:
    """Every slot that this process has taken."""
    with path.open("rb") as file:
        return list(SLOT.iter_unpack(file.read(_used(path) * SLOT.size)))


def count(folder: Path) -> int:
    """How many slots were taken so far: cheap enough to ask many times a second."""
    return sum(_used(path) for path in folder.iterdir())


def _used(path: Path) -> int:
    """The slots up to the first free one, found by halving."""
    with path.open("rb") as file:
        low, high = 0, SLOTS
        while low < high:
            middle = (low + high) // 2
            file.seek(middle * SLOT.size)
            if any(file.read(SLOT.size)):
                low = middle + 1
            else:
                high = middle
    return low


def _open() -> None:
    """A file for this process, also after a fork; memory of its own where nobody measures."""
    global _memory, _offsets  # noqa: PLW0603 - one meter for the process, as it has one id
    folder, size = os.environ.get("BENCH_METER"), SLOTS * SLOT.size
    if folder is None:
        _memory = mmap.mmap(-1, size)
    else:
        with (Path(folder) / str(os.getpid())).open("w+b") as file:
            file.truncate(size)
            _memory = mmap.mmap(file.fileno(), size)
    _offsets = itertools.count(0, SLOT.size)


_open()
os.register_at_fork(after_in_child=_open)
