"""Whatever apsw raises, in our words."""

from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from seawall.errors import StoreError, StoreUnavailableError, StoreVersionError
from seawall.store.backend import BadRowError

_NOT_NOW: tuple[tuple[type[apsw.Error], str], ...] = (
    (apsw.BusyError, "is locked by another process"),
    (apsw.LockedError, "is locked by another connection"),
    (apsw.InterruptError, "took too long"),
    (apsw.FullError, "has no room left: the disk is full"),
    (apsw.IOError, "cannot be read or written now"),
    (apsw.NoMemError, "ran out of memory"),
    (apsw.ProtocolError, "is locked by another process"),
)
_NOT_EVER: tuple[tuple[type[apsw.Error], str], ...] = (
    (apsw.CantOpenError, "cannot be opened: check that it is a file that you may write"),
    (apsw.ReadOnlyError, "cannot be written: check the permissions of it, its -wal and its -shm"),
    (apsw.PermissionsError, "cannot be used: check its permissions"),
    (apsw.AuthError, "cannot be used: check its permissions"),
    (apsw.NotADBError, "is not a SQLite database: name another file"),
    (apsw.CorruptError, "is damaged: restore it from a backup"),
)
MOVED = "the jobs of this store were moved to PostgreSQL"
"""What the database itself says of a job that comes too late: see `moving`."""
_BAD_ROW = (
    apsw.ConstraintError,
    apsw.TooBigError,
    apsw.MismatchError,
    apsw.RangeError,
    UnicodeEncodeError,
    OverflowError,
)


@contextmanager
def our_errors(path: str) -> Iterator[None]:
    """Nothing else leaves the statements inside."""
    try:
        yield
    except _BAD_ROW as error:
        if MOVED in str(error):
            raise StoreVersionError(f"{path}: {MOVED}: set url to that store") from None
        raise BadRowError(f"it cannot be stored: {_cause(error)}") from None
    except (apsw.Error, MemoryError) as error:
        for kind, words in _NOT_NOW:
            if isinstance(error, kind):
                raise StoreUnavailableError(f"{path}: {words}") from error
        for kind, words in _NOT_EVER:
            if isinstance(error, kind):
                raise StoreError(f"{path}: {words}") from error
        raise StoreError(f"{path}: {_cause(error)}") from error


def _cause(error: Exception) -> str:
    """The database's own words; never the values, which may be anybody's secrets."""
    if isinstance(error, UnicodeEncodeError):
        return "its text has characters that are no Unicode"
    return str(error).split("\n", 1)[0]
