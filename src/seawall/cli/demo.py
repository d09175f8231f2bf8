"""`seawall demo`: the deciding part at work, against a real upstream that fails.

A loopback HTTP server misbehaves: it drops a connection, breaks, throttles with a Retry-After,
answers prose instead of JSON. Real calls fail for real, and every line shows what seawall made of
it. Nothing is installed, nothing is left behind.
"""

import logging
import shutil
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

from rich.console import Console
from rich.markup import escape

from seawall.cli import show
from seawall.decisions.backoff import Backoff
from seawall.decisions.breaker import (
    Breaker,
    BreakerState,
    Failed,
    Phase,
    ProbeAsked,
    Succeeded,
    admission,
    at,
    step,
)
from seawall.decisions.explain import in_words
from seawall.decisions.output import parse_output
from seawall.decisions.policy import Policy
from seawall.decisions.rule import Rule
from seawall.faults import FaultCode
from seawall.telemetry import LOGGER

PLANTED_KEY = "sk-demo-4eC39HqLyjWDarjtT1zdp7dc"
TIMEOUT_SECONDS = 5.0
OUTAGE_SECONDS = (10, 70)

HURRIED = Policy(
    name="demo",
    max_attempts=5,
    rules=(
        Rule(
            on=FaultCode.RATE_LIMITED,
            counts=False,
            max_attempts=3,
            backoff=Backoff(curve="fixed", base_seconds=0.2, cap_seconds=1.5),
        ),
        Rule(
            on=("transport", "5xx", FaultCode.INVALID_RESPONSE),
            backoff=Backoff(curve="exponential", base_seconds=0.2, cap_seconds=1, jitter="equal"),
        ),
    ),
)


class _Flaky(BaseHTTPRequestHandler):
    """An upstream that fails in a different way each time, then works."""

    requests: ClassVar[list[str]] = []
    misdeeds: ClassVar[dict[str, list[str]]] = {
        "/report": ["hang up", "503", "429", "prose", "ok"],
        "/private": ["401"],
    }

    def do_GET(self) -> None:
        seen = self.requests.count(self.path)
        self.requests.append(self.path)
        misdeed = self.misdeeds[self.path][seen]
        if misdeed == "hang up":
            self.close_connection = True
            return
        status = int(misdeed) if misdeed.isdigit() else 200
        body = {
            "prose": "Sure! Here is your report, as soon as I find it.",
            "ok": 'Here you are:\n```json\n{"pages": 12}\n```',
        }.get(misdeed, "")
        reason = f"Incorrect API key provided: {PLANTED_KEY}" if status == 401 else None
        self.send_response(status, reason)
        if misdeed == "429":
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing: the demo tells the story."""


@contextmanager
def _upstream() -> Iterator[str]:
    _Flaky.requests.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Flaky)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Narrator(logging.Handler):
    """Tells each event of a call as a line."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        event = record.__dict__["seawall"]
        code, message = event["fault_code"], escape(str(event["message"]))
        if event["event"] == "retry_scheduled":
            what = f"[yellow]retry in {in_words(event['delay_ms'] / 1_000)}[/yellow]"
            what += "" if event["counts"] else ", which does not count as an attempt"
        else:
            what = f"[red]fail: {event['reason']}[/red]"
        self._console.print(f"  attempt {event['attempt']}  [bold]{code}[/bold]  {what}")
        self._console.print(f"             [dim]{message}[/dim]")


@contextmanager
def _narrated(console: Console) -> Iterator[None]:
    narrator, level, spread = _Narrator(console), LOGGER.level, LOGGER.propagate
    LOGGER.addHandler(narrator)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    try:
        yield
    finally:
        LOGGER.removeHandler(narrator)
        LOGGER.setLevel(level)
        LOGGER.propagate = spread


def _fetch(url: str) -> object:
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310 - loopback
        return parse_output(response.read().decode())


def demo() -> None:
    """See seawall decide: a call through a flaky upstream, a fatal fault, an outage."""
    console = show.console()
    with _upstream() as url, _narrated(console):
        console.print("[bold]1. A report from an upstream that fails in four ways[/bold]")
        console.print(
            "   [cyan]policy.call(fetch, url)[/cyan] classifies, decides, waits, repeats.\n"
        )
        report = HURRIED.call(_fetch, f"{url}/report")
        console.print(f"  [green]done[/green]       {report}, out of prose and a code fence\n")

        console.print("[bold]2. A wrong key: no retry, and the key is in no message[/bold]\n")
        try:
            HURRIED.call(_fetch, f"{url}/private")
        except OSError as error:
            console.print(f"  [dim]{escape(error.__notes__[-1])}[/dim]\n")
    _outage(console)
    reports, wrong = (_Flaky.requests.count(path) for path in _Flaky.misdeeds)
    console.print(
        f"[bold]In the end[/bold] the upstream saw {reports + wrong} requests: {reports} for the "
        f"report, {wrong} for the wrong key.\n"
    )
    console.print("Now look yourself:")
    found = "" if shutil.which("seawall") else f"{Path(sys.argv[0]).parent}/"
    for command in (
        "seawall policy list",
        "seawall policy show llm-reports",
        "seawall policy explain default --fault RATE_LIMITED --attempt 2 --retry-after 30",
    ):
        console.print(f"  [cyan]{escape(found + command)}[/cyan]", soft_wrap=True)


def _outage(console: Console) -> None:
    """An outage in virtual time, seen by the breaker that holds its jobs."""
    console.print(
        "[bold]3. An outage of 60 s, 10 calls a second: what a breaker lets through[/bold]"
    )
    breaker, state = Breaker(ramp_seconds=10), BreakerState()
    let_through = failed = would_fail = 0
    for tick in range(1_000):
        now = tick / 10
        down = OUTAGE_SECONDS[0] <= now < OUTAGE_SECONDS[1]
        would_fail += down
        before = state = at(breaker, state, now)
        allowed = admission(breaker, state, now)
        if not allowed.probes and (not allowed.share or tick % round(1 / allowed.share)):
            continue
        probe = f"call {tick}"
        state = step(breaker, state, ProbeAsked(probe), now)
        state = step(breaker, state, (Failed if down else Succeeded)(probe=probe), now)
        let_through, failed = let_through + 1, failed + down
        if state.phase is not before.phase:
            holds = (
                f", holds for {in_words(state.until - now)}" if state.phase is Phase.OPEN else ""
            )
            console.print(f"  t = {now:4.1f} s  {before.phase} → [bold]{state.phase}[/bold]{holds}")
    console.print(
        f"  {let_through} calls let through, {failed} of them failed; "
        f"without it {would_fail} would.\n"
    )
