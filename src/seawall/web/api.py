"""The ASGI application: routes, who guards them, and the description of the API."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

import seawall
from seawall.web import problems
from seawall.web.access import DESCRIPTION, Doorkeeper
from seawall.web.guard import Guard
from seawall.web.house import House
from seawall.web.pages import acting, job, login, overview, policies, site, upstreams
from seawall.web.pages import fleet as fleet_pages
from seawall.web.pages import jobs as job_pages
from seawall.web.pages import letters as letter_pages
from seawall.web.pages import runs as run_pages
from seawall.web.pages.people import SignInError, to_the_door
from seawall.web.routes import (
    asking,
    fleet,
    health,
    jobs,
    letters,
    live,
    metrics,
    runs,
    webhooks,
)

_ABOUT = """Durable jobs that stand up to failing upstreams. Lists come in parts: give a part's \
`next` as `after`. Whatever goes wrong is a problem (RFC 9457) with one clear line. Every answer \
has an `x-request-id`; send your own and it is kept with the job and in the log."""

_API = (jobs, asking, letters, runs, fleet, webhooks, metrics, live, health)
_PAGES = (
    login, overview, acting, job_pages, job, letter_pages, run_pages, upstreams, policies,
    fleet_pages,
)  # fmt: skip
_ROUTERS = [*(room.router for room in (*_API, *_PAGES)), site.files]


def created(house: House) -> FastAPI:
    """The ASGI application, for a house that whoever opened it closes."""
    api = FastAPI(
        title="Seawall",
        version=seawall.__version__,
        description=_ABOUT,
        openapi_url=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=_named,
        redirect_slashes=False,
        # Its own spans and records quote queries and what exceptions said; ours do not.
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
        },
    )
    for router in _ROUTERS:
        api.include_router(router)
    problems.told_by(api)
    api.add_exception_handler(SignInError, to_the_door)
    api.add_middleware(Doorkeeper)
    api.add_middleware(
        Guard,
        request_bytes=house.app.settings.request_bytes,
        loopback_only=house.open_to_anybody,
    )
    api.state.house = house
    api.state.methods_at = _methods_at
    api.state.wrong = site.wrong
    api.openapi = lambda: _described(api)  # type: ignore[method-assign]
    return api


def _methods_at(path: str) -> set[str]:
    """What can be done at a path, by all routes that lead there."""
    routes = [route for router in _ROUTERS for route in router.routes]
    return {
        method
        for route in routes
        if isinstance(route, APIRoute) and route.path_regex.match(path)
        for method in route.methods or ()
    }


def _named(route: APIRoute) -> str:
    return route.name


def _described(api: FastAPI) -> dict[str, Any]:
    """The API's description; whatever goes wrong is described once, for every route."""
    if api.openapi_schema is None:
        made = get_openapi(
            title=api.title, version=api.version, description=api.description, routes=api.routes
        )
        schemas = made["components"]["schemas"]
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        described = problems.Problem.model_json_schema(
            ref_template="#/components/schemas/{model}", mode="serialization"
        )
        schemas |= described.pop("$defs", {})
        schemas["Problem"] = described
        problem = {
            "description": "What went wrong.",
            "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for path in made["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
                operation["responses"]["default"] = problem
        api.openapi_schema = made
    return api.openapi_schema
