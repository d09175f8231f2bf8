"""What a case may use to raise its exception."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.upstream import Answer, Upstreams
from tests.support.postgres import Postgres

SHORT_SECONDS = 0.2
"""The client's patience where its timeout is the point of the case."""
LONG_SECONDS = 30.0
"""Its patience everywhere else, so that a busy machine turns no other case into a timeout."""

Place = Answer | str
"""An answer, or the name of a method of `Upstreams`: how the upstream behaves."""
NOWHERE = "http://nonexistent.invalid"
"""A name that no server of names ever knows."""


@dataclass(frozen=True)
class World:
    """The loopback upstreams, an empty folder, and a database that starts when it is asked for."""

    upstreams: Upstreams
    folder: Path
    request: pytest.FixtureRequest

    @property
    def postgres(self) -> Postgres:
        server: Postgres = self.request.getfixturevalue("postgres")
        return server

    def url(self, place: Place) -> str:
        if isinstance(place, Answer):
            return self.upstreams.answering(place)
        if place == "distrusted":
            return self.upstreams.distrusted(self.folder)
        if place == "nowhere":
            return NOWHERE
        start: Callable[[], str] = getattr(self.upstreams, place)
        return start()


Raise = Callable[[World], object]
"""A case's way to raise its exception; it must not return."""


def patience(place: Place) -> float:
    is_slow = isinstance(place, str) and place.startswith(("stalling", "deaf"))
    return SHORT_SECONDS if is_slow else LONG_SECONDS
