"""What an application wants to hear about its faults, and to hide of what was captured.

A hook is a function that is called with every fault as it is judged, in the thread or loop that ran
the handler: the way to an error tracker. It must be quick, and whatever it raises is logged and
forgotten: it never changes what becomes of the job.

What is judged may never be written: its lease may be lost, and another attempt succeed. A hook for
failed jobs is called once that a job has failed stands in the store, in a thread where it may wait.

A hook for captures sees raw output before it is kept, and answers what of it may be. Where one
breaks, nothing of that output is kept, and in its place it is said why.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from seawall.faults import Fault
from seawall.redact import one_line
from seawall.telemetry import HookFailed, emit


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultReport:
    """A failed attempt, as a hook hears of it."""

    job_id: int
    task: str
    attempt: int
    fault: Fault
    final: bool
    """Whether the job has failed by it; otherwise it will be tried again."""
    error: BaseException | None
    """The exception itself, where there was one."""
    owner: str | None = None
    request_id: str | None = None


CaptureHook = Callable[[str], str | None]
FaultHook = Callable[[FaultReport], object]
HookT = TypeVar("HookT", bound=FaultHook)


class Hooks:
    """The hooks of one application."""

    def __init__(self) -> None:
        self._hooks: list[FaultHook] = []
        self._failed: list[FaultHook] = []
        self._captures: list[CaptureHook] = []

    def add(self, hook: HookT) -> HookT:
        self._hooks.append(hook)
        return hook

    def add_failed(self, hook: HookT) -> HookT:
        self._failed.append(hook)
        return hook

    def __bool__(self) -> bool:
        """Whether anybody is to hear of faults."""
        return bool(self._hooks or self._failed)

    @property
    def hear_of_failed(self) -> bool:
        """Whether anybody is to hear of jobs that have failed."""
        return bool(self._failed)

    def tell(self, report: FaultReport) -> None:
        """A fault was judged: call each hook; none can do harm."""
        self._call(self._hooks, report)

    def tell_failed(self, report: FaultReport) -> None:
        """That a job has failed is written: call each hook for that."""
        self._call(self._failed, report)

    def _call(self, hooks: list[FaultHook], report: FaultReport) -> None:
        for hook in hooks:
            try:
                hook(report)
            except BaseException as error:  # noqa: BLE001 - the worker is not the hook's to end
                name = getattr(hook, "__qualname__", type(hook).__name__)
                message = one_line(f"{type(error).__name__}: {error}")
                emit(HookFailed(hook=name, job=report.job_id, message=message))

    def add_capture(self, hook: CaptureHook) -> CaptureHook:
        self._captures.append(hook)
        return hook

    def kept(self, raw_output: str | None, job_id: int) -> str | None:
        """What may be kept of captured output, by all hooks one after the other."""
        for hook in self._captures:
            if raw_output is None:
                return None
            try:
                found: object = hook(raw_output)
                if not isinstance(found, str | None):
                    raise TypeError(f"it answered {type(found).__name__}, not text")  # noqa: TRY301
            except BaseException as error:  # noqa: BLE001 - as above
                name = getattr(hook, "__qualname__", type(hook).__name__)
                # Its message may quote what was to be hidden.
                line = f"{type(error).__name__} was raised"
                emit(HookFailed(hook=name, job=job_id, message=line))
                return f"(not kept: the capture hook {name} broke: {type(error).__name__})"
            raw_output = found
        return raw_output
