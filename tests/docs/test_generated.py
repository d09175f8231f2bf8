"""Every command, setting, event, fault code and preset is documented."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import seawall
from seawall import FaultCode, presets, settings, states, telemetry, webhooks
from seawall.cli import app
from seawall.telemetry.fields import EVERYWHERE, FIELDS
from seawall.telemetry.span_words import SPANS, Attr

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
        ("events.md", [f"| `{name}` |" for name in (*FIELDS, *EVERYWHERE)]),
        ("tracing.md", [f"| `{' '.join(w[:2]).strip()}` |" for w in SPANS]),
        ("tracing.md", [f"| `{attr}` |" for attr in Attr]),
        ("webhooks.md", [f"`{name}`" for name in webhooks.EVENTS]),
        ("commands.md", [*commands("seawall", typer.main.get_command(app))][1:]),
    ],
)
def test_nothing_is_left_out(page, words):
    text = (ROOT / "docs" / page).read_text("utf-8")
    assert [word for word in words if word not in text] == []


def test_every_field_of_every_event_has_a_meaning_and_no_other():
    said = {field.name for event in telemetry.EVENTS for field in dataclasses.fields(event)}
    assert said == set(FIELDS)
    assert not said & set(EVERYWHERE)
    assert all(meaning.endswith(".") for meaning in (*FIELDS.values(), *EVERYWHERE.values()))


def test_every_flag_that_stands_for_a_setting_has_its_name():
    """What a command can be told, the environment and the file can say as well."""
    known = {settings.flag(name) for name in settings.names()}
    for name in ("worker", "serve"):
        command = typer.main.get_command(app).commands[name]
        flags = {flag for each in command.params for flag in each.opts}
        assert flags - known == NOT_SETTINGS[name]


NOT_SETTINGS = {
    "worker": {
        "--app",
        "--queues",
        "--processes",
        "--drain",
        "--config",
        "--supervised",
        "--metrics-port",
        "--metrics-host",
    },
    "serve": {"--app", "--dev-no-auth", "--config"},
}
"""What is about one start of the command, not about the application."""


def test_every_event_class_is_listed():
    def descendants(kind):
        return {kind, *(d for child in kind.__subclasses__() for d in descendants(child))}

    named = {event for event in descendants(telemetry.Event) if hasattr(event, "name")}
    assert {event.__name__ for event in named} == {event.__name__ for event in telemetry.EVENTS}


def test_the_picture_of_the_states_has_every_state_and_every_move():
    picture = (ROOT / "docs" / "assets" / "states.svg").read_text("utf-8")
    words = re.findall(r'<text class="word"[^>]*>([^<]+)</text>', picture)
    drawn = [move for word in words for move in word.split(", ")]
    assert sorted(drawn) == sorted(str(row.move) for row in states.TRANSITIONS)
    names = re.findall(r'<text class="name"[^>]*>([^<]+)</text>', picture)
    assert sorted(names) == sorted(map(str, states.State))


def test_the_picture_of_a_life_tells_what_happened():
    picture = (ROOT / "docs" / "assets" / "life.svg").read_text("utf-8")
    for words in ("1: stage 0, advanced", "2: stage 1, retried (TIMEOUT)", "3: stage 1, succeeded"):
        assert words in picture


def test_every_public_name_is_in_the_reference_with_a_word_about_it():
    index = (ROOT / "docs" / "reference" / "index.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| \[`([\w.]+)`\]\([^)]+\) \| (.*) \|$", index, re.MULTILINE))
    public = {name for name in seawall.__all__ if not name.startswith("__")}
    assert public <= rows.keys()
    assert [name for name, said in rows.items() if not said.strip()] == []
