"""The kinds of stores, and which of them a test is about."""

import pytest

KINDS = ("memory", "file", "postgres16", "postgres18")
shared = pytest.mark.parametrize("kind", KINDS[1:], indirect=True)
"""For tests with several stores or processes: one in memory belongs to one connection alone."""
on_postgres = pytest.mark.parametrize("kind", KINDS[2:], indirect=True)
