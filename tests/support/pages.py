"""A page of the docs as steps: files to be written, and commands to be run, from top to bottom.

A Python block whose first line names a file is that file; `(at the end)` adds to one that is there.
"""

import re
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parent.parent.parent / "docs"
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# ([\w/.]+\.py)(?: \(([^)]+)\))?\n")


class Step(NamedTuple):
    """A file, or a line for a shell."""

    file: str | None = None
    content: str = ""
    when: str = ""
    """`at the end`, or the case that it is for."""
    command: str = ""


def steps(page: str) -> list[Step]:
    found = []
    for language, text in FENCED.findall((DOCS / page).read_text("utf-8")):
        if language == "sh":
            found += [Step(command=line) for line in text.splitlines()]
        elif language == "python":
            named = FILE.match(text)
            assert named, f"{page}: a block without a file: {text[:60]}"
            found.append(Step(named[1], text, named[2] or ""))
    return found


def write(step: Step, folder: Path) -> None:
    path = folder / step.file
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a" if step.when else "w", encoding="utf-8") as file:
        file.write(f"\n{step.content}" if step.when else step.content)
