"""Whoever asks for a run, in a process of its own that may be killed while it does.

It is started by `python -m tests.runs.driver PIPELINE NAME ITEMS`, where ITEMS is a JSON Lines file.
"""

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from tests.runs import pipelines

SECONDS_FOR_A_THOUSAND = 0.3
"""Items come slowly, so that somebody can be killed among them."""


def slowly(path: str) -> Iterator[Any]:
    with open(path) as lines:  # noqa: PTH123
        for number, line in enumerate(lines, 1):
            if number % 100 == 0:
                time.sleep(SECONDS_FOR_A_THOUSAND / 10)
            yield json.loads(line)


def main() -> None:
    pipeline, name, items = sys.argv[1:]
    pipelines.app.tasks[pipeline].run(slowly(items), name=name, key=lambda item: item["id"])


if __name__ == "__main__":
    main()
