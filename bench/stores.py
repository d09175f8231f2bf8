"""The stores that the benchmarks run on, durable as in production: every commit is synced."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support import postgres

DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}


@contextmanager
def urls(*kinds: str) -> Iterator[dict[str, str]]:
    """A new, empty store of each kind: `sqlite`, `postgres16`, `postgres18`."""
    with tempfile.TemporaryDirectory() as folder:
        found = {"sqlite": f"sqlite:///{folder}/jobs.db"}
        servers = [kind for kind in kinds if kind.startswith("postgres")]
        with _servers(servers) as running:
            yield {kind: found.get(kind) or running[kind].new_url() for kind in kinds}


@contextmanager
def _servers(kinds: list[str]) -> Iterator[dict[str, postgres.Postgres]]:
    if not kinds:
        yield {}
        return
    first, *rest = kinds
    binaries = postgres.binaries(first.removeprefix("postgres"))
    with postgres.running(binaries, **DURABLE) as server, _servers(rest) as others:
        yield {first: server, **others}
