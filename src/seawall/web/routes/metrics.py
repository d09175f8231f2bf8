"""Metrics for Prometheus: for those who see all."""

from fastapi import APIRouter, Request, Response

from seawall.web.access import METRICS, Overseer
from seawall.web.house import house_of

router = APIRouter(include_in_schema=False)


@router.get(METRICS)
async def scrape(request: Request, visitor: Overseer) -> Response:  # noqa: ARG001 - that it is one
    """Every metric, as it stands or stood a moment ago."""
    house = house_of(request)
    told = await house.threads.ask(house.metrics.told, request.headers.get("accept", ""))
    return Response(told.text, headers={"content-type": told.content_type})
