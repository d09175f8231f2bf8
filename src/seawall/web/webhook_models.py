"""What the API gives and takes about webhooks."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from seawall.store.webhook_values import LONGEST_URL, MOST_NAMES
from seawall.web.models import Given, IsNumber, Name, Shown
from seawall.webhooks import EVENTS
from seawall.webhooks.book import BOTH_SECONDS

EventName = Annotated[str, Field(json_schema_extra={"enum": list(EVENTS)})]
"""One of those; which is checked where webhooks are made."""
Names = Annotated[list[Name], Field(min_length=1, max_length=MOST_NAMES)]


class WebhookShown(Shown):
    id: int
    url: str = Field(description="Without its query, which is often a secret.")
    events: list[str]
    tasks: list[str] | None = Field(description="Null: every task.")
    owners: list[str] | None = Field(description="Null: whoever owns the job, or nobody.")
    state: Literal["active", "paused", "held"]
    reason: str
    waiting: int = Field(description="Deliveries that wait, for now or later.")
    created_at: datetime
    old_secret_until: datetime | None = Field(
        description="Until when the secret that was replaced signs as well."
    )


class WebhookMade(Shown):
    webhook: WebhookShown
    secret: str = Field(description="What its messages are signed with; it is not shown again.")


class WebhookAsked(Given):
    url: Annotated[str, Field(min_length=1, max_length=LONGEST_URL)]
    events: Annotated[list[EventName], Field(min_length=1, max_length=MOST_NAMES)] | None = Field(
        default=None, description="Default: how jobs ended."
    )
    tasks: Names | None = Field(default=None, description="Default: every task.")
    owners: Names | None = Field(default=None, description="Default: every owner, and none.")


class RotateAsked(Given):
    both_seconds: Annotated[float, Field(ge=0, le=31_536_000), IsNumber] = Field(
        default=BOTH_SECONDS, description="How long messages are signed with both secrets."
    )


class WebhookDeleted(Shown):
    id: int
    deleted: bool


class WebhookTested(Shown):
    job: int = Field(description="The job that delivers it.")
