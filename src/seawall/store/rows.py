"""Between the values of the port and the rows of the statements, and nothing else.

Every column that a statement names stands in its row, with None where there is nothing. Spans of
time are whole microseconds, rounded up: a wait is never shorter than it was asked for.
"""

import dataclasses
import hashlib
import json
import math
import operator
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from seawall.faults import Fault, FaultCode
from seawall.model import (
    LONGEST_NAME,
    Attempt,
    Job,
    Lane,
    Lease,
    NewJob,
    Outcome,
    Settlement,
    Token,
)
from seawall.states import State
from seawall.store.backend import Row, Values
from seawall.store.letters import DeadLetter, LetterFilter, LetterState
from seawall.store.run_values import KeptRun, RunStop
from seawall.store.values import (
    Advance,
    Backlog,
    Claim,
    Earlier,
    Filter,
    Hold,
    JobChange,
    Lapse,
    Observation,
    Planned,
    Presence,
    Present,
    Progress,
    Reclaim,
    Redrive,
    Release,
    Scope,
    Wanted,
    Watched,
)

Written = Callable[[datetime], object]
Read = Callable[[Any], datetime]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def microseconds(seconds: float) -> int:
    """A span of time as the statements take it."""
    return math.ceil(seconds * 1_000_000)


# --- to be written ----------------------------------------------------------------------------


def lane(given: Lane) -> Values:
    return dataclasses.asdict(given)


def new_job(given: NewJob, position: int, lane_id: int, written: Written) -> Values:
    begin = given.begin
    return {
        "position": position,
        "lane": lane_id,
        "task": given.lane.task,
        "stage": given.lane.stage,
        "key": given.key,
        "digest": None if given.key is None else digest(given.codec, given.arguments),
        "run_after": None if given.run_after is None else written(given.run_after),
        "deadline_at": None if given.deadline_at is None else written(given.deadline_at),
        "run_after_span": _span(given.run_after_seconds),
        "deadline_span": _span(given.deadline_seconds),
        "run": given.run,
        "owner": given.owner,
        "codec": given.codec,
        "arguments": given.arguments,
        "request_id": given.request_id,
        "trace": given.trace,
        "tags": _json(given.tags) if given.tags else None,
        "worker": None if begin is None else begin.worker,
        "lease": None if begin is None else microseconds(begin.lease_seconds),
        "parent": given.parent,
    }


def plain_job(given: NewJob, lane_id: int) -> Row | None:
    """The columns of `enqueue_plain`, where there is no more to a job than these tell."""
    if given.is_plain:  # a quick look, since most are so
        text = given.arguments
        return lane_id, given.lane.stage, None, given.codec, text, None, given.trace, None
    if (
        given.key is None
        and not given.tags
        and given.run_after is None
        and given.run_after_seconds is None
        and given.deadline_at is None
        and given.deadline_seconds is None
        and given.run is None
        and given.begin is None
    ):
        owner, text = given.owner, given.arguments
        asker = given.request_id, given.trace, given.parent
        return lane_id, given.lane.stage, owner, given.codec, text, *asker
    return None


def _span(seconds: float | None) -> int | None:
    return None if seconds is None else microseconds(seconds)


def digest(codec: str, arguments: str) -> str:
    """What arguments are known by, to tell whether a key comes again with others."""
    content = f"{codec}\n{arguments}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def wanted(given: Wanted) -> Values:
    return {
        "worker": given.worker,
        "limit": given.limit,
        "lease": microseconds(given.lease_seconds),
        "prefetch": given.prefetch,
        "locked": given.upstream is not None,
    }


def settlement(given: Settlement, lane_id: int | None) -> Row:
    """The columns of `settle`."""
    fault, delay = given.fault, given.delay_seconds
    return (
        *given.token,
        given.state,
        given.outcome,
        given.counts,
        None if fault is None else fault_text(fault),
        None if delay is None else microseconds(delay),
        given.policy,
        given.output,
        given.traceback,
        given.raw_output,
        microseconds(given.duration_seconds),
        microseconds(given.age_seconds),
        lane_id,
        given.config,
        *(given.usage or _NOTHING_USED),
        *_named(fault),
        given.span,
    )


_NOTHING_USED = (None, None, None)


def success(given: Settlement) -> Row | None:
    """The columns of `succeed`, where there is no more to a settlement than these tell."""
    if given.is_plain:  # a quick look, since most are so
        took, ago = given.duration_seconds * 1_000_000, given.age_seconds * 1_000_000
        return (*given.token, math.ceil(took), math.ceil(ago), None, None)
    if (
        given.outcome is not Outcome.SUCCEEDED
        or not given.counts
        or given.policy is not None
        or given.raw_output is not None
        or given.traceback is not None
        or given.usage is not None
    ):
        return None
    took, ago = microseconds(given.duration_seconds), microseconds(given.age_seconds)
    return (*given.token, took, ago, given.output, given.config)


def advance(given: Advance, lane_id: int) -> Row:
    """The columns of `advance`."""
    return (
        *given.token,
        lane_id,
        given.lane.stage,
        given.output,
        given.counts,
        given.policy,
        microseconds(given.duration_seconds),
        microseconds(given.age_seconds),
        given.config,
        given.raw_output,
        *(given.usage or _NOTHING_USED),
        given.span,
    )


def ending(given: Settlement | Advance) -> Values:
    """What tells whether an attempt has ended so already."""
    outcome = given.outcome if isinstance(given, Settlement) else Outcome.ADVANCED
    return {**given.token._asdict(), "id": given.token.job_id, "outcome": outcome}


def release(given: Release) -> Values:
    took = given.duration_seconds
    return {
        "id": given.token.job_id,
        "lease_no": given.token.lease_no,
        "seq": given.token.seq,
        "outcome": Outcome.RELEASED,
        "took": None if took is None else microseconds(took),
        "ago": microseconds(given.age_seconds),
        "span": given.span,
    }


def reclaim(given: Reclaim) -> Values:
    delay = given.delay_seconds
    return {
        "id": given.token.job_id,
        "lease_no": given.token.lease_no,
        "seq": given.token.seq,
        # Two that reclaim the same lease write the same line: neither may take it for its own.
        "outcome": None,
        "fault": fault_text(given.fault),
        "delay": None if delay is None else microseconds(delay),
        "policy": given.policy,
        **named_fault(given.fault),
    }


def redrive(given: Redrive, lane_id: int | None) -> Values:
    edited = given.arguments is not None
    return {
        "id": given.job_id,
        "lane": lane_id,
        "stage": None if given.lane is None else given.lane.stage,
        "delay": microseconds(given.delay_seconds),
        "only_open": given.only_open,
        "by": given.by,
        "codec": given.codec if edited else None,
        "arguments": given.arguments,
        "digest": digest(given.codec, given.arguments) if given.arguments is not None else None,
    }


def progress(given: Progress) -> Values:
    return {
        "id": given.token.job_id,
        "lease_no": given.token.lease_no,
        "seq": given.token.seq,
        "done": given.done,
        "total": given.total,
        "message": given.message,
    }


def observation(given: Observation) -> Values:
    return {**given._asdict(), "spans": _json(given.spans)}


def presence(given: Presence) -> Values:
    queues = None if given.queues is None else _json(given.queues)
    return {**dataclasses.asdict(given), "queues": queues, "tasks": _json(given.tasks)}


def filtered(given: Filter, written: Written) -> Values:
    after, before = given.created_after, given.created_before
    return {
        "state": None if given.state is None else str(given.state),
        "owner": given.owner,
        "tag": given.tag,
        "key": given.key,
        "run": given.run,
        # A fault's text begins with its code.
        "fault": None if given.fault is None else f'{{"code":"{given.fault}"',
        "argument": None if given.argument is None else folded(given.argument),
        "created_after": None if after is None else written(after),
        "created_before": None if before is None else written(before),
    }


def folded(text: str) -> str:
    """The text with small letters for capitals from A to Z, as both databases do it."""
    return text.translate(_SMALL)


_SMALL = {capital: capital + 32 for capital in range(ord("A"), ord("Z") + 1)}
_FAULT_FIELDS = tuple(field for field in dataclasses.fields(Fault) if field.name != "code")


@lru_cache(maxsize=500)
def fault_text(fault: Fault) -> str:
    """A fault as it is kept: its code, and what differs from the usual.

    The same one comes again and again while an upstream is in trouble.
    """
    kept: dict[str, object] = {"code": fault.code}
    for field in _FAULT_FIELDS:
        value = getattr(fault, field.name)
        if value != field.default:
            kept[field.name] = value
    return _json(kept)


def named_fault(fault: Fault | None) -> Values:
    """What dead letters are found by: what went wrong, and what it is like."""
    code, fingerprint = _named(fault)
    return {"code": code, "fingerprint": fingerprint}


def _named(fault: Fault | None) -> tuple[str | None, str | None]:
    if fault is None:
        return None, None
    # An application may have chosen a fingerprint of any length.
    return str(fault.code), fault.fingerprint[:LONGEST_NAME]


def letters_filtered(given: LetterFilter, written: Written) -> Values:
    return {
        "code": None if given.code is None else str(given.code),
        "fingerprint": given.fingerprint,
        "stage": given.stage,
        "owner": given.owner,
        "run": given.run,
        "since": None if given.since is None else written(given.since),
        "until": None if given.until is None else written(given.until),
    }


# --- found ------------------------------------------------------------------------------------


def lane_of(named: Sequence[Any]) -> Lane:
    queue, task, stage, upstream, priority, owner, retry, run = named
    return Lane(task, queue, stage, upstream, priority, owner, bool(retry), run)


def fault_of(text: str | None) -> Fault | None:
    if text is None:
        return None
    return _fault(text)


def _fault(text: str) -> Fault:
    kept = json.loads(text)
    return Fault(**{**kept, "kinds": tuple(kept.get("kinds", ()))})


def earlier(history: str | None) -> list[Earlier]:
    """Times are microseconds here, on every store: nobody reads them but this."""
    return [
        Earlier(
            _fault(fault),
            None if delay is None else delay / 1_000_000,
            _EPOCH + timedelta(microseconds=started_at),
        )
        for fault, delay, started_at in json.loads(history or "[]")
    ]


def claim(row: Row, in_lane: Lane, read: Read) -> Claim:
    id_, lease_no, seq, _, cycle, tries, losses, due_at, lease_until, deadline_at, *rest, _ = row
    return Claim(
        Token(id_, lease_no, seq + 1),
        in_lane,
        cycle,
        tries,
        losses,
        read(due_at),
        read(lease_until),
        None if deadline_at is None else read(deadline_at),
        *rest,
    )


BY_AGE = operator.itemgetter(7, 0)
"""The order of claimed rows: when they were due, and then their ids."""


def lapse(row: Row, in_lane: Lane, read: Read) -> Lapse:
    id_, lease_no, seq, _, cycle, tries, losses, worker, lease_until, prefetched, spared = row
    token, lapsed_at = Token(id_, lease_no, seq + 1), read(lease_until)
    return Lapse(token, in_lane, cycle, tries, losses, worker, lapsed_at, bool(prefetched), spared)


def watched(row: Row, read: Read) -> Watched:
    name, state, gated, held_until, reason = row
    until = None if held_until is None else read(held_until)
    return Watched(name, state, bool(gated), until, reason)


def hold(row: Row, read: Read) -> Hold:
    scope, name, held_at, held_until, reason = row
    until = None if held_until is None else read(held_until)
    return Hold(scope=Scope(scope), name=name, reason=reason, until=until, since=read(held_at))


def job(row: Row, in_lane: Lane, read: Read) -> Job:
    (
        id_, _, state, due_at, cycle, tries, losses, seq, lease_no, worker, claimed_at,
        lease_until, cancel_requested, deadline_at, run, owner, created_at, started_at,
        last_attempt_at, finished_at, last_fault, key, tags, parent,
    ) = row  # fmt: skip

    def time(found: Any) -> datetime | None:
        return None if found is None else read(found)

    return Job(
        id=id_,
        task=in_lane.task,
        state=State(state),
        queue=in_lane.queue,
        stage=in_lane.stage,
        priority=in_lane.priority,
        upstream=in_lane.upstream or None,
        due_at=read(due_at),
        created_at=read(created_at),
        # While its first attempt runs, that one's claim is the start.
        started_at=time(started_at or claimed_at),
        last_attempt_at=time(claimed_at or last_attempt_at),
        finished_at=time(finished_at),
        deadline_at=time(deadline_at),
        cycle=cycle,
        tries=tries,
        losses=losses,
        seq=seq,
        lease_no=lease_no,
        lease=None if worker is None else Lease(id_, lease_no, worker, read(lease_until)),
        cancel_requested=bool(cancel_requested),
        owner=owner,
        key=key,
        tags=tuple(sorted(json.loads(tags))) if tags else (),
        run=run,
        parent=parent,
        last_fault=fault_of(last_fault),
    )


_EVENTS = {
    "created": "queued",
    "running": "running",
    "succeeded": "complete",
    "skipped": "skipped",
    "failed": "failed",
    "cancelled": "cancelled",
}


def change(row: Row, in_lane: Lane, read: Read) -> JobChange:
    kind, at, id_, _, state, seq, cycle, tries, owner, run, last_fault = row
    fault = fault_of(last_fault)
    if kind == "waiting":
        event = "redriven" if cycle and not tries and fault is None else "retry"
    elif kind == "failed" and fault is not None and fault.code is FaultCode.EXPIRED:
        event = "expired"
    else:
        event = _EVENTS[kind]
    return JobChange(
        event=event,
        at=read(at),
        job_id=id_,
        task=in_lane.task,
        queue=in_lane.queue,
        stage=in_lane.stage,
        state=State(state),
        attempts=seq,
        cycle=cycle,
        owner=owner,
        run=run,
        fault_code=None if fault is None or kind == "created" else str(fault.code),
    )


def attempt(row: Row, read: Read) -> Attempt:
    (
        job_id, seq, cycle, stage, worker, started_at, finished_at, outcome, counted, fault,
        delay, policy, request_id, config,
    ) = row  # fmt: skip
    return Attempt(
        job_id=job_id,
        seq=seq,
        cycle=cycle,
        stage=stage,
        worker=worker,
        started_at=read(started_at),
        finished_at=read(finished_at),
        outcome=Outcome(outcome),
        counted=bool(counted),
        fault=fault_of(fault),
        delay_seconds=None if delay is None else delay / 1_000_000,
        policy=policy,
        caller_request_id=request_id,
        config=config,
    )


def letter(row: Row, in_lane: Lane, read: Read) -> DeadLetter:
    (
        job_id, state, _, stage, owner, run, fault, first_at, last_at, attempts, times, note,
        handled_at, handled_by, fingerprint,
    ) = row  # fmt: skip
    return DeadLetter(
        job_id=job_id,
        state=LetterState(state),
        task=in_lane.task,
        queue=in_lane.queue,
        stage=stage,
        upstream=in_lane.upstream or None,
        owner=owner,
        run=run,
        fault=_fault(fault),
        fingerprint=fingerprint,
        first_at=read(first_at),
        last_at=read(last_at),
        attempts=attempts,
        times=times,
        note=note,
        handled_at=None if handled_at is None else read(handled_at),
        handled_by=handled_by,
    )


def progress_of(row: Row) -> Progress:
    job_id, lease_no, seq, done, total, message = row
    return Progress(token=Token(job_id, lease_no, seq), done=done, total=total, message=message)


def present(row: Row, read: Read) -> Present:
    (
        id_, host, pid, version, queues, tasks, concurrency, running, stopping, started_at, seen_at,
    ) = row  # fmt: skip
    told = Presence(
        worker=id_,
        host=host,
        pid=pid,
        version=version,
        queues=None if queues is None else tuple(json.loads(queues)),
        tasks=tuple(json.loads(tasks)),
        concurrency=concurrency,
        running=running,
        stopping=bool(stopping),
    )
    return Present(told, read(started_at), read(seen_at))


def planned(row: Row, read: Read) -> Planned:
    name, spec, next_at, last_at, last_job = row
    return Planned(name, spec, read(next_at), None if last_at is None else read(last_at), last_job)


def backlog(row: Row, in_lane: Lane, read: Read) -> Backlog:
    _, due, later, running, oldest = row
    return Backlog(in_lane, due, later, running, None if oldest is None else read(oldest))


def kept_run(row: Row, read: Read) -> KeptRun:
    (
        id_, pipeline, name, round_, stages, terms, owner, stop, reason, failed, succeeded, *times,
    ) = row  # fmt: skip
    created, sealed, stopped, closed = (None if at is None else read(at) for at in times)
    if created is None:
        raise AssertionError("every run has a beginning")
    return KeptRun(
        id_, pipeline, name, round_, tuple(json.loads(stages)), terms, owner,
        None if stop is None else RunStop(stop), reason, failed, succeeded,
        created, sealed, stopped, closed,
    )  # fmt: skip
