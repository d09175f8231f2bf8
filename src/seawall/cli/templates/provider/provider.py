"""A provider to try things out with: it speaks as OpenAI does, and refuses the first call.

python provider.py            # serves on port 8765 until Ctrl-C
"""

import json
import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if next(self.server.calls) == 1:
            self._answer(429, {"error": {"message": "too many requests"}})
            return
        words = len(asked["messages"][-1]["content"].split())
        said = f'Sure!\n```json\n{{"summary": "short", "words": {words}}}\n```'
        usage = {"prompt_tokens": words, "completion_tokens": 9}
        self._answer(200, {"choices": [{"message": {"content": said}}], "usage": usage})

    def _answer(self, status: int, body: object) -> None:
        said = json.dumps(body).encode()
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Provider(ThreadingHTTPServer):
    """The running server."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.calls = count(1)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


if __name__ == "__main__":
    with (
        Provider(int(sys.argv[1]) if sys.argv[1:] else 8765) as server,
        suppress(KeyboardInterrupt),
    ):
        print(f"Serving at {server.url}", flush=True)
        server.serve_forever()
