"""The verbs of the store, written once over whatever database keeps the rows.

Each verb turns values into rows, runs its statement, and turns what came back into an answer for
each row, in the order asked. What the statements promise stands beside them in `sql/`; what the
verbs promise stands in `port`.
"""

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from seawall.faults import Fault, FaultCode
from seawall.model import Lane, NewJob, Token, need_lease, need_name, need_span
from seawall.states import State
from seawall.store import rows
from seawall.store.admitting import Admitting
from seawall.store.auditing import Auditing
from seawall.store.backend import (
    Backend,
    BadRowError,
    ConflictError,
    Row,
    Session,
    Step,
    Values,
)
from seawall.store.batches import in_parts
from seawall.store.dead import Dead
from seawall.store.glancing import Glancing
from seawall.store.lanes import Lanes
from seawall.store.pacing import Pacing
from seawall.store.running import Running
from seawall.store.telling import Telling
from seawall.store.values import (
    MOST_ROWS,
    SLACK_SECONDS,
    Advance,
    Answer,
    Change,
    Claim,
    Ending,
    Lapse,
    Observation,
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
    need_observations,
    need_redrives,
    need_tokens,
    need_wanted,
    too_heavy,
)
from seawall.store.watching import Watching

_LATE = Fault(FaultCode.EXPIRED, "its deadline passed while it waited")
_EXPIRED = {"fault": rows.fault_text(_LATE), **rows.named_fault(_LATE)}
_CASES = [(state, cancel) for state in State for cancel in (False, True)]
_DONE = {case: Answer(Result.DONE, *case) for case in _CASES}
_ALREADY = {case: Answer(Result.ALREADY, *case) for case in _CASES}
_LOST = Answer(Result.LOST)

T = TypeVar("T")
A = TypeVar("A")


class Ledger(Pacing, Dead, Running, Auditing, Watching, Admitting, Telling, Glancing):
    """The store: see `port.Store` for what each verb promises."""

    def __init__(
        self,
        backend: Backend,
        *,
        rng: random.Random | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend = backend
        self._lanes = Lanes(backend, rng, monotonic)

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

    @property
    def many_at_once(self) -> bool:
        return self._backend.many_at_once

    # --- a worker's life ----------------------------------------------------------------------

    def renew(self, tokens: Sequence[Token], *, lease_seconds: float) -> list[Answer]:
        need_tokens(tokens)
        need_lease(lease_seconds)
        lease = rows.microseconds(lease_seconds)
        given = [{"id": token.job_id, "lease_no": token.lease_no} for token in tokens]
        found: dict[int, bool] = dict(self._backend.batch("renew", given, lease=lease))
        return [_still_running(token, found) for token in tokens]

    def advance(self, advances: Sequence[Advance]) -> list[Answer]:
        need_tokens([each.token for each in advances])
        return in_parts(advances, self._settled, _refused)

    def settle(
        self, settlements: Sequence[Ending], observations: Sequence[Observation] = ()
    ) -> list[Answer]:
        need_tokens([each.token for each in settlements])
        need_observations(observations)
        if any(each.children for each in settlements):
            answers = in_parts(settlements, self._settled_with_children, _refused)
        elif observations and not too_heavy(settlements):
            return self._settled_and_observed(settlements, observations)
        else:
            answers = in_parts(settlements, self._settled, _refused)
        if observations:
            self.observe(observations)
        return answers

    def _settled(self, settlements: Sequence[Ending]) -> list[Answer]:
        found = self._backend.together(self._settling(settlements))
        return self._answered(self._backend, settlements, found)

    def _settled_and_observed(
        self, settlements: Sequence[Ending], observations: Sequence[Observation]
    ) -> list[Answer]:
        steps = self._settling(settlements)
        try:
            found = self._backend.together([*steps, *self._observing(observations)])
        except BadRowError:
            answers = in_parts(settlements, self._settled, _refused)
            self.observe(observations)
            return answers
        return self._answered(self._backend, settlements, found[: len(steps)])

    def _settling(self, settlements: Sequence[Ending]) -> list[Step]:
        moved = [each.lane for each in settlements if each.lane is not None]
        return _steps(settlements, self._lanes.ids(moved) if moved else {})

    def _answered(
        self, session: Session, settlements: Sequence[Ending], found: Sequence[list[Row]]
    ) -> list[Answer]:
        answers = {id_: _DONE[state, bool(cancel)] for part in found for id_, state, cancel in part}
        if len(answers) < len(settlements):
            left = [rows.ending(e) for e in settlements if e.token.job_id not in answers]
            answers |= self._already(session, left)
        return [answers.get(each.token.job_id, _LOST) for each in settlements]

    def _settled_with_children(self, settlements: Sequence[Ending]) -> list[Answer]:
        """In one transaction; `BadRowError` where a child cannot be written."""
        for each in settlements:
            need_batch(each.children)
        lanes = [child.lane for each in settlements for child in each.children]
        lanes += [each.lane for each in settlements if each.lane is not None]
        try:
            answers, any_born = self._together(lanes, partial(self._settled_in, settlements))
        except BadRowError as error:
            raise BadRowError(_blamed(settlements, str(error))) from None
        if any_born:
            self._backend.wake()
        return answers

    def _settled_in(
        self, settlements: Sequence[Ending], session: Session, lane_ids: dict[Lane, int]
    ) -> tuple[list[Answer], bool]:
        """Also whether a child was born. One that was answered before has its children already."""
        steps = _steps(settlements, lane_ids)
        found = [session.batch(step.name, step.rows or ()) for step in steps]
        answers = self._answered(session, settlements, found)
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
        self,
        settlements: Sequence[Ending],
        *wanted: Wanted,
        observations: Sequence[Observation] = (),
    ) -> tuple[list[Answer], list[Claim]]:
        need_tokens([each.token for each in settlements])
        need_observations(observations)
        for each in wanted:
            need_wanted(each)
        if any(each.children for each in settlements) or too_heavy(settlements):
            return self.settle(settlements, observations), self._claimed(wanted)
        settling = self._settling(settlements)
        observing = self._observing(observations)
        visits = list(map(self._lanes.visit, wanted))
        asking = list(map(self._asking_for, wanted, visits))
        claiming = [Step("claim", values=values) for values in asking]
        try:
            found = self._backend.together([*settling, *observing, *claiming])
        except (BadRowError, ConflictError):
            # One bad row must not strand the others, nor keep the worker from its next jobs.
            return self.settle(settlements, observations), self._claimed(wanted)
        settled, taken = found[: len(settling)], found[len(settling) + len(observing) :]
        parts = map(self._claims, taken, visits)
        answers = self._answered(self._backend, settlements, settled)
        return answers, [claim for part in parts for claim in part]

    def _claimed(self, wanted: Sequence[Wanted]) -> list[Claim]:
        return [claim for each in wanted for claim in self.claim(each)]

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
        return [row[0] for row in self._backend.all("expire", limit=limit, **_EXPIRED)]

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
        need_redrives(redrives)
        wanted = {each.job_id: each for each in redrives}
        changes = in_parts(list(wanted.values()), self._redriven, _unsent)
        if any(change.done for change in changes):
            self._lanes.look_again()  # a run of theirs may have been over
            self._backend.wake()
        found = dict(zip(wanted, changes, strict=True))
        return [found[each.job_id] for each in redrives]

    def _redriven(self, redrives: Sequence[Redrive]) -> list[Change]:
        lane_ids = self._lanes.ids(each.lane for each in redrives if each.lane is not None)
        given = [
            rows.redrive(each, None if each.lane is None else lane_ids[each.lane])
            for each in redrives
            if is_id(each.job_id)
        ]
        moved = self._backend.batch("redrive", given)
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
            answers |= self._already(session, left)
        return [answers.get(row["id"], _LOST) for row in given]

    def _already(self, session: Session, left: list[Values]) -> dict[int, Answer]:
        """Those of the rows that an earlier ask, whose answer was lost, has written."""
        found = session.batch("find_attempts", left)
        return {id_: _ALREADY[state, bool(cancel)] for id_, state, cancel in found}


def _steps(settlements: Sequence[Ending], lane_ids: dict[Lane, int]) -> list[Step]:
    """Those that merely succeeded, the others, and those that go on, each with their like."""
    plain, others, advances = [], [], []
    for each in settlements:
        if isinstance(each, Advance):
            advances.append(rows.advance(each, lane_ids[each.lane]))
        elif (row := rows.success(each)) is not None:
            plain.append(row)
        else:
            others.append(rows.settlement(each, lane_ids[each.lane] if each.lane else None))
    parts = (("succeed", plain), ("settle", others), ("advance", advances))
    return [Step(name, given) for name, given in parts if given]


def _refused(why: str) -> Answer:
    return Answer(Result.REFUSED, reason=why)


def _unsent(why: str) -> Change:
    return Change(done=False, state=State.FAILED, reason=why)


def _still_running(token: Token, found: dict[int, bool]) -> Answer:
    """`found` has the jobs whose token stands, and whether they are to stop."""
    if token.job_id not in found:
        return _LOST
    return _DONE[State.RUNNING, bool(found[token.job_id])]


def _named(child: NewJob) -> str:
    key = "" if child.key is None else f" with the key {child.key!r}"
    return f"its child {child.lane.task!r}{key}"


def _blamed(settlements: Sequence[Ending], why: str) -> str:
    """Why a batch was not written, with the child's name where one is to blame."""
    for each in settlements:
        for child in each.children:
            try:
                child.arguments.encode()
            except UnicodeEncodeError:
                return f"{_named(child)}: {why}"
    return why
