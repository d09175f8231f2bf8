"""The verbs that ask for jobs, alone or together with something else that is written."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar

from seawall.errors import StoreUnavailableError
from seawall.model import Lane, NewJob
from seawall.store import rows
from seawall.store.backend import Backend, ConflictError, Session, Values
from seawall.store.batches import in_parts
from seawall.store.callers import aenqueued_on, enqueued_on, postgres_beneath
from seawall.store.lanes import Lanes
from seawall.store.lent import lent, loan_of
from seawall.store.reading import Reading
from seawall.store.values import Enqueued, Taken, need_batch

TRIES_FOR_A_KEY = 5
_CAME_AND_WENT = "its key or lane came and went again and again: ask anew"

T = TypeVar("T")


class Asking:
    """Part of the ledger: see `port.Store` for what each verb promises."""

    _backend: Backend
    _lanes: Lanes

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        need_batch(jobs)
        loan = loan_of(self._backend)
        if loan is not None:
            return loan.enqueue(jobs, self._lanes)
        return self._enqueued_within(TRIES_FOR_A_KEY, jobs)

    def transaction(self) -> AbstractContextManager[Any]:
        return lent(self._backend)

    def enqueue_on(self, connection: Any, jobs: Sequence[NewJob]) -> list[Enqueued]:
        return enqueued_on(self._backend, self._lanes, connection, jobs)

    async def aenqueue_on(self, connection: Any, jobs: Sequence[NewJob]) -> list[Enqueued]:
        return await aenqueued_on(self._backend, self._lanes, connection, jobs)

    def seen_on(self, connection: Any) -> Reading:
        from seawall.store.seen import Seen  # noqa: PLC0415 - psycopg is an extra

        return Seen(self._backend, self._lanes, postgres_beneath(self._backend, connection))

    def _enqueued_within(self, tries: int, jobs: Sequence[NewJob]) -> list[Enqueued]:
        if not tries:
            raise StoreUnavailableError(_CAME_AND_WENT)
        return in_parts(
            jobs, partial(self._enqueued, tries), lambda why: Enqueued(Taken.REFUSED, None, why)
        )

    def _enqueued(self, tries: int, jobs: Sequence[NewJob]) -> list[Enqueued]:
        lane_ids = self._lanes.ids(job.lane for job in jobs)
        found = self._written_plain(jobs, lane_ids)
        if found is None:
            given = self._given(jobs, lane_ids)
            written = self._backend.batch("enqueue", given)
            found = {at: Enqueued(Taken.CREATED, id_) for at, id_ in written}
            if found:
                self._backend.wake()
            found |= self._holders(self._backend, given, found)
        freed = [at for at in range(len(jobs)) if at not in found]
        if freed:  # a key whose job was pruned between our two looks, or a lane that is gone
            self._lanes.forget()
            again = self._enqueued_within(tries - 1, [jobs[at] for at in freed])
            found |= zip(freed, again, strict=True)
        return [found[at] for at in range(len(jobs))]

    def _written_plain(
        self, jobs: Sequence[NewJob], lane_ids: dict[Lane, int]
    ) -> dict[int, Enqueued] | None:
        """The short way, where every job of the batch may go it."""
        given = []
        for job in jobs:
            row = rows.plain_job(job, lane_ids[job.lane])
            if row is None:
                return None
            given.append(row)
        written = self._backend.enqueue_plain(given)
        return {at: Enqueued(Taken.CREATED, id_) for at, id_ in written}

    def _given(self, jobs: Sequence[NewJob], lane_ids: dict[Lane, int]) -> list[Values]:
        return [
            rows.new_job(job, at, lane_ids[job.lane], self._backend.written)
            for at, job in enumerate(jobs)
        ]

    def _holders(
        self, session: Session, given: list[Values], found: dict[int, Enqueued]
    ) -> dict[int, Enqueued]:
        """Who has the keys that could not be taken."""
        left = [row for row in given if row["position"] not in found]
        if not left:
            return {}
        digests = {row["position"]: row["digest"] for row in left}
        return {
            at: Enqueued(Taken.EXISTING if digest == digests[at] else Taken.CONFLICT, job_id)
            for at, job_id, digest in session.batch("find_keys", left)
        }

    # --- with something else ------------------------------------------------------------------

    def _together(self, lanes: Iterable[Lane], write: Callable[[Session, dict[Lane, int]], T]) -> T:
        """One transaction that may write jobs of these lanes; anew where others were in the way.

        The lanes are made before it, in a transaction of their own.
        """
        needed = list(lanes)
        for _ in range(TRIES_FOR_A_KEY):
            lane_ids = self._lanes.ids(needed)
            try:
                with self._backend.transaction() as session:
                    return write(session, lane_ids)
            except ConflictError:
                self._lanes.forget()
        raise StoreUnavailableError(_CAME_AND_WENT)

    def _enqueued_in(
        self, session: Session, jobs: Sequence[NewJob], lane_ids: dict[Lane, int]
    ) -> list[Enqueued]:
        """`enqueue` inside a transaction; `ConflictError` where a key or a lane came and went."""
        given = self._given(jobs, lane_ids)
        found = {at: Enqueued(Taken.CREATED, id_) for at, id_ in session.batch("enqueue", given)}
        found |= self._holders(session, given, found)
        if len(found) < len(given):
            raise ConflictError("a key or a lane came and went")
        return [found[at] for at in range(len(given))]
