"""`app.webhooks`: who is told of what.

    made = app.webhooks.create("https://example.com/hooks", events=["job.failed"])
    made.secret                      # shown this once; the receiver needs it

A webhook's deliveries are jobs that call an upstream of its own, `seawall.webhook:ID`: so a
receiver that is down is held, and one that is paused is held by hand.
"""

import base64
import contextlib
import secrets as dice
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from seawall.errors import ArgumentsError, NoSuchWebhookError
from seawall.model import need_span
from seawall.settings import Settings
from seawall.store import NewWebhook, Store, Webhook
from seawall.store.webhook_values import MOST_WEBHOOKS
from seawall.upstreams import Upstreams, UpstreamView
from seawall.webhooks import addresses
from seawall.webhooks.delivering import a_test
from seawall.webhooks.events import USUAL, need_events

BOTH_SECONDS = 86_400.0
"""How long a secret that was replaced signs as well, where nothing else is said."""
_SECRET_BYTES = 32
PAUSED = "paused by hand"


class Keeper(Protocol):
    """Who has the store: an application, or somebody who only looks at one's jobs."""

    @property
    def store(self) -> Store: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def upstreams(self) -> Upstreams: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookView:
    """A webhook, and how it is now. Its secret is not to be seen."""

    id: int
    url: str
    """Without its query, which is often a secret."""
    events: tuple[str, ...]
    tasks: tuple[str, ...] | None
    """None: every task."""
    owners: tuple[str, ...] | None
    """None: whoever owns the job, or nobody."""
    state: str
    """`active`; `paused` by hand; `held`, because its receiver is down or asked for time."""
    reason: str
    """Why it is paused or held."""
    waiting: int
    """Deliveries that wait, for now or later."""
    created_at: datetime
    old_secret_until: datetime | None
    """Until when the secret that was replaced signs as well."""


@dataclass(frozen=True, slots=True)
class MadeWebhook:
    """A webhook that was made or got a new secret, which can be seen only now."""

    webhook: WebhookView
    secret: str

    def __repr__(self) -> str:
        return f"MadeWebhook({self.webhook.id}, secret=…)"


class Webhooks:
    """The webhooks of a store."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    # --- looking ------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[WebhookView]:
        return iter(self.all())

    def all(self) -> list[WebhookView]:
        """Every webhook, the oldest first."""
        found = self._keeper.store.webhooks()
        seen = {each.name: each for each in self._keeper.upstreams.all()} if found else {}
        return [_view(each, seen.get(each.upstream)) for each in found]

    def get(self, webhook_id: int) -> WebhookView:
        """The webhook of that id; `NoSuchWebhookError` where there is none."""
        kept = self._found(webhook_id)
        seen = next((u for u in self._keeper.upstreams.all() if u.name == kept.upstream), None)
        return _view(kept, seen)

    def _found(self, webhook_id: int) -> Webhook:
        kept = self._keeper.store.webhook(webhook_id)
        if kept is None:
            raise NoSuchWebhookError(f"there is no webhook {webhook_id}")
        return kept

    # --- deciding -----------------------------------------------------------------------------

    def create(
        self,
        url: str,
        *,
        events: Iterable[str] | None = None,
        tasks: Iterable[str] | None = None,
        owners: Iterable[str] | None = None,
    ) -> MadeWebhook:
        """Have a receiver told of these events, of these tasks' jobs, of these owners' jobs.

        What is None is the usual (how jobs ended), every task, every owner. The secret is in the
        answer and nowhere else.
        """
        place = addresses.place_of(url)
        allowed = addresses.allowed_by(self._keeper.settings.webhook_allow)
        refusal = allowed.refusal(place, _leads_to(place))
        if refusal is not None:
            raise ArgumentsError(
                f"url: {refusal}; if that is meant, add it to the setting webhook_allow, here"
                " and where workers run"
            )
        secret = _new_secret()
        try:
            new = NewWebhook(
                url=url,
                secret=secret,
                events=USUAL if events is None else need_events(_words("events", events)),
                tasks=None if tasks is None else _words("tasks", tasks),
                owners=None if owners is None else _words("owners", owners),
            )
        except ValueError as error:
            raise ArgumentsError(str(error)) from None
        kept = self._keeper.store.add_webhook(new)
        if kept is None:
            raise ArgumentsError(f"there are {MOST_WEBHOOKS} webhooks, and there may be no more")
        return MadeWebhook(_view(kept, None), secret)

    def rotate(self, webhook_id: int, *, both_seconds: float = BOTH_SECONDS) -> MadeWebhook:
        """Give it another secret; messages are signed with both for so long."""
        try:
            need_span("both_seconds", both_seconds)
        except ValueError as error:
            raise ArgumentsError(str(error)) from None
        secret = _new_secret()
        self._found(webhook_id)
        if self._keeper.store.rotate_webhook(webhook_id, secret, both_seconds=both_seconds) is None:
            raise NoSuchWebhookError(f"there is no webhook {webhook_id}")
        return MadeWebhook(self.get(webhook_id), secret)

    def pause(self, webhook_id: int, *, why: str = PAUSED) -> None:
        """Deliver nothing to it until `resume`; what happens meanwhile is kept for it."""
        self._keeper.upstreams.hold(self._found(webhook_id).upstream, why=why)

    def resume(self, webhook_id: int) -> bool:
        """Deliver again, what has waited first; false where it was neither paused nor held."""
        return self._keeper.upstreams.resume(self._found(webhook_id).upstream)

    def delete(self, webhook_id: int) -> bool:
        """Tell it nothing more; what waits for it is skipped. False where there is none."""
        kept = self._keeper.store.webhook(webhook_id)
        gone = self._keeper.store.drop_webhook(webhook_id)
        if kept is not None:
            self._keeper.upstreams.resume(kept.upstream)  # so that what waits can be skipped
        return gone

    def test(self, webhook_id: int) -> int:
        """Send it `webhook.test`, as everything else is sent; the id of the job that does."""
        kept = self._found(webhook_id)
        (answer,) = self._keeper.store.enqueue([a_test(kept, self._keeper.store.now())])
        if answer.job_id is None:
            raise ArgumentsError(f"the message cannot be kept: {answer.reason}")
        return answer.job_id


def _view(kept: Webhook, seen: UpstreamView | None) -> WebhookView:
    state = "active"
    if seen is not None and seen.forced == "open":
        state = "paused"
    elif seen is not None and seen.held_until is not None:
        state = "held"
    return WebhookView(
        id=kept.id,
        url=addresses.shown_url(kept.url),
        events=kept.events,
        tasks=kept.tasks,
        owners=kept.owners,
        state=state,
        reason="" if seen is None or state == "active" else seen.reason,
        waiting=0 if seen is None else seen.waiting + seen.later,
        created_at=kept.created_at,
        old_secret_until=kept.old_until,
    )


def _leads_to(place: addresses.Place) -> list[addresses.Address]:
    """The addresses of the host; none where it cannot be found from here: workers look again."""
    with contextlib.suppress(OSError, ValueError):
        found = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
        return addresses.read([address[0] for *_, address in found])
    return []


def _new_secret() -> str:
    return "whsec_" + base64.b64encode(dice.token_bytes(_SECRET_BYTES)).decode("ascii")


def _words(field: str, found: Iterable[str]) -> tuple[str, ...]:
    if isinstance(found, str):
        raise ArgumentsError(f"{field}: found {found!r:.80}, expected a list of words")
    return tuple(dict.fromkeys(found))
