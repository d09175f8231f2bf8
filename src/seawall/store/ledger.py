"""The verbs of the store, written once over whatever database keeps the rows.

Each verb turns values into rows, runs its statement, and turns what came back into an answer for
each row, in the order asked. What the statements promise stands beside them in `sql/`; what the
verbs promise stands in `port`.
"""

import json
import random
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from seawall.faults import Fault, FaultCode
from seawall.model import Lane, NewJob, Settlement, Token, need_lease, need_name, need_span
from seawall.states import State
from seawall.store import rows
from seawall.store.backend import Backend, BadRowError, ConflictError, Row, Session, Values
from seawall.store.batches import in_parts
from seawall.store.fleet import Fleet
from seawall.store.lanes import Lanes, Visit
from seawall.store.reading import Reading
from seawall.store.values import (
    MOST_ROWS,
    SLACK_SECONDS,
    Advance,
    Answer,
    Change,
    Claim,
    Lapse,
    Progress,
    Reclaim,
    Redrive,
    Release,
    Result,
    Scope,
    Straightened,
    Taken,
    Wanted,
    is_id,
    need_batch,
    need_finished,
    need_limit,
    need_tokens,
    need_wanted,
    too_heavy,
)

if TYPE_CHECKING:
    from datetime import datetime

_EXPIRED = rows.fault_text(Fault(FaultCode.EXPIRED, "its deadline passed while it waited"))
_CASES = [(state, cancel) for state in State for cancel in (False, True)]
_DONE = {case: Answer(Result.DONE, *case) for case in _CASES}
_ALREADY = {case: Answer(Result.ALREADY, *case) for case in _CASES}
_LOST = Answer(Result.LOST)
ATTEMPTS_REMEMBERED = 200
"""How many attempts back a claim looks for what went wrong."""

T = TypeVar("T")
A = TypeVar("A")


class Ledger(Reading, Fleet):
    """The store: see `port.Store` for what each verb promises."""

    def __init__(self, backend: Backend, *, rng: random.Random | None = None) -> None:
        self._backend = backend
        self._lanes = Lanes(backend, rng)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._backend.close()

    # --- a worker's life ----------------------------------------------------------------------

    def claim(self, wanted: Wanted) -> list[Claim]:
        need_wanted(wanted)
        visit = self._lanes.visit(wanted.queues, wanted.tasks)
        return self._claims(self._taken(self._backend, wanted, visit), visit, wanted)

    def _taken(self, session: Session, wanted: Wanted, visit: Visit) -> list[Row]:
        return session.all(
            "claim",
            queues=self._backend.names(wanted.queues),
            tasks=self._backend.names(wanted.tasks),
            visit=self._backend.ids(visit.order),
            since=self._backend.times(visit.since),
            known=visit.known,
            remembered=ATTEMPTS_REMEMBERED,
            **rows.wanted(wanted),
        )

    def _claims(self, taken: list[Row], visit: Visit, wanted: Wanted) -> list[Claim]:
        """What was taken, in words. The leases stand already, so nothing here may ask the store."""
        lanes = {}
        latest: dict[int, datetime] = {}
        claims = []
        for row in taken:
            lane_id = row[3]
            if lane_id not in lanes:
                lanes[lane_id] = visit.lanes.get(lane_id) or rows.lane_of(json.loads(row[-1]))
            claim = rows.claim(row, lanes[lane_id], self._backend.read)
            claims.append(claim)
            if lane_id not in latest or latest[lane_id] < claim.due_at:
                latest[lane_id] = claim.due_at
        visit.served(latest, marks=not wanted.prefetch)
        if not lanes.keys() <= visit.lanes.keys():
            self._lanes.look_again()  # a lane that we did not know
        claims.sort(key=rows.claim_order)
        return claims

    def renew(self, tokens: Sequence[Token], *, lease_seconds: float) -> list[Answer]:
        need_tokens(tokens)
        need_lease(lease_seconds)
        lease = rows.microseconds(lease_seconds)
        given = [{"id": token.job_id, "lease_no": token.lease_no} for token in tokens]
        found: dict[int, bool] = dict(self._backend.batch("renew", given, lease=lease))
        return [_still_running(token, found) for token in tokens]

    def advance(self, advances: Sequence[Advance]) -> list[Answer]:
        need_tokens([each.token for each in advances])
        lane_ids = self._lanes.ids(each.lane for each in advances)
        return self._guarded(
            "advance", advances, lambda each: rows.advance(each, lane_ids[each.lane])
        )

    def settle(self, settlements: Sequence[Settlement]) -> list[Answer]:
        need_tokens([each.token for each in settlements])
        if any(each.children for each in settlements):
            return in_parts(settlements, self._settled_with_children, _refused)
        return self._guarded("settle", settlements, rows.settlement)

    def _settled_with_children(self, settlements: Sequence[Settlement]) -> list[Answer]:
        """In one transaction; `BadRowError` where a child cannot be written."""
        for each in settlements:
            need_batch(each.children)
        lanes = [child.lane for each in settlements for child in each.children]
        try:
            answers, any_born = self._together(lanes, partial(self._settled_in, settlements))
        except BadRowError as error:
            raise BadRowError(_blamed(settlements, str(error))) from None
        if any_born:
            self._backend.wake()
        return answers

    def _settled_in(
        self, settlements: Sequence[Settlement], session: Session, lane_ids: dict[Lane, int]
    ) -> tuple[list[Answer], bool]:
        """Also whether a child was born. One that was answered before has its children already."""
        given = [rows.settlement(each) for each in settlements]
        answers = self._answers(session, given, session.batch("settle", given))
        pairs = zip(settlements, answers, strict=True)
        children = [
            child
            for each, answer in pairs
            if answer.result is Result.DONE
            for child in each.children
        ]
        taken = self._enqueued_in(session, children, lane_ids) if children else []
        for child, (how, holder, _) in zip(children, taken, strict=True):
            if how is Taken.CONFLICT:
                raise BadRowError(f"{_named(child)} is there with other arguments: job {holder}")
        return answers, any(child.taken is Taken.CREATED for child in taken)

    def exchange(
        self, settlements: Sequence[Settlement], wanted: Wanted
    ) -> tuple[list[Answer], list[Claim]]:
        need_tokens([each.token for each in settlements])
        need_wanted(wanted)
        alone = any(each.children for each in settlements) or too_heavy(settlements)
        if not settlements or alone:
            return self.settle(settlements), self.claim(wanted)
        given = [rows.settlement(each) for each in settlements]
        visit = self._lanes.visit(wanted.queues, wanted.tasks)
        try:
            with self._backend.transaction() as session:
                answers = self._answers(session, given, session.batch("settle", given))
                taken = self._taken(session, wanted, visit)
        except (BadRowError, ConflictError):
            # One bad row must not strand the others, nor keep the worker from its next jobs.
            return self.settle(settlements), self.claim(wanted)
        return answers, self._claims(taken, visit, wanted)

    def release(self, releases: Sequence[Release]) -> list[Answer]:
        need_tokens([each.token for each in releases])
        answers = self._guarded("release", releases, rows.release)
        self._lanes.start_over()
        if _DONE[State.QUEUED, False] in answers:
            self._backend.wake()
        return answers

    def stopping(self, worker: str) -> list[Token]:
        need_name("worker", worker)
        found = self._backend.all("stopping", worker=worker, limit=MOST_ROWS)
        return [Token(id_, lease_no, seq + 1) for id_, lease_no, seq in found]

    def report(self, progress: Sequence[Progress]) -> list[Answer]:
        need_tokens([each.token for each in progress])
        if not progress:
            return []
        found: dict[int, bool] = dict(
            self._backend.batch("report", [rows.progress(each) for each in progress])
        )
        return [_still_running(each.token, found) for each in progress]

    # --- upkeep -------------------------------------------------------------------------------

    def lapsed(self, *, limit: int = MOST_ROWS) -> list[Lapse]:
        need_limit(limit)
        found = self._backend.all("lapsed", limit=limit)
        lanes = self._lanes.named(row[3] for row in found)
        return [rows.lapse(row, lanes[row[3]], self._backend.read) for row in found]

    def reclaim(self, reclaims: Sequence[Reclaim]) -> list[Answer]:
        need_tokens([each.token for each in reclaims])
        answers = self._guarded("reclaim", reclaims, rows.reclaim)
        if _DONE[State.QUEUED, False] in answers:
            self._backend.wake()
        return answers

    def expire(self, *, limit: int = MOST_ROWS) -> list[int]:
        need_limit(limit)
        return [row[0] for row in self._backend.all("expire", limit=limit, fault=_EXPIRED)]

    def straighten(self, *, limit: int = MOST_ROWS) -> Straightened:
        need_limit(limit)
        slack = rows.microseconds(SLACK_SECONDS)
        due = self._backend.all("straighten_due", limit=limit, slack=slack)
        leases = self._backend.all("straighten_leases", limit=limit, slack=slack)
        holds = self._backend.all("straighten_holds", slack=slack)
        if due or holds:
            self._backend.wake()
        return Straightened(len(due), len(leases), len(holds))

    def prune(self, state: State, *, older_than_seconds: float, limit: int = MOST_ROWS) -> int:
        need_limit(limit)
        need_finished(state)
        need_span("older_than_seconds", older_than_seconds)
        age = rows.microseconds(older_than_seconds)
        return int(self._backend.all("prune", state=str(state), age=age, limit=limit)[0][0])

    def fold(self, *, limit: int = MOST_ROWS) -> int:
        need_limit(limit)
        return sum(row[0] for row in self._backend.all("fold", limit=limit))

    # --- people -------------------------------------------------------------------------------

    def redrive(self, redrives: Sequence[Redrive]) -> list[Change]:
        need_batch(redrives)
        lane_ids = self._lanes.ids(each.lane for each in redrives if each.lane is not None)
        wanted = {each.job_id: each for each in redrives}
        moved = self._backend.batch(
            "redrive",
            [
                rows.redrive(each, None if each.lane is None else lane_ids[each.lane])
                for each in wanted.values()
                if is_id(each.job_id)
            ],
        )
        if moved:
            self._backend.wake()
        return self._changes([each.job_id for each in redrives], moved)

    def cancel(self, job_ids: Sequence[int]) -> list[Change]:
        need_batch(job_ids)
        given: list[Values] = [{"id": job_id} for job_id in set(job_ids) if is_id(job_id)]
        return self._changes(job_ids, self._backend.batch("cancel", given))

    def _changes(self, job_ids: Sequence[int], moved: list[Row]) -> list[Change]:
        done = {job_id: Change(done=True, state=State(state)) for job_id, state in moved}
        left = [{"id": id_} for id_ in set(job_ids) if id_ not in done and is_id(id_)]
        for job_id, state in self._backend.batch("find_states", left) if left else ():
            done[job_id] = Change(done=False, state=State(state))
        return [done.get(job_id, Change(done=False, state=None)) for job_id in job_ids]

    def hold(self, scope: Scope, name: str, *, reason: str, seconds: float | None = None) -> None:
        need_name("name", name)
        need_name("reason", reason)
        need_span("seconds", seconds or 0.0)
        span = None if seconds is None else rows.microseconds(seconds)
        self._backend.all("hold", scope=str(Scope(scope)), name=name, span=span, reason=reason)

    def resume(self, scope: Scope, name: str) -> bool:
        need_name("name", name)
        ended = self._backend.all("resume", scope=str(Scope(scope)), name=name)
        if ended:
            self._backend.wake()
        return bool(ended and ended[0][0])

    # --- waiting ------------------------------------------------------------------------------

    def wait(self, timeout_seconds: float) -> bool:
        return self._backend.wait(timeout_seconds)

    def nudge(self) -> None:
        self._backend.nudge()

    # --- how a batch is written ---------------------------------------------------------------

    def _guarded(
        self, verb: str, batch: Sequence[T], row_of: Callable[[T], Values]
    ) -> list[Answer]:
        """Write what tokens guard, and find out what became of the rows that did not move."""

        def write(part: Sequence[T]) -> list[Answer]:
            given = [row_of(each) for each in part]
            return self._answers(self._backend, given, self._backend.batch(verb, given))

        return in_parts(batch, write, _refused)

    def _answers(self, session: Session, given: list[Values], moved: list[Row]) -> list[Answer]:
        answers = {id_: _DONE[state, bool(cancel)] for id_, state, cancel in moved}
        if len(answers) < len(given):
            left = [row for row in given if row["id"] not in answers]
            for id_, state, cancel in session.batch("find_attempts", left):
                answers[id_] = _ALREADY[state, bool(cancel)]
        return [answers.get(row["id"], _LOST) for row in given]


def _refused(why: str) -> Answer:
    return Answer(Result.REFUSED, reason=why)


def _still_running(token: Token, found: dict[int, bool]) -> Answer:
    """`found` has the jobs whose token stands, and whether they are to stop."""
    if token.job_id not in found:
        return _LOST
    return _DONE[State.RUNNING, bool(found[token.job_id])]


def _named(child: NewJob) -> str:
    key = "" if child.key is None else f" with the key {child.key!r}"
    return f"its child {child.lane.task!r}{key}"


def _blamed(settlements: Sequence[Settlement], why: str) -> str:
    """Why a batch was not written, with the child's name where one is to blame."""
    for each in settlements:
        for child in each.children:
            try:
                child.arguments.encode()
            except UnicodeEncodeError:
                return f"{_named(child)}: {why}"
    return why
