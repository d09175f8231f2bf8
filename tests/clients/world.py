"""What a case may use to raise its exception."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.upstream import Answer, Upstreams
from tests.support.postgres import Postgres


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

    def url(self, place: "Place") -> str:
        """The URL of an upstream that answers so, or behaves as its method of that name does."""
        if isinstance(place, Answer):
            return self.upstreams.answering(place)
        if place == "distrusted":
            return self.upstreams.distrusted(self.folder)
        start: Callable[[], str] = getattr(self.upstreams, place)
        return start()


Place = Answer | str
Raise = Callable[[World], object]
"""A case's way to raise: it must not return."""
