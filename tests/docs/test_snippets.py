"""Docs that cannot lie: every snippet of README and docs runs, every command prints what it says."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from seawall.configuration import load
from tests.support.tracing import no_provider

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^(`{3,})(\w+)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)


def snippets(language):
    for page in PAGES:
        for place, found in enumerate(FENCED.finditer(page.read_text("utf-8")), 1):
            if found[2] == language:
                yield pytest.param(found[3], id=f"{page.relative_to(ROOT)}:{place}")


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("code", list(snippets("python")))
def test_a_python_snippet_runs(code, monkeypatch):
    monkeypatch.setattr("seawall.decisions.classify.CLASSIFIER._own", {})
    monkeypatch.setattr("seawall.telemetry.log_hooks._hooks", [])
    monkeypatch.delenv("SENTRY_DSN", raising=False)
    with no_provider():
        exec(compile(code, "snippet", "exec"), {"__name__": "snippet"})  # noqa: S102 - the point


@pytest.mark.parametrize("code", list(snippets("toml")))
def test_a_toml_snippet_is_a_configuration(code, tmp_path):
    (tmp_path / "seawall.toml").write_text(code, "utf-8")
    found = load(environ={})
    assert "my-llm" in found.policies or "openai" in found.upstreams


def told(snippet):
    """Each command of a console snippet, with what it is shown to print."""
    for part in re.split(r"^\$ ", snippet, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        if command.startswith("seawall "):
            yield command, shown


def console_snippets():
    """Each console snippet, with the files that its page shows before it (`# jobs.py` on top)."""
    for page in PAGES:
        files = {}
        for place, found in enumerate(FENCED.finditer(page.read_text("utf-8")), 1):
            named = re.match(r"# (\w+\.py)\n", found[3])
            if found[2] == "python" and named:
                files[named[1]] = found[3]
            if found[2] == "console":
                here = f"{page.relative_to(ROOT)}:{place}"
                yield pytest.param(found[3], dict(files), id=here)


@pytest.mark.parametrize(("snippet", "files"), list(console_snippets()))
def test_the_commands_of_a_page_print_what_it_shows_one_after_the_other(
    snippet, files, tmp_path, monkeypatch
):
    for name, content in files.items():
        (tmp_path / name).write_text(content, "utf-8")
    for name in [name for name in os.environ if name.startswith("SEAWALL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    for command, shown in told(snippet):
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(command)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        if shown:
            assert [line.rstrip() for line in done.stdout.splitlines()] == shown, command


def test_readme_is_short_and_names_both_commands():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 150
    assert "make demo" in text
    assert "make test" in text


def test_every_link_between_pages_leads_somewhere():
    for page in [*PAGES, *ROOT.glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
