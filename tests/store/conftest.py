"""Four stores for one suite: SQLite in memory and in a file, PostgreSQL 16 and 18.

`store` is an empty store that tells the time by `clock`. A database is made once for each worker of
xdist and emptied before each test; a file is made anew.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from seawall.clock import ManualClock
from seawall.store import Store, open_store
from tests.support.kinds import KINDS

_TABLES = (
    "lane", "hold", "job", "job_data", "job_key", "job_tag", "output", "attempt", "evidence",
    "progress", "worker", "turn", "schedule", "intake",
    "upstream", "observation", "dead_letter",
    "run", "run_change", "run_tally", "usage", "access_token", "shared_secret",
    "pace_change", "pace_total", "pace_minute", "upstream_pace", "upstream_phase",
    "webhook", "outbox",
)  # fmt: skip
# Far quicker than TRUNCATE for the few rows of a test.
_EMPTY = (
    "".join(f"DELETE FROM seawall.{table};" for table in _TABLES)
    + """
UPDATE seawall.tally SET jobs = 0 WHERE jobs <> 0;
UPDATE seawall.told SET until = '-infinity';
SELECT setval('seawall.job_id_seq', 1, false), setval('seawall.lane_id_seq', 1, false),
    setval('seawall.intake_id_seq', 1, false), setval('seawall.run_id_seq', 1, false);
"""
)


@pytest.fixture(scope="session")
def postgres_urls(postgres_fleet) -> Iterator[Callable[[str], str]]:
    """The URL of this worker's database on a server of that version, emptied."""
    urls: dict[str, str] = {}
    consoles: dict[str, psycopg.Connection] = {}

    def emptied(version: str) -> str:
        if version not in urls:
            urls[version] = postgres_fleet.server(version).new_url()
            open_store(urls[version]).close()
            consoles[version] = psycopg.connect(urls[version], autocommit=True)
        consoles[version].execute(_EMPTY, prepare=False)
        return urls[version]

    yield emptied
    for console in consoles.values():
        console.close()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The address of an empty store of the kind."""
    if kind == "memory":
        return "sqlite://"
    if kind == "file":
        return f"sqlite:///{tmp_path}/jobs.db"
    return str(request.getfixturevalue("postgres_urls")(kind.removeprefix("postgres")))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(url: str, clock: ManualClock) -> Iterator[Store]:
    """An empty store; whatever a test did to it, its books must balance at the end."""
    with open_store(url, clock=clock) as opened:
        yield opened
        assert opened.verify().violations == ()
