"""What pages say besides Python and commands of seawall: SQL, settings, shells, figures, tests."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import yaml

from seawall import settings, telemetry
from seawall.store import open_store
from tests.support.ledger import claimed, ended, new_job
from tests.support.postgres import binaries

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FENCED = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
RUN = {
    "python": "test_snippets", "console": "test_snippets", "toml": "test_snippets",
    "sql": "here", "conf": "here", "ini": "here", "py": "here", "sh": "here; curl by test_server_page",
    "yaml": "here", "json": "test_page of webhooks",
}  # fmt: skip
"""The languages of snippets, and what runs or reads them."""


def snippets(language, *folders):
    for page in PAGES:
        if folders and not str(page).startswith(tuple(f"{DOCS}/{each}" for each in folders)):
            continue
        for place, found in enumerate(FENCED.finditer(page.read_text("utf-8")), 1):
            if found[2] == language:
                yield pytest.param(found[3], id=f"{page.relative_to(ROOT)}:{place}")


def test_there_is_no_snippet_that_nothing_runs():
    for page in PAGES:
        for found in FENCED.finditer(page.read_text("utf-8")):
            what = found[3].splitlines()[0]
            assert found[2] in RUN, f"{page.name}: {what}: say in which language it is"


@pytest.mark.parametrize("code", list(snippets("py", "coming-from/")))
def test_what_stands_there_for_comparison_is_python(code):
    compile(code, "before", "exec")


@pytest.fixture(scope="module")
def server(postgres_fleet):
    return postgres_fleet.server("18")


@pytest.fixture(scope="module")
def url(server):
    """A store that has been used, on a server that has the role of the pages."""
    found = server.new_url()
    with psycopg.connect(found, autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'worker'").fetchall():
            connection.execute("CREATE ROLE worker LOGIN")
    with open_store(found) as store:
        (claim, *_) = claimed(store, new_job(), new_job(), limit=1)
        store.settle([ended(claim.token)])
    return found


@pytest.mark.parametrize("sql", list(snippets("sql")))
def test_postgresql_takes_the_sql_of_a_page(sql, url):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql, prepare=False)


@pytest.mark.parametrize("settings", list(snippets("conf")))
def test_postgresql_takes_the_settings_of_a_page(settings, url):
    lines = [line.partition("#")[0].strip() for line in settings.splitlines()]
    assert lines
    with psycopg.connect(url, autocommit=True) as connection:
        for line in lines:
            name, value = (part.strip() for part in line.split("="))
            # Read and kept for the next start, which is not to come.
            connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            connection.execute(f"ALTER SYSTEM RESET {name}")


@pytest.mark.parametrize("unit", list(snippets("ini")))
def test_the_command_of_a_service_is_understood(unit):
    (line,) = re.findall(r"^ExecStart=\S*/seawall (.*)$", unit, re.MULTILINE)
    command = [sys.executable, "-m", "seawall", *shlex.split(line), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    flags = re.findall(r"--[\w-]+", line)
    assert [flag for flag in flags if flag not in done.stdout] == []


@pytest.mark.parametrize("config", list(snippets("yaml")))
def test_prometheus_is_sent_to_the_port_of_the_server(config):
    (scraped,) = yaml.safe_load(config)["scrape_configs"]
    assert set(scraped) == {"job_name", "authorization", "static_configs"}  # /metrics is understood
    targets = [target for each in scraped["static_configs"] for target in each["targets"]]
    assert targets == [f"jobs.example:{settings.Settings().port}"]


@pytest.mark.parametrize("script", list(snippets("sh", "operations/")))
def test_a_shell_can_run_what_a_page_says(script, url, server, tmp_path):
    with open_store(f"sqlite:///{tmp_path}/seawall.db") as store:
        (claim, *_) = claimed(store, new_job(), new_job(), limit=1)
        store.settle([ended(claim.token)])
    programs = f"{Path(sys.executable).parent}:{binaries('18')}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-euc", script],
        cwd=tmp_path,
        env={"PATH": programs, "SOURCE": url, "TARGET": server.new_url(), "HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_test_that_a_guarantee_names_is_there():
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    known = set(re.findall(r"def (test_\w+)", sources))
    for page in ("guarantees.md", "operations/upgrades.md"):
        named = set(re.findall(r"`(test_\w+)`", (DOCS / page).read_text("utf-8")))
        assert named
        assert named - known == set(), page


def test_every_promise_names_a_test():
    text = (DOCS / "guarantees.md").read_text("utf-8").partition("## Not promised")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    promises = [row for row in rows if not row.startswith(("| promised", "| ---"))]
    assert len(promises) > 20
    assert [row for row in promises if "`test_" not in row] == []


def test_the_figures_for_sizing_are_those_of_the_benchmarks():
    told = (DOCS / "benchmarks.md").read_text("utf-8")
    figures = re.findall(
        r"\b\d{1,3},\d{3}\b|\b\d+ MiB", (DOCS / "operations/sizing.md").read_text()
    )
    assert len(figures) > 8
    assert [figure for figure in figures if figure not in told and figure != "10,000"] == []


def test_what_opens_an_old_store_again_is_what_the_page_says():
    from tests.store.test_move import REOPEN

    assert REOPEN.strip() in (DOCS / "operations" / "moving.md").read_text("utf-8")


def test_events_and_settings_that_operators_are_told_of_are_there():
    known = {event.name for event in telemetry.EVENTS} | set(settings.names())
    others = {"fastapi", "pg_dump", "idempotency_key", "timeout_seconds", "artifacts_url"}
    for page in ("index.md", "on-call.md"):
        text = (DOCS / "operations" / page).read_text("utf-8")
        named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", text))
        assert named - known - others == set(), page
