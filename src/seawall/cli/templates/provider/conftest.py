"""A provider for the tests: a real server, on a port of its own."""

import threading

import pytest
from provider import Provider


@pytest.fixture
def provider(monkeypatch):
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        monkeypatch.setenv("LLM_URL", server.url)
        yield server
        server.shutdown()
        thread.join()
