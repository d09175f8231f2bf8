"""Jobs that wait for a commit, and what the admin knows jobs and dead letters by."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar[list[object]] = [
        migrations.CreateModel(
            name="DeadLetter",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
            ],
            options={
                "verbose_name": "dead letter",
                "managed": False,
                "default_permissions": ("view", "change"),
            },
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
            ],
            options={
                "managed": False,
                "default_permissions": ("view", "change"),
            },
        ),
        migrations.CreateModel(
            name="Waiting",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("backend", models.CharField(max_length=200)),
                ("result", models.UUIDField(unique=True)),
                ("task", models.CharField(max_length=200)),
                ("queue", models.CharField(max_length=200)),
                ("upstream", models.CharField(blank=True, max_length=200)),
                ("priority", models.IntegerField()),
                ("run_after", models.DateTimeField(null=True)),
                ("request_id", models.CharField(blank=True, max_length=200)),
                ("trace", models.CharField(blank=True, max_length=600)),
                ("parent", models.BigIntegerField(null=True)),
                ("arguments", models.TextField()),
                ("refused", models.CharField(blank=True, max_length=200)),
                ("refused_at", models.DateTimeField(null=True)),
            ],
            options={
                "db_table": "seawall_django_waiting",
                "default_permissions": (),
            },
        ),
    ]
