"""Both stores, an upstream that does as it is told, both faces of the call."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seawall import Seawall
from tests.life.world import Hand, Says
from tests.sync.jobs import application
from tests.sync.upstream import Said, Upstream

Caller = Callable[..., Any]
KINDS = ("memory", "postgres18")
"""One of each; where other processes take part, a test names a file instead."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if kind == "memory":
        return "sqlite://"
    if kind == "file":
        return f"sqlite:///{tmp_path}/jobs.db"
    fleet = request.getfixturevalue("postgres_fleet")
    return str(fleet.server(kind.removeprefix("postgres")).new_url())


@pytest.fixture
def app(url: str) -> Iterator[Seawall]:
    """Whatever was called through it, its books must balance at the end."""
    made = application(url, poll_seconds=0.05, lease_seconds=2)
    yield made
    assert made.verify().violations == ()
    made.close()


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Caller:
    """Ask for a call now, by one of the two faces."""
    if request.param == "sync":
        return lambda task, *args, **kwargs: task.call_or_enqueue(*args, **kwargs)
    return lambda task, *args, **kwargs: asyncio.run(task.acall_or_enqueue(*args, **kwargs))


@pytest.fixture
def upstream() -> Iterator[Callable[..., Upstream]]:
    """Make one that answers so, one call after the other, and then well."""
    made: list[Upstream] = []

    def new(*says: Said | int) -> Upstream:
        made.append(Upstream(*says).__enter__())
        return made[-1]

    yield new
    for each in made:
        each.__exit__()


@pytest.fixture
def says() -> Iterator[Says]:
    with Says() as heard:
        yield heard


@pytest.fixture
def hire() -> Iterator[Callable[..., Hand]]:
    """Workers on threads of this process, stopped at the end."""
    hands: list[Hand] = []

    def hired(app: Any, **how: Any) -> Hand:
        hands.append(Hand(app, **how))
        return hands[-1]

    yield hired
    for hand in hands:
        hand.stop()
