"""Webhooks as the store keeps them, and the notes of what they are to be told.

A note is written with the very change that it tells of, and struck off with the writing of the job
that will deliver it: in between nothing can be lost, and nothing is told twice from here.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from seawall.faults import Fault
from seawall.model import need_name, need_text

DELIVERY_TASK = "seawall.webhook"
"""The task of deliveries, of which nobody is told: the statements know it by this name."""
MOST_WEBHOOKS = 100
"""In a store: everything that happens is held against each."""
MOST_NAMES = 100
"""Of events, tasks or owners that one webhook names."""
LONGEST_URL = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWebhook:
    """A webhook to be kept."""

    url: str
    secret: str
    events: tuple[str, ...]
    tasks: tuple[str, ...] | None = None
    """None: every task."""
    owners: tuple[str, ...] | None = None
    """None: whoever owns the job, or nobody."""

    def __post_init__(self) -> None:
        need_text("url", self.url)
        if not 1 <= len(self.url) <= LONGEST_URL:
            raise ValueError(f"url: expected 1 to {LONGEST_URL:,} characters")
        need_name("secret", self.secret)
        _need_names("events", self.events)
        for name in ("tasks", "owners"):
            found: tuple[str, ...] | None = getattr(self, name)
            if found is not None:
                _need_names(name, found)


def _need_names(field: str, found: tuple[str, ...]) -> None:
    if not 1 <= len(found) <= MOST_NAMES:
        raise ValueError(f"{field}: found {len(found):,} names, expected 1 to {MOST_NAMES}")
    for each in found:
        need_name(field, each)


class Webhook(NamedTuple):
    """A webhook, without its secrets."""

    id: int
    url: str
    events: tuple[str, ...]
    tasks: tuple[str, ...] | None
    owners: tuple[str, ...] | None
    created_at: datetime
    old_until: datetime | None
    """Until when the secret that was replaced signs as well."""

    @property
    def upstream(self) -> str:
        """What its deliveries call: by this it is held, limited and asked about."""
        return f"{DELIVERY_TASK}:{self.id}"


class WebhookSecrets(NamedTuple):
    """Where a webhook leads, and what its messages are signed with."""

    url: str
    secrets: tuple[str, ...]
    """The newest first."""

    def __repr__(self) -> str:
        return "WebhookSecrets(…)"  # no log and no traceback is to show one


class Note(NamedTuple):
    """Something that happened, of which one webhook is to be told."""

    id: int
    webhook: int
    event: str
    at: datetime
    task: str
    """Or pipeline, where it happened to a run."""
    queue: str | None = None
    job: int | None = None
    run: int | None = None
    owner: str | None = None
    stage: int | None = None
    attempt: int | None = None
    """How many attempts were made by then."""
    cycle: int | None = None
    delay_seconds: float | None = None
    """How long it waits before the next attempt."""
    fault: Fault | None = None
    reason: str | None = None
    """Why the run was stopped."""
