"""`seawall demo`: real workers, a real store, an unreliable service, and one kill -9.

The demo does what a user would do, in a folder of its own, and prints each command before it runs
it: asks for 300 summaries, starts a worker, lets the service be gone for a while, kills the worker
in the middle without warning, starts another, and then proves that every job is accounted for.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from seawall.app import Seawall
from seawall.cli import show
from seawall.cli.demo.service import PLANTED_KEY, Service, unreliable_service
from seawall.cli.upstreams import in_state
from seawall.errors import SeawallError
from seawall.model import Attempt, Job, Outcome
from seawall.states import FINISHED, State

AWAY_AT = 0.2
"""The share of the jobs that is done when the service goes away."""
AWAY_SECONDS = 4.0
KILL_AT = 0.5
"""The share of the jobs that is done when the worker is killed, if it has enough to do then."""
MANY, LATE = 5, 0.8
LONGEST_SECONDS = 180.0
_BAR = 40
_LOOK_SECONDS = 0.1
_FILES = Path(__file__).parent / "files"
_WORKER = ("worker", "--app", "jobs:app", "--drain", "--log-level", "error")

Folder = Annotated[
    Path | None,
    typer.Option("--folder", help="Keep the demo's files there, to look around afterwards."),
]


def demo(folder: Folder = None) -> None:
    """See it work: 300 jobs against a service that fails, and a worker that is killed half-way."""
    console = show.console()
    with _place(folder) as place, unreliable_service() as service:
        story = _Story(console, place, service)
        story.tell()
    if folder is not None:
        console.print(f"\nLook around: [cyan]cd {shlex.quote(str(folder))}[/cyan]", soft_wrap=True)
        return
    console.print(
        "\nNow look around yourself: [cyan]seawall demo --folder demo[/cyan] keeps its files there;"
        " then, in that folder, [cyan]seawall jobs[/cyan], [cyan]seawall job 113[/cyan],"
        " [cyan]seawall redrive 113[/cyan]."
    )


@contextmanager
def _place(folder: Path | None) -> Iterator[Path]:
    """A folder with the demo's application, its configuration and, later, its store."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="seawall-demo-") as made:
            yield _furnished(Path(made))
        return
    if folder.exists() and any(folder.iterdir()):
        raise SeawallError(f"{folder}: is not empty; name a folder that the demo may fill")
    folder.mkdir(parents=True, exist_ok=True)
    yield _furnished(folder.resolve())


def _furnished(folder: Path) -> Path:
    for file in _FILES.iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    return folder


class _Story:
    """What is told, in its order."""

    def __init__(self, console: Console, place: Path, service: Service) -> None:
        self._console = console
        self._place = place
        self._service = service
        self._app = Seawall(
            f"sqlite:///{place / 'demo.db'}", config=place / "seawall.toml", policy="default"
        )
        self._told_of_outage = False
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("SEAWALL_")},
            "SERVICE": service.url,
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def tell(self) -> None:
        self._title("1. A task, and an upstream that fails")
        self._show_task()
        self._title("2. Ask for 300 summaries")
        self._run("python", "ask.py")
        self._title(
            "3. Work; at 20 % the service is gone for a while, at 50 % the worker is killed"
        )
        self._work()
        self._title("4. What became of them")
        self._summary()
        self._title("5. Ask about the two that failed, and check the books")
        for job in self._app.jobs(state=State.FAILED, limit=2):
            self._run("seawall", "why", str(job.id), "--app", "jobs:app")
        self._run("seawall", "verify")

    # --- showing ------------------------------------------------------------------------------

    def _title(self, words: str) -> None:
        self._console.print(f"\n[bold]{words}[/bold]")

    def _show_task(self) -> None:
        source = (self._place / "jobs.py").read_text("utf-8")
        task = source[source.index("@app.task") :].rstrip()
        shown = "\n".join(f"  {line.partition('  # noqa')[0]}" for line in task.splitlines())
        self._console.print(Text(shown, style="dim"))
        self._console.print(
            "\nThe service drops connections, breaks, throttles, answers prose; one document is"
            " missing, for another the key is refused. The policy and what is said of the upstream"
            " stand in the demo's seawall.toml."
        )

    def _say(self, *command: str) -> None:
        self._console.print(f"[cyan]$ {' '.join(command)}[/cyan]", soft_wrap=True)

    def _run(self, *command: str) -> None:
        """Say a command, run it, and show what it says."""
        self._say(*command)
        done = subprocess.run(  # noqa: S603 - our own
            _program(*command),
            cwd=self._place,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
            check=False,
        )
        if done.returncode:
            raise SeawallError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
        for line in done.stdout.splitlines():
            self._console.print(Text(f"  {line}"), soft_wrap=True)

    # --- working ------------------------------------------------------------------------------

    def _work(self) -> None:
        worker = self._started()
        total = sum(self._app.store.counts().values())
        killed = away = False
        deadline = time.monotonic() + LONGEST_SECONDS
        try:
            with _view(self._console) as view:
                while worker.poll() is None:
                    counts = self._app.store.counts()
                    done = sum(counts[state] for state in FINISHED)
                    view.show(self._line(counts, done, total), share=done / total)
                    if not away and done >= AWAY_AT * total:
                        away = True
                        self._goes_away()
                    self._tell_of_outage(away)
                    busy = MANY if done < LATE * total else 1
                    if not killed and done >= KILL_AT * total and counts[State.RUNNING] >= busy:
                        killed = True
                        worker = self._killed(worker, counts[State.RUNNING])
                    if time.monotonic() > deadline:
                        raise SeawallError("the demo took too long; is the machine very busy?")
                    time.sleep(_LOOK_SECONDS)
                counts = self._app.store.counts()
                done = sum(counts[state] for state in FINISHED)
                view.show(self._line(counts, done, total), share=done / total)
        finally:
            if worker.poll() is None:
                worker.kill()
                worker.wait()

    def _goes_away(self) -> None:
        self._service.go_away(AWAY_SECONDS)
        self._console.print(
            f"  The service is gone, for {AWAY_SECONDS:.0f} s. After a few calls its jobs are held:"
        )

    def _tell_of_outage(self, away: bool) -> None:
        if not away or self._told_of_outage or self._service.is_away:
            return
        self._told_of_outage = True
        calls = self._service.calls_while_away
        self._console.print(
            f"  It is back. It was called {calls} times meanwhile, by those under way and by"
            " probes; nobody else used up a try."
        )

    def _started(self) -> "subprocess.Popen[bytes]":
        self._say("seawall", *_WORKER)
        return subprocess.Popen(  # noqa: S603 - our own
            _program("seawall", *_WORKER),
            cwd=self._place,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _killed(self, worker: "subprocess.Popen[bytes]", running: int) -> "subprocess.Popen[bytes]":
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        self._say("kill", "-9", str(worker.pid))
        self._console.print(
            f"  It had {running} jobs in its hands. Their leases lapse in 2 s, and then whoever"
            " looks takes them:"
        )
        return self._started()

    def _line(self, counts: dict[State, int], done: int, total: int) -> str:
        running, waiting = counts[State.RUNNING], counts[State.QUEUED]
        upstream = self._app.upstreams.get("summaries")
        state = in_state(upstream) + (f", {upstream.reason}" if upstream.reason else "")
        return (
            f"{done}/{total} done · {running} running · {waiting} waiting"
            f" · {counts[State.FAILED]} failed · service: {self._service.calls} calls,"
            f" {self._service.refused} refused · {state}"
        )

    # --- the end ------------------------------------------------------------------------------

    def _summary(self) -> None:
        jobs = self._jobs()
        attempts = [attempt for job in jobs for attempt in self._app.store.attempts(job.id)]
        states = Counter(job.state for job in jobs)
        rows = [(str(state), f"{count:,}") for state, count in sorted(states.items())]
        rows.append(("in all", f"{len(jobs):,}"))
        self._console.print(show.table(("JOBS", ""), rows, right=(1,)))
        self._console.print()
        rows = [(words, f"{count:,}") for words, count in _by_outcome(attempts).most_common()]
        rows.append(("in all", f"{len(attempts):,}"))
        self._console.print(show.table(("ATTEMPTS", ""), rows, right=(1,)))
        waited = sum(attempt.delay_seconds or 0.0 for attempt in attempts)
        messages = " ".join(str(attempt.fault) for attempt in attempts)
        kept = "no" if PLANTED_KEY not in messages else "a"
        self._console.print(
            f"\nBack-off in all: {waited:.0f} s, during which no worker slept. The refused key"
            f" stands in {kept} message."
        )

    def _jobs(self) -> list[Job]:
        jobs: list[Job] = []
        after: str | None = None
        while True:
            page = self._app.jobs(after=after, limit=500)
            jobs += page.jobs
            if page.next is None:
                return jobs
            after = page.next


def _by_outcome(attempts: list[Attempt]) -> Counter[str]:
    words: Counter[str] = Counter()
    for attempt in attempts:
        code = "" if attempt.fault is None else f" after {attempt.fault.code}"
        if attempt.outcome is Outcome.LOST:
            code = " with the killed worker, run again"
        words[f"{attempt.outcome}{code}"] += 1
    return words


def _program(name: str, *rest: str) -> list[str]:
    program = {"python": [sys.executable], "seawall": [sys.executable, "-m", "seawall"]}[name]
    return [*program, *rest]


class _View:
    """A line that is drawn over and over on a terminal, and now and then where there is none."""

    def __init__(self, console: Console, live: Live | None) -> None:
        self._console = console
        self._live = live
        self._told = 0.0
        self._last = ""

    def show(self, line: str, *, share: float) -> None:
        full = round(share * _BAR)
        if self._live is not None:
            bar = Text("█" * full, style="green") + Text("░" * (_BAR - full), style="dim")
            self._live.update(Text("  ") + bar + Text(f"  {line}"))
        elif line != self._last and (time.monotonic() - self._told >= 1.0 or share >= 1.0):
            self._told, self._last = time.monotonic(), line
            self._console.print(f"  {line}", soft_wrap=True)


@contextmanager
def _view(console: Console) -> Iterator[_View]:
    if not console.is_terminal:
        yield _View(console, None)
        return
    with Live(console=console, refresh_per_second=10) as live:
        yield _View(console, live)
