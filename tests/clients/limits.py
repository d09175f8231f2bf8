"""For a moment, this process may have less than it wants."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_more_files() -> Iterator[None]:
    """No file, and so no socket, can be opened."""
    next_free = os.open(os.devnull, os.O_RDONLY)
    os.close(next_free)
    with _limited(resource.RLIMIT_NOFILE, next_free):
        yield


@contextmanager
def no_larger_files(size: int) -> Iterator[None]:
    """No file can grow beyond this size."""
    with _limited(resource.RLIMIT_FSIZE, size):
        yield


@contextmanager
def _limited(what: int, limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(what)
    resource.setrlimit(what, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (soft, hard))
