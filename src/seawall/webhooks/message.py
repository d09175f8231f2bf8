"""What is sent: small, without arguments, results or secrets, and the same at every attempt."""

import json
import uuid
from datetime import UTC, datetime

from seawall.model import Job
from seawall.redact import public_name
from seawall.store import KeptRun, Note

STATES = {
    "job.queued": "queued",
    "job.advanced": "running",
    "job.retry": "queued",
    "job.snoozed": "queued",
    "job.lost": "queued",
    "job.redriven": "queued",
    "job.complete": "succeeded",
    "job.skipped": "skipped",
    "job.failed": "failed",
    "job.expired": "failed",
    "job.cancelled": "cancelled",
}
"""Where a job stands when it has happened."""


def new_id() -> str:
    """What a receiver knows a message by, at whichever attempt it comes."""
    return f"msg_{uuid.uuid4().hex}"


def of_note(note: Note, job: Job | None, run: KeptRun | None) -> str:
    """What is said of something that happened. The job, or the run, adds what never changes."""
    data = _of_run(note, run) if note.job is None else _of_job(note, job)
    return written(note.event, note.at, data)


def written(event: str, at: datetime, data: dict[str, object]) -> str:
    """A message's body, in the shape that the Standard Webhooks ask for."""
    moment = f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
    return json.dumps({"type": event, "timestamp": moment, "data": data}, separators=(",", ":"))


def _of_job(note: Note, job: Job | None) -> dict[str, object]:
    data: dict[str, object] = {
        "job": note.job,
        "task": note.task,
        "queue": note.queue,
        "state": STATES.get(note.event),
        "owner": _public(note.owner),
        "key": None if job is None else _public(job.key),
        "run": note.run,
        "stage": note.stage,
        "attempt": note.attempt,
        "cycle": note.cycle,
    }
    if note.delay_seconds is not None:
        data["delay_seconds"] = note.delay_seconds
    if note.fault is not None:
        fault = note.fault
        data["fault"] = {
            "code": str(fault.code),
            "message": fault.message,
            "status": fault.status,
            "detail": _public(fault.detail),
        }
    return data


def _of_run(note: Note, run: KeptRun | None) -> dict[str, object]:
    return {
        "run": note.run,
        "pipeline": note.task,
        "name": None if run is None else _public(run.name),
        "owner": _public(note.owner),
        "reason": _public(note.reason),
    }


def _public(name: str | None) -> str | None:
    return public_name(name) if name else None
