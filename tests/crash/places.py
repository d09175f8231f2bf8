"""Places where a store can be struck: each can be brought back to the prepared state at any time.

A place gives a `Subject`: the store that is asked, one beside it that looks on, and what counts its
statements and strikes.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import psycopg

from seawall.clock import ManualClock
from seawall.store import Store, open_store
from seawall.store.ledger import Ledger
from seawall.store.postgres import PostgresBackend
from tests.crash.proxy import HITS, Proxy
from tests.crash.proxy import Strike as ProxyStrike
from tests.crash.tracer import Strike, Tracer
from tests.crash.world import NOW, PATIENCE_SECONDS, START, prepare, settle_down

_TABLES = (
    "lane", "hold", "job", "job_data", "job_key", "job_tag", "output", "attempt", "evidence",
    "progress", "worker", "turn", "schedule", "intake", "tally",
    "upstream", "observation", "dead_letter", "told", "run", "run_change", "run_tally", "usage",
    "pace_change", "pace_total", "pace_minute", "upstream_pace", "upstream_phase",
    "webhook", "outbox",
)  # fmt: skip
_KEEP = "CREATE SCHEMA kept;" + "".join(
    f"CREATE TABLE kept.{each} AS TABLE seawall.{each};" for each in _TABLES
)
_RESTORE = "".join(
    f"DELETE FROM seawall.{each};"
    f"INSERT INTO seawall.{each} OVERRIDING SYSTEM VALUE SELECT * FROM kept.{each};"
    for each in _TABLES
) + "".join(
    f"SELECT setval(pg_get_serial_sequence('seawall.{each}', 'id'), max(id)) FROM kept.{each};"
    for each in (
        "lane",
        "job",
        "intake",
        "run",
        "run_change",
        "pace_change",
        "upstream_phase",
        "webhook",
        "outbox",
    )
)
_EMPTY = "DROP SCHEMA IF EXISTS seawall CASCADE"
_COLUMNS = """
SELECT table_name, column_name, data_type, column_default, is_nullable
FROM information_schema.columns WHERE table_schema = 'seawall'
UNION ALL SELECT tablename, indexdef, NULL, NULL, NULL FROM pg_indexes WHERE schemaname = 'seawall'
ORDER BY 1, 2
"""


@dataclass
class Subject:
    store: Store
    witness: Store
    clock: ManualClock


class Memory:
    """SQLite in memory: nobody else can look on."""

    def __init__(self, watch: Tracer) -> None:
        self.watch = watch

    @contextmanager
    def prepared(self) -> Iterator[Subject]:
        clock = ManualClock(START)
        with open_store("sqlite://", clock=clock) as store:
            prepare(store, clock)
            yield Subject(store, store, clock)

    def hits(self, strike: Strike) -> list[int]:
        """Which of the statements that it has counted can be struck so: all."""
        return list(range(1, self.watch.seen + 1))


class File(Memory):
    """SQLite in a file, which is copied from one in the prepared state."""

    def __init__(self, watch: Tracer, folder: Path) -> None:
        super().__init__(watch)
        self._template = folder / "template.db"
        self._path = folder / "jobs.db"
        self.url = f"sqlite:///{self._path}"
        clock = ManualClock(START)
        with open_store(f"sqlite:///{self._template}", clock=clock) as store:
            prepare(store, clock)

    @contextmanager
    def prepared(self) -> Iterator[Subject]:
        self.restore()
        with self.opened() as subject:
            yield subject

    @contextmanager
    def opened(self) -> Iterator[Subject]:
        clock = ManualClock(NOW)
        with (
            open_store(self.url, clock=clock) as store,
            open_store(self.url, clock=clock) as witness,
        ):
            yield Subject(store, witness, clock)

    def restore(self) -> None:
        self.empty()
        shutil.copy(self._template, self._path)

    def empty(self) -> None:
        for each in self._path.parent.glob("jobs.db*"):
            each.unlink()

    def tables(self) -> list[Any]:
        connection = apsw.Connection(str(self._path))
        try:
            return connection.execute("SELECT * FROM sqlite_schema ORDER BY name").fetchall()
        finally:
            connection.close()


class Postgres:
    """A database behind a proxy. One backend takes all strikes, and must recover from each."""

    def __init__(self, url: str, cleanup: ExitStack) -> None:
        clock = ManualClock(START)
        with open_store(url, clock=clock) as store:
            prepare(store, clock)
        self._admin = cleanup.enter_context(psycopg.connect(url, autocommit=True))
        self._admin.execute(f"SET lock_timeout = '{PATIENCE_SECONDS}s'")
        self._admin.execute(_KEEP)
        self.watch = cleanup.enter_context(Proxy(url))
        self.url = self.watch.url
        self._backends = [PostgresBackend(each) for each in (self.url, url)]
        for backend in self._backends:
            cleanup.callback(backend.close)

    @contextmanager
    def prepared(self) -> Iterator[Subject]:
        self.restore()
        with self.opened() as subject:
            yield subject

    @contextmanager
    def opened(self) -> Iterator[Subject]:
        clock = ManualClock(NOW)
        for backend in self._backends:
            backend._clock = clock
        # New ledgers over the same connections: they know nothing yet, as in a new process.
        store, witness = map(Ledger, self._backends)
        settle_down(self._backends[0])
        yield Subject(store, witness, clock)

    def restore(self) -> None:
        self._admin.execute(_RESTORE)

    def empty(self) -> None:
        self._admin.execute(_EMPTY)

    def tables(self) -> list[Any]:
        return self._admin.execute(_COLUMNS).fetchall()

    def hits(self, strike: ProxyStrike) -> list[int]:
        """Which of the statements that it has counted can be struck so."""
        return [n for n, kind in enumerate(self.watch.seen, 1) if kind in HITS[strike]]
