"""A thread that tells hooks of jobs that have failed, once that is written.

Hooks are the application's, and may wait for whatever they like; the clerk, who writes, must not.
So it hands over what is to be told, and goes on. It waits only where hooks are far behind, and not
for long: then they are no longer told of every job, and that is logged. What was handed over when a
worker ends is told before it does, if that takes no more than `CLOSING_SECONDS`.
"""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from queue import Full, Queue

from seawall.hooks import FaultReport, Hooks
from seawall.telemetry import HookFailed, emit

MOST_WAITING = 1_000
PATIENCE_SECONDS = 1.0
CLOSING_SECONDS = 10.0
_NAME = "on_failed"


class Teller:
    """Tells one application's hooks, one report after the other."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._given: Queue[FaultReport | None] = Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._behind = False

    def tell(self, reports: Sequence[FaultReport]) -> None:
        """That these jobs have failed is written."""
        if reports and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="seawall-teller", daemon=True)
            self._thread.start()
        for report in reports:
            try:
                self._given.put(report, block=not self._behind, timeout=PATIENCE_SECONDS)
                self._behind = False
            except Full:
                self._behind = True
                _not_told(report, f"{MOST_WAITING:,} others wait to be told: a hook is too slow")

    def _run(self) -> None:
        while (report := self._given.get()) is not None:
            self._hooks.tell_failed(report)
            del report  # its exception holds all that its handler had

    def close(self) -> None:
        """Have all of it told, if that is possible."""
        if self._thread is None:
            return
        thread, self._thread = self._thread, None
        until = time.monotonic() + CLOSING_SECONDS
        with suppress(Full):
            self._given.put(None, timeout=CLOSING_SECONDS)
            thread.join(max(0.0, until - time.monotonic()))
        while not self._given.empty():
            report = self._given.get()
            if report is not None:
                _not_told(report, "the worker ends, and a hook does not return")


def _not_told(report: FaultReport, why: str) -> None:
    emit(HookFailed(hook=_NAME, job=report.job_id, message=f"it was not told: {why}"))
