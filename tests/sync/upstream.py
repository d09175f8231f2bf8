"""A real HTTP upstream on loopback that answers by a list, and remembers who called."""

import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self


class Said(NamedTuple):
    """What it answers to one call."""

    status: int = 200
    headers: Mapping[str, str] = {}
    body: str = '{"answer": "short"}'
    seconds: float = 0.0
    """How long it takes over it."""


class Upstream:
    """Answers the calls one after the other as told, then well."""

    def __init__(self, *says: Said | int) -> None:
        self.says = [each if isinstance(each, Said) else Said(each) for each in says]
        self.calls: list[Mapping[str, str]] = []
        """The headers of every call, in the order in which they came."""
        self.times: list[float] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1/ask"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _next(self, headers: Mapping[str, str]) -> Said:
        with self._lock:
            self.calls.append(headers)
            self.times.append(time.monotonic())
            return self.says.pop(0) if self.says else Said()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                said = upstream._next({k.lower(): v for k, v in self.headers.items()})
                time.sleep(said.seconds)
                body = said.body.encode()
                try:
                    self.send_response(said.status)
                    for name, value in {"x-request-id": "up-1", **said.headers}.items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    return  # whoever called is gone

            def log_message(self, *_: object) -> None:
                """Nothing."""

        return Handler


def as_json(**table: object) -> str:
    return json.dumps(table)
