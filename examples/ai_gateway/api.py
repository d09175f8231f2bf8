"""The gateway over HTTP: one endpoint that answers now, or says where the answer will be.

uvicorn examples.ai_gateway.api:api --log-config examples/ai_gateway/logging.json
"""

from collections.abc import Awaitable, Callable
from typing import Annotated
from uuid import uuid4

from fastapi import Depends, FastAPI, Header, Request, Response
from fastapi.responses import JSONResponse

from examples.ai_gateway.app import answer, app, costly
from examples.ai_gateway.schema import AIErrorResponse, Ask, Judgement
from seawall import JobCancelledError, StoreUnavailableError
from seawall import fastapi as seawall_fastapi


def caller(x_caller: Annotated[str, Header()] = "anybody") -> str:
    """Who asks; in earnest, whoever your tokens say it is."""
    return x_caller


api = FastAPI(title="AI gateway", lifespan=seawall_fastapi.lifespan(app))
seawall_fastapi.handle_errors(api)
api.include_router(seawall_fastapi.router(app, owner=caller))


@api.middleware("http")
async def with_request_id(
    request: Request, go_on: Callable[[Request], Awaitable[Response]]
) -> Response:
    """Every request has an id: the caller's own, or a new one; the answer names it."""
    request.state.request_id = seawall_fastapi.request_id(request) or uuid4().hex
    response = await go_on(request)
    response.headers["x-request-id"] = request.state.request_id
    return response


@api.post(
    "/v1/judgements",
    response_model=Judgement,
    responses={
        202: {"description": "Workers go on with it: ask at Location, not before Retry-After."},
        "4XX": {"model": AIErrorResponse},
        "5XX": {"model": AIErrorResponse},
    },
)
async def judgements(request: Request, ask: Ask, who: Annotated[str, Depends(caller)]) -> Response:
    """Judge a text."""
    task = costly if ask.costly else answer
    asking = task.using(owner=who, request_id=request.state.request_id)
    return seawall_fastapi.answer(request, await asking.acall_or_enqueue(ask))


@api.exception_handler(StoreUnavailableError)
@api.exception_handler(JobCancelledError)
def not_ours(_request: Request, _error: Exception) -> Response:
    """What is no fault of the caller's or the model's, in the one schema that callers know."""
    line = "Something went wrong on our side."
    body = AIErrorResponse(title=line, status=500, code="INTERNAL_ERROR", retryable=False)
    return JSONResponse(body.model_dump(exclude_none=True), 500)
