"""Live events: heard by who may hear them, on both stores, and none is lost by coming back."""

import json
import socket
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from seawall import access
from seawall.errors import StoreError
from seawall.model import Lane
from seawall.store import NewJob
from seawall.web import tail
from seawall.web.routes import live
from tests.support.doors import until
from tests.web.served import served


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(f"sqlite:///{tmp_path_factory.mktemp('live')}/jobs.db") as made:
        yield made


def place(server):
    host, port = server.address.removeprefix("http://").split(":")
    return host, int(port)


class Ear:
    """Somebody who listens, in a thread."""

    def __init__(self, server, role, last=None):
        self.heard, self.beats, self.ended, self.head = [], 0, False, ""
        self._ready = threading.Event()
        self._socket = socket.create_connection(place(server))
        asked = [f"Authorization: Bearer {server.words[role]}", "Host: x"]
        asked += [] if last is None else [f"Last-Event-ID: {last}"]
        self._socket.sendall("\r\n".join(["GET /api/events HTTP/1.0", *asked, "", ""]).encode())
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        assert self._ready.wait(60)

    def _listen(self):
        told = {}
        with self._socket.makefile("r", encoding="utf-8", newline="") as lines:
            for line in map(str.rstrip, lines):
                if not self._ready.is_set():
                    self.head += line.lower() + "\n"
                    if line.startswith(":"):
                        self._ready.set()
                elif not line:
                    if "data" in told:
                        self.heard.append(told)
                    told = {}
                elif line.startswith(":"):
                    self.beats += 1
                else:
                    name, _, value = line.partition(": ")
                    told[name] = json.loads(value) if name == "data" else value
        self.ended = True

    def events(self, *jobs):
        return [
            (each["data"]["event"], each["data"]["job"])
            for each in list(self.heard)
            if not jobs or each["data"].get("job") in jobs
        ]

    def close(self):
        with suppress(OSError):  # the other side may be gone
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()


@contextmanager
def ear(server, role="operator", last=None):
    made = Ear(server, role, last)
    try:
        yield made
    finally:
        made.close()


def ask(server, owner, **fields):
    new = NewJob(lane=Lane(task="add"), arguments='{"a":1}', owner=owner, **fields)
    return server.app.store.enqueue([new])[0].job_id


def settled(server):
    """Let the first look be over: what was there before is not news."""
    time.sleep(1.5 * tail.LOOK_SECONDS)


def test_each_hears_of_what_he_sees_and_of_nothing_else(server):
    with ear(server, "owner") as ann, ear(server, "other") as bob, ear(server) as all_:
        settled(server)
        hers, his, nobodys = (ask(server, owner) for owner in ("ann", "bob", None))
        server.app.store.cancel([hers])
        jobs = (hers, his, nobodys)
        until(lambda: len(all_.events(*jobs)) >= 4, "all four")
        until(lambda: len(ann.events(*jobs)) >= 2, "hers")
        until(lambda: bob.events(*jobs), "his")

        assert sorted(all_.events(*jobs)) == sorted(
            [("queued", hers), ("cancelled", hers), ("queued", his), ("queued", nobodys)]
        )
        assert sorted(ann.events()) == [("cancelled", hers), ("queued", hers)]
        assert bob.events() == [("queued", his)]
        assert "content-type: text/event-stream" in ann.head
        assert ann.head.startswith("http/1.1 200")


def test_who_comes_back_is_told_what_he_missed(server):
    with ear(server, "owner") as ann:
        settled(server)
        first = ask(server, "ann")
        until(lambda: ann.events(first), "the first")
        last = next(each["id"] for each in ann.heard if each["data"]["job"] == first)
    missed, others = ask(server, "ann"), ask(server, "bob")

    with ear(server, "owner", last) as again:
        until(lambda: again.events(missed), "what was missed")
        settled(server)

        assert again.events(missed) == [("queued", missed)]
        assert again.events(others) == []


def test_an_id_that_is_none_is_refused(server):
    with server.client() as client:
        answer = client.get("/api/events", headers={"last-event-id": "yesterday"})
    assert answer.status_code == 422


def test_a_silent_stream_beats_and_ends_when_its_token_does(server, monkeypatch):
    monkeypatch.setattr(live, "BEAT_SECONDS", 0.2)
    word, kept = access.made(server.app.store, scope="read-only")
    server.words["leaver"] = word
    with ear(server, "leaver") as made:
        until(lambda: made.beats >= 3, "beats")
        server.app.store.revoke_access(kept.id)
        until(lambda: made.ended, "its end")


def test_a_stream_outlives_a_store_that_does_not_answer(server, monkeypatch):
    """What it cannot ask about its token it asks again at the next beat, and hears on afterwards."""
    asked = []

    async def away(*_, **__):
        asked.append(True)
        raise StoreError("the store is away")

    monkeypatch.setattr(live, "BEAT_SECONDS", 0.2)
    believed = server.server._house.believed
    with ear(server) as made:
        with monkeypatch.context() as outage:
            outage.setattr(believed, "fresh", lambda name: None)
            outage.setattr(believed, "look", away)
            until(lambda: len(asked) >= 3, "beats without the store")
            assert not made.ended
        job = ask(server, "ann")
        until(lambda: made.events(job), "what happens afterwards")
        assert not made.ended


def test_a_slow_listener_is_dropped_and_the_others_hear_on(server, monkeypatch):
    monkeypatch.setattr(live, "SEND_SECONDS", 0.5)
    with socket.create_connection(place(server)) as deaf, ear(server) as made:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_024)
        asked = f"Host: x\r\nAuthorization: Bearer {server.words['operator']}"
        deaf.sendall(f"GET /api/events HTTP/1.1\r\n{asked}\r\n\r\n".encode())
        listeners = server.server._house.tail._listeners
        until(lambda: len(listeners) >= 2, "both")
        settled(server)
        deadline = time.monotonic() + 60
        rounds = 0
        while len(listeners) >= 2 and time.monotonic() < deadline:
            # More than its buffers hold, by and by.
            told = [
                tail.Told(("x", rounds * 200 + n, 0, 0), None, b": " + b"x" * 4_000 + b"\n\n")
                for n in range(200)
            ]
            server.server._house.tail._loop.call_soon_threadsafe(
                server.server._house.tail._deliver, told
            )
            rounds += 1
            time.sleep(0.2)

        assert len(listeners) < 2, "the slow one is still there"
        job = ask(server, None)
        until(lambda: made.events(job), "the other hears")


def test_only_so_many_may_listen(server, monkeypatch):
    monkeypatch.setattr(server.server._house.tail, "_most", 0)
    with server.client() as client:
        answer = client.get("/api/events")
    assert answer.status_code == 503
    assert answer.headers["retry-after"]


def test_one_token_does_not_take_the_places_of_all(server, monkeypatch):
    monkeypatch.setattr(tail, "MOST_OF_ONE", 1)
    with (
        server.client("owner") as ann,
        server.client("other") as bob,
        ann.stream("GET", "/api/events") as first,
        bob.stream("GET", "/api/events") as other,
    ):
        assert (first.status_code, other.status_code) == (200, 200)
        assert ann.get("/api/events").status_code == 429


def test_nobody_looks_while_nobody_listens(server, monkeypatch):
    until(lambda: not server.server._house.tail._listeners, "nobody listens")
    settled(server)
    looks = []
    monkeypatch.setattr(
        server.server._house.store, "changes", lambda *a, **k: looks.append(a), raising=False
    )
    settled(server)
    assert looks == []


def test_more_than_can_be_told_is_said_to_be_missed(server, monkeypatch):
    monkeypatch.setattr(tail, "MOST_OF_A_KIND", 5)
    with ear(server) as made:
        settled(server)
        server.app.store.enqueue(
            [NewJob(lane=Lane(task="add"), arguments='{"a":1}') for _ in range(20)]
        )
        until(lambda: any(each["event"] == "missed" for each in made.heard), "missed")


@pytest.mark.parametrize("version", ["16", "18"])
def test_on_postgresql_two_servers_tell_the_same(postgres_fleet, version):
    url = postgres_fleet.server(version).new_url()
    with served(url) as one, served(url) as other:
        other.words = one.words
        with ear(one, "owner") as here, ear(other, "owner") as there:
            settled(one)
            with one.client("owner") as client:
                asked = client.post("/api/jobs", json={"task": "add", "arguments": {"a": 1}})
            job = asked.json()["job"]
            until(lambda: here.events(job) and there.events(job), "both")
            assert here.events(job) == there.events(job) == [("queued", job)]
        with other.client("owner") as client:
            assert client.get(f"/api/jobs/{job}").json()["owner"] == "ann"
