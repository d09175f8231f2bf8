"""The store's own connection in a caller's hands, for the time of one transaction.

Who has it is remembered by context and thread: what that thread enqueues meanwhile goes into the
same transaction. Another task of the same thread does not see the loan, and another thread that
inherits it (`asyncio.to_thread`) is refused: its job would silently not be part of it.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from seawall.errors import StoreError
from seawall.model import NewJob
from seawall.store import inside
from seawall.store.backend import Backend
from seawall.store.lanes import Lanes
from seawall.store.values import Enqueued


class Loan:
    """One connection that was lent, and to whom."""

    def __init__(self, backend: Backend, ask: inside.Ask) -> None:
        self.backend = backend
        self.is_open = True
        self.told = False
        """Whether somebody has to be told of new work at its end."""
        self._ask = ask
        self._thread = threading.get_ident()

    def enqueue(self, jobs: Sequence[NewJob], lanes: Lanes) -> list[Enqueued]:
        """Write the jobs in this transaction."""
        if threading.get_ident() != self._thread:
            raise StoreError(
                "a transaction of the store is open in another thread: enqueue in the thread that"
                " opened it, or after its end"
            )
        written = self.backend.written
        if self.backend.dialect == "sqlite":
            steps = inside.enqueued_with_lanes(jobs, written)
        else:  # lanes are numbered in the order of their commits, so this one must not hold them
            lane_ids = lanes.ids(job.lane for job in jobs)
            steps = inside.kept(inside.enqueued(jobs, lane_ids, written))
        try:
            answers = inside.run(steps, self._ask)
        except inside.GoneError:
            lanes.forget()
            raise
        self.told = self.told or inside.any_created(answers)
        return answers


_LOANS: ContextVar[tuple[Loan, ...]] = ContextVar("seawall_loans", default=())


def loan_of(backend: Backend) -> Loan | None:
    """The loan of this backend's connection that the caller stands in."""
    for loan in _LOANS.get():
        if loan.backend is backend and loan.is_open:
            return loan
    return None


class _Undo(BaseException):
    """Rolls a lent transaction back, past everything that would take it for an error of ours."""


@contextmanager
def lent(backend: Backend) -> Iterator[Any]:
    """Lend the connection; commit at the end, or roll back and pass on what was raised.

    The errors of a caller's own statements are the caller's: they are not put in our words.
    """
    if loan_of(backend) is not None:
        raise StoreError("a transaction of the store is open here already: end it first")
    raised: BaseException | None = None
    told = False
    try:
        with backend.lending() as (connection, ask):
            loan = Loan(backend, ask)
            _LOANS.set((*_LOANS.get(), loan))
            try:
                yield connection
            except BaseException as error:  # noqa: BLE001 - it is raised again below
                raised = error
                raise _Undo from None
            finally:
                loan.is_open = False
                _LOANS.set(tuple(each for each in _LOANS.get() if each is not loan))
            told = loan.told
    except _Undo:
        pass
    if raised is not None:
        raise raised
    if told:
        backend.wake()
