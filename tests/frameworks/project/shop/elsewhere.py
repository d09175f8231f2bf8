"""A module that nothing imports but whoever enqueues from it."""

from django.tasks import task


@task
def found_by_its_path():
    return "found"
