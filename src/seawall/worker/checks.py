"""Health probes: a function of the application's that is called instead of a job.

Each runs in a thread of its own, for it may take its time. What it came to is news for the fleet,
as of any probe; where it hangs, jobs find out instead.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable
from itertools import count

from seawall.app import Seawall
from seawall.decisions.breaker import Failed, Succeeded
from seawall.worker.watch import Watch
from seawall.worker.watches import Watches


class Checks:
    """The health probes of one worker."""

    def __init__(
        self, app: Seawall, watches: Watches, worker: str, poke: Callable[[], None]
    ) -> None:
        self._app = app
        self._watches = watches
        self._worker = worker
        self._poke = poke
        self._numbers = count(1)

    def next_name(self, watch: Watch) -> str | None:
        """The name of the next one; none while one is under way."""
        if watch.checked_by:
            return None
        return f"{self._worker}/check/{next(self._numbers)}"

    def begin(self, watch: Watch, probe: str) -> None:
        """Run it."""
        watch.checked_by, watch.checked_at = probe, self._watches.now()
        name = f"seawall-probe-{watch.upstream.name}"
        threading.Thread(target=self._run, args=(watch, probe), name=name, daemon=True).start()

    def _run(self, watch: Watch, probe: str) -> None:
        began = self._app.clock.monotonic()
        event: Failed | Succeeded
        try:
            found = watch.upstream.probe() if watch.upstream.probe else None
            if inspect.iscoroutine(found):
                asyncio.run(found)
        except Exception:  # noqa: BLE001 - whatever it raises says no
            event = Failed(self._app.clock.monotonic() - began, probe)
        else:
            event = Succeeded(self._app.clock.monotonic() - began, probe)
        with self._watches.lock:
            watch.news.append((event, ""))
            if watch.checked_by == probe:
                watch.checked_by = ""
        self._poke()
