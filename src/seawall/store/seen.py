"""What a caller's own transaction on PostgreSQL sees: the verbs that read, on its connection.

A job that was enqueued in a transaction is there for that transaction alone until it commits. Lanes
are always committed, so those that the store knows do for both.
"""

from typing import Any, cast

import psycopg
from psycopg.rows import tuple_row
from psycopg.types.datetime import TimestamptzLoader

from seawall.errors import StoreError
from seawall.store import callers_postgres
from seawall.store.backend import Backend, BadRowError, Batch, Row
from seawall.store.lanes import Lanes
from seawall.store.reading import Reading


class Seen(Reading):
    """The verbs that read, in the caller's transaction."""

    def __init__(
        self, backend: Backend, lanes: Lanes, connection: "psycopg.Connection[Any]"
    ) -> None:
        self._backend = cast("Backend", _Session(backend, connection))
        self._lanes = lanes


class _Session:
    """Statements on the caller's connection; values are as the backend has them."""

    def __init__(self, backend: Backend, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection
        self.dialect = backend.dialect
        self.read, self.written = backend.read, backend.written
        self.names, self.ids = backend.names, backend.ids
        self._now = backend.moment()

    def all(self, name: str, /, **values: object) -> list[Row]:
        try:
            cursor = psycopg.Cursor(self._connection, row_factory=tuple_row)
            # Whatever the caller has its times become, here they have a zone.
            cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
            cursor.execute(
                callers_postgres.statement(name), {**values, "now": self._now}, prepare=False
            )
            return cursor.fetchall()
        except (psycopg.Error, UnicodeError) as error:
            told = callers_postgres.our_error(error)
        if isinstance(told, BadRowError):
            raise StoreError("a connection with such an encoding cannot read what is kept")
        raise told

    def batch(self, name: str, rows: Batch, /, **values: object) -> list[Row]:
        return self.all(name, rows=callers_postgres.as_json(rows), **values)
