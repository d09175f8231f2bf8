"""Real peers for the examples, on free loopback ports: a model provider and an S3 service.

Each is a program of its own, started for a block and ended with it, by its process id. What they
write lies in the folder that they are given.
"""

import json
import os
import shutil
import socket
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import obstore
from obstore.store import S3Store

PATIENCE_SECONDS = 180.0
GRACE_SECONDS = 5.0
BUCKET = "examples"
_KEYS = ("examples", "for-examples-only-2718281828")
_PARTS = ("master", "volume", "filer", "s3")

Running: TypeAlias = AbstractContextManager["subprocess.Popen[bytes]"]


class Model:
    """A provider that speaks as OpenAI and Anthropic do, and breaks as it is told (`llmock`)."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    @property
    def environ(self) -> dict[str, str]:
        """What the clients of both providers need to find it."""
        return {
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": "sk-examples-0123456789abcdef",
            "ANTHROPIC_BASE_URL": f"{self.url}/anthropic",
            "ANTHROPIC_API_KEY": "sk-ant-examples-0123456789abcdef",
        }

    def behave(self, *behaviours: Mapping[str, Any]) -> None:
        """Do this with the requests to come, one after the other."""
        told = {"behaviors": behaviours}
        httpx.post(f"{self.url}/_llmock/scenario", json=told).raise_for_status()

    def requests(self) -> list[dict[str, Any]]:
        """What it was asked, and what it answered."""
        found: list[dict[str, Any]] = httpx.get(f"{self.url}/_llmock/requests").json()["requests"]
        return found


@contextmanager
def model(folder: Path) -> Iterator[Model]:
    """A provider, while the block lasts."""
    (port,) = free_ports(1)
    words = ["serve", "--host", "127.0.0.1", "--port", str(port), "--log-level", "warning"]
    with running([_program("llmock"), *words], folder / "model.log", f"{_at(port)}/health"):
        yield Model(port)


@contextmanager
def bucket(folder: Path) -> Iterator[dict[str, str]]:
    """A bucket called `examples`; the environment that leads there (SeaweedFS)."""
    data = folder / "s3"
    data.mkdir()
    key, secret = _KEYS
    who = {"name": key, "credentials": [{"accessKey": key, "secretKey": secret}]}
    (data / "who.json").write_text(json.dumps({"identities": [{**who, "actions": ["Admin"]}]}))
    ports, inner = free_ports(4), free_ports(4)
    words = [
        "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3",
        f"-s3.config={data / 'who.json'}", "-s3.port.iceberg=0", "-s3.port.lance=0",
        f"-filer.localSocket={data / 'filer.sock'}", f"-s3.localSocket={data / 's3.sock'}",
        "-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=20",
        *(f"-{part}.port={port}" for part, port in zip(_PARTS, ports, strict=True)),
        *(f"-{part}.port.grpc={port}" for part, port in zip(_PARTS, inner, strict=True)),
    ]  # fmt: skip
    url = _at(ports[-1])
    environ = {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
    }
    try:
        with running([_program("weed"), *words], folder / "s3.log", f"{url}/healthz"):
            made = S3Store(
                BUCKET,
                endpoint=url,
                region="us-east-1",
                access_key_id=key,
                secret_access_key=secret,
                client_options={"allow_http": True},
            )
            obstore.put(made, "made", b"")  # it makes the buckets that it is asked to write to
            yield environ
    finally:
        for part, port in zip(_PARTS, inner, strict=True):  # it leaves these wherever it is told to
            Path(f"/tmp/seaweedfs-{part}-grpc-{port}.sock").unlink(missing_ok=True)  # noqa: S108


@contextmanager
def running(
    command: Sequence[str],
    log: Path,
    answers_at: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> Iterator["subprocess.Popen[bytes]"]:
    """A program, from when it answers there until the end of the block."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            env={**os.environ, **(environ or {})},
        )  # fmt: skip
    try:
        if answers_at is not None:
            until(lambda: _answers(process, log, answers_at), f"{command[0]} to answer")
        yield process
    finally:
        process.terminate()
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def until(happens: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until it happens."""
    deadline = time.monotonic() + seconds
    while not happens():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}; is the machine very busy?")
        time.sleep(0.05)


def free_ports(count: int) -> list[int]:
    """So many ports that nobody listens on, a moment ago."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _answers(process: "subprocess.Popen[bytes]", log: Path, url: str) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"it did not start: {log.read_text()[-1_000:]}")
    try:
        return httpx.get(url, timeout=5).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def _at(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def _program(name: str) -> str:
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if found is None:
        raise SystemExit(f"{name} is not installed: run `make setup`")
    return found
