"""How the clients of object stores are made to raise."""

import os
from functools import cache
from typing import Any

import botocore.session
import obstore
from botocore.config import Config
from obstore.store import HTTPStore, LocalStore, S3Store

from tests.clients.upstream import Answer
from tests.clients.world import Place, Raise, World, patience

REQUEST_ID = "4442587FB7D0A2F9"


def s3_error(status: int, code: str, headers: dict[str, str] | None = None) -> Answer:
    """S3's error body, with the request id that S3 puts into its headers."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>"
    fields = {"Content-Type": "application/xml", "x-amz-request-id": REQUEST_ID, **(headers or {})}
    return Answer(status, body, fields)


def iam_error(status: int, code: str) -> Answer:
    """The error body of AWS's older services, one layer deeper."""
    body = (
        f"<ErrorResponse><Error><Code>{code}</Code><Message>no</Message></Error>"
        f"<RequestId>{REQUEST_ID}</RequestId></ErrorResponse>"
    )
    return Answer(status, body, {"Content-Type": "text/xml"})


def json_error(status: int, code: str) -> Answer:
    """The error body of AWS's JSON services."""
    fields = {"Content-Type": "application/x-amz-json-1.0", "x-amzn-requestid": REQUEST_ID}
    return Answer(status, f'{{"__type": "aws#{code}", "message": "no"}}', fields)


def by_botocore(
    operation: str, place: Place, *, service: str = "s3", read: bool = False, **parameters: Any
) -> Raise:
    """One call of botocore, with one attempt; `read` also reads the body of the object."""

    def raise_it(world: World) -> None:
        client = _botocore(service, world.url(place), patience(place))
        try:
            answer = getattr(client, operation)(**parameters)
            answer["Body"].read() if read else None
        finally:
            client.close()

    return raise_it


def by_botocore_without_credentials(world: World) -> None:
    client = _botocore("s3", world.url(Answer()), 5, with_credentials=False)
    try:
        client.list_buckets()
    finally:
        client.close()


def _botocore(service: str, url: str, timeout: float, *, with_credentials: bool = True) -> Any:
    config = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=timeout,
        read_timeout=timeout,
        s3={"addressing_style": "path"},
    )
    session = _session(with_credentials=with_credentials)
    return session.create_client(service, "us-east-1", endpoint_url=url, config=config)


@cache  # reading the descriptions of the services is most of the work
def _session(*, with_credentials: bool) -> botocore.session.Session:
    """A session to which the files and the metadata service of this machine say nothing."""
    session = botocore.session.Session()
    session.set_config_variable("config_file", os.devnull)
    session.set_config_variable("credentials_file", os.devnull)
    session.set_config_variable("metadata_service_num_attempts", 0)
    if with_credentials:
        session.set_credentials("access", "secret")
    return session


# ---------------------------------------------------------------- obstore


def by_obstore_http(place: Place) -> Raise:
    def raise_it(world: World) -> None:
        seconds = f"{patience(place)}s"
        store = HTTPStore(
            world.url(place),
            client_options={"allow_http": True, "timeout": seconds},
            retry_config={"max_retries": 0},
        )
        obstore.get(store, "object").bytes()

    return raise_it


def by_obstore_s3(place: Place) -> Raise:
    def raise_it(world: World) -> None:
        store = S3Store(
            "bucket",
            endpoint=world.url(place),
            region="us-east-1",
            access_key_id="access",
            secret_access_key="secret",
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )
        obstore.get(store, "object").bytes()

    return raise_it


def by_obstore_on_disk(world: World) -> None:
    obstore.get(LocalStore(world.folder), "not there")


def by_obstore_writing_twice(world: World) -> None:
    store = LocalStore(world.folder)
    obstore.put(store, "there", b"1", mode="create")
    obstore.put(store, "there", b"2", mode="create")
