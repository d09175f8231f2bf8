"""The application that INSTALLED_APPS names."""

from typing import Any

from django.apps import AppConfig
from django.core.management.base import CommandError
from django.db.models.signals import post_migrate

from seawall.errors import SeawallError
from seawall.store import lasts, migrate_store


class SeawallConfig(AppConfig):
    """Seawall, among the applications of a project."""

    name = "seawall.django"
    label = "seawall"
    verbose_name = "Seawall"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Have `manage.py migrate` bring up the store of jobs as well."""
        post_migrate.connect(_bring_up, sender=self, dispatch_uid="seawall.django.apps")


def _bring_up(*, using: str, verbosity: int = 1, **_: Any) -> None:
    from seawall.django.home import aliases, home_of  # noqa: PLC0415 - once all are ready

    for alias in aliases():
        try:
            home = home_of(alias)
            if home.place.database != using or not lasts(home.place.url):
                continue
            applied = migrate_store(home.app.settings.url)
        except SeawallError as error:
            raise CommandError(str(error)) from None
        if verbosity and applied:
            print(f"  Brought the jobs of TASKS[{alias!r}] up to {applied[-1]}")  # noqa: T201
