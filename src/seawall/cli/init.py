"""`seawall init`: a small project that runs and has a passing test, to begin with.

Files are written only where none of that name is: all of them, or none.
"""

import os
import shlex
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from seawall.cli import show
from seawall.cli.show import AsJson
from seawall.errors import SeawallError

EXAMPLE = "Example: seawall init reports --template llm-pipeline"
_FILES = Path(__file__).parent / "templates"
_RENAMED = {"gitignore": ".gitignore"}
"""Files that would mean something where they are kept."""


class Template(StrEnum):
    """What there is to begin with."""

    PLAIN = "plain"
    LLM_PIPELINE = "llm-pipeline"
    GATEWAY = "gateway"


_PARTS = {
    Template.PLAIN: ("common", "plain"),
    Template.LLM_PIPELINE: ("common", "provider", "llm-pipeline"),
    Template.GATEWAY: ("common", "provider", "gateway"),
}
_NEXT = {
    Template.PLAIN: (
        "python -m pytest",
        "seawall enqueue --app jobs:app count_words path=README.md",
        "seawall worker --app jobs:app --drain",
        "seawall job 1",
    ),
    Template.LLM_PIPELINE: (
        "python -m pytest",
        "python provider.py &",
        "seawall runs start summaries items.jsonl --name first --app jobs:app",
        "seawall worker --app jobs:app --drain",
        "seawall run 1 report",
    ),
    Template.GATEWAY: (
        'pip install "seawall[server]" httpx',
        "python -m pytest",
        "python provider.py &",
        "uvicorn api:api",
    ),
}


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Where to; made if it is not there.")
    ] = Path(),
    template: Annotated[
        Template,
        typer.Option(
            help="plain: a task. llm-pipeline: stages that call a model. "
            "gateway: a FastAPI service that answers now or later."
        ),
    ] = Template.PLAIN,
    as_json: AsJson = False,
) -> None:
    """Write a small project that runs and has a passing test; nothing is ever overwritten."""
    files = _files_of(template)
    _write(folder, files)
    here = () if folder == Path() else (f"cd {shlex.quote(str(folder))}",)
    steps = [*here, *_NEXT[template]]
    if as_json:
        told = {"folder": str(folder), "template": str(template), "files": sorted(files)}
        show.print_json({**told, "next": steps})
        return
    console = show.console()
    where = "here" if folder == Path() else f"in {folder}"
    console.print(f"{len(files)} files are {where}: {', '.join(sorted(files))}", markup=False)
    console.print("Next:", markup=False)
    for step in steps:
        console.print(f"  {step}", markup=False, soft_wrap=True, style="cyan")


def _files_of(template: Template) -> dict[str, bytes]:
    """What the project is made of, by name."""
    return {
        _RENAMED.get(file.name, file.name): file.read_bytes()
        for part in _PARTS[template]
        for file in (_FILES / part).iterdir()
        if file.is_file()
    }


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """All of the files, or none."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise SeawallError(f"{folder}: is no folder; nothing was written")
    there = sorted(name for name in files if os.path.lexists(folder / name))
    if there:
        raise SeawallError(
            f"{', '.join(there)}: already there, and never overwritten; nothing was written. Name"
            " another folder: seawall init FOLDER"
        )
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            with (folder / name).open("xb") as file:
                written.append(folder / name)
                file.write(content)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        for path in made:
            with suppress(OSError):
                path.rmdir()
        why = (error.strerror or type(error).__name__).lower()
        raise SeawallError(f"{folder}: {why}; nothing was written") from None
