"""Stopping at SIGTERM and Ctrl-C, in whichever program the worker runs."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_DEFAULTS: dict[signal.Signals, Any] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at these signals instead of dying of them.

    A program's own handlers are left alone, and so is everything outside the main thread, where
    Python knows no handlers.
    """
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        found = {number: signal.getsignal(number) for number in _DEFAULTS}
        before = {number: each for number, each in found.items() if each == _DEFAULTS[number]}

    def heard(_number: int, _frame: Any) -> None:
        stop()

    for number in before:
        signal.signal(number, heard)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
