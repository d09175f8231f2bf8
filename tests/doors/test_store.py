"""`seawall migrate` and `seawall verify`, as somebody on call would use them."""

import json

import apsw
import psycopg
import pytest

from seawall.store import open_store, statements
from tests.support.ledger import claimed, ended, new_job

FILE = "jobs.db"
URL = f"sqlite:///{FILE}"


def test_a_new_store_is_made_and_an_up_to_date_one_left_alone(seawall):
    applied = [f"applied {name}\n" for name, _ in statements.migrations("sqlite")]
    assert applied[0] == "applied 0000_migrations\n"
    assert seawall("migrate", "--url", URL) == f"{''.join(applied)}The store is up to date.\n"
    assert seawall("migrate", SEAWALL_URL=URL) == "The store is up to date.\n"
    assert json.loads(seawall("migrate", "--json", "--url", URL)) == []


def test_a_store_that_is_whole_is_said_to_be(seawall):
    with open_store(URL) as store:
        claims = claimed(store, new_job(), new_job(), new_job())
        store.settle([ended(claims[0].token)])
    printed = seawall("verify", "--url", URL)
    assert "running       2" in printed
    assert "entered       3" in printed
    assert printed.endswith("and every rule holds.\n")
    found = json.loads(seawall("verify", "--json", "--url", URL))
    assert (found["ok"], found["entered"], found["present"]["succeeded"]) == (True, 3, 1)


def test_what_is_broken_is_named_with_its_jobs_and_the_exit_code_says_so(seawall):
    with open_store(URL) as store:
        claimed(store)
    connection = apsw.Connection(FILE)
    connection.execute("DELETE FROM seawall_job_data")
    connection.close()

    printed = seawall("verify", "--url", URL, expect=1)

    assert "broken jobs_without_data (1): Every job has its arguments." in printed
    assert "jobs: 1" in printed
    found = json.loads(seawall("verify", "--json", "--url", URL, expect=1))
    assert [(each["rule"], each["jobs"]) for each in found["violations"]] == [
        ("jobs_without_data", [1])
    ]


def test_verify_makes_nothing(seawall):
    assert seawall("verify", "--url", URL, expect=2) == (
        "seawall: jobs.db: no such file; there is no store to verify\n"
    )
    assert list(seawall.folder.iterdir()) == []


def test_verify_leaves_a_database_of_others_as_it_is(seawall):
    connection = apsw.Connection(FILE)
    connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    before = (seawall.folder / FILE).read_bytes()
    line = "seawall: the store lacks the migration 0000_migrations: run `seawall migrate` first\n"
    assert seawall("verify", "--url", URL, expect=2) == line
    assert (seawall.folder / FILE).read_bytes() == before


@pytest.mark.parametrize("version", ["16", "18"])
def test_both_commands_work_on_postgres(seawall, postgres_fleet, version):
    url = postgres_fleet.server(version).new_url()
    assert "run `seawall migrate` first" in seawall("verify", SEAWALL_URL=url, expect=2)
    assert "applied 0001_ledger" in seawall("migrate", SEAWALL_URL=url)
    with open_store(url) as store:
        claimed(store)
    assert "every rule holds" in seawall("verify", SEAWALL_URL=url)
    with psycopg.connect(url) as connection:
        connection.execute("DELETE FROM seawall.job")
    assert "broken books (1): " in seawall("verify", SEAWALL_URL=url, expect=1)


@pytest.mark.parametrize("command", ["migrate", "verify"])
def test_a_store_in_memory_is_no_use_to_a_command(seawall, command):
    line = "seawall: url: a store in memory ends with the command: name a file\n"
    assert seawall(command, "--url", "sqlite://", expect=2) == line


def test_verify_leaves_no_file_behind(seawall):
    open_store(URL).close()
    before = sorted(seawall.folder.iterdir())
    seawall("verify", "--url", URL)
    assert sorted(seawall.folder.iterdir()) == before


def test_what_is_broken_can_be_found_with_grep(seawall):
    with open_store(URL) as store:
        claims = claimed(store, *[new_job() for _ in range(30)], limit=30)
        store.settle([ended(claim.token) for claim in claims])
    connection = apsw.Connection(FILE)
    connection.execute("DELETE FROM seawall_attempt")
    connection.close()
    printed = seawall("verify", "--url", URL, expect=1, COLUMNS="40")
    assert (
        "broken history_with_gaps (30): History has every attempt from 1 to the job's seq,"
        in printed
    )
