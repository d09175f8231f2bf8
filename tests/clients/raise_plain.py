"""How Python's own exceptions and those of validators come about."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jsonschema
import pydantic

from tests.clients.limits import no_more_files
from tests.clients.world import NOWHERE, World, patience


class Opinion(pydantic.BaseModel):
    verdict: str


def broken_json(_: World) -> None:
    json.loads('{"verdict": "go')


def broken_text(_: World) -> None:
    b"caf\xe9".decode("utf-8")


def broken_model(_: World) -> None:
    Opinion.model_validate({"verdict": 3})


def broken_model_json(_: World) -> None:
    Opinion.model_validate_json('{"verdict": "go')


def broken_schema_instance(_: World) -> None:
    jsonschema.validate({"verdict": 3}, {"properties": {"verdict": {"type": "string"}}})


def broken_schema(_: World) -> None:
    jsonschema.validate({}, {"type": "no such type"})


def unknown_host(_: World) -> None:
    socket.getaddrinfo(NOWHERE.removeprefix("http://"), 80)


def refused(world: World) -> None:
    socket.create_connection(_address(world, "refusing"))


def reset(world: World) -> None:
    with socket.create_connection(_address(world, "resetting")) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        connection.recv(1)


def socket_timeout(world: World) -> None:
    with socket.create_connection(_address(world, "deaf"), timeout=patience("deaf")) as connection:
        connection.recv(1)


def asyncio_timeout(_: World) -> None:
    asyncio.run(asyncio.wait_for(asyncio.Event().wait(), 0.01))


def process_timeout(_: World) -> None:
    subprocess.run([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.01, check=True)


def cancelled(_: World) -> None:
    async def cancel() -> None:
        task = asyncio.create_task(asyncio.sleep(30))
        await asyncio.sleep(0)
        task.cancel()
        await task

    asyncio.run(cancel())


def interrupted(_: World) -> None:
    raise KeyboardInterrupt


def disk_full(_: World) -> None:
    """Linux keeps a disk that is always full."""
    with Path("/dev/full").open("wb", buffering=0) as disk:
        disk.write(b"x")


def too_many_files(_: World) -> None:
    with no_more_files(), Path(os.devnull).open("rb"):
        pass


def no_memory(_: World) -> None:
    bytearray(sys.maxsize)


def missing_file(world: World) -> None:
    (world.folder / "not there").read_bytes()


def folder_for_a_file(world: World) -> None:
    world.folder.read_bytes()


def bug(_: World) -> None:
    {}["no such key"]


def _address(world: World, place: str) -> tuple[str, int]:
    host, _, port = world.url(place).removeprefix("http://").partition(":")
    return host, int(port)
