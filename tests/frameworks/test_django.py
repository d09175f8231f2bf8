"""A Django project with seawall as the backend of its tasks, on SQLite and on PostgreSQL.

Its own tests run under Django's runner, in a Python that Django 6 runs on; here they are started,
and whole processes are: migrations, commands, workers, and one that dies after its commit.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.support.newer_python import newer_python, surroundings

IN_FULL = "CI" in os.environ
"""Else whole processes run on one database here, and on the other in the test of the page."""
DATABASES = ["sqlite", "postgres"]
PROJECT = Path(__file__).parent / "project"


class Project:
    """The project, beside a database of its own."""

    def __init__(self, folder, database):
        self.environ = {
            **surroundings("SEAWALL"), "SHOP_FOLDER": str(folder), "NO_COLOR": "1",
            "COLUMNS": "200", **database,
        }  # fmt: skip
        self.python = newer_python()

    def run(self, *words, code=0, cwd=PROJECT):
        done = subprocess.run(
            [self.python, "-W", "ignore::ResourceWarning", PROJECT / "manage.py", *words],
            cwd=cwd, env=self.environ, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
        return done

    def seawall(self, *words, **how):
        return self.run("seawall", *words, **how)

    def shell(self, script, **how):
        """What the script says last, as JSON."""
        done = self.run(
            "shell", "-v0", "-c", f"import json\nfrom shop import tasks\n{script}", **how
        )
        return json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else None


@pytest.fixture(params=DATABASES)
def project(request, tmp_path):
    database = {}
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_fleet").server("18").new_url()
        at = psycopg.conninfo.conninfo_to_dict(url)
        database = {
            "SHOP_NAME": at["dbname"], "SHOP_USER": at["user"], "SHOP_PORT": str(at["port"]),
        }  # fmt: skip
    made = Project(tmp_path, database)
    made.direct = request.param == "postgres"
    return made


def test_the_tests_of_the_project_pass(project):
    # The pages and checks ask nothing of Django's database that another would answer otherwise, and
    # what runs in memory asks little.
    which = []
    if project.direct:
        which = ["shop.tests.test_stores", *(["shop.tests.test_backend"] if IN_FULL else [])]
    done = project.run("test", "--noinput", *which)
    ran, skipped = (
        re.search(r"Ran (\d+) tests", done.stderr),
        re.search(r"skipped=(\d+)", done.stderr),
    )
    assert int(ran[1]) - int(skipped[1]) > (12 if which else 80)


ASK = """
from django.db import transaction
from shop.models import Order
with transaction.atomic():
    Order.objects.create(number=1)
    kept = tasks.confirm.enqueue(1)
try:
    with transaction.atomic():
        Order.objects.create(number=2)
        gone = tasks.confirm.enqueue(2)
        raise RuntimeError
except RuntimeError:
    pass
from shop.elsewhere import found_by_its_path
found = found_by_its_path.enqueue()
from opentelemetry import trace
within = trace.NonRecordingSpan(trace.SpanContext(7, 7, is_remote=True))
with trace.use_span(within):
    more = [tasks.broken.enqueue(), tasks.asks_from_its_own_process.enqueue()]
print(json.dumps([kept.id, gone.id, found.id, *(each.id for each in more)]))
"""
TELL = """
from contextlib import redirect_stdout
from io import StringIO
from django.core.management import call_command
from django.tasks import default_task_backend
from django.tasks.exceptions import TaskResultDoesNotExist

def status(id):
    try:
        return str(default_task_backend.get_result(id).status)
    except TaskResultDoesNotExist:
        return None

def seawall(*words):
    with redirect_stdout(StringIO()) as said:
        call_command("seawall", *words)
    return said.getvalue()

from seawall.django import application
asked = {ids!r}[-1]
(job,) = application().jobs(key=asked)
(child,) = application().jobs(key=default_task_backend.get_result(asked).return_value)

(letter,) = json.loads(seawall("dead", "--json"))
number = str(letter["job_id"])
print(json.dumps({{
    "results": [status(id) for id in {ids!r}],
    "orders": sorted(tasks.Order.objects.values_list("number", "confirmed")),
    "is_its_child": child.parent == job.id,
    "trace": application().store.trace(child.id),
    "jobs": [job["task"] for job in json.loads(seawall("jobs", "--json"))],
    "why": seawall("why", number),
    "retry": seawall("retry", number),
    "cancel": seawall("cancel", number),
    "verify": seawall("verify"),
    "migrate": seawall("migrate"),
}}))
"""


@pytest.mark.parametrize("project", DATABASES if IN_FULL else ["sqlite"], indirect=True)
def test_what_is_committed_is_run_by_other_processes(project, tmp_path):
    project.run("migrate", "-v0")
    ids = project.shell(ASK)
    if not project.direct:
        # It dies after its commit: the job is in the project's own database, and nowhere else.
        project.shell(DIE_AFTER_THE_COMMIT, code=9)
    # From another folder, and with processes that have to find the project by themselves.
    project.seawall("worker", "--drain", "--processes", "2", "--concurrency", "2", cwd=tmp_path)
    told = project.shell(TELL.format(ids=ids))
    assert told["results"] == ["SUCCESSFUL", None, "SUCCESSFUL", "FAILED", "SUCCESSFUL"]
    assert told["orders"] == ([[1, 1]] if project.direct else [[1, 1], [3, 1]])
    assert {"shop.tasks.confirm", "shop.elsewhere.found_by_its_path"} <= set(told["jobs"])
    assert told["is_its_child"]
    assert told["trace"].startswith(f"00-{7:032x}-{7:016x}-")
    assert "does not retry" in told["why"]
    assert "No job is lost" in told["verify"]
    assert "up to date" in told["migrate"]


DIE_AFTER_THE_COMMIT = """
from django.db import transaction
from seawall.django import waiting
waiting.moved = lambda *_: os._exit(9)
with transaction.atomic():
    tasks.Order.objects.create(number=3)
    tasks.confirm.enqueue(3)
"""


def test_an_older_django_is_told_what_is_needed():
    import django

    if django.VERSION >= (6,):
        pytest.skip("this Django is new enough")
    done = subprocess.run(
        [sys.executable, "-c", "import seawall.django"], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip().splitlines()[-1] == (
        "ImportError: seawall.django needs Django 6 or later, which has django.tasks:"
        ' pip install "django>=6"'
    )
