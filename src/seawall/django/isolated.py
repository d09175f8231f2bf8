"""What a process of its own imports to find an isolated task of a Django project.

A child looks for its task among what the module holds, so all of them are put here.
"""

import django
from django.apps import apps

if not apps.ready:
    django.setup()


def _found() -> dict[str, object]:
    from seawall.django.home import aliases, home_of  # noqa: PLC0415 - once Django is set up

    found: dict[str, object] = {}
    for alias in aliases():
        home = home_of(alias)
        home.declare_all()
        found |= {f"{alias}:{path}": task for path, task in home.app.tasks.items()}
    return found


globals().update(_found())
