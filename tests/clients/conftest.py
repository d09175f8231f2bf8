import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.upstream import Upstreams
from tests.clients.world import World

SETTINGS_OF_CLIENTS = ("anthropic_", "aws_", "gemini_", "google_", "openai_", "pg")


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies, keys and profiles of the machine would change what the clients do."""
    for name in os.environ:
        if name.lower().endswith("_proxy") or name.lower().startswith(SETTINGS_OF_CLIENTS):
            monkeypatch.delenv(name)


@pytest.fixture
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    with Upstreams() as upstreams:
        yield World(upstreams, tmp_path, request)
