"""The pages of the examples: each goes through its document, and names tests that there are."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FOLDERS = sorted(
    each.name for each in (ROOT / "examples").iterdir() if (each / "__main__.py").exists()
)
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
LEADS_ELSEWHERE = re.compile(r"different|the same|below|above|none", re.IGNORECASE)
"""What a row without a test says instead."""
HEADING = "## Where each statement is kept\n"


def page_of(name):
    return (ROOT / "docs" / "examples" / f"{name}.md").read_text("utf-8")


def functions_of(path):
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {
        each.name
        for each in ast.walk(tree)
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize("name", FOLDERS)
def test_an_example_has_a_readme_a_page_and_one_command(name):
    readme = (ROOT / "examples" / name / "README.md").read_text("utf-8")
    assert f"make example NAME={name}" in readme
    assert f"make example NAME={name}" in page_of(name)
    assert f"({name}.md)" in page_of("index")


@pytest.mark.parametrize("name", FOLDERS)
def test_what_keeps_a_statement_is_a_test_that_there_is(name):
    _, there, table = page_of(name).partition(HEADING)
    assert there
    rows = [row for row in table.splitlines() if row.startswith("| ")][2:]
    rows = [row for row in rows if not row.startswith("| **")]  # a heading among them
    assert len(rows) > 15, "statement by statement"
    for row in rows:
        named = NAMED.findall(row)
        assert named or LEADS_ELSEWHERE.search(row), row
        for path, test in named:
            assert not test or test in functions_of(path), f"{path}::{test}"
