"""`enqueue` inside a transaction that somebody else has open.

The steps are told as a generator of named statements and never run one themselves: so they are the
same for every driver, sync or async, and for the store's own connection when it is lent. They stand
in a savepoint: whatever goes wrong with them leaves the transaction as it was, and usable.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

from seawall.errors import StoreError, StoreUnavailableError
from seawall.model import Lane, NewJob
from seawall.store import rows
from seawall.store.backend import BadRowError, Row, Step, Values
from seawall.store.values import Enqueued, Taken, too_heavy

TRIES_FOR_A_KEY = 5

SAVEPOINTS = {
    "savepoint": "SAVEPOINT seawall_enqueue",
    "release_savepoint": "RELEASE SAVEPOINT seawall_enqueue",
    "rollback_to_savepoint": "ROLLBACK TO SAVEPOINT seawall_enqueue",
}
"""Statements beside those of `sql/`, the same in both dialects."""


T = TypeVar("T")
Steps = Generator[Step, list[Row], T]
Ask = Callable[[Step], list[Row]]
"""Runs a step; every error of a driver is one of ours when it leaves."""
AsyncAsk = Callable[[Step], Awaitable[list[Row]]]


def run(steps: Steps[T], ask: Ask) -> T:
    """Carry out the steps one after the other; a step that failed is told to them."""
    failure: StoreError | None = None
    found: list[Row] = []
    step = next(steps)
    while True:
        try:
            failure, found = None, ask(step)
        except StoreError as error:
            failure = error
        try:
            step = steps.send(found) if failure is None else steps.throw(failure)
        except StopIteration as end:
            answer: T = end.value
            return answer


async def arun(steps: Steps[T], ask: AsyncAsk) -> T:
    """The async twin of `run`. Cancelled, it does nothing more on the connection."""
    failure: StoreError | None = None
    found: list[Row] = []
    step = next(steps)
    while True:
        try:
            failure, found = None, await ask(step)
        except StoreError as error:
            failure = error
        try:
            step = steps.send(found) if failure is None else steps.throw(failure)
        except StopIteration as end:
            answer: T = end.value
            return answer


def kept(steps: Steps[T]) -> Steps[T]:
    """The steps in a savepoint: all of them, or nothing and the error."""
    yield Step("savepoint")
    try:
        answer = yield from steps
    except StoreError:
        with suppress(StoreError):  # a transaction that is gone has nothing to go back to
            yield Step("rollback_to_savepoint")
            yield Step("release_savepoint")
        raise
    yield Step("release_savepoint")
    return answer


def enqueued(
    jobs: Sequence[NewJob], lane_ids: dict[Lane, int], written: rows.Written
) -> Steps[list[Enqueued]]:
    """Write the jobs; halve what is too heavy, or has a bad row, until that one is refused alone.

    To be run first thing in a savepoint, to which a bad row leads back: nothing else may have been
    written in it.
    """
    if not jobs:
        return []
    if not too_heavy(jobs):
        try:
            return (yield from _written(jobs, lane_ids, written))
        except BadRowError as error:
            yield Step("rollback_to_savepoint")
            if len(jobs) == 1:
                return [Enqueued(Taken.REFUSED, None, str(error))]
    half = len(jobs) // 2
    first = yield from kept(enqueued(jobs[:half], lane_ids, written))
    return first + (yield from kept(enqueued(jobs[half:], lane_ids, written)))


def enqueued_with_lanes(jobs: Sequence[NewJob], written: rows.Written) -> Steps[list[Enqueued]]:
    """Write the jobs and the lanes that they need, all in one savepoint.

    Only for SQLite, whose one writer numbers lanes in the order of their commits anyway. Nothing
    of the lanes is remembered: the transaction may roll back.
    """

    def steps() -> Steps[list[Enqueued]]:
        lane_ids = yield from _lanes_there(job.lane for job in jobs)
        return (yield from kept(enqueued(jobs, lane_ids, written)))

    return kept(steps())


def _written(
    jobs: Sequence[NewJob], lane_ids: dict[Lane, int], written: rows.Written
) -> Steps[list[Enqueued]]:
    left = [rows.new_job(job, at, lane_ids[job.lane], written) for at, job in enumerate(jobs)]
    found: dict[int, Enqueued] = {}
    for _ in range(TRIES_FOR_A_KEY):
        created = yield Step("enqueue", left)
        found |= {at: Enqueued(Taken.CREATED, id_) for at, id_ in created}
        left = [row for row in left if row["position"] not in found]
        if left:
            found |= _holders(left, (yield Step("find_keys", left)))
            left = [row for row in left if row["position"] not in found]
        if not left:
            return [found[at] for at in range(len(jobs))]
    raise GoneError("a key or lane that this transaction cannot see: begin it anew and ask again")


class GoneError(StoreUnavailableError):
    """A key was given back again and again, or a lane is not there that was known."""


def _holders(left: Sequence[Values], held: list[Row]) -> dict[int, Enqueued]:
    """Who has the keys that could not be taken."""
    digests = {row["position"]: row["digest"] for row in left}
    return {
        at: Enqueued(Taken.EXISTING if digest == digests[at] else Taken.CONFLICT, job_id)
        for at, job_id, digest in held
    }


def _lanes_there(lanes: Iterable[Lane]) -> Steps[dict[Lane, int]]:
    """The ids of these lanes, among others; what is missing is made."""
    known = _by_lane((yield Step("all_lanes")))
    missing = [lane for lane in dict.fromkeys(lanes) if lane not in known]
    if missing:
        yield Step("add_lanes", [rows.lane(lane) for lane in missing])
        known = _by_lane((yield Step("all_lanes")))
    return known


def _by_lane(found: list[Row]) -> dict[Lane, int]:
    return {rows.lane_of(named): id_ for id_, *named, _ in found}


def any_created(answers: Iterable[Enqueued]) -> bool:
    """Whether there is something to tell of."""
    return any(answer.taken is Taken.CREATED for answer in answers)
