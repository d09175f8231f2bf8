"""The application: its tasks, its settings, its store. Everything is asked for through it.

    app = Seawall()          # $SEAWALL_URL, else sqlite:///seawall.db

Making one reads the configuration and nothing else; the store is opened when it is first needed,
once for the process, by whichever thread comes first.
"""

import random
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from seawall import configuration
from seawall.artifacts import Artifacts, open_artifacts
from seawall.clock import Clock, SystemClock
from seawall.configuration import Configuration
from seawall.decisions.classify import CLASSIFIER, Classifier
from seawall.decisions.policy import Policy
from seawall.decisions.schedule import Schedule
from seawall.decisions.upstream import Upstream
from seawall.errors import ConfigurationError, SeawallError
from seawall.hooks import CaptureHook, FaultHook, Hooks
from seawall.jobs import JobHandle, plain
from seawall.overseeing import Overseeing
from seawall.pipelines import Pipeline
from seawall.queue import Queue
from seawall.settings import Settings, names
from seawall.store import (
    Store,
    lasts,
    open_store,
)
from seawall.tasks import Request, Task, UpstreamOf
from seawall.telemetry import log_hooks
from seawall.telemetry.log_hooks import LogHook
from seawall.upstreams import Upstreams
from seawall.webhooks import Webhooks

if TYPE_CHECKING:
    from seawall.answers import Answered
    from seawall.sync_path.path import SyncPath

LONGEST_SCHEDULE_NAME = 100
OWN_NAMES = "seawall."
"""What the names of seawall's own tasks begin with."""
CONNECTION_SECONDS = 2.0
"""How long a worker waits for a connection before it says that the store is away."""

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A job that is asked for again and again, under a name."""

    name: str
    schedule: Schedule
    request: Request[Any]


class Seawall(Overseeing):
    """An application: declare tasks on it, ask for jobs through it, let workers serve it."""

    def __init__(
        self,
        url: str | None = None,
        *,
        config: str | Path | None = None,
        policies: Iterable[Policy] = (),
        clock: Clock | None = None,
        rng: random.Random | None = None,
        **settings: float | str,
    ) -> None:
        """Settings given here are as strong as flags: see `seawall settings`.

        `clock` and `rng` are for tests: the time that the store and the workers go by, and the
        dice of delays.
        """
        self._config = config
        self._own_policies = {policy.name: policy for policy in policies}
        self._clock = clock
        self.clock: Clock = clock or SystemClock()
        self.rng = rng or random.Random()
        _need_known(settings)
        self._flags: dict[str, object] = {"url": url, **settings}
        self._configuration = self._configured(self._flags)
        self.tasks: dict[str, Task[..., Any, Any]] = {}
        self.schedules: dict[str, Scheduled] = {}
        self.chores: dict[str, tuple[float, Callable[[], object]]] = {}
        """What its workers do besides, one of them at a time: every so many seconds, and what."""
        self.classifier = Classifier(CLASSIFIER)
        """`@app.classifier.register(…)`: for its tasks alone, before what `@classifier` says."""
        self.hooks = Hooks()
        self._store: Store | None = None
        self._sync_path: SyncPath | None = None
        self._artifacts: Artifacts | None = None
        self._opening = threading.Lock()
        self._lent = threading.local()
        self._queue = Queue(self)
        self.upstreams = Upstreams(self, self._configuration.upstreams)
        self.webhooks = Webhooks(self)

    # --- configuration ------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """What the application was told, already checked."""
        return self._configuration.settings

    def configure(self, **flags: object) -> None:
        """Take these settings as well, where they are not None; before the store is in use."""
        given = {name: value for name, value in flags.items() if value is not None}
        if given and self._store is not None:
            raise SeawallError("the application is in use: configure it before the first job")
        _need_known(given)
        self._configuration = self._configured({**self._flags, **given})
        self._flags = {**self._flags, **given}
        self.upstreams.configured(self._configuration.upstreams)

    def _configured(self, flags: Mapping[str, object]) -> Configuration:
        return configuration.load(self._config, flags=flags)

    def policy(self, named: str | Policy | None = None) -> Policy:
        """The policy of that name: this application's own, the file's, or a preset."""
        if isinstance(named, Policy):
            return named
        name = self.settings.policy if named is None else named
        return self._own_policies.get(name) or self._configuration.policy(named)

    @property
    def policies(self) -> dict[str, tuple[Policy, str]]:
        """Every policy that has a name here, and whence: the presets, the file's, its own."""
        sources = self._configuration.sources
        found = {name: (each, sources[name]) for name, each in self._configuration.policies.items()}
        return {**found, **{name: (each, "own") for name, each in self._own_policies.items()}}

    @property
    def given_clock(self) -> Clock | None:
        """The clock that stands in for the store's own, where there is one."""
        return self._clock

    @property
    def artifacts(self) -> Artifacts | None:
        """Where large outputs are kept; None where all of them stay in the store."""
        if self._artifacts is None and self.settings.artifacts_url:
            self._artifacts = open_artifacts(self.settings.artifacts_url)
        return self._artifacts

    @property
    def store(self) -> Store:
        """The store, opened when it is first asked for."""
        if self._store is None:
            with self._opening:
                if self._store is None:
                    self._store = self._opened()
        return self._store

    def store_of_its_own(self) -> Store:
        """Another way into the same store, with connections that nobody else uses.

        One in memory is the process's only one: that is answered itself.
        """
        return self._opened(CONNECTION_SECONDS) if lasts(self.settings.url) else self.store

    def _opened(self, connection_seconds: float | None = None) -> Store:
        return open_store(
            self.settings.url,
            listen_url=self.settings.listen_url or None,
            clock=self._clock,
            connection_seconds=connection_seconds,
        )

    @contextmanager
    def replaced(self, store: Store, clock: Clock, rng: random.Random) -> Iterator[None]:
        """Use this store, clock and dice instead, until the end of the block: for tests."""
        self._leave_path()
        before = (self._store, self._clock, self.clock, self.rng)
        self._store, self._clock, self.clock, self.rng = store, clock, clock, rng
        try:
            yield
        finally:
            self._leave_path()
            self._store, self._clock, self.clock, self.rng = before

    def close(self) -> None:
        """Let go of the store; the next use opens it anew."""
        self._leave_path()
        with self._opening:
            store, self._store = self._store, None
        if store is not None:
            store.close()

    def _leave_path(self) -> None:
        """The next call now finds its own way."""
        with self._opening:
            path, self._sync_path = self._sync_path, None
        if path is not None:
            path.close()

    # --- declaring ----------------------------------------------------------------------------

    @overload
    def task(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Task[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R, R]: ...
    @overload
    def task(
        self,
        *,
        name: str | None = None,
        policy: str | Policy | None = None,
        queue: str = "default",
        upstream: UpstreamOf = "",
        priority: int = 0,
        timeout_seconds: float | None = None,
        isolated: bool = False,
        memory_mib: int | None = None,
        http: bool = False,
    ) -> "_Declare": ...
    def task(self, *function: Any, **said: Any) -> Any:
        """Make a task of a function: async, plain (run in a thread), or isolated (a process).

        `name` is what its jobs are kept under, by default the function's; `policy` judges its
        faults; `upstream` is what it calls, or a function that tells it from the arguments. An
        attempt that takes longer than `timeout_seconds` ends as TIMEOUT. `isolated=True` runs it
        in a process of its own, which can be killed and have its memory limited to `memory_mib`.
        With `http=True` it may be asked for through `seawall serve`.
        """
        _need_a_name_of_its_own("task", said.get("name"))
        if function:
            return self._declared(*function, **said)
        return lambda function: self._declared(function, **said)

    def own_task(self, function: Callable[..., Any], **said: Any) -> Task[..., Any, Any]:
        """Make a task of seawall's own of a function, under a name that no application may use."""
        return self._declared(function, **said)

    def _declared(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        policy: str | Policy | None = None,
        timeout_seconds: float | None = None,
        **said: Any,
    ) -> Task[..., Any, Any]:
        name = name or getattr(function, "__name__", "")
        if not name:
            raise ConfigurationError(
                f"task: found {function!r:.80}, expected a function; give what has no name a `name`"
            )
        if name in self.tasks:
            raise ConfigurationError(f"task {name}: is declared twice; give one another name")
        try:
            chosen = self.policy(policy)
        except ConfigurationError as error:
            raise ConfigurationError(f"task {name}: {error}") from None
        if timeout_seconds is None:
            timeout_seconds = self.settings.timeout_seconds
        said = {
            "queue": "default", "upstream": "", "priority": 0, "isolated": False,
            "memory_mib": None, "http": False, **said,
        }  # fmt: skip
        task: Task[..., Any, Any] = Task(
            self, function, name=name, policy=chosen, timeout_seconds=timeout_seconds, **said
        )
        self.tasks[name] = task
        return task

    def pipeline(
        self,
        name: str,
        stages: Sequence[Any],
        *,
        queue: str = "default",
        priority: int = 0,
        http: bool = False,
    ) -> Pipeline:
        """Make a task of several stages, tasks or functions: each takes what the one before left.

        Say more about a function with `@stage(policy=…, upstream=…, timeout_seconds=…)`.
        """
        _need_a_name_of_its_own("pipeline", name)
        if name in self.tasks:
            raise ConfigurationError(f"pipeline {name}: is declared twice; give one another name")
        home = sys._getframe(1).f_globals.get("__name__", "")  # noqa: SLF001 - where it stands
        made = Pipeline(self, name, stages, queue=queue, priority=priority, home=home)
        made.http = http
        self.tasks[name] = made
        return made

    def schedule(
        self,
        request: Request[Any],
        *,
        name: str | None = None,
        cron: str | None = None,
        every: timedelta | float | None = None,
        timezone: str = "UTC",
        missed: Literal["skip", "once", "all"] = "once",
        overlap: Literal["allow", "skip"] = "skip",
    ) -> None:
        """Ask for the job again and again: `app.schedule(report.job("eu"), cron="0 3 * * *")`.

        The fleet fires it once, whatever the number of workers. `missed` says what becomes of
        fires that no worker was there to make; with `overlap="skip"` a fire is left out while the
        job of the one before is unfinished.
        """
        if not isinstance(request, Request):
            raise ConfigurationError(
                f"schedule: found {request!r:.80}, expected a job: task.job(…), with its arguments"
            )
        name = name or request.task.name
        if name in self.schedules:
            raise ConfigurationError(f"schedule {name}: is declared twice; give one another name")
        if not 1 <= len(name) <= LONGEST_SCHEDULE_NAME:
            raise ConfigurationError(
                f"schedule {name[:20]}…: its name: expected 1 to {LONGEST_SCHEDULE_NAME} characters"
            )
        if request.options.key is not None or request.options.connection is not None:
            raise ConfigurationError(f"schedule {name}: its job takes no key and no connection")
        seconds = every.total_seconds() if isinstance(every, timedelta) else every
        try:
            chosen = Schedule(
                cron=cron, every_seconds=seconds, timezone=timezone, missed=missed, overlap=overlap
            )
        except ConfigurationError as error:
            words = str(error).replace("every_seconds", "every")
            raise ConfigurationError(f"schedule {name}: {words}") from None
        self.schedules[name] = Scheduled(name, chosen, request)

    def upstream(self, upstream: Upstream) -> Upstream:
        """Say how something that tasks call is to be treated: when held, how much at once."""
        return self.upstreams.declare(upstream)

    def on_fault(self, hook: FaultHook) -> FaultHook:
        """Have the function called with every `FaultReport`, for error trackers."""
        return self.hooks.add(hook)

    def on_failed(self, hook: FaultHook) -> FaultHook:
        """Have the function called with the last `FaultReport` of every job that has failed, once
        that is written: what is judged may be lost with its lease, and another attempt succeed.
        """
        return self.hooks.add_failed(hook)

    def on_capture(self, hook: CaptureHook) -> CaptureHook:
        """Have captured output go through the function before it is kept: for what must not be."""
        return self.hooks.add_capture(hook)

    def on_log(self, hook: LogHook) -> LogHook:
        """Have the fields of every log event go through the function before it is written.

        It answers those that may be: changed, fewer or more. It holds for the whole process.
        """
        return log_hooks.add(hook)

    # --- asking -------------------------------------------------------------------------------

    def ask(self, request: Request[R]) -> JobHandle[R]:
        """Ask for one job."""
        return self._queue.ask(request)

    async def aask(self, request: Request[R]) -> JobHandle[R]:
        """The async twin of `ask`."""
        return await self._queue.aask(request)

    def call_or_ask(self, request: Request[R]) -> "Answered[R]":
        """Call what the job is for now, or leave it to the workers: see `task.call_or_enqueue`."""
        return self._path().call(request)

    async def acall_or_ask(self, request: Request[R]) -> "Answered[R]":
        """The async twin of `call_or_ask`."""
        return await self._path().acall(request)

    def _path(self) -> "SyncPath":
        """The synchronous path through this process and this store."""
        from seawall.sync_path.path import SyncPath  # noqa: PLC0415 - it stands above this layer

        store = self.store
        with self._opening:
            if self._sync_path is None or not self._sync_path.leads_to(store):
                self._sync_path = SyncPath(self, self._queue, store)
            return self._sync_path

    def enqueue_many(self, requests: Iterable[Request[R]]) -> list[JobHandle[R]]:
        """Ask for many jobs, a thousand in each write: `app.enqueue_many(map(task.job, paths))`.

        Each thousand is written whole or not at all; inside `transaction`, all of them. Where a
        key is taken by other arguments, the rest is written and then `KeyConflictError` raised.
        """
        return self._queue.ask_many(requests)

    async def aenqueue_many(self, requests: Iterable[Request[R]]) -> list[JobHandle[R]]:
        """The async twin of `enqueue_many`."""
        return await self._queue.aask_many(requests)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Lend the store's own connection, in a transaction: what is enqueued meanwhile is in it.

        The connection is apsw's on SQLite and psycopg's on PostgreSQL. All of it is there at the
        end of the block, or, where the block raises, nothing.
        """
        with self.store.transaction() as connection:
            self._lent.now = True
            try:
                yield connection
            finally:
                self._lent.now = False

    @property
    def in_transaction(self) -> bool:
        """Whether this thread is inside `transaction`."""
        return getattr(self._lent, "now", False)

    def job(self, job_id: int) -> JobHandle[Any]:
        """The job of that id; `NoSuchJobError` where there is none."""
        found = self._found(job_id)
        task = self.tasks.get(found.task)
        return JobHandle(self, job_id, plain if task is None else task.read_result)


class _Declare:
    """What `app.task(…)` answers: it makes a task of the function below it."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Task[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...
    def __call__(self, function: Any, /) -> Any: ...


def _need_a_name_of_its_own(kind: str, name: str | None) -> None:
    if name is not None and name.startswith(OWN_NAMES):
        raise ConfigurationError(f"{kind} {name}: names that begin with {OWN_NAMES} are seawall's")


def _need_known(settings: Mapping[str, object]) -> None:
    for name in settings:
        if name not in names():
            near = get_close_matches(name, names(), n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names())}"
            raise ConfigurationError(f"{name}: no such setting; {hint}")
