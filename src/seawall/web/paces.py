"""How fast the runs are that people look at: what a server remembers between two looks."""

import threading
import time
from collections import OrderedDict

from seawall.standings import Pace, RunView

MOST_RUNS = 500
FORGET_SECONDS = 120.0
"""What was seen longer ago says nothing of the present."""


class Paces:
    """The paces of the runs that were looked at last. For all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[int, tuple[Pace, float]] = OrderedDict()

    def saw(self, view: RunView) -> Pace:
        """Note how a run stands, and answer how fast it has been of late."""
        now = time.monotonic()
        with self._lock:
            pace, seen_at = self._known.pop(view.id, (Pace(), now))
            if now - seen_at > FORGET_SECONDS:
                pace = Pace()
            pace.saw(view)
            self._known[view.id] = (pace, now)
            if len(self._known) > MOST_RUNS:
                self._known.popitem(last=False)
        return pace
