"""The command line as a person types it: the fixture `seawall`, and `start` for what keeps running."""

import os
import sys
from itertools import count

import pytest

from seawall.__main__ import main
from tests.support.doors import TASKS, Started
from tests.support.terminal import Terminal

_NUMBERS = count()


@pytest.fixture
def seawall(tmp_path, monkeypatch, capsys):
    """Run the command in an empty folder, with no setting from outside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in [name for name in os.environ if name.startswith("SEAWALL_")]:
        monkeypatch.delenv(name)

    def run(*words, expect=0, **environ):
        with monkeypatch.context() as here:
            here.setattr(sys, "argv", ["seawall", *map(str, words)])
            for name, value in {"COLUMNS": "200", "NO_COLOR": "1", **environ}.items():
                here.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                main()
        done = capsys.readouterr()
        run.err = done.err
        assert (ended.value.code or 0) == expect, done.err
        return done.err if expect == 2 else done.out

    run.folder = tmp_path
    run.err = ""
    return run


@pytest.fixture
def module(seawall):
    """Write a module of this source into the folder; the name of a new one each time."""

    def write(source=TASKS, *, url="sqlite:///jobs.db"):
        name = f"tasks_{os.getpid()}_{next(_NUMBERS)}"
        text = source.replace("{url!r}", repr(url)).replace("{{", "{").replace("}}", "}")
        (seawall.folder / f"{name}.py").write_text(text, "utf-8")
        return name

    return write


@pytest.fixture
def app(module):
    """`--app` of the usual tasks."""
    return f"{module()}:app"


@pytest.fixture
def start(seawall):
    """Start a command; it is killed at the end of the test if it still runs."""
    running = []

    def begin(*words):
        running.append(Started(words, seawall.folder, len(running)))
        return running[-1]

    yield begin
    for each in running:
        if each.process.poll() is None:
            each.process.kill()
        each.process.wait()


@pytest.fixture
def terminal(seawall):
    made = []

    def begin(*words, **how):
        made.append(Terminal(seawall.folder, *words, **how))
        return made[-1]

    yield begin
    for each in made:
        each.close()
