"""Those who send or read too slowly, on a server that really listens."""

import socket
import threading
from urllib.parse import urlsplit

import pytest

from seawall.web import wire
from tests.web.served import PATIENCE_SECONDS, served

WHOLE = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
BEGUN = b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-slow: "


@pytest.fixture
def server():
    with served("sqlite://") as up:
        yield up


@pytest.fixture
def connect(server):
    made = []

    def connected():
        where = urlsplit(server.address)
        made.append(socket.create_connection((where.hostname, where.port), PATIENCE_SECONDS))
        return made[-1]

    yield connected
    for each in made:
        each.close()


def is_cut(connection):
    """Whether the other side ends it, sooner or later."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("sent", [b"", BEGUN], ids=["nothing", "half a head"])
def test_who_does_not_send_the_head_of_a_request_is_cut_off(connect, monkeypatch, sent):
    monkeypatch.setattr(wire, "HEAD_SECONDS", 0.2)
    connection = connect()
    connection.sendall(sent)

    assert is_cut(connection)


def test_the_next_request_on_a_connection_is_bounded_too(connect, monkeypatch):
    monkeypatch.setattr(wire, "HEAD_SECONDS", 0.2)
    connection = connect()
    connection.sendall(WHOLE)
    assert connection.recv(12) == b"HTTP/1.1 200"
    connection.sendall(BEGUN)

    assert is_cut(connection)


def test_a_head_that_does_not_end_is_cut_off(connect):
    connection = connect()
    connection.sendall(BEGUN)
    with pytest.raises(ConnectionError):
        connection.sendall(b"x" * 100_000_000)


def test_who_does_not_read_is_cut_off(server, connect, monkeypatch):
    monkeypatch.setattr(wire, "READ_SECONDS", 0.2)
    ended = threading.Event()
    lost = wire.Wire.connection_lost

    def seen(self, exc):
        lost(self, exc)
        ended.set()

    monkeypatch.setattr(wire.Wire, "connection_lost", seen)
    connection = connect()
    connection.sendall(WHOLE.replace(b"/health", b"/api/openapi.json") * 400)

    assert ended.wait(PATIENCE_SECONDS)


def test_a_body_may_be_longer_and_take_longer_than_a_head(server, connect, monkeypatch):
    monkeypatch.setattr(wire, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(wire, "HEAD_BYTES", 1_000)
    connection = connect()
    body = b'{"task":"add","arguments":{"a":1}' + b" " * 100_000 + b"}"
    connection.sendall(
        b"POST /api/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"authorization: Bearer %s\r\ncontent-length: %d\r\n\r\n"
        % (server.words["owner"].encode(), len(body))
    )
    for begin in range(0, len(body), 20_000):
        threading.Event().wait(0.1)
        connection.sendall(body[begin : begin + 20_000])

    assert connection.recv(12) == b"HTTP/1.1 201"
