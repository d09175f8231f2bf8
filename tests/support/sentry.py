"""A Sentry on loopback, which keeps what it is sent."""

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Sentry:
    """Each event that it was sent, and all bytes that came."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        sentry = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                sentry.take(body)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *args: object) -> None:
                """It is quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )

    def take(self, body: bytes) -> None:
        self.bodies.append(body)
        _, *items = body.split(b"\n")
        for head, content in zip(items[::2], items[1::2], strict=False):
            if head and json.loads(head)["type"] == "event":
                self.events.append(json.loads(content))

    @property
    def dsn(self) -> str:
        return f"http://public@127.0.0.1:{self._server.server_address[1]}/1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
