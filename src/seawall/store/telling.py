"""The verbs of webhooks: who is to be told, and what nobody was told of yet.

Nobody writes a note here: it comes with the change itself. `tell` strikes notes off and writes the
jobs that will deliver them, in one transaction.
"""

import json
from collections.abc import Sequence

from seawall.model import Lane, NewJob, need_name, need_span
from seawall.store import rows
from seawall.store.asking import Asking
from seawall.store.backend import BadRowError, Row, Session
from seawall.store.values import MOST_ROWS, Taken, is_id, need_batch, need_limit
from seawall.store.webhook_values import (
    MOST_WEBHOOKS,
    NewWebhook,
    Note,
    Webhook,
    WebhookSecrets,
)


class Telling(Asking):
    """Part of the ledger: see `port.Store` for what each verb promises."""

    def add_webhook(self, new: NewWebhook) -> Webhook | None:
        names = self._backend.names
        added = self._backend.all(
            "add_webhook",
            url=new.url,
            events=names(new.events),
            tasks=names(new.tasks),
            owners=names(new.owners),
            secret=new.secret,
            most=MOST_WEBHOOKS,
        )
        return self._webhook(added[0]) if added else None

    def webhooks(self) -> list[Webhook]:
        return [self._webhook(row) for row in self._backend.all("all_webhooks", id=None)]

    def webhook(self, webhook_id: int) -> Webhook | None:
        found = self._backend.all("all_webhooks", id=webhook_id) if is_id(webhook_id) else ()
        return self._webhook(found[0]) if found else None

    def webhook_secrets(self, webhook_id: int) -> WebhookSecrets | None:
        if not is_id(webhook_id):
            return None
        for url, *secrets in self._backend.all("read_webhook_secrets", id=webhook_id):
            return WebhookSecrets(url, tuple(each for each in secrets if each is not None))
        return None

    def rotate_webhook(
        self, webhook_id: int, secret: str, *, both_seconds: float
    ) -> Webhook | None:
        need_name("secret", secret)
        need_span("both_seconds", both_seconds)
        if not is_id(webhook_id):
            return None
        span = rows.microseconds(both_seconds)
        found = self._backend.all("rotate_webhook", id=webhook_id, secret=secret, span=span)
        return self._webhook(found[0]) if found else None

    def drop_webhook(self, webhook_id: int) -> bool:
        return is_id(webhook_id) and bool(self._backend.all("drop_webhook", id=webhook_id))

    # --- notes --------------------------------------------------------------------------------

    def any_notes(self) -> bool:
        return bool(self._backend.all("any_notes")[0][0])

    def notes(self, *, limit: int = MOST_ROWS) -> list[Note]:
        need_limit(limit)
        return [self._note(row) for row in self._backend.all("read_notes", limit=limit)]

    def tell(self, told: Sequence[tuple[Note, NewJob | None]]) -> int:
        need_batch(told)
        if not told:
            return 0
        by_id = {note.id: job for note, job in told}

        def written(session: Session, lane_ids: dict[Lane, int]) -> int:
            taken = session.all("take_notes", ids=self._backend.ids(list(by_id)))
            ours = [job for (id_,) in sorted(taken) if (job := by_id[id_]) is not None]
            answers = self._enqueued_in(session, ours, lane_ids) if ours else []
            return sum(answer.taken is Taken.CREATED for answer in answers)

        try:
            lanes = [job.lane for job in by_id.values() if job is not None]
            new = self._together(lanes, written)
        except BadRowError:
            if len(told) == 1:
                raise
            half = len(told) // 2
            try:
                first = self.tell(told[:half])
            finally:  # what cannot be written keeps nothing else from being told
                rest = self.tell(told[half:])
            return first + rest
        if new:
            self._backend.wake()
        return new

    def _webhook(self, row: Row) -> Webhook:
        id_, url, events, tasks, owners, created_at, old_until = row
        read = self._backend.read
        return Webhook(
            id_,
            url,
            _names(events) or (),
            _names(tasks),
            _names(owners),
            read(created_at),
            None if old_until is None else read(old_until),
        )

    def _note(self, row: Row) -> Note:
        id_, webhook, event, at, *of_it, delay, fault, reason = row
        wait = None if delay is None else delay / 1_000_000
        what = (*of_it, wait, rows.fault_of(fault), reason)
        return Note._make((id_, webhook, event, self._backend.read(at), *what))


def _names(found: str | list[str] | None) -> tuple[str, ...] | None:
    """SQLite keeps a list as JSON."""
    if found is None:
        return None
    return tuple(json.loads(found) if isinstance(found, str) else found)
