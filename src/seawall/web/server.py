"""Running the server: where it listens, who has to show a token, and how it stops.

It refuses what would leave jobs open to strangers: development mode on anything but loopback, and a
public address while no access token stands.
"""

import contextlib
import ipaddress
import socket
from collections.abc import Callable, Iterator

import uvicorn

from seawall.app import Seawall
from seawall.errors import ConfigurationError
from seawall.store import Store
from seawall.telemetry import ServerStarted, ServerStopped, ServerStopping, emit
from seawall.web import api
from seawall.web.guard import LOOPBACK_NAMES
from seawall.web.house import opened
from seawall.web.wire import Wire

BACKLOG = 2_048
MOST_GRACE_SECONDS = 30.0


class Server:
    """One server, from its start to its end."""

    def __init__(self, app: Seawall, *, open_to_anybody: bool = False) -> None:
        self._open = open_to_anybody
        settings = app.settings
        self.host, self.port = settings.host, settings.port
        need_authentication(app, settings.host, open_to_anybody=open_to_anybody)
        self.grace_seconds = min(settings.grace_seconds, MOST_GRACE_SECONDS)
        proxies = known_proxies(settings.trusted_proxies)
        self._house = opened(app, open_to_anybody=open_to_anybody)
        made = api.created(self._house)
        made.openapi()  # it takes its time: not while somebody waits
        self._uvicorn = _Quiet(
            uvicorn.Config(
                made,
                http=Wire,
                ws="none",
                log_config=None,
                log_level="critical",  # what there is to say, events of ours say
                access_log=False,
                server_header=False,
                proxy_headers=bool(proxies),
                forwarded_allow_ips=proxies,
                timeout_graceful_shutdown=max(1, round(self.grace_seconds)),
                lifespan="off",
            )
        )
        self._stops = 0

    def run(self, ready: Callable[[str], None] | None = None) -> None:
        """Listen until told to stop; `ready` is called with the address once it does."""
        try:
            with bound(self.host, self.port) as listening:
                host, port = listening.getsockname()[:2]
                self._uvicorn.when_started = lambda: self._started(host, port, ready)
                self._uvicorn.run([listening])
        finally:
            self._house.close()
        emit(ServerStopped())

    def _started(self, host: str, port: int, ready: Callable[[str], None] | None) -> None:
        emit(ServerStarted(host=host, port=port, auth="anybody" if self._open else "tokens"))
        if ready is not None:
            shown = f"[{host}]" if ":" in host else host
            ready(f"http://{shown}:{port}")

    def stop(self) -> None:
        """Take no more requests and let those under way finish; asked again, hurry."""
        self._stops += 1
        if self._stops > 1:
            self._uvicorn.force_exit = True
            return
        self._uvicorn.should_exit = True
        loop = self._uvicorn.loop
        if loop is not None:  # a signal may come in the midst of a log line: say it from there
            loop.call_soon_threadsafe(self._stopping)

    def _stopping(self) -> None:
        emit(ServerStopping(grace_seconds=self.grace_seconds))
        self._house.tail.end_all()


def need_authentication(app: Seawall, host: str, *, open_to_anybody: bool) -> None:
    """`ConfigurationError` where strangers could reach what nobody guards."""
    if is_loopback(host):
        return
    if open_to_anybody:
        raise ConfigurationError(
            f"--dev-no-auth lets anybody in, so it is for loopback only: found host {host!r:.80},"
            " expected 127.0.0.1"
        )
    if not any_access(app.store):
        raise ConfigurationError(
            f"host {host!r:.80} is a public address and no access token stands: make one first,"
            " with the same --app: seawall token create --scope operator"
        )


def known_proxies(text: str) -> list[str]:
    """The addresses and networks named; `ConfigurationError` where one is none."""
    proxies = [each.strip() for each in text.split(",") if each.strip()]
    for each in proxies:
        try:
            ipaddress.ip_network(each, strict=False)
        except ValueError:
            raise ConfigurationError(
                f"trusted_proxies: found {each!r:.80}, expected addresses or networks, such as"
                " 10.0.0.7, 10.1.0.0/16"
            ) from None
    return proxies


def any_access(store: Store) -> bool:
    """Whether there is an access token that stands."""
    after = ""
    while found := store.accesses(after=after):
        if any(each.stands for each in found):
            return True
        after = found[-1].id
    return False


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there; `ConfigurationError`, in a line, where it cannot."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ConfigurationError(f"host {host!r:.80}: {why}") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        why = (error.strerror or str(error)).lower()
        raise ConfigurationError(f"{host}:{port}: {why}; choose another --port or --host") from None
    listening.set_inheritable(True)
    return listening


class _Quiet(uvicorn.Server):
    """uvicorn's server, which leaves signals to whoever runs it, and says when it has started."""

    when_started: Callable[[], None] = staticmethod(lambda: None)
    loop = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        import asyncio  # noqa: PLC0415 - only where a server runs

        self.loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self.started:
            self.when_started()
