"""A store that more than one process can open, new and empty, and a crew of worker processes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seawall.store import Store, open_store
from tests.life.world import Crew, Effects, Hand, Says

KINDS = ("file", "postgres18")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


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
def effects(tmp_path: Path) -> Effects:
    return Effects(tmp_path / "effects")


@pytest.fixture
def crew(url: str, store: Store, tmp_path: Path, effects: Effects) -> Iterator[Crew]:
    """Worker processes; those that are alive at the end are killed."""
    with Crew(url, tmp_path, effects) as hired:
        yield hired


@pytest.fixture
def says() -> Iterator[Says]:
    """What workers of this process say."""
    with Says() as heard:
        yield heard


@pytest.fixture
def hire(says: Says) -> Iterator[Callable[..., Hand]]:
    """Workers on threads of this process, stopped at the end."""
    hands: list[Hand] = []

    def hired(app: Any, **how: Any) -> Hand:
        hands.append(Hand(app, **how))
        return hands[-1]

    yield hired
    for hand in hands:
        hand.stop()
