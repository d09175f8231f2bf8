"""What is told, in its order: a wrong key, a long run, what failed and why, a fix, a bad source."""

import json
import shlex
import time
import urllib.request
from pathlib import Path
from typing import Any

from examples.sample_factory import samples
from examples.sample_factory.app import app, factory
from examples.sample_factory.crew import APP, Crew, say
from examples.sample_factory.machines import Machines
from seawall import Run, RunView

MINIMUM = 1_000
"""The failure budget is judged from so many samples on; a short run judges it sooner."""
CUT_SECONDS = 8
"""How long one machine is cut off: longer than its leases last."""
SMALL = 100
LONGEST_SECONDS = 1_800


class Story:
    """Tells it, with real workers at a real provider."""

    def __init__(
        self,
        folder: Path,
        file: Path,
        many: int,
        provider_url: str,
        crew: Crew,
        machines: Machines | None,
    ) -> None:
        self._folder = folder
        self._file = file
        self._many = many
        self._provider = provider_url
        self._crew = crew
        self._machines = machines
        self._minimum = min(MINIMUM, many // 4)

    def tell(self) -> None:
        self._introduce()
        run = self._wrong_key()
        self._long_run(run)
        self._what_came_of_it(run)
        self._fix(run)
        self._bad_source()
        self._statuses()
        self._books()
        app.close()

    def say_how_to_go_on(self, url: str) -> None:
        _say(
            "",
            f"Look around: export SEAWALL_URL={shlex.quote(url)}; then seawall runs, seawall dead,"
            f" seawall serve --app {APP}",
        )

    # --- the parts ----------------------------------------------------------------------------

    def _introduce(self) -> None:
        _title(f"{self._many:,} samples: keep → label (LLM) → embed → measure")
        for kind, count in samples.kinds(self._many).most_common():
            _say(f"{count:7,} {kind}")
        _say(
            "The provider fails 5 of 100 calls for labels and 1.5 of 100 for vectors: 429, 5xx,",
            "hung up, broken off. Policies: sample-filter, sample-llm, sample-stage for the rest.",
        )

    def _wrong_key(self) -> Run:
        _title("1. A wrong key: the run stops before it has cost anything")
        self._crew.start(key="sk-mistyped")
        run = factory.run(self._file, name="monday", minimum=self._minimum)
        view = run.wait(LONGEST_SECONDS, live=False)
        _say(f"{view.status} with {view.failed} of {view.entered:,} failed: {view.reason}")
        self._crew.stop()
        _say("The key is put right, and workers are started with it.")
        self._crew.start()
        _command("resume", "llm", "--app", APP)
        _command("run", str(run.id), "resume")
        _command("redrive", "--run", str(run.id), "--fault", "UNAUTHORIZED", "--yes", "--app", APP)
        return run

    def _long_run(self, run: Run) -> None:
        _title("2. Every sample goes its own way")
        begun, shown, cut = time.monotonic(), 0, _Cut(self._machines)

        def look(view: RunView) -> None:
            nonlocal shown
            if (tenths := 10 * view.ended // view.entered) > shown:
                shown = tenths
                _say(
                    f"{view.ended:7,} ended: {view.succeeded:,} succeeded,"
                    f" {view.skipped:,} skipped, {view.failed:,} failed;"
                    f" {view.retried:,} retries; cost {view.cost:.2f}"
                )
            cut.look(view)

        view = run.wait(LONGEST_SECONDS, live=False, look=look)
        cut.mend()
        _say(
            f"{view.status} after {time.monotonic() - begun:.0f} s:"
            f" {view.success_rate or 0:.1%} of what was kept succeeded (95 % would be completed)"
        )

    def _what_came_of_it(self, run: Run) -> None:
        _title("3. What went wrong, by stage; how often samples were tried")
        report = run.report()
        for stage in report.stages:
            tries = ", ".join(f"{count:,} × {tries - 1}" for tries, count in stage.tries.items())
            _say(f"{stage.name:8} {stage.reliability or 0:6.1%} of attempts well; retries: {tries}")
        for each in report.troubles[:6]:
            _say(f"{each.attempts:7,} × {each.stage}: {each.code}: {each.message[:70]}")
        _say(f"All of it, as a page: seawall run {run.id} report --html report.html", "")
        _command("dead", "--run", str(run.id), "--group")

    def _fix(self, run: Run) -> None:
        _title("4. The stage is mended; only that stage is done again")
        self._crew.stop()
        self._crew.start(in_pieces=True)
        before = self._ledger()["chat"]
        _say("Workers with the fix (long samples in pieces) are started.")
        words = ("--run", str(run.id), "--stage", "embed", "--canary", "5", "--yes", "--app", APP)
        _command("redrive", *words)
        view = run.wait(LONGEST_SECONDS, live=False)
        _say(f"{view.status}: {view.success_rate or 0:.1%}, {view.failed:,} dead letters left")
        calls = sum(self._ledger()["chat"]["answers"].values()) - sum(before["answers"].values())
        _say(f"Calls for labels meanwhile: {calls}. Nothing that was paid for was asked for again.")
        changed = [stage.name for stage in run.report().stages if stage.changed]
        _say(f"History tells that it is another configuration now: {', '.join(changed)}")

    def _bad_source(self) -> None:
        _title("5. A bad source: a quarter is damaged, the failure budget is 10 %")
        file = samples.written(
            self._folder / "bad.jsonl", self._many // 2, after=1_000_000, damaged_of_100=25
        )
        run = factory.run(file, name="tuesday", minimum=self._minimum)
        view = run.wait(LONGEST_SECONDS, live=False)
        _say(f"{view.status} with {view.unfinished:,} samples not begun: {view.reason}")

    def _statuses(self) -> None:
        _title("6. What a run is called: three without a failure budget")
        for number, damaged in enumerate((0, 30, 60), 2):
            name = f"{damaged} of 100 damaged"
            file = samples.written(
                self._folder / f"small-{damaged}.jsonl",
                SMALL,
                after=number * 1_000_000,
                damaged_of_100=damaged,
            )
            run = factory.run(file, name=name, failure_budget=None)
            view = run.wait(LONGEST_SECONDS, live=False)
            _say(f"{name:18} {view.success_rate or 0:6.1%} succeeded: {view.status}")

    def _books(self) -> None:
        _title("7. The books")
        self._crew.stop()
        view = app.runs(unfinished=False)[-1]
        _say(
            f"Of {view.entered:,} samples of monday: {view.succeeded:,} succeeded,"
            f" {view.skipped:,} skipped, {view.failed:,} wait as dead letters,"
            f" {view.unfinished} are unaccounted for."
        )
        ledger = self._ledger()
        paid = ledger["chat"]["answers"]["200"]
        _say(f"Labels paid for: {paid:,}; paid for twice: {ledger['chat']['paid_twice']}")
        _command("verify")

    def _ledger(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self._provider}/ledger", timeout=30) as answer:  # noqa: S310
            ledger: dict[str, Any] = json.load(answer)
        return ledger


class _Cut:
    """The third machine is cut off for a while, once; where there are no machines, nothing is."""

    def __init__(self, machines: Machines | None) -> None:
        self._machines = machines
        self._since: float | None = None

    def look(self, view: RunView) -> None:
        if self._machines is None:
            return
        if self._since is None and view.running and view.succeeded:
            self._since = time.monotonic()
            self._machines.cut(2)
            _say(f"        The third machine is cut off, for {CUT_SECONDS} s.")
        elif self._since is not None and time.monotonic() > self._since + CUT_SECONDS:
            self.mend()

    def mend(self) -> None:
        if self._machines is not None and self._since is not None:
            time.sleep(max(0.0, self._since + CUT_SECONDS - time.monotonic()))
            self._machines.mend(2)
            _say("        Its wire is mended: what it says now of lost samples is not heard.")
            self._machines = None


def _title(words: str) -> None:
    _say("", words)


def _say(*lines: str) -> None:
    for line in lines:
        print(f"  {line}" if line else "", flush=True)


def _command(*words: str) -> None:
    """Say a command, run it, and show what it says."""
    _say(f"$ seawall {shlex.join(words)}")
    for line in say(*words).splitlines():
        _say(f"  {line.rstrip()[:140]}")
