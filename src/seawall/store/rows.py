"""Between the values of the port and the rows of the statements, and nothing else.

Every column that a statement names stands in its row, with None where there is nothing. Spans of
time are whole microseconds, rounded up: a wait is never shorter than it was asked for.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from seawall.faults import Fault
from seawall.model import Attempt, Job, Lane, Lease, NewJob, Outcome, Settlement, Token
from seawall.states import State
from seawall.store.backend import Row, Values
from seawall.store.values import (
    Advance,
    Backlog,
    Claim,
    Earlier,
    Filter,
    Hold,
    Lapse,
    Planned,
    Presence,
    Present,
    Progress,
    Reclaim,
    Redrive,
    Release,
    Scope,
    Wanted,
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
        "tags": _json(given.tags) if given.tags else None,
        "worker": None if begin is None else begin.worker,
        "lease": None if begin is None else microseconds(begin.lease_seconds),
    }


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
    }


def settlement(given: Settlement) -> Values:
    token, delay = given.token, given.delay_seconds
    return {
        "id": token.job_id,
        "lease_no": token.lease_no,
        "seq": token.seq,
        "state": given.state,
        "outcome": given.outcome,
        "counted": given.counts,
        "fault": None if given.fault is None else fault_text(given.fault),
        "delay": None if delay is None else microseconds(delay),
        "policy": given.policy,
        "output": given.output,
        "traceback": given.traceback,
        "raw_output": given.raw_output,
        "took": microseconds(given.duration_seconds),
        "ago": microseconds(given.age_seconds),
    }


def advance(given: Advance, lane_id: int) -> Values:
    return {
        "id": given.token.job_id,
        "lease_no": given.token.lease_no,
        "seq": given.token.seq,
        "outcome": Outcome.ADVANCED,
        "lane": lane_id,
        "stage": given.lane.stage,
        "output": given.output,
        "counted": given.counts,
        "policy": given.policy,
        "took": microseconds(given.duration_seconds),
        "ago": microseconds(given.age_seconds),
    }


def release(given: Release) -> Values:
    took = given.duration_seconds
    return {
        "id": given.token.job_id,
        "lease_no": given.token.lease_no,
        "seq": given.token.seq,
        "outcome": Outcome.RELEASED,
        "took": None if took is None else microseconds(took),
        "ago": microseconds(given.age_seconds),
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
    }


def redrive(given: Redrive, lane_id: int | None) -> Values:
    stage = None if given.lane is None else given.lane.stage
    return {"id": given.job_id, "lane": lane_id, "stage": stage}


def progress(given: Progress) -> Values:
    return {
        "id": given.token.job_id,
        "lease_no": given.token.lease_no,
        "seq": given.token.seq,
        "done": given.done,
        "total": given.total,
        "message": given.message,
    }


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
        "created_after": None if after is None else written(after),
        "created_before": None if before is None else written(before),
    }


_FAULT_FIELDS = tuple(field for field in dataclasses.fields(Fault) if field.name != "code")


def fault_text(fault: Fault) -> str:
    """A fault as it is kept: its code, and what differs from the usual."""
    kept: dict[str, object] = {"code": fault.code}
    for field in _FAULT_FIELDS:
        value = getattr(fault, field.name)
        if value != field.default:
            kept[field.name] = value
    return _json(kept)


# --- found ------------------------------------------------------------------------------------


def lane_of(named: Sequence[Any]) -> Lane:
    queue, task, stage, upstream, priority, owner = named
    return Lane(
        queue=queue, task=task, stage=stage, upstream=upstream, priority=priority, owner=owner
    )


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


def claim_order(given: Claim) -> tuple[int, datetime, int]:
    """Best first: priority, then age."""
    return -given.lane.priority, given.due_at, given.token.job_id


def lapse(row: Row, in_lane: Lane, read: Read) -> Lapse:
    id_, lease_no, seq, _, cycle, tries, losses, worker, lease_until, prefetched, spared = row
    token, lapsed_at = Token(id_, lease_no, seq + 1), read(lease_until)
    return Lapse(token, in_lane, cycle, tries, losses, worker, lapsed_at, bool(prefetched), spared)


def hold(row: Row, read: Read) -> Hold:
    scope, name, held_at, held_until, reason = row
    until = None if held_until is None else read(held_until)
    return Hold(scope=Scope(scope), name=name, reason=reason, until=until, since=read(held_at))


def job(row: Row, in_lane: Lane, read: Read) -> Job:
    (
        id_, _, state, due_at, cycle, tries, losses, seq, lease_no, worker, claimed_at,
        lease_until, cancel_requested, deadline_at, run, owner, created_at, started_at,
        last_attempt_at, finished_at, last_fault, key, tags,
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
        last_fault=fault_of(last_fault),
    )


def attempt(row: Row, read: Read) -> Attempt:
    (
        job_id, seq, cycle, stage, worker, started_at, finished_at, outcome, counted, fault,
        delay, policy, request_id,
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
