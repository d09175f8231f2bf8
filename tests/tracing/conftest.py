"""Both stores, and a provider that keeps what it is told."""

import pytest

from tests.life.world import Hand
from tests.support.tracing import traced

KINDS = ("file", "postgres18")


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def url(kind, tmp_path, request):
    if kind == "file":
        return f"sqlite:///{tmp_path}/jobs.db"
    fleet = request.getfixturevalue("postgres_fleet")
    return str(fleet.server(kind.removeprefix("postgres")).new_url())


@pytest.fixture
def seen():
    """The spans of this test."""
    with traced() as found:
        yield found


@pytest.fixture
def hire():
    """Workers on threads of this process, stopped at the end."""
    hands = []

    def hired(app, **how):
        hands.append(Hand(app, **how))
        return hands[-1]

    yield hired
    for hand in hands:
        hand.stop()
