"""Docs that cannot lie: every snippet of README and docs runs, every command prints what it says."""

import os
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from seawall.__main__ import main
from seawall.configuration import load
from seawall.simulate import load_scenario
from tests.support.tracing import no_provider

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BUILT = {"django.md", "frameworks.md"}
"""Pages whose blocks make one whole: they have tests of their own."""
FENCED = re.compile(r"^(`{3,})(\w+)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)


def snippets(language):
    """Each snippet, with the files that its page shows before it (`# jobs.py` on top)."""
    for page in PAGES:
        if page.name in BUILT:
            continue
        files = {}
        for place, found in enumerate(FENCED.finditer(page.read_text("utf-8")), 1):
            if found[2] == language:
                here = f"{page.relative_to(ROOT)}:{place}"
                yield pytest.param(found[3], dict(files), id=here)
            named = re.match(r"# (\w+\.py)\n", found[3])
            if found[2] == "python" and named:
                files[named[1]] = found[3]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@contextmanager
def forgetting(folder):
    """What is imported from the folder meanwhile is not there any more afterwards."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture
def importable(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    with forgetting(tmp_path):
        yield


@pytest.mark.parametrize(("code", "files"), list(snippets("python")))
def test_a_python_snippet_runs(code, files, tmp_path, monkeypatch, importable):
    for name, content in files.items():
        (tmp_path / name).write_text(content, "utf-8")
    monkeypatch.setattr("seawall.decisions.classify.CLASSIFIER._own", {})
    monkeypatch.setattr(sys, "argv", ["snippet"])
    monkeypatch.setattr("seawall.telemetry.log_hooks._hooks", [])
    monkeypatch.delenv("SENTRY_DSN", raising=False)
    with no_provider():
        exec(compile(code, "snippet", "exec"), {"__name__": "snippet"})  # noqa: S102 - the point


@pytest.mark.parametrize(("code", "files"), list(snippets("toml")))
def test_a_toml_snippet_is_a_configuration_or_a_scenario(code, files, tmp_path):
    file = tmp_path / "seawall.toml"
    file.write_text(code, "utf-8")
    if "[[phases]]" in code:
        assert len(load_scenario(file).choices) > 1
        return
    found = load(environ={})
    assert "my-llm" in found.policies or "openai" in found.upstreams


def told(snippet):
    """Each command of a console snippet, with what it is shown to print."""
    for part in re.split(r"^\$ ", snippet, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        if command.startswith("seawall "):
            yield command, shown


@pytest.mark.parametrize(("snippet", "files"), list(snippets("console")))
def test_the_commands_of_a_page_print_what_it_shows_one_after_the_other(
    snippet, files, tmp_path, monkeypatch, capsys
):
    for name, content in files.items():
        (tmp_path / name).write_text(content, "utf-8")
    for name in [name for name in os.environ if name.startswith("SEAWALL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    for command, shown in told(snippet):
        run = alone if command.startswith("seawall worker") else here
        code, out, err = run(command, tmp_path, monkeypatch, capsys)
        assert code == 0, f"{command}: {out}{err}"
        if shown:
            assert [line.rstrip() for line in out.splitlines()] == shown, command


def alone(command, tmp_path, monkeypatch, capsys):
    """In a process of its own: a worker takes over signals and threads."""
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(command)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def here(command, tmp_path, monkeypatch, capsys):
    """In this process, which has imported everything already; what it imports is forgotten."""
    with monkeypatch.context() as only, forgetting(tmp_path):
        only.setattr(sys, "argv", shlex.split(command))
        only.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as ended:
            main()
    done = capsys.readouterr()
    return ended.value.code or 0, done.out, done.err


def test_readme_is_short_and_names_both_commands():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 150
    assert "make demo" in text
    assert "make test" in text


def test_every_link_between_pages_leads_somewhere():
    for page in [*PAGES, *ROOT.glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
