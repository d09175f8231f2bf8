"""Whatever psycopg raises, in our words."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed

from seawall.errors import StoreError, StoreUnavailableError
from seawall.redact import one_line
from seawall.store.backend import BadRowError, ConflictError

_BAD_ROW = (
    psycopg.DataError,
    psycopg.IntegrityError,
    errors.ProgramLimitExceeded,
    UnicodeEncodeError,
)
_IN_THE_WAY = (errors.DeadlockDetected, errors.SerializationFailure)
_NOT_NOW = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError)
_REFUSES_US = re.compile(
    r"authentication failed|does not exist|no pg_hba\.conf entry|not permitted to log in"
    r"|permission denied|no password supplied"
)
"""A failed handshake has no SQLSTATE, only words."""


@contextmanager
def our_errors() -> Iterator[None]:
    """Nothing else leaves the statements inside."""
    try:
        yield
    except _BAD_ROW as error:
        # Without its cause, whose detail quotes the row.
        raise BadRowError(f"it cannot be stored: {cause(error)}") from None
    except _IN_THE_WAY as error:
        raise ConflictError(f"PostgreSQL: {cause(error)}") from error
    except PoolClosed:
        raise StoreError("PostgreSQL: the store is closed") from None
    except errors.UndefinedTable as error:
        raise StoreError("PostgreSQL: seawall's tables are gone: open the store anew") from error
    except _NOT_NOW as error:
        if error.sqlstate is None and _REFUSES_US.search(str(error)):
            raise StoreError(f"PostgreSQL: {cause(error)}") from error
        raise StoreUnavailableError(f"PostgreSQL: {cause(error)}") from error
    except psycopg.Error as error:
        raise StoreError(f"PostgreSQL: {cause(error)}") from None


def cause(error: Exception) -> str:
    """The server's own first line; never its detail, which quotes the row."""
    if isinstance(error, UnicodeEncodeError):
        return "its text has characters that are no Unicode"
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return one_line(primary or str(error).split("\n", 1)[0]) or type(error).__name__
