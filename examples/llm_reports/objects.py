"""Where documents lie and reports go: a folder, or a bucket of any service that speaks S3.

`REPORTS_OBJECTS` is `file:///FOLDER` or `s3://BUCKET/PREFIX`, with the usual AWS_… variables.
"""

import os
from datetime import timedelta
from pathlib import Path

import obstore
from obstore.store import LocalStore, ObjectStore, S3Store

from seawall import FaultError


def where() -> str:
    """The address; by default a folder beside the store of jobs."""
    return os.environ.get("REPORTS_OBJECTS") or f"{Path('objects').absolute().as_uri()}"


def read(path: str) -> bytes:
    """What lies there; NOT_FOUND, in a line, where nothing does."""
    try:
        return bytes(obstore.get(_store(), path).bytes())
    except FileNotFoundError:
        raise FaultError("NOT_FOUND", f"{path}: there is no such object") from None


def write(path: str, content: bytes) -> None:
    """Have it there, wholly or not at all."""
    obstore.put(_store(), path, content)


def _store() -> ObjectStore:
    url = where()
    if url.startswith("file:"):
        return LocalStore.from_url(url, mkdir=True)
    plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return S3Store.from_url(
        url,
        client_options={"allow_http": plain, "connect_timeout": "5s", "timeout": "60s"},
        retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=60)},
    )
