"""Threads that hold up nobody's exit: for handlers, which may hang, and what waits for them."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from seawall.redact import one_line
from seawall.telemetry import UpkeepFailed, emit

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """As many threads as are needed at once, up to a bound. They hold up nobody's exit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._calls: SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]] | None] = (
            SimpleQueue()
        )
        self._lock = threading.Lock()
        self._under_way = 0
        self._count = 0

    def run(self, function: Callable[..., object], *args: Any) -> None:
        with self._lock:
            self._under_way += 1
            if self._count < min(self._under_way, self._most):
                self._count += 1
                name = f"seawall-handler-{self._count}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
        self._calls.put((function, args))

    def _work(self) -> None:
        while (call := self._calls.get()) is not None or not self._is_spare():
            if call is None:
                continue
            function, args = call
            try:
                function(*args)
            except BaseException as error:  # noqa: BLE001 - a thread that ends would be missed
                emit(UpkeepFailed(chore="a handler's thread", message=one_line(f"{error!r}")))
            with self._lock:
                self._under_way -= 1
            del function, args, call  # what they hold must not outlive them

    def _is_spare(self) -> bool:
        """Whether this thread may end: not where the others are too few for what is under way."""
        with self._lock:
            spare = self._under_way < self._count
            self._count -= spare
            return spare

    def close(self) -> None:
        """Have every thread end that has nothing to do, the others when they have done it."""
        with self._lock:
            count = self._count
        for _ in range(count):
            self._calls.put(None)


class Daemons(ThreadPoolExecutor):
    """The same as an event loop wants them.

    The standard ones are joined when the interpreter ends, however long that takes.
    """

    def __init__(self, most: int) -> None:
        super().__init__(max_workers=1)  # which is never started
        self._threads_of_ours = Threads(most)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()
        self._threads_of_ours.run(_settled, future, fn, args, kwargs)
        return future

    def close(self) -> None:
        """Have the threads end, each when it has nothing more to do."""
        self._threads_of_ours.close()


def _settled(future: "Future[Any]", fn: Callable[..., Any], args: Any, kwargs: Any) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(fn(*args, **kwargs))
    except BaseException as error:  # noqa: BLE001 - it belongs to whoever awaits it
        future.set_exception(error)
