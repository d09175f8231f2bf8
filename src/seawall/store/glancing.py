"""The verbs for those who keep looking: bounded counts, and one look for all upstreams."""

import json
from collections import Counter
from collections.abc import Collection, Mapping

from seawall.model import need_name, need_span
from seawall.states import State
from seawall.store.backend import Backend
from seawall.store.lanes import Lanes
from seawall.store.values import Lately, OwnStanding

_MOST = 10_000_000


class Glancing:
    """Part of the ledger: see `port.Store` for what each verb promises."""

    _backend: Backend
    _lanes: Lanes

    def waiting_at(self, upstreams: Collection[str], *, most: int) -> dict[str, int]:
        _need_bound(most)
        lanes = self._lanes.of(upstreams)
        found = Counter(dict.fromkeys(upstreams, 0))
        if lanes:
            visit = self._backend.ids(list(lanes))
            for lane_id, many in self._backend.all("count_waiting", visit=visit, most=most):
                found[lanes[lane_id].upstream] += many
        return {name: min(many, most) for name, many in found.items()}

    def open_letters(self, *, most: int) -> int:
        _need_bound(most)
        return int(self._backend.all("count_open_letters", most=most)[0][0])

    def standing_of(self, owner: str, *, most: int) -> OwnStanding:
        need_name("owner", owner)
        _need_bound(most)
        found = self._backend.all("standing_of_owner", owner=owner, most=most)
        lanes = self._lanes.named(row[0] for row in found)
        waiting: Counter[str] = Counter()
        for lane_id, state, many, _ in found:
            if state == State.QUEUED and lanes[lane_id].upstream:
                waiting[lanes[lane_id].upstream] += many
        return OwnStanding(
            dict(waiting),
            open_letters=sum(row[3] for row in found),
            whole=sum(row[2] for row in found) < most,
        )

    def lately(self, spans: Mapping[str, float], *, within_seconds: float) -> dict[str, Lately]:
        for name, seconds in spans.items():
            need_name("upstream", name)
            need_span(name, seconds)
        need_span("within_seconds", within_seconds)
        asked = json.dumps([[name, int(seconds)] for name, seconds in spans.items()])
        found = self._backend.all("seen_lately", asked=asked, seconds=int(within_seconds))
        seen = {row[0]: Lately(*row[1:]) for row in found}
        return {name: seen.get(name, Lately()) for name in spans}


def _need_bound(most: int) -> None:
    if type(most) is not int or not 1 <= most <= _MOST:
        raise ValueError(f"most: found {most!r:.80}, expected 1 to {_MOST:,}")
