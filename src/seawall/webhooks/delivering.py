"""From notes to messages: what becomes of what the store has noted.

`spread` turns notes into jobs, in one transaction for each page, so that each note is told of by
exactly one job. The jobs are those of a task of seawall's own, which every worker knows: they wait,
are retried, held and left as dead letters as all others are, by the policy `webhook`. A receiver
may get a message more than once, as with every job, and knows it by its id.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING

from seawall.arguments import CODEC
from seawall.errors import Skip
from seawall.model import Job, Lane, NewJob
from seawall.store import KeptRun, Note, Store, Webhook
from seawall.store.webhook_values import DELIVERY_TASK
from seawall.webhooks import message
from seawall.webhooks.addresses import allowed_by
from seawall.webhooks.events import TEST

if TYPE_CHECKING:
    from seawall.app import Seawall

QUEUE = "webhooks"
"""Where deliveries wait."""
POLICY = "webhook"
TIMEOUT_SECONDS = 30.0
DEADLINE_SECONDS = 3 * 86_400.0
"""After so long nobody wants to hear of it: what was not delivered is a dead letter."""
PAGE = 500
MOST_PAGES = 20
_NEEDED = ("httpx2", "standardwebhooks")


def can_deliver() -> bool:
    """Whether what the extra `webhooks` brings is installed."""
    return all(find_spec(name) is not None for name in _NEEDED)


def install(app: "Seawall") -> bool:
    """Have the application's workers deliver; false where the extra is not installed."""
    if not can_deliver():
        return False
    allowed_by(app.settings.webhook_allow)  # what cannot be read is better known now
    if DELIVERY_TASK not in app.tasks:
        app.own_task(
            _deliverer(app),
            name=DELIVERY_TASK,
            policy=POLICY,
            queue=QUEUE,
            upstream=lambda webhook, **_: f"{DELIVERY_TASK}:{webhook}",
            timeout_seconds=TIMEOUT_SECONDS,
        )
    return True


def _deliverer(app: "Seawall") -> Callable[..., Awaitable[dict[str, int]]]:
    async def deliver(webhook: int, message_id: str, body: str) -> dict[str, int]:
        from seawall.webhooks.sending import send  # noqa: PLC0415 - only who delivers needs it

        known = await asyncio.to_thread(app.store.webhook_secrets, webhook)
        if known is None:
            raise Skip("the webhook is gone")
        status = await send(
            known.url,
            known.secrets,
            message_id=message_id,
            body=body,
            now=app.clock.now(),
            allowed=allowed_by(app.settings.webhook_allow),
        )
        return {"status": status}

    return deliver


def spread(store: Store) -> int:
    """Turn what is noted into jobs; how many."""
    told = 0
    for _ in range(MOST_PAGES):
        notes = store.notes(limit=PAGE)
        # After the notes: a webhook that one of them is for was there when it was written.
        hooks = {each.id: each for each in store.webhooks()} if notes else {}
        jobs = store.jobs([note.job for note in notes if note.job is not None])
        runs = {note.run: store.run(note.run) for note in notes if note.job is None and note.run}
        told += store.tell([(note, _delivery(note, hooks, jobs, runs)) for note in notes])
        if len(notes) < PAGE:
            break
    return told


def _delivery(
    note: Note,
    hooks: dict[int, Webhook],
    jobs: dict[int, Job],
    runs: dict[int, KeptRun | None],
) -> NewJob | None:
    """The job that tells of it; None where the webhook is gone."""
    hook = hooks.get(note.webhook)
    if hook is None:
        return None
    job = None if note.job is None else jobs.get(note.job)
    return _job(hook, message.of_note(note, job, runs.get(note.run or 0)))


def a_test(hook: Webhook, now: datetime) -> NewJob:
    """The job that tries a webhook out."""
    data: dict[str, object] = {"webhook": hook.id}
    return _job(hook, message.written(TEST, now, data))


def _job(hook: Webhook, body: str) -> NewJob:
    message_id = message.new_id()
    return NewJob(
        lane=Lane(task=DELIVERY_TASK, queue=QUEUE, upstream=hook.upstream),
        arguments=json.dumps({"webhook": hook.id, "message_id": message_id, "body": body}),
        codec=CODEC,
        key=message_id,
        tags=(f"webhook:{hook.id}",),
        deadline_seconds=DEADLINE_SECONDS,
    )
