"""Why a job is not running now, in words that say what to do.

Everything is read in a few looks at the store and put into sentences here: the first says where the
job stands, the rest what it waits for, in the order in which it would have to be put right.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from seawall.decisions import breaker as breakers
from seawall.decisions import gate as gates
from seawall.decisions import gate_text
from seawall.decisions import limits as bounds
from seawall.decisions.budget import RetryBudget
from seawall.decisions.gate import Gate
from seawall.decisions.limits import Limits, LimitState
from seawall.decisions.upstream import Upstream
from seawall.model import INLINE_WORKER, Attempt, Job, Outcome
from seawall.states import FINISHED, State
from seawall.store import (
    Hold,
    KeptRun,
    LetterFilter,
    LetterState,
    Present,
    RunStop,
    Scope,
    Store,
)
from seawall.tasks import Task
from seawall.upstreams import BY_HAND, Upstreams, firsts

ALIVE_SECONDS = 30.0
"""A worker that has not been heard of for so long is not counted on."""
MOST_ALIKE = 100
"""How many letters of the same trouble are counted."""
_SLOW_SECONDS = 5.0
_LONGEST_SPAN = 1e9


@dataclass(frozen=True, slots=True)
class Why:
    """Where a job stands, and what it waits for."""

    job_id: int
    state: State
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def why(
    store: Store,
    job: Job,
    tasks: Mapping[str, Task[..., Any, Any]],
    upstreams: Upstreams,
    *,
    only: str | None = None,
    commands: bool = True,
) -> Why:
    """The reasons, from what the store knows now.

    For an owner, `only`, they tell nothing of other owners' jobs, name no worker, and no command:
    those are for whoever has the store at hand. Without `commands` nobody is told any.
    """
    commands = commands and only is None
    now = store.now()
    attempts = _latest_attempts(store, job)
    asked = tasks.get(job.task)
    task = None if asked is None else asked.at(job.stage)
    most = None if task is None else task.policy.max_attempts
    if job.state in FINISHED:
        lines = _ended(job, attempts, task, now)
        if job.state is State.FAILED:
            lines += _what_to_do(store, job, now, only, commands=commands)
    elif job.state is State.RUNNING:
        lines = _running(job, now, only)
    else:
        workers = store.workers(within_seconds=ALIVE_SECONDS)
        upstream = _at_upstream(store, job, attempts, upstreams, now, commands=commands)
        held = [each for each in store.holds() if _holds(each, job)]
        holds = [_held(store, job, each, now, commands=commands) for each in held]
        served = _Service(workers, commands)
        lines = _waiting(job, attempts, most, [*holds, *upstream], served, now)
    return Why(job.id, job.state, tuple(lines))


def _latest_attempts(store: Store, job: Job) -> list[Attempt]:
    return store.attempts(job.id, after=max(0, job.seq - 1), limit=1) if job.seq else []


def _ended(
    job: Job, attempts: list[Attempt], task: Task[..., Any, Any] | None, now: datetime
) -> list[str]:
    ended = f"{ago(job.finished_at, now)} ago" if job.finished_at else ""
    if job.state is not State.FAILED:
        said = {State.SUCCEEDED: "succeeded", State.SKIPPED: "was skipped"}.get(
            job.state, "was cancelled"
        )
        return [f"It {said} {ended}: there is nothing left to do."]
    lines = [f"It failed {ended}, after {times(job.seq, 'attempt')}: {job.last_fault}"]
    return lines + _given_up(job, attempts, task)


def _what_to_do(
    store: Store, job: Job, now: datetime, only: str | None, *, commands: bool
) -> list[str]:
    """What its dead letter says: who dealt with it, how often it came back, how many are alike."""
    letter = store.letters_of([job.id]).get(job.id)
    if letter is None:
        return [f"To send it again: seawall retry {job.id}"] if commands else []
    lines = []
    if letter.times > 1:
        lines.append(f"It has come back: it failed for good {letter.times:,} times.")
    if letter.state is LetterState.DISMISSED:
        who = f" by {letter.handled_by}" if letter.handled_by else ""
        note = " ".join((letter.note or "").split())
        lines.append(f"It was dismissed {ago(letter.handled_at, now)} ago{who}: {note}")
        again = f"To send it again all the same: seawall redrive {job.id}"
        return [*lines, again] if commands else lines
    alike = LetterFilter(state=LetterState.OPEN, fingerprint=letter.fingerprint, owner=only)
    others = len(store.letters(alike, limit=MOST_ALIKE + 1)) - 1
    if others > 0:
        many = f"{MOST_ALIKE:,} or more others" if others >= MOST_ALIKE else times(others, "other")
        all_again = f"seawall redrive --group {letter.fingerprint} --canary 5"
        how = f" To send them all again: {all_again}" if commands else ""
        lines.append(f"It is not alone: {many} failed alike.{how}")
    if not commands:
        return lines
    return [
        *lines,
        f"To send it again: seawall redrive {job.id}",
        f'To be done with it: seawall dismiss {job.id} --note "…"',
    ]


def _given_up(job: Job, attempts: list[Attempt], task: Task[..., Any, Any] | None) -> list[str]:
    """Why there was no further attempt, as far as it can be told."""
    if not attempts or not attempts[-1].policy:
        return []
    policy, fault = attempts[-1].policy, attempts[-1].fault
    if task is None or fault is None or task.policy.id != policy:
        return [f"The policy {policy} gave it no further attempt."]
    if not task.policy.rule_for(fault).retry:
        return [f"The policy {policy} does not retry {fault.code}."]
    most = task.policy.max_attempts
    used = f"{job.tries} of {most}" if most else str(job.tries)
    return [f"The policy {policy} gave it no further attempt; tries used: {used}."]


def _by_whom(worker: str, *, inline: bool, named: bool) -> str:
    if inline:
        return f"called now, as {worker}" if named else "called now"
    return f"on the worker {worker}" if named else "on a worker"


def _running(job: Job, now: datetime, only: str | None) -> list[str]:
    lease = job.lease
    if lease is None or job.last_attempt_at is None:
        raise AssertionError("a running job has a lease and a start")
    inline = lease.worker.startswith(INLINE_WORKER)
    long = ago(job.last_attempt_at, now)
    where = _by_whom(lease.worker, inline=inline, named=only is None)
    lines = [f"It is running, for {long}, {where} (attempt {job.seq + 1} in all)."]
    if job.cancel_requested:
        lines.append("It was asked to stop, and its worker has not done so yet.")
    if inline and lease.until > now:
        lines.append(
            "Its caller waits for it. Should the caller have died, workers take it in"
            f" {ago(now, lease.until)}, when its lease lapses."
        )
    if lease.until <= now:
        lines.append(
            f"Its lease lapsed {ago(lease.until, now)} ago: its worker was not heard of since;"
            " whichever worker looks next will take it back."
        )
    return lines


def _waiting(
    job: Job,
    attempts: list[Attempt],
    most: int | None,
    holds: list[str],
    service: "_Service",
    now: datetime,
) -> list[str]:
    lines = []
    if job.deadline_at is not None and job.deadline_at <= now:
        lines.append("Its deadline has passed: it will be failed as EXPIRED at the next upkeep.")
    lines += holds
    if job.due_at > now:
        lines.append(_later(job, attempts, most, now))
    lines += _served(job, service, now, waits_for_now=not lines)
    if not lines:
        lines.append(
            f"It is due since {ago(job.due_at, now)} and will begin as soon as a worker has a free"
            " slot: all that serve it are busy, or are about to take it."
        )
    return ["It is queued.", *lines]


def _later(job: Job, attempts: list[Attempt], most: int | None, now: datetime) -> str:
    wait = f"It is due in {span(job.due_at - now)}, at {job.due_at:%Y-%m-%d %H:%M:%S} UTC"
    last = attempts[-1] if attempts else None
    if job.cycle and (last is None or last.cycle != job.cycle):
        return f"{wait}: it was sent again, and not all at once with others."
    if last is None or last.cycle != job.cycle:
        return f"{wait}: whoever asked for it wanted it not before then."
    if last.outcome is Outcome.SNOOZED:
        return f"{wait}: its handler snoozed it, or called what could not be called then."
    if last.fault is None:
        return f"{wait}."
    tries = f"{job.tries} of {most}" if most else str(job.tries)
    lost = f", lost {times(job.losses, 'worker')}" if job.losses else ""
    return f"{wait}: its last attempt came to {last.fault} (tries used: {tries}{lost})."


def _held(store: Store, job: Job, hold: Hold, now: datetime, *, commands: bool) -> str:
    if hold.scope is Scope.RUN:
        return _stopped(store.run(job.run or 0), hold, commands=commands)
    what = f"The {hold.scope} {hold.name}"
    if hold.until is None:
        command = {
            Scope.QUEUE: f": seawall queues resume {hold.name}",
            Scope.UPSTREAM: f": seawall resume {hold.name}",
        }
        end = f"until somebody resumes it{command.get(hold.scope, '') if commands else ''}"
    else:
        end = f"for another {span(hold.until - now)}; its jobs go on by themselves then"
    return f"{what} is held ({hold.reason}), {end}."


def _holds(hold: Hold, job: Job) -> bool:
    named = {
        Scope.QUEUE: job.queue,
        Scope.TASK: job.task,
        Scope.UPSTREAM: job.upstream,
        Scope.RUN: str(job.run),
    }
    return named[hold.scope] == hold.name


def _stopped(kept: KeptRun | None, hold: Hold, *, commands: bool) -> str:
    """What its run keeps it waiting for."""
    if kept is None:
        return f"Its run {hold.name} is held ({hold.reason})."
    what = f"Its run {kept.id} ({kept.pipeline} {kept.name})"
    if kept.stop is RunStop.CANCELLED:
        return f"{what} was cancelled ({hold.reason}): it will be cancelled with it."
    said = "was aborted" if kept.stop is RunStop.ABORTED else "is paused"
    how = f", with `seawall run {kept.id} resume`" if commands else ""
    return (
        f"{what} {said} ({hold.reason}): no item of it begins until somebody resumes it{how}."
        " What stages have done is kept."
    )


class _Seen(NamedTuple):
    """An upstream, and what is known of it now."""

    upstream: Upstream
    gate: Gate
    now: float

    @property
    def its(self) -> str:
        return f"Its upstream {self.upstream.name}"


def _at_upstream(
    store: Store,
    job: Job,
    attempts: list[Attempt],
    upstreams: Upstreams,
    now: datetime,
    *,
    commands: bool,
) -> list[str]:
    """What its upstream keeps it waiting for."""
    if not job.upstream:
        return []
    text = next((each.state for each in store.watched() if each.name == job.upstream), "")
    seen = _Seen(upstreams.of(job.upstream), gate_text.read(text), now.timestamp())
    lines = _shut(seen, commands=commands)
    if lines or job.due_at > now:
        return lines
    lines = _let_go(seen) + _used_up(seen, job)
    if attempts and attempts[-1].outcome is Outcome.RETRIED and attempts[-1].cycle == job.cycle:
        lines += _no_more_retries(store, seen)
    return lines


def _shut(seen: _Seen, *, commands: bool) -> list[str]:
    """Nothing of it begins, or only probes."""
    breaker, gate, now = seen.upstream.breaker, seen.gate, seen.now
    state = breakers.at(breaker, gate.breaker, now)
    left = timedelta(seconds=min(max(0.0, state.until - now), _LONGEST_SPAN))
    reason = f" ({gate.why})" if gate.why not in {"", BY_HAND} else ""
    free = "no attempt of theirs is used up"
    if state.forced == "open":
        end = f"for another {span(left)}; its jobs go on by themselves then"
        if state.until == float("inf"):
            end = "until somebody resumes it"
        command = f" To let them go on now: seawall resume {seen.upstream.name}" if commands else ""
        return [f"{seen.its} is held by hand{reason}, {end}, and {free}.{command}"]
    if state.forced == "closed" or state.phase is breakers.Phase.CLOSED:
        return []
    if state.phase is breakers.Phase.OPEN:
        line = (
            f"{seen.its} is held{reason}, for another {span(left)}: then it is probed, and once"
            f" it is well its jobs go on by themselves. Meanwhile {free}."
        )
    else:
        few = "one call" if breaker.probes == 1 else f"{breaker.probes:,} calls"
        line = (
            f"{seen.its} was held{reason} and is being probed, with {few} at a time: once it is"
            f" well its jobs go on by themselves. Meanwhile {free}."
        )
    return [line, *_in_vain(seen.upstream.name, state.episode, commands=commands)]


def _in_vain(name: str, openings: int, *, commands: bool) -> list[str]:
    """What to do about one that has been probed again and again."""
    if openings < gates.MANY_OPENINGS:
        return []
    how = f": seawall force {name} closed --for 10m" if commands else ", let everything through."
    return [
        (
            f"It was held {openings:,} times in a row. If it is well, what fails are the jobs that"
            f" are left, and no probe of theirs can tell: to let each of them use up its tries{how}"
        )
    ]


def _let_go(seen: _Seen) -> list[str]:
    breaker = seen.upstream.breaker
    share = breakers.admission(breaker, seen.gate.breaker, seen.now).share
    if share >= 1:
        return []
    within = span(timedelta(seconds=breaker.ramp_seconds))
    return [
        (
            f"{seen.its} was held, and its jobs are let go little by little: {share:.0%} of the"
            f" usual now, all of it within {within}."
        )
    ]


def _used_up(seen: _Seen, job: Job) -> list[str]:
    """What there is to use of it and is used, by all or by its owner."""
    lines = _limited(seen.its, seen.upstream.limits, seen.gate.limits, seen.now)
    if job.owner and seen.upstream.each_owner is not None:
        whose = f"Its owner {job.owner}, at {seen.upstream.name},"
        state = dict(seen.gate.owners).get(job.owner, LimitState())
        lines += _limited(whose, seen.upstream.each_owner, state, seen.now)
    return lines


def _limited(whose: str, limits: Limits, state: LimitState, now: float) -> list[str]:
    """Each limit that is used up; asked for one by one, to tell them apart."""
    lines = []
    most = limits.concurrency
    if most is not None and not bounds.room(Limits(concurrency=most), state, now):
        lines.append(
            f"{whose} has {times(most, 'call')} under way, which is all that it may: this job"
            " begins when one of them has ended and its turn has come."
        )
    for unit, amount in limits.per_minute.items():
        again_at = bounds.next_at(Limits(per_minute={unit: amount}), state, now)
        if again_at is not None:
            wait = span(timedelta(seconds=again_at - now))
            lines.append(
                f"{whose} has used up its {unit}, {amount:,} a minute: there is room again in"
                f" {wait}, and this job begins when its turn has come."
            )
    return lines


def _no_more_retries(store: Store, seen: _Seen) -> list[str]:
    budget = seen.upstream.retry_budget
    if budget is None:
        return []
    within = gates.window_seconds(seen.upstream)
    observed = store.observed(seen.upstream.name, within_seconds=within)
    calls = firsts(seen.upstream, observed, seen.now)
    if gates.retries_left(seen.upstream, seen.gate, calls, seen.now) > 0:
        return []
    return [
        (
            f"The retry budget of its upstream {seen.upstream.name} is used up"
            f" ({_allowed(budget)}): first calls go on, and it is tried again as soon as there is"
            " room. That uses up no attempt."
        )
    ]


def _allowed(budget: RetryBudget) -> str:
    window = span(timedelta(seconds=budget.window_seconds))
    return (
        f"{budget.share:.0%} of the first calls of {window}, and {budget.floor_per_second:g} a"
        " second"
    )


class _Service(NamedTuple):
    """Who works, and whether commands are told."""

    workers: list[Present]
    commands: bool


def _served(job: Job, service: _Service, now: datetime, *, waits_for_now: bool) -> list[str]:
    alive = [each.presence for each in service.workers if not each.presence.stopping]
    of_queue = [each for each in alive if each.queues is None or job.queue in each.queues]
    of_task = [each for each in of_queue if job.task in each.tasks]
    if of_task:
        slots = sum(each.concurrency for each in of_task)
        busy = sum(each.running for each in of_task)
        waited = (now - job.due_at).total_seconds()
        if not waits_for_now or waited < _SLOW_SECONDS or busy < slots:
            return []
        how = ": add workers, or raise --concurrency" if service.commands else ""
        return [
            (
                f"It is due since {ago(job.due_at, now)}, but all {slots:,} slots of the"
                f" {times(len(of_task), 'worker')} that serve it are taken{how}."
            )
        ]
    return [_unserved(job, len(alive), len(of_queue), commands=service.commands)]


def _unserved(job: Job, alive: int, of_queue: int, *, commands: bool) -> str:
    """That no living worker will take it, and what to do."""
    if not alive:
        if not commands:
            return "No worker is alive: it begins when somebody has started one."
        start = "`seawall worker --app MODULE:APP`"
        return f"No worker is alive: start one that serves its queue, {job.queue}, with {start}."
    if not of_queue:
        how = f": start one with --queues {job.queue}" if commands else ""
        return f"No worker serves its queue, {job.queue}, of the {alive:,} that are alive{how}."
    how = ": start one whose application declares it" if commands else ""
    return (
        f"No worker of its queue, of the {of_queue:,} that are alive, knows the task"
        f" {job.task}{how}."
    )


def ago(moment: datetime | None, now: datetime) -> str:
    """How long ago that was, in words."""
    return "an unknown time" if moment is None else span(now - moment)


def times(count: int, what: str) -> str:
    """`1 worker`, `2 workers`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def span(length: timedelta) -> str:
    """A span of time as people say it."""
    seconds = max(0.0, length.total_seconds())
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86_400
    if minutes < 120:
        return f"{minutes:.0f} min"
    return f"{hours:.0f} h" if hours < 48 else f"{days:.0f} days"
