"""The story of the example, within a minute: `python -m examples.media_sync [FOLDER]`."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2

from examples.media_sync.app import app
from examples.media_sync.peers import Peers, free_port, until
from seawall import State

QUICK = Path(__file__).with_name("quick.toml")
SCAN_SECONDS = 2.0
BACKLOG = 20


def say(line: str = "") -> None:
    print(line, flush=True)


class Story:
    """Two media servers, one of them unreliable, and what is between them."""

    def __init__(self, folder: Path) -> None:
        self.media = folder / "media"
        self.media.mkdir()
        self.port, hook_port = free_port(), free_port()
        self.server = f"http://127.0.0.1:{self.port}"
        self.hook = f"http://127.0.0.1:{hook_port}"
        self.url = f"sqlite:///{folder}/seawall.db"
        app.configure(url=self.url)
        self.peers = Peers(
            folder,
            SEAWALL_URL=self.url,
            SEAWALL_CONFIG=str(QUICK),
            SEAWALL_POLL_SECONDS="0.2",
            SEAWALL_DEAD_LETTERS_EVERY="1",
            MEDIA_SERVER_URL=self.server,
            MEDIA_RECOVERY_SECONDS="2",
        )
        self._hook_port = hook_port

    def tell(self) -> None:
        with self.peers:
            self._begin()
            self._still_scanning()
            self._down()
            self._dead_letter()
            say(self.peers.run("seawall", "verify").strip())
        app.close()

    def _begin(self) -> None:
        self._start_server()
        address = ("--port", str(self._hook_port), "--log-level", "warning")
        health = f"{self.hook}/health"
        self.peers.start("hook", "uvicorn", "examples.media_sync.hook:api", *address, health=health)
        self.peers.start("worker", "seawall", "worker", "--app", "examples.media_sync.app:app")
        until(lambda: "worker_started" in self._log(), "the worker is at work")
        say(f"A media server at {self.server}, a hook for events at {self.hook}, and a worker.")
        say(f"Its policy is a quicker media-sync, so that you need not wait: {QUICK.name}.")

    def _start_server(self) -> None:
        self.peers.start(
            "media_server", "examples.media_sync.media_server",
            "--port", str(self.port), "--folder", str(self.media),
            "--scan-seconds", str(SCAN_SECONDS), health=f"{self.server}/health",
        )  # fmt: skip

    def _still_scanning(self) -> None:
        say("\n1. A new film, and its event, long before the media server has scanned it.")
        job = self._event("film-1", "film.mkv", "A film")
        again = self._event("film-1", "film.mkv", "A film")
        say(f"   The event becomes job {job}; sent again, it is still job {again}.")
        self._await(job)
        waits = [each.fault.code for each in app.job(job).attempts() if each.fault is not None]
        say(f"   {len(waits)} × {waits[0]}, each time a longer wait; then the file was there.")

    def _down(self) -> None:
        say("\n2. The media server dies.")
        for number in range(BACKLOG):
            (self.media / f"{number}.mkv").touch()
        until(lambda: self._knows(f"{BACKLOG - 1}.mkv"), "it has scanned them")
        with suppress(httpx2.TransportError):
            httpx2.post(f"{self.server}/tell", json={"die": True})
        jobs = [self._event(f"e-{n}", f"{n}.mkv", f"Part {n}") for n in range(BACKLOG)]
        until(lambda: app.upstreams.get("media-server").is_held, "it is held")
        begun = sum(app.job(job).job().tries for job in jobs)
        say(f"   {BACKLOG} events come in. After 5 failures in a row it is held:")
        say(f"   {begun} tries were used up in all, and no more will be while it is down.")
        say("   " + str(app.why(jobs[-1])).replace("\n", "\n   "))
        self._start_server()
        say("   It is started again. One job goes first, and when that is well the others follow.")
        self._await(*jobs)
        spent = sum(app.job(job).job().tries for job in jobs)
        say(f"   All {BACKLOG} are synchronised; dead letters: {len(app.dead_letters())}.")
        say(f"   ({spent} tries for {BACKLOG} jobs.)")

    def _dead_letter(self) -> None:
        say("\n3. An event that no waiting can help: the media server wants a title.")
        job = self._event("bad-1", "0.mkv", "")
        until(lambda: app.job(job).state is State.FAILED, "it has failed")
        until(lambda: "dead_letters_new" in self._log(), "the log tells of it")
        line = next(each for each in self._log().splitlines() if "dead_letters_new" in each)
        say(f"   The log: {line}")
        say("   $ seawall dead\n" + self.peers.run("seawall", "dead"))
        mended = 'metadata={"title": "Mended"}'
        say(f"   $ seawall redrive {job} --edit '{mended}'")
        words = ("seawall", "redrive", str(job), "--app", "examples.media_sync.app:app")
        say("   " + self.peers.run(*words, "--edit", mended).strip())
        self._await(job)
        say("   It went through.")

    def _event(self, event: str, path: str, title: str) -> int:
        (self.media / path).touch()
        body = {"id": event, "path": path, "metadata": {"title": title}}
        return int(httpx2.post(f"{self.hook}/events", json=body).raise_for_status().json()["job"])

    def _knows(self, path: str) -> bool:
        return httpx2.get(f"{self.server}/items", params={"path": path}).is_success

    def _await(self, *jobs: int) -> None:
        until(
            lambda: all(app.job(job).state is State.SUCCEEDED for job in jobs), f"{jobs} are done"
        )

    def _log(self) -> str:
        return (self.peers.folder / "worker.log").read_text()


@contextmanager
def place() -> Iterator[Path]:
    """The folder that was named, else one that is gone afterwards."""
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1]).resolve()
        folder.mkdir(parents=True)
        yield folder
        say(f"\nLook around: SEAWALL_URL=sqlite:///{folder}/seawall.db seawall jobs")
        return
    with tempfile.TemporaryDirectory(prefix="media-sync-") as made:
        yield Path(made)


if __name__ == "__main__":
    with place() as here:
        Story(here).tell()
