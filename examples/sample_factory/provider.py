"""A provider that speaks as OpenAI does and fails as providers do: a real server, to be run alone.

    python -m examples.sample_factory.provider            # says its address, serves until its end

Whether a call fails follows from the sample's number and from how often that sample was asked for,
so that every run tells the same story. `GET /ledger` says what was asked and what was answered.
"""

import argparse
import hashlib
import json
import sys
import threading
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "sk-sample-factory"
LONGEST_WORDS = 512
DIMENSIONS = 8
TROUBLES = {
    "chat": {
        "429": 0.015,
        "500": 0.005,
        "502": 0.005,
        "503": 0.005,
        "504": 0.005,
        "hangs up": 0.01,
        "breaks off": 0.005,
    },
    "embeddings": {"503": 0.01, "hangs up": 0.005},
}
"""What happens to calls, and to which share of them: 5 % and 1.5 %."""
PROSE = 42
"""Of 500 samples this one is answered in prose, however often it is asked for."""


def trouble(endpoint: str, sample: int, call: int) -> str | None:
    """What becomes of the n-th call for this sample; None where it is answered."""
    digest = hashlib.blake2b(f"{endpoint} {sample} {call}".encode(), digest_size=8).digest()
    drawn = int.from_bytes(digest) / 2**64
    for what, share in TROUBLES[endpoint].items():
        drawn -= share
        if drawn < 0:
            return what
    return None


class Ledger:
    """What was asked for, and what came of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Counter[tuple[str, int]] = Counter()
        self._paid: Counter[tuple[str, int]] = Counter()
        self._answers: dict[str, Counter[str]] = {name: Counter() for name in TROUBLES}

    def asked(self, endpoint: str, sample: int) -> int:
        """Note a call; how many there were for this sample, this one included."""
        with self._lock:
            self._calls[endpoint, sample] += 1
            return self._calls[endpoint, sample]

    def answered(self, endpoint: str, sample: int, what: str) -> None:
        with self._lock:
            self._answers[endpoint][what] += 1
            self._paid[endpoint, sample] += what == "200"

    def page(self) -> dict[str, object]:
        with self._lock:
            return {
                name: {
                    "answers": dict(answers),
                    "paid_twice": sum(n > 1 for key, n in self._paid.items() if key[0] == name),
                }
                for name, answers in self._answers.items()
            }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body in one packet
    server: "Provider"

    def do_GET(self) -> None:
        self._say(200, self.server.ledger.page())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        endpoint = "chat" if self.path == "/v1/chat/completions" else "embeddings"
        sample = int(body.get("user", "sample-0").rpartition("-")[2])
        what = self._what(endpoint, sample, body)
        self.server.ledger.answered(endpoint, sample, what)
        if what == "hangs up":
            self.close_connection = True
        elif what == "200":
            self._say(200, answer(endpoint, sample, body))
        elif what == "breaks off":
            self.close_connection = True
            self._say(200, answer(endpoint, sample, body), missing=20)
        else:
            self._say(int(what), {"error": {"message": _MESSAGES[what], "type": "error"}})

    def _what(self, endpoint: str, sample: int, body: dict[str, object]) -> str:
        if self.headers["Authorization"] != f"Bearer {KEY}":
            return "401"
        found = trouble(endpoint, sample, self.server.ledger.asked(endpoint, sample))
        if found is None and endpoint == "embeddings" and _longest(body) > LONGEST_WORDS:
            return "400"
        return found or "200"

    def _say(self, status: int, body: object, *, missing: int = 0) -> None:
        said = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said[: len(said) - missing])

    def log_message(self, *_: object) -> None:
        """Say nothing: the ledger tells."""


_MESSAGES = {
    "400": f"the input is too long: at most {LONGEST_WORDS} words at once",
    "401": "the key is not known",
    "429": "too many requests",
    "500": "something broke",
    "502": "bad gateway",
    "503": "the queue is full",
    "504": "nobody answered in time",
}


def answer(endpoint: str, sample: int, body: dict[str, object]) -> dict[str, object]:
    """What OpenAI's clients expect."""
    if endpoint == "embeddings":
        inputs = _inputs(body)
        return {
            "object": "list",
            "model": body["model"],
            "data": [
                {"object": "embedding", "index": at, "embedding": _vector(each)}
                for at, each in enumerate(inputs)
            ],
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
        }
    topic = ("tides", "ropes", "storms")[sample % 3]
    said = json.dumps({"topic": topic})
    if sample % 500 == PROSE:
        said = "I would rather talk about the weather."
    return {
        "id": f"answer-{sample}",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": said},
            }
        ],
        "usage": {"prompt_tokens": 120, "completion_tokens": 8, "total_tokens": 128},
    }


def _inputs(body: dict[str, object]) -> list[str]:
    given = body["input"]
    return [str(each) for each in given] if isinstance(given, list) else [str(given)]


def _longest(body: dict[str, object]) -> int:
    return max(len(each.split()) for each in _inputs(body))


def _vector(text: str) -> list[float]:
    digest = hashlib.blake2b(text.encode(), digest_size=DIMENSIONS).digest()
    return [byte / 255 for byte in digest]


class Provider(ThreadingHTTPServer):
    """The running server."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, host: str, port: int) -> None:
        super().__init__((host, port), _Handler)
        self.ledger = Ledger()

    def handle_error(self, *_: object) -> None:
        """Callers that are stopped hang up."""


def main() -> None:
    words = argparse.ArgumentParser(description="A provider that fails as providers do.")
    words.add_argument("--host", default="127.0.0.1")
    words.add_argument("--port", type=int, default=0)
    given = words.parse_args()
    with Provider(given.host, given.port) as server, suppress(KeyboardInterrupt):
        sys.stdout.write(f"http://{given.host}:{server.server_address[1]}\n")
        sys.stdout.flush()
        server.serve_forever(0.05)


if __name__ == "__main__":
    main()
