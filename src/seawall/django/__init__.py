"""For Django: a backend for its own task API, commands of manage.py, and pages in the admin.

    TASKS = {"default": {"BACKEND": "seawall.django.SeawallBackend"}}
    INSTALLED_APPS = [..., "seawall.django"]

Tasks are Django's (`django.tasks.task`), and so are their results; what runs them is a worker of
seawall, with its policies, upstreams and dead letters: `manage.py seawall worker`.
"""

try:
    import django.tasks
except ImportError:
    raise ImportError(
        'seawall.django needs Django 6 or later, which has django.tasks: pip install "django>=6"'
    ) from None

from seawall.django.backend import SeawallBackend
from seawall.django.home import application
from seawall.django.options import runs_with

__all__ = ["SeawallBackend", "application", "runs_with"]

del django
