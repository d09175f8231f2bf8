"""Live events: one look at the store for all who listen.

A thread looks at what has become of jobs, twice a second, as long as anybody listens; each event is
put into words once and handed to those who may see it. So a listener costs the store nothing. Who
does not keep up is dropped, and comes back with the id of the last event that he saw; whichever
server he comes back to knows what has happened since, because it is the store that remembers.

A look goes back a little further than the last one, for commits that took their time, and what was
told is not told again. What happens between two looks is told by where it led: the whole history of
a job is its event log.
"""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from seawall.errors import StoreError
from seawall.store import Changes, JobChange, Store
from seawall.web.problems import ProblemError

LOOK_SECONDS = 0.5
OVERLAP_SECONDS = 5.0
"""How long a commit may take and still be told."""
MOST_BEHIND = 500
"""How many events a listener may be behind before he is dropped."""
MOST_LISTENERS = 1_000
MOST_OF_ONE = 100
"""How often one token may listen at once: nobody takes the places of all."""
MOST_OF_A_KIND = 500
"""How many events of each kind one look tells; where there are more, it says so."""
OLDEST_SECONDS = 3_600.0
"""How far back a listener is told what he missed."""

_Key = tuple[str, int, int, int]


class Told(NamedTuple):
    """An event in words, and who may see it."""

    key: _Key
    owner: str | None
    text: bytes


MISSED = b'event: missed\ndata: {"event":"missed"}\n\n'
"""More has happened than is told: whoever must know all of it asks the lists."""


@dataclass(slots=True, eq=False)
class Listener:
    """Somebody who listens: to an owner's events, or to all."""

    who: str
    """By which token."""
    only: str | None
    waiting: "asyncio.Queue[Told | None]" = field(
        default_factory=lambda: asyncio.Queue(MOST_BEHIND)
    )
    dropped: bool = False

    def put(self, told: Told | None) -> bool:
        """Hand it over; false where he is too far behind, and is dropped."""
        try:
            self.waiting.put_nowait(told)
        except asyncio.QueueFull:
            self.dropped = True
        return not self.dropped


class Tail:
    """Looks, tells, and knows who listens."""

    def __init__(
        self,
        store: Store,
        *,
        most_listeners: int = MOST_LISTENERS,
        heard: Callable[[float], None] = lambda _: None,
    ) -> None:
        """`heard` is told, on the event loop, before which moment something has happened."""
        self._store = store
        self._most = most_listeners
        self._heard = heard
        self._listeners: set[Listener] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wanted = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    # --- on the event loop --------------------------------------------------------------------

    def join(self, who: str, only: str | None) -> Listener:
        """Listen from now on; 503 where too many do, 429 where this one does too often."""
        if self._closed or len(self._listeners) >= self._most:
            raise ProblemError(
                503, "too many listen already", code="busy", headers={"retry-after": "5"}
            )
        if sum(each.who == who for each in self._listeners) >= MOST_OF_ONE:
            raise ProblemError(
                429, "this token listens too often already", headers={"retry-after": "5"}
            )
        self._loop = asyncio.get_running_loop()
        listener = Listener(who, only)
        with self._wanted:
            self._listeners.add(listener)
            self._wanted.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="seawall-tail", daemon=True)
            self._thread.start()
        return listener

    def leave(self, listener: Listener) -> None:
        """Listen no more."""
        with self._wanted:
            self._listeners.discard(listener)

    def end_all(self) -> None:
        """Tell everybody that this is the end: the server stops."""
        self._closed = True
        for listener in list(self._listeners):
            if not listener.put(None):
                self.leave(listener)

    def _deliver(self, news: list[Told]) -> None:
        for listener in list(self._listeners):
            for told in news:
                if may_see(listener.only, told) and not listener.put(told):
                    self.leave(listener)
                    break

    # --- in the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        seen: dict[_Key, datetime] = {}
        since: datetime | None = None
        while self._is_wanted():
            try:
                since = self._looked(since, seen)
            except StoreError:  # it will be seen at the next look
                since = since or None
            with self._wanted:
                if self._closed:
                    return
                self._wanted.wait(LOOK_SECONDS)
            if not self._listeners:
                seen, since = {}, None

    def _is_wanted(self) -> bool:
        with self._wanted:
            self._wanted.wait_for(lambda: self._closed or self._listeners)
            return not self._closed

    def _looked(self, since: datetime | None, seen: dict[_Key, datetime]) -> datetime:
        overlap = timedelta(seconds=OVERLAP_SECONDS)
        begin = (since or self._store.now()) - overlap
        found = self._store.changes(begin, limit=MOST_OF_A_KIND)
        seen_by = time.monotonic()
        news = [told for told in in_words(found) if told.key not in seen]
        seen |= {_key(each): each.at for each in found.changes}
        for key in [key for key, at in seen.items() if at < begin - overlap]:
            del seen[key]
        if since is not None and news and self._loop is not None:  # the first look only learns
            self._tell(news, seen_by, whole=found.whole)
        return found.at

    def _tell(self, news: list[Told], before: float, *, whole: bool) -> None:
        if not whole:
            news.append(Told(("missed", 0, 0, 0), None, MISSED))
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._heard, before)
            self._loop.call_soon_threadsafe(self._deliver, news)

    def close(self) -> None:
        """Look no more."""
        with self._wanted:
            self._closed = True
            self._wanted.notify()
        if self._thread is not None:
            self._thread.join()


def may_see(only: str | None, told: Told) -> bool:
    """Whether an event is for somebody who sees this owner's things alone, or all."""
    return only is None or told.owner == only or told.text is MISSED


def in_words(found: Changes) -> Iterable[Told]:
    """Each change as it is sent."""
    return [Told(_key(each), each.owner, _text(each)) for each in found.changes]


def _key(change: JobChange) -> _Key:
    if change.event == "queued":
        return change.event, change.job_id, 0, 0
    return change.event, change.job_id, change.attempts, change.cycle


def _text(change: JobChange) -> bytes:
    micros = round(change.at.timestamp() * 1_000_000)
    data: dict[str, object] = {
        "event": change.event,
        "at": change.at.astimezone(UTC).isoformat(),
        "job": change.job_id,
        "task": change.task,
        "queue": change.queue,
        "stage": change.stage,
        "state": str(change.state),
        "attempts": change.attempts,
        "cycle": change.cycle,
        "owner": change.owner,
        "run": change.run,
        "fault_code": change.fault_code,
    }
    body = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"id: {micros}\nevent: {change.event}\ndata: {body}\n\n".encode()


def since_of(last_event_id: str | None, now: datetime) -> datetime | None:
    """From when on somebody who comes back is told what he missed; None where it is no id."""
    if last_event_id is None or not last_event_id.isdecimal() or len(last_event_id) > 17:
        return None
    oldest = now - timedelta(seconds=OLDEST_SECONDS)
    seen = datetime.fromtimestamp(int(last_event_id) / 1_000_000, UTC)
    return min(max(seen, oldest), now) - timedelta(seconds=OVERLAP_SECONDS)
