"""An upstream that is well, dead, slow, shaky or strict, as the test says: real HTTP on loopback.

    with Server() as server:
        service = server.service("/a")
        service.does = well(0.02)
        service.does = dead()

It is served by a thread of the test's own process, so that what it does changes at once and what
it saw can be read at once. Each path is a service of its own. A service answers as its behaviour
says, a function from the call to an `Answer`, and writes every call down: when it began and ended
by the machine's monotonic clock, who made it, how many were under way when it began, itself among
them. A call is over before its answer leaves, so the callers never have fewer under way than seen
here. Nothing of the project is used.
"""

import asyncio
import math
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, pairwise
from typing import NamedTuple, Self

CLOSED = 0
"""Instead of a status: the connection is closed and nothing is said."""
_LARGEST_HEAD = 65_536
_REASONS = {200: "OK", 401: "Unauthorized", 429: "Too Many Requests", 500: "Internal Server Error"}


class Answer(NamedTuple):
    status: int = 200
    seconds: float = 0.0
    """How long the call is under way before it."""
    retry_after: float | None = None


@dataclass(slots=True, eq=False)
class Call:
    """A call as the upstream saw it."""

    path: str
    job: int
    seq: int
    """Which attempt of the job makes it."""
    worker: int
    """The process that makes it."""
    tag: str
    sent: float
    """When its caller was about to make it, by the same clock."""
    begun: float
    beside: int
    """How many were under way when it began, with itself."""
    ended: float | None = None
    status: int | None = None
    """None while it is under way, and where its caller left before the answer."""

    @property
    def succeeded(self) -> bool:
        return self.status == 200

    @property
    def failed(self) -> bool:
        """Whether it is over, and was not answered well."""
        return self.ended is not None and not self.succeeded


Behaviour = Callable[[Call], Answer]


# --- behaviours -----------------------------------------------------------------------------------


def well(seconds: float = 0.0) -> Behaviour:
    return lambda _: Answer(200, seconds)


def dead() -> Behaviour:
    """As a service behind a gateway is: every other caller is cut off, the others are told 503."""
    said = iter(range(1_000_000))
    return lambda _: Answer(503 if next(said) % 2 else CLOSED)


def failing(status: int = 500, seconds: float = 0.0) -> Behaviour:
    return lambda _: Answer(status, seconds)


def silent(seconds: float = math.inf) -> Behaviour:
    """Answers, but later than anybody waits."""
    return well(seconds)


def shaky(share: float, seconds: float = 0.0, seed: int = 0) -> Behaviour:
    """This share of the calls fails: of any ten calls, as many as of any other ten, or one more.

    Were each call a throw of dice, a third that fails would now and then look like half.
    """
    owed = random.Random(seed).random()

    def does(_: Call) -> Answer:
        nonlocal owed
        owed += share
        if owed < 1:
            return Answer(200, seconds)
        owed -= 1
        return Answer(503, seconds)

    return does


def flapping(
    well_seconds: float,
    dead_seconds: float,
    seconds: float = 0.0,
    dead_does: Behaviour | None = None,
) -> Behaviour:
    """In turns, well at first, from the first call on."""
    began: float | None = None
    down = dead_does or dead()

    def does(call: Call) -> Answer:
        nonlocal began
        began = call.begun if began is None else began
        into = (call.begun - began) % (well_seconds + dead_seconds)
        return Answer(200, seconds) if into < well_seconds else down(call)

    return does


def throttling(retry_after: float) -> Behaviour:
    return lambda _: Answer(429, retry_after=retry_after)


def at_first(many: int, does: Behaviour, then: Behaviour) -> Behaviour:
    """So many calls are answered one way, all others the other, whoever looks on and how late."""
    numbers = count(1)

    def answers(call: Call) -> Answer:
        return does(call) if next(numbers) <= many else then(call)

    return answers


def unauthorized() -> Behaviour:
    return failing(401)


def poisoned(tag: str, seconds: float = 0.0) -> Behaviour:
    """Well, but for the calls of one tag."""
    return lambda call: Answer(500 if call.tag == tag else 200, seconds)


# --- what was seen --------------------------------------------------------------------------------


def most_at_once(calls: Iterable[Call]) -> int:
    return max((call.beside for call in calls), default=0)


def most_overlapping(calls: Iterable[Call]) -> int:
    """How many of these were under way together at most, whoever else was."""
    moments: list[tuple[float, int]] = []
    for call in calls:
        moments += [(call.begun, 1), (math.inf if call.ended is None else call.ended, -1)]
    most = now = 0
    for _, change in sorted(moments):
        now += change
        most = max(most, now)
    return most


def most_within(amounts: Iterable[tuple[float, float]], seconds: float) -> float:
    """The most in any span of so many seconds, of amounts that came at a time."""
    came = sorted(amounts)
    most = sum_ = 0.0
    first = 0
    for begun, amount in came:
        sum_ += amount
        while begun - came[first][0] >= seconds:
            sum_ -= came[first][1]
            first += 1
        most = max(most, sum_)
    return most


def longest_silence(times: Iterable[float]) -> float:
    """The longest span between one and the next."""
    spans = (after - before for before, after in pairwise(sorted(times)))
    return max(spans, default=0.0)


def of_jobs(calls: Iterable[Call]) -> Counter[int]:
    """How often each job called."""
    return Counter(call.job for call in calls)


def repeats(calls: Iterable[Call]) -> list[Call]:
    """Those whose job had called before."""
    seen: set[int] = set()
    again: list[Call] = []
    for call in sorted(calls, key=lambda call: call.begun):
        if call.job in seen:
            again.append(call)
        seen.add(call.job)
    return again


# --- the server -----------------------------------------------------------------------------------


class Service:
    """One path of the server."""

    def __init__(self, server: "Server", path: str) -> None:
        self.path = path
        self.url = f"{server.url}{path}"
        self.does: Behaviour = well()
        self._loop = server.loop
        self._calls: list[Call] = []
        self._under_way: dict[Call, Callable[[], None]] = {}

    def calls(self, since: float = -math.inf, until: float = math.inf) -> list[Call]:
        """Those that began in the period, in the order in which they did."""
        return [call for call in list(self._calls) if since <= call.begun < until]

    @property
    def count(self) -> int:
        return len(self._calls)

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def dies(self, does: Behaviour | None = None) -> float:
        """From now on, for the calls that are under way as well; when it did."""
        self.does = does or dead()
        died = time.monotonic()
        self._loop.call_soon_threadsafe(self._cut)
        return died

    def _cut(self) -> None:
        for close in list(self._under_way.values()):
            close()

    # On the server's thread.

    def begin(self, call: Call, close: Callable[[], None]) -> Answer:
        self._under_way[call] = close
        call.beside = len(self._under_way)
        self._calls.append(call)
        return self.does(call)

    def end(self, call: Call, status: int | None) -> None:
        if self._under_way.pop(call, None) is not None:
            call.status, call.ended = status, time.monotonic()


class _Connection(asyncio.Protocol):
    """One call after another."""

    def __init__(self, service_of: Callable[[str], Service]) -> None:
        self._service_of = service_of
        self._heard = b""
        self._call: tuple[Service, Call] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._heard += data
        head, end, rest = self._heard.partition(b"\r\n\r\n")
        if end and self._call is None:
            self._heard = rest
            self._begin(head.decode("latin-1"))
        elif len(self._heard) > _LARGEST_HEAD:
            self._transport.abort()

    def _begin(self, head: str) -> None:
        first, *lines = head.split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
        }
        service = self._service_of(first.split(" ")[1])
        call = Call(
            path=service.path,
            job=int(headers.get("x-job", 0)),
            seq=int(headers.get("x-seq", 0)),
            worker=int(headers.get("x-worker", 0)),
            tag=headers.get("x-tag", ""),
            sent=float(headers.get("x-sent", "nan")),
            begun=time.monotonic(),
            beside=0,
        )
        self._call = (service, call)
        answer = service.begin(call, self._close)
        if answer.seconds <= 0:
            self._answer(answer)
        elif answer.seconds < math.inf:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(answer.seconds, self._answer, answer)

    def _answer(self, answer: Answer) -> None:
        if answer.status == CLOSED:
            self._close()
            return
        body = f"{answer.status}\n"
        head = [
            f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'Trouble')}",
            "content-type: text/plain",
            f"content-length: {len(body)}",
        ]
        if answer.retry_after is not None:
            head.append(f"retry-after: {answer.retry_after:g}")
        self._over(answer.status)
        self._transport.write("\r\n".join([*head, "", body]).encode())

    def _close(self) -> None:
        self._over(CLOSED)
        self._transport.abort()

    def _over(self, status: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._call is not None:
            (service, call), self._call = self._call, None
            service.end(call, status)

    def connection_lost(self, exc: Exception | None) -> None:
        self._over(None)


class Server:
    """Services on one port of loopback, for as long as the block lasts."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.url = ""
        self._services: dict[str, Service] = {}
        self._thread = threading.Thread(target=self._run, name="upstream", daemon=True)

    def __enter__(self) -> Self:
        self._listening = self.loop.run_until_complete(
            self.loop.create_server(
                self._connected, "127.0.0.1", 0, backlog=1_000, reuse_address=True
            )
        )
        port = self._listening.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._connections: list[_Connection] = []
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self._listening.close()
        for connection in self._connections:
            with suppress(AttributeError):
                connection._transport.abort()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def service(self, path: str) -> Service:
        return self._services.setdefault(path, Service(self, path))

    def _connected(self) -> _Connection:
        self._connections.append(_Connection(self.service))
        return self._connections[-1]

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
