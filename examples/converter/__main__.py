"""The story of the example, within a minute: `python -m examples.converter [--stay] [FOLDER]`."""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from examples.converter.peers import Peers, free_port, until

PDF = b"""%PDF-1.4
1 0 obj << /Type /Catalog /Pages 2 0 R >> endobj
2 0 obj << /Type /Pages /Kids [3 0 R] /Count 1 >> endobj
3 0 obj << /Type /Page /Parent 2 0 R /Contents 4 0 R >> endobj
4 0 obj << /Length 44 >> stream
BT /F1 24 Tf 72 700 Td (The sea is calm) Tj ET
endstream endobj
trailer << /Root 1 0 R >>
%%EOF
"""
QUICK = {
    "RETRY_BASE_DELAY_MS": "1000",
    "RETRY_JITTER_MAX_MS": "300",
    "CIRCUIT_WINDOW": "6",
    "CIRCUIT_COOLDOWN_MS": "2000",
    "GATEWAY_TIMEOUT_MS": "5000",
}
"""So that you need not wait: without these it is 5 s, 5 s, 20 calls, 30 s and 2 min."""


def say(line: str = "") -> None:
    print(line, flush=True)


class Story:
    """A gateway, a web application and a worker."""

    def __init__(self, folder: Path) -> None:
        self.uploads = folder / "uploads"
        self.gateway_port, self.web_port = free_port(), free_port()
        self.gateway = f"http://127.0.0.1:{self.gateway_port}"
        self.web = f"http://127.0.0.1:{self.web_port}"
        self.url = f"sqlite:///{folder}/converter.db"
        self.peers = Peers(
            folder,
            **QUICK,
            DATABASE_URL=self.url,
            GATEWAY_URL=self.gateway,
            UPLOADS_DIR=str(self.uploads),
            RESULTS_DIR=str(folder / "results"),
            SEAWALL_POLL_SECONDS="0.2",
        )
        self.visitor = httpx2.Client(base_url=self.web)

    def tell(self, *, stay: bool) -> None:
        with self.peers, self.visitor:
            self._begin()
            self._converted()
            self._refused()
            self._held()
            verified = self.peers.run("seawall", "verify", "--url", self.url)
            say(verified.strip().splitlines()[-1])
            if stay:
                say(f"\nIt goes on at {self.web} until you press Enter.")
                input()

    def _begin(self) -> None:
        port, health = str(self.gateway_port), f"{self.gateway}/health"
        self.peers.start("gateway", "examples.converter.gateway", "--port", port, health=health)
        words = ("uvicorn", "examples.converter.web:api", "--log-level", "warning")
        self.peers.start("web", *words, "--port", str(self.web_port), health=f"{self.web}/health")
        self.peers.start("worker", "seawall", "worker", "--app", "examples.converter.app:app")
        self.visitor.get("/").raise_for_status()
        say(f"A gateway at {self.gateway}, the page at {self.web}, and a worker.")

    def _converted(self) -> None:
        say("\n1. A PDF is uploaded.")
        job = self._upload("sea.pdf")
        self._await(job, "complete")
        xml = self.visitor.get(f"/api/jobs/{job}/xml").text
        say("   " + xml.strip().replace("\n", "\n   "))

    def _refused(self) -> None:
        say("\n2. The gateway will not have one, by its own word INVALID_MAPPING.")
        self._tell(status=422, error="INVALID_MAPPING")
        job = self._upload("odd.pdf")
        row = self._await(job, "failed")
        error, many = row["error"], row["attemptCount"]
        say(f"   {error['code']} after {many} attempt: {error['message']}")
        self._tell(status=200)
        source = max(self.uploads.iterdir(), key=lambda file: file.stat().st_mtime)
        kept = source.read_bytes()
        source.unlink()
        told = self.visitor.post(f"/api/jobs/{job}/retry").json()
        say(f"   Retry while its file is gone: {told['title']}")
        source.write_bytes(kept)
        stranger = httpx2.Client(base_url=self.web)
        stranger.get("/")
        told = stranger.post(f"/api/jobs/{job}/retry").json()
        say(f"   Retry by somebody else: {told['title']}")
        self.visitor.post(f"/api/jobs/{job}/retry").raise_for_status()
        self._await(job, "complete")
        say("   Retry by its owner, when all is there: complete.")

    def _held(self) -> None:
        say("\n3. The gateway fails.")
        self._tell(status=502)
        jobs = [self._upload(f"{number}.pdf") for number in range(6)]
        until(lambda: "jobs will resume automatically" in self._page(), "there is a banner")
        say("   Half of its last calls failed: it is held. The page says:")
        say("   Converter busy — jobs will resume automatically.")
        self._tell(status=200)
        for job in jobs:
            self._await(job, "complete", "failed")
        until(lambda: "jobs will resume automatically" not in self._page(), "the banner is gone")
        done = sum(self._row(job)["status"] == "complete" for job in jobs)
        say(f"   The gateway is well again: {done} of {len(jobs)} are complete, with no click.")

    def _upload(self, name: str) -> int:
        answer = self.visitor.post("/api/jobs", params={"name": name}, content=PDF)
        return int(answer.raise_for_status().json()["id"])

    def _row(self, job: int) -> dict[str, Any]:
        found: list[dict[str, Any]] = self.visitor.get("/api/jobs").raise_for_status().json()
        return next(row for row in found if row["id"] == job)

    def _await(self, job: int, *states: str) -> dict[str, Any]:
        until(lambda: self._row(job)["status"] in states, f"job {job} is {' or '.join(states)}")
        return self._row(job)

    def _page(self) -> str:
        return self.visitor.get("/").text

    def _tell(self, **what: object) -> None:
        httpx2.post(f"{self.gateway}/tell", json=what).raise_for_status()


@contextmanager
def place(named: Path | None) -> Iterator[Path]:
    """The folder that was named, else one that is gone afterwards."""
    if named is not None:
        named.mkdir(parents=True)
        yield named.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="converter-") as made:
        yield Path(made)


if __name__ == "__main__":
    asked = argparse.ArgumentParser(prog="python -m examples.converter", description=__doc__)
    asked.add_argument("folder", nargs="?", type=Path, help="keep everything there")
    asked.add_argument("--stay", action="store_true", help="go on, for a browser")
    given = asked.parse_args()
    with place(given.folder) as here:
        Story(here).tell(stay=given.stay)
