from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.upstream import Upstreams
from tests.clients.world import World


@pytest.fixture
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    with Upstreams() as upstreams:
        yield World(upstreams, tmp_path, request)
