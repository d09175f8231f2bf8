"""The story of `ai_gateway`, in about a minute: `python -m examples.ai_gateway`."""

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from examples import peers
from seawall import Seawall

LOGGING = Path(__file__).with_name("logging.json")
SHOWN = ("request_id", "ai_code", "attempt", "max_attempts", "delay_ms")
THROTTLED_SECONDS = 3


def main() -> None:
    """Tell it."""
    parser = argparse.ArgumentParser(prog="python -m examples.ai_gateway", description=__doc__)
    parser.add_argument("--folder", type=Path, help="keep everything there, to look around")
    with place(parser.parse_args().folder) as folder, ExitStack() as block:
        model = block.enter_context(peers.model(folder))
        environ = {**model.environ, "SEAWALL_URL": f"sqlite:///{folder / 'jobs.db'}"}
        os.environ.update(environ)
        (port,) = peers.free_ports(1)
        url = f"http://127.0.0.1:{port}"
        title("1. The gateway, and a worker beside it")
        started(block, folder, port)
        with httpx.Client(base_url=url, timeout=60) as client:
            tell(Story(client, model))
        title("5. What the log says of each retry")
        tell_log(folder, environ)


def started(block: ExitStack, folder: Path, port: int) -> None:
    """The two processes of a small deployment."""
    worker = ["worker", "--app", "examples.ai_gateway.app:app"]
    print("$ seawall", *worker, "&")
    command = [sys.executable, "-m", "seawall", *worker]
    block.enter_context(peers.running(command, folder / "worker.log"))
    web = ["examples.ai_gateway.api:api", "--port", str(port), "--log-config", str(LOGGING)]
    print("$ uvicorn", *web[:3], "&", flush=True)
    command = [sys.executable, "-m", "uvicorn", *web]
    block.enter_context(
        peers.running(command, folder / "gateway.log", f"http://127.0.0.1:{port}/openapi.json")
    )


class Story:
    """A caller, and a provider that does as it is told."""

    def __init__(self, client: httpx.Client, model: peers.Model) -> None:
        self._client = client
        self._model = model
        self._asked = 0

    def asks(self, what: str, *behaviours: dict[str, Any], **more: Any) -> httpx.Response:
        """Post a text, and say what came of it."""
        if behaviours:
            self._model.behave(*behaviours)
        self._asked += 1
        answer = self._client.post(
            "/v1/judgements",
            json={"text": "What a fine day.", **more},
            headers={"x-request-id": f"story-{self._asked}"},
        )
        print(f"{what}: {answer.status_code} {answer.text}")
        return answer

    def awaits(self, handed: httpx.Response) -> dict[str, Any]:
        """Ask for the job at its place until it has ended."""
        found: dict[str, Any] = {}

        def ended() -> bool:
            found.update(self._client.get(handed.headers["location"]).json())
            return found["state"] not in ("queued", "running")

        peers.until(ended, "a worker to finish it")
        print(f"    later, at {handed.headers['location']}: {found}")
        return found


def tell(story: Story) -> None:
    """The story, in its order."""
    broken = {"type": "fail", "status": 500}
    title("2. While the caller waits: at most one short retry")
    good = story.asks("OpenAI", provider="openai")
    other = story.asks("Anthropic", provider="anthropic")
    once = story.asks("It breaks once", broken)
    drift = story.asks("It answers prose once", {"type": "reply", "text": "It is hard to say."})
    title("3. What does not end well by then is handed over to the workers")
    twice = story.asks("It breaks twice", {**broken, "times": 2}, provider="anthropic")
    mended = story.awaits(twice)
    limit = {"type": "fail", "status": 429, "retry_after": THROTTLED_SECONDS}
    throttled = story.asks(f"It throttles, for {THROTTLED_SECONDS} s", limit)
    kept = story.awaits(throttled)
    title("4. What trying again cannot help is told at once, by one of nine codes")
    refused = story.asks("It refuses the request", {"type": "fail", "status": 400})
    no_key = story.asks("It refuses the key", {"type": "fail", "status": 401})
    empty = story.asks("There is nothing to judge", text="")
    statuses = [each.status_code for each in (good, other, once, drift, twice, throttled)]
    codes = [each.json()["code"] for each in (refused, no_key, empty)]
    if (
        statuses != [200, 200, 200, 200, 202, 202]
        or {mended["state"], kept["state"]} != {"succeeded"}
        or codes != ["INVALID_REQUEST", "CONFIG_MISSING", "INVALID_REQUEST"]
    ):
        raise SystemExit("That is not how it should have gone.")


def tell_log(folder: Path, environ: dict[str, str]) -> None:
    """The lines of both processes about retries; that they hold no key; that the books balance."""
    logs = "".join((folder / name).read_text() for name in ("gateway.log", "worker.log"))
    for line in logs.splitlines():
        if "retry_scheduled" in line:
            fields = dict(re.findall(r"(\w+)=(\S+)", line))
            print("  ", *(f"{name}={fields[name]}" for name in SHOWN))
    if any(value in logs for name, value in environ.items() if name.endswith("KEY")):
        raise SystemExit("A key stands in the log.")
    books = Seawall(environ["SEAWALL_URL"]).verify()
    print("No key stands in the log.", "The books balance." if books.ok else books)
    if not books.ok:
        raise SystemExit(1)


def title(words: str) -> None:
    """What comes next."""
    print(f"\n{words}", flush=True)


@contextmanager
def place(folder: Path | None) -> Iterator[Path]:
    """Where everything is written."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="seawall-gateway-") as made:
            yield Path(made)
        return
    if folder.exists() and any(folder.iterdir()):
        raise SystemExit(f"{folder}: is not empty; name a folder that may be filled")
    folder.mkdir(parents=True, exist_ok=True)
    yield folder.resolve()
    print(f"\nLook around: cd {folder}; SEAWALL_URL=sqlite:///jobs.db seawall jobs")


if __name__ == "__main__":
    main()
