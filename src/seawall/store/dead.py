"""The verbs about dead letters: finding them, counting them, and saying that they are dealt with.

Nobody writes a letter here: it comes with the failure itself (`settle`, `reclaim`, `expire`) and is
marked by the redrive (`redrive`), each in one write. Lists go from the newest to the oldest, so
that what fails while somebody walks one comes before the place where that walk stands.
"""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from seawall.faults import FaultCode
from seawall.model import Lane, need_name, need_span
from seawall.store import paging, rows
from seawall.store.backend import Backend, Row, Values
from seawall.store.lanes import Lanes
from seawall.store.letters import (
    DeadLetter,
    Dealt,
    LetterFilter,
    LetterGroup,
    LetterGroups,
    LetterPage,
    LetterState,
    Pile,
    Trend,
    kind_of,
)
from seawall.store.values import MOST_ROWS, is_id, need_batch, need_limit

MOST_GROUPS = 100
MOST_SAMPLES = 5
"""Of a group."""
_LOOKED_AT = 50
"""Of the newest of a group, for samples that differ."""
MOST_PARTS = 200
MOST_COUNTED = 2_000
"""Letters of a group, in one state, that a trend counts."""
_COUNTED_IN_ALL = 40_000
_ANY = "page_letters"
_ALIKE = "page_letters_alike"
_OF_RUN = "page_letters_of_run"
LONGEST_NOTE = 1_000


class Dead:
    """Part of the ledger: see `port.Store` for what each verb promises."""

    _backend: Backend
    _lanes: Lanes

    def now(self) -> datetime:
        raise NotImplementedError

    # --- finding ------------------------------------------------------------------------------

    def letters(
        self, which: LetterFilter, *, after: str | None = None, limit: int = 50
    ) -> LetterPage:
        need_limit(limit)
        order = _order_of(which)
        asked = self._asked(which)
        place = paging.letters_place(order, after)
        asked["after_at"] = None if place.at is None else self._backend.written(place.at)
        asked |= {"after_id": place.id, "limit": limit + 1}
        visits: list[Values] = [{"state": state} for state in _states(which)]
        if order == _ALIKE:
            visits = [{**visit, "fingerprint": asked["fingerprint"]} for visit in visits]
            del asked["fingerprint"]
        found = self._read_letters(self._backend.batch(order, visits, **asked))
        found.sort(key=lambda each: (each.last_at, each.job_id), reverse=True)
        if len(found) <= limit:
            return LetterPage(tuple(found), None)
        last = paging.Place(found[limit - 1].last_at, found[limit - 1].job_id)
        return LetterPage(tuple(found[:limit]), paging.word(order, last))

    def letters_of(self, job_ids: Sequence[int]) -> dict[int, DeadLetter]:
        need_batch(job_ids)
        given = [{"id": job_id} for job_id in set(job_ids) if is_id(job_id)]
        found = self._read_letters(self._backend.batch("read_letters", given))
        return {each.job_id: each for each in found}

    def count_letters(self, which: LetterFilter) -> list[Pile]:
        found = self._backend.all("count_letters", **self._asked_at_once(which))
        lanes = self._lanes.named(row[1] for row in found)
        counts: dict[tuple[str, str, str, int, str], int] = {}
        for state, lane_id, stage, code, many in found:
            place = (state, lanes[lane_id].task, lanes[lane_id].queue, stage, code)
            counts[place] = counts.get(place, 0) + many
        piles = [
            Pile(LetterState(state), task, queue, stage, _code(code), many)
            for (state, task, queue, stage, code), many in counts.items()
        ]
        return sorted(piles, key=lambda pile: (-pile.letters, *pile[:-1]))

    def letter_groups(self, which: LetterFilter, *, limit: int = 20) -> LetterGroups:
        need_limit(limit)
        limit = min(limit, MOST_GROUPS)
        asked = self._asked_at_once(which)
        found = self._backend.all("group_letters", limit=limit, **asked)
        if not found:
            return LetterGroups((), 0, 0)
        total, letters = found[0][-2:]
        samples = self._samples(which, [row[0] for row in found])
        lanes = self._lanes.named(id_ for row in found for id_ in json.loads(row[7]))
        judged = self._judged([each for group in samples.values() for each in group])
        now = self.now()
        groups = [
            self._group(row, lanes, samples.get(row[0], []), letters, judged, now) for row in found
        ]
        return LetterGroups(tuple(groups), total, letters)

    def _judged(self, letters: list[DeadLetter]) -> dict[int, tuple[str | None, str | None]]:
        """By job: the policy that judged its last attempt, and what that one was made with."""
        given = [{"id": each.job_id, "seq": each.attempts} for each in letters[:MOST_ROWS]]
        found = self._backend.batch("read_ends", given) if given else []
        return {job_id: (policy, config) for job_id, policy, config in found}

    def _group(
        self,
        row: Row,
        lanes: dict[int, Lane],
        samples: list[DeadLetter],
        letters: int,
        judged: dict[int, tuple[str | None, str | None]],
        now: datetime,
    ) -> LetterGroup:
        seen = [judged[each.job_id] for each in samples if each.job_id in judged]
        fingerprint, count, came_back, first_at, last_at, codes, stages, lane_ids, *_ = row
        return LetterGroup(
            fingerprint=fingerprint,
            count=count,
            share=count / letters,
            came_back=came_back,
            first_at=self._backend.read(first_at),
            last_at=self._backend.read(last_at),
            codes=tuple(sorted(map(_code, json.loads(codes)))),
            stages=tuple(sorted(json.loads(stages))),
            tasks=tuple(sorted({lanes[id_].task for id_ in json.loads(lane_ids)})),
            samples=tuple(_different(samples)),
            kind=kind_of(first_at=self._backend.read(first_at), came_back=came_back, now=now),
            policies=tuple(sorted({policy for policy, _ in seen if policy is not None})),
            configs=tuple(sorted({config for _, config in seen if config is not None})),
        )

    def letter_trends(
        self,
        which: LetterFilter,
        fingerprints: Sequence[str],
        *,
        seconds: float = 86_400.0,
        parts: int = 24,
    ) -> dict[str, Trend]:
        names = list(dict.fromkeys(fingerprints))
        need_trends(names, seconds, parts)
        begin = self.now() - timedelta(seconds=seconds)
        asked = self._asked(which)
        if asked.pop("fingerprint") is not None:
            names = [name for name in names if name == which.fingerprint]
        visits = [
            {"state": state, "fingerprint": name} for state in _states(which) for name in names
        ]
        most = min(MOST_COUNTED, _COUNTED_IN_ALL // max(len(visits), 1))
        asked |= {
            "begin": self._backend.written(begin), "parts": parts,
            "span": rows.microseconds(seconds), "limit": most,
        }  # fmt: skip
        counts = {name: [0] * parts for name in names}
        seen: Counter[tuple[str, str]] = Counter()
        for name, state, part, many in self._backend.batch("letter_trends", visits, **asked):
            counts[name][part] += many
            seen[name, state] += many
        cut = {name for (name, _), many in seen.items() if many >= most}
        return {
            name: Trend(begin, seconds / parts, tuple(found), whole=name not in cut)
            for name, found in counts.items()
        }

    def _samples(self, which: LetterFilter, names: list[str]) -> dict[str, list[DeadLetter]]:
        """The newest of each group, the newest first."""
        asked = self._asked(which)
        del asked["fingerprint"]
        limit = min(_LOOKED_AT, MOST_ROWS // len(names))
        visits = [
            {"state": state, "fingerprint": name} for state in _states(which) for name in names
        ]
        found = self._backend.batch(
            _ALIKE, visits, after_at=None, after_id=paging.LAST_ID, **{**asked, "limit": limit}
        )
        samples: dict[str, list[DeadLetter]] = {}
        letters = self._read_letters(found)
        letters.sort(key=lambda each: (each.last_at, each.job_id), reverse=True)
        for each in letters:
            samples.setdefault(each.fingerprint, []).append(each)
        return samples

    def _read_letters(self, found: list[Row]) -> list[DeadLetter]:
        lanes = self._lanes.named(row[2] for row in found)
        return [rows.letter(row, lanes[row[2]], self._backend.read) for row in found]

    def _asked(self, which: LetterFilter) -> Values:
        """The filter as the statements of pages take it, without the states."""
        backend = self._backend
        asked = rows.letters_filtered(which, backend.written)
        asked["lanes"] = None
        if which.task is not None or which.queue is not None:
            ours = [
                id_
                for id_, lane in self._lanes.every().items()
                if which.task in (None, lane.task) and which.queue in (None, lane.queue)
            ]
            asked["lanes"] = backend.ids(ours)
        return asked

    def _asked_at_once(self, which: LetterFilter) -> Values:
        return {**self._asked(which), "states": self._backend.names(_states(which))}

    # --- dealing with them --------------------------------------------------------------------

    def dismiss(self, job_ids: Sequence[int], *, note: str, by: str | None = None) -> list[Dealt]:
        need_note(note)
        if by is not None:
            need_name("by", by)
        return self._dealt("dismiss", job_ids, note=note, by=by)

    def undismiss(self, job_ids: Sequence[int]) -> list[Dealt]:
        return self._dealt("undismiss", job_ids)

    def _dealt(self, verb: str, job_ids: Sequence[int], **values: object) -> list[Dealt]:
        need_batch(job_ids)
        given: list[Values] = [{"id": id_} for id_ in sorted(set(job_ids)) if is_id(id_)]
        changed: dict[int, str] = dict(self._backend.batch(verb, given, **values)) if given else {}
        done = {id_: Dealt(done=True, state=LetterState(state)) for id_, state in changed.items()}
        left = [id_ for id_ in set(job_ids) if id_ not in done]
        for id_, letter in self.letters_of(left).items() if left else ():
            done[id_] = Dealt(done=False, state=letter.state)
        return [done.get(id_, Dealt(done=False, state=None)) for id_ in job_ids]

    # --- upkeep -------------------------------------------------------------------------------

    def new_letters(self, *, every: int) -> int:
        need_limit(min(every, MOST_ROWS))
        found = self._backend.all("new_letters", every=every)
        return int(found[0][0]) if found else 0

    def prune_dismissed(self, *, older_than_seconds: float, limit: int = MOST_ROWS) -> int:
        need_limit(limit)
        need_span("older_than_seconds", older_than_seconds)
        age = rows.microseconds(older_than_seconds)
        return len(self._backend.all("prune_dismissed", age=age, limit=limit))


def need_note(found: object) -> None:
    """`ValueError` unless this is a line that somebody can make sense of later."""
    if not isinstance(found, str) or not found.strip():
        raise ValueError(f"note: found {found!r:.80}, expected a few words")
    if len(found) > LONGEST_NOTE:
        raise ValueError(f"note: {len(found):,} characters, expected at most {LONGEST_NOTE:,}")
    if not all(sign.isprintable() or sign in "\n\t" for sign in found):
        raise ValueError(f"note: found {found!r:.80}, expected printable characters only")


def need_trends(names: Sequence[str], seconds: float, parts: object) -> None:
    """`ValueError` where such trends cannot be told."""
    if len(names) > MOST_GROUPS:
        raise ValueError(f"fingerprints: found {len(names):,}, expected at most {MOST_GROUPS}")
    for name in names:
        need_name("fingerprint", name)
    need_span("seconds", seconds)
    if seconds < 1:
        raise ValueError(f"seconds: found {seconds!r}, expected at least 1")
    good = type(parts) is int and 1 <= parts <= MOST_PARTS
    if not good:
        raise ValueError(f"parts: found {parts!r:.80}, expected 1 to {MOST_PARTS}")


def _order_of(which: LetterFilter) -> str:
    """The statement that walks the letters in question and as few others as may be."""
    if which.fingerprint is not None:
        return _ALIKE
    return _ANY if which.run is None else _OF_RUN


def _states(which: LetterFilter) -> list[str]:
    return [str(state) for state in LetterState if which.state in (None, state)]


def _code(text: str) -> FaultCode:
    """A code that only a later version knows is told as one that is not known."""
    return FaultCode[text] if text in FaultCode.__members__ else FaultCode.UNKNOWN


def _different(samples: list[DeadLetter]) -> list[DeadLetter]:
    """At most so many, those with messages that were not seen yet first."""
    seen: set[str] = set()
    new: list[DeadLetter] = []
    others: list[DeadLetter] = []
    for each in samples:
        (others if each.fault.message in seen else new).append(each)
        seen.add(each.fault.message)
    return (new + others)[:MOST_SAMPLES]
