"""What `manage.py check` says about TASKS, a line for each mistake."""

import os
import sqlite3
import unittest
from contextlib import closing, contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from django.conf import settings
from django.core.checks import run_checks
from django.core.management import call_command, execute_from_command_line
from django.db import connections
from django.test import SimpleTestCase, modify_settings, override_settings

from seawall import Policy, Upstream
from seawall.django import address, application, runs_with
from seawall.django.management.commands import seawall as command
from seawall.errors import ConfigurationError
from shop import tasks

SEAWALL = "seawall.django.SeawallBackend"


def tasks_with(**options):
    chosen = {**settings.TASKS["default"]["OPTIONS"], **options}
    return override_settings(TASKS={"default": {"BACKEND": SEAWALL, "OPTIONS": chosen}})


@contextmanager
def database_at(name):
    """Django has another database in that file, until the end of the block."""
    given = {"ENGINE": "django.db.backends.sqlite3", "NAME": name}
    connections.settings["other"] = connections.configure_settings({"default": given})["default"]
    try:
        yield
    finally:
        del connections["other"]
        del connections.settings["other"]


class Checks(SimpleTestCase):
    def said(self):
        return [f"{each.id} {each.msg}" for each in run_checks() if each.id.startswith("seawall")]

    def test_good_settings_are_not_spoken_of(self):
        self.assertEqual(self.said(), [])

    @modify_settings(INSTALLED_APPS={"remove": ["seawall.django"]})
    def test_an_application_that_is_not_installed(self):
        (line,) = self.said()
        self.assertIn("seawall.E001", line)
        self.assertIn("INSTALLED_APPS", line)

    def test_words_that_are_none(self):
        for option, value, word in (
            ("lease_second", 5, "did you mean lease_seconds?"),
            ("lease_seconds", "long", "lease_seconds"),
            ("database", "nowhere", "DATABASES"),
            ("policy", "none-such", "none-such"),
        ):
            with self.subTest(option), tasks_with(**{option: value}):
                said = self.said()
                self.assertTrue(said)
                self.assertTrue(said[0].startswith(("seawall.E002", "seawall.E003")), said)
                self.assertIn(word, said[0])

    def test_a_policy_of_a_task_that_is_none(self):
        with patch.object(tasks.add.func, "__seawall_runs_with__", None, create=True):
            runs_with(policy="none-such")(tasks.add.func)
            with tasks_with():
                (line,) = self.said()
        self.assertIn("seawall.E003 task shop.tasks.add", line)
        self.assertIn("none-such", line)

    def test_two_backends_in_one_store(self):
        both = {"a": {"BACKEND": SEAWALL}, "default": {"BACKEND": SEAWALL}}
        with override_settings(TASKS=both), patch.object(address, "in_tests", lambda: False):
            (line,) = self.said()
        self.assertIn("seawall.E004", line)

    def test_two_backends_in_one_file_by_two_paths(self):
        files = ("sqlite:///jobs.db", f"sqlite:///{Path('jobs.db').absolute()}")
        both = {
            name: {"BACKEND": SEAWALL, "OPTIONS": {"url": url}}
            for name, url in zip(("a", "default"), files, strict=True)
        }
        with override_settings(TASKS=both), patch.object(address, "in_tests", lambda: False):
            (line,) = self.said()
        self.assertIn("seawall.E004", line)

    def test_a_store_in_a_file_of_djangos_own(self):
        folder = Path(self.enterContext(TemporaryDirectory()))
        own, link, hard = folder / "db.sqlite3", folder / "link", folder / "hard"
        own.touch()
        link.symlink_to(own)
        hard.hardlink_to(own)
        unmade = folder / "unmade"
        self.enterContext(patch.object(address, "in_tests", lambda: False))
        for name, path in (
            (own, own), (str(own), link), (link, own), (own, hard), (unmade, unmade),
            (f"file:{own}?mode=rwc", own), (unmade, folder / "x" / ".." / "unmade"),
        ):  # fmt: skip
            with self.subTest(name=name, path=path), database_at(name):
                with tasks_with(url=f"sqlite:///{path}"):
                    (line,) = self.said()
                    self.assertIn("seawall.E005", line)
                    self.assertIn("DATABASES['other']", line)
                    with self.assertRaisesMessage(ConfigurationError, "DATABASES['other']"):
                        application()
                with tasks_with(url=f"sqlite:///{folder}/another"):
                    self.assertEqual(self.said(), [])

    def test_policies_and_upstreams_may_be_given_in_python(self):
        mine = Policy(name="mine", max_attempts=7)
        with tasks_with(policies=[mine], policy="mine", upstreams=[Upstream(name="api")]):
            self.assertEqual(self.said(), [])
            self.assertEqual(application().policy().max_attempts, 7)


class Commands(SimpleTestCase):
    def test_what_a_command_finds_in_its_environment_is_gone_with_it(self):
        url = "postgresql://ann:hunter2@127.0.0.1:1/nothing"
        self.enterContext(patch.object(address, "in_tests", lambda: False))
        self.enterContext(patch.dict(os.environ, {"SEAWALL_APP": "mine:app"}))
        os.environ.pop("SEAWALL_URL", None)
        before, seen = dict(os.environ), []

        def run(words):
            seen.append({name: os.environ.get(name) for name in ("SEAWALL_URL", "SEAWALL_APP")})
            if words == ["verify"]:
                raise KeyboardInterrupt
            return len(words) - 1

        with tasks_with(url=url), patch.object(command, "run", run):
            call_command("seawall", "jobs")
            with self.assertRaises(SystemExit):
                call_command("seawall", "jobs", "--all")
            with self.assertRaises(KeyboardInterrupt):
                call_command("seawall", "verify")
        ours = {"SEAWALL_URL": url, "SEAWALL_APP": "seawall.django.application:default"}
        self.assertEqual(seen, [ours] * 3)
        self.assertEqual(dict(os.environ), before)

    def test_a_mistake_is_one_line(self):
        with redirect_stderr(StringIO()) as told, self.assertRaises(SystemExit) as end:
            execute_from_command_line(["manage.py", "seawall", "--backend", "none", "jobs"])
        self.assertEqual(end.exception.code, 1)
        line = "CommandError: --backend: TASKS has no 'none' of seawall's; there is: default"
        self.assertEqual(told.getvalue().strip(), line)

    def test_words_of_djangos_own_are_none_of_ours(self):
        with patch.object(command, "run", return_value=0) as run:
            words = ["--settings", "shop.settings", "jobs", "--all", "--pythonpath", "."]
            execute_from_command_line(["manage.py", "seawall", *words])
        run.assert_called_once_with(["jobs", "--all"])


class Migrating(unittest.TestCase):
    """Not Django's: it has a database that no settings name."""

    def test_migrate_refuses_a_store_in_the_file_of_the_database_and_makes_none(self):
        file = Path(self.enterContext(TemporaryDirectory())) / "db.sqlite3"
        self.enterContext(patch.object(address, "in_tests", lambda: False))
        self.enterContext(database_at(file))
        self.enterContext(tasks_with(url=f"sqlite:///{file}", database="other"))
        migrate = ["manage.py", "migrate", "-v0", "--database", "other"]
        for words, said in (([], "seawall.E005"), (["--skip-checks"], "")):
            with redirect_stderr(StringIO()) as told, self.assertRaises(SystemExit):
                execute_from_command_line([*migrate, *words])
            self.assertIn(said, told.getvalue())
            self.assertIn("DATABASES['other'] are in one file", told.getvalue())
            self.assertNotIn("Traceback", told.getvalue())
        with closing(sqlite3.connect(file)) as database:
            made = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
        self.assertIn("seawall_django_waiting", made)
        self.assertNotIn("seawall_job", made)


class Places(SimpleTestCase):
    def test_a_database_of_django_as_libpq_takes_it(self):
        plain = {
            "dbname": "shop",
            "user": "ann",
            "password": "p@ss/wörd",
            "host": "db",
            "port": "6",
        }
        url = address.url_of(plain)
        self.assertEqual(url, "postgresql://ann:p%40ss%2Fw%C3%B6rd@db:6/shop")
        socket = {"dbname": "shop", "host": "/run/pg", "port": "6", "sslmode": "require"}
        self.assertEqual(
            address.url_of(socket), "postgresql:///shop?host=%2Frun%2Fpg&port=6&sslmode=require"
        )
        self.assertEqual(address.url_of({"service": "shop"}), "postgresql:///?service=shop")

    def test_what_libpq_reads_is_what_was_said(self):
        try:
            from psycopg.conninfo import conninfo_to_dict
        except ImportError:
            self.skipTest("without psycopg")
        for said in (
            {"dbname": "a b", "user": "ü", "password": ":@/?#%", "host": "::1", "port": "1"},
            {"dbname": "a", "host": "one,two", "port": "1,2", "connect_timeout": "3"},
            {"service": "shop", "passfile": "/home/x y"},
        ):
            self.assertEqual(conninfo_to_dict(address.url_of(said)), said)
