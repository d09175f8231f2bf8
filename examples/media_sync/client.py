"""The media server's API, as far as it is needed here."""

from functools import cache

import httpx2
from pydantic import BaseModel

ANSWER_SECONDS = 10.0


class Metadata(BaseModel):
    """What one media server tells the other of a file."""

    title: str
    rating: int | None = None


class MediaServer:
    """One media server, over HTTP. Its errors are those of httpx2."""

    def __init__(self, url: str) -> None:
        self._http = httpx2.Client(base_url=url, timeout=ANSWER_SECONDS)

    def put_metadata(self, path: str, metadata: Metadata) -> None:
        """Write what is known of a file. Doing so twice does no harm."""
        body = metadata.model_dump(exclude_none=True)
        self._http.put("/items", params={"path": path}, json=body).raise_for_status()


@cache
def media_server(url: str) -> MediaServer:
    """The server at that address: its connections are kept open."""
    return MediaServer(url)
