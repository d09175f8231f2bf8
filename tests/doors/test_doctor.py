"""`seawall doctor`: what is wrong, and what to do about it."""

import json
import time
from datetime import timedelta

import apsw
import psycopg
import pytest

from seawall.cli import doctor
from seawall.store import open_store
from tests.support.ledger import claimed, enqueued
from tests.support.pgbouncer import pooled

URL = "sqlite:///jobs.db"


@pytest.fixture(params=["sqlite", "postgres16", "postgres18"])
def url(request, seawall):
    if request.param == "sqlite":
        return URL
    fleet = request.getfixturevalue("postgres_fleet")
    return fleet.server(request.param.removeprefix("postgres")).new_url()


def checks(seawall, *words, **how):
    found = json.loads(seawall("doctor", "--json", *words, **how))
    assert all(each.keys() == {"check", "verdict", "found", "what_to_do"} for each in found)
    return {each["check"]: each for each in found}


def run_sql(url, sql):
    if url == URL:
        connection = apsw.Connection("jobs.db")
        connection.execute(sql).fetchall()
        connection.close()
    else:
        with psycopg.connect(url) as connection:
            connection.execute(sql)


def test_a_sound_store_is_said_to_be(seawall, url):
    with open_store(url) as store:
        enqueued(store)
    found = checks(seawall, "--url", url)
    assert {each["verdict"] for each in found.values()} == {"ok"}
    names = {"versions", "store", "indexes", "claim", "workers", "served", "leases", "letters"}
    assert found.keys() == (names if url == URL else {*names, "clock"})
    printed = seawall("doctor", "--url", url)
    assert "ok       claim" in printed
    assert "`seawall verify` proves it" in printed
    assert ("SQLite 3." if url == URL else "PostgreSQL 1") in printed


def test_it_makes_no_store_and_brings_none_up_to_date(seawall, url):
    found = checks(seawall, "--url", url, expect=1)
    assert found["store"]["verdict"] == "broken"
    assert "seawall migrate" in found["store"]["found"]
    assert list(seawall.folder.iterdir()) == []


def test_a_database_of_others_stays_as_it_is(seawall):
    run_sql(URL, "CREATE TABLE theirs (a)")
    before = (seawall.folder / "jobs.db").read_bytes()
    assert checks(seawall, "--url", URL, expect=1)["store"]["verdict"] == "broken"
    assert (seawall.folder / "jobs.db").read_bytes() == before


def test_a_server_that_is_away_is_broken_and_no_password_is_shown(seawall):
    printed = seawall("doctor", "--url", "postgresql://ann:hunter2@127.0.0.1:1/jobs", expect=1)
    assert "broken   store" in printed
    assert "hunter2" not in printed + seawall.err


def test_missing_indexes_are_named(seawall, url):
    open_store(url).close()
    prefix = "seawall_" if url == URL else "seawall."
    run_sql(url, f"DROP INDEX {prefix}job_owner")
    found = checks(seawall, "--url", url, expect=1)
    assert found["indexes"]["verdict"] == "broken"
    assert "job_owner is missing" in found["indexes"]["found"]
    assert found["claim"]["verdict"] == "ok"
    run_sql(url, f"DROP INDEX {prefix}job_due")
    found = checks(seawall, "--url", url, expect=1)
    assert "job_due is missing" in found["indexes"]["found"]


def test_an_invalid_index_is_named(seawall, postgres):
    url = postgres.new_url()
    open_store(url).close()
    run_sql(
        url,
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'seawall.job_due'::regclass",
    )
    found = checks(seawall, "--url", url, expect=1)
    assert found["indexes"]["found"] == "job_due is invalid"
    assert found["claim"]["verdict"] == "broken"


def test_jobs_that_nobody_serves_are_named(seawall, url, monkeypatch):
    with open_store(url) as store:
        enqueued(store)
    monkeypatch.setattr("seawall.worker.upkeep.UNSERVED_SECONDS", 0.0)
    found = checks(seawall, "--url", url)["served"]
    assert found["verdict"] == "warning"
    assert "jobs of work in the queue default" in found["found"]
    assert "declares the task work" in found["what_to_do"]


def test_leases_that_nobody_takes_back_are_named(seawall, url, monkeypatch):
    monkeypatch.setattr(doctor, "RECLAIM_SECONDS", 0.0)
    with open_store(url) as store:
        claimed(store, lease_seconds=0.01)
        while not store.lapsed():
            time.sleep(0.01)
    found = checks(seawall, "--url", url)["leases"]
    assert found["verdict"] == "warning"
    assert "1 lease lapsed" in found["found"]
    assert "start a worker" in found["what_to_do"]


def test_a_pooler_without_a_way_around_it_is_warned_of(seawall, postgres_fleet):
    direct = postgres_fleet.server("16").new_url()
    open_store(direct).close()
    with pooled(direct) as url:
        found = checks(seawall, "--url", url)
        assert found["pooler"]["verdict"] == "warning"
        assert "listen_url" in found["pooler"]["what_to_do"]
        assert found["claim"]["verdict"] == "ok"
        assert "pooler" not in checks(seawall, "--url", url, SEAWALL_LISTEN_URL=direct)


def test_what_looks_like_a_pooler_is_warned_of(seawall, postgres_fleet, monkeypatch):
    """As above, where no pgbouncer is installed."""
    url = postgres_fleet.server("18").new_url()
    open_store(url).close()
    monkeypatch.setattr("seawall.store.postgres_connections.Connections._looked_at", lambda _: True)
    found = checks(seawall, "--url", url)
    assert (found["pooler"]["verdict"], found["claim"]["verdict"]) == ("warning", "ok")
    assert "pooler" not in checks(seawall, "--url", url, SEAWALL_LISTEN_URL=url)


def test_a_clock_that_is_off_is_warned_of(seawall, postgres_fleet, monkeypatch):
    url = postgres_fleet.server("18").new_url()
    with open_store(url) as store:
        assert doctor._of_clock(store).verdict == "ok"
        now = store.now
        monkeypatch.setattr(store, "now", lambda: now() + timedelta(seconds=90))
        found = doctor._of_clock(store)
    assert found.verdict == "warning"
    assert "s ahead of this one" in found.found


CLIENTS = """
import openai

from seawall import Seawall

app = Seawall("sqlite:///jobs.db")
eager = openai.OpenAI(api_key="sk-planted-0123456789abcdef")
calm = openai.OpenAI(api_key="sk-planted-0123456789abcdef", max_retries=0)


@app.task(isolated=True)
def alone() -> None: ...
"""


def test_clients_that_retry_by_themselves_are_named(seawall, module):
    name = module(CLIENTS)
    seawall("migrate", "--url", URL)
    printed = seawall("doctor", "--app", f"{name}:app")
    assert f"warning  clients      {name}.eager: openai.OpenAI retries 2× by itself" in printed
    assert "create it with max_retries=0" in printed
    assert f"{name}.calm" not in printed
    assert "1 isolated task can be imported" in printed
    assert "planted" not in printed


def test_an_isolated_task_that_cannot_be_found_is_broken(seawall, module):
    name = module(
        "from seawall import Seawall\napp = Seawall('sqlite:///jobs.db')\n"
        "def declare():\n    @app.task(isolated=True)\n    def hidden() -> None: ...\n"
        "declare()\n"
    )
    seawall("migrate", "--url", URL)
    found = checks(seawall, "--app", f"{name}:app", expect=1)["isolated"]
    assert found["found"] == "the task hidden cannot be imported by a process of its own"


def test_an_application_that_breaks_is_told_and_the_store_looked_at_still(seawall, module):
    seawall("migrate", "--url", URL)
    name = module("raise RuntimeError('oh')\n")
    found = checks(seawall, "--app", f"{name}:app", "--url", URL, expect=1)
    assert "RuntimeError: oh" in found["application"]["found"]
    assert found["store"]["verdict"] == "ok"
    empty = module("from seawall import Seawall\napp = Seawall('sqlite:///jobs.db')\n")
    found = checks(seawall, "--app", f"{empty}:app", expect=1)
    assert found["application"]["found"] == "it has no tasks"
