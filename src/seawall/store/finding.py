"""Finding jobs: those that match, in parts, at a cost that does not grow with how many there are.

A list has an index that it walks; whatever else is asked for is looked at row by row. So a look
goes only so far: it ends after so many rows, whether they matched or not, and the next part goes
on from there. Arguments are looked into as they are shown: a search must not tell what nobody is
shown, so that a row whose text stands only in what looks like a secret is passed over as if it did
not match, and leaves no trace in what is answered.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

from seawall.model import Job, Lane
from seawall.redact import redacted
from seawall.store import paging, rows
from seawall.store.backend import Backend, Row, Values
from seawall.store.lanes import Lanes
from seawall.store.paging import Place
from seawall.store.values import MOST_ROWS, Filter, Ids, Page, need_limit

LOOKED_AT = 10_000
"""Jobs that one ask looks at, whether they match or not."""
LOOKED_INTO = 2_000
"""The same where their arguments are read."""
_LEAST_OF_A_LANE = 10
_READ_AT_ONCE = 100


class _Look(NamedTuple):
    """One look at a list: what is asked for, and from where to where it goes."""

    order: str
    which: Filter
    lanes: dict[int, Lane]
    """Those in which such jobs can be."""
    asked: Values
    until: Place | None


class Finding:
    """Part of the ledger: see `port.Store` for what each verb promises."""

    _backend: Backend
    _lanes: Lanes

    def jobs(self, job_ids: Sequence[int]) -> dict[int, Job]:
        raise NotImplementedError

    def page(self, which: Filter, *, after: str | None = None, limit: int = 50) -> Page:
        found = self.find(which, after=after, limit=limit)
        jobs = self.jobs(found.ids)
        # One that has moved on between the two looks is in this list no more.
        still = [
            jobs[id_] for id_ in found.ids if id_ in jobs and which.state in (None, jobs[id_].state)
        ]
        return Page(tuple(still), found.next, found.whole)

    def find(self, which: Filter, *, after: str | None = None, limit: int = MOST_ROWS) -> Ids:
        need_limit(limit)
        order = paging.order_of(which)
        place = paging.place(order, after)
        look = self._look(order, which, place)
        if not look.lanes:  # nowhere such a job could be
            return Ids((), None)
        found = self._shown(look, place, limit + 1)
        ids = tuple(id_ for _, id_ in found[:limit])
        if len(found) > limit:
            return Ids(ids, paging.word(order, self._place(found[limit - 1])))
        if look.until is None:
            return Ids(ids, None)
        return Ids(ids, paging.word(order, look.until), whole=False)

    # --- how far ------------------------------------------------------------------------------

    def _look(self, order: str, which: Filter, place: Place) -> _Look:
        every = self._lanes.every()
        lanes = {
            id_: lane
            for id_, lane in every.items()
            if which.task in (None, lane.task)
            and which.queue in (None, lane.queue)
            and which.run in (None, lane.run)
        }
        asked = rows.filtered(which, self._backend.written)
        if order != paging.QUEUED:
            all_of_them = len(lanes) == len(every)
            asked["lanes"] = None if all_of_them else self._backend.ids(list(lanes))
            asked["tasks"] = self._backend.names(list({lane.task for lane in lanes.values()}))
        look = _Look(order, which, lanes, asked, None)
        return look._replace(until=self._until(look, place))

    def _until(self, look: _Look, place: Place) -> Place | None:
        """The last row that is looked at; None where the list ends before that."""
        name = paging.look_of(look.order, look.which)
        if name is None or not look.lanes:
            return None
        most = LOOKED_AT if look.which.argument is None else LOOKED_INTO
        asked = {**look.asked, **self._after(place)}
        if look.order != paging.QUEUED:
            found = self._backend.all(name, **asked, most=most)
        else:
            # What comes after the end of one lane's look was perhaps not looked at in that lane.
            most = max(most // len(look.lanes), _LEAST_OF_A_LANE)
            visits = [{"lane": id_} for id_ in look.lanes]
            found = sorted(self._backend.batch(name, visits, **asked, most=most))
        return self._place(found[0]) if found else None

    # --- what is there ------------------------------------------------------------------------

    def _shown(self, look: _Look, place: Place, limit: int) -> list[Row]:
        """The times and ids of jobs that match, and that may be told of, after a place."""
        if look.which.argument is None:
            return self._found(look, place, limit)
        shown: list[Row] = []
        while True:
            part = self._found(look, place, _READ_AT_ONCE)
            shown += self._as_shown(part, look.asked["argument"])
            if len(part) < _READ_AT_ONCE or len(shown) >= limit:
                return shown[:limit]
            place = self._place(part[-1])

    def _as_shown(self, found: list[Row], text: str) -> list[Row]:
        """Those whose arguments hold the text when they are shown, too."""
        given = [{"id": id_} for _, id_ in found]
        texts: dict[int, str] = dict(self._backend.batch("read_texts", given)) if given else {}
        return [row for row in found if row[1] in texts and _is_shown(texts[row[1]], text)]

    def _found(self, look: _Look, place: Place, limit: int) -> list[Row]:
        """The times and ids of jobs that match, after a place and up to where the look ends."""
        until = look.until or Place(None, paging.LAST_ID if look.order == paging.QUEUED else 0)
        asked = {
            **look.asked,
            **self._after(place),
            "until_at": None if until.at is None else self._backend.written(until.at),
            "until_id": until.id,
            "limit": limit,
        }
        if look.order != paging.QUEUED:
            return self._backend.all(look.order, **asked)
        visits = [{"lane": id_} for id_ in look.lanes]
        return sorted(self._backend.batch(look.order, visits, **asked))[:limit]

    def _after(self, place: Place) -> Values:
        at = None if place.at is None else self._backend.written(place.at)
        return {"after_at": at, "after_id": place.id}

    def _place(self, row: Row) -> Place:
        at, id_ = row
        return Place(None if at is None else self._backend.read(at), id_)


def _is_shown(arguments: str, text: str) -> bool:
    """Whether the text, already folded, stands in what people see of the arguments."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return False
    shown = redacted(value)
    if shown == value:
        return True
    return text in rows.folded(json.dumps(shown, ensure_ascii=False, separators=(",", ":")))
