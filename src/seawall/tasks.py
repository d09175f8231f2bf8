"""Tasks: functions that can be asked for, and the asking.

    @app.task(policy="llm-reports", upstream="openai")
    async def summarize(path: str) -> dict: ...

    summarize.enqueue("a.pdf")
    summarize.using(key="a.pdf", owner="ann").enqueue("a.pdf")

A task knows its function and what was said about it; it runs nothing. Arguments and results are
typed all the way: `enqueue` takes what the function takes, and the handle that it answers gives
what the function returns.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, TypedDict, TypeVar, Unpack

from seawall.arguments import CODEC, Call, Signature
from seawall.errors import ArgumentsError, ConfigurationError
from seawall.model import Lane, NewJob, need_name, need_span
from seawall.redact import one_line, public_name

if TYPE_CHECKING:
    from seawall.answers import Answered
    from seawall.app import Seawall
    from seawall.decisions.policy import Policy
    from seawall.jobs import JobHandle

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")

UpstreamOf = str | Callable[..., str]
"""What a task calls: a name, or a function of the task's arguments that tells it."""
When = datetime | timedelta
"""A moment, or how long from now it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What can be said about one job. What is None is as the task says."""

    queue: str | None = None
    priority: int | None = None
    """Higher is sooner."""
    run_after: When | None = None
    """Not before then; None is now."""
    deadline: When | None = None
    """Failed as EXPIRED when it has not ended by then."""
    key: str | None = None
    """With a key, the task has at most one such job for as long as that job is kept."""
    owner: str | None = None
    tags: tuple[str, ...] = ()
    request_id: str | None = None
    """The caller's own id of what this belongs to; it is on every log line about the job."""
    connection: Any = None
    """The caller's database connection: the job is part of its transaction."""
    inline: "str | Policy | None" = None
    """What `call_or_enqueue` goes by while its caller waits; None is `ai-sync`."""
    inline_seconds: float | None = None
    """How long it waits at most; None, and the most, is the setting of that name."""


class Said(TypedDict, total=False):
    """`Options`, as keywords."""

    queue: str
    priority: int
    run_after: When | None
    deadline: When | None
    key: str | None
    owner: str | None
    tags: tuple[str, ...] | list[str]
    request_id: str | None
    connection: Any
    inline: "str | Policy | None"
    inline_seconds: float | None


AS_IT_IS = Options()
"""What a task is asked for with where nothing was said."""


class Request(NamedTuple, Generic[R]):
    """A job to be asked for, not asked for yet: arguments that were checked, and options.

    A tuple, because they are made by the thousand.
    """

    task: "Task[..., R, Any]"
    arguments: str
    options: Options
    upstream: str
    """What it will call."""

    def new_job(self) -> NewJob:
        """What the store is asked to keep."""
        task, options = self.task, self.options
        try:
            owner = options.owner if self.upstream else None
            if owner is not None and not task.app.upstreams.of(self.upstream).limited:
                owner = None  # only where something is counted do owners take turns
            lane = task.lane(options.queue, options.priority, self.upstream, owner)
            if options is AS_IT_IS:
                return NewJob.plain(lane, self.arguments, CODEC)
            return NewJob(
                lane=lane,
                arguments=self.arguments,
                codec=CODEC,
                key=options.key,
                run_after=_moment(options.run_after),
                run_after_seconds=_span(options.run_after),
                deadline_at=_moment(options.deadline),
                deadline_seconds=_span(options.deadline),
                owner=options.owner,
                tags=options.tags,
                request_id=options.request_id and public_name(options.request_id),
            )
        except ValueError as error:
            raise ArgumentsError(f"{task.name}: {error}") from None


@dataclass(frozen=True, slots=True)
class Asking(Generic[P, R]):
    """A task with options: `task.using(priority=5)`."""

    task: "Task[P, R, Any]"
    options: Options

    def using(self, **said: Unpack[Said]) -> "Asking[P, R]":
        """The same with other options as well."""
        return Asking(self.task, _changed(self.task.name, self.options, said))

    def job(self, *args: P.args, **kwargs: P.kwargs) -> Request[R]:
        """A job for `app.enqueue_many` or `app.schedule`; nothing is asked of the store yet."""
        return self.task.request(self.options, args, kwargs)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> "JobHandle[R]":
        """Ask for a job with these arguments."""
        return self.task.app.ask(self.job(*args, **kwargs))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> "JobHandle[R]":
        """The async twin of `enqueue`."""
        return await self.task.app.aask(self.job(*args, **kwargs))

    def call_or_enqueue(self, *args: P.args, **kwargs: P.kwargs) -> "Answered[R]":
        """Call it now, as a job; what takes too long or fails for a while is left to the workers.

        `Done` with the value, `Failed` with the fault, or `HandedOver`, each with its job.
        """
        return self.task.app.call_or_ask(self.job(*args, **kwargs))

    async def acall_or_enqueue(self, *args: P.args, **kwargs: P.kwargs) -> "Answered[R]":
        """The async twin of `call_or_enqueue`: an async function runs on the loop that awaits."""
        return await self.task.app.acall_or_ask(self.job(*args, **kwargs))


class Task(Generic[P, R, C]):
    """A function that workers run. Called, it is the function itself: `summarize("a.pdf")`."""

    def __init__(
        self,
        app: "Seawall",
        function: Callable[P, C],
        *,
        name: str,
        policy: "Policy",
        queue: str,
        upstream: UpstreamOf,
        priority: int,
        timeout_seconds: float,
        isolated: bool,
        memory_mib: int | None,
        http: bool = False,
    ) -> None:
        self.app = app
        self.function = function
        self.name = name
        self.policy = policy
        self.queue = queue
        self.upstream = upstream
        self.priority = priority
        self.timeout_seconds = timeout_seconds
        self.isolated = isolated
        self.memory_mib = memory_mib
        self.http = http
        """Whether it may be asked for through the server."""
        self.may_be_retried: Callable[P, bool | str] | None = None
        """What is asked before a person sends a failed job of it again."""
        self.home = function.__module__
        """The module in which it is found."""
        self.is_async = inspect.iscoroutinefunction(function)
        self._check()
        self.signature = Signature(name, function)
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", name)
        self.__module__ = function.__module__
        self.__wrapped__ = function
        self.config: str | None = None
        """Which configuration of a pipeline's stage it is."""
        self._plain: Asking[P, R] = Asking(self, AS_IT_IS)

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        return self.function(*args, **kwargs)

    def using(self, **said: Unpack[Said]) -> Asking[P, R]:
        """The task with options for the jobs asked for through it."""
        return self._plain.using(**said)

    def job(self, *args: P.args, **kwargs: P.kwargs) -> Request[R]:
        """A job for `app.enqueue_many` or `app.schedule`; nothing is asked of the store yet."""
        return self.request(AS_IT_IS, args, kwargs)

    def request(
        self, options: Options, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Request[R]:
        """`job`, with options, for arguments that stand together already."""
        arguments = self.signature.write(args, kwargs)
        most = self.app.settings.payload_bytes
        if len(arguments) > most // 4:
            _need_small(self.name, arguments, most)
        upstream = self.upstream
        if not isinstance(upstream, str):
            upstream = self.upstream_for(args, kwargs)
        return Request(self, arguments, options, upstream)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> "JobHandle[R]":
        """Ask for a job with these arguments."""
        return self._plain.enqueue(*args, **kwargs)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> "JobHandle[R]":
        """The async twin of `enqueue`."""
        return await self._plain.aenqueue(*args, **kwargs)

    def call_or_enqueue(self, *args: P.args, **kwargs: P.kwargs) -> "Answered[R]":
        """Call it now, as a job; what takes too long or fails for a while is left to the workers.

        `Done` with the value, `Failed` with the fault, or `HandedOver`, each with its job.
        """
        return self._plain.call_or_enqueue(*args, **kwargs)

    async def acall_or_enqueue(self, *args: P.args, **kwargs: P.kwargs) -> "Answered[R]":
        """The async twin of `call_or_enqueue`: an async function runs on the loop that awaits."""
        return await self._plain.acall_or_enqueue(*args, **kwargs)

    def retry_when(self, check: Callable[P, bool | str]) -> Callable[P, bool | str]:
        """Have the function asked, with a job's arguments, before a person sends it again.

            @summarize.retry_when
            def source_is_there(path: str) -> bool | str:
                return Path(path).exists() or "the file is gone"

        True is yes; anything else is no, and words are the reason. It runs where the server runs.
        """
        if inspect.iscoroutinefunction(check) or not callable(check):
            raise ConfigurationError(f"task {self.name}: retry_when: expected a plain function")
        if self.may_be_retried is not None:
            raise ConfigurationError(f"task {self.name}: retry_when is said twice")
        self.may_be_retried = check
        return check

    # --- stages: a plain task has one -----------------------------------------------------

    @property
    def stages(self) -> "tuple[Task[..., Any, Any], ...]":
        """What its jobs go through, one after the other."""
        return (self,)

    def at(self, stage: int) -> "Task[..., Any, Any]":
        """The stage of that number; the last where there are fewer by now."""
        stages = self.stages
        return stages[stage] if stage < len(stages) else stages[-1]

    def stage_named(self, text: str) -> int:
        """The number of the stage of that name, or `ArgumentsError`."""
        names = [stage.name for stage in self.stages]
        if text in names:
            return names.index(text)
        if text.isdecimal() and int(text) < len(names):
            return int(text)
        raise ArgumentsError(f"{self.name}: no stage {text!r:.80}; there are: {', '.join(names)}")

    def call_of(self, arguments: str, before: str | None) -> Call:
        """What it is called with: by a job's arguments and what the stage before it left."""
        del before  # a plain task has none
        return self.signature.read(arguments)

    def read_result(self, text: str | None) -> R:
        """What a job of it came to, in the function's own type."""
        value: R = self.stages[-1].signature.read_result(text)
        return value

    def lane(
        self,
        queue: str | None,
        priority: int | None,
        upstream: str,
        owner: str | None,
        run: int = 0,
    ) -> Lane:
        """Where its jobs wait; what is None is as the task has it, and owners share it."""
        queue = self.queue if queue is None else queue
        priority = self.priority if priority is None else priority
        return _lane(self.name, queue, upstream, priority, owner or "", run)

    def upstream_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """What a job with these arguments will call."""
        if isinstance(self.upstream, str):
            return self.upstream
        try:
            found = self.upstream(*args, **kwargs)
            need_name("upstream", found, empty=True)
        except Exception as error:
            raise ArgumentsError(f"{self.name}: upstream: {one_line(repr(error))}") from error
        return public_name(found)  # an address is the same upstream, whoever signs in there

    def _check(self) -> None:
        """`ConfigurationError`, in one line, unless jobs of this task can be kept and run."""
        trouble = ""
        if not _is_number(self.priority):
            trouble = f"priority: found {self.priority!r:.80}, expected a whole number"
        elif self.memory_mib is not None and not (
            self.isolated and _is_number(self.memory_mib) and self.memory_mib > 0
        ):
            trouble = "memory_mib: a limit above 0, for a task with isolated=True"
        elif inspect.isgeneratorfunction(self.function) or inspect.isasyncgenfunction(
            self.function
        ):
            trouble = "is a generator; a task returns a value"
        else:
            trouble = self._trouble_with_names()
        if trouble:
            raise ConfigurationError(f"task {one_line(str(self.name))}: {trouble}")

    def _trouble_with_names(self) -> str:
        try:
            upstream = "" if callable(self.upstream) else self.upstream
            Lane(task=self.name, queue=self.queue, upstream=upstream, priority=self.priority)
            need_span("timeout_seconds", self.timeout_seconds)
        except (ValueError, TypeError) as error:
            return str(error)
        return "" if self.timeout_seconds > 0 else "timeout_seconds: expected more than 0"


@lru_cache(maxsize=1_024, typed=True)
def _lane(task: str, queue: str, upstream: str, priority: int, owner: str, run: int) -> Lane:
    """One for all jobs that share it: it is checked when it is made."""
    return Lane(task=task, queue=queue, upstream=upstream, priority=priority, owner=owner, run=run)


def _is_number(found: object) -> bool:
    return isinstance(found, int) and not isinstance(found, bool)


def _changed(task: str, options: Options, said: Said) -> Options:
    unknown = [name for name in said if name not in Options.__dataclass_fields__]
    if unknown:
        there = ", ".join(Options.__dataclass_fields__)
        raise ArgumentsError(f"{task}: no option {unknown[0]!r}; there are: {there}")
    tags = said.get("tags")
    if isinstance(tags, str):
        raise ArgumentsError(f"{task}: tags: found {tags!r:.80}, expected a list of words")
    if tags is not None:
        said["tags"] = tuple(tags)
    changed = replace(options, **said)  # type: ignore[arg-type]
    for name in ("run_after", "deadline"):
        if not isinstance(found := getattr(changed, name), datetime | timedelta | None):
            raise ArgumentsError(
                f"{task}: {name}: found {found!r:.80}, expected a datetime or a timedelta"
            )
    if changed.priority is not None and not _is_number(changed.priority):
        raise ArgumentsError(f"{task}: priority: found {changed.priority!r:.80}, expected a number")
    for name in ("queue", "key", "owner", "request_id"):
        found = getattr(changed, name)
        if found is not None:
            try:
                need_name(name, found)
            except ValueError as error:
                raise ArgumentsError(f"{task}: {error}") from None
    return changed


def _need_small(task: str, arguments: str, most: int) -> None:
    if (size := len(arguments.encode())) > most:
        raise ArgumentsError(
            f"{task}: {size:,} bytes of arguments, at most {most:,}; keep large content elsewhere"
            " and pass its address, or raise payload_bytes"
        )


def _moment(when: When | None) -> datetime | None:
    return None if isinstance(when, timedelta) else when


def _span(when: When | None) -> float | None:
    """A span is added to the store's clock, not to the caller's, which may be wrong."""
    return max(0.0, when.total_seconds()) if isinstance(when, timedelta) else None
