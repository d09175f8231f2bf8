"""What all adapters share: their command line, their logging, the payloads of their jobs."""

import json
import logging
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any


def main(**verbs: Callable[..., dict[str, Any] | None]) -> None:
    """`python bench/peers/NAME.py VERB '{"url": …}'`: call it, print its answer as one line."""
    logging.basicConfig(level=logging.INFO)
    verb, given = sys.argv[1], json.loads(sys.argv[2])
    if verb not in verbs:
        answer: dict[str, Any] | None = {"cannot": f"has no way to {verb}"}
    else:
        answer = verbs[verb](**given)
    print(json.dumps(answer or {}), flush=True)


def payload(n: int = 0, size: int = 0, sent: float | None = None) -> dict[str, Any]:
    return {"n": n, "pad": "x" * size, "sent": sent}


def payloads(jobs: int, size: int) -> list[dict[str, Any]]:
    return [payload(n, size) for n in range(jobs)]


def pauses(jobs: int, gap: float) -> Iterator[dict[str, Any]]:
    """The payloads of `ticks`, each when it is time to send it."""
    for n in range(jobs):
        time.sleep(gap * random.uniform(0.5, 1.5))
        yield payload(n, sent=time.time())
