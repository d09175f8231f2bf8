"""Stores that more than one process can open, each new and empty: a file, PostgreSQL 16 and 18."""

from pathlib import Path

import pytest

KINDS = ("file", "postgres16", "postgres18")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The address of a store that nobody has opened yet; memory is one that only we can open."""
    if kind == "memory":
        return "sqlite://"
    if kind == "file":
        return f"sqlite:///{tmp_path}/jobs.db"
    fleet = request.getfixturevalue("postgres_fleet")
    return str(fleet.server(kind.removeprefix("postgres")).new_url())
