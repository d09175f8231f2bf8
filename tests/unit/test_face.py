"""The public face: what `import seawall` gives, and what it costs."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import seawall

SOURCE = Path(importlib.util.find_spec("seawall").origin)
HEAVY = {
    "aiohttp", "anthropic", "apsw", "asyncio", "botocore", "email", "fastapi", "google", "http", "httpx", "httpx2",
    "logging", "openai", "psycopg", "pydantic", "requests", "rich", "sqlite3", "structlog", "tomllib", "typer",
}  # fmt: skip


def modules_after(statement):
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_importing_seawall_imports_nothing_heavy():
    assert modules_after("import seawall").isdisjoint(HEAVY)


def test_deciding_imports_nothing_but_the_standard_library():
    loaded = modules_after(
        "from seawall import Backoff, Fault, FaultCode, Policy, Rule, classify, presets"
    )
    assert loaded - set(sys.stdlib_module_names) <= {"seawall", "__main__", "_virtualenv"} | {
        name
        for name in loaded
        if name.startswith(("_editable", "__editable", "_distutils", "distutils"))
    }
    assert loaded.isdisjoint(HEAVY - {"logging"})


@pytest.mark.parametrize("name", seawall.__all__)
def test_every_public_name_is_there(name):
    assert getattr(seawall, name) is not None
    assert name in dir(seawall)


def test_type_checkers_are_told_the_same_names_and_homes():
    tree = ast.parse(SOURCE.read_text())
    told = {
        alias.name: node.module.removeprefix("seawall").lstrip(".")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("seawall")
        for alias in node.names
    }
    for module in ("breaker", "budget", "presets", "retry_after"):
        told[module] += f".{module}"
    assert told == seawall._HOMES
    assert set(seawall.__all__) == {*told, "__version__"}


def test_an_unknown_name_is_an_ordinary_attribute_error():
    with pytest.raises(AttributeError, match="module 'seawall' has no attribute 'nonsense'"):
        _ = seawall.nonsense
    with pytest.raises(ImportError):
        from seawall import nonsense  # noqa: F401


def test_classify_is_the_function_and_presets_the_module():
    assert callable(seawall.classify)
    assert seawall.presets.get("default").name == "default"
