"""Stands between psycopg and PostgreSQL, counts the statements that pass, and strikes at the N-th.

It reads the protocol's frames and nothing of psycopg, so it sees what really travels: BEGIN and
COMMIT, what a pipeline holds back, and each part of a COPY. Counted are

    Q   a statement in the simple protocol          E   one in the extended protocol
    S   the Sync that follows it, which commits     d c the data of a COPY, and its end

A connection is cut on the server's side first, and on the client's side only when the server has
let go of it: when the client learns of it, nothing is under way any more.
"""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from enum import StrEnum
from typing import Self
from urllib.parse import urlsplit

_FAILS = b"DO $$ BEGIN RAISE EXCEPTION 'struck' USING ERRCODE = 'query_canceled'; END $$\0"


class Strike(StrEnum):
    ERROR = "error"
    """The server refuses the statement; the connection lives on."""
    CUT_BEFORE = "cut before"
    """The connection is cut, and the statement never arrives."""
    CUT_AFTER = "cut after"
    """The statement is carried out, and the connection cut before the answer arrives."""


HITS = {Strike.ERROR: "QEc", Strike.CUT_BEFORE: "QESdc", Strike.CUT_AFTER: "QS"}
"""Which kinds of messages each can strike."""


class Proxy:
    """Everything that connects to `url` reaches the server; `arm` sets the next strike."""

    def __init__(self, url: str) -> None:
        server = urlsplit(url)
        self._server = (server.hostname, server.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = f"postgresql://{server.username}@127.0.0.1:{port}{server.path}?sslmode=disable&gssencmode=disable"
        self._lock = threading.Lock()
        self.seen = ""
        """The kinds of the statements that passed since it was armed."""
        self._counts = False
        self._n = 0
        self._strike: Strike | None = None
        self._when_struck: Callable[[], None] = lambda: None
        self.over = threading.Event()
        """A connection was cut, and the server has let go of it."""
        self._pairs: list[_Pair] = []
        self._thread = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for pair in self._pairs:
            pair.close()

    def arm(
        self,
        n: int = 0,
        strike: Strike | None = None,
        when_struck: Callable[[], None] = lambda: None,
    ) -> None:
        """Count from 1 on, and strike at the N-th; without a number, only count."""
        with self._lock:
            self.over.clear()
            self.seen, self._counts, self._n = "", True, n
            self._strike, self._when_struck = strike, when_struck

    def disarm(self) -> None:
        with self._lock:
            self._counts = False

    def passing(self, kind: str) -> Strike | None:
        """A statement passes; what is to happen to it."""
        with self._lock:
            if not self._counts:
                return None
            self.seen += kind
            hit = len(self.seen) == self._n and self._strike and kind in HITS[self._strike]
            return self._strike if hit else None

    def struck(self) -> None:
        self._when_struck()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._server)
            except OSError:
                client.close()
            else:
                self._pairs.append(_Pair(self, client, server))


class _Pair:
    """One connection: a thread for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._drops = False
        self._owed = 1
        """How often the server has been made to say that it is ready; the first is its greeting."""
        self._cut_at: int | None = None
        """With which of these it is cut."""
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._threads = [
            threading.Thread(target=target, name="proxy pair", daemon=True)
            for target in (self._to_server, self._to_client)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        for each in (self._client, self._server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _to_server(self) -> None:
        """Forward what the client says, frame by frame, until it is silent or we cut."""
        in_statement = False
        with suppress(OSError):
            for kind, frame in _frames(self._client, starts_up=True):
                # A Sync counts where it ends a statement, not where it follows a mere Parse.
                counts = kind in b"QEdc" if kind != b"S" else in_statement
                in_statement = kind == b"E" or (in_statement and kind != b"S")
                strike = self._proxy.passing(kind.decode()) if kind and counts else None
                if strike is Strike.CUT_BEFORE:
                    self._drops = True
                    self._proxy.struck()
                    break
                self._owed += kind in (b"Q", b"S")
                if strike is Strike.CUT_AFTER:
                    self._cut_at = self._owed
                self._server.sendall(_spoiled(kind) if strike is Strike.ERROR else frame)
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_WR)

    def _to_client(self) -> None:
        """Forward what the server says; the client hears the end when the server has ended."""
        with closing(self._client), closing(self._server):
            with suppress(OSError):
                self._answer()
            if self._drops:
                self._proxy.over.set()
            with suppress(OSError):
                self._client.shutdown(socket.SHUT_RDWR)

    def _answer(self) -> None:
        ready = 0
        for kind, frame in _frames(self._server):
            ready += kind == b"Z"
            if self._cut_at is not None:
                self._drops = True
                if kind == b"G" or ready == self._cut_at:
                    self._cut_at = None
                    self._proxy.struck()
                    self._server.shutdown(socket.SHUT_WR)
            if not self._drops:
                self._client.sendall(frame)


def _spoiled(kind: bytes) -> bytes:
    """What fails in place of a statement of that kind; the client cannot tell the difference."""
    if kind == b"Q":
        return _frame(b"Q", _FAILS)
    if kind == b"c":
        return _frame(b"f", b"struck\0")
    nameless = b"\0"
    return (
        _frame(b"P", nameless + _FAILS + b"\0\0")
        + _frame(b"B", nameless + nameless + bytes(6))
        + _frame(b"E", nameless + bytes(4))
    )


def _frame(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _frames(source: socket.socket, *, starts_up: bool = False) -> Iterator[tuple[bytes, bytes]]:
    """Each message whole, with its kind; the one that a client starts with has none."""
    with source.makefile("rb") as stream:
        while True:
            kind = b"" if starts_up else stream.read(1)
            size = stream.read(4)
            if len(size) < 4:
                return
            body = stream.read(struct.unpack("!i", size)[0] - 4)
            yield kind, kind + size + body
            starts_up = False
