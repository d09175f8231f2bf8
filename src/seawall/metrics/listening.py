"""Where a worker tells its store's metrics: one small server that answers `GET /metrics`.

It serves one scrape at a time, on a thread of its own, and asks nobody for a token: so it listens
on loopback unless somebody says otherwise.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer

from seawall.errors import ConfigurationError, SeawallError
from seawall.metrics.telling import Metrics

LOOPBACK = "127.0.0.1"
PATH = "/metrics"
PATIENCE_SECONDS = 5.0
"""For how long a silent client is waited for."""
_PLAIN = "text/plain; charset=utf-8"


@contextmanager
def listening(metrics: Metrics, port: int, host: str = LOOPBACK) -> Iterator[None]:
    """Answer scrapes there; `ConfigurationError`, in a line, where nothing can listen."""
    try:
        server = _Server(metrics, host, port)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ConfigurationError(
            f"{host}:{port}: {why}; choose another --metrics-port or --metrics-host"
        ) from None
    thread = threading.Thread(
        target=server.serve_forever, args=(0.2,), name="seawall-metrics", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(HTTPServer):
    """A server that knows what to tell."""

    def __init__(self, metrics: Metrics, host: str, port: int) -> None:
        self.metrics = metrics
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        super().__init__((host, port), _Scrape)

    def server_bind(self) -> None:
        # Not HTTPServer's: it would ask a name server who we are.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "seawall", self.server_address[1]

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is nothing to tell."""


class _Scrape(BaseHTTPRequestHandler):
    """One request."""

    timeout = PATIENCE_SECONDS
    server: _Server

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != PATH:
            self._answer(HTTPStatus.NOT_FOUND, f"metrics are at {PATH}\n".encode(), _PLAIN)
            return
        try:
            told = self.server.metrics.told(self.headers.get("accept", ""))
        except SeawallError:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, b"the store does not answer\n", _PLAIN)
            return
        self._answer(HTTPStatus.OK, *told)

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        return "seawall"

    def log_message(self, *_: object) -> None:
        """Scrapes are no news."""
