"""The verbs of the store by which others are told of what happens; `port` says what holds for all
verbs.
"""

from collections.abc import Sequence
from typing import Protocol

from seawall.model import NewJob
from seawall.store.values import MOST_ROWS
from seawall.store.webhook_values import NewWebhook, Note, Webhook, WebhookSecrets


class WebhookVerbs(Protocol):
    """Who is to be told, and what nobody was told of yet.

    Whatever a verb does to a job or a run is noted in the same write, once for each webhook that
    wants to hear of it; where there is none, nothing is noted. Of deliveries nobody is told.
    """

    def add_webhook(self, new: NewWebhook) -> Webhook | None:
        """Keep a new webhook; what happens from now on is noted for it. None: there are many."""
        ...

    def webhooks(self) -> list[Webhook]:
        """Every webhook, the oldest first; without secrets."""
        ...

    def webhook(self, webhook_id: int) -> Webhook | None:
        """The webhook of that id; without secrets."""
        ...

    def webhook_secrets(self, webhook_id: int) -> WebhookSecrets | None:
        """Where it leads, and what to sign with now."""
        ...

    def rotate_webhook(
        self, webhook_id: int, secret: str, *, both_seconds: float
    ) -> Webhook | None:
        """Sign with another secret; the one before it signs as well for so long."""
        ...

    def drop_webhook(self, webhook_id: int) -> bool:
        """Tell nobody there any more; false where there is none."""
        ...

    def any_notes(self) -> bool:
        """Whether something is noted. Costs a look."""
        ...

    def notes(self, *, limit: int = MOST_ROWS) -> list[Note]:
        """What is noted, the oldest first."""
        ...

    def tell(self, told: Sequence[tuple[Note, NewJob | None]]) -> int:
        """Strike the notes off and write their jobs, in one transaction; how many were written.

        A note that another has struck off is passed over, with its job. Where a job cannot be
        written, its note stays, the others are told all the same, and then it is raised.
        """
        ...
