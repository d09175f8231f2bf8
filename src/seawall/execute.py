"""An attempt's life, from the claim to what is to be written about its end.

`carry_out` tells it from top to bottom. It knows neither threads nor processes: how a handler is
called is the runner's affair, which gives it as `invoke`; and it writes nothing: the settlement is
a value that the worker puts into the store. The one coroutine serves every kind of handler: one
that runs in a thread simply never waits.
"""

import asyncio
import json
import math
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from seawall import spans
from seawall.app import Seawall
from seawall.current import LARGEST_CAPTURE, CurrentJob, NoCalls, made_current
from seawall.decisions.inline import verdict_events
from seawall.decisions.policy import Fail, Policy, Retry, Verdict
from seawall.errors import FaultError, Skip, Snooze
from seawall.evidence import ElsewhereError, raw_output_of, storable, traceback_of
from seawall.faults import Fault, FaultCode
from seawall.flow import (
    BadArgumentsError,
    BadResultError,
    Encoded,
    call_of,
    kept,
    next_lane,
    recalled,
    result,
    upstream_of,
)
from seawall.hooks import FaultReport
from seawall.model import Lane, Outcome, Settlement, Token
from seawall.redact import one_line
from seawall.states import State
from seawall.store import Advance, Claim, Ending, Release
from seawall.tasks import Task
from seawall.telemetry import (
    LOGGER,
    Event,
    JobAdvanced,
    JobCameLate,
    JobCancelled,
    JobReleased,
    JobSkipped,
    JobSnoozed,
    JobSucceeded,
    fault_fields,
)

_BUGS = frozenset({FaultCode.INTERNAL_ERROR, FaultCode.UNKNOWN, FaultCode.INVALID_INPUT})
"""Faults of which an operator wants to see where they came from, whatever the verdict."""

_END_WELL = frozenset({Outcome.SUCCEEDED, Outcome.SKIPPED, Outcome.SNOOZED})

Invoke = Callable[["Work", tuple[Any, ...], dict[str, Any]], Awaitable[Any]]


class Stop(StrEnum):
    """Why a worker ends an attempt that has not ended by itself."""

    TIMEOUT = "timeout"
    EXPIRED = "expired"
    CANCEL = "cancel"
    SHUTDOWN = "shutdown"
    LOST = "lost"


@dataclass(slots=True)
class Work:
    """One attempt under way."""

    app: Seawall
    task: Task[..., Any, Any]
    claim: Claim
    current: CurrentJob
    lease_seconds: float
    claimed: float
    """This machine's clock when the claim came."""
    begun: float
    """This machine's clock when its handler was called."""
    called: bool = True
    """Whether its handler was called; an isolated one waits for its process first."""
    stop: Stop | None = None
    """Set before the handler is stopped, so that its end can be told from an error."""
    witness: "Witness | None" = None
    """Who is told how its call at the upstream ended."""
    judge: "Judge | None" = None
    """Who says what follows a fault; None: the task's policy."""
    limit_seconds: float | None = None
    """How long it may take, where that is not what its task says."""
    before: str | None = None
    """What the stage before left, wherever it was kept."""
    use_by: float = math.inf
    """This machine's clock until when its handler may be called."""
    span: spans.AttemptSpan | None = None
    """What stands for it in a trace; None where nobody traces."""

    def saw(self, fault: Fault | None, *, says_nothing: bool = False) -> bool:
        """Tell how the call ended; whether the attempt counts."""
        if self.witness is None:
            return True
        return self.witness.ended(self, fault, says_nothing=says_nothing)

    @property
    def breaker(self) -> str | None:
        """The state of its upstream's breaker, where somebody watches over that."""
        if self.witness is None or not self.claim.lane.upstream:
            return None
        return self.witness.phase(self.claim.lane.upstream)

    def is_late(self) -> bool:
        """Whether the right to begin is over."""
        return self.app.clock.monotonic() > self.use_by

    def elapsed(self) -> float:
        return max(0.0, self.app.clock.monotonic() - self.begun)

    def store_now(self) -> datetime:
        """About what the store's clock says: the claim was made a lease before its end."""
        since = self.app.clock.monotonic() - self.claimed
        return self.claim.lease_until + timedelta(seconds=since - self.lease_seconds)


class Witness(Protocol):
    """Who watches over upstreams."""

    def ended(self, work: Work, fault: Fault | None, *, says_nothing: bool = False) -> bool:
        """A call ended, well or by a fault, or in a way that says nothing of its upstream.

        Answers whether the attempt counts: one that failed while its upstream is held does not.
        """
        ...

    def phase(self, upstream: str) -> str:
        """What the upstream's breaker is now."""
        ...


class Ruling(NamedTuple):
    """What follows an attempt that failed."""

    policy: Policy
    """The one that says so."""
    verdict: Verdict
    counts: bool
    due_seconds: float | None = None
    """When it may be claimed, where that is not after the verdict's own delay."""


class Judge(Protocol):
    """Who says what follows a fault."""

    def __call__(self, work: Work, fault: Fault, *, charged: bool) -> Ruling:
        """The ruling; not `charged` where the attempt says nothing about the job."""
        ...


class KilledError(FaultError):
    """The handler's process ended before it could answer: killed by us, or by something else."""


class TooLateError(Exception):
    """What let the attempt through was for an earlier moment: its handler was not called."""


CameTo = Encoded | Stop | Fault | BaseException
"""What an attempt came to: a value, the worker's wish, a fault, or whatever its handler raised."""


class End(NamedTuple):
    """What is to be written about an attempt, and said once it is written."""

    write: Ending | Release
    events: Sequence[Event] = ()
    span: spans.Finish | None = None
    """What is told in a trace once it is written."""
    failed: FaultReport | None = None
    """What hooks for failed jobs are told once it is written."""

    @property
    def token(self) -> Token:
        return self.write.token


def begun(
    app: Seawall,
    claim: Claim,
    *,
    lease_seconds: float,
    claimed: float,
    witness: Witness | None = None,
    use_by: float = math.inf,
) -> Work:
    """The attempt that a claim gives the right to; its handler is about to be called."""
    token, lane = claim.token, claim.lane
    current = CurrentJob(
        id=token.job_id,
        task=lane.task,
        attempt=claim.tries + 1,
        seq=token.seq,
        cycle=claim.cycle,
        stage=lane.stage,
        owner=claim.owner,
        request_id=claim.request_id,
        deadline_at=claim.deadline_at,
        trace=claim.trace,
    )
    task = app.tasks[lane.task].at(lane.stage)
    current.stage_name = task.name
    current.run = claim.run
    if task.isolated:
        current.caller = NoCalls()
    begun_at = app.clock.monotonic()
    called = not task.isolated
    return Work(
        app, task, claim, current, lease_seconds, claimed, begun_at, called, witness=witness,
        use_by=use_by,
    )  # fmt: skip


async def carry_out(work: Work, invoke: Invoke) -> End:
    """One attempt: read the arguments, call the handler, and tell what came of it."""
    work.begun = work.app.clock.monotonic()
    work.span = spans.begun(work)
    came_to: CameTo
    try:
        with made_current(work.current, work.span):
            if work.claim.input is not None:
                work.before = await recalled(work.app, work.task, work.claim.input)
            args, kwargs = call_of(work.app, work.claim, work.before)
            if work.is_late():
                raise TooLateError  # noqa: TRY301 - as where its process says so
            value = await invoke(work, args, kwargs)
        if isinstance(value, BaseException):
            raise value  # noqa: TRY301 - returned or raised, it is the same news
        came_to = value if isinstance(value, Encoded) else result(work.task, value)
        if came_to.text is not None:
            came_to = Encoded(came_to.text, await kept(work.app, work.task, came_to.text))
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its job's affair
        came_to = error
    try:
        return ended(work, came_to)
    finally:  # it holds this frame, which holds it: a circle that only the collector could break
        del came_to


def ended(work: Work, came_to: CameTo) -> End:
    """What is to be written about an attempt, by what it came to, and told in its trace."""
    end = _ended(work, came_to)
    return end if work.span is None else end._replace(span=work.span.finish(end.write))


def _ended(work: Work, came_to: CameTo) -> End:  # noqa: PLR0911 - one for each way to end
    """What is to be written about an attempt, by what it came to.

    Every attempt has an end: where even telling it breaks, in a hook or a classifier of the
    application's, it has failed by that.
    """
    try:
        match came_to:
            case Encoded():
                return _done(work, came_to)
            case Skip():
                return _skipped(work, str(came_to))
            case Snooze():
                return _snoozed(work, came_to.seconds)
            case Stop():
                return _stopped(work, came_to)
            case Fault():
                return _judged(work, came_to)
            case asyncio.CancelledError() | KilledError() if work.stop is not None:
                return _stopped(work, work.stop)
            case TooLateError():
                return _came_late(work)
            case _:
                fault = fault_of(work.app, came_to, work.store_now())
                return _judged(work, fault, came_to)
    except BaseException as error:  # noqa: BLE001 - as above
        line = f"{type(error).__name__} was raised while its end was told"
        fault = Fault(FaultCode.INTERNAL_ERROR, line)
        facts = _facts(work, work.task.policy, fault, State.FAILED)
        events = verdict_events(Fail("fatal"), fault, facts)
        settlement = _settlement(work, Outcome.FAILED, fault=fault, traceback=traceback_of(error))
        return End(settlement, events, failed=_report(work, fault, error, final=True))


def _stopped(work: Work, why: Stop) -> End:
    """The end of an attempt that the worker stopped."""
    if why in (Stop.CANCEL, Stop.SHUTDOWN, Stop.LOST):
        work.saw(None, says_nothing=True)
    if why is Stop.CANCEL:
        return End(
            _settlement(work, Outcome.CANCELLED, counts=False),
            [_event(work, JobCancelled, State.CANCELLED)],
        )
    if why is Stop.TIMEOUT:
        seconds = work.limit_seconds or work.task.timeout_seconds
        limit = f"no end after {seconds:g} s, its time limit"
        if not work.called:
            limit = f"its process was not ready after {work.elapsed():.0f} s"
        return _judged(work, Fault(FaultCode.TIMEOUT, limit, ambiguous=True))
    if why is Stop.EXPIRED:
        return _judged(
            work, Fault(FaultCode.EXPIRED, "its deadline passed while it ran", ambiguous=True)
        )
    return End(
        Release(token=work.claim.token, duration_seconds=work.elapsed(), span=_span_text(work)),
        [_event(work, JobReleased, State.QUEUED)],
    )


def _came_late(work: Work) -> End:
    """It never began: the job goes back to its place, to be let through again."""
    work.saw(None, says_nothing=True)
    return End(Release(token=work.claim.token), [_event(work, JobCameLate, State.QUEUED)])


def cannot_be_stored(work: Work, reason: str) -> End:
    """The end of an attempt whose end the store would not take: nothing is dropped in silence."""
    work.witness = None  # it has said already how its call ended
    line = f"what it came to cannot be stored: {reason}"
    return ended(work, Fault(FaultCode.INTERNAL_ERROR, line))


def fault_of(app: Seawall, error: BaseException, now: datetime) -> Fault:
    """What went wrong, canonically, by the application's own classifiers first."""
    if isinstance(error, ElsewhereError):
        return error.fault
    if isinstance(error, BadArgumentsError):
        return Fault(FaultCode.INVALID_INPUT, str(error))
    if isinstance(error, BadResultError):
        return Fault(FaultCode.INTERNAL_ERROR, str(error))
    return app.classifier.classify(error, now=now)


def _judged(work: Work, fault: Fault, error: BaseException | None = None) -> End:
    """What follows a fault, as a settlement."""
    charged = _charged(work, fault, error)
    policy, verdict, counts, due_seconds = (work.judge or by_its_policy)(
        work, fault, charged=charged
    )
    final = isinstance(verdict, Fail)
    if isinstance(verdict, Retry) and due_seconds is None:
        due_seconds = verdict.delay_seconds
    shown = None if error is None or not (final or fault.code in _BUGS) else traceback_of(error)
    settlement = _settlement(
        work,
        Outcome.FAILED if final else Outcome.RETRIED,
        fault=fault,
        delay_seconds=due_seconds,
        counts=counts,
        policy=policy.id,
        lane=None if final else _lane_for_retries(work),
        traceback=shown,
        raw_output=raw_output_of(error),
    )
    report = _report(work, fault, error, final=final)
    if report is not None:
        work.app.hooks.tell(report)
    facts = _facts(work, policy, fault, State.FAILED if final else State.QUEUED)
    events = verdict_events(verdict, fault, facts)
    return End(settlement, events, failed=report if final else None)


def _done(work: Work, value: Encoded) -> End:
    """The stage is done; it may be the last."""
    task, lane = work.app.tasks[work.claim.lane.task], work.claim.lane
    if lane.stage + 1 >= len(task.stages):
        return _succeeded(work, value)
    work.saw(None)
    after = task.stages[lane.stage + 1]
    said = work.current.said
    write = Advance(
        token=work.claim.token,
        lane=next_lane(lane, upstream_of(after, work.claim.arguments, value.text)),
        output=value.kept,
        duration_seconds=work.elapsed(),
        children=tuple(said.children),
        raw_output=None if said.raw_output is None else _kept(work, said.raw_output),
        config=work.task.config,
        usage=said.usage,
        span=_span_text(work),
    )
    if not LOGGER.isEnabledFor(JobAdvanced.level):  # made by the thousand
        return End(write)
    return End(write, [_event(work, JobAdvanced, State.RUNNING)])


def _succeeded(work: Work, value: Encoded) -> End:
    work.saw(None)
    said = work.current.said
    nothing = value.text is said.raw_output is work.task.config is None
    if nothing and said.usage is None and not said.children:
        settlement = Settlement.plain(work.claim.token, work.elapsed())
    else:
        settlement = _settlement(work, Outcome.SUCCEEDED, output=value.kept)
    if not LOGGER.isEnabledFor(JobSucceeded.level):  # made by the thousand
        return End(settlement)
    return End(settlement, [_event(work, JobSucceeded, State.SUCCEEDED)])


def _skipped(work: Work, reason: str) -> End:
    work.saw(None, says_nothing=True)
    line = one_line(reason)
    settlement = _settlement(work, Outcome.SKIPPED, output=json.dumps(line, ensure_ascii=False))
    return End(settlement, [_event(work, JobSkipped, State.SKIPPED, reason=line)])


def _snoozed(work: Work, seconds: float) -> End:
    work.saw(None, says_nothing=True)
    settlement = _settlement(work, Outcome.SNOOZED, delay_seconds=seconds, counts=False)
    delay_ms = round(seconds * 1_000)
    return End(settlement, [_event(work, JobSnoozed, State.QUEUED, delay_ms=delay_ms)])


def _settlement(work: Work, outcome: Outcome, **more: Any) -> Settlement:
    said = work.current.said
    if said.children and outcome in _END_WELL:
        more["children"] = tuple(said.children)
    raw_output = more.pop("raw_output", None) or said.raw_output
    if raw_output is not None:
        more["raw_output"] = _kept(work, raw_output)
    return Settlement(
        token=work.claim.token,
        outcome=outcome,
        duration_seconds=work.elapsed(),
        config=work.task.config,
        usage=said.usage,
        span=_span_text(work),
        **more,
    )


def _span_text(work: Work) -> str | None:
    """What the attempts after it are linked to."""
    return None if work.span is None else work.span.text


def _kept(work: Work, raw_output: str) -> str | None:
    """What may be kept of it; what comes from another process was looked at there."""
    if not work.current.said.looked_at:
        raw_output = work.app.hooks.kept(raw_output, work.current.id) or ""
    return storable(raw_output)[:LARGEST_CAPTURE] or None


def _charged(work: Work, fault: Fault, error: BaseException | None) -> bool:
    """Tell how the attempt ended; whether it counts.

    What a call at another upstream came to says nothing about the job's own.
    """
    name, counts = getattr(error, "seawall_call", (work.claim.lane.upstream, True))
    if name == work.claim.lane.upstream:
        return work.saw(fault)
    work.saw(None, says_nothing=True)
    return bool(counts)


def _lane_for_retries(work: Work) -> Lane | None:
    """Where it waits for its next attempt, where the upstream's budget has a say in that."""
    lane = work.claim.lane
    if work.witness is None or lane.retry or not lane.upstream:
        return None
    budget = work.app.upstreams.of(lane.upstream).retry_budget
    return None if budget is None else _as_retry(lane)


@lru_cache(maxsize=1_024)
def _as_retry(lane: Lane) -> Lane:
    return replace(lane, retry=True)


def by_its_policy(work: Work, fault: Fault, *, charged: bool) -> Ruling:
    """What the task's policy says: the judge of what workers run."""
    verdict = _verdict(work, fault, charged=charged)
    return Ruling(work.task.policy, verdict, isinstance(verdict, Fail) or verdict.counts)


def _verdict(work: Work, fault: Fault, *, charged: bool) -> Verdict:
    """The policy's verdict, bounded by the job's own deadline."""
    claim = work.claim
    earlier = work.app.store.earlier(claim) if claim.history and charged else []
    elapsed_seconds = work.elapsed()
    if earlier:
        elapsed_seconds = max(0.0, (work.store_now() - earlier[0].started_at).total_seconds())
    verdict = verdict_on(
        work.task.policy,
        fault,
        tries=claim.tries,
        charged=charged,
        earlier=[past.fault for past in earlier],
        previous_delay_seconds=earlier[-1].delay_seconds if earlier else None,
        elapsed_seconds=elapsed_seconds,
        rng=work.app.rng,
    )
    if isinstance(verdict, Fail) or claim.deadline_at is None:
        return verdict
    again_at = work.store_now() + timedelta(seconds=verdict.delay_seconds)
    too_late = again_at >= claim.deadline_at
    return Fail("deadline") if too_late else verdict


def verdict_on(
    policy: Policy,
    fault: Fault,
    *,
    tries: int,
    charged: bool,
    earlier: Sequence[Fault],
    previous_delay_seconds: float | None,
    elapsed_seconds: float,
    rng: random.Random,
) -> Verdict:
    """A policy's verdict on an attempt, after so many tries that counted.

    One that is not charged leaves everything as if it had been the first: nothing is earlier.
    """
    verdict = policy.decide(
        fault,
        attempt=tries + 1 if charged else 1,
        rng=rng,
        elapsed_seconds=elapsed_seconds,
        earlier=earlier,
        previous_delay_seconds=previous_delay_seconds,
    )
    if isinstance(verdict, Retry) and not charged:
        return replace(verdict, counts=False)
    return verdict


def _report(
    work: Work, fault: Fault, error: BaseException | None, *, final: bool
) -> FaultReport | None:
    """What hooks are told; None where there are none."""
    if not work.app.hooks:
        return None
    return FaultReport(
        job_id=work.current.id,
        task=work.claim.lane.task,
        attempt=work.current.attempt,
        fault=fault,
        final=final,
        error=error,
        owner=work.claim.owner,
        request_id=work.claim.request_id,
    )


def _facts(work: Work, policy: Policy, fault: Fault, state: State) -> dict[str, object]:
    return {
        "job": work.current.id,
        "task": work.claim.lane.task,
        "stage": work.current.stage,
        "state": state,
        "attempt": work.current.attempt,
        "max_attempts": policy.max_attempts,
        "upstream": work.claim.lane.upstream or None,
        "breaker": work.breaker,
        "policy": policy.id,
        "duration_ms": round(work.elapsed() * 1_000),
        "request_id": work.claim.request_id,
        **fault_fields(fault),
    }


def _event(work: Work, kind: Any, state: State, **more: object) -> Event:
    made: Event = kind(
        job=work.current.id,
        task=work.claim.lane.task,
        stage=work.current.stage,
        state=state,
        attempt=work.current.attempt,
        duration_ms=round(work.elapsed() * 1_000),
        request_id=work.claim.request_id,
        **more,
    )
    return made
