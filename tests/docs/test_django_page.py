"""The Django page: a project that is made of its blocks and commands alone works as it says."""

import json
import os
import subprocess

import psycopg
import pytest

from tests.support import pages
from tests.support.newer_python import surroundings

BEFORE_THE_WORKER = """
import json
from django.test import Client
client = Client(raise_request_exception=False, SERVER_NAME="localhost")
good = client.get("/orders/17").json()["result"]
unlucky = client.get("/orders/13").status_code
ready = client.get(f"/results/{good}").json()
from orders.tasks import summarize
from orders.models import Order
print(json.dumps({
    "good": good, "unlucky": unlucky, "ready": ready["status"], "report": summarize.enqueue(17).id,
    "orders": list(Order.objects.values_list("number", flat=True)),
}))
"""
AFTER_IT = """
import json
import re
from django.contrib.auth.models import User
from django.test import Client
from django.tasks import default_task_backend
from orders.models import Order
good, report = (default_task_backend.get_result(id) for id in {ids!r})
client = Client(SERVER_NAME="localhost")
client.force_login(User.objects.create_superuser("ann"))
jobs = client.get("/admin/seawall/job/").content.decode()
found = client.get("/admin/seawall/job/", {{"key": good.id}}).content.decode()
(number,) = set(re.findall(r"/admin/seawall/job/([0-9]+)/", found))
job = client.get(f"/admin/seawall/job/{{number}}/").content.decode()
print(json.dumps({{
    "good": [good.status, good.return_value, good.attempts],
    "report": [report.status, report.return_value, report.task.queue_name, report.task.priority],
    "status": client.get(f"/results/{{good.id}}").json()["status"],
    "orders": list(Order.objects.values_list("number", "confirmed")),
    "listed": "orders.tasks.confirm" in jobs and "orders.tasks.summarize" in jobs,
    "shown": good.id in job and "succeeded" in job,
    "letters": client.get("/admin/seawall/deadletter/").status_code,
}}))
"""


class Shell:
    def __init__(self, folder, **more):
        self.environ = {**surroundings("SEAWALL_", "DJANGO_", "PG"), **more}
        self.folder = folder

    def run(self, command):
        done = subprocess.run(
            ["/bin/sh", "-c", command], cwd=self.folder, env=self.environ,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def ask(self, script):
        (self.folder / "script").write_text(script, "utf-8")
        out = self.run("python manage.py shell -v0 -c 'exec(open(\"script\").read())'")
        return json.loads(out.splitlines()[-1])


DATABASES = ["sqlite", "postgres"] if "CI" in os.environ else ["postgres"]
"""Else the processes of a whole project run on SQLite in `tests/frameworks`."""


@pytest.mark.parametrize("database", DATABASES)
def test_a_project_made_of_the_page_works(database, tmp_path, request):
    more = {}
    if database == "postgres":
        url = request.getfixturevalue("postgres_fleet").server("18").new_url()
        at = psycopg.conninfo.conninfo_to_dict(url)
        more = {
            "PGDATABASE": at["dbname"], "PGUSER": at["user"], "PGHOST": at["host"],
            "PGPORT": str(at["port"]),
        }  # fmt: skip
    shell = Shell(tmp_path, **more)
    told = {}
    # Settings are written before the first command that needs them: one reads a page first.
    found = pages.steps("django.md")
    starting = [
        step for step in found if "startproject" in step.command or "startapp" in step.command
    ]
    files = [step for step in found if step.file]
    commands = [
        s for s in found if s.command and s not in starting and not s.command.startswith("pip")
    ]
    assert len(starting) == 2
    for step in starting:
        shell.run(step.command)
    for step in files:
        pages.write(step, tmp_path)
    for step in commands:
        if "worker" in step.command:
            told = shell.ask(BEFORE_THE_WORKER)
        shell.run(step.command)
    assert told["unlucky"] == 500
    assert told["ready"] == "READY"
    assert told["orders"] == [17]
    after = shell.ask(AFTER_IT.format(ids=(told["good"], told["report"])))
    assert after == {
        "good": ["SUCCESSFUL", {"confirmed": 17}, 1],
        "report": ["SUCCESSFUL", "order 17", "reports", 10],
        "status": "SUCCESSFUL",
        "orders": [[17, True]],
        "listed": True,
        "shown": True,
        "letters": 200,
    }
    beside = tmp_path / "db.seawall.sqlite3"
    assert beside.exists() == (database == "sqlite")
