"""The process of an isolated handler, started by `isolated`.

It reads calls from its standard input and answers on its standard output; a handler that prints
does so on standard error. Signals are the worker's affair: it ends this process by killing it, and
when the worker is gone, which closes standard input, the process kills itself and all that it has
started.
"""

import os
import pickle
import signal
import sys
import threading
import time
from contextlib import suppress
from importlib import import_module
from multiprocessing.spawn import prepare
from queue import SimpleQueue
from typing import Any, BinaryIO

from seawall.current import CurrentJob, Said, importing, made_current
from seawall.errors import ConfigurationError, Skip, Snooze
from seawall.evidence import raw_output_of, traceback_of
from seawall.execute import TooLateError, fault_of
from seawall.faults import Fault, FaultCode
from seawall.flow import arguments, result
from seawall.tasks import Task
from seawall.telemetry.otlp import exporting, flush, flush_soon
from seawall.telemetry.tracing import Entered, within
from seawall.worker.isolated import BEGAN, Answer, Call

_MAIN = ("init_main_from_name", "init_main_from_path")
"""Which module the worker's program is; imported only where the task stands there."""


class _Worker:
    """The other end: where calls come from and answers go to."""

    def __init__(self, calls: BinaryIO, answers: BinaryIO) -> None:
        self._calls = calls
        self._answers = answers
        self._one_at_a_time = threading.Lock()
        self.inbox: SimpleQueue[Any] = SimpleQueue()
        self.is_busy = False

    def tell(self, value: object) -> None:
        told = pickle.dumps(value)  # whole, or not at all
        try:
            with self._one_at_a_time:
                self._answers.write(told)
                self._answers.flush()
        except OSError:
            _end()

    def listen(self) -> None:
        """Take in calls until the worker is gone; then end, whatever a handler is at."""
        with suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                self.inbox.put(pickle.load(self._calls))  # noqa: S301 - our own worker's
        if not self.is_busy:  # what was done here is to be seen
            flush()
        _end()


def main() -> None:
    """Serve one call after the other."""
    # A function, not SIG_IGN: programs that the handler starts would inherit that.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a file descriptor is wanted
        os.dup2(nothing.fileno(), 0)
    worker = _Worker(calls, answers)
    threading.Thread(target=worker.listen, daemon=True).start()
    surroundings = worker.inbox.get()
    main_module = {key: surroundings.pop(key) for key in _MAIN if key in surroundings}
    prepare(surroundings)
    while True:
        call = worker.inbox.get()
        worker.is_busy = True
        answer = _answered(call, worker, main_module)
        worker.is_busy = False
        try:
            worker.tell(answer)
            flush_soon()
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            line = f"what it came to cannot leave its process: {error}"
            worker.tell(Answer(Said(), fault=Fault(FaultCode.INTERNAL_ERROR, line)))


def _end() -> None:
    with suppress(OSError, AttributeError):
        os.killpg(os.getpgid(0), signal.SIGKILL)
    os._exit(1)


def _answered(call: Call, worker: _Worker, main_module: dict[str, Any]) -> Answer:
    current = call.current

    def tell(job: CurrentJob) -> None:
        worker.tell(job.said.progress)

    current._on_progress = tell  # noqa: SLF001 - the other side of the same thing
    try:
        with importing():
            task = _found(call.module, call.task, main_module).at(call.stage)
    except Exception as error:  # noqa: BLE001 - a module may raise anything
        fault = Fault(FaultCode.CONFIG_MISSING, f"{call.module} cannot be imported: {error}")
        return Answer(current.said, fault=fault, shown=traceback_of(error))
    try:
        args, kwargs = arguments(task, call.arguments, call.before)
        if time.monotonic() > call.use_by:  # the same clock as the worker's
            return Answer(current.said, ended_by=TooLateError())
        traced = _traced(call)
        worker.tell(BEGAN)  # what it costs to get here is not the handler's time
        _limit_memory(call.memory_mib)
        with made_current(current, traced):
            value = _value(task, args, kwargs)
        if isinstance(value, BaseException):
            raise value  # noqa: TRY301 - returned or raised, it is the same news
        return Answer(_looked_at(task, current), output=result(task, value).text)
    except (Skip, Snooze) as end:
        return Answer(_looked_at(task, current), ended_by=end)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the attempt's end
        _limit_memory(None)
        fault = fault_of(task.app, error, task.app.clock.now())
        shown, raw_output = traceback_of(error), raw_output_of(error)
        raw_output = task.app.hooks.kept(raw_output, current.id)
        said = _looked_at(task, current)
        return Answer(said, fault=fault, shown=shown, raw_output=raw_output)
    finally:
        _limit_memory(None)
        current._on_progress = None  # noqa: SLF001 - it does not travel


def _traced(call: Call) -> Entered | None:
    """The worker's span, to run in; its spans leave this process as they leave the worker."""
    if call.trace is None:
        return None
    exporting()
    return within(call.trace)


def _looked_at(task: Task[..., Any, Any], current: CurrentJob) -> Said:
    """What it said; what must not be kept of its raw output does not leave this process."""
    current.said.raw_output = task.app.hooks.kept(current.said.raw_output, current.id)
    current.said.looked_at = True
    return current.said


def _value(task: Task[..., Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    value = task.function(*args, **kwargs)
    if not task.is_async:
        return value
    import asyncio  # noqa: PLC0415 - only where it is needed

    return asyncio.run(value)


def _found(module: str, name: str, main_module: dict[str, Any]) -> Task[..., Any, Any]:
    if module == "__main__":  # the worker's own program: here it stands under another name
        if "__mp_main__" not in sys.modules:
            prepare(main_module)
        found = sys.modules["__mp_main__"]
    else:
        found = import_module(module)
    for value in vars(found).values():
        if isinstance(value, Task) and value.name == name:
            return value
    raise ConfigurationError(f"task {name}: an isolated task must stand in its module {module}")


def _limit_memory(mib: int | None) -> None:
    """The most memory that this process may have from now on; None is as much as it likes."""
    try:
        import resource  # noqa: PLC0415 - not everywhere
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = hard if mib is None else mib * 1024 * 1024
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
