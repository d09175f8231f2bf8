"""The demo's unreliable service: a loopback HTTP server that fails in every way that matters.

What it does to a document depends on the document's number and on how often it was asked for, so
that every run tells the same story: dropped connections, 503s, 429s with a Retry-After, prose
instead of JSON, one document that is not there, and one for which the caller's key is refused. And
for a while it can be gone altogether.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

PLANTED_KEY = "sk-demo-4eC39HqLyjWDarjtT1zdp7dc"
LATENCY_SECONDS = 0.1
MISSING, FORBIDDEN = 113, 242
_FIRST_ANSWERS = {1: ("hang up",), 3: ("503",), 6: ("prose",), 8: ("503", "503")}
"""By the last digit of a document's number, what the first calls for it come to."""
_THROTTLED = 64
"""The last two digits of those whose first call is one too many."""


class _Service(BaseHTTPRequestHandler):
    calls: ClassVar[Counter[str]] = Counter()
    answers: ClassVar[Counter[str]] = Counter()
    lock: ClassVar[threading.Lock] = threading.Lock()
    back_at: ClassVar[float] = 0.0

    def do_GET(self) -> None:
        document = self.path.rsplit("/", 1)[-1]
        with self.lock:
            answer = "away"
            if time.monotonic() >= self.back_at:
                self.calls[document] += 1
                answer = _answer(int(document[-3:]), self.calls[document])
            self.answers[answer] += 1
        time.sleep(LATENCY_SECONDS)
        if answer in {"hang up", "away"}:
            self.close_connection = True
            return
        body = {
            "prose": "Sure! I will summarize it as soon as I have read it.",
            "ok": f'Here you are:\n```json\n{{"document": "{document}", "words": 12}}\n```',
        }.get(answer, "")
        status = int(answer) if answer.isdigit() else 200
        self.send_response(status, f"Incorrect API key: {PLANTED_KEY}" if status == 401 else None)
        if status == 429:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing: the demo tells the story."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Callers that are killed hang up: that is the point of the demo."""


def _answer(number: int, call: int) -> str:
    if number == MISSING:
        return "404"
    if number == FORBIDDEN:
        return "401"
    first = ("429",) if number % 100 == _THROTTLED else _FIRST_ANSWERS.get(number % 10, ())
    return first[call - 1] if call <= len(first) else "ok"


class Service:
    """The running service, and what it has seen."""

    def __init__(self, url: str) -> None:
        self.url = url

    def go_away(self, seconds: float) -> None:
        """Answer nobody for so long."""
        _Service.back_at = time.monotonic() + seconds

    @property
    def is_away(self) -> bool:
        return time.monotonic() < _Service.back_at

    @property
    def calls(self) -> int:
        return sum(_Service.answers.values())

    @property
    def calls_while_away(self) -> int:
        return _Service.answers["away"]

    @property
    def refused(self) -> int:
        """Calls that it did not answer with a summary."""
        return self.calls - _Service.answers["ok"]


@contextmanager
def unreliable_service() -> Iterator[Service]:
    """Serve on a free loopback port until the end of the block."""
    _Service.calls.clear()
    _Service.answers.clear()
    _Service.back_at = 0.0
    server = _Server(("127.0.0.1", 0), _Service)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield Service(f"http://127.0.0.1:{server.server_address[1]}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
