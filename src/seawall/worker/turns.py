"""Turns at the store: what the core wants written and claimed is, and what came of it is told.

The clerk carries them out, one at a time. What attempts have to say is said only when their ends
are written: until then they may have been lost to somebody else.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from seawall.current import Said
from seawall.errors import StoreError
from seawall.execute import End, Work, cannot_be_stored
from seawall.hooks import FaultReport
from seawall.model import Settlement, Token
from seawall.spans import Finish
from seawall.states import State
from seawall.store import (
    Advance,
    Answer,
    Claim,
    Ending,
    Observation,
    Progress,
    Release,
    Result,
    Store,
    Wanted,
)
from seawall.telemetry import Event as LogEvent
from seawall.telemetry import emit
from seawall.worker.core import Core
from seawall.worker.events import Advanced, Event, Halted, Shut, Turn, Turned, TurnFailed
from seawall.worker.governor import Attended, Governor
from seawall.worker.news import News
from seawall.worker.scribe import Scribe
from seawall.worker.warden import Warden


class Turns:
    """One worker's turns at its store."""

    def __init__(
        self,
        store: Store,
        core: Core,
        governor: Governor,
        say: News,
        *,
        wanted: Wanted,
        prefetched: Sequence[str],
        work: Callable[[Claim, float], Work],
        stepping: AbstractContextManager[bool],
        tell_failed: Callable[[Sequence[FaultReport]], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._core = core
        self._governor = governor
        self._say = say
        self._wanted = wanted
        self._prefetched = prefetched
        self._work = work
        self._stepping = stepping
        self._tell_failed = tell_failed
        self._scribe = Scribe(store) if store.many_at_once else None
        self.warden = Warden(store)
        self._to_say = dict[Token, Sequence[LogEvent]]()
        """What is said of attempts once their ends are written, where there is anything to say."""
        self._spans = dict[Token, Finish]()
        """What is told in traces then, where anybody traces."""
        self._failed = dict[Token, FaultReport]()
        """What hooks are told then of jobs that have failed by it."""
        self._progress = dict[Token, tuple[float, float | None, str]]()

    def close(self) -> None:
        for token in list(self._spans):  # what was not written by now is done again by others
            self._tell_span(token, lost=True)
        if self._scribe is not None:
            self._scribe.close()

    # --- what attempts have to say ------------------------------------------------------------

    def told(self, end: End, said: Said) -> None:
        """An attempt has ended; what it has to say is said when that is written."""
        token = end.write.token
        if end.events:
            self._to_say[token] = end.events
        if end.span is not None:
            self._spans[token] = end.span
        if end.failed is not None:
            self._failed[token] = end.failed
        if said.progress is not None:
            self._progress[token] = said.progress

    def forget_unless_ours(self, token: Token) -> None:
        """There is nothing to say of an attempt that was taken from us while it ran."""
        tells = self._to_say or self._spans or self._failed
        if tells and not self._core.claim_of(token):
            self._to_say.pop(token, None)
            self._failed.pop(token, None)
            self._tell_span(token, lost=True)

    def lost(self, claim: Claim | None) -> None:
        """Say that a lease was lost, if it was ours; there is nothing else to say of it."""
        if claim is not None:
            self._to_say.pop(claim.token, None)
            self._failed.pop(claim.token, None)
            self._tell_span(claim.token, lost=True)
            self._say.lost(claim)

    def _tell_span(self, token: Token, *, lost: bool = False) -> None:
        span = self._spans.pop(token, None)
        if span is not None:
            span.tell(lost=lost)

    # --- the turn -----------------------------------------------------------------------------

    def carried_out(self, turn: Turn) -> list[Event]:
        """Write what has ended, and claim; what came of it."""
        observations = self._governor.seeing.observations() if self._governor.active else []
        try:
            self._report(turn)
            released = self._store.release(turn.releases) if turn.releases else []
            answers, claims, attended = self._asked(turn, observations)
        except StoreError as error:
            self._governor.seeing.put_back(observations)
            self._say.away(error, self._core.unwritten)
            return [TurnFailed()]
        again_at = attended.again_at
        if answers is None:
            self._governor.seeing.put_back(observations)
            self._lose_older(claims)
            return [Turned(tuple(claims), written=False, again_at=again_at), *self.shut()]
        self._say.back()
        failed = self._failed_by(turn, answers)
        with self._stepping:
            for release, answer in zip(turn.releases, released, strict=True):
                self._written(release, answer)
            instead = [
                again
                for settlement, answer in zip(turn.settlements, answers, strict=True)
                if (answer.result is not Result.DONE or self._to_say or self._spans)
                and (again := self._written(settlement, answer)) is not None
            ]
            self._lose_older(claims)
        self._tell_failed(failed)
        advanced = advanced_in(turn.settlements, answers, self._governor.lets_begin)
        turned = Turned(tuple(claims), tuple(instead), advanced, again_at=again_at)
        return [turned, *self.shut(), *self._halted(turn)]

    def _failed_by(self, turn: Turn, answers: Sequence[Answer]) -> list[FaultReport]:
        """The jobs that have failed by what was just written."""
        if not self._failed:
            return []
        return [
            report
            for each, answer in zip(turn.settlements, answers, strict=True)
            if answer.result is not Result.REFUSED
            and (report := self._failed.pop(each.token, None)) is not None
            and have_failed(answer)
        ]

    def _halted(self, turn: Turn) -> list[Event]:
        """The runs that have to stop by what was just written of their items."""
        claims = [self._core.claim_of(each.token) for each in turn.settlements]
        if not any(claim is not None and claim.run for claim in claims):
            return []
        try:
            runs = self.warden.look(claims, turn.settlements)
        except StoreError:  # the fleet's upkeep looks again
            return []
        return [Halted(runs)] if runs else []

    def shut(self) -> list[Event]:
        """What must not begin any more, whether it was claimed before or just now."""
        if not self._governor.active:
            return []
        names, probes = self._governor.watches.shut()
        return [Shut(names, probes)] if names else []

    def _lose_older(self, claims: Sequence[Claim]) -> None:
        with self._stepping:
            for claim in claims:
                self.lost(self._core.older(claim))

    def _asked(
        self, turn: Turn, observations: Sequence[Observation]
    ) -> tuple[list[Answer] | None, list[Claim], Attended]:
        """Ends are written and jobs claimed; those of upstreams first where they had to wait.

        They take turns: whoever came first this time does not the next time.
        """
        free = 0 if turn.prefetch else turn.limit
        first = Attended([], None)
        if self._governor.starved and free:
            first = self._attended(free)
            free -= len(first.claims)
            turn = Turn(turn.settlements, turn.releases, free, turn.prefetch, turn.ahead)
        if not first.claims:
            answers, claims = self._exchanged(turn, observations)
            after = self._attended(free - len(claims), looking=free > 0)
            return answers, [*after.claims, *claims], after
        self._governor.starved = False
        try:
            answers, claims = self._exchanged(turn, observations)
        except StoreError as error:  # what was taken is ours all the same
            self._say.away(error, self._core.unwritten)
            return None, first.claims, first
        return answers, [*first.claims, *claims], first

    def _attended(self, free: int, *, looking: bool = True) -> Attended:
        """Look after the upstreams. Where that fails, what was written and claimed stands."""
        try:
            return self._governor.attend(max(0, free), looking=looking)
        except StoreError as error:
            self._say.away(error, self._core.unwritten)
            return Attended([], None)

    def _exchanged(
        self, turn: Turn, observations: Sequence[Observation]
    ) -> tuple[list[Answer] | None, list[Claim]]:
        """What the store answered; no answers where only the claims are known to be done.

        A store that works for many at once writes while it is being asked for more.
        """
        if not turn.limit:
            return self._store.settle(turn.settlements, observations), []
        wanted = tuple(self.wanted(turn))
        if self._scribe is None or not turn.settlements:
            return self._store.exchange(turn.settlements, *wanted, observations=observations)
        answers = self._scribe.settle(turn.settlements, observations)
        try:
            _, claims = self._store.exchange((), *wanted)
        except StoreError:
            answers.exception()  # it must be done before anything else is asked
            raise
        try:
            return answers.result(), claims
        except StoreError as error:
            self._say.away(error, self._core.unwritten)
            return None, claims

    def _report(self, turn: Turn) -> None:
        """Keep what attempts that have ended said last of their progress."""
        said = {
            each.token: progress
            for each in turn.settlements
            if (progress := self._progress.pop(each.token, None)) is not None
        }
        if said:
            self._store.report(
                [
                    Progress(token=token, done=done, total=total, message=message)
                    for token, (done, total, message) in said.items()
                ]
            )

    def wanted(self, turn: Turn) -> Iterator[Wanted]:
        """What to ask of the store: for free slots, and ahead of them."""
        for limit, prefetch in ((turn.limit, turn.prefetch), (turn.ahead, True)):
            if limit:
                tasks = self._prefetched if prefetch else self._wanted.tasks
                each = self._wanted._replace(tasks=tasks, limit=limit, prefetch=prefetch)
                yield self._governor.wanted(each)

    # --- what came of it ----------------------------------------------------------------------

    def _written(self, write: Ending | Release, answer: Answer) -> Settlement | None:
        """Say what came of an attempt; what to write instead where the store will not take it."""
        if answer.result is Result.REFUSED and not isinstance(write, Release):
            return self._instead(write, answer.reason)
        if answer.result is Result.LOST:
            begun = write.duration_seconds is not None
            self.lost(self._core.claim_of(write.token) if begun else None)
        span = self._spans.get(write.token)
        context = None if span is None else span.context
        for event in self._to_say.pop(write.token, ()):
            emit(event, context=context)
        self._tell_span(write.token)
        return None

    def _instead(self, refused: Ending, reason: str) -> Settlement | None:
        """An attempt whose end cannot be stored has failed: nothing is dropped in silence."""
        claim = self._core.claim_of(refused.token)
        if claim is None:
            return None  # it was taken from us meanwhile
        work, before = self._work(claim, 0.0), self._spans.get(refused.token)
        work.span = None if before is None else before.span
        end = cannot_be_stored(work, reason)
        self._to_say[refused.token] = end.events
        if end.span is not None:
            self._spans[refused.token] = end.span
        if end.failed is not None:
            self._failed[refused.token] = end.failed
        if not isinstance(end.write, Settlement):
            raise TypeError("a fault is settled")
        return end.write


def have_failed(answer: Answer) -> bool:
    """Whether it is written that a job has failed by an attempt that was to be its last."""
    return answer.result in (Result.DONE, Result.ALREADY) and answer.state is not State.CANCELLED


def advanced_in(
    settlements: Sequence[Ending],
    answers: Sequence[Answer],
    lets_begin: Callable[[str], bool] = lambda _: True,
) -> tuple[Advanced, ...]:
    """The stages that are done and written.

    A job does not go on here if it is to stop, if its next call has to be let through by others,
    or if its stage had been written before: then, perhaps, somebody else has it by now.
    """
    return tuple(
        Advanced(
            each.token,
            answer.result is Result.DONE
            and not answer.cancel_requested
            and lets_begin(each.lane.upstream),
        )
        for each, answer in zip(settlements, answers, strict=True)
        if isinstance(each, Advance)
        and answer.result in (Result.DONE, Result.ALREADY)
        and answer.state is State.RUNNING
    )
