"""Bringing a store's tables to what this version of seawall expects.

Migrations are numbered files, applied in order, each once, forward only; all that are missing go in
one transaction, so a crash half-way leaves the store as it was. What was applied is kept with a
checksum: a store that has seen a migration we do not know is newer than we are, and one whose
migration reads otherwise was made by something else. Both are refused, and nothing is changed.
"""

import hashlib
from typing import Protocol

from seawall.errors import StoreVersionError
from seawall.store import statements
from seawall.store.backend import Backend, OpenSession, Session

MOVED = "moved"
"""What a store has instead of a migration, and with it where to, when its jobs were moved away."""


def bring_up(backend: Backend, known: list[tuple[str, str]] | None = None) -> list[str]:
    """Apply what is missing; answers the names of what was applied.

    A store that is up to date is only read, so a role that may not create tables can open it.
    """
    if known is None:
        known = statements.migrations(backend.dialect)
    if not _missing(backend, known):
        return []
    with backend.migrating() as session:
        return apply_missing(session, known)  # another process may have been faster


def apply_missing(session: OpenSession, known: list[tuple[str, str]]) -> list[str]:
    """Apply what is missing in this transaction; answers the names of what was applied."""
    missing = _missing(session, known)
    for name, sql in missing:
        session.script(sql)
        session.all("record_migration", name=name, checksum=checksum(sql))
    return [name for name, _ in missing]


def refuse_others(session: Session, known: list[tuple[str, str]]) -> None:
    """`StoreVersionError` where the store was made by something else, or by a newer version."""
    _missing(session, known)


class Versioned(Session, Protocol):
    """A database to be looked at: a backend, or a connection of a caller."""

    @property
    def dialect(self) -> str: ...


def need_up_to_date(backend: Versioned) -> None:
    """`StoreVersionError` unless the store has every migration and no other; changes nothing."""
    missing = _missing(backend, statements.migrations(backend.dialect))
    if missing:
        raise StoreVersionError(
            f"the store lacks the migration {missing[0][0]}: run `seawall migrate` first"
        )


def checksum(sql: str) -> str:
    """What a migration's text is known by; line endings do not matter."""
    return hashlib.sha256("\n".join(sql.splitlines()).encode()).hexdigest()


def _missing(session: Session, known: list[tuple[str, str]]) -> list[tuple[str, str]]:
    applied = _applied(session)
    if MOVED in applied:
        raise StoreVersionError(
            f"the jobs of this store were moved to PostgreSQL ({applied[MOVED]}): set url to that"
            " one; this one is closed, and as it was then"
        )
    _refuse_newer([name for name, _ in known], list(applied))
    for name, sql in known:
        if name in applied and applied[name] != checksum(sql):
            raise StoreVersionError(
                f"the store's migration {name} is not the one of this version of seawall: it was"
                " made by a different build; use that one, or move the jobs to a new store"
            )
    return [(name, sql) for name, sql in known if name not in applied]


def _applied(session: Session) -> dict[str, str]:
    if not session.all("has_tables")[0][0]:
        return {}
    return dict(session.all("applied"))


def _refuse_newer(known: list[str], applied: list[str]) -> None:
    newer = [name for name in applied if name not in known]
    if newer:
        raise StoreVersionError(
            f"the store is newer than this version of seawall: it has {newer[-1]}, and"
            f" {known[-1]} is the last known here; upgrade seawall"
        )
