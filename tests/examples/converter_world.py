"""The gateway of the example, its web application, and workers as people start them."""

import json
from contextlib import contextmanager
from dataclasses import replace

import httpx2

from examples.converter import app as module
from examples.converter.__main__ import PDF
from examples.converter.app import app, convert
from examples.converter.peers import Peers, free_port, until
from tests.support.processes import quick_to_start

WORKER = ("seawall", "worker", "--app", "examples.converter.app:app")


class Gateway:
    """A gateway in a process of its own."""

    def __init__(self, peers):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        words = ("examples.converter.gateway", "--port", str(self.port))
        peers.start("gateway", *words, health=f"{self.url}/calls")

    def told(self, **what):
        httpx2.post(f"{self.url}/tell", json=what).raise_for_status()

    def is_well(self):
        self.told(status=200, error="NO", seconds=0, garbled=False, retry_after=None)

    def calls(self):
        """The idempotency keys of the conversions that were begun."""
        return httpx2.get(f"{self.url}/calls").json()


@contextmanager
def knobs_of(folder, gateway, **more):
    """The application of this process, with these folders and this gateway."""
    before = module.knobs
    paths = {"uploads": folder / "uploads", "results": folder / "results"}
    module.knobs = replace(before, gateway_url=gateway.url, **paths, **more)
    module.knobs.uploads.mkdir(exist_ok=True)
    try:
        yield module.knobs
    finally:
        module.knobs = before


def uploaded(name="sea.pdf", content=PDF, owner="ann"):
    """A job for a document that is there."""
    document = f"d{len(list(module.knobs.uploads.iterdir()))}"
    module.source_of(document).write_bytes(content)
    return convert.using(owner=owner).enqueue(document, name)


class Shop:
    """A gateway, workers on one store, and the application that asks for jobs there."""

    def __init__(self, peers, gateway):
        self.peers, self.gateway = peers, gateway

    def worker(self, *words, **environ):
        """A worker at work; its process."""
        before = len(self.said("worker_started"))
        usual = dict(self.peers.environ)
        self.peers.environ.update(environ)
        process = self.peers.start("worker", *WORKER, *words)
        self.peers.environ = usual
        until(lambda: len(self.said("worker_started")) > before, "a worker is at work")
        return process

    def said(self, event):
        """Every such event that a worker has logged."""
        log = self.peers.folder / "worker.log"
        lines = log.read_text().splitlines() if log.exists() else []
        said = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [each for each in said if each["event"] == event]

    def begun(self, many=1):
        """Return when so many conversions were begun."""
        until(lambda: len(self.gateway.calls()) >= many, f"{many} conversions were begun")


@contextmanager
def at_work(folder, url=None, **environ):
    """All of it, on a store in that folder or elsewhere."""
    url = url or f"sqlite:///{folder}/converter.db"
    usual = {
        "DATABASE_URL": url, "UPLOADS_DIR": str(folder / "uploads"),
        "RESULTS_DIR": str(folder / "results"), "RETRY_BASE_DELAY_MS": "100",
        "RETRY_JITTER_MAX_MS": "100", "CIRCUIT_WINDOW": "6", "CIRCUIT_COOLDOWN_MS": "500",
        "WORKER_LEASE_TTL_SEC": "2", "WORKER_CONCURRENCY": "2", "SEAWALL_POLL_SECONDS": "0.1",
        "SEAWALL_LOG_FORMAT": "json", "SEAWALL_LOG_LEVEL": "debug",
    }  # fmt: skip
    with Peers(folder, **usual, **quick_to_start(folder), **environ) as peers:
        gateway = Gateway(peers)
        peers.environ["GATEWAY_URL"] = gateway.url
        app.configure(url=url)
        try:
            with knobs_of(folder, gateway):
                yield Shop(peers, gateway)
                assert app.verify().violations == ()
        finally:
            app.close()
            app.configure(url="sqlite:///converter.db")
