"""Runs: many items through one pipeline, and how they stand.

    run = reports.run("items.jsonl", name="2026-11-17", key=lambda item: item["id"])
    print(run.wait().status)

Items are jobs like any other; a run adds a name, counts that move with every settlement, and terms:
when it has failed, and what it may cost. `standings` says how it stands, `feeding` puts its items
into the store; this is what people hold of it.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from seawall.clock import ManualClock
from seawall.errors import (
    ArgumentsError,
    NoSuchJobError,
    NotFinishedError,
    StoreUnavailableError,
)
from seawall.redact import one_line
from seawall.report import MOST_FAILED, Report, report_of
from seawall.standings import RunView, terms_of, view_of, watched
from seawall.store import KeptRun, RunStop, Store

LOOK_SECONDS = 0.5


class Keeper(Protocol):
    """Who has the store: an application, or somebody who only looks at one's runs."""

    @property
    def store(self) -> Store: ...


class Run:
    """One run: how it stands, and what people may do about it."""

    def __init__(self, app: Keeper, run_id: int) -> None:
        self._app = app
        self.id = run_id

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    def view(self) -> RunView:
        """How it stands now."""
        return view_of(self._app.store, self._kept())

    def report(self, *, most_failed: int = MOST_FAILED) -> Report:
        """What its history comes to: retries, troubles, times, cost, and the first that failed."""
        kept = self._kept()
        audit = self._app.store.audit(self.id, failed=most_failed)
        return report_of(view_of(self._app.store, kept), audit)

    @property
    def status(self) -> str:
        """running, paused, completed, partial_success, failed, aborted or cancelled."""
        return self.view().status

    def wait(
        self,
        timeout_seconds: float | None = None,
        *,
        live: bool = True,
        look: Callable[[RunView], None] | None = None,
    ) -> RunView:
        """Wait until it is over, and say how; `NotFinishedError` when that takes too long.

        On a terminal it shows how the items stand, unless `live` is false; `look` is called with
        every look at it. Workers do the work: this only watches.
        """
        give_up_at = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with _shown(self._app.store, self.id, live=live) as show:
            while True:
                view = self._looked()
                if view is not None:
                    show(view)
                    if look is not None:
                        look(view)
                    if view.over:
                        return view
                    if isinstance(getattr(self._app, "clock", None), ManualClock):
                        raise NotFinishedError(f"{view.status}: call world.drain() first")
                if give_up_at is not None and time.monotonic() >= give_up_at:
                    raise NotFinishedError(
                        f"run {self.id} is {'unknown' if view is None else view.status} still:"
                        f" `seawall run {self.id}` says how its items stand"
                    )
                time.sleep(LOOK_SECONDS)

    def _looked(self) -> RunView | None:
        """How it stands; None where the store does not answer just now."""
        try:
            kept = self._kept()
            watched(self._app.store, kept)
            return view_of(self._app.store, self._kept())
        except StoreUnavailableError:
            return None

    def pause(self, reason: str = "paused by hand") -> bool:
        """Let no more of its items begin; false where it was stopped already, or is over."""
        watched(self._app.store, self._kept())
        return self._app.store.stop_run(self.id, RunStop.PAUSED, reason=_reason(reason))

    def resume(self, *, spending_cap: float | None = None) -> bool:
        """Let a paused or aborted run go on; what failed before is not held against it.

        `spending_cap` is what it may cost from now on, in all; it may be given to one that is not
        stopped, too. False where nothing came of it; `ArgumentsError` where it has cost as much as
        it may: it would stop again with the next item.
        """
        store, kept = self._app.store, self._kept()
        terms, cost = terms_of(kept.terms), self.view().cost
        if spending_cap is not None:
            terms = replace(terms, spending_cap=spending_cap)
        if terms.capped(cost) and (kept.resumable or spending_cap is not None):
            raise ArgumentsError(
                f"run {self.id} has cost {cost:,.6g}, and may cost {terms.spending_cap:,.6g}: give"
                " it a higher spending_cap"
            )
        revised = spending_cap is not None and store.revise_run(self.id, terms.text())
        return store.resume_run(self.id) or revised

    def cancel(self, reason: str = "cancelled by hand") -> int:
        """End it for good: what waits is cancelled, what runs is asked to stop; how many."""
        store, cancelled = self._app.store, 0
        watched(store, self._kept())  # one whose items have all ended is over, and stays what it is
        store.stop_run(self.id, RunStop.CANCELLED, reason=_reason(reason))
        while found := store.unfinished_items(self.id):
            cancelled += sum(change.done for change in store.cancel(found))
        if self._kept().sealed_at is None:  # to seal one that is over would open it again
            store.seal_run(self.id)
        return cancelled

    def _kept(self) -> KeptRun:
        found = self._app.store.run(self.id)
        if found is None:
            raise NoSuchJobError(f"there is no run {self.id}")
        return found


def _reason(text: str) -> str:
    return one_line(text) or "by hand"


class _Quiet:
    """Shows nothing."""

    def __enter__(self) -> Callable[[RunView], None]:
        return lambda _: None

    def __exit__(self, *_: object) -> None:
        return None


def _shown(store: Store, run_id: int, *, live: bool) -> Any:
    """A block that gives what shows a run on the terminal: the terminal's affair, so it is asked
    for by name, and only where there is one.
    """
    import sys  # noqa: PLC0415 - once for each wait

    if not live or not sys.stderr.isatty():
        return _Quiet()
    from importlib import import_module  # noqa: PLC0415 - as above

    terminal = import_module("seawall.cli.live")
    return terminal.shown(held=partial(terminal.held_of, store, run_id))
