"""Takes pictures of the dashboard: `make pictures`.

It fills a store with an afternoon of work by the store's own verbs and an earlier clock, starts a
real server and real workers, asks for more, takes the model away, and looks with Chromium: at every
page in light, dark and phone width, into `build/pictures`, for whoever mends a page to look at; and
at the few that README and docs show, into `docs/pictures`. Needs Chromium on the PATH.
"""

import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright

from seawall import access
from seawall.clock import ManualClock
from seawall.faults import Fault, FaultCode
from seawall.model import Lane, NewJob, Outcome, Settlement, Token
from seawall.store import Observation, Store, UpstreamPhase, Wanted, open_store
from seawall.store.pace_values import Turn, span_bucket
from tests.support.processes import answers, free_ports

ROOT = Path(__file__).resolve().parent.parent
SHOWN = ROOT / "docs" / "pictures"
EVERY = ROOT / "build" / "pictures"
HOURS = 6
OUTAGE = range(150, 178)
"""In which minutes of the afternoon the model did not answer."""
MODEL = "openai:gpt-5"
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
DESK = {"width": 1200, "height": 800}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": DESK, "color_scheme": "light"},
    "dark": {"viewport": DESK, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
}
KEPT = {
    ("overview", "light"): "overview",
    ("overview", "dark"): "overview-dark",
    ("overview", "phone"): "overview-phone",
    ("job", "light"): "job",
    ("group", "light"): "group",
    ("run", "light"): "run",
    ("upstream", "dark"): "upstream",
}
"""Those that README and docs show, as one sees them without scrolling."""
SEAWALL = """
import runpy, socket, sys
socket.gethostname = lambda: "harbour"
sys.path.insert(0, "")
runpy.run_module("seawall", run_name="__main__", alter_sys=True)
"""
"""The command, on a machine that is called as pictures call it."""


# --- an afternoon's work --------------------------------------------------------------------------


def fill(url: str) -> None:
    """What came in, how it ended, how long the model took, and the half hour without it."""
    clock = ManualClock(datetime.now(UTC) - timedelta(hours=HOURS))
    rng = random.Random(7)
    store = open_store(url, clock=clock)
    lane = Lane(task="summarize", upstream=MODEL)
    for minute in range(HOURS * 60 - 1):
        wave = 60 + 30 * math.sin(minute / 40)
        many = max(1, round(rng.gauss(wave, 6)))
        store.enqueue(
            [NewJob(lane=lane, arguments=f'{{"path":"reports/{minute}.pdf"}}') for _ in range(many)]
        )
        clock.advance(30)
        _turned(store, minute)
        room = 1 if minute in OUTAGE else 150
        claims = store.claim(Wanted("earlier", None, ["summarize"], room, 60))
        settled = [_ended(claim.token, rng, minute) for claim in claims]
        store.settle(settled, [_observed(settled)])
        clock.advance(30)
    store.close()


def _turned(store: Store, minute: int) -> None:
    """Write down how the breaker turned."""
    if minute not in (OUTAGE.start + 1, OUTAGE.stop - 2, OUTAGE.stop):
        return
    with store.govern(MODEL, wait=True) as desk:
        if desk is None:
            return
        if minute == OUTAGE.stop:
            desk.drop()
        else:
            tried = minute > OUTAGE.start + 1
            phase = UpstreamPhase.HALF_OPEN if tried else UpstreamPhase.OPEN
            desk.keep("{}", gated=False, turn=Turn(phase))


def _ended(token: Token, rng: random.Random, minute: int) -> Settlement:
    slow = 0.9 * math.exp(-(((minute - OUTAGE.start) / 25) ** 2))  # it slowed down before it failed
    took = rng.lognormvariate(-1.3 + slow + 0.25 * math.sin(minute / 55), 0.45)
    if minute in OUTAGE or rng.random() < 0.02:
        fault = Fault(FaultCode.UNAVAILABLE, "503 Service Unavailable from api.model.example")
        return Settlement(
            token=token,
            outcome=Outcome.RETRIED,
            fault=fault,
            delay_seconds=45.0,
            duration_seconds=took,
            policy="ai-worker",
        )
    return Settlement(token=token, outcome=Outcome.SUCCEEDED, duration_seconds=took)


def _observed(settled: list[Settlement]) -> Observation:
    micros = [round(each.duration_seconds * 1_000_000) for each in settled]
    failed = sum(each.fault is not None for each in settled)
    return Observation(
        MODEL, "earlier", firsts=len(settled), failures=failed, micros=sum(micros),
        spans=tuple(Counter(map(span_bucket, micros)).items()),
    )  # fmt: skip


# --- what happens now -----------------------------------------------------------------------------


@contextmanager
def at_work(folder: Path, url: str) -> Iterator[str]:
    """A server and two workers for the store; the server's address."""
    shutil.copy(ROOT / "tools" / "pictured_app.py", folder / "harbour.py")
    (port,) = free_ports(1)
    environ = {**os.environ, "SEAWALL_URL": url}
    seawall = [sys.executable, "-c", SEAWALL]
    app = ["--app", "harbour:app", "--log-level", "error"]
    with ExitStack() as held:
        for words in (["serve", "--port", str(port)], ["worker"], ["worker", "--queues", "mail"]):
            process = subprocess.Popen([*seawall, *words, *app], cwd=folder, env=environ)
            held.callback(process.wait)
            held.callback(process.terminate)
        while not answers(port, "/ready"):
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"


class Harbour:
    """The application as people use it."""

    def __init__(self, folder: Path, url: str, address: str) -> None:
        sys.path.insert(0, str(folder))
        os.environ["SEAWALL_URL"] = url
        import harbour  # type: ignore[import-not-found]  # noqa: PLC0415 - copied there

        self.tasks, self.app, self.address = harbour, harbour.app, address
        self.outage: Path = harbour.OUTAGE
        made = (("operator", "olga"), ("owner", "ann"))
        self.words = {
            scope: access.made(self.app.store, scope=scope, owner=owner)[0] for scope, owner in made
        }

    def ask(self) -> int:
        """What people asked for just now; the number of the run among it."""
        tasks, app = self.tasks, self.app
        app.enqueue_many(
            tasks.summarize.using(owner="ann", tags=("november",)).job(f"reports/{n}.pdf")
            for n in range(60)
        )
        app.enqueue_many(tasks.archive.job(f"2026/{n}") for n in range(60))
        app.enqueue_many(
            tasks.send_mail.job(f"{'bounce' if n % 9 == 0 else 'user'}{n}@example.org", "Report")
            for n in range(40)
        )
        items = [f"item-{n:04}" for n in range(600)]
        how = {"name": "2026-11-18", "failure_budget": 0.1, "spending_cap": 5.0}
        run: int = tasks.reports.run(items, key=str, **how).id
        return run

    def ask_more(self) -> None:
        """What comes in while the model is away."""
        late = self.tasks.summarize.using(owner="ann")
        self.app.enqueue_many(late.job(f"late/{n}.pdf") for n in range(1_200))

    def enters(self, browser: Browser, scope: str, how: dict[str, Any]) -> Page:
        """A page of somebody who has signed in."""
        page = browser.new_context(**how).new_page()
        page.goto(self.address)
        page.get_by_label("Access token").fill(self.words[scope])
        page.get_by_role("button", name="Sign in").click()
        page.locator("#page").wait_for()
        return page


class Camera:
    """Looks at pages, as each of several people would."""

    def __init__(self, harbour: Harbour, browser: Browser) -> None:
        self.address = harbour.address
        self.desks = {look: harbour.enters(browser, "operator", how) for look, how in LOOKS.items()}
        self.owners = {look: harbour.enters(browser, "owner", how) for look, how in LOOKS.items()}
        self.guests = {look: browser.new_context(**how).new_page() for look, how in LOOKS.items()}

    def take(
        self, name: str, path: str, *, who: str = "desks", press: str = "", only: str = ""
    ) -> None:
        """A page in each look, or in one."""
        for look, page in getattr(self, who).items():
            if only not in ("", look):
                continue
            page.goto(self.address + path)
            for each in filter(None, press.split("|")):
                page.locator(each).first.click()
            page.wait_for_timeout(900)
            page.screenshot(path=EVERY / f"{name}-{look}.png", full_page=True)
            if kept := KEPT.get((name, look)):
                page.screenshot(path=SHOWN / f"{kept}.png")
                print(f"docs/pictures/{kept}.png")

    def until_held(self) -> None:
        """Wait until the outage is told of, with a while until the next try."""
        page = self.desks["light"]
        page.goto(self.address)
        banner = page.locator(".banner", has_text="is not answering")
        expect(banner.get_by_text("in ")).to_be_visible(timeout=120_000)


def look(harbour: Harbour, browser: Browser) -> None:
    """At every page: at runs while one is under way, at the rest in the midst of an outage."""
    camera = Camera(harbour, browser)
    run = harbour.ask()
    time.sleep(20)
    camera.take("runs", "/runs")
    camera.take("run", f"/runs/{run}")
    camera.take("report", f"/runs/{run}/report")
    camera.take("run-cancel", f"/runs/{run}/cancel")
    harbour.outage.touch()
    harbour.ask_more()
    camera.until_held()
    failed = next(iter(harbour.app.jobs(state="failed", task="summarize", limit=1)))
    group = next(iter(harbour.app.dead_letter_groups(limit=1)))
    item = next(iter(harbour.app.jobs(state="failed", task="reports", limit=1)))
    camera.take("overview", "/")
    camera.take("mine", "/", who="owners")
    camera.take("upstreams", "/upstreams")
    camera.take("upstream", f"/upstreams/{MODEL}")
    camera.take("upstream-hold", f"/upstreams/{MODEL}", press="summary:has-text('Hold')")
    camera.take("jobs", "/jobs")
    camera.take("jobs-found", "/jobs?state=failed&task=summarize")
    camera.take("act", "/jobs/act?state=queued&task=summarize&do=cancel")
    camera.take("job", f"/jobs/{failed.id}")
    camera.take("item", f"/jobs/{item.id}")
    camera.take("dead", "/dead")
    camera.take("group", f"/dead/groups/{group.fingerprint}")
    camera.take("letter", f"/dead/letters/{failed.id}")
    camera.take("redrive", f"/dead/groups/{group.fingerprint}", press="button[data-act]")
    camera.take("policies", "/policies")
    camera.take("policy", "/policies/ai-worker?status=503&attempt=2")
    camera.take("fleet", "/fleet")
    camera.take("fleet-pause", "/fleet", press="summary[aria-label='Pause default']")
    bounced = harbour.app.jobs(state="failed", task="send_mail", limit=len(LOOKS))
    for look, job in zip(LOOKS, bounced, strict=True):
        camera.take("said", f"/jobs/{job.id}", press="button[data-act]", only=look)
    camera.take("wrong", "/jobs/999999")
    camera.take("login", "/login", who="guests")
    harbour.outage.unlink()


def main() -> None:
    """Take them all."""
    SHOWN.mkdir(exist_ok=True)
    shutil.rmtree(EVERY, ignore_errors=True)
    EVERY.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        url = f"sqlite:///{folder}/harbour.db"
        fill(url)
        with at_work(folder, url) as address:
            harbour = Harbour(folder, url, address)
            chromium = shutil.which("chromium") or shutil.which("chromium-browser")
            browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            look(harbour, browser)
            browser.close()
            harbour.app.close()
    print(f"every page in every look: {EVERY.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
