"""The rates and the waits as bars, in an SVG of its own: no dependency, light and dark."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from harness.rounds import Key
from harness.suite import OURS, RAW, Found

WIDTH, LEFT, NAMES, NUMBERS = 780, 12, 180, 90
BARS = WIDTH - NAMES - NUMBERS
BAR, STEP, HEAD, MARGIN = 14, 22, 40, 12
HEADS = {
    ("drain", "postgres"): "PostgreSQL: jobs per second, one worker process",
    ("drain", "sqlite"): "SQLite: jobs per second, one worker process",
    ("drain", "redis"): "Redis (not durable): jobs per second, one worker process",
    (
        "pickup",
        "postgres",
    ): "PostgreSQL: milliseconds until an idle worker runs a job (less is better)",
    ("pickup", "sqlite"): "SQLite: milliseconds until an idle worker runs a job (less is better)",
    (
        "pickup",
        "redis",
    ): "Redis (not durable): milliseconds until an idle worker runs a job (less is better)",
}
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f; }
  .head { font-weight: 600; } .page { fill: #ffffff; }
  .ours { fill: #0d9488; } .other { fill: #8c959f; } .raw { fill: #d0d7de; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .page { fill: #0d1117; }
    .ours { fill: #2dd4bf; } .other { fill: #768390; } .raw { fill: #444c56; }
  }
"""


@dataclass(frozen=True)
class Bar:
    name: str
    kind: str
    value: float


def drawn(found: list[Found], shown: Callable[[Key], str]) -> str:
    """One scale for all rates and one for all waits, so that bars compare across backends."""
    parts, top = [], MARGIN
    for scenario in ("drain", "pickup"):
        groups = _groups(scenario, found, shown)
        most = max((bar.value for bars in groups.values() for bar in bars), default=1.0)
        for backend, bars in groups.items():
            parts.append(
                f'<text class="head" x="{LEFT}" y="{top + 18}">{HEADS[scenario, backend]}</text>'
            )
            top += HEAD - STEP // 2
            for bar in bars:
                parts += _lines(bar, top, most)
                top += STEP
            top += STEP // 2
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}"'
        f' height="{top}" role="img" aria-label="seawall beside other queues">\n'
        f"<style>{STYLE}</style>\n"
        f'<rect class="page" width="{WIDTH}" height="{top}"/>\n{body}\n</svg>\n'
    )


def _groups(scenario: str, found: list[Found], shown: Callable[[Key], str]) -> dict[str, list[Bar]]:
    table = next((each for each in found if each.scenario == scenario), None)
    groups: dict[str, list[Bar]] = {}
    for key, cells in table.table.items() if table else ():
        cell = cells[table.columns[0]]
        if cell.rounds:
            kind = "ours" if key[0] == OURS else "raw" if key[0] in RAW else "other"
            bar = Bar(shown(key).strip("*"), kind, cell.median)
            groups.setdefault(key[1], []).append(bar)
    return groups


def _lines(bar: Bar, top: int, most: float) -> list[str]:
    width = max(1.0, bar.value / most * BARS)
    number = f"{bar.value:,.0f}" if bar.value >= 100 else f"{bar.value:,.1f}"
    middle, box = top + BAR - 3, f'y="{top}" width="{width:.1f}" height="{BAR}"'
    return [
        f'<text x="{NAMES - 10}" y="{middle}" text-anchor="end">{escape(bar.name)}</text>',
        f'<rect class="{bar.kind}" x="{NAMES}" {box} rx="2"/>',
        f'<text x="{NAMES + width + 8:.1f}" y="{middle}">{number}</text>',
    ]
