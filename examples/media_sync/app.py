"""The application: one task, what it calls, and what the media server's 404 means.

seawall worker --app examples.media_sync.app:app
"""

import os

import httpx2

from examples.media_sync.client import Metadata, media_server
from seawall import Backoff, Breaker, FaultCode, Seawall, Upstream

RECOVERY_SECONDS = float(os.environ.get("MEDIA_RECOVERY_SECONDS", "60"))

app = Seawall()
app.upstream(
    Upstream(
        "media-server",
        breaker=Breaker(
            consecutive_failures=5,
            failure_rate=None,  # in a row or not at all
            successes_to_close=1,
            open=Backoff(
                curve="exponential",
                base_seconds=RECOVERY_SECONDS,
                cap_seconds=10 * RECOVERY_SECONDS,
                jitter="none",  # one probe for the whole fleet: there is no herd
            ),
        ),
    )
)


@app.classifier.register(httpx2.HTTPStatusError)
def still_scanning(error: BaseException) -> FaultCode | None:
    """A file that the media server does not have is one that it does not have yet."""
    is_404 = isinstance(error, httpx2.HTTPStatusError) and error.response.status_code == 404
    return FaultCode.NOT_READY if is_404 else None


@app.task(policy="media-sync", upstream="media-server", timeout_seconds=30)
def update(path: str, metadata: Metadata) -> str:
    """Write a file's metadata to the media server."""
    url = os.environ.get("MEDIA_SERVER_URL", "http://127.0.0.1:32400")
    media_server(url).put_metadata(path, metadata)
    return path
