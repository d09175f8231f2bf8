"""Webhooks: telling others, by signed messages, of what happens to jobs and runs.

`events` has the words, `book` is `app.webhooks`, `message` says what is sent, `delivering` turns
notes of the store into jobs and carries those out, `addresses` says where a message may go, and
`sending` sends it. What happened is noted by the store in the very write that made it so: see
docs/decisions/0025-webhooks.md.
"""

from seawall.webhooks.book import MadeWebhook, Webhooks, WebhookView
from seawall.webhooks.events import EVENTS, USUAL

__all__ = ["EVENTS", "USUAL", "MadeWebhook", "WebhookView", "Webhooks"]
