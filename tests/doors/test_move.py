"""`seawall move`, as somebody would use it who has outgrown one machine."""

import json

import pytest

from seawall.store import open_store
from tests.support.ledger import claimed, ended, new_job

URL = "sqlite:///jobs.db"


@pytest.fixture
def target(postgres_fleet):
    return postgres_fleet.server("18").new_url()


@pytest.fixture
def three_jobs(seawall):
    with open_store(URL) as store:
        claims = claimed(store, new_job(), new_job(), new_job(), limit=1)
        store.settle([ended(claim.token) for claim in claims])


def test_a_store_is_looked_at_moved_and_used_where_it_is_then(seawall, three_jobs, target):
    printed = seawall("move", URL, target, "--dry-run")
    assert "job             3" in printed
    assert "All of it would be moved to 127.0.0.1:" in printed
    assert printed.endswith("Nothing was written.\n")

    printed = seawall("move", URL, target)
    assert "job             3" in printed
    assert "every rule of the ledger holds there." in printed

    assert "every rule holds" in seawall("verify", "--url", target)
    assert len(json.loads(seawall("jobs", "--url", target, "--json"))) == 3
    line = seawall("jobs", "--url", URL, expect=2)
    assert line.startswith("seawall: the jobs of this store were moved to PostgreSQL (127.0.0.1:")
    assert line.count("\n") == 1


def test_a_program_reads_how_many_rows_there_are(seawall, three_jobs, target):
    told = json.loads(seawall("move", URL, target, "--json"))
    assert (told["dry_run"], told["rows"]["job"], told["rows"]["attempt"]) == (False, 3, 1)
    assert set(told) == {"dry_run", "target", "rows"}


def test_what_is_in_the_way_is_one_line_and_a_refusal(seawall, target):
    with open_store(URL) as store:
        claimed(store)
    seawall("move", URL, target, expect=1)
    assert seawall.err.startswith(
        "seawall: nothing was moved: attempts are under way (1): let them"
    )
    assert seawall.err.count("\n") == 1


def test_a_mistake_is_one_line_without_the_password(seawall, three_jobs):
    line = seawall("move", URL, "postgresql://ann:hush@127.0.0.1:1/jobs", expect=2)
    assert line.startswith("seawall: PostgreSQL: ")
    assert "hush" not in line
    line = "seawall: move: expected sqlite:///FILE first, then postgresql://…\n"
    assert seawall("move", "postgresql://h/d", URL, expect=2) == line
