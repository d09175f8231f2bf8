"""Upstreams on loopback that fail in one definite way.

`Upstreams` starts them and, when it is closed, ends them all. Each is a URL:

    answering(Answer(429, {...}))   speaks HTTP and always gives this answer
    refusing()                      nobody listens there
    hanging_up()                    closes the connection before it answers
    resetting()                     resets the connection before it answers
    cutting_off()                   promises a body and closes half-way through it
    stalling()                      accepts, reads, and never answers
    stalling_in_the_handshake()     accepts, and never says hello in TLS
    stalling_in_the_body()          answers with half a body, then never goes on
    deaf()                          accepts and never reads a byte
    distrusted()                    speaks TLS with a certificate that nobody signed
"""

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

HOST = "127.0.0.1"
PATIENCE_SECONDS = 30
HALF_A_BODY = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nhalf"

Talk = Callable[[socket.socket], None]


@dataclass(frozen=True)
class Answer:
    """One HTTP answer: a body that is a mapping or a list is sent as JSON."""

    status: int = 200
    body: object = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        text = self.body if isinstance(self.body, str) else json.dumps(self.body)
        return text.encode()

    @property
    def fields(self) -> dict[str, str]:
        is_json = isinstance(self.body, dict | list)
        return {
            "Content-Type": "application/json" if is_json else "text/plain",
            "Content-Length": str(len(self.content)),
            "Connection": "close",
            **self.headers,
        }


def events(*messages: object, name: str | None = None) -> Answer:
    """A stream of server-sent events with status 200, as an LLM streams its tokens."""
    prefix = "" if name is None else f"event: {name}\n"
    text = "".join(f"{prefix}data: {json.dumps(message)}\n\n" for message in messages)
    return Answer(200, text, {"Content-Type": "text/event-stream"})


class Upstreams:
    """Starts upstreams and ends them all."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._ending = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._stack.close()

    def answering(self, answer: Answer) -> str:
        server = ThreadingHTTPServer((HOST, 0), _handler(answer))
        self._stack.callback(server.server_close)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(server.shutdown)
        return f"http://{HOST}:{server.server_port}"

    def refusing(self) -> str:
        with socket.create_server((HOST, 0)) as server:
            return f"http://{HOST}:{server.getsockname()[1]}"

    def hanging_up(self) -> str:
        return self._talking(_read_request)

    def resetting(self) -> str:
        return self._talking(_reset)

    def cutting_off(self) -> str:
        return self._talking(lambda connection: _say(connection, HALF_A_BODY))

    def stalling(self) -> str:
        def talk(connection: socket.socket) -> None:
            _read_request(connection)
            self._stall(connection)

        return self._talking(talk)

    def deaf(self) -> str:
        return self._talking(self._stall)

    def stalling_in_the_handshake(self) -> str:
        return self.deaf().replace("http://", "https://")

    def stalling_in_the_body(self) -> str:
        def talk(connection: socket.socket) -> None:
            _say(connection, HALF_A_BODY)
            self._stall(connection)

        return self._talking(talk)

    def distrusted(self, folder: Path) -> str:
        pem = folder / "self-signed.pem"
        pem.write_bytes(_self_signed())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)

        def talk(connection: socket.socket) -> None:
            with suppress(OSError), context.wrap_socket(connection, server_side=True) as secure:
                secure.recv(1)

        return self._talking(talk).replace("http://", "https://")

    def _stall(self, _: socket.socket) -> None:
        self._ending.wait(PATIENCE_SECONDS)

    def _talking(self, talk: Talk) -> str:
        """Listen, and let `talk` have each connection in a thread of its own."""
        server = socket.create_server((HOST, 0))
        talks: list[threading.Thread] = []

        def one(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                talk(connection)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    thread = threading.Thread(target=one, args=(server.accept()[0],))
                    talks.append(thread)
                    thread.start()

        def end() -> None:
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            server.close()
            for thread in [listener, *talks]:
                thread.join()

        listener = threading.Thread(target=accept)
        listener.start()
        self._stack.callback(end)
        return f"http://{HOST}:{server.getsockname()[1]}"


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = PATIENCE_SECONDS

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response_only(answer.status)
            for name, value in answer.fields.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.content)

        do_GET = do_HEAD = do_POST = do_PUT = _answer  # noqa: N815 - http.server asks for these names

        def log_message(self, *_: object) -> None:
            """The tests speak for themselves."""

    return Handler


def _read_request(connection: socket.socket) -> None:
    """Read the head of the request, so that a close afterwards is no reset."""
    read = b""
    while b"\r\n\r\n" not in read and (more := connection.recv(65_536)):
        read += more


def _say(connection: socket.socket, words: bytes) -> None:
    _read_request(connection)
    connection.sendall(words)


def _reset(connection: socket.socket) -> None:
    _read_request(connection)
    # A close that lingers for zero seconds is sent as a reset.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@cache
def _self_signed() -> bytes:
    """A key and the certificate that it signed for itself, in one PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(HOST))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(pem)
