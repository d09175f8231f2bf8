"""Where the first media server sends its events. Each is a kept job when it is answered.

uvicorn examples.media_sync.hook:api
"""

from fastapi import FastAPI
from pydantic import BaseModel

from examples.media_sync.app import app, update
from examples.media_sync.client import Metadata
from seawall.fastapi import handle_errors, lifespan

api = FastAPI(lifespan=lifespan(app))
handle_errors(api)


class Event(BaseModel):
    """A file's metadata has changed."""

    id: str
    """The same whenever the event is sent again."""
    path: str
    metadata: Metadata


@api.post("/events", status_code=202)
async def take(event: Event) -> dict[str, int | bool]:
    """Ask for the update, once for each event."""
    job = await update.using(key=event.id).aenqueue(event.path, event.metadata)
    return {"job": job.id, "new": job.created}


@api.get("/health")
def health() -> dict[str, str]:
    return {"status": "well"}
