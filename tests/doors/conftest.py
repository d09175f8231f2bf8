"""The command line as a person types it: the fixture `seawall`."""

import os
import sys

import pytest

from seawall.__main__ import main


@pytest.fixture
def seawall(tmp_path, monkeypatch, capsys):
    """Run the command in an empty folder, with no setting from outside."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("SEAWALL_")]:
        monkeypatch.delenv(name)

    def run(*words, expect=0, **environ):
        with monkeypatch.context() as here:
            here.setattr(sys, "argv", ["seawall", *words])
            for name, value in {"COLUMNS": "200", "NO_COLOR": "1", **environ}.items():
                here.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                main()
        done = capsys.readouterr()
        assert (ended.value.code or 0) == expect, done.err
        return done.err if expect == 2 else done.out

    run.folder = tmp_path
    return run
