"""Django's door to seawall: what `TASKS` names, and what `django.tasks` calls."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.apps import apps
from django.core import checks
from django.tasks.backends.base import BaseTaskBackend
from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist, TaskResultMismatch
from django.tasks.signals import task_enqueued

from seawall.django import results
from seawall.django.address import ANOTHER_FILE, is_one_file, need_a_file_of_its_own, place_of
from seawall.django.home import APP, Home, aliases, home_of
from seawall.errors import ConfigurationError, SeawallError
from seawall.model import need_name
from seawall.store import file_of, lasts


class SeawallBackend(BaseTaskBackend):
    """Keeps tasks as jobs of seawall's, which its workers run.

    What is enqueued inside `transaction.atomic()` is part of that transaction. `OPTIONS` may hold
    `url`, `database`, `config`, `policies`, `upstreams`, `modules`, and every setting of seawall's.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    @property
    def home(self) -> Home:
        """What all threads share of this backend."""
        return home_of(self.alias)

    def validate_task(self, task: Any) -> None:
        """`InvalidTask` where it cannot be kept or run; else it is known from now on."""
        super().validate_task(task)
        try:
            need_name("module path", task.module_path)
            need_name("queue_name", task.queue_name)
        except ValueError as error:
            raise InvalidTask(str(error)) from None
        results.tasks.setdefault(task.module_path, task)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Ask for a job: now, or with the transaction that is open."""
        self.validate_task(task)
        result = results.asked(task, args, kwargs, self.alias)
        self.home.enqueue(result)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: Any) -> Any:
        """Where the job of that result stands."""
        try:
            if str(UUID(result_id)) != result_id:
                raise ValueError  # noqa: TRY301 - one of ours is written in one way only
        except (ValueError, TypeError, AttributeError):
            raise TaskResultDoesNotExist(result_id) from None
        return self.home.result(result_id)

    # --- what manage.py check says ------------------------------------------------------------

    def check(self, **kwargs: Any) -> Iterable[checks.CheckMessage]:
        """What is wrong with the settings, a line each."""
        yield from super().check(**kwargs)
        if not apps.is_installed(APP):
            yield _error(1, f"TASKS uses seawall, and {APP!r} is not in INSTALLED_APPS.", "Add it.")
        if (line := self._of_files()) is not None:
            yield _error(5, line, f"{ANOTHER_FILE[0].upper()}{ANOTHER_FILE[1:]}.")
            return
        try:
            home = self.home
        except SeawallError as error:
            yield _error(2, str(error), "Put TASKS right.")
            return
        yield from self._of_tasks(home)
        yield from self._of_sharing(home)

    def _of_files(self) -> str | None:
        try:
            place = place_of(self.alias, self.options)
        except SeawallError:
            return None  # that is said otherwise
        try:
            need_a_file_of_its_own(self.alias, place)
        except ConfigurationError as error:
            return f"{error}."
        return None

    def _of_tasks(self, home: Home) -> Iterable[checks.CheckMessage]:
        for path, task in list(results.tasks.items()):
            if task.backend != self.alias:
                continue
            try:
                home.task(path)
            except (SeawallError, TaskResultMismatch) as error:
                yield _error(3, str(error), f"Put right what @runs_with says of {path}.")

    def _of_sharing(self, home: Home) -> Iterable[checks.CheckMessage]:
        for alias in aliases():
            with suppress(SeawallError):
                url = home_of(alias).place.url
                if alias < self.alias and lasts(url) and _is_one_store(url, home.place.url):
                    yield _error(
                        4,
                        f"TASKS[{alias!r}] and TASKS[{self.alias!r}] keep their jobs in one store.",
                        "Use queues of one backend, or give one of them its own OPTIONS['url'].",
                    )


def _is_one_store(one: str, other: str) -> bool:
    return one == other or is_one_file(file_of(one), file_of(other))


def _error(number: int, message: str, hint: str) -> checks.CheckMessage:
    return checks.Error(message, hint=hint, obj="TASKS", id=f"seawall.E00{number}")
