"""The attempt that is under way: what its handler may know about it, and tell it.

`current_job()` finds it, in async handlers and in threads alike. What a handler tells here is kept
in memory and written with the end of the attempt (children, captured output) or by the worker's
next beat (progress): so an attempt that lost its lease can tell nothing any more.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from seawall.errors import SeawallError
from seawall.model import LARGEST_TEXT, MOST_NAME_BYTES, NewJob, Usage
from seawall.redact import one_line

MOST_CHILDREN = 1_000
LARGEST_AMOUNT = 2**53
LARGEST_CAPTURE = 1024 * 1024
"""Characters of captured output that are kept."""

_CURRENT: "ContextVar[CurrentJob | None]" = ContextVar("seawall_current_job", default=None)


class Said:
    """What a handler told about its attempt; most tell nothing, so nothing is made for them."""

    children: Sequence[NewJob] = ()
    raw_output: str | None = None
    looked_at: bool = False
    """Whether the application's hooks have seen the raw output already."""
    progress: tuple[float, float | None, str] | None = None
    usage: Usage | None = None


@dataclass(slots=True, kw_only=True)
class CurrentJob:
    """The job whose handler asks, and the attempt at it."""

    id: int
    task: str
    attempt: int
    """Which of the policy's tries this is, from 1; those that do not count are not counted."""
    seq: int
    """The attempt's number in the job's whole history, from 1."""
    cycle: int = 0
    stage: int = 0
    owner: str | None = None
    request_id: str | None = None
    """The caller's own id of what this belongs to."""
    deadline_at: datetime | None = None
    stage_name: str = ""
    """What the stage is called: of a plain task, its name."""
    run: int | None = None
    """The run that it is an item of."""
    worker: str = ""
    """Who runs it, as history will name it."""
    trace: str | None = None
    """In which trace it was asked for, for what its handler asks for where nobody traces."""
    marks_calls: bool = False
    """Whether its handler has marked a call at the upstream of its own lane."""
    said: Said = field(default_factory=Said)
    ended: bool = False
    caller: "Any" = None
    """Who lets its calls through: see `calls`. None where nobody watches over them."""
    _stop_asked: bool = False
    _on_progress: Callable[["CurrentJob"], None] | None = None

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this stage: give it to upstreams that know such keys."""
        return f"{self.id}:{self.cycle}:{self.stage}"

    @property
    def cancel_requested(self) -> bool:
        """Whether somebody wants this job to stop, or the worker has to give it back.

        An async handler is cancelled and an isolated one killed; a handler in a thread can only
        look here from time to time. One that returns has succeeded: see `stop_if_asked`.
        """
        return self._stop_asked

    def stop_if_asked(self) -> None:
        """End the attempt here if somebody wants it to stop: for handlers in threads."""
        if self._stop_asked:
            import asyncio  # noqa: PLC0415 - `import seawall` stays light

            raise asyncio.CancelledError

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Say how far it has come; kept from time to time, for people to see."""
        self._need_under_way()
        for name, amount in (("done", done), ("total", total)):
            if amount is not None and not 0 <= amount < LARGEST_AMOUNT:
                raise ValueError(f"{name}: found {amount!r}, expected a number from 0 on")
        shown = "".join(sign for sign in " ".join(message.split()) if sign.isprintable())
        line = one_line(shown, longest=MOST_NAME_BYTES // 4)
        self.said.progress = (float(done), None if total is None else float(total), line)
        if self._on_progress is not None:
            self._on_progress(self)

    def capture(self, raw_output: str | bytes) -> None:
        """Keep what the upstream really said beside this attempt, however it ends."""
        self._need_under_way()
        if isinstance(raw_output, bytes):
            raw_output = raw_output.decode("utf-8", "replace")
        text = str(raw_output).replace("\0", "\ufffd").encode("utf-8", "replace").decode()
        self.said.raw_output = text[: min(LARGEST_CAPTURE, LARGEST_TEXT)]

    def usage(self, *, tokens_in: int = 0, tokens_out: int = 0, cost: float = 0.0) -> None:
        """Say what the attempt has used up, as often as there is something to add.

        It is kept with the attempt, however that ends, and summed up by stage, run and owner.
        """
        self._need_under_way()
        for name, amount in (("tokens_in", tokens_in), ("tokens_out", tokens_out)):
            if type(amount) is not int or not 0 <= amount < LARGEST_AMOUNT:
                raise ValueError(f"{name}: found {amount!r:.80}, expected a whole number from 0 on")
        if type(cost) not in (int, float) or not 0 <= cost < LARGEST_AMOUNT:
            raise ValueError(f"cost: found {cost!r:.80}, expected a number from 0 on")
        known = self.said.usage or Usage()
        self.said.usage = Usage(
            known.tokens_in + tokens_in, known.tokens_out + tokens_out, known.cost + cost
        )

    def enqueue(self, jobs: list[NewJob]) -> None:
        """Ask for jobs that are written with the end of this attempt, if it ends well."""
        self._need_under_way()
        if len(self.said.children) + len(jobs) > MOST_CHILDREN:
            raise SeawallError(
                f"job {self.id}: an attempt may enqueue at most {MOST_CHILDREN:,} jobs; enqueue"
                " one that enqueues the others"
            )
        self.said.children = [*self.said.children, *jobs]

    def ask_to_stop(self) -> None:
        """The worker's word to the handler."""
        self._stop_asked = True

    def _need_under_way(self) -> None:
        if self.ended:
            raise SeawallError(
                f"job {self.id}: the attempt has ended; nothing can be told any more"
            )


class NoCalls:
    """Stands for the caller in a process of its own, where no worker is at hand."""

    def enter(self, upstream: str, units: dict[str, float]) -> float:  # noqa: ARG002
        """Refuse, with what to do instead."""
        raise SeawallError(
            f"upstream({upstream!r}): not in an isolated task, whose process is not the worker's;"
            " name the upstream on the task: @app.task(upstream=…, isolated=True)"
        )

    def leave_behind(self) -> None:
        """There is nothing to leave."""


_IMPORTING = False


def is_importing() -> bool:
    """Whether this process imports a module only to find an isolated task in it."""
    return _IMPORTING


@contextmanager
def importing() -> Iterator[None]:
    """What the modules imported meanwhile do at their top is not what the user asked for."""
    global _IMPORTING  # noqa: PLW0603 - it is about the whole process
    _IMPORTING = True
    try:
        yield
    finally:
        _IMPORTING = False


def current_job() -> CurrentJob:
    """The job that this code works on; `SeawallError` where it works on none."""
    found = _CURRENT.get()
    if found is None:
        raise SeawallError("no job runs here: current_job() is for the code of a task, as it runs")
    return found


def maybe_current_job() -> CurrentJob | None:
    """The job that this code works on, if it works on one whose attempt has not ended."""
    return _CURRENT.get()


class made_current:  # noqa: N801 - used as a context manager, once for each attempt
    """Make it the one that `current_job` finds, until the end of the block; with a span, also the
    one that the code runs in.
    """

    __slots__ = ("_job", "_span", "_token")

    def __init__(self, job: CurrentJob, span: "Any" = None) -> None:
        self._job = job
        self._span = span

    def __enter__(self) -> None:
        self._token = _CURRENT.set(self._job)
        if self._span is not None:
            self._span.enter()

    def __exit__(self, *_: object) -> None:
        if self._span is not None:
            self._span.leave()
        self._job.ended = True
        _CURRENT.reset(self._token)
