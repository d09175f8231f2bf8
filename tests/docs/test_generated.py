"""Every command, setting, event, fault code and preset is documented."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer

from seawall import FaultCode, presets, settings, telemetry, webhooks
from seawall.cli import app

ROOT = Path(__file__).parent.parent.parent


def test_the_generated_parts_are_as_the_code_says():
    tool = ROOT / "tools" / "generate_docs.py"
    done = subprocess.run(
        [sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def commands(path, command):
    yield f"`{path}`"
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(f"{path} {name}", child)


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("faults.md", [f"`{code}`" for code in FaultCode]),
        ("policies.md", [f"### `{name}`" for name in presets.names()]),
        ("settings.md", [f"`{settings.variable(name)}`" for name in settings.names()]),
        ("events.md", [f"`{event.name}`" for event in telemetry.EVENTS]),
        ("webhooks.md", [f"`{name}`" for name in webhooks.EVENTS]),
        ("commands.md", [*commands("seawall", typer.main.get_command(app))][1:]),
    ],
)
def test_nothing_is_left_out(page, words):
    text = (ROOT / "docs" / page).read_text("utf-8")
    assert [word for word in words if word not in text] == []


def test_every_event_class_is_listed():
    def descendants(kind):
        return {kind, *(d for child in kind.__subclasses__() for d in descendants(child))}

    named = {event for event in descendants(telemetry.Event) if hasattr(event, "name")}
    assert {event.__name__ for event in named} == {event.__name__ for event in telemetry.EVENTS}
