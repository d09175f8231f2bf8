"""A web application as people write them, served by uvicorn to real clients."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI, Header, Request, Response

from seawall import Seawall
from seawall.fastapi import (
    RequestId,
    SeawallDep,
    answer,
    handle_errors,
    lifespan,
    router,
)


def signed_in(x_user: Annotated[str | None, Header()] = None) -> str | None:
    return x_user


Owner = Annotated[str | None, Depends(signed_in)]


def web(app: Seawall, **how: Any) -> FastAPI:
    api = FastAPI(lifespan=lifespan(app, **how))
    handle_errors(api)
    api.include_router(router(app, owner=signed_in))

    @api.post("/asks")
    async def asks(
        request: Request, sea: SeawallDep, user: Owner, asked: RequestId, body: dict[str, Any]
    ) -> Response:
        said = {name: body.pop(name) for name in ("key", "inline_seconds") if name in body}
        task = sea.tasks[body.pop("task", "ask")]
        asking = task.using(owner=user, request_id=asked, **said)
        return answer(request, await asking.acall_or_enqueue(**body))

    @api.post("/looks")
    def looks(request: Request, url: str, pages: int = 1) -> Response:
        return answer(request, app.tasks["look"].call_or_enqueue(url))

    return api


@contextmanager
def served(api: FastAPI) -> Iterator[str]:
    """Its address, while it is served."""
    config = uvicorn.Config(api, host="127.0.0.1", port=0, log_config=None, lifespan="on")
    server = uvicorn.Server(config)
    logging.getLogger("uvicorn").setLevel(logging.DEBUG)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "it did not start"
            thread.join(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(40)
        assert not thread.is_alive(), "it does not end"
