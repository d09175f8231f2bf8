"""A receiver of webhooks: a real server on loopback, which checks what it gets."""

import json
import socket
import ssl
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from standardwebhooks import Webhook

from tests.life.world import eventually
from tests.support.processes import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable


class Got(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes
    status: int
    """What it was answered."""

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def content(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def event(self) -> tuple[str, int]:
        return self.content["type"], self.content["data"].get("job", 0)

    def verified(self, secret: str) -> dict[str, Any]:
        """As the library of the standard sees it; it raises where the signature is wrong."""
        return Webhook(secret).verify(self.body, self.headers)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """Whoever breaks off in the midst of it is not this test's affair."""


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


class Receiver:
    """Takes what comes; `answer` says what it says to it."""

    def __init__(self, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        (self.port,) = free_ports(1)
        self.host = host
        self.got: list[Got] = []
        self.answer: Callable[[Got], tuple[int, dict[str, str]]] = lambda _: (204, {})
        self._tls = tls
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://{self.host}:{self.port}/hooks"

    def up(self) -> Self:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Got(self.path, headers, body, 0)
                status, said = receiver.answer(asked)
                self.send_response(status)
                for name, value in said.items():
                    self.send_header(name, value)
                self.end_headers()
                receiver.got.append(asked._replace(status=status))

            def log_message(self, *_: object) -> None:
                """Not on the terminal."""

        kind = type("_Server", (_Server,), {"address_family": _family(self.host)})
        self._server = kind((self.host, self.port), Handler)
        if self._tls is not None:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def down(self) -> None:
        """Nobody listens there any more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def taken(self) -> Counter[tuple[str, int]]:
        """How often each event was taken."""
        return Counter(got.event for got in list(self.got) if got.status < 300)

    def await_(self, *events: tuple[str, int], seconds: float = 40.0) -> list[Got]:
        """Wait until each of these was taken; everything that came."""
        eventually(lambda: set(events) <= set(self.taken()), seconds)
        return list(self.got)

    def await_any(self, many: int = 1) -> list[Got]:
        """Wait until so many requests have come."""
        return eventually(lambda: len(self.got) >= many and list(self.got))
