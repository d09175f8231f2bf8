"""Whether the server is alive, and of use. For anybody: load balancers show no token."""

from fastapi import APIRouter, Request, Response

import seawall
from seawall.errors import StoreError
from seawall.web.access import Anybody
from seawall.web.house import House, house_of
from seawall.web.models import Health
from seawall.web.problems import ProblemError

router = APIRouter(tags=["health"], dependencies=[Anybody])


@router.get("/health")
async def health() -> Health:
    """The process is alive."""
    return Health(version=seawall.__version__)


@router.get("/ready", response_model=Health)
async def ready(request: Request) -> Response:
    """The store answers, and its tables are those of this version; 503 otherwise."""
    house = house_of(request)
    return await house.shared.ask("ready", lambda: _ready(house))


def _ready(house: House) -> Health:
    try:
        house.store.need_current()
    except StoreError:
        raise ProblemError(
            503,
            "the store does not answer, or its tables are of another version: `seawall doctor`",
            code="not_ready",
            headers={"retry-after": "1"},
        ) from None
    return Health(version=seawall.__version__)
