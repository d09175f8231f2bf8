"""An attempt's life, from the claim to what is to be written about its end.

`carry_out` tells it from top to bottom. It knows neither threads nor processes: how a handler is
called is the runner's affair, which gives it as `invoke`; and it writes nothing: the settlement is
a value that the worker puts into the store. The one coroutine serves every kind of handler: one
that runs in a thread simply never waits.
"""

import asyncio
import json
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from seawall.app import Seawall
from seawall.arguments import Call, problems
from seawall.current import LARGEST_CAPTURE, CurrentJob, made_current
from seawall.decisions.inline import verdict_events
from seawall.decisions.policy import Fail, Policy, Verdict
from seawall.errors import FaultError, Skip, Snooze
from seawall.faults import Fault, FaultCode
from seawall.hooks import FaultReport
from seawall.model import Outcome, Settlement, Token, need_text
from seawall.redact import one_line, without_secrets
from seawall.states import State
from seawall.store import Claim, Release
from seawall.tasks import Task
from seawall.telemetry import (
    LOGGER,
    Event,
    JobCancelled,
    JobReleased,
    JobSkipped,
    JobSnoozed,
    JobSucceeded,
    fault_fields,
)

LONGEST_TRACEBACK = 20_000
DEEPEST_TRACEBACK = 30
_BUGS = frozenset({FaultCode.INTERNAL_ERROR, FaultCode.UNKNOWN, FaultCode.INVALID_INPUT})
"""Faults of which an operator wants to see where they came from, whatever the verdict."""

Invoke = Callable[["Work", tuple[Any, ...], dict[str, Any]], Awaitable[Any]]


class Stop(StrEnum):
    """Why a worker ends an attempt that has not ended by itself."""

    TIMEOUT = "timeout"
    EXPIRED = "expired"
    CANCEL = "cancel"
    SHUTDOWN = "shutdown"
    LOST = "lost"


@dataclass(slots=True, kw_only=True)
class Work:
    """One attempt under way."""

    app: Seawall
    task: Task[..., Any, Any]
    claim: Claim
    current: CurrentJob
    now: datetime
    """The store's time when the attempt was claimed."""
    claimed: float
    """This machine's clock at that moment."""
    begun: float
    """This machine's clock when its handler was called."""
    called: bool = True
    """Whether its handler was called; an isolated one waits for its process first."""
    stop: Stop | None = None
    """Set before the handler is stopped, so that its end can be told from an error."""

    def elapsed(self) -> float:
        return max(0.0, self.app.clock.monotonic() - self.begun)

    def store_now(self) -> datetime:
        """About what the store's clock says."""
        return self.now + timedelta(seconds=self.app.clock.monotonic() - self.claimed)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A handler's value that is JSON already."""

    text: str | None


class KilledError(FaultError):
    """The handler's process ended before it could answer: killed by us, or by something else."""


class ElsewhereError(Exception):
    """What a handler raised in another process, classified there: it may not travel itself."""

    def __init__(self, fault: Fault, shown: str, raw_output: str | None) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.shown = shown
        self.raw_output = raw_output


CameTo = Encoded | Stop | Fault | BaseException
"""What an attempt came to: a value, the worker's wish, a fault, or whatever its handler raised."""


@dataclass(frozen=True, slots=True)
class End:
    """What is to be written about an attempt, and said once it is written."""

    write: Settlement | Release
    events: list[Event] = field(default_factory=list)

    @property
    def token(self) -> Token:
        return self.write.token


def begun(app: Seawall, claim: Claim, *, lease_seconds: float, claimed: float) -> Work:
    """The attempt that a claim gives the right to; its handler is about to be called."""
    current = CurrentJob(
        id=claim.token.job_id,
        task=claim.lane.task,
        attempt=claim.tries + 1,
        seq=claim.token.seq,
        cycle=claim.cycle,
        stage=claim.lane.stage,
        owner=claim.owner,
        request_id=claim.request_id,
        deadline_at=claim.deadline_at,
    )
    return Work(
        app=app,
        task=app.tasks[claim.lane.task],
        claim=claim,
        current=current,
        now=claim.lease_until - timedelta(seconds=lease_seconds),
        claimed=claimed,
        begun=app.clock.monotonic(),
        called=not app.tasks[claim.lane.task].isolated,
    )


async def carry_out(work: Work, invoke: Invoke) -> End:
    """One attempt: read the arguments, call the handler, and tell what came of it."""
    work.begun = work.app.clock.monotonic()
    came_to: CameTo
    try:
        with made_current(work.current):
            args, kwargs = arguments(work.task, work.claim.arguments)
            value = await invoke(work, args, kwargs)
        came_to = value if isinstance(value, Encoded) else result(work.task, value)
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is its job's affair
        came_to = error
    return ended(work, came_to)


def ended(work: Work, came_to: CameTo) -> End:  # noqa: PLR0911 - one for each way to end
    """What is to be written about an attempt, by what it came to.

    Every attempt has an end: where even telling it breaks, in a hook or a classifier of the
    application's, it has failed by that.
    """
    try:
        match came_to:
            case Encoded():
                return _succeeded(work, came_to)
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
            case _:
                fault = fault_of(work.app, came_to, work.store_now())
                return _judged(work, fault, came_to)
    except BaseException as error:  # noqa: BLE001 - as above
        line = f"{type(error).__name__} was raised while its end was told"
        fault = Fault(FaultCode.INTERNAL_ERROR, line)
        facts = _facts(work, work.task.policy, fault, State.FAILED)
        events = verdict_events(Fail("fatal"), fault, facts)
        shown = traceback_of(error)
        return End(_settlement(work, Outcome.FAILED, fault=fault, traceback=shown), events)


def _stopped(work: Work, why: Stop) -> End:
    """The end of an attempt that the worker stopped."""
    if why is Stop.CANCEL:
        return End(
            _settlement(work, Outcome.CANCELLED, counts=False),
            [_event(work, JobCancelled, State.CANCELLED)],
        )
    if why is Stop.TIMEOUT:
        limit = f"no end after {work.task.timeout_seconds:g} s, its time limit"
        if not work.called:
            limit = f"its process was not ready after {work.elapsed():.0f} s"
        return _judged(work, Fault(FaultCode.TIMEOUT, limit, ambiguous=True))
    if why is Stop.EXPIRED:
        return _judged(
            work, Fault(FaultCode.EXPIRED, "its deadline passed while it ran", ambiguous=True)
        )
    return End(
        Release(token=work.claim.token, duration_seconds=work.elapsed()),
        [_event(work, JobReleased, State.QUEUED)],
    )


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
    """The policy's verdict on a fault, as a settlement."""
    policy, verdict = work.task.policy, _verdict(work, fault)
    final = isinstance(verdict, Fail)
    shown = None if error is None or not (final or fault.code in _BUGS) else traceback_of(error)
    settlement = _settlement(
        work,
        Outcome.FAILED if final else Outcome.RETRIED,
        fault=fault,
        delay_seconds=None if isinstance(verdict, Fail) else verdict.delay_seconds,
        counts=isinstance(verdict, Fail) or verdict.counts,
        policy=policy.id,
        traceback=shown,
        raw_output=raw_output_of(error) or work.current.said.raw_output,
    )
    _tell_hooks(work, fault, error, final=final)
    facts = _facts(work, policy, fault, State.FAILED if final else State.QUEUED)
    return End(settlement, verdict_events(verdict, fault, facts))


def arguments(task: Task[..., Any, Any], text: str) -> Call:
    """What the handler is called with; `BadArgumentsError` where it does not take it any more."""
    try:
        return task.signature.read(text)
    except (ValueError, TypeError) as error:
        line = f"its arguments no longer fit the task: {problems(error)}"
        raise BadArgumentsError(line) from None


class BadArgumentsError(Exception):
    """What was enqueued is not what the function takes now."""


def result(task: Task[..., Any, Any], value: object) -> Encoded:
    """What the handler returned, as it is kept; `BadResultError` where it cannot be."""
    try:
        text = task.signature.write_result(value)
        if text is not None:
            need_text("output", text)
    except (ValueError, TypeError, RecursionError) as error:
        raise BadResultError(f"its result cannot be kept: {problems(error)}") from None
    return Encoded(text)


class BadResultError(Exception):
    """A handler returned what no store can keep."""


def _succeeded(work: Work, value: Encoded) -> End:
    settlement = _settlement(work, Outcome.SUCCEEDED, output=value.text)
    if not LOGGER.isEnabledFor(JobSucceeded.level):  # made by the thousand
        return End(settlement)
    return End(settlement, [_event(work, JobSucceeded, State.SUCCEEDED)])


def _skipped(work: Work, reason: str) -> End:
    line = one_line(reason)
    settlement = _settlement(work, Outcome.SKIPPED, output=json.dumps(line, ensure_ascii=False))
    return End(settlement, [_event(work, JobSkipped, State.SKIPPED, reason=line)])


def _snoozed(work: Work, seconds: float) -> End:
    settlement = _settlement(work, Outcome.SNOOZED, delay_seconds=seconds, counts=False)
    delay_ms = round(seconds * 1_000)
    return End(settlement, [_event(work, JobSnoozed, State.QUEUED, delay_ms=delay_ms)])


def _settlement(work: Work, outcome: Outcome, **more: Any) -> Settlement:
    said = work.current.said
    ends_well = outcome in (Outcome.SUCCEEDED, Outcome.SKIPPED, Outcome.SNOOZED)
    if said.children and ends_well:
        more["children"] = tuple(said.children)
    if said.raw_output is not None:
        more.setdefault("raw_output", said.raw_output)
    return Settlement(
        token=work.claim.token, outcome=outcome, duration_seconds=work.elapsed(), **more
    )


def _verdict(work: Work, fault: Fault) -> Verdict:
    """The policy's verdict, bounded by the job's own deadline."""
    claim = work.claim
    earlier = work.app.store.earlier(claim) if claim.history else []
    now = work.store_now()
    first = earlier[0].started_at if earlier else now - timedelta(seconds=work.elapsed())
    verdict = work.task.policy.decide(
        fault,
        attempt=claim.tries + 1,
        rng=work.app.rng,
        elapsed_seconds=max(0.0, (now - first).total_seconds()),
        earlier=[past.fault for past in earlier],
        previous_delay_seconds=earlier[-1].delay_seconds if earlier else None,
    )
    if isinstance(verdict, Fail) or claim.deadline_at is None:
        return verdict
    too_late = now + timedelta(seconds=verdict.delay_seconds) >= claim.deadline_at
    return Fail("deadline") if too_late else verdict


def raw_output_of(error: BaseException | None) -> str | None:
    """What the upstream really said, where some error on the way kept it."""
    for _ in range(DEEPEST_TRACEBACK):
        if error is None:
            return None
        found = error.raw_output if isinstance(error, FaultError | ElsewhereError) else None
        if isinstance(found, str):
            return _storable(found)[:LARGEST_CAPTURE]
        error = error.__cause__ or error.__context__
    return None


def traceback_of(error: BaseException) -> str:
    """Where it broke, without what looks like a secret; the end of it where it is long."""
    if isinstance(error, ElsewhereError):
        return error.shown
    try:
        lines = traceback.format_exception(error, limit=-DEEPEST_TRACEBACK)
    except Exception:  # noqa: BLE001 - an exception that cannot be shown
        return f"{type(error).__name__}: cannot be shown"
    text = "\n".join(without_secrets(line) for line in "".join(lines).splitlines())
    return _storable(text)[-LONGEST_TRACEBACK:]


def _storable(text: str) -> str:
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _tell_hooks(work: Work, fault: Fault, error: BaseException | None, *, final: bool) -> None:
    report = FaultReport(
        job_id=work.current.id,
        task=work.task.name,
        attempt=work.current.attempt,
        fault=fault,
        final=final,
        error=error,
        owner=work.claim.owner,
        request_id=work.claim.request_id,
    )
    work.app.hooks.tell(report)


def _facts(work: Work, policy: Policy, fault: Fault, state: State) -> dict[str, object]:
    return {
        "job": work.current.id,
        "task": work.task.name,
        "stage": work.current.stage,
        "state": state,
        "attempt": work.current.attempt,
        "max_attempts": policy.max_attempts,
        "policy": policy.id,
        "duration_ms": round(work.elapsed() * 1_000),
        "request_id": work.claim.request_id,
        **fault_fields(fault),
    }


def _event(work: Work, kind: Any, state: State, **more: object) -> Event:
    made: Event = kind(
        job=work.current.id,
        task=work.task.name,
        stage=work.current.stage,
        state=state,
        attempt=work.current.attempt,
        duration_ms=round(work.elapsed() * 1_000),
        request_id=work.claim.request_id,
        **more,
    )
    return made
