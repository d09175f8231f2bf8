"""Sending failed jobs again: one, those that failed alike, or all that match.

    app.redrive(42)
    app.redrive(group="9f3c…", canary=5, rate=10)
    app.redrive(fault="TIMEOUT", dry_run=True)
    app.redrive(42, edit={"path": "b.pdf"})

First it is found out what would happen; then, unless that was all that was asked for, canaries go
ahead, and the rest follows in bounded pages if all of them succeed. A rate is a matter of due times
in the store: when `redrive` is over nobody has to stay alive for the rest to begin in their turn.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypedDict, cast

from seawall import canaries
from seawall.arguments import problems
from seawall.canaries import CanaryEnd
from seawall.clock import ManualClock
from seawall.errors import ArgumentsError, SeawallError
from seawall.letters import (
    MOST_REFUSALS,
    PAGE,
    Keeper,
    Letters,
    Refusal,
    Which,
    need_an_aim,
    walked,
)
from seawall.model import Job, Lane, need_name, need_span
from seawall.pipelines import Pipeline
from seawall.states import State
from seawall.store.letters import DeadLetter, LetterState, Pile
from seawall.store.values import Redrive, is_id
from seawall.why import ALIVE_SECONDS

if TYPE_CHECKING:
    from seawall.store.letters import LetterFilter
    from seawall.tasks import Request, Task

Edit = Mapping[str, object] | Callable[[dict[str, Any]], Mapping[str, object]]
"""Arguments by name that take the place of those there are, or a function that makes all anew."""
CANARY_SECONDS = 60.0
MOST_RUNS = 100
"""Of so many runs it is told that they are stopped."""
OPTIONS = (
    "from_stage", "from_start", "dry_run", "canary", "canary_seconds", "rate", "edit", "by",
)  # fmt: skip


class Options(TypedDict, total=False):
    """How jobs are sent again."""

    from_stage: int | str
    """Instead of the stage where each failed: an earlier one, by number or name."""
    from_start: bool
    dry_run: bool
    """Only say what would happen."""
    canary: int
    """So many go first; the others only if all of these succeed."""
    canary_seconds: float
    """How long they may take."""
    rate: float
    """So many become due in a second, the oldest first."""
    edit: Edit
    by: str
    """Who sends them."""


class How(Which, Options, total=False):
    """Which jobs are sent again, and how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redriven:
    """What came of a redrive, or would come of it."""

    found: int
    """Jobs that were meant."""
    sent: int = 0
    dry_run: bool = False
    piles: tuple[Pile, ...] = ()
    """Where the jobs failed, and of what."""
    unserved: tuple[str, ...] = ()
    """Tasks of theirs that no living worker serves."""
    stopped: tuple[int, ...] = ()
    """Runs of theirs that are paused or aborted: what is sent waits until they are resumed."""
    refused: int = 0
    refusals: tuple[Refusal, ...] = ()
    """The first of them."""
    canaries: tuple[int, ...] = ()
    """The jobs that went first."""
    canary: CanaryEnd = ""
    """What became of them."""
    last_due_seconds: float = 0.0
    """How long from now the last one is due."""
    whole: bool = True
    """False where more match than one redrive sends: ask again."""

    @property
    def held_back(self) -> int:
        """Those that were not sent because of the canaries."""
        return 0 if self.dry_run else max(0, self.found - self.sent - self.refused)

    @property
    def ok(self) -> bool:
        """Whether all that were meant were sent, or would be."""
        return not self.refused and self.canary in ("", "succeeded")


def redriven(
    keeper: Keeper, job_ids: Sequence[int], how: How, *, only_open: bool = False
) -> Redriven:
    """Find out what would happen; then do it, unless only that was asked for.

    With `only_open`, a job that was named is left where its letter has been dealt with meanwhile.
    """
    redriving = _Redriving(keeper, list(dict.fromkeys(job_ids)), how, only_open=only_open)
    plan = redriving.planned()
    if redriving.dry_run or not plan.found:
        return plan
    return redriving.carried_out(plan)


class _Redriving:
    """One redrive, from what was asked for to what came of it."""

    def __init__(
        self, keeper: Keeper, job_ids: list[int], how: How, *, only_open: bool = False
    ) -> None:
        said = cast("dict[str, Any]", dict(how))
        options = {name: said.pop(name) for name in OPTIONS if name in said}
        need_an_aim(job_ids, said)
        self._keeper = keeper
        self._letters = Letters(keeper)
        self._job_ids = job_ids
        self._which: LetterFilter = self._letters.filter(cast("Which", said))
        if self._which.state in (None, LetterState.REDRIVEN):
            raise ArgumentsError(
                "state: expected open or dismissed: only failed jobs are sent again"
            )
        self._only_open = only_open or (not job_ids and self._which.state is LetterState.OPEN)
        self.dry_run = bool(options.get("dry_run"))
        self._canary = _need_count("canary", options.get("canary"))
        self._canary_seconds = options.get("canary_seconds", CANARY_SECONDS)
        self._rate = _need_rate(options.get("rate"))
        self._edit: Edit | None = options.get("edit")
        self._by: str | None = options.get("by")
        self._from_stage: int | str | None = options.get("from_stage")
        if options.get("from_start"):
            if self._from_stage is not None:
                raise ArgumentsError("from_start, or from_stage: not both")
            self._from_stage = 0
        self._need_sense()
        self._moves = self._edit is not None or self._from_stage is not None
        self._gone: frozenset[int] = frozenset()
        """The canaries, which are not sent again with the rest."""
        self._refused: dict[int, str] = {}
        self._refused_besides = 0
        self._sent = 0
        self._runs: set[int] = set()
        """Whose items these are, as far as they were looked at."""

    def _need_sense(self) -> None:
        try:
            need_span("canary_seconds", self._canary_seconds)
            if self._by is not None:
                need_name("by", self._by)
            for job_id in self._job_ids:
                is_id(job_id)
        except ValueError as error:
            raise ArgumentsError(str(error)) from None
        if not (self._edit is None or callable(self._edit) or isinstance(self._edit, Mapping)):
            raise ArgumentsError(
                f"edit: found {self._edit!r:.80}, expected arguments by name, or a function"
            )
        if self._canary and isinstance(getattr(self._keeper, "clock", None), ManualClock):
            raise ArgumentsError(
                "canary: nobody works while a test waits: redrive a few, drain, then the rest"
            )

    # --- what would happen --------------------------------------------------------------------

    def planned(self) -> Redriven:
        """How many of which there are, and who would serve them. Changes nothing."""
        if self._job_ids:
            piles = self._piles_by_id()
        else:
            piles = self._keeper.store.count_letters(self._which)
        found = sum(pile.letters for pile in piles)
        if self.dry_run and self._moves:
            for letters in self._walked():
                self._prepared(letters, lambda: 0.0)
        if self._which.run is not None:
            self._runs.add(self._which.run)
        return self._with_the_rest(
            Redriven(
                found=len(self._job_ids) or found,
                dry_run=self.dry_run,
                piles=tuple(piles),
                unserved=self._unserved(piles),
                last_due_seconds=self._last_due(found - (self._canary or 0)),
            )
        )

    def _piles_by_id(self) -> list[Pile]:
        counts: Counter[Pile] = Counter()
        for letters in self._walked():
            self._look_at(letters)
            for each in letters:
                counts[Pile(each.state, each.task, each.queue, each.stage, each.code, 0)] += 1
        return [pile._replace(letters=many) for pile, many in counts.most_common()]

    def _unserved(self, piles: Sequence[Pile]) -> tuple[str, ...]:
        alive = [
            each.presence
            for each in self._keeper.store.workers(within_seconds=ALIVE_SECONDS)
            if not each.presence.stopping
        ]
        places = {(pile.task, pile.queue) for pile in piles}
        idle = {
            task
            for task, queue in places
            if not any(
                task in each.tasks and (each.queues is None or queue in each.queues)
                for each in alive
            )
        }
        return tuple(sorted(idle))

    def _last_due(self, many: int) -> float:
        return 0.0 if self._rate is None or many < 1 else (many - 1) / self._rate

    # --- doing it -----------------------------------------------------------------------------

    def carried_out(self, plan: Redriven) -> Redriven:
        """Canaries first, if there are to be some, then the rest."""
        first, end = self._canaries_went() if self._canary else ((), "")
        if end in ("", "succeeded"):
            self._gone = frozenset(first)
            rest = plan.found - len(first)
            # A list goes from the newest, and the oldest are to be due first.
            places = iter(range(rest)) if self._job_ids else iter(range(rest - 1, -1, -1))

            def delay() -> float:
                return 0.0 if self._rate is None else next(places, 0) / self._rate

            for letters in self._walked():
                self._send([each for each in letters if each.job_id not in self._gone], delay)
        done = replace(plan, sent=self._sent, canaries=first, canary=end)
        return self._with_the_rest(done)

    def _canaries_went(self) -> tuple[tuple[int, ...], CanaryEnd]:
        """A few of as many kinds as may be, sent; and what became of them."""
        few = canaries.chosen(next(self._walked(), []), self._canary or 0)
        sent = self._send(few, lambda: 0.0)
        if not sent:
            return (), "undecided"
        return tuple(sent), canaries.became(self._keeper.store, sent, self._canary_seconds)

    def _send(self, letters: list[DeadLetter], delay: Callable[[], float]) -> list[int]:
        """Send these again; the numbers of those that were."""
        redrives = self._prepared(letters, delay)
        self._look_at(letters)
        sent = []
        for each, change in zip(redrives, self._keeper.store.redrive(redrives), strict=True):
            if change.done:
                sent.append(each.job_id)
            elif change.state is None:
                self._refuse(each.job_id, "there is no such job; it may have been pruned")
            elif change.state is not State.FAILED:
                self._refuse(each.job_id, f"it is {change.state}, and only failed jobs are")
            else:
                self._refuse(each.job_id, change.reason or "somebody has dismissed it meanwhile")
        self._sent += len(sent)
        return sent

    # --- one job ------------------------------------------------------------------------------

    def _walked(self) -> Iterator[list[DeadLetter]]:
        if not self._job_ids:
            yield from walked(self._keeper.store, self._which)
            return
        store = self._keeper.store
        left = [each for each in self._job_ids if each not in self._gone]
        for start in range(0, len(left), PAGE):
            ids = left[start : start + PAGE]
            found = store.letters_of(ids)
            missing = [each for each in ids if each not in found]
            jobs = store.jobs(missing) if missing else {}
            for each in missing:
                known = (
                    f"it is {jobs[each].state}, and only failed jobs are" if each in jobs else ""
                )
                self._refuse(each, known or "there is no such job; it may have been pruned")
            letters = [found[each] for each in ids if each in found]
            for letter in letters:
                if letter.state is LetterState.REDRIVEN:
                    self._refuse(
                        letter.job_id, "it was sent again already, and has not failed since"
                    )
            yield [letter for letter in letters if letter.state is not LetterState.REDRIVEN]

    def _prepared(self, letters: list[DeadLetter], delay: Callable[[], float]) -> list[Redrive]:
        """What the store is asked for each; one whose input cannot be so is refused."""
        ids = [letter.job_id for letter in letters]
        jobs = self._keeper.store.jobs(ids) if self._moves and ids else {}
        redrives = []
        for letter in letters:
            try:
                lane, arguments = None, None
                if letter.job_id in jobs:
                    lane, arguments = self._moved(letter, jobs[letter.job_id])
            except SeawallError as error:
                if len(self._job_ids) == 1:
                    raise
                self._refuse(letter.job_id, str(error))
                continue
            redrives.append(
                Redrive(
                    letter.job_id,
                    lane,
                    arguments,
                    delay_seconds=delay(),
                    only_open=self._only_open,
                    by=self._by,
                )
            )
        return redrives

    def _moved(self, letter: DeadLetter, job: Job) -> tuple[Lane | None, str | None]:
        """Where it is to wait and what it is to work on, where that is not as before."""
        task = self._keeper.tasks.get(letter.task)
        stage = letter.stage
        if self._from_stage is not None:
            stage = self._letters.stage(self._from_stage, letter.task)
            if stage > letter.stage:
                raise ArgumentsError(
                    f"job {job.id} failed at stage {letter.stage}, which comes before {stage}"
                )
        request = None if self._edit is None else self._edited(letter, job, task)
        if stage == letter.stage and (request is None or request.upstream == (job.upstream or "")):
            return None, None if request is None else request.arguments
        lane = self._lane_at(task, job, stage, request)
        return lane, None if request is None else request.arguments

    def _edited(
        self, letter: DeadLetter, job: Job, task: "Task[..., Any, Any] | None"
    ) -> "Request[Any]":
        """The job with its new input, checked as if it were asked for anew."""
        if task is None:
            raise ArgumentsError(
                f"edit: the task {letter.task} is not known here, so its input cannot be checked:"
                " name the application"
            )
        there = self._arguments(job)
        made = self._edit(there) if callable(self._edit) else {**there, **(self._edit or {})}
        return asked_anew(task, job, dict(made))

    def _arguments(self, job: Job) -> dict[str, Any]:
        """What it was asked to work on, by name."""
        found = json.loads(self._keeper.store.arguments(job.id) or "{}")
        if not isinstance(found, dict):
            raise ArgumentsError(f"the arguments of job {job.id} have no names")
        return found

    def _lane_at(
        self,
        task: "Task[..., Any, Any] | None",
        job: Job,
        stage: int,
        request: "Request[Any] | None",
    ) -> Lane:
        """Where the job waits at that stage."""
        if task is None:
            raise ArgumentsError(
                f"job {job.id}: the task {job.task} is not known here, nor what its stage {stage}"
                " calls: name the application"
            )
        if isinstance(task, Pipeline):
            return task.lane_at(job, stage)
        if stage:
            raise ArgumentsError(
                f"{job.task} has no stage {stage}: a plain task has one, which is 0"
            )
        request = request or asked_anew(task, job, self._arguments(job))
        return request.new_job().lane

    # --- what was not done --------------------------------------------------------------------

    def _refuse(self, job_id: int, reason: str) -> None:
        """Of jobs that were named each is known, of others the first: there may be any number."""
        if self._job_ids or len(self._refused) < MOST_REFUSALS:
            self._refused.setdefault(job_id, reason)
        else:
            self._refused_besides += 1

    def _look_at(self, letters: list[DeadLetter]) -> None:
        runs = {each.run for each in letters if each.run is not None} - self._runs
        self._runs |= set(islice(runs, MOST_RUNS - len(self._runs)))

    def _stopped(self) -> tuple[int, ...]:
        kept = [self._keeper.store.run(each) for each in sorted(self._runs)]
        return tuple(each.id for each in kept if each is not None and each.resumable)

    def _with_the_rest(self, told: Redriven) -> Redriven:
        """With what was refused, and what waits for somebody."""
        told = replace(told, stopped=self._stopped())
        first = [Refusal(*each) for each in list(self._refused.items())[:MOST_REFUSALS]]
        many = len(self._refused) + self._refused_besides
        return replace(told, refused=many, refusals=tuple(first))


def asked_anew(task: "Task[..., Any, Any]", job: Job, table: dict[str, Any]) -> "Request[Any]":
    """A request for the job with these arguments by name; `ArgumentsError` as for `enqueue`."""
    task.signature.need_names(table)
    try:
        args, kwargs = task.signature.read(json.dumps(table, ensure_ascii=False))
    except (ValueError, TypeError, RecursionError) as error:
        raise ArgumentsError(f"{task.name}: {problems(error)}") from None
    said: dict[str, Any] = {"queue": job.queue, "priority": job.priority, "owner": job.owner}
    return task.using(**said).job(*args, **kwargs)


def _need_count(name: str, found: object) -> int | None:
    good = isinstance(found, int) and not isinstance(found, bool) and 1 <= found <= PAGE
    if found is not None and not good:
        raise ArgumentsError(f"{name}: found {found!r:.80}, expected a number from 1 to {PAGE}")
    return cast("int | None", found)


def _need_rate(found: object) -> float | None:
    good = isinstance(found, int | float) and not isinstance(found, bool) and 1e-6 <= found <= 1e9
    if found is not None and not good:
        raise ArgumentsError(f"rate: found {found!r:.80}, expected jobs a second, above 0")
    return cast("float | None", found)
