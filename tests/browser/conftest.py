"""A real browser before a real server with real workers, on both stores.

Chromium comes from the system: where there is none, these tests say so and are skipped; CI installs
it, and fails without it.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from seawall import Seawall, access
from seawall.model import Lane, NewJob
from tests.support.processes import answers, cannot, free_ports, scratch, server

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)
HARBOUR = Path(__file__).with_name("harbour.py")
FILL = """
import sys
from harbour import app, reports
name, many = sys.argv[1], int(sys.argv[2])
run = reports.run([f"item-{n}" for n in range(many)], key=str, name=name, failure_budget=0.5)
print(run.id)
app.close()
"""
"""Starts a run from outside, as a program of its own does."""


def chromium():
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    return found or cannot("there is no Chromium here: apt-get install chromium")


@pytest.fixture(scope="module")
def browser():
    """A browser for one module: its event loop runs in this thread for as long, and lets no other in."""
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        yield made
        made.close()


class Harbour:
    """A server and a worker for one store, and the folder that steers their application."""

    def __init__(self, url, folder, port):
        self.folder, self.port, self.address = folder, port, f"http://127.0.0.1:{port}"
        self._serving = ExitStack()
        steered = {"HARBOUR": str(folder), "SEAWALL_URL": url, "SEAWALL_LEASE_SECONDS": "5"}
        self.environ = {**os.environ, **steered}
        self.store = Seawall(url)
        self.words = {
            scope: access.made(self.store.store, scope=scope, owner=owner)[0]
            for scope, owner in (("operator", "olga"), ("owner", "ann"), ("read-only", None))
        }

    def command(self, *words):
        return [sys.executable, "-m", "seawall", *words, "--app", "harbour:app"]

    def serve(self):
        """Start the server, and wait until it answers."""
        command = self.command("serve", "--port", str(self.port), "--log-format", "json")
        up = self._serving.enter_context(
            server(
                command,
                lambda: answers(self.port, "/ready"),
                folder=self.folder,
                environ=self.environ,
            )
        )
        assert up is not None, (self.folder / "log").read_text()

    def stop_serving(self):
        """Kill the server, in the midst of whatever it does."""
        self._serving.close()

    def fill_run(self, name="looks", items=6):
        """A run that has ended, with a dead letter among its items; its number."""
        (made,) = subprocess.run(
            [sys.executable, "-c", FILL, name, str(items)],
            cwd=self.folder, env=self.environ, check=True, capture_output=True, text=True,
        ).stdout.split()  # fmt: skip
        return int(made)

    def ask(self, task, owner=None, key=None, **arguments):
        """Ask for a job, from outside; its number."""
        lane = Lane(task=task, upstream="tide" if task == "sail" else "")
        new = NewJob(lane=lane, arguments=json.dumps(arguments), owner=owner, key=key)
        return self.store.store.enqueue([new])[0].job_id

    def put(self, name):
        (self.folder / name).write_text("x")

    def remove(self, name):
        (self.folder / name).unlink(missing_ok=True)

    def state(self, job):
        return str(self.store.store.jobs([job])[job].state)

    def until(self, job, *states):
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while self.state(job) not in states:
            assert time.monotonic() < deadline, f"job {job} is {self.state(job)}, not {states}"
            time.sleep(0.05)


@contextmanager
def opened(url):
    """A harbour at work."""
    with ExitStack() as held:
        folder = held.enter_context(scratch("harbour"))
        shutil.copy(HARBOUR, folder / "harbour.py")
        (port,) = free_ports(1)
        made = Harbour(url.replace("FOLDER", str(folder)), folder, port)
        held.callback(made.store.close)
        held.callback(made.stop_serving)
        made.serve()
        with (folder / "worker.log").open("wb") as log:
            worker = subprocess.Popen(
                made.command("worker", "--log-format", "json"),
                cwd=folder, env=made.environ, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        held.callback(worker.wait)
        held.callback(worker.kill)
        yield made


BOTH = ["sqlite", "postgres"]
ONE = BOTH if "CI" in os.environ else BOTH[:1]
"""For what does not depend on the store: one will do, and in CI it is both."""


@contextmanager
def harbour_at(request):
    url = "sqlite:///FOLDER/harbour.db"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_fleet").server("18").new_url()
    with opened(url) as made:
        yield made


@pytest.fixture(scope="module", params=BOTH)
def harbour(request):
    with harbour_at(request) as made:
        yield made


@pytest.fixture
def enter(browser, harbour):
    """A page of somebody who has signed in."""
    contexts = []

    def come(scope="operator", path="/", **how):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **how})
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        wrong = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "console",
            lambda said: (
                wrong.append(said.text)
                if said.type == "error" and "Failed to load resource" not in said.text
                else None
            ),
        )
        page.wrong = wrong
        page.goto(f"{harbour.address}{path}")
        page.get_by_label("Access token").fill(harbour.words[scope])
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{harbour.address}{path}")
        return page

    yield come
    for context in contexts:
        for page in context.pages:
            assert getattr(page, "wrong", []) == [], "the browser's console is clean"
        context.close()
