"""Write the generated parts of docs/ from the code, or check that they are as the code says.

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`; pictures and the pages of
docs/reference/ are generated whole. With `--check` nothing is written, and what differs is named.
"""

import dataclasses
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from seawall import presets, settings, states, telemetry, webhooks
from seawall.decisions.explain import (
    MOST_ROWS,
    backoff_in_words,
    in_words,
    remarks,
    rule_name,
    schedule,
)
from seawall.decisions.policy import Policy
from seawall.decisions.rule import Rule
from seawall.faults import Fault, FaultCode
from seawall.metrics import METRICS
from seawall.store import statements
from seawall.telemetry.fields import EVERYWHERE, FIELDS
from seawall.telemetry.span_words import SPANS, Attr

sys.path.insert(0, str(Path(__file__).parent))

from draw_docs import PICTURES
from reference_docs import reference_pages

DOCS = Path(__file__).parent.parent / "docs"
PART = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(columns)
    lines = [head, ["---"] * len(head), *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def verify_rules() -> str:
    found = [each for each in statements.load("sqlite").values() if each.verb == "verify"]
    return table(("rule", "what must hold"), ((f"`{each.name}`", each.promise) for each in found))


def transitions() -> str:
    rows = (
        (
            str(row.move),
            str(row.before or "–"),
            str(row.after or "–"),
            ", ".join(row.verbs),
            row.meaning,
        )
        for row in states.TRANSITIONS
    )
    picture = "![The states and every move between them](assets/states.svg)\n\n"
    return picture + table(("move", "from", "to", "verb of the store", "when"), rows)


def fault_codes() -> str:
    return table(
        ("code", "meaning", "speaks about the upstream's health", "what `default` does"),
        (
            (f"`{c}`", c.meaning, "yes" if c.speaks_of_upstream else "no", default_does(c))
            for c in FaultCode
        ),
    )


def default_does(code: FaultCode) -> str:
    policy = presets.get("default")
    judgement = policy.judge(Fault(code), attempt=1)
    if judgement.reason is not None:
        return "fails at once"
    rule = judgement.rule
    limit = rule.max_attempts if rule.max_attempts is not None else policy.max_attempts
    bounded = rule.counts or rule.max_attempts
    day = in_words(policy.max_elapsed_seconds or 0)
    many = f"up to {limit} attempts" if bounded else f"for up to {day}"
    charge = "" if rule.counts else ", uses up no attempt"
    return f"retries, {many}{charge}: {backoff_in_words(rule.backoff)}"


def policies() -> str:
    return "\n\n".join(one_policy(presets.get(name)) for name in presets.names())


def one_policy(policy: Policy) -> str:
    parts = [f"### `{policy.name}`", policy.description, policy.notes]
    rows = [_rule_row(policy, rule) for rule in (*policy.rules, policy.otherwise)]
    parts.append(table(("rule", "on", "waits", "windows of the retries"), rows))
    return "\n\n".join(part for part in parts if part)


def _rule_row(policy: Policy, rule: Rule) -> tuple[str, ...]:
    waits = schedule(policy, rule)
    windows = [f"{in_words(w.least_seconds)}–{in_words(w.most_seconds)}" for w in waits]
    waiting = "; ".join(remarks(rule)) if rule.retry else "fails at once"
    more = "; …" if len(waits) == MOST_ROWS else ""
    return rule_name(policy, rule), rule.title, waiting, ("; ".join(windows) or "–") + more


def all_settings() -> str:
    rows = []
    for name in settings.names():
        purpose, expected = settings.help_for(name)
        default = str(getattr(settings.Settings(), name))
        rows.append(
            (f"`{name}`", f"`{settings.variable(name)}`", f"`{default}`", purpose, expected)
        )
    return table(("TOML key", "environment", "default", "what for", "what it may be"), rows)


def events() -> str:
    rows = []
    for event in telemetry.EVENTS:
        fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(event))
        rows.append(
            (f"`{event.name}`", logging.getLevelName(event.level).lower(), event.meaning, fields)
        )
    return table(("event", "level", "when", "fields"), rows)


def event_fields() -> str:
    known = {**EVERYWHERE, **FIELDS}
    return table(("field", "what it means"), ((f"`{name}`", known[name]) for name in known))


def spans() -> str:
    rows = ((f"`{f'{w.name} {w.subject}'.strip()}`", w.kind, w.meaning) for w in SPANS)
    return table(("span", "kind", "what it stands for"), rows)


def span_attributes() -> str:
    rows = (
        (f"`{attr}`", ", ".join(f"`{word.name}`" for word in attr.spans), attr.meaning)
        for attr in Attr
    )
    return table(("attribute", "of", "what it means"), rows)


def webhook_events() -> str:
    rows = ((f"`{name}`", meaning) for name, meaning in webhooks.EVENTS.items())
    return table(("event", "when"), rows)


def metrics() -> str:
    rows = (
        (f"`{m.name}`", str(m.kind), ", ".join(f"`{each}`" for each in m.labels) or "–", m.meaning)
        for m in METRICS
    )
    return table(("metric", "kind", "labels", "what it tells"), rows)


def commands() -> str:
    from seawall.cli import app  # noqa: PLC0415 - the doors need the terminal's libraries

    return table(("command", "what it does"), _commands("seawall", typer.main.get_command(app)))


def _commands(path: str, command: Any) -> Iterator[tuple[str, str]]:
    named = getattr(command, "commands", {})
    if command.help and path != "seawall":
        yield f"`{path}`", " ".join(command.help.split("\n\n")[0].split())
    for name, child in named.items():
        yield from _commands(f"{path} {name}", child)


PARTS: dict[str, Callable[[], str]] = {
    "transitions": transitions,
    "verify-rules": verify_rules,
    "fault-codes": fault_codes,
    "policies": policies,
    "settings": all_settings,
    "events": events,
    "event-fields": event_fields,
    "spans": spans,
    "span-attributes": span_attributes,
    "webhook-events": webhook_events,
    "metrics": metrics,
    "commands": commands,
}


def generated() -> dict[Path, str]:
    """Every file that is generated, in whole or in part, as it should be."""
    whole = {
        DOCS / name: text
        for name, text in [
            *((name, draw()) for name, draw in PICTURES.items()),
            *reference_pages(),
        ]
    }
    for path in sorted(DOCS.rglob("*.md")):
        if path not in whole:
            text = path.read_text("utf-8")
            whole[path] = PART.sub(lambda part: f"{part[1]}{PARTS[part[2]]()}\n{part[3]}", text)
    return whole


def main() -> int:
    check = "--check" in sys.argv[1:]
    wanted = generated()
    left = [path for path in (DOCS / "reference").rglob("*") if path not in wanted]
    stale = [
        path
        for path, text in wanted.items()
        if not path.exists() or path.read_text("utf-8") != text
    ]
    for path in [*stale, *left]:
        outcome = "is stale; run `make docs`" if check else "written"
        print(f"{path.relative_to(DOCS.parent)}: {outcome if path in wanted else 'is of no use'}")
        if not check and path in wanted:
            path.parent.mkdir(exist_ok=True)
            path.write_text(wanted[path], "utf-8")
    return 1 if left or (check and stale) else 0


if __name__ == "__main__":
    sys.exit(main())
