"""What a process knows of the lanes: a small table whose rows never change.

So what is known stays true, and only the news must be looked for. Lanes are made one transaction
at a time and numbered in that order: whoever knows all lanes up to a number finds every other
above it. What is known is one value that is replaced as a whole, so threads never see half of it.
Once a second it is looked up anew, and the visit that follows begins in every lane at its very
start, where a job may have been put back.
"""

import random
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from seawall.model import Lane
from seawall.store import rows
from seawall.store.backend import Backend, Row
from seawall.store.values import Wanted

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
    """The watermarks that such a visit moves on."""

    def served(self, latest: dict[int, datetime]) -> None:
        """These lanes gave jobs, the last of each due then."""
        for turn in self.turns:
            turn.served(latest.keys() & turn.places.keys())
        self.marks.update({lane_id: due_at - MARGIN for lane_id, due_at in latest.items()})


Asked = tuple[
    tuple[str, ...] | None, tuple[str, ...], str | None, bool, str | None, int | None,
    frozenset[str],
]  # fmt: skip
"""What of a `Wanted` decides about the lanes."""


class _Known:
    """Every lane up to an id."""

    def __init__(self, found: list[Row]) -> None:
        self.found = found
        self.by_id = {id_: rows.lane_of(named) for id_, *named, _ in found}
        self.over = {row[0] for row in found if row[-1]}
        """Lanes of runs that have ended: nothing waits there."""
        self.ids = {lane: id_ for id_, lane in self.by_id.items()}
        self.last = max(self.by_id, default=0)
        self.turns: dict[Asked, list[Turn]] = {}


class Lanes:
    """The lanes of one store, as far as this process has met them."""

    def __init__(
        self, backend: Backend, rng: random.Random | None, monotonic: Callable[[], float]
    ) -> None:
        self._backend = backend
        self._monotonic = monotonic
        # The module's own dice are thrown anew in every child process.
        self._randrange = random.randrange if rng is None else rng.randrange
        self._known = _Known([])
        self._look_again_at = 0.0
        self._marks: dict[int, datetime] = {}
        self._marks_ahead: dict[int, datetime] = {}

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

    def visit(self, wanted: Wanted, *, may_ask: bool = True) -> Visit:
        """The lanes that a claim is for, higher priorities first.

        One for prefetch passes over some jobs, so its watermarks are its own.
        """
        known = self._fresh() if may_ask else self._known
        queues = None if wanted.queues is None else tuple(wanted.queues)
        asked = (
            queues, tuple(wanted.tasks), wanted.upstream, wanted.retry, wanted.owner,
            wanted.priority, wanted.guarded,
        )  # fmt: skip
        turns = known.turns.get(asked)
        if turns is None:
            if len(known.turns) >= MOST_VISITS_KEPT:
                known.turns.clear()
            turns = known.turns[asked] = self._turns(known, wanted)
        order = [id_ for turn in turns for id_ in turn.order()]
        if wanted.without:
            order = [id_ for id_ in order if known.by_id[id_].upstream not in wanted.without]
        marks = self._marks_ahead if wanted.prefetch else self._marks
        since = [marks.get(id_) for id_ in order]
        return Visit(order, since, known.last, turns, known.by_id, marks)

    def waiting_at(self, wanted: Wanted, upstreams: Collection[str]) -> dict[int, Lane]:
        """The lanes whose jobs are asked for by upstream: of those named, and all retries."""
        known = self._fresh()
        return {
            id_: lane
            for id_, lane in known.by_id.items()
            if (lane.retry or lane.upstream in upstreams or _guarded(lane, wanted.guarded))
            and lane.task in wanted.tasks
            and (wanted.queues is None or lane.queue in wanted.queues)
            and id_ not in known.over
        }

    def of(self, upstreams: Collection[str]) -> dict[int, Lane]:
        """The lanes of these upstreams, by id."""
        return {
            id_: lane for id_, lane in self._fresh().by_id.items() if lane.upstream in upstreams
        }

    def at(self, upstream: str) -> list[Lane]:
        """The lanes of this upstream that are known."""
        return [lane for lane in self._known.by_id.values() if lane.upstream == upstream]

    def refresh(self) -> None:
        """Look for news now if a visit would: the next one may not ask."""
        self._fresh()

    def _fresh(self) -> _Known:
        return self._learned() if self._monotonic() >= self._look_again_at else self._known

    def look_again(self) -> None:
        """A claim met a lane that was not known: learn it before the next visit."""
        self._look_again_at = 0.0

    def start_over(self) -> None:
        """Jobs were put back at their old places: the next visit begins at every lane's start."""
        self._marks, self._marks_ahead = {}, {}

    def forget(self) -> None:
        """A lane that was known is gone, as after a restore: learn all of them anew."""
        self._known = _Known([])

    def _turns(self, known: _Known, wanted: Wanted) -> list[Turn]:
        by_id, served = known.by_id, frozenset(wanted.tasks)
        ours = [
            id_
            for id_, lane in by_id.items()
            if lane.task in served
            and lane.retry is wanted.retry
            and _meant(lane, wanted)
            and id_ not in known.over
        ]
        if wanted.queues is not None:
            named = frozenset(wanted.queues)
            ours = [id_ for id_ in ours if by_id[id_].queue in named]
        ours.sort(key=lambda id_: (-by_id[id_].priority, id_))
        equals = [list(ids) for _, ids in groupby(ours, key=lambda id_: by_id[id_].priority)]
        return [Turn(ids, self._randrange(len(ids))) for ids in equals]

    def _learned(self) -> _Known:
        known = self._looked_up()
        self._look_again_at = self._monotonic() + LOOK_AGAIN_SECONDS
        self.start_over()
        return known

    def _looked_up(self) -> _Known:
        found = self._backend.all("all_lanes")
        known = self._known
        if found != known.found:  # otherwise the turns go on where they were
            known = _Known(found)
            self._known = known
        return known


def _meant(lane: Lane, wanted: Wanted) -> bool:
    """Whether the lane's upstream, its owner and its priority are those that a claim is for."""
    if wanted.upstream is None:
        return not _guarded(lane, wanted.guarded)
    return (
        lane.upstream == wanted.upstream
        and wanted.owner in (None, lane.owner)
        and wanted.priority in (None, lane.priority)
    )


def _guarded(lane: Lane, guarded: frozenset[str]) -> bool:
    name = lane.upstream
    return bool(guarded and name) and (name in guarded or name.partition(":")[0] in guarded)
