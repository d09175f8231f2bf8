"""A worker's signs of life, on a thread of their own.

Leases are renewed here at least three times in their length, whatever handlers, loops or the
worker's other thread are busy with; with them go the worker's presence, what its handlers say of
their progress, and the question whether somebody wants one of its jobs to stop. A store that does
not answer is asked again soon: a lease that lapsed meanwhile still stands until somebody takes it.
"""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from seawall.errors import StoreUnavailableError
from seawall.execute import Work
from seawall.model import Token
from seawall.redact import one_line
from seawall.store import Presence, Progress, Result, Store
from seawall.store.values import MOST_ROWS
from seawall.telemetry import UpkeepFailed, emit
from seawall.worker.events import Asked, Renewed, Taken

if TYPE_CHECKING:
    from seawall.worker.events import Event

APPEAR_SECONDS = 5.0
LOOK_SECONDS = 0.5
BEATS_IN_A_LEASE = 4
RESTATE_SECONDS = 1.0
"""How often the fleet is told which calls are still under way."""
_CLOSING_SECONDS = 1.0


@dataclass(slots=True)
class _Sign:
    give: Callable[[], None]
    every_seconds: float
    due_at: float = 0.0


class Beats:
    """The thread that keeps a worker's leases."""

    def __init__(
        self,
        store: Store,
        worker: str,
        *,
        lease_seconds: float,
        tokens: Callable[[], Iterable[Token]],
        works: Callable[[], list[Work]],
        presence: Callable[[], Presence],
        heard: "Callable[[Event], None]",
        restate: Callable[[], None],
    ) -> None:
        self._store = store
        self._worker = worker
        self._lease_seconds = lease_seconds
        self._tokens = tokens
        self._works = works
        self._presence = presence
        self._heard = heard
        self._restate = restate
        self._reported: dict[Token, tuple[float, float | None, str]] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="seawall-beats", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop, and say that the worker is gone."""
        self._closed.set()
        self._thread.join(_CLOSING_SECONDS)

    def _run(self) -> None:
        beat = self._lease_seconds / BEATS_IN_A_LEASE
        look = min(LOOK_SECONDS, beat)
        signs = [
            _Sign(self.renew, beat, time.monotonic() + beat),
            _Sign(self.appear, APPEAR_SECONDS),
            _Sign(self.look_for_stops, look),
            _Sign(self._restate, min(RESTATE_SECONDS, beat)),
            _Sign(self._report, look),
        ]
        while not self._closed.wait(look / 2):
            for sign in signs:
                if time.monotonic() >= sign.due_at:
                    self._give(sign)

    def _give(self, sign: "_Sign") -> None:
        """Give one sign of life; whatever breaks in it keeps no other from being given."""
        sign.due_at = time.monotonic() + sign.every_seconds
        try:
            sign.give()
        except StoreUnavailableError:  # the worker's own turns say that the store is away
            sign.due_at = time.monotonic() + min(1.0, sign.every_seconds)
        except Exception as error:  # noqa: BLE001 - this thread must outlive everything
            emit(UpkeepFailed(chore="beats", message=one_line(f"{error!r}")))

    def appear(self) -> None:
        """Say that the worker is there."""
        self._store.appear(self._presence())

    def renew(self) -> None:
        """Renew every lease; what was lost is told."""
        left = iter(list(self._tokens()))
        while batch := list(islice(left, MOST_ROWS)):
            answers = self._store.renew(batch, lease_seconds=self._lease_seconds)
            kept = [
                token
                for token, answer in zip(batch, answers, strict=True)
                if answer.result is not Result.LOST
            ]
            self._heard(Renewed(tuple(kept)))
            for token in set(batch) - set(kept):
                self._heard(Taken(token))

    def look_for_stops(self) -> None:
        """See whether somebody wants one of its jobs to stop."""
        if not self._tokens():
            return  # an idle worker has nobody to stop
        for token in self._store.stopping(self._worker):
            self._heard(Asked(token))

    def _report(self) -> None:
        """Keep what handlers said of their progress since the last look."""
        news = {}
        for work in self._works():
            said = work.current.said.progress
            if said is not None and self._reported.get(work.claim.token) != said:
                news[work.claim.token] = said
        if not news:
            return
        rows = [
            Progress(token=token, done=done, total=total, message=message)
            for token, (done, total, message) in islice(news.items(), MOST_ROWS)
        ]
        self._store.report(rows)
        under_way = {work.claim.token for work in self._works()}
        kept = {token: said for token, said in self._reported.items() if token in under_way}
        self._reported = {**kept, **{row.token: news[row.token] for row in rows}}
