"""An application's dead letters: finding what failed, and saying that it is dealt with.

    app.dead_letters(fault="TIMEOUT", since=yesterday)
    app.dead_letter_groups()
    app.dismiss(42, note="a test file")

A letter is found by its job's number. `redriving` sends jobs again; the store keeps the letters and
this only asks it, in bounded pages, however many letters there are.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypedDict, Unpack, cast

from seawall.errors import ArgumentsError, NoSuchJobError
from seawall.faults import FaultCode, code_named
from seawall.store.letters import (
    DeadLetter,
    Dealt,
    LetterFilter,
    LetterGroups,
    LetterPage,
    LetterState,
    Trend,
)

if TYPE_CHECKING:
    from seawall.store import Store
    from seawall.tasks import Task

PAGE = 500
MOST_REFUSALS = 100
ALL = "all"
"""Instead of a state: whatever it is."""


class Which(TypedDict, total=False):
    """Which dead letters are meant; what is left out does not matter, but for the state."""

    state: LetterState | str
    """`open` unless something else is said; `all` is any."""
    fault: FaultCode | str
    group: str
    """A fingerprint."""
    stage: int | str
    """Its number; or its name, with the task or the run."""
    task: str
    queue: str
    owner: str
    run: int
    since: datetime
    until: datetime


class Refusal(NamedTuple):
    """A job about which something was not done."""

    job_id: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dismissed:
    """What came of dismissing dead letters, or of opening them again."""

    done: int
    refused: int = 0
    refusals: tuple[Refusal, ...] = ()
    """The first of them."""


class Keeper(Protocol):
    """Who has the store, and knows some tasks: an application, or somebody who looks at one's."""

    @property
    def store(self) -> "Store": ...

    @property
    def tasks(self) -> "Mapping[str, Task[..., Any, Any]]": ...


class Letters:
    """The dead letters of one store."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    # --- finding ------------------------------------------------------------------------------

    def page(
        self, *, after: str | None = None, limit: int = 50, **which: Unpack[Which]
    ) -> LetterPage:
        """Those that match, from the one that came last; give a page's `next` as `after`."""
        with _ours():
            return self._keeper.store.letters(self.filter(which), after=after, limit=limit)

    def get(self, job_id: int) -> DeadLetter:
        """The dead letter of a job; `NoSuchJobError` where it has none."""
        found = self._keeper.store.letters_of([job_id]).get(job_id)
        if found is not None:
            return found
        job = self._keeper.store.jobs([job_id]).get(job_id)
        if job is None:
            raise NoSuchJobError(f"there is no job {job_id}; it may have been pruned")
        raise NoSuchJobError(f"job {job_id} has no dead letter: it is {job.state}")

    def groups(self, *, limit: int = 20, **which: Unpack[Which]) -> LetterGroups:
        """Those that match, put together by what they have in common, the most numerous first."""
        with _ours():
            return self._keeper.store.letter_groups(self.filter(which), limit=limit)

    def trends(
        self,
        groups: Sequence[str],
        *,
        seconds: float = 86_400.0,
        parts: int = 24,
        **which: Unpack[Which],
    ) -> dict[str, Trend]:
        """For each of these groups, when those that match came last, by parts of a span."""
        with _ours():
            return self._keeper.store.letter_trends(
                self.filter(which), groups, seconds=seconds, parts=parts
            )

    def count(self, **which: Unpack[Which]) -> int:
        """How many match."""
        with _ours():
            return sum(
                pile.letters for pile in self._keeper.store.count_letters(self.filter(which))
            )

    def filter(self, which: Which, usual: LetterState = LetterState.OPEN) -> LetterFilter:
        """The filter as the store takes it; `ArgumentsError` where it is none."""
        said = cast("dict[str, Any]", dict(which))
        unknown = [name for name in said if name not in Which.__annotations__]
        if unknown:
            there = ", ".join(Which.__annotations__)
            raise ArgumentsError(f"no such filter: {unknown[0]!r:.80}; there are: {there}")
        fault, stage = said.pop("fault", None), said.pop("stage", None)
        with _ours():
            return LetterFilter(
                state=_state(said.pop("state", None) or usual),
                code=None if fault is None else code_named(str(fault)),
                fingerprint=said.pop("group", None),
                stage=None
                if stage is None
                else self.stage(stage, said.get("task"), said.get("run")),
                **said,
            )

    def stage(self, named: int | str, task: str | None, run: int | None = None) -> int:
        """The number of a stage that was named; numbers are their own."""
        if not isinstance(named, str):
            return named
        if named.isdecimal():
            return int(named)
        kept = None if run is None else self._keeper.store.run(run)
        if kept is not None:
            if named not in kept.stages:
                there = ", ".join(kept.stages)
                raise ArgumentsError(f"stage: run {run} has no {named!r:.80}; there are: {there}")
            return kept.stages.index(named)
        if task is None:
            raise ArgumentsError(f"stage: {named!r:.80} is a name: name its task or run as well")
        known = self._keeper.tasks.get(task)
        if known is None:
            raise ArgumentsError(
                f"stage: the task {task} is not known here, so {named!r:.80} cannot be looked up:"
                " name the application, or the stage's number"
            )
        return known.stage_named(named)

    # --- dealing with them --------------------------------------------------------------------

    def dismiss(
        self, *job_ids: int, note: str, by: str | None = None, **which: Unpack[Which]
    ) -> Dismissed:
        """Take these for dealt with: by their jobs' numbers, or all that match."""
        store = self._keeper.store
        return self._decided(
            job_ids,
            which,
            LetterState.OPEN,
            lambda ids: store.dismiss(ids, note=note, by=by),
            "dismissed",
        )

    def undismiss(self, *job_ids: int, **which: Unpack[Which]) -> Dismissed:
        """Open those again that were dismissed."""
        store = self._keeper.store
        return self._decided(job_ids, which, LetterState.DISMISSED, store.undismiss, "opened again")

    def _decided(
        self,
        job_ids: Sequence[int],
        which: Which,
        usual: LetterState,
        act: Callable[[list[int]], list[Dealt]],
        done: str,
    ) -> Dismissed:
        need_an_aim(job_ids, which)
        good, bad, refusals = 0, 0, list[Refusal]()
        with _ours():
            for ids in self._named(job_ids, self.filter(which, usual)):
                for job_id, dealt in zip(ids, act(ids), strict=True):
                    good += dealt.done
                    bad += not dealt.done
                    if not dealt.done and len(refusals) < MOST_REFUSALS:
                        refusals.append(Refusal(job_id, _why_not(dealt, done)))
        return Dismissed(done=good, refused=bad, refusals=tuple(refusals))

    def _named(self, job_ids: Sequence[int], which: LetterFilter) -> Iterator[list[int]]:
        if job_ids:
            ids = list(dict.fromkeys(job_ids))
            yield from (ids[start : start + PAGE] for start in range(0, len(ids), PAGE))
            return
        for letters in walked(self._keeper.store, which):
            yield [letter.job_id for letter in letters]


def walked(store: "Store", which: LetterFilter) -> Iterator[list[DeadLetter]]:
    """All that match, a page at a time, from the newest to the oldest.

    What is opened meanwhile is newer than where the walk stands, so that it comes to an end.
    """
    after = None
    while True:
        page = store.letters(which, after=after, limit=PAGE)
        if page.letters:
            yield list(page.letters)
        after = page.next
        if after is None:
            return


def need_an_aim(job_ids: Sequence[int], which: Mapping[str, object]) -> None:
    """`ArgumentsError` unless either jobs are named or something is said about them."""
    if job_ids and which:
        raise ArgumentsError(f"name jobs, or say which ({', '.join(which)}): not both")
    if not job_ids and not which:
        raise ArgumentsError(
            'name jobs, or say which: group=…, fault=…, task=…; state="open" is all'
        )


def _state(named: LetterState | str) -> LetterState | None:
    if named == ALL:
        return None
    if named not in LetterState.__members__.values():
        there = ", ".join([*LetterState, ALL])
        raise ArgumentsError(f"state: found {named!r:.80}, expected one of {there}")
    return LetterState(named)


def _why_not(dealt: Dealt, done: str) -> str:
    if dealt.state is None:
        return "it has no dead letter: it has not failed, or was pruned"
    return f"not {done}: its letter is {dealt.state}"


class _ours:  # noqa: N801 - used as a context manager
    """What the store refuses is the caller's mistake."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ValueError):
            raise ArgumentsError(str(error)) from None
