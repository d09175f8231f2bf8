"""What stands in the project's own database, and what stands for seawall's rows in its admin.

`Waiting` is a table. `Job` and `DeadLetter` are none: jobs are where their store is, and these give
the admin a name, an address and permissions for them.
"""

from typing import ClassVar

from django.db import models

from seawall.model import LONGEST_TRACE


class Waiting(models.Model):
    """A job whose transaction is open, or has committed a moment ago."""

    backend = models.CharField(max_length=200)
    result = models.UUIDField(unique=True)
    task = models.CharField(max_length=200)
    queue = models.CharField(max_length=200)
    upstream = models.CharField(max_length=200, blank=True)
    priority = models.IntegerField()
    run_after = models.DateTimeField(null=True)
    request_id = models.CharField(max_length=200, blank=True)
    trace = models.CharField(max_length=LONGEST_TRACE, blank=True)
    parent = models.BigIntegerField(null=True)
    """The job whose task asked for it."""
    arguments = models.TextField()
    refused = models.CharField(max_length=200, blank=True)
    """Why the store would not take it."""
    refused_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "seawall_django_waiting"
        """A name that no table of the store has, wherever that is."""
        default_permissions: ClassVar[tuple[str, ...]] = ()

    def __str__(self) -> str:
        return f"{self.task} {self.result}"


class Job(models.Model):
    """Stands for a job."""

    backend = ""

    class Meta:
        managed = False
        default_permissions: ClassVar[tuple[str, ...]] = ("view", "change")

    def __str__(self) -> str:
        return f"job {self.pk}{_of(self.backend)}"


class DeadLetter(models.Model):
    """Stands for what a failed job left."""

    backend = ""

    class Meta:
        managed = False
        default_permissions: ClassVar[tuple[str, ...]] = ("view", "change")
        verbose_name = "dead letter"

    def __str__(self) -> str:
        return f"dead letter of job {self.pk}{_of(self.backend)}"


def _of(backend: str) -> str:
    """Numbers of jobs are those of one backend."""
    return f" of {backend}" if backend else ""
