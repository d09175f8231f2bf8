"""Webhooks, for operators: who is told of what. A secret is in one answer, and in no other."""

from typing import Annotated

from fastapi import APIRouter, Path, Request

from seawall.web.access import Operator
from seawall.web.house import house_of
from seawall.web.models import LARGEST_NUMBER, ReasonAsked, in_print
from seawall.web.problems import ProblemError
from seawall.web.webhook_models import (
    RotateAsked,
    WebhookAsked,
    WebhookDeleted,
    WebhookMade,
    WebhookShown,
    WebhookTested,
)

router = APIRouter(prefix="/api")

ItsNumber = Annotated[int, Path(ge=1, le=LARGEST_NUMBER)]


@router.get("/webhooks", tags=["webhooks"])
async def list_webhooks(request: Request, visitor: Operator) -> list[WebhookShown]:  # noqa: ARG001
    """Every webhook: what it is told of, and whether its receiver is well."""
    house = house_of(request)
    found = await house.threads.ask(house.app.webhooks.all)
    return [WebhookShown.model_validate(each) for each in found]


@router.post("/webhooks", tags=["webhooks"], status_code=201)
async def create_webhook(
    request: Request,
    visitor: Operator,  # noqa: ARG001 - that it is one
    asked: WebhookAsked,
) -> WebhookMade:
    """Have a receiver told of what happens. Its secret is in this answer and nowhere else."""
    house = house_of(request)
    made = await house.threads.ask(
        house.app.webhooks.create,
        asked.url,
        events=asked.events,
        tasks=asked.tasks,
        owners=asked.owners,
    )
    return WebhookMade(webhook=WebhookShown.model_validate(made.webhook), secret=made.secret)


@router.get("/webhooks/{webhook_id:int}", tags=["webhooks"])
async def get_webhook(
    request: Request,
    visitor: Operator,  # noqa: ARG001 - that it is one
    webhook_id: ItsNumber,
) -> WebhookShown:
    """One webhook."""
    house = house_of(request)
    found = await house.threads.ask(house.app.webhooks.get, webhook_id)
    return WebhookShown.model_validate(found)


@router.delete("/webhooks/{webhook_id:int}", tags=["webhooks"])
async def delete_webhook(
    request: Request,
    visitor: Operator,  # noqa: ARG001 - that it is one
    webhook_id: ItsNumber,
) -> WebhookDeleted:
    """Tell it nothing more; what waits for it is skipped."""
    house = house_of(request)
    if not await house.threads.ask(house.app.webhooks.delete, webhook_id):
        raise ProblemError(404, f"there is no webhook {webhook_id}")
    return WebhookDeleted(id=webhook_id, deleted=True)


@router.post("/webhooks/{webhook_id:int}/test", tags=["webhooks"], status_code=202)
async def test_webhook(
    request: Request,
    visitor: Operator,  # noqa: ARG001 - that it is one
    webhook_id: ItsNumber,
) -> WebhookTested:
    """Send it `webhook.test`, as everything else is sent: by a job, which is answered."""
    house = house_of(request)
    return WebhookTested(job=await house.threads.ask(house.app.webhooks.test, webhook_id))


@router.post("/webhooks/{webhook_id:int}/pause", tags=["webhooks"])
async def pause_webhook(
    request: Request,
    visitor: Operator,  # noqa: ARG001 - that it is one
    webhook_id: ItsNumber,
    asked: ReasonAsked | None = None,
) -> WebhookShown:
    """Deliver nothing to it until it is resumed; what happens meanwhile is kept for it."""
    house, webhooks = house_of(request), house_of(request).app.webhooks
    why = in_print((asked or ReasonAsked()).why)
    await house.threads.ask(webhooks.pause, webhook_id, why=why)
    return WebhookShown.model_validate(await house.threads.ask(webhooks.get, webhook_id))


@router.post("/webhooks/{webhook_id:int}/resume", tags=["webhooks"])
async def resume_webhook(
    request: Request,
    visitor: Operator,  # noqa: ARG001 - that it is one
    webhook_id: ItsNumber,
) -> WebhookShown:
    """Deliver again; 409 where it was neither paused nor held."""
    house, webhooks = house_of(request), house_of(request).app.webhooks
    if not await house.threads.ask(webhooks.resume, webhook_id):
        raise ProblemError(409, "the webhook was neither paused nor held", code="not_held")
    return WebhookShown.model_validate(await house.threads.ask(webhooks.get, webhook_id))


@router.post("/webhooks/{webhook_id:int}/rotate", tags=["webhooks"])
async def rotate_webhook(
    request: Request,
    visitor: Operator,  # noqa: ARG001 - that it is one
    webhook_id: ItsNumber,
    asked: RotateAsked | None = None,
) -> WebhookMade:
    """Give it another secret, which is in this answer and nowhere else; both sign for a while."""
    house, asked = house_of(request), asked or RotateAsked()
    made = await house.threads.ask(
        house.app.webhooks.rotate, webhook_id, both_seconds=asked.both_seconds
    )
    return WebhookMade(webhook=WebhookShown.model_validate(made.webhook), secret=made.secret)
