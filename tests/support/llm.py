"""A real LLM provider for the tests: `llmock`, a server that speaks as OpenAI, Anthropic and others
do, breaks as it is told, and judges how its clients coped.

    def test_something(llm):                         # one server for a process of tests, reset
        client = openai.OpenAI(base_url=llm.base_url("openai"), api_key="any", max_retries=0)
        llm.behave(llm.rate_limited(times=2, retry_after=0.5), llm.truncated(after_chunks=3))
        ...
        assert len(llm.requests()) == 3
        assert llm.verdict()["passed"]

Behaviours wait in a queue, each for the next request that it matches, `times` often (None: for
ever); of each kind a request takes the first, and a failure goes before all others. `match` is any
of provider, model, path (with wildcards), stream, tools. Faults by chance, quotas and latency are
settings of a server of one's own, without a seed: `with running("--error-rate", "429=0.2",
"--stream-fault", "truncate=0.1", "--stream-fault", "stall=0.05", "--rpm", "600") as llm:`.

It remembers the last `MOST_REMEMBERED` requests, with their bodies.
"""

import http.client
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import pytest

from tests.support.processes import (
    ATTEMPTS_TO_FIND_PORTS,
    answers,
    cannot,
    free_ports,
    scratch,
    server,
)

MOST_REMEMBERED = 1_000_000
_PROGRAM = f"""
from llmock import cli, journal
journal.Journal.__init__.__defaults__ = ({MOST_REMEMBERED},)  # by itself it keeps the last 10,000
cli.app()
"""
_BASES = {"openai": "/v1", "anthropic": "/anthropic", "gemini": "/gemini"}

Behaviour = dict[str, Any]


@dataclass(frozen=True)
class Llm:
    """A running provider."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def base_url(self, provider: str = "openai") -> str:
        """What that provider's client takes as `base_url`."""
        return self.url + _BASES[provider]

    def behave(self, *behaviours: Behaviour) -> None:
        """Queue these for the requests to come."""
        self._ask("POST", "/_llmock/scenario", {"behaviors": behaviours})

    def requests(self) -> list[dict[str, Any]]:
        """What was asked since the reset: status, fault, model, stream, body, times and more."""
        return self._ask("GET", "/_llmock/requests")["requests"]

    def verdict(self) -> dict[str, Any]:
        """How the clients coped: `passed`, `errors`, `warnings`, `findings`."""
        return self._ask("GET", "/_llmock/verdict")

    def well(self) -> None:
        """Forget all behaviours that wait: the outage is over."""
        self._ask("DELETE", "/_llmock/scenario")

    def reset(self) -> None:
        """Forget requests and behaviours."""
        self._ask("POST", "/_llmock/reset")

    @staticmethod
    def failing(status: int, *, times: int | None = 1, **how: Any) -> Behaviour:
        """Answer with this status, in the provider's own words."""
        return {"type": "fail", "status": status, "times": times, **how}

    @staticmethod
    def rate_limited(*, retry_after: float = 1.0, times: int | None = 1, **how: Any) -> Behaviour:
        return {"type": "fail", "status": 429, "retry_after": retry_after, "times": times, **how}

    @staticmethod
    def outage(status: int = 503, **how: Any) -> Behaviour:
        """Every request fails, until `well`."""
        return {"type": "fail", "status": status, "times": None, **how}

    @staticmethod
    def slow(seconds: float, *, times: int | None = 1, **how: Any) -> Behaviour:
        """Answer late, streamed or not."""
        return {"type": "delay", "seconds": seconds, "times": times, **how}

    @staticmethod
    def truncated(*, after_chunks: int = 1, times: int | None = 1, **how: Any) -> Behaviour:
        """End a stream early, cleanly, with no finish reason: no client notices by itself."""
        return _stream_fault("truncate", after_chunks, times, how)

    @staticmethod
    def cut_off(*, after_chunks: int = 1, times: int | None = 1, **how: Any) -> Behaviour:
        """Drop the connection of a stream."""
        return _stream_fault("disconnect", after_chunks, times, how)

    @staticmethod
    def corrupted(*, after_chunks: int = 1, times: int | None = 1, **how: Any) -> Behaviour:
        """Send a chunk of a stream that is no JSON."""
        return _stream_fault("malformed", after_chunks, times, how)

    @staticmethod
    def stalled(
        seconds: float = 30.0, *, after_chunks: int = 1, times: int | None = 1, **how: Any
    ) -> Behaviour:
        """Stop sending in the middle of a stream."""
        return _stream_fault("stall", after_chunks, times, {"stall_seconds": seconds, **how})

    @staticmethod
    def saying(text: str, *, times: int | None = 1, **how: Any) -> Behaviour:
        """Answer this; with `finish_reason="length"`, as one that ran out of tokens."""
        return {"type": "reply", "text": text, "times": times, **how}

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            told = answer.read().decode()
        finally:
            connection.close()
        assert answer.status < http.HTTPStatus.BAD_REQUEST, f"{method} {path}: {told}"
        return json.loads(told)


def _stream_fault(kind: str, after: int, times: int | None, how: dict[str, Any]) -> Behaviour:
    return {"type": "stream_fault", "kind": kind, "after_chunks": after, "times": times, **how}


@contextmanager
def running(*flags: str) -> Iterator[Llm]:
    """A server of one's own, with these flags of `llmock serve`."""
    if find_spec("llmock") is None:
        cannot("llmock is not installed: run `make setup`")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LLMOCK_")}
    with scratch("llm") as folder:
        for _ in range(ATTEMPTS_TO_FIND_PORTS):
            (port,) = free_ports(1)
            words = ["serve", "--host", "127.0.0.1", "--port", str(port), "--log-level", "warning"]
            command = [sys.executable, "-c", _PROGRAM, *words, *flags]
            with server(
                command, lambda port=port: answers(port, "/health"), folder=folder, environ=environ
            ) as process:
                if process is not None:
                    yield Llm(port)
                    return
        raise RuntimeError(f"llmock did not start: {(folder / 'log').read_text()[-2_000:]}")


@pytest.fixture(scope="session")
def llm_server() -> Iterator[Llm]:
    with running() as found:
        yield found


@pytest.fixture
def llm(llm_server: Llm) -> Llm:
    """The provider, well and with nothing remembered."""
    llm_server.reset()
    return llm_server
