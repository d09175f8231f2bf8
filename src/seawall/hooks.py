"""What an application wants to hear about its faults: the way to an error tracker.

A hook is a function that is called with every fault as it is judged, in the thread or loop that ran
the handler. It must be quick, and whatever it raises is logged and forgotten: it never changes what
becomes of the job.
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


FaultHook = Callable[[FaultReport], object]
HookT = TypeVar("HookT", bound=FaultHook)


class Hooks:
    """The hooks of one application."""

    def __init__(self) -> None:
        self._hooks: list[FaultHook] = []

    def add(self, hook: HookT) -> HookT:
        self._hooks.append(hook)
        return hook

    def tell(self, report: FaultReport) -> None:
        """Call each of them; none can do harm."""
        for hook in self._hooks:
            try:
                hook(report)
            except BaseException as error:  # noqa: BLE001 - the worker is not the hook's to end
                name = getattr(hook, "__qualname__", type(hook).__name__)
                message = one_line(f"{type(error).__name__}: {error}")
                emit(HookFailed(hook=name, job=report.job_id, message=message))
