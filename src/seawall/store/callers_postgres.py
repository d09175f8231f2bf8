"""The ledger's statements on a PostgreSQL connection that belongs to the caller.

They are those of the store, and nothing of them depends on how the caller's session is set: rows
travel as JSON in plain ASCII, tables are named with their schema, and no statement is prepared,
because a plan that is kept may have been made when the tables were empty.
"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from seawall.errors import StoreError, StoreUnavailableError
from seawall.model import Lane, NewJob
from seawall.store import statements
from seawall.store.backend import BadRowError, Row, Step
from seawall.store.inside import SAVEPOINTS, Ask, AsyncAsk, Steps, any_created, enqueued, kept
from seawall.store.postgres_errors import cause
from seawall.store.values import Enqueued

Place = tuple[Any, ...]
"""What tells a database from others, whichever way one connects to it."""

WHERE = """
SELECT
    (SELECT system_identifier FROM pg_control_system())::text,
    (SELECT oid FROM pg_database WHERE datname = current_database())::text
"""
_SQL = {
    **SAVEPOINTS,
    "where": f"{WHERE}, to_regclass('seawall.job_key') IS NOT NULL",
    # Delivered when the caller commits. Unlike `tell` it must not meddle with how safe that is.
    "tell_at_commit": "SELECT 1 FROM pg_notify('seawall', '')",
}

_OPEN_ONE = "open a transaction on the connection first, so that the job is part of it"
_IN_THE_WAY = {"40001", "40P01"}
_NOT_NOW = ("08", "53", "55", "57", "58")
_BAD_ROW = ("22", "23", "54")
_WORDS = {
    "25P01": f"the connection is in no transaction: {_OPEN_ONE}",
    "25P02": "the caller's transaction has failed already: roll it back and begin anew",
    "25006": "the caller's transaction may only read: begin one that may write",
}


@cache
def _statements() -> dict[str, str]:
    return {**{name: each.sql for name, each in statements.load("postgres").items()}, **_SQL}


def statement(name: str) -> str:
    """The statement of that name."""
    return _statements()[name]


def as_json(rows: Sequence[Any]) -> str:
    """Rows, as statements take them."""
    return json.dumps(rows)


# --- what is asked ----------------------------------------------------------------------------


def steps(jobs: Sequence[NewJob], lane_ids: dict[Lane, int], place: Place) -> Steps[list[Enqueued]]:
    """Write the jobs where the store is, and have whoever waits told at the caller's commit."""
    return kept(_steps(jobs, lane_ids, place))


def _steps(
    jobs: Sequence[NewJob], lane_ids: dict[Lane, int], place: Place
) -> Steps[list[Enqueued]]:
    ((*here, has_tables),) = yield Step("where")
    if tuple(here) != place or not has_tables:
        raise StoreError(
            "the connection leads to another database than the store's: give one to the store's own"
        )
    answers = yield from enqueued(jobs, lane_ids, written=lambda time: time.isoformat())
    if any_created(answers):
        yield Step("tell_at_commit")
    return answers


def _values(step: Step, now: object) -> dict[str, Any]:
    if step.name in _SQL:
        return {}
    return {"now": now, "rows": json.dumps(step.rows)}


# --- psycopg ----------------------------------------------------------------------------------


def psycopg_ask(connection: "psycopg.Connection[Any]", now: object) -> Ask:
    """Run statements on psycopg's connection, whatever rows and cursors it is set to make."""

    def ask(step: Step) -> list[Row]:
        try:
            cursor = psycopg.Cursor(connection, row_factory=tuple_row)
            values = _values(step, now)
            cursor.execute(_statements()[step.name], values or None, prepare=False)
            return cursor.fetchall() if cursor.description else []
        except (psycopg.Error, UnicodeError) as error:
            told = our_error(error)
        raise told

    return ask


def psycopg_async_ask(connection: "psycopg.AsyncConnection[Any]", now: object) -> AsyncAsk:
    """The async twin of `psycopg_ask`."""

    async def ask(step: Step) -> list[Row]:
        try:
            cursor = psycopg.AsyncCursor(connection, row_factory=tuple_row)
            values = _values(step, now)
            await cursor.execute(_statements()[step.name], values or None, prepare=False)
            return await cursor.fetchall() if cursor.description else []
        except (psycopg.Error, UnicodeError) as error:
            told = our_error(error)
        raise told

    return ask


def need_transaction(connection: "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]") -> None:
    """`StoreError` unless what is run next is part of a transaction that the caller ends."""
    status = connection.info.transaction_status
    if connection.autocommit and status == TransactionStatus.IDLE:
        raise StoreError(_WORDS["25P01"])
    if status == TransactionStatus.INERROR:
        raise StoreError(_WORDS["25P02"])


# --- SQLAlchemy -------------------------------------------------------------------------------

_PLACEHOLDER = re.compile(r"%\((\w+)\)s")
_COLON = re.compile(r"(?<![:\w\\]):(?=\w)")


def sqlalchemy_ask(connection: Any, now: object) -> Ask:
    """Run statements on SQLAlchemy's connection, over any driver of PostgreSQL."""
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415 - the caller has it, we need not

    def ask(step: Step) -> list[Row]:
        try:
            return _rows(connection.execute(_text(step.name), _values(step, now)))
        except (SQLAlchemyError, UnicodeError) as error:
            told = our_error(error)
        raise told

    return ask


def sqlalchemy_async_ask(connection: Any, now: object) -> AsyncAsk:
    """The async twin of `sqlalchemy_ask`."""
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415 - as above

    async def ask(step: Step) -> list[Row]:
        try:
            return _rows(await connection.execute(_text(step.name), _values(step, now)))
        except (SQLAlchemyError, UnicodeError) as error:
            told = our_error(error)
        raise told

    return ask


def _rows(result: Any) -> list[Row]:
    return [tuple(row) for row in result.all()] if result.returns_rows else []


@cache
def _text(name: str) -> Any:
    """The statement in SQLAlchemy's own terms."""
    from sqlalchemy import text  # noqa: PLC0415 - as above

    return text(in_colons(_statements()[name]))


def in_colons(sql: str) -> str:
    """A statement with `:name` for each `%(name)s`.

    SQLAlchemy tells the server its own guess at the type of a parameter, so each is sent as text
    and made into what it is there.
    """
    parts = _PLACEHOLDER.split(sql)
    for at, part in enumerate(parts):
        if at % 2 == 0:
            parts[at] = _COLON.sub(r"\\:", part.replace("%%", "%"))
        else:
            kind = "json" if part == "rows" else "text"
            parts[at] = f"CAST(:{part} AS {kind})"
    return "".join(parts)


# --- errors -----------------------------------------------------------------------------------


def our_error(error: Exception) -> StoreError:
    """Whatever a driver raised, in our words and without the row, which it may quote."""
    chain = list(_chain(error))
    if any(isinstance(each, UnicodeError) for each in chain):
        return BadRowError("it cannot be stored: its text has characters that are no Unicode")
    state = next(filter(None, map(_sqlstate, chain)), "")
    words = f"PostgreSQL: {cause(chain[-1])}"
    told: StoreError
    if state.startswith(_BAD_ROW):
        return BadRowError(f"it cannot be stored: {cause(chain[-1])}")
    if state in _WORDS:
        told = StoreError(_WORDS[state])
    elif state in _IN_THE_WAY:
        told = StoreUnavailableError(f"{words}; roll the transaction back and begin it anew")
    elif state.startswith(_NOT_NOW) or (not state and _is_broken(chain)):
        told = StoreUnavailableError(words)
    else:
        told = StoreError(words)
    told.__cause__ = chain[-1]
    return told


def _chain(error: BaseException) -> Iterator[Exception]:
    """The error and what it wraps, the driver's own last."""
    seen: set[int] = set()
    each: BaseException | None = error
    while isinstance(each, Exception) and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = getattr(each, "orig", None) or each.__cause__


def _is_broken(chain: list[Exception]) -> bool:
    """A lost connection has no SQLSTATE."""
    return any(isinstance(each, psycopg.OperationalError) for each in chain)


def _sqlstate(error: Exception) -> str:
    found = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return found if isinstance(found, str) else ""
