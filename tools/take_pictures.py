"""Takes the pictures of the dashboard that README and docs show: `make pictures`.

It fills a store with an afternoon of work by the store's own verbs and an earlier clock, starts a
real server and a real worker, takes the model away for a while, and looks with Chromium. Needs
Chromium on the PATH.
"""

import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from seawall import Seawall
from seawall.clock import ManualClock
from seawall.faults import Fault, FaultCode
from seawall.model import Lane, NewJob, Outcome, Settlement, Token
from seawall.store import Wanted, open_store
from tests.support.processes import answers, free_ports

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
HOURS = 6
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def fill(url: str) -> None:
    """An afternoon's work: what came in, how it ended, and an hour in which much went wrong."""
    now = datetime.now(UTC)
    clock = ManualClock(now - timedelta(hours=HOURS))
    rng = random.Random(7)
    lane = Lane(task="summarize", upstream="openai:gpt-5")
    store = open_store(url, clock=clock)
    minutes = HOURS * 60 - 2
    for minute in range(minutes):
        wave = 14 + 9 * (1 + math.sin(minute / 40))
        many = max(1, round(rng.gauss(wave, 3)))
        rough = 0.35 if 150 < minute < 185 else 0.015
        store.enqueue(
            [NewJob(lane=lane, arguments=f'{{"path":"reports/{minute}.pdf"}}') for _ in range(many)]
        )
        pause = rng.uniform(5, 30)
        clock.advance(pause)
        claims = store.claim(Wanted("earlier", None, ["summarize"], 200, 60))
        store.settle([_ended(claim.token, rng, rough) for claim in claims])
        clock.advance(60 - pause)
    store.close()


def _ended(token: Token, rng: random.Random, rough: float) -> Settlement:
    took = rng.lognormvariate(-1.2, 0.6)
    if rng.random() < rough:
        fault = Fault(FaultCode.TIMEOUT, "no answer within 60 s")
        return Settlement(
            token=token,
            outcome=Outcome.RETRIED,
            fault=fault,
            delay_seconds=45.0,
            duration_seconds=took,
            policy="ai-worker",
        )
    return Settlement(
        token=token,
        outcome=Outcome.SUCCEEDED,
        duration_seconds=took,
    )


@contextmanager
def at_work(folder: Path, url: str) -> Iterator[str]:
    """A server and a worker for the store; the server's address."""
    shutil.copy(ROOT / "tools" / "pictured_app.py", folder / "harbour.py")
    (port,) = free_ports(1)
    environ = {**os.environ, "SEAWALL_URL": url}
    seawall = [sys.executable, "-m", "seawall"]
    app = ["--app", "harbour:app", "--log-level", "error"]
    with ExitStack() as held:
        for words in (["serve", "--dev-no-auth", "--port", str(port)], ["worker"]):
            process = subprocess.Popen([*seawall, *words, *app], cwd=folder, env=environ)
            held.callback(process.wait)
            held.callback(process.terminate)
        while not answers(port, "/ready"):
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"


def ask(folder: Path, url: str) -> None:
    """What people asked for just now."""
    sys.path.insert(0, str(folder))
    os.environ["SEAWALL_URL"] = url
    import harbour  # type: ignore[import-not-found]  # noqa: PLC0415 - copied there

    app: Seawall = harbour.app
    app.enqueue_many(
        harbour.summarize.using(owner="ann", tags=("november",)).job(f"reports/{n}.pdf")
        for n in range(120)
    )
    app.enqueue_many(harbour.archive.job(f"2026/{n}") for n in range(80))
    app.enqueue_many(
        harbour.send_mail.job(f"{'bounce' if n % 9 == 0 else 'user'}{n}@example.org", "Your report")
        for n in range(40)
    )
    items = [f"item-{n:04}" for n in range(400)]
    harbour.reports.run(items, key=str, name="2026-11-18", failure_budget=None)
    app.close()


def ask_more() -> None:
    """What comes in while the model is away."""
    import harbour  # noqa: PLC0415 - as above

    app: Seawall = harbour.app
    app.enqueue_many(harbour.summarize.using(owner="bob").job(f"late/{n}.pdf") for n in range(240))
    app.close()


def shoot(page: Page, name: str, path: str, address: str, *, full: bool = False) -> None:
    page.goto(address + path)
    page.wait_for_timeout(2_500)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=full)
    print(f"docs/pictures/{name}.png")


def look(browser: Browser, address: str, folder: Path) -> None:
    """Each page once, the overview in light, dark and on a phone, in the midst of an outage."""
    desk = {"width": 1280, "height": 860}
    page = browser.new_context(viewport=desk, color_scheme="light").new_page()  # type: ignore[arg-type]
    dark = browser.new_context(viewport=desk, color_scheme="dark").new_page()  # type: ignore[arg-type]
    phone = browser.new_context(viewport={"width": 390, "height": 844}).new_page()
    time.sleep(8)
    store = Seawall(f"sqlite:///{folder}/harbour.db")
    failed = next(iter(store.jobs(state="failed", task="summarize", limit=1)))
    group = next(iter(store.dead_letter_groups(limit=1)))
    (folder / "outage").touch()
    ask_more()
    time.sleep(6)
    shoot(page, "overview", "/", address)
    shoot(dark, "overview-dark", "/", address)
    shoot(phone, "overview-phone", "/", address)
    shoot(page, "upstream", "/upstreams/openai:gpt-5", address)
    (folder / "outage").unlink()
    time.sleep(12)
    shoot(page, "jobs", "/jobs", address)
    shoot(page, "job", f"/jobs/{failed.id}", address)
    shoot(page, "dead", "/dead", address)
    shoot(dark, "group", f"/dead/groups/{group.fingerprint}", address)
    shoot(page, "run", "/runs/1", address)
    shoot(page, "policy", "/policies/ai-worker", address)
    shoot(page, "fleet", "/fleet", address)
    store.close()


def main() -> None:
    """Take them all."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        url = f"sqlite:///{folder}/harbour.db"
        fill(url)
        with at_work(folder, url) as address:
            ask(folder, url)
            chromium = shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            look(browser, address, folder)
            browser.close()


if __name__ == "__main__":
    main()
