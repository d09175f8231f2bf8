"""A worker that writes down what it asks and what it is answered, and may be killed at any moment.

    python -m tests.crash.worker URL LOG NAME work|drain

It waits for a line on its standard input before it opens the store. Its log has a line before each
ask and one after it: whoever kills it leaves at most the last ask without its answer. A draining
worker ends every job well, and stops when none is left.
"""

import json
import math
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from seawall.errors import StoreUnavailableError
from seawall.faults import Fault, FaultCode
from seawall.model import Lane, Outcome, Settlement, Token
from seawall.states import State
from seawall.store import Store, open_store
from seawall.store.values import Advance, Answer, Claim, Reclaim, Release, Wanted

QUEUES = ("default", "bulk")
TASKS = ("fetch", "store")
MOST_LOSSES = 6
LONGEST_STALL_SECONDS = 1.5
_TIMEOUT = Fault(FaultCode.TIMEOUT, "no answer")
_GONE = Fault(FaultCode.WORKER_LOST, "the worker is gone")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Asked = Callable[[], tuple[Sequence[Answer], Sequence[Claim]]]


class Log:
    """Lines that are in the file when `write` returns."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._asks = 0

    def write(self, **line: Any) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def asked(
        self,
        verb: str,
        rows: Sequence[Any],
        ask: Asked,
        *,
        wanted: Wanted | None = None,
        until: int = 0,
    ) -> tuple[Sequence[Answer], Sequence[Claim]]:
        """Ask, and ask again for as long as the store is not available."""
        lease = 0 if wanted is None else math.ceil(wanted.lease_seconds * 1_000_000)
        while True:
            self._asks += 1
            most = 0 if wanted is None else wanted.limit
            self.write(ask=self._asks, verb=verb, rows=rows, claims=most, until=until)
            try:
                answers, claims = ask()
            except StoreUnavailableError as error:
                self.write(answered=self._asks, unavailable=str(error))
                continue
            results = [answer.result for answer in answers]
            ends = [_microseconds(claim.lease_until) for claim in claims]
            taken = [[*c.token, end - lease, end] for c, end in zip(claims, ends, strict=True)]
            self.write(answered=self._asks, results=results, claims=taken)
            return answers, claims


def _microseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)


class Worker:
    def __init__(self, store: Store, log: Log, name: str, *, draining: bool) -> None:
        self._store = store
        self._log = log
        self._name = name
        self._draining = draining
        self._rng = random.Random(name)
        self._parent = os.getppid()

    def run(self) -> None:
        hands: list[Claim] = []
        while os.getppid() == self._parent and not self._done(hands):
            self._upkeep()
            if not hands:
                hands = self._claimed()
            if not hands:
                self._store.wait(0.05)
                continue
            hands = self._worked(hands)

    def _done(self, hands: Sequence[Claim]) -> bool:
        if hands or not self._draining:
            return False
        counts = self._store.counts()
        return counts[State.QUEUED] + counts[State.RUNNING] == 0

    # --- upkeep -------------------------------------------------------------------------------

    def _upkeep(self) -> None:
        lapses = self._store.lapsed(limit=20)
        if lapses:
            reclaims = [
                Reclaim(
                    token=lapse.token,
                    fault=_GONE,
                    delay_seconds=0.02 if lapse.losses < MOST_LOSSES else None,
                )
                for lapse in lapses
            ]
            rows = [[*each.token, Outcome.LOST] for each in reclaims]
            self._log.asked("reclaim", rows, lambda: (self._store.reclaim(reclaims), ()))
        self._store.expire(limit=20)
        self._store.straighten(limit=20)

    # --- an attempt ---------------------------------------------------------------------------

    def _wanted(self) -> Wanted:
        lease = self._rng.uniform(0.5, 1.0)
        return Wanted(self._name, QUEUES, TASKS, self._rng.randint(1, 8), lease)

    def _claimed(self) -> list[Claim]:
        wanted = self._wanted()
        _, claims = self._log.asked(
            "claim", [], lambda: ((), self._store.claim(wanted)), wanted=wanted
        )
        return list(claims)

    def _worked(self, hands: list[Claim]) -> list[Claim]:
        """Carry out an attempt of each; answers what was claimed together with their ends."""
        tokens = [claim.token for claim in hands]
        if not self._draining:
            self._work()
            tokens = self._released(tokens)
            tokens = self._advanced(tokens, {claim.token: claim.lane for claim in hands})
            self._work()
        if not tokens:
            return []
        if self._rng.random() < 0.5:
            self._renewed(tokens)
        return self._ended([self._end(token) for token in tokens])

    def _work(self) -> None:
        """For a moment; now and then for longer than any lease lasts."""
        stalls = self._rng.random() < 0.02
        time.sleep(LONGEST_STALL_SECONDS if stalls else self._rng.uniform(0.0, 0.04))

    def _renewed(self, tokens: list[Token]) -> None:
        rows = [[*token, "renewed"] for token in tokens]
        until = _microseconds(self._store.now()) + 1_000_000  # or later: it is not asked yet
        self._log.asked(
            "renew", rows, lambda: (self._store.renew(tokens, lease_seconds=1.0), ()), until=until
        )

    def _released(self, tokens: list[Token]) -> list[Token]:
        """Hand some back, begun or not; answers those that stay."""
        some = [token for token in tokens if self._rng.random() < 0.1]
        if some:
            took = [self._rng.choice([None, 0.0]) for _ in some]
            releases = [
                Release(token=token, duration_seconds=each)
                for token, each in zip(some, took, strict=True)
            ]
            rows = [
                [*token, "unstarted" if each is None else Outcome.RELEASED]
                for token, each in zip(some, took, strict=True)
            ]
            self._log.asked("release", rows, lambda: (self._store.release(releases), ()))
        return [token for token in tokens if token not in some]

    def _advanced(self, tokens: list[Token], lanes: dict[Token, Lane]) -> list[Token]:
        """Take some to their next stage; answers the tokens that they go on under."""
        some = [t for t in tokens if lanes[t].stage < 2 and self._rng.random() < 0.2]
        if not some:
            return tokens
        advances = [
            Advance(token=t, lane=Lane(lanes[t].task, stage=lanes[t].stage + 1), output=f"{t}")
            for t in some
        ]
        rows = [[*token, Outcome.ADVANCED] for token in some]
        answers, _ = self._log.asked("advance", rows, lambda: (self._store.advance(advances), ()))
        moved = {t: a.state is not None for t, a in zip(some, answers, strict=True)}
        return [t.next() if moved.get(t) else t for t in tokens]

    def _end(self, token: Token) -> Settlement:
        outcomes = [Outcome.SUCCEEDED, Outcome.RETRIED, Outcome.FAILED, Outcome.SKIPPED]
        weights = [1, 0, 0, 0] if self._draining else [4, 4, 1, 1]
        (outcome,) = self._rng.choices(outcomes, weights)
        return Settlement(
            token=token,
            outcome=outcome,
            fault=_TIMEOUT if outcome in (Outcome.RETRIED, Outcome.FAILED) else None,
            delay_seconds=self._rng.uniform(0, 0.2) if outcome is Outcome.RETRIED else None,
            output=f"{token}" if outcome is Outcome.SUCCEEDED else None,
        )

    def _ended(self, ends: list[Settlement]) -> list[Claim]:
        rows = [[*end.token, end.outcome] for end in ends]
        claims: Sequence[Claim] = ()
        if self._rng.random() < 0.5:
            wanted = self._wanted()
            _, claims = self._log.asked(
                "exchange", rows, lambda: self._store.exchange(ends, wanted), wanted=wanted
            )
        else:
            self._log.asked("settle", rows, lambda: (self._store.settle(ends), ()))
        if self._rng.random() < 0.1:  # as if the answer had not arrived
            self._log.asked("settle", rows, lambda: (self._store.settle(ends), ()))
        return list(claims)


def main() -> None:
    url, path, name, how = sys.argv[1:]
    if not sys.stdin.readline():
        return
    log = Log(path)
    with open_store(url) as store:
        log.write(up=name)
        Worker(store, log, name, draining=how == "drain").run()
        log.write(down=name)


if __name__ == "__main__":
    main()
