"""What must become of every sample, told without a queue: by its kind and the provider's plan."""

import subprocess
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from examples.sample_factory import provider
from examples.sample_factory.provider import PROSE, Provider, trouble
from examples.sample_factory.samples import Kind, kind_of

ROOT = Path(__file__).parents[2]
ATTEMPTS = 3


@dataclass
class Expected:
    """How many samples end how, and how many attempts they need at each stage."""

    ends: Counter = field(default_factory=Counter)
    """By stage and end."""
    tries: dict[str, Counter] = field(
        default_factory=lambda: {"label": Counter(), "embed": Counter()}
    )


def expected(many: int) -> Expected:
    told = Expected()
    for number in range(1, many + 1):
        told.ends[_end(told, number)] += 1
    return told


def _end(told: Expected, number: int) -> tuple[str, str]:
    kind = kind_of(number)
    if kind in (Kind.NO_JSON, Kind.DAMAGED):
        return "keep", "failed"
    if kind is Kind.SHORT:
        return "keep", "skipped"
    tries = tries_of("chat", number)
    told.tries["label"][min(tries, ATTEMPTS)] += 1
    if tries > ATTEMPTS or number % 500 == PROSE:
        return "label", "failed"
    tries = ATTEMPTS + 1 if kind is Kind.LONG else tries_of("embeddings", number)
    told.tries["embed"][min(tries, ATTEMPTS)] += 1
    return ("embed", "failed") if tries > ATTEMPTS else ("measure", "succeeded")


def tries_of(endpoint: str, number: int) -> int:
    """The first call that is answered; one more than there may be where none is."""
    answered = (n for n in range(1, ATTEMPTS + 1) if trouble(endpoint, number, n) is None)
    return next(answered, ATTEMPTS + 1)


@contextmanager
def serving():
    """The example's provider, on a thread of this process."""
    with Provider("127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def url_of(server: Provider) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


def told(*words: str, seconds: float = 400) -> str:
    """What the one command says; it must end well."""
    done = subprocess.run(
        [sys.executable, "-m", "examples.sample_factory", *words],
        cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    return done.stdout


KEY = provider.KEY
