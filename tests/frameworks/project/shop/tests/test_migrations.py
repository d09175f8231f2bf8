from io import StringIO

from django.core.management import call_command
from django.test import TestCase


class Migrations(TestCase):
    def test_the_models_are_what_the_migrations_make(self):
        call_command("makemigrations", "--check", "--dry-run", stdout=StringIO())
