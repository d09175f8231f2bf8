"""A store that many processes can open, an upstream that does as it is told, a fleet between them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from seawall import Seawall
from seawall.store import Store, open_store
from tests.upstreams.server import Server
from tests.upstreams.world import Fleet


@pytest.fixture
def kind() -> str:
    """Where a test asks for no other."""
    return "file"


@pytest.fixture
def url(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if kind == "file":
        return f"sqlite:///{tmp_path}/jobs.db"
    fleet = request.getfixturevalue("postgres_fleet")
    return str(fleet.server(kind.removeprefix("postgres")).new_url())


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """Opened by the test itself; whatever happened to it, its books must balance at the end."""
    with open_store(url) as opened:
        yield opened
        assert opened.verify().violations == ()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as serving:
        yield serving


@pytest.fixture
def fleet(url: str, store: Store, tmp_path: Path, server: Server) -> Iterator[Fleet]:
    """Worker processes; those that are alive at the end are killed. None may have had trouble."""
    with Fleet(url, tmp_path, server) as hired:
        yield hired
    for process in hired.everyone:
        assert process.errors() == ""
        assert process.said("upkeep_failed") == []


@pytest.fixture
def app(url: str, store: Store) -> Iterator[Seawall]:
    """The workers' application, in this process: for people."""
    from tests.upstreams.jobs import app

    app.configure(url=url)
    yield app
    app.close()
