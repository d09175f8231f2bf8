"""One application of seawall's for each of Django's backends, for the whole process.

Django makes a backend for each thread; what they share is here: the tasks that this process has
met, and for each backend its `Seawall`. It is made when it is first needed and made anew where the
settings have changed; credentials alone make no other. Making one opens nothing.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db import connections
from django.tasks import DEFAULT_TASK_BACKEND_ALIAS, task_backends
from django.tasks.exceptions import TaskResultDoesNotExist
from django.utils.module_loading import autodiscover_modules

from seawall.app import Seawall
from seawall.django import results, running, waiting
from seawall.django.address import Place, need_a_file_of_its_own, place_of, signs_of
from seawall.django.options import said_of
from seawall.errors import ArgumentsError, ConfigurationError, SeawallError
from seawall.model import NewJob
from seawall.queue import as_asked, asking_for
from seawall.store import Filter, Taken, lasts
from seawall.store.inspect import open_as_is
from seawall.store.reading import Reading
from seawall.tasks import Options, Request, Task

APP = "seawall.django"
_OURS = ("url", "database", "config", "policies", "upstreams", "modules")
SWEEP_SECONDS = 2.0
"""How often workers look for jobs that a commit left behind."""

_LOCK = threading.RLock()
_HOMES: "dict[str, Home]" = {}
_INSTEAD: "dict[str, Home]" = {}
"""What stands in for them in tests."""


def application(alias: str = DEFAULT_TASK_BACKEND_ALIAS) -> Seawall:
    """The application of the backend of that name: for hooks, and for all that Django has no word
    for.
    """
    return home_of(alias).app


def home_of(alias: str) -> "Home":
    """Where the backend of that name is at home."""
    with _LOCK:
        if alias in _INSTEAD:
            return _INSTEAD[alias]
        options = dict(task_backends[alias].options)
        signs = signs_of(options)
        found = _HOMES.get(alias)
        if found is None or found.made_of != (signs, options):
            if found is not None:
                found.app.close()
            place = place_of(alias, options)
            need_a_file_of_its_own(alias, place)  # whoever skips checks is not to pay with a file
            found = _HOMES[alias] = Home(alias, place, options)
        return found


@contextmanager
def instead(home: "Home") -> Iterator[None]:
    """Have this one stand in for its backend's."""
    with _LOCK:
        before = _INSTEAD.get(home.alias)
        _INSTEAD[home.alias] = home
    try:
        yield
    finally:
        with _LOCK:
            del _INSTEAD[home.alias]
            if before is not None:
                _INSTEAD[home.alias] = before


def close_all() -> None:
    """Let go of every store; the next use opens it anew."""
    with _LOCK:
        homes = [_HOMES.pop(alias) for alias in list(_HOMES)]
    for home in homes:
        home.app.close()


def aliases() -> list[str]:
    """The backends that are ours."""
    from seawall.django.backend import SeawallBackend  # noqa: PLC0415 - it stands above

    return [
        alias for alias in task_backends.settings
        if isinstance(task_backends[alias], SeawallBackend)
    ]  # fmt: skip


def _forget_what_changed(*, setting: str, **_: object) -> None:
    if setting in {"TASKS", "DATABASES"}:
        close_all()


setting_changed.connect(_forget_what_changed, dispatch_uid="seawall.django.home")


class Home:
    """A backend's application, and its way into the store."""

    def __init__(
        self, alias: str, place: Place, options: dict[str, Any], *, inline: bool = False
    ) -> None:
        self.alias = alias
        self.kind = type(task_backends[alias])
        self.inline = inline
        """Whether tasks run in the thread of whoever waits for them: in tests."""
        self.place = place
        self.made_of = (signs_of(options), options)
        self._modules = options.get("modules", ())
        self._declaring = threading.Lock()
        said = {name: value for name, value in options.items() if name not in _OURS}
        try:
            self.app = Seawall(
                place.url,
                config=options.get("config"),
                policies=options.get("policies", ()),
                **said,
            )
            for upstream in options.get("upstreams", ()):
                self.app.upstream(upstream)
        except SeawallError as error:
            raise ConfigurationError(f"TASKS[{alias!r}]: {error}") from None
        running.tell_of_failures(self)
        if not place.direct:
            self.app.chores[f"waiting {alias}"] = (SWEEP_SECONDS, lambda: waiting.swept(self))

    # --- tasks --------------------------------------------------------------------------------

    def task(self, path: str) -> Task[..., Any, Any]:
        """What stands for the Django task of that path."""
        found = self.app.tasks.get(path)
        if found is None:
            with self._declaring:
                found = self.app.tasks.get(path) or self._declared(path)
        return found

    def _declared(self, path: str) -> Task[..., Any, Any]:
        task = results.task_at(path)
        said = said_of(task.func)
        upstream = said.upstream
        made: Task[..., Any, Any] = self.app.task(
            name=path,
            policy=said.policy,
            queue=task.queue_name,
            upstream=upstream if isinstance(upstream, str) else _of_arguments(upstream),
            priority=task.priority,
            timeout_seconds=said.timeout_seconds,
            isolated=said.isolated,
            memory_mib=said.memory_mib,
        )(running.handler(self, task))
        if said.retry_when is not None:
            made.retry_when(_of_arguments(said.retry_when))
        return made

    def declare_all(self) -> None:
        """Know every task that can be found: for workers.

        Those in `tasks` of every installed application and in the modules that the settings name,
        those that the URLs lead to, and those of jobs that wait.
        """
        autodiscover_modules("tasks")
        for module in self._modules:
            import_module(module)
        if getattr(settings, "ROOT_URLCONF", None):
            import_module(settings.ROOT_URLCONF)
        for path in self._queued():
            with suppress(Exception):  # whoever has no such task leaves it to others
                results.task_at(path)
        for path in sorted(results.tasks):
            self.task(path)

    def _queued(self) -> set[str]:
        if not lasts(self.place.url):
            return set()
        with suppress(SeawallError), open_as_is(self.app.settings.url) as store:
            return {head.lane.task for head in store.heads()}
        return set()

    # --- asking -------------------------------------------------------------------------------

    def enqueue(self, result: Any) -> None:
        """Write the job down: now, or with the transaction that is open; in the trace that is."""
        request = self._request(result)
        with asking_for(request) as traced:
            elsewhere = not running.runs_at(self)
            (job,) = as_asked([request.new_job()], traced.trace, elsewhere=elsewhere)
            traced.of(self._written(job))

    def _written(self, job: NewJob) -> int | None:
        """The number of the job; None where it is not in the store yet."""
        connection = connections[self.place.database]
        open_by_hand = connection.connection is not None and not connection.autocommit
        if not (connection.in_atomic_block or open_by_hand):
            answer = self.app.store.enqueue([job])[0]
        elif self.place.direct:
            answer = self.app.store.enqueue_on(connection, [job])[0]
        else:
            need_installed()
            waiting.put(self, job)
            return None
        if answer.taken is not Taken.CREATED:
            raise ArgumentsError(f"{job.lane.task}: {answer.reason or 'it was not taken'}")
        return answer.job_id

    def _request(self, result: Any) -> Request[Any]:
        task = result.task
        options = Options(
            queue=task.queue_name,
            priority=int(task.priority),
            run_after=results.aware(task.run_after),
            key=result.id,
        )
        envelope = results.envelope_of(result)
        return self.task(task.module_path).request(options, (), dict(envelope))

    # --- results ------------------------------------------------------------------------------

    def result(self, result_id: str) -> Any:
        """The result of that id; `TaskResultDoesNotExist` where there is none."""
        connection = connections[self.place.database]
        store: Any = self.app.store
        if self.place.direct and connection.in_atomic_block:
            store = store.seen_on(connection)
        found = self._in_store(store, result_id)
        if found is None and not self.place.direct:
            # It may be moved between two looks, and is then in the store.
            found = waiting.result(self, result_id) or self._in_store(store, result_id)
        if found is None:
            raise TaskResultDoesNotExist(result_id)
        return found

    def _in_store(self, store: Reading, result_id: str) -> Any:
        for job in store.page(Filter(key=result_id), limit=10).jobs:
            envelope = results.opened(store.arguments(job.id))
            if envelope and (envelope["id"], envelope["backend"]) == (result_id, self.alias):
                return results.of_job(store, job, envelope, self.app.artifacts)
        return None


def need_installed() -> None:
    """`ImproperlyConfigured` where our table is not there."""
    if not apps.is_installed(APP):
        raise ImproperlyConfigured(f"add {APP!r} to INSTALLED_APPS, and run manage.py migrate")


def _of_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a task's arguments, asked with its job's."""

    def asked(*, args: list[Any], kwargs: dict[str, Any], **_: object) -> Any:
        return function(*args, **kwargs)

    return asked
