"""What is known of upstreams: how calls at them ended, and which of them are under watch.

The store keeps what was decided about an upstream as text and does not understand it. What it
promises is that one caller at a time decides: `govern` locks the upstream, and what is
claimed and written inside is there together or not at all.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from seawall.model import Lane, need_name, need_span, need_text, need_time
from seawall.store import rows
from seawall.store.backend import Session, Step
from seawall.store.claiming import Claiming
from seawall.store.fleet import workers_in
from seawall.store.pace_values import Turn, UpstreamPhase
from seawall.store.values import (
    MOST_ROWS,
    Claim,
    Observation,
    Observed,
    Present,
    Wanted,
    Watched,
    need_limit,
    need_observations,
    need_wanted,
)

MOST_OBSERVED = 10_000
"""How many lines about an upstream are read at most: the newest."""


class Desk:
    """An upstream that this caller alone decides about, until its block ends."""

    def __init__(
        self, ledger: "Watching", session: Session, name: str, state: str, now: datetime, turn: Turn
    ) -> None:
        self._ledger = ledger
        self._session = session
        self.name = name
        self.state = state
        """What was written down last; empty where it was not under watch."""
        self.now = now
        """The store's clock."""
        self._turn = turn.at(now)

    def observed(self, *, within_seconds: float) -> list[Observed]:
        """How its calls ended lately, the newest first."""
        return observed_in(self._session, self.name, within_seconds)

    def workers(self, *, within_seconds: float) -> list[Present]:
        """The workers that are alive."""
        return workers_in(self._session, within_seconds, self._ledger.read)

    def lanes(self) -> list[Lane]:
        """The lanes in which its jobs wait, or have waited."""
        return self._ledger.lanes_at(self.name)

    def claim(self, wanted: Wanted) -> list[Claim]:
        """`claim`, of this upstream's jobs."""
        need_wanted(wanted)
        return self._ledger.claimed_in(self._session, wanted._replace(upstream=self.name))

    def keep(
        self,
        state: str,
        *,
        gated: bool,
        held_until: datetime | None = None,
        reason: str = "",
        turn: Turn | None = None,
    ) -> None:
        """Write down what was decided; of a gated one nobody else may claim.

        And how its breaker stands from now on, where that is told and is something new.
        """
        need_text("state", state)
        need_name("reason", reason, empty=True)
        if held_until is not None:
            need_time("held_until", held_until)
        until = None if held_until is None else self._ledger.written(held_until)
        values = {"state": state, "gated": gated, "held_until": until, "reason": reason}
        self._session.all("keep_upstream", name=self.name, **values)
        if turn is not None:
            self._note(turn)

    def drop(self) -> None:
        """There is nothing to be remembered about it: it is well."""
        self._session.all("drop_upstream", name=self.name)
        self._note(Turn())

    def _note(self, turn: Turn) -> None:
        if turn == self._turn:
            return
        self._turn = turn
        written = self._ledger.written
        until = None if turn.until is None else written(turn.until)
        at = written(self.now)
        self._session.all("note_phase", name=self.name, at=at, phase=str(turn.phase), until=until)


class Watching(Claiming):
    """Part of the ledger: see `port.Store` for what each verb promises."""

    def observe(self, observations: Sequence[Observation]) -> None:
        need_observations(observations)
        self._backend.together(self._observing(observations))

    def _observing(self, observations: Sequence[Observation]) -> list[Step]:
        given = [rows.observation(each) for each in observations]
        return [Step("observe", given)] if given else []

    def observed(self, upstream: str, *, within_seconds: float) -> list[Observed]:
        need_name("upstream", upstream)
        return observed_in(self._backend, upstream, within_seconds)

    def called(self, *, within_seconds: float) -> list[str]:
        need_span("within_seconds", within_seconds)
        seconds = int(within_seconds)
        return [
            row[0]
            for row in self._backend.all("called_upstreams", seconds=seconds, limit=MOST_ROWS)
        ]

    def forget_observations(self, *, older_than_seconds: float, limit: int = MOST_ROWS) -> int:
        need_limit(limit)
        need_span("older_than_seconds", older_than_seconds)
        seconds = int(older_than_seconds)
        return len(self._backend.all("forget_observations", seconds=seconds, limit=limit))

    def watched(self) -> list[Watched]:
        found = self._backend.all("all_upstreams")
        watched = [rows.watched(row, self._backend.read) for row in found]
        return sorted(watched, key=lambda each: each.name)  # databases differ about the alphabet

    def due_at(self, wanted: Wanted, upstreams: Collection[str]) -> list[Lane]:
        lanes = self._lanes.waiting_at(wanted, upstreams)
        if not lanes:
            return []
        found = self._backend.all("due_lanes", visit=self._backend.ids(list(lanes)))
        return [lanes[id_] for (id_,) in found]

    @contextmanager
    def govern(self, upstream: str, *, wait: bool = False) -> Iterator[Desk | None]:
        need_name("upstream", upstream)
        self._lanes.refresh()  # what is claimed inside may ask for nothing but its own statements
        lock = "await_upstream" if wait else "lock_upstream"
        try:
            with self._backend.transaction() as session:
                ((locked,),) = session.all(lock, name=upstream)
                if not locked:
                    yield None
                    return
                ((state, at, phase, until),) = session.all("read_upstream", name=upstream)
                now, over = self.read(at), None if until is None else self.read(until)
                turn = Turn() if phase is None else Turn(UpstreamPhase(phase), over)
                yield Desk(self, session, upstream, state, now, turn)
        except BaseException:
            self._lanes.start_over()  # what was claimed inside may be back in its place
            raise

    def claimed_in(self, session: Session, wanted: Wanted) -> list[Claim]:
        """`claim` inside a transaction."""
        visit = self._lanes.visit(wanted, may_ask=False)
        if not visit.order:
            return []
        return self._claims(session.all("claim", **self._asking_for(wanted, visit)), visit)

    def lanes_at(self, upstream: str) -> list[Lane]:
        """The lanes of an upstream, as they were when its desk was entered."""
        return self._lanes.at(upstream)

    def written(self, time: datetime) -> object:
        return self._backend.written(time)

    def read(self, time: object) -> datetime:
        return self._backend.read(time)


def observed_in(session: Session, upstream: str, within_seconds: float) -> list[Observed]:
    """How its calls ended lately, the newest first."""
    need_span("within_seconds", within_seconds)
    seconds = int(within_seconds)
    found = session.all("observed", upstream=upstream, seconds=seconds, limit=MOST_OBSERVED)
    seen = [Observed(*row) for row in found]
    return sorted(seen, key=lambda each: (-each.second, each.worker))
