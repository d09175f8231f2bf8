"""What a process knows of the lanes: a small table whose rows never change.

So what is known stays true, and only the news must be looked for. Lanes are made one transaction
at a time and numbered in that order: whoever knows all lanes up to a number finds every other
above it. What is known is one value that is replaced as a whole, so threads never see half of it.
Once a second it is looked up anew, and the visit that follows begins in every lane at its very
start, where a job may have been put back.
"""

import random
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from seawall.model import Lane
from seawall.store import rows
from seawall.store.backend import Backend, Row

MOST_VISITS_KEPT = 100
LOOK_AGAIN_SECONDS = 1.0
"""How long what is known may be taken for all there is."""
MARGIN = timedelta(seconds=1)
"""How far before the last job taken the next visit begins: commits overtake one another."""


class Turn:
    """Lanes of one priority, which take turns at being visited first."""

    def __init__(self, ids: list[int], start: int) -> None:
        self.ids = ids
        self.start = start
        self.places = {id_: place for place, id_ in enumerate(ids)}

    def order(self) -> list[int]:
        return self.ids[self.start :] + self.ids[: self.start]

    def served(self, lane_ids: set[int]) -> None:
        """The next visit begins after the last lane that this one served."""
        if lane_ids:
            many, start = len(self.ids), self.start
            last = max((self.places[id_] for id_ in lane_ids), key=lambda at: (at - start) % many)
            self.start = (last + 1) % many


class Visit(NamedTuple):
    """Which lanes a claim visits, in which order, and up to which id they are known."""

    order: list[int]
    since: list[datetime | None]
    """For each of them its watermark: what was due before has been taken, but for stragglers."""
    known: int
    turns: list[Turn]
    lanes: dict[int, Lane]
    """Every lane up to that id."""

    marks: dict[int, datetime]

    def served(self, latest: dict[int, datetime], *, marks: bool) -> None:
        """These lanes gave jobs, the last of each due then, and were passed over for none."""
        for turn in self.turns:
            turn.served(latest.keys() & turn.places.keys())
        if marks:
            self.marks.update({lane_id: due_at - MARGIN for lane_id, due_at in latest.items()})


class _Known:
    """Every lane up to an id."""

    def __init__(self, found: list[Row]) -> None:
        self.found = found
        self.by_id = {id_: rows.lane_of(named) for id_, *named in found}
        self.ids = {lane: id_ for id_, lane in self.by_id.items()}
        self.last = max(self.by_id, default=0)
        self.turns: dict[tuple[tuple[str, ...] | None, tuple[str, ...]], list[Turn]] = {}


class Lanes:
    """The lanes of one store, as far as this process has met them."""

    def __init__(self, backend: Backend, rng: random.Random | None) -> None:
        self._backend = backend
        # The module's own dice are thrown anew in every child process.
        self._randrange = random.randrange if rng is None else rng.randrange
        self._known = _Known([])
        self._look_again_at = 0.0
        self._marks: dict[int, datetime] = {}

    def ids(self, lanes: Iterable[Lane]) -> dict[Lane, int]:
        """The id of each lane, among others; a new one is made in a transaction of its own."""
        wanted = dict.fromkeys(lanes)
        known = self._known
        if not known.ids.keys() >= wanted.keys():
            known = self._learned()
            missing = [lane for lane in wanted if lane not in known.ids]
            if missing:
                with self._backend.transaction() as session:
                    session.all("lock_lanes")
                    session.batch("add_lanes", [rows.lane(lane) for lane in missing])
                known = self._learned()
        return known.ids

    def named(self, lane_ids: Iterable[int]) -> dict[int, Lane]:
        """What these lanes are, among others."""
        known = self._known
        if not known.by_id.keys() >= set(lane_ids):
            known = self._learned()
        return known.by_id

    def every(self) -> dict[int, Lane]:
        """Every lane that there is now."""
        return self._looked_up().by_id

    def visit(self, queues: Sequence[str] | None, tasks: Sequence[str]) -> Visit:
        """The lanes of these queues (None: of all) and tasks, higher priorities first."""
        known = self._learned() if time.monotonic() >= self._look_again_at else self._known
        asked = (None if queues is None else tuple(queues), tuple(tasks))
        turns = known.turns.get(asked)
        if turns is None:
            if len(known.turns) >= MOST_VISITS_KEPT:
                known.turns.clear()
            turns = known.turns[asked] = self._turns(known.by_id, *asked)
        order = [id_ for turn in turns for id_ in turn.order()]
        since = [self._marks.get(id_) for id_ in order]
        return Visit(order, since, known.last, turns, known.by_id, self._marks)

    def look_again(self) -> None:
        """A claim met a lane that was not known: learn it before the next visit."""
        self._look_again_at = 0.0

    def start_over(self) -> None:
        """Jobs were put back at their old places: the next visit begins at every lane's start."""
        self._marks = {}

    def forget(self) -> None:
        """A lane that was known is gone, as after a restore: learn all of them anew."""
        self._known = _Known([])

    def _turns(
        self, by_id: dict[int, Lane], queues: Sequence[str] | None, tasks: Sequence[str]
    ) -> list[Turn]:
        served = frozenset(tasks)
        ours = [id_ for id_, lane in by_id.items() if lane.task in served]
        if queues is not None:
            named = frozenset(queues)
            ours = [id_ for id_ in ours if by_id[id_].queue in named]
        ours.sort(key=lambda id_: (-by_id[id_].priority, id_))
        equals = [list(ids) for _, ids in groupby(ours, key=lambda id_: by_id[id_].priority)]
        return [Turn(ids, self._randrange(len(ids))) for ids in equals]

    def _learned(self) -> _Known:
        known = self._looked_up()
        self._look_again_at = time.monotonic() + LOOK_AGAIN_SECONDS
        self._marks = {}
        return known

    def _looked_up(self) -> _Known:
        found = self._backend.all("all_lanes")
        known = self._known
        if found != known.found:  # otherwise the turns go on where they were
            known = _Known(found)
            self._known = known
        return known
