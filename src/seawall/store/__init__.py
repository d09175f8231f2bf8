"""Where jobs are kept: one set of verbs over SQLite or PostgreSQL.

`open_store` is the way in. It imports the driver that the address needs, and only that one.
"""

import os
import random
from collections.abc import Callable, Sequence
from typing import Any

from seawall.clock import Clock
from seawall.errors import ConfigurationError, StoreError
from seawall.model import Attempt, Begin, Job, Lane, NewJob, Outcome, Settlement, Token
from seawall.redact import one_line
from seawall.store.access_values import Access, AccessScope, NewAccess
from seawall.store.audit_values import (
    MOST_TRIES,
    Audit,
    ConfigSeen,
    FailedItem,
    Spans,
    StageAudit,
    Tries,
    Trouble,
)
from seawall.store.backend import STATEMENT_SECONDS, Backend
from seawall.store.letters import (
    DeadLetter,
    Dealt,
    LetterFilter,
    LetterGroup,
    LetterGroups,
    LetterKind,
    LetterPage,
    LetterState,
    Pile,
    Trend,
)
from seawall.store.pace_values import (
    BOUNDS_SECONDS,
    Histogram,
    PaceBucket,
    PhaseSpan,
    Total,
    Turn,
    UpstreamBucket,
    UpstreamPhase,
    UpstreamTotal,
)
from seawall.store.port import Store
from seawall.store.run_values import Items, KeptRun, LiveItems, NewRun, RunStop, Started
from seawall.store.values import (
    Advance,
    Answer,
    Backlog,
    Change,
    Changes,
    Claim,
    Earlier,
    Ending,
    Enqueued,
    Evidence,
    Filter,
    Head,
    Hold,
    Ids,
    JobChange,
    Lapse,
    Lately,
    Observation,
    Observed,
    OwnStanding,
    Page,
    Planned,
    Presence,
    Present,
    Progress,
    Reclaim,
    Redrive,
    Release,
    Result,
    Scope,
    Taken,
    Verification,
    Violation,
    Wanted,
    Watched,
)
from seawall.store.watching import Desk
from seawall.store.webhook_values import NewWebhook, Note, Webhook, WebhookSecrets

__all__ = [
    "BOUNDS_SECONDS",
    "MOST_TRIES",
    "Access",
    "AccessScope",
    "Advance",
    "Answer",
    "Attempt",
    "Audit",
    "Backlog",
    "Begin",
    "Change",
    "Changes",
    "Claim",
    "ConfigSeen",
    "DeadLetter",
    "Dealt",
    "Desk",
    "Earlier",
    "Ending",
    "Enqueued",
    "Evidence",
    "FailedItem",
    "Filter",
    "Head",
    "Histogram",
    "Hold",
    "Ids",
    "Items",
    "Job",
    "JobChange",
    "KeptRun",
    "Lane",
    "Lapse",
    "Lately",
    "LetterFilter",
    "LetterGroup",
    "LetterGroups",
    "LetterKind",
    "LetterPage",
    "LetterState",
    "LiveItems",
    "NewAccess",
    "NewJob",
    "NewRun",
    "NewWebhook",
    "Note",
    "Observation",
    "Observed",
    "Outcome",
    "OwnStanding",
    "PaceBucket",
    "Page",
    "PhaseSpan",
    "Pile",
    "Planned",
    "Presence",
    "Present",
    "Progress",
    "Reclaim",
    "Redrive",
    "Release",
    "Result",
    "RunStop",
    "Scope",
    "Settlement",
    "Spans",
    "StageAudit",
    "Started",
    "Store",
    "Taken",
    "Token",
    "Total",
    "Trend",
    "Tries",
    "Trouble",
    "Turn",
    "UpstreamBucket",
    "UpstreamPhase",
    "UpstreamTotal",
    "Verification",
    "Violation",
    "Wanted",
    "Watched",
    "Webhook",
    "WebhookSecrets",
    "aenqueue_beside",
    "enqueue_beside",
    "file_of",
    "lasts",
    "migrate_store",
    "open_store",
    "verify_store",
]

_SQLITE = "sqlite://"
_IN_MEMORY = ("", "/", "/:memory:")
_POSTGRES = ("postgresql://", "postgres://")


def open_store(
    url: str,
    *,
    listen_url: str | None = None,
    clock: Clock | None = None,
    rng: random.Random | None = None,
    statement_seconds: float = STATEMENT_SECONDS,
    connection_seconds: float | None = None,
) -> Store:
    """The store at that address, made where there is none and brought up to date where it is old.

    `sqlite:///jobs.db` is a file, `sqlite://` a store in memory, `postgresql://…` a server.
    `listen_url` is the server's own address where `url` leads to a pooler. `clock` stands in for
    the store's own clock; tests and the simulator give one. `connection_seconds` is how long a verb
    waits for a connection to a server before it says that the store is away; by default as long
    as a statement may take.
    """
    from seawall.store.ledger import Ledger  # noqa: PLC0415 - `import seawall` stays light
    from seawall.store.migrate import bring_up  # noqa: PLC0415 - as above

    backend = _backend(
        url,
        listen_url=listen_url,
        clock=clock,
        statement_seconds=statement_seconds,
        connection_seconds=connection_seconds,
    )
    try:
        bring_up(backend)
    except BaseException:
        backend.close()
        raise
    return Ledger(backend, rng=rng)


def migrate_store(url: str) -> list[str]:
    """Bring the store at that address up to date; the names of the migrations that it lacked."""
    from seawall.store.migrate import bring_up  # noqa: PLC0415 - as above

    _need_a_lasting_one(url)
    backend = _backend(url)
    try:
        return bring_up(backend)
    finally:
        backend.close()


def verify_store(url: str) -> Verification:
    """Prove that the store at that address is whole. Reads only: it makes and migrates nothing."""
    from seawall.store.ledger import Ledger  # noqa: PLC0415 - as above
    from seawall.store.migrate import need_up_to_date  # noqa: PLC0415 - as above

    _need_a_lasting_one(url)
    path = _path(url) if url.startswith(_SQLITE) else ""
    if path and not os.path.lexists(path):
        raise StoreError(f"{path}: no such file; there is no store to verify")
    backend = _backend(url, read_only=True)
    try:
        need_up_to_date(backend)
        return Ledger(backend).verify()
    finally:
        backend.close()


def enqueue_beside(
    url: str,
    connection: Any,
    jobs: Sequence[NewJob],
    *,
    clock: Clock | None = None,
    store: Callable[[], Store],
) -> list[Enqueued]:
    """`Store.enqueue_on` for the store at that address, which is opened only where that is safe.

    On SQLite it never is: the caller's connection has the file open already, and a process must
    not have it open through two libraries. `store` is asked for the open one on PostgreSQL.
    """
    if url.startswith(_SQLITE):
        from seawall.store.callers import enqueued_beside_file  # noqa: PLC0415 - as above

        return enqueued_beside_file(_path(url), clock, connection, jobs)
    return store().enqueue_on(connection, jobs)


async def aenqueue_beside(
    url: str,
    connection: Any,
    jobs: Sequence[NewJob],
    *,
    clock: Clock | None = None,  # noqa: ARG001 - so that both are called alike
    store: Callable[[], Store],
) -> list[Enqueued]:
    """The async twin of `enqueue_beside`."""
    import asyncio  # noqa: PLC0415 - as above

    if url.startswith(_SQLITE):
        from seawall.store.callers import refuse_async_sqlite  # noqa: PLC0415 - as above

        refuse_async_sqlite(connection)
    opened = await asyncio.to_thread(store)
    return await opened.aenqueue_on(connection, jobs)


def _backend(
    url: str,
    *,
    listen_url: str | None = None,
    clock: Clock | None = None,
    statement_seconds: float = STATEMENT_SECONDS,
    connection_seconds: float | None = None,
    read_only: bool = False,
) -> Backend:
    how: dict[str, Any] = {"clock": clock, "statement_seconds": statement_seconds}
    if url.startswith(_SQLITE):
        from seawall.store.sqlite import SqliteBackend  # noqa: PLC0415 - as above

        return SqliteBackend(_path(url), read_only=read_only, **how)
    if not url.startswith(_POSTGRES):
        raise ConfigurationError("url: expected sqlite:///FILE or postgresql://…")
    try:
        from seawall.store.postgres import PostgresBackend  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigurationError(
            f"PostgreSQL needs psycopg: pip install 'seawall[postgres]' ({one_line(str(error))})"
        ) from None
    listen_url = listen_url or None
    return PostgresBackend(url, listen_url=listen_url, connection_seconds=connection_seconds, **how)


def _path(url: str) -> str:
    path = url.removeprefix(_SQLITE)
    if path in _IN_MEMORY:
        return ":memory:"
    if not path.startswith("/"):
        raise ConfigurationError("url: expected three slashes before the file: sqlite:///FILE")
    if "?" in path:
        raise ConfigurationError("url: a SQLite file takes no options: leave out what follows ?")
    return path[1:]


def lasts(url: str) -> bool:
    """Whether the store at that address outlives this process."""
    return not (url.startswith(_SQLITE) and url.removeprefix(_SQLITE) in _IN_MEMORY)


def file_of(url: str) -> str | None:
    """The path of the file that the store at that address is in; None where it is in none."""
    return _path(url) if url.startswith(_SQLITE) and lasts(url) else None


def _need_a_lasting_one(url: str) -> None:
    if not lasts(url):
        raise ConfigurationError("url: a store in memory ends with the command: name a file")
