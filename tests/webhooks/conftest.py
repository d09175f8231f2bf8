"""A store, an application with quick webhooks, receivers on loopback, and workers on threads."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seawall import Seawall
from tests.life.world import Hand, Says
from tests.webhooks.jobs import made
from tests.webhooks.receiver import Receiver

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
def app(url: str) -> Iterator[Seawall]:
    """Whatever happened to its store, the books must balance at the end."""
    app = made(url)
    yield app
    assert app.store.verify().violations == ()
    app.close()


@pytest.fixture
def receivers() -> Iterator[Callable[..., Receiver]]:
    """Receivers that are up; those that are at the end go down."""
    every: list[Receiver] = []

    def new(**how: Any) -> Receiver:
        every.append(Receiver(**how).up())
        return every[-1]

    yield new
    for each in every:
        each.down()


@pytest.fixture
def receiver(receivers: Callable[..., Receiver]) -> Receiver:
    return receivers()


@pytest.fixture
def says() -> Iterator[Says]:
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
