"""Claiming: which lanes are visited, what is asked for, and what came of it."""

import json
from typing import TYPE_CHECKING

from seawall.model import Token, need_lease, need_name
from seawall.store import rows
from seawall.store.fleet import Fleet
from seawall.store.values import Claim, Wanted, need_tokens, need_wanted

if TYPE_CHECKING:
    from datetime import datetime

    from seawall.model import Lane
    from seawall.store.backend import Row, Values
    from seawall.store.lanes import Visit

ATTEMPTS_REMEMBERED = 200
"""How many attempts back a claim looks for what went wrong."""
_LAST_LANE = 2**63 - 1


class Claiming(Fleet):
    """Part of the ledger: see `port.Store` for what each verb promises."""

    def claim(self, wanted: Wanted) -> list[Claim]:
        need_wanted(wanted)
        visit = self._lanes.visit(wanted)
        taken = self._backend.all("claim", **self._asking_for(wanted, visit))
        return self._claims(taken, visit)

    def take_back(self, token: Token, *, worker: str, lease_seconds: float) -> Claim | None:
        need_tokens([token])
        need_name("worker", worker)
        need_lease(lease_seconds)
        lease = rows.microseconds(lease_seconds)
        taken = self._backend.all(
            "take_back",
            id=token.job_id,
            lease_no=token.lease_no,
            seq=token.seq,
            worker=worker,
            lease=lease,
        )
        for row in taken:
            return rows.claim(row, rows.lane_of(json.loads(row[-1])), self._backend.read)
        return None

    def _asking_for(self, wanted: Wanted, visit: "Visit") -> "Values":
        # A lane made since then is of no upstream that the caller could mean.
        known = visit.known if wanted.upstream is None else _LAST_LANE
        return {
            "queues": self._backend.names(wanted.queues),
            "tasks": self._backend.names(wanted.tasks),
            "visit": self._backend.ids(visit.order),
            "since": self._backend.times(visit.since),
            "known": known,
            "guarded": self._backend.names(sorted(wanted.guarded)),
            "remembered": ATTEMPTS_REMEMBERED,
            **rows.wanted(wanted),
        }

    def _claims(self, taken: "list[Row]", visit: "Visit") -> list[Claim]:
        """What was taken, in words. The leases stand already, so nothing here may ask the store."""
        lanes: dict[int, Lane] = {}
        latest: dict[int, datetime] = {}
        claims = []
        for row in sorted(taken, key=rows.BY_AGE):
            lane_id = row[3]
            if lane_id not in lanes:
                lanes[lane_id] = visit.lanes.get(lane_id) or rows.lane_of(json.loads(row[-1]))
            claim = rows.claim(row, lanes[lane_id], self._backend.read)
            claims.append(claim)
            latest[lane_id] = claim.due_at
        visit.served(latest)
        if not lanes.keys() <= visit.lanes.keys():
            self._lanes.look_again()  # a lane that we did not know
        if len({lane.priority for lane in lanes.values()}) > 1:
            claims.sort(key=lambda claim: -claim.lane.priority)
        return claims
