"""Documents for the tests of `examples/llm_reports`, and what is left of them."""

import json
from dataclasses import dataclass

from examples.llm_reports import objects, table
from examples.llm_reports.app import reports
from seawall.testing import World
from tests.support.llm import Llm

GOOD = json.dumps({"title": "t", "summary": "s", "findings": ["f"], "risk": "low"})
META = {"title": "Tides", "author": "Ann", "pages": 3}


@dataclass
class Desk:
    """The application in memory, on a clock that the tests move; the rest is real."""

    world: World
    llm: Llm

    def put(self, path="a.txt", text="It rises and falls.", meta=META):
        objects.write(path, text.encode())
        objects.write(
            f"{path}.json", meta if isinstance(meta, bytes) else json.dumps(meta).encode()
        )
        return path

    def asked(self, path="a.txt"):
        """A job for a good document."""
        return reports.enqueue(self.put(path))

    def drained(self, path="a.txt"):
        job = self.asked(path)
        self.world.drain()
        return job

    def report(self, path="a.json"):
        return json.loads(objects.read(f"reports/{path}"))

    def rows(self):
        return {row.document: row for row in table.rows()}


def stages(job):
    """Where each attempt stood and how it ended."""
    return [(each.stage, str(each.outcome)) for each in job.attempts()]
