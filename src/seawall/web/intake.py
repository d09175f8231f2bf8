"""Jobs that come in one by one, written many at a time.

One thread writes whatever has come in since it last did: alone, a job is written at once; under
load, many share a commit. Nobody is answered before the commit that holds his job, so what was
accepted is kept, whatever is killed afterwards.
"""

import asyncio
import queue
import threading
from concurrent.futures import Future
from typing import NamedTuple

from seawall.errors import StoreUnavailableError
from seawall.model import NewJob
from seawall.store import Enqueued, Store
from seawall.web.problems import ProblemError

MOST_WAITING = 2_000
MOST_AT_ONCE = 200
"""How many share a commit: enough to hide what it costs, few enough to hold nobody up."""


class _Waiting(NamedTuple):
    job: NewJob
    answer: "Future[Enqueued]"


class Intake:
    """The way in for single jobs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: queue.Queue[_Waiting | None] = queue.Queue(MOST_WAITING)
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="seawall-intake", daemon=True)
        self._thread.start()

    async def ask(self, job: NewJob) -> Enqueued:
        """What the store says of the job, once that is committed."""
        answer: Future[Enqueued] = Future()
        try:
            if self._closed:
                raise queue.Full  # noqa: TRY301 - the same answer
            self._waiting.put_nowait(_Waiting(job, answer))
        except queue.Full:
            raise ProblemError(
                503, "too many jobs come in: ask again in a moment", code="busy",
                headers={"retry-after": "1"},
            ) from None  # fmt: skip
        return await asyncio.wrap_future(answer)

    def close(self) -> None:
        """Write what has come in, and take no more."""
        if not self._closed:
            self._closed = True
            self._waiting.put(None)
            self._thread.join()

    def _run(self) -> None:
        while True:
            first = self._waiting.get()
            if first is None:
                break
            batch, last = self._gathered(first)
            self._written(batch)
            if last:
                break
        while not self._waiting.empty():  # came in while it was closed
            late = self._waiting.get_nowait()
            if late is not None:
                late.answer.set_exception(StoreUnavailableError("the server stops"))

    def _gathered(self, first: _Waiting) -> tuple[list[_Waiting], bool]:
        """What waits by now, and whether it is the last."""
        batch = [first]
        while len(batch) < MOST_AT_ONCE:
            try:
                each = self._waiting.get_nowait()
            except queue.Empty:
                break
            if each is None:
                return batch, True
            batch.append(each)
        return batch, False

    def _written(self, batch: list[_Waiting]) -> None:
        try:
            answers = self._store.enqueue([each.job for each in batch])
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
            for each in batch:
                if each.answer.set_running_or_notify_cancel():
                    each.answer.set_exception(error)
            return
        for each, found in zip(batch, answers, strict=True):
            if each.answer.set_running_or_notify_cancel():  # unless nobody waits any more
                each.answer.set_result(found)
