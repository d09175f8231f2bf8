"""The media server of the example, workers as people start them, and the application itself."""

import json
from contextlib import contextmanager

import httpx2

from examples.media_sync.app import app
from examples.media_sync.peers import Peers, free_port, until
from tests.support.processes import quick_to_start

WORKER = ("seawall", "worker", "--app", "examples.media_sync.app:app")
QUICK = "examples/media_sync/quick.toml"


class Server:
    """A media server in a process of its own."""

    def __init__(self, peers, scan_seconds=0.0):
        self.peers, self.port = peers, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.media = peers.folder / "media"
        self.media.mkdir(exist_ok=True)
        self._scan_seconds = scan_seconds
        self.start()

    def start(self):
        self.process = self.peers.start(
            "media_server", "examples.media_sync.media_server",
            "--port", str(self.port), "--folder", str(self.media),
            "--scan-seconds", str(self._scan_seconds), health=f"{self.url}/health",
        )  # fmt: skip

    def die(self):
        """As it was told, without an answer; what it had scanned it knows when it is back."""
        try:
            self.told(die=True)
        except httpx2.TransportError:
            self.process.wait()

    def told(self, **what):
        httpx2.post(f"{self.url}/tell", json=what).raise_for_status()

    def has(self, *paths):
        """Have it scan these files, and return when it knows them."""
        for path in paths:
            (self.media / path).touch()
        for path in paths:
            until(lambda path=path: self.item(path) is not None, f"it knows {path}")

    def item(self, path):
        """What it knows of a file; None where it does not have it."""
        answer = httpx2.get(f"{self.url}/items", params={"path": path})
        return answer.json() if answer.is_success else None

    def calls(self):
        """The paths of the files that it was asked to update, one after the other."""
        return httpx2.get(f"{self.url}/calls").json()


class Sync:
    """A media server, workers on one store, and the application that asks for jobs there."""

    def __init__(self, peers, server):
        self.peers, self.server = peers, server

    def start_worker(self):
        """A worker at work; its process."""
        before = len(self.said("worker_started"))
        process = self.peers.start("worker", *WORKER)
        until(lambda: len(self.said("worker_started")) > before, "a worker is at work")
        return process

    def said(self, event):
        """Every such event that a worker has logged."""
        log = self.peers.folder / "worker.log"
        lines = log.read_text().splitlines() if log.exists() else []
        said = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [each for each in said if each["event"] == event]

    def held(self):
        return app.upstreams.get("media-server").is_held


@contextmanager
def synchronising(folder, **environ):
    """All of it, on a store in that folder, with the quick policy."""
    url = f"sqlite:///{folder}/seawall.db"
    usual = {
        "SEAWALL_URL": url, "SEAWALL_CONFIG": QUICK, "SEAWALL_LOG_FORMAT": "json",
        "SEAWALL_CONCURRENCY": "2", "SEAWALL_POLL_SECONDS": "0.1", "SEAWALL_LEASE_SECONDS": "2", "MEDIA_RECOVERY_SECONDS": "0.5",
    }  # fmt: skip
    with Peers(folder, **usual, **quick_to_start(folder), **environ) as peers:
        server = Server(peers)
        peers.environ["MEDIA_SERVER_URL"] = server.url
        app.configure(url=url)
        try:
            yield Sync(peers, server)
            assert app.verify().violations == ()
        finally:
            app.close()
            app.configure(url="sqlite:///seawall.db")
