"""The applications of a Django project, for commands: `--app seawall.django.application:default`.

Each name is that of a backend in TASKS. Asked for, it knows every task of the project.
"""

import django
from django.apps import apps

from seawall.app import Seawall


def __getattr__(name: str) -> Seawall:
    if name.startswith("__"):
        raise AttributeError(name)
    if not apps.ready:
        django.setup()
    from seawall.django.home import aliases, home_of  # noqa: PLC0415 - once Django is set up

    if name not in aliases():
        raise AttributeError(f"TASKS has no backend {name!r} of seawall's")
    home = home_of(name)
    home.declare_all()
    return home.app
