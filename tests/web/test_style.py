"""The pages' own files: nothing in them that nobody uses, and no size that is not one of the scale."""

import re
from pathlib import Path

import pytest

import seawall.web

WEB = Path(seawall.web.__file__).parent
TEMPLATES = sorted((WEB / "templates").glob("*.html"))
STYLE = (WEB / "static" / "seawall.css").read_text("utf-8")
TEXTS = {path.name: path.read_text("utf-8") for path in TEMPLATES}
LONGEST_LINE = 140


@pytest.mark.parametrize("name", TEXTS)
def test_a_templates_lines_can_be_read(name):
    assert [line for line in TEXTS[name].splitlines() if len(line) > LONGEST_LINE] == []


@pytest.mark.parametrize("name", TEXTS)
def test_a_template_uses_what_it_imports(name):
    for names in re.findall(r'{% from "pieces.html" import ([^%]+) %}', TEXTS[name]):
        for each in names.split(","):
            word = each.split()[-1]
            assert re.search(rf"\b{word}\(", TEXTS[name]), f"{word} is not used"


def test_every_piece_is_used():
    found = re.findall(r"{% macro (\w+)\(", TEXTS["pieces.html"])
    every = "".join(TEXTS.values())
    for word in found:
        assert len(re.findall(rf"\b{word}(?:\(| as )", every)) > 1, f"{word} is not used"


def test_type_has_one_scale():
    sizes = re.findall(r"(?<!--)font(?:-size)?: ([^;}]*)", STYLE)
    named = {
        "inherit",
        "var(--tiny)",
        "var(--small)",
        "var(--text)",
        "var(--title)",
        "var(--large)",
    }
    for each in sizes:
        first = re.split(r"[ /]", each)[0]
        assert first in named, each


def test_the_style_has_no_rule_for_what_is_not_there():
    """States and kinds are classes too: they are words of the code."""
    rules = re.sub(r"/\*.*?\*/|\{[^{}]*\}", " ", STYLE, flags=re.DOTALL)
    code = [path.read_text("utf-8") for path in (WEB.parent).rglob("*.py")]
    script = (WEB / "static" / "seawall.js").read_text("utf-8")
    plots = (WEB / "static" / "uplot.min.css").read_text("utf-8")
    there = "".join([*TEXTS.values(), *code, script, plots])
    for name in sorted(set(re.findall(r"\.([a-z][\w-]*)", rules))):
        word = name.split("-", 1)[1] if re.match(r"[fs]-", name) else name
        drawn = rf"[\"' {{.}}]{re.escape(word)}\b"
        kind = name.startswith("k-") and re.search(
            rf"[\"']{name[2:]}[\"']", there
        )  # of a chart's line
        assert kind or re.search(drawn, there), f".{name} is nowhere"
