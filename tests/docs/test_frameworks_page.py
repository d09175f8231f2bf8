"""The page about SQLAlchemy and FastAPI: its files and commands do what it says, on both stores."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from seawall.store import Filter, open_store
from tests.support import pages

ASK_THE_WEB = """
import sys
from importlib import import_module
from fastapi.testclient import TestClient
with TestClient(import_module(sys.argv[1]).api) as client:
    assert client.post(f"/orders/{sys.argv[2]}").status_code == 202
    assert client.post("/orders/13").status_code == 409
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db"
    return request.getfixturevalue("postgres_fleet").server("18").new_url()


def run(command, folder, url):
    ours = {name: value for name, value in os.environ.items() if not name.startswith("SEAWALL")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{ours['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, env={**ours, "PATH": path, "SEAWALL_URL": url},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


def keys(url):
    with open_store(url) as store:
        return {job.key: job.state for job in store.page(Filter(task="invoice")).jobs}


def test_a_commit_makes_a_job_and_a_rollback_none(url, tmp_path):
    for step in pages.steps("frameworks.md"):
        if step.file:
            pages.write(step, tmp_path)
    for step in pages.steps("frameworks.md"):
        if step.command:
            run(step.command, tmp_path, url)
    assert keys(url) == {"order-1": "succeeded"}

    (tmp_path / "ask.py").write_text(ASK_THE_WEB, "utf-8")
    run("python ask.py web 2", tmp_path, url)
    assert keys(url) == {"order-1": "succeeded", "order-2": "queued"}
    if url.startswith("postgresql"):
        run("python ask.py web_async 3", tmp_path, url)
        assert keys(url).keys() == {"order-1", "order-2", "order-3"}
