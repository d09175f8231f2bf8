"""What was measured so far, kept in `.bench`, so that a run that breaks off is not lost."""

import json
from typing import Any

from harness.environments import ROOT
from harness.rounds import Cell
from harness.suite import Found

FILE = ROOT / ".bench" / "results.json"


def save(found: list[Found], facts: str) -> None:
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps({"facts": facts, "found": [_plain(each) for each in found]}))


def load() -> tuple[list[Found], str]:
    data = json.loads(FILE.read_text())
    return [_found(each) for each in data["found"]], data["facts"]


def _plain(found: Found) -> dict[str, Any]:
    rows = [
        [*key, {column: [cell.reason, list(cell.rounds.items())] for column, cell in cells.items()}]
        for key, cells in found.table.items()
    ]
    return {"about": [found.scenario, found.title, found.columns], "rows": rows}


def _found(data: dict[str, Any]) -> Found:
    scenario, title, columns = data["about"]
    table = {
        (name, backend): {
            column: Cell(dict(rounds), reason) for column, (reason, rounds) in cells.items()
        }
        for name, backend, cells in data["rows"]
    }
    return Found(scenario, title, table, columns)
