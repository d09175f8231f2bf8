"""What webhooks can be told of, in words.

The words of jobs are those of a job's event log (`timeline`). Each is noted by the very write that
makes it so. Some words of the event log are left out, because no write makes them exactly so: a
worker that claims a job may hold it a while before it begins (`running`), and one that is handed
back is as it was (`released`).
"""

from collections.abc import Iterable
from difflib import get_close_matches

from seawall.errors import ArgumentsError

EVENTS = {
    "job.queued": "The job was asked for.",
    "job.advanced": "A stage is done; the next one begins.",
    "job.retry": "An attempt failed, and another one will follow.",
    "job.snoozed": "Its handler asked to be called again later.",
    "job.lost": "Its worker was lost; another attempt will follow.",
    "job.redriven": "Somebody sent the failed job again.",
    "job.complete": "It succeeded.",
    "job.skipped": "There was nothing to do for it.",
    "job.failed": "It failed for good and left a dead letter.",
    "job.expired": "Its deadline passed: it failed for good and left a dead letter.",
    "job.cancelled": "It was cancelled.",
    "run.paused": "A run was paused.",
    "run.aborted": "A run's failure budget is used up, or somebody aborted it.",
    "run.cancelled": "A run was cancelled.",
    "run.finished": "All items of a run have ended.",
}
"""Everything that can happen, and what it means."""
TEST = "webhook.test"
"""What a webhook is told when somebody tries it out."""
USUAL = ("job.complete", "job.failed", "job.expired", "job.cancelled")
"""What a webhook is told of that names no events: how jobs ended."""


def need_events(names: Iterable[str]) -> tuple[str, ...]:
    """These events, each once; `ArgumentsError`, with the nearest, where one is none."""
    chosen = tuple(dict.fromkeys(names))
    for name in chosen:
        if name not in EVENTS:
            near = get_close_matches(str(name), EVENTS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(EVENTS)}"
            raise ArgumentsError(f"events: no event {name!r:.80}; {hint}")
    return chosen
