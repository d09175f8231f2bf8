"""A turn at an upstream: the right to one call there, given back when the call has ended."""

import math
import threading
from typing import NamedTuple

from seawall.calls import Ticket
from seawall.execute import Work
from seawall.faults import Fault
from seawall.worker.inside import Inside


class NoTurn(NamedTuple):
    """Nobody may call now."""

    reason: str
    seconds: float = 0.0
    """About how long that lasts."""


class Turn:
    """The right to one call; nothing where the job calls nothing that is watched over."""

    def __init__(self, inside: Inside, ticket: Ticket | None = None) -> None:
        self._inside = inside
        self._ticket = ticket
        self.use_by = math.inf if ticket is None else ticket.use_by
        """This machine's clock until when the call may begin."""
        self._lock = threading.Lock()
        self._told = False
        self._outlasts = False

    def ended(self, work: Work, fault: Fault | None, *, says_nothing: bool = False) -> bool:
        """The call has ended, so; whether the attempt counts. Only the first word is heard."""
        return self._end(fault, work.elapsed(), says_nothing=says_nothing)

    def phase(self, upstream: str) -> str:
        """What the upstream's breaker is now."""
        return self._inside.phase(upstream)

    def give_back(self) -> None:
        """It is not used, or what came of it cannot be told any more."""
        self._end(None, 0.0, says_nothing=True)

    def outlasts(self) -> None:
        """Its handler will go on when its attempt has ended: until then the place is taken."""
        with self._lock:
            self._outlasts = not self._told

    def free(self) -> None:
        """The handler that outlasted its attempt has returned."""
        with self._lock:
            outlasted, self._outlasts = self._outlasts, False
        if outlasted and self._ticket is not None:
            self._inside.leave(self._ticket, None, 0.0, None, says_nothing=True)

    def _end(self, fault: Fault | None, seconds: float, *, says_nothing: bool) -> bool:
        with self._lock:
            first, self._told = not self._told, True
            outlasts = self._outlasts
        if not first or self._ticket is None:
            return True
        if outlasts:
            return self._inside.outlast(self._ticket, fault, seconds, says_nothing=says_nothing)
        return self._inside.leave(self._ticket, fault, seconds, None, says_nothing=says_nothing)
