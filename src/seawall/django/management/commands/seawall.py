"""`manage.py seawall …`: every command of seawall's, about the jobs of this project."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connections
from django.tasks import DEFAULT_TASK_BACKEND_ALIAS

from seawall.cli import run
from seawall.django import waiting
from seawall.django.home import Home, aliases, home_of
from seawall.errors import SeawallError
from seawall.settings import PREFIX
from seawall.why import times

_APP, _URL, _PATHS = PREFIX + "APP", PREFIX + "URL", "PYTHONPATH"


class Command(BaseCommand):
    """Hands the words over, once it is said whose jobs they are about."""

    help = (
        "Runs a command of seawall's for this project: worker, jobs, job, why, dead, redrive,"
        " retry, upstreams, doctor, verify, and all that `manage.py seawall` lists."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Its own words come before those of seawall's command."""
        parser.add_argument(
            "--backend",
            metavar="ALIAS",
            help="Which backend of TASKS; by default the only one of seawall's, or `default`.",
        )
        parser.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND …")

    def handle(self, *_: Any, **said: Any) -> None:
        """Run the command; its exit code is ours."""
        words = _without_djangos(said["words"])
        try:
            home = home_of(_chosen(said["backend"]))
            if words[:1] == ["worker"] and not home.place.direct:
                waiting.swept(home)
                home.app.close()  # what the command says of settings comes before it is in use
        except SeawallError as error:
            raise CommandError(str(error)) from None
        if words[:1] == ["doctor"] and not home.place.direct:
            self._tell_of_refused(home)
        connections.close_all()  # a worker's tasks open their own
        with _set_up(home, words):
            code = run(words)
        if code:
            sys.exit(code)

    def _tell_of_refused(self, home: Home) -> None:
        """What seawall's own doctor cannot know: it stands in the project's database."""
        try:
            many = waiting.refused(home).count()
        except DatabaseError:
            return  # its tables are not made yet
        if many:
            line = f"the store refused {times(many, 'job')} of transactions: see the admin, at Jobs"
            self.stderr.write(line)


def _chosen(said: str | None) -> str:
    ours = aliases()
    if said is None and len(ours) == 1:
        return ours[0]
    chosen = said or DEFAULT_TASK_BACKEND_ALIAS
    if chosen not in ours:
        there = ", ".join(ours) or "none"
        raise CommandError(f"--backend: TASKS has no {chosen!r} of seawall's; there is: {there}")
    return chosen


@contextmanager
def _set_up(home: Home, words: list[str]) -> Iterator[None]:
    """What seawall's commands, and processes that they start, find in their environment.

    Those that go on know the address by their application: what tasks start must not inherit it.
    Afterwards all is as it was: whoever calls a command goes on in this process.
    """
    before = {name: os.environ.get(name) for name in (_APP, _URL, _PATHS)}
    try:
        _tell(home, words)
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _tell(home: Home, words: list[str]) -> None:
    os.environ[_APP] = f"seawall.django.application:{home.alias}"
    if words[:1] not in (["worker"], ["serve"]):
        os.environ[_URL] = home.app.settings.url
    here = os.path.abspath(sys.path[0] or ".")  # noqa: PTH100 - a folder, or what is none
    paths = [path for path in os.environ.get(_PATHS, "").split(os.pathsep) if path]
    if here not in paths:
        os.environ[_PATHS] = os.pathsep.join([here, *paths])


def _without_djangos(words: list[str]) -> list[str]:
    """Django has read its own two already, wherever they stand."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--settings")
    parser.add_argument("--pythonpath")
    return parser.parse_known_args(words)[1]
