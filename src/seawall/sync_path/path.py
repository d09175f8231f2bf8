"""One process's synchronous path: its name, its turns at upstreams, and the two faces.

Everything is one coroutine, `Call.answered`. The async face runs it on the loop that awaits it, the
other one on a loop in a thread; whoever stops waiting only tells it so, and it hands the job over.
"""

import asyncio
import os
import secrets
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from seawall.answers import Answered
from seawall.app import Seawall
from seawall.calls import Ticket
from seawall.current import maybe_current_job
from seawall.errors import ArgumentsError, SeawallError
from seawall.model import INLINE_WORKER, Lane, Token
from seawall.store import Claim, Scope, Store, Wanted
from seawall.sync_path.call import LEASE_MARGIN_SECONDS, Call
from seawall.sync_path.ends import Ends
from seawall.sync_path.handlers import Handlers
from seawall.sync_path.turn import NoTurn, Turn
from seawall.tasks import Request
from seawall.worker.governor import Governor
from seawall.worker.threads import Daemons

if TYPE_CHECKING:
    from concurrent.futures import Future

    from seawall.queue import Queue

R = TypeVar("R")
T = TypeVar("T")

TURN_SECONDS = 0.2
"""For how long a caller waits for a turn at an upstream before it leaves the job to the workers."""
MOST_ASKS = 64
"""How many calls of one process ask the store at the same time."""
_HANDING_OVER_SECONDS = 3.0
_CLOSING_SECONDS = 5.0


class SyncPath:
    """How the calls of one application in one process are made."""

    def __init__(self, app: Seawall, queue: "Queue", store: Store) -> None:
        self.app = app
        self.queue = queue
        self.store = store
        self.seconds = app.settings.inline_seconds
        host = socket.gethostname()[:60]
        self.id = f"{INLINE_WORKER}{host}-{os.getpid()}-{secrets.token_hex(4)}"
        self.handlers = Handlers()
        self.governor = Governor(
            app,
            store,
            Wanted(self.id, None, (), 1, self.seconds + LEASE_MARGIN_SECONDS),
            slots=app.settings.concurrency,
            hands=_NoHands(),
            poke=lambda: None,
        )
        self.ends = Ends(app, store, self.governor)
        self._pid = os.getpid()
        self._asks = Daemons(MOST_ASKS)
        self._loop: _Loop | None = None
        self._starting = threading.Lock()
        self._under_way: set[asyncio.Future[Any]] = set()

    def leads_to(self, store: Store) -> bool:
        """Whether it is of this process, and leads to this store."""
        return self.store is store and self._pid == os.getpid()

    def close(self) -> None:
        """Have what is called in other threads handed over, and let go of threads and processes."""
        if self._pid == os.getpid():
            with self._starting:
                loop = self._loop
            if loop is not None:
                loop.close()
            self.handlers.close()
            self._asks.close()

    # --- the faces ----------------------------------------------------------------------------

    def call(self, request: Request[R]) -> Answered[R]:
        """The answer, in this thread's own time."""
        self._need_callable(request)
        if _is_on_a_loop():
            raise SeawallError(
                f"{request.task.name}: call_or_enqueue would block the event loop that runs here:"
                f" use `await {request.task.name}.acall_or_enqueue(…)`"
            )
        call = Call(self, request)
        loop = self._started()
        future = loop.begin(call)
        try:
            return future.result()
        except BaseException:
            if not future.done():  # it was raised here, while it waited
                loop.call(call.stop)
                with suppress(BaseException):
                    future.result(LEASE_MARGIN_SECONDS)
            raise

    async def acall(self, request: Request[R]) -> Answered[R]:
        """The answer, on the loop that awaits it."""
        self._need_callable(request)
        call = Call(self, request)
        inner = asyncio.ensure_future(call.answered())
        self._under_way.add(inner)
        inner.add_done_callback(self._is_over)
        try:
            return await asyncio.shield(inner)
        except asyncio.CancelledError:
            call.stop()
            await asyncio.wait({inner}, timeout=LEASE_MARGIN_SECONDS)
            raise

    def _is_over(self, inner: "asyncio.Future[Any]") -> None:
        self._under_way.discard(inner)
        if not inner.cancelled():
            inner.exception()  # whoever waited has it, or nobody waits any more

    def _started(self) -> "_Loop":
        with self._starting:
            if self._loop is None:
                self._loop = _Loop()
            return self._loop

    def _need_callable(self, request: Request[Any]) -> None:
        """An error, in one line, unless the job can be run now."""
        name, options = request.task.name, request.options
        if maybe_current_job() is not None:
            raise SeawallError(
                f"{name}: call_or_enqueue is not for the code of a task: call the function itself,"
                " or enqueue it"
            )
        if options.connection is not None or self.app.in_transaction:
            raise ArgumentsError(
                f"{name}: a call now cannot be part of your transaction: enqueue it, or call it"
                " after the commit"
            )
        if options.run_after is not None:
            raise ArgumentsError(f"{name}: run_after: a call now cannot wait: enqueue it")
        seconds = options.inline_seconds
        if seconds is not None and not 0 < seconds <= self.seconds:
            raise ArgumentsError(
                f"{name}: inline_seconds: found {seconds!r:.80}, expected more than 0 and at most"
                f" {self.seconds:g}, the application's own inline_seconds"
            )

    def asked(self, function: Callable[..., T], *args: Any) -> "Future[T]":
        """What the function will answer in a thread, where it may wait for the store."""
        return self._asks.submit(copy_context().run, function, *args)

    # --- turns at upstreams -------------------------------------------------------------------

    def turn(self, lane: Lane, retry: bool = False) -> Turn | NoTurn:
        """The right to one call of this lane's, or why there is none now."""
        for hold in self.store.holds():
            if (hold.scope, hold.name) in _scopes(lane):
                return NoTurn(f"the {hold.scope} {hold.name} is paused")
        if not lane.upstream:
            return Turn(self.governor.inside)
        self.governor.watches.look()
        inside, waited = self.governor.inside, 0.0
        while True:
            found = inside.enter(lane.upstream, lane.owner, {}, own=False, retry=retry)
            if isinstance(found, Ticket):
                return Turn(inside, found)
            if waited + found > TURN_SECONDS:
                return NoTurn(f"{lane.upstream} takes no call at the moment", found)
            self.app.clock.sleep(found)
            waited += found


def _scopes(lane: Lane) -> set[tuple[Scope, str]]:
    return {
        (Scope.QUEUE, lane.queue),
        (Scope.TASK, lane.task),
        (Scope.UPSTREAM, lane.upstream),
    }


class _NoHands:
    """No job is claimed here: what is under way are calls."""

    def under_way(self, upstream: str) -> Mapping[str, int]:  # noqa: ARG002
        return {}

    def take(self, claims: Sequence[Claim], use_by: float) -> None:
        """Nothing is ever taken."""

    def has(self, token: Token) -> bool:  # noqa: ARG002
        return False


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Loop:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._calls: set[Call[Any]] = set()
        """What is under way there."""
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="seawall-calls", daemon=True)
        self._thread.start()

    def begin(self, call: Call[R]) -> "Future[Answered[R]]":
        """Run it there; in the context of this thread."""
        with self._closing:  # what comes before the end is answered, and nothing comes after it
            if self._closed:
                raise SeawallError("the application is being closed: nothing can be called now")
            return asyncio.run_coroutine_threadsafe(self._answered(call), self._loop)

    async def _answered(self, call: Call[R]) -> Answered[R]:
        self._calls.add(call)
        try:
            return await call.answered()
        finally:
            self._calls.discard(call)

    def call(self, function: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # it has ended, and so has whatever ran there
            self._loop.call_soon_threadsafe(function)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._ended())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _ended(self) -> None:
        """Have every call answered: handed over, or broken off where even that takes too long."""
        for call in self._calls:
            call.stop()
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        if under_way:
            _, late = await asyncio.wait(under_way, timeout=_HANDING_OVER_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def close(self) -> None:
        """Have what is under way handed over, and end."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSING_SECONDS)
