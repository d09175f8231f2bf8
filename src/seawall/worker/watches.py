"""Every upstream that a worker has heard of: what the fleet believes of each, and what is shut.

What is known here is told to by the worker's other rooms and read from the store; nothing is
decided. Any thread may ask.
"""

import threading
from contextlib import suppress
from datetime import UTC, datetime

from seawall.app import Seawall
from seawall.decisions import gate_text
from seawall.decisions.breaker import Phase
from seawall.errors import StoreError
from seawall.model import Token
from seawall.store import Store
from seawall.store.webhook_values import DELIVERY_TASK
from seawall.worker.watch import Watch


class Watches:
    """What one worker knows of upstreams."""

    def __init__(self, app: Seawall, store: Store) -> None:
        self._app = app
        self._store = store
        self._watches: dict[str, Watch] = {}
        self.lock = threading.RLock()
        self.active = any(
            stage.upstream
            for name, task in app.tasks.items()
            for stage in task.stages
            if name != DELIVERY_TASK
        )
        """Whether upstreams are anything to this worker at all; receivers of webhooks are as soon
        as it has one to call.
        """
        self._newly_shut = False
        self._behind = 0.0
        """The store's clock less this machine's."""

    def of(self, name: str) -> Watch:
        """What is known of this one; as good as nothing at first."""
        watch = self._watches.get(name)
        if watch is None:
            with self.lock:
                made = Watch(self._app.upstreams.of(name))
                watch = self._watches.setdefault(name, made)
        return watch

    def all(self) -> list[tuple[str, Watch]]:
        """Each, by name."""
        with self.lock:
            return list(self._watches.items())

    def look(self) -> None:
        """See what others decided."""
        found = {each.name: each for each in self._store.watched()}
        with self.lock:
            now = self.now()
            for name in [*found, *(n for n in self._watches if n not in found)]:
                watch = self.of(name)
                told = found.get(name)
                text = "" if told is None else told.state
                if text != watch.text:
                    was_shut = watch.shut(now)
                    watch.text, watch.gate, watch.again_at = text, gate_text.read(text), 0.0
                    if watch.phase(now) is not Phase.CLOSED or watch.gate.breaker.forced:
                        watch.local = None  # it is the fleet's affair now
                    self.mark_shut(watch, now, was_shut=was_shut)
                watch.gated = told is not None and told.gated

    def breaker_phase(self, name: str) -> Phase:
        """What its breaker is now: the fleet's, or this worker's own where that is stricter."""
        with self.lock:
            watch, now = self.of(name), self.now()
            fleet = watch.phase(now)
            return watch.local_phase(now) if fleet is Phase.CLOSED else fleet

    # --- what may begin -----------------------------------------------------------------------

    def mark_shut(self, watch: Watch, now: float, *, was_shut: bool) -> None:
        """Remember that it was shut just now, if it was."""
        self._newly_shut |= watch.shut(now) and not was_shut

    def take_shut(self) -> bool:
        """Whether an upstream was shut since this was last asked."""
        with self.lock:
            newly, self._newly_shut = self._newly_shut, False
            return newly

    def shut(self) -> tuple[frozenset[str], frozenset[Token]]:
        """The upstreams of which nothing may begin, but for these probes."""
        with self.lock:
            now = self.now()
            shut = {name: each for name, each in self._watches.items() if each.shut(now)}
            probes = {token for each in shut.values() for token in each.probes}
        return frozenset(shut), frozenset(probes)

    def apart(self) -> frozenset[str]:
        """The upstreams whose jobs are claimed one upstream at a time."""
        with self.lock:
            now = self.now()
            return frozenset(
                name for name, each in self._watches.items() if each.gated or each.shut(now)
            )

    # --- the time -----------------------------------------------------------------------------

    def now(self) -> float:
        """About what the store's clock says; the store is asked once, which may be away later."""
        if not self._behind:
            with suppress(StoreError):
                self.set_clock(self._store.now().timestamp(), self._app.clock.monotonic())
        return self._app.clock.monotonic() + self._behind

    def set_clock(self, store_now: float, at: float) -> None:
        """The store's clock said this when this machine's said that."""
        self._behind = store_now - at

    def date(self) -> datetime:
        """The same, as a date."""
        return datetime.fromtimestamp(self.now(), UTC)
