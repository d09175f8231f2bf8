"""The service: 200 with the summary, 202 with the place where it will be, or one public error.

uvicorn api:api
"""

from typing import Annotated

from fastapi import Body, Depends, FastAPI, Header, Request, Response
from jobs import app, summarize

from seawall.fastapi import RequestId, answer, handle_errors, lifespan, router


def signed_in(x_user: Annotated[str, Header()]) -> str:
    """Whoever asks: put your own sign-in here."""
    return x_user


api = FastAPI(lifespan=lifespan(app, worker=True))  # a worker in this process, to begin with
handle_errors(api)
api.include_router(router(app, owner=signed_in))


@api.post("/summaries")
async def summaries(
    request: Request,
    text: Annotated[str, Body(embed=True, max_length=100_000)],
    user: Annotated[str, Depends(signed_in)],
    request_id: RequestId,
) -> Response:
    asking = summarize.using(owner=user, request_id=request_id)
    return answer(request, await asking.acall_or_enqueue(text))
