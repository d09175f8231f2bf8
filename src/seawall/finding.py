"""All jobs that match: how many there are, cancelling them, sending them again.

    app.count_jobs(state="queued", task="mail")
    app.cancel_all(state="queued", argument="a.pdf", dry_run=True)
    app.redrive_all(tag="night", fault="TIMEOUT", canary=5)

The store finds them a bounded look at a time; here the looks are put together. What is enqueued
after the beginning is left alone: it has a higher number than any job that was there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, cast

from seawall.errors import ArgumentsError
from seawall.faults import FaultCode
from seawall.redriving import OPTIONS, Options, Redriven, redriven
from seawall.states import FINISHED, State
from seawall.store import Filter, LetterState
from seawall.store.values import MOST_ROWS

if TYPE_CHECKING:
    from seawall.letters import Keeper
    from seawall.redriving import How
    from seawall.store import Store

MOST_COUNTED = 10_000
"""Jobs that are counted one by one; beyond that it is said that there are so many or more."""
MOST_SENT = 100_000
"""Jobs that one `redrive_all` sends again."""
_LARGEST_COUNT = 1_000_000
_MOST_LOOKS = 20
"""Looks that found less than they were asked for, after which a count ends."""
_CANCELLABLE = (State.QUEUED, State.RUNNING)


class WhichJobs(TypedDict, total=False):
    """Which jobs are meant; what is left out does not matter."""

    state: State | str
    task: str
    queue: str
    owner: str
    tag: str
    key: str
    run: int
    fault: FaultCode | str
    """What went wrong with it last."""
    argument: str
    """Text that its arguments hold, as they are shown; capitals from A to Z do not matter."""
    created_after: datetime
    created_before: datetime


class HowJobs(WhichJobs, Options, total=False):
    """Which failed jobs are sent again, and how."""


class Count(NamedTuple):
    """How many jobs match, as far as they were counted."""

    jobs: int
    exact: bool
    """False where there may be more."""

    def __str__(self) -> str:
        return f"{self.jobs:,}" if self.exact else f"{self.jobs:,} or more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """What came of cancelling all that match, or would come of it."""

    found: int
    """Jobs that were meant."""
    cancelled: int = 0
    stopping: int = 0
    """Those that run, and were asked to stop."""
    ended: int = 0
    """Those that had ended when their turn came, and stay as they are."""
    whole: bool = True
    """False where there are more, or may be: ask again."""
    dry_run: bool = False


def filter_of(which: Mapping[str, Any]) -> Filter:
    """The filter as the store takes it; `ArgumentsError` where it is none."""
    unknown = [name for name in which if name not in WhichJobs.__annotations__]
    if unknown:
        there = ", ".join(WhichJobs.__annotations__)
        raise ArgumentsError(f"no such filter: {unknown[0]!r:.80}; there are: {there}")
    state = which.get("state")
    if state is not None and state not in State.__members__.values():
        raise ArgumentsError(f"state: found {state!r:.80}, expected one of {', '.join(State)}")
    try:
        return Filter(**{**which, "state": None if state is None else State(state)})
    except ValueError as error:
        raise ArgumentsError(str(error)) from None


# --- counting -------------------------------------------------------------------------------------


def counted(store: "Store", which: Filter, most: int = MOST_COUNTED) -> Count:
    """How many match: exactly, unless there are more than `most` or they lie too far apart."""
    if type(most) is not int or not 1 <= most <= _LARGEST_COUNT:
        raise ArgumentsError(f"most: found {most!r:.80}, expected 1 to {_LARGEST_COUNT:,}")
    many, looks, after = 0, 0, None
    while looks < _MOST_LOOKS:
        found = store.find(which, after=after, limit=min(MOST_ROWS, most + 1 - many))
        many += len(found.ids)
        looks += not found.whole
        after = found.next
        if many > most:
            return Count(most, exact=False)
        if after is None:
            return Count(many, exact=True)
    return Count(many, exact=False)


def newest_of(store: "Store") -> int:
    """The number of the newest job; 0 where there is none."""
    return next(iter(store.find(Filter(), limit=1).ids), 0)


def walked(store: "Store", which: Filter, newest: int | None = None) -> Iterator[list[int]]:
    """The numbers of all that match and were there at the beginning, some at a time.

    Or that were there when that one was the newest: what somebody has looked at.
    """
    last = newest_of(store) if newest is None else newest
    after = None
    while last:
        found = store.find(which, after=after)
        ids = [job_id for job_id in found.ids if job_id <= last]
        if ids:
            yield ids
        after = found.next
        if after is None:
            return


def need_some_filter(which: Mapping[str, object]) -> None:
    """`ArgumentsError` where nothing is said: nobody means every job there is by saying nothing."""
    if not any(value is not None for value in which.values()):
        raise ArgumentsError('say which jobs: task=…, tag=…, argument=…; state="queued" is all')


# --- cancelling -----------------------------------------------------------------------------------


def cancelled(
    store: "Store",
    said: Mapping[str, Any],
    *,
    dry_run: bool = False,
    most: int | None = None,
    newest: int | None = None,
) -> Cancelled:
    """Cancel what waits and ask what runs to stop, as far as it matches; or only count it.

    At most so many; and none that came after the `newest` that somebody knew of.
    """
    which = filter_of(said)
    if which.state in FINISHED:
        raise ArgumentsError(
            f"state: found {which.state}, expected queued or running: what has ended stays so"
        )
    filters = [
        replace(which, state=state) for state in _CANCELLABLE if which.state in (None, state)
    ]
    if dry_run:
        counts = [counted(store, each) for each in filters]
        found, exact = sum(each.jobs for each in counts), all(each.exact for each in counts)
        return Cancelled(found=found, whole=exact, dry_run=True)
    return _Cancelling(store, most, newest).done(filters)


class _Cancelling:
    """One cancel of many, and what came of it so far."""

    def __init__(self, store: "Store", most: int | None, newest: int | None) -> None:
        self._store = store
        self._most = most
        self._newest = newest
        self._found = self._cancelled = self._ended = 0
        self._stopping: set[int] = set()
        """Running jobs are few, and one that was met as it began is not to be counted twice."""

    def done(self, filters: list[Filter]) -> Cancelled:
        whole = all(self._all_of(each) for each in filters)
        return Cancelled(
            found=self._found,
            cancelled=self._cancelled,
            stopping=len(self._stopping),
            ended=self._ended,
            whole=whole,
        )

    def _all_of(self, which: Filter) -> bool:
        """Whether it came to the end of them."""
        for ids in walked(self._store, which, self._newest):
            left = [job_id for job_id in ids if job_id not in self._stopping]
            if self._most is not None and self._found + len(left) > self._most:
                self._cancel(left[: self._most - self._found])
                return False
            self._cancel(left)
        return True

    def _cancel(self, ids: list[int]) -> None:
        self._found += len(ids)
        for job_id, change in zip(ids, self._store.cancel(ids), strict=True):
            if not change.done:
                self._ended += 1
            elif change.state is State.RUNNING:
                self._stopping.add(job_id)
            else:
                self._cancelled += 1


# --- sending again --------------------------------------------------------------------------------


def redriven_all(
    keeper: "Keeper", how: Mapping[str, Any], *, most: int | None = None, newest: int | None = None
) -> Redriven:
    """Send the failed jobs that match again, as `redriving` does with those that are named.

    Those whose dead letters were dismissed are left alone: somebody has decided about them. At most
    so many; and none that came after the `newest` that somebody knew of.
    """
    said = dict(how)
    options = {name: said.pop(name) for name in OPTIONS if name in said}
    need_some_filter(said)
    which = filter_of(said)
    if which.state not in (None, State.FAILED):
        raise ArgumentsError(f"state: found {which.state}, expected failed: only those are sent")
    ids, whole = _failed(
        keeper.store,
        replace(which, state=State.FAILED),
        MOST_SENT if most is None else most,
        newest,
    )
    if not ids:
        return Redriven(found=0, dry_run=bool(options.get("dry_run")), whole=whole)
    return replace(redriven(keeper, ids, cast("How", options), only_open=True), whole=whole)


def counted_failed(store: "Store", said: Mapping[str, Any], most: int = MOST_COUNTED) -> Count:
    """How many failed jobs match and wait for somebody: what `redriven_all` would send."""
    need_some_filter(said)
    ids, whole = _failed(store, replace(filter_of(said), state=State.FAILED), most, None)
    return Count(len(ids), exact=whole)


def _failed(store: "Store", which: Filter, most: int, newest: int | None) -> tuple[list[int], bool]:
    """The oldest first of the newest that match and wait for somebody; whether those are all."""
    meant: list[int] = []
    for ids in walked(store, which, newest):
        letters = store.letters_of(ids)
        meant += [
            job_id
            for job_id in ids
            if job_id in letters and letters[job_id].state is LetterState.OPEN
        ]
        if len(meant) > most:
            return meant[:most][::-1], False
    return meant[::-1], True
