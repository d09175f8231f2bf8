"""Pictures of a comparison as SVG: the load over time, the states over time, the time to success.

Drawn with the classes of `STYLE`, so that a page or a file of its own shows them light or dark.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape

from seawall.decisions.explain import in_words
from seawall.simulate.results import Comparison, Result
from seawall.simulate.scenario import Scenario

STYLE = """
svg.sim { font: 12px system-ui, sans-serif; }
.sim text { fill: var(--ink, #1d2733); } .sim .soft { fill: var(--soft, #66727f); }
.sim .rule { stroke: var(--line, #e3e6ea); stroke-width: 1; }
.sim .trouble { fill: var(--bad, #d1495b); opacity: .10; }
.sim .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.sim .c0 { --c: #3273b8; } .sim .c1 { --c: #c98a1b; } .sim .c2 { --c: #2f9e6e; }
.sim .c3 { --c: #a0559b; } .sim .c4 { --c: #d1495b; } .sim .c5 { --c: #6b7f94; }
.sim .line { stroke: var(--c); } .sim .box { fill: var(--c); }
.sim .due { fill: #c98a1b; } .sim .later { fill: #8fa3b8; } .sim .running { fill: #2f9e6e; }
.sim .dead { fill: #d1495b; }
"""
_ALONE = """
:root { color-scheme: light dark; }
.ground { fill: #fbfbfa; }
@media (prefers-color-scheme: dark) { .ground { fill: #14181d; }
svg.sim { --ink: #e4e9ee; --soft: #98a4b0; --line: #2d353e; } }
"""
COLOURS = 6
_WIDTH, _HEIGHT = 720, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 14, 12, 30
_MOST_POINTS = 240
_STATES = ("running", "due", "later", "dead")
_WORDS = {
    "running": "running", "due": "due, or held", "later": "waiting for their next attempt",
    "dead": "dead letters",
}  # fmt: skip

Scale = Callable[[float], float]


def load_over_time(comparison: Comparison) -> str:
    """Calls a second, a line for each choice; where the upstream was in trouble is shaded."""
    return _framed(_load_parts(comparison), _HEIGHT, "Calls a second at the upstream")


def states_over_time(result: Result, scenario: Scenario) -> str:
    """How many jobs were running, due, waiting and dead, one above the other."""
    return _framed(_states(result, scenario), _HEIGHT, f"States over time: {result.name}")


def time_to_success(comparison: Comparison) -> str:
    """Which share of all jobs had succeeded after so long; dead letters never do."""
    return _framed(_success(comparison), _HEIGHT, "Time to success")


def whole(comparison: Comparison) -> str:
    """All of them as one SVG file of its own."""
    parts: list[tuple[str, list[str]]] = [
        ("Calls a second at the upstream", _load_parts(comparison)),
        *(
            (f"States: {result.name}", _states(result, comparison.scenario))
            for result in comparison
        ),
        ("Share of jobs that had succeeded after so long", _success(comparison)),
    ]
    legend = 22 * len(comparison.results) + 40
    height = legend + (_HEIGHT + 34) * len(parts)
    drawn = [f'<rect class="ground" width="{_WIDTH}" height="{height}"/>']
    title = f"{comparison.scenario.name}: {comparison.scenario.description}"
    drawn.append(f'<text x="{_LEFT}" y="22" font-weight="600">{_text(title)}</text>')
    for at, result in enumerate(comparison):
        y = 36 + 22 * at
        drawn.append(
            f'<rect class="box c{at % COLOURS}" x="{_LEFT}" y="{y}" width="12" height="12"/>'
        )
        drawn.append(f'<text x="{_LEFT + 18}" y="{y + 11}">{_text(result.name)}</text>')
    for at, (words, inside) in enumerate(parts):
        y = legend + (_HEIGHT + 34) * at
        drawn.append(f'<text x="{_LEFT}" y="{y + 18}" font-weight="600">{_text(words)}</text>')
        drawn.append(f'<g transform="translate(0 {y + 26})">{"".join(inside)}</g>')
    return (
        f'<svg class="sim" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}"'
        f' width="{_WIDTH}" height="{height}"><style>{STYLE}{_ALONE}</style>'
        f"{''.join(drawn)}</svg>\n"
    )


def flat(svg: str) -> str:
    """The same in light colours, for programs that know neither variables nor media in styles."""
    svg = svg.replace(_ALONE, "\n.ground { fill: #fbfbfa; }\n")
    for style in re.findall(r"[^{}]+{ \w+: var\(--c\); }", STYLE):
        svg = svg.replace(style, "")
    svg = re.sub(r"\.sim \.(c\d) { --c: (#\w+); }", _coloured, svg)
    return re.sub(r"var\(--\w+, (#\w+)\)", r"\1", svg)


def _coloured(found: re.Match[str]) -> str:
    name, colour = found.groups()
    return f".sim .line.{name} {{ stroke: {colour}; }} .sim .box.{name} {{ fill: {colour}; }}"


def state_words() -> list[tuple[str, str]]:
    """The states as they are drawn, and what each is called."""
    return [(state, _WORDS[state]) for state in _STATES]


def _text(text: str) -> str:
    return escape("".join(c if c.isprintable() else " " for c in text), quote=True)


def _framed(drawn: Iterable[str], height: int, title: str) -> str:
    return (
        f'<svg class="sim" viewBox="0 0 {_WIDTH} {height}" role="img"'
        f' aria-label="{_text(title)}">{"".join(drawn)}</svg>'
    )


# --- each of them ---------------------------------------------------------------------------------


def _load_parts(comparison: Comparison) -> list[str]:
    lines = [_binned(result.record.calls_by_second) for result in comparison]
    longest = max(max(x for x, _ in line) for line in lines)
    most = max(max(y for _, y in line) for line in lines)
    across, up = _over(longest), _upwards(most)
    drawn = _troubles(comparison.scenario, longest, across) + _axes(longest, most, across, up)
    for at, line in enumerate(lines):
        drawn.append(_line(line, across, up, at))
    return drawn


def _states(result: Result, scenario: Scenario) -> list[str]:
    samples = result.record.states
    step = max(1, math.ceil(len(samples) / _MOST_POINTS))
    picked = [(float(at), samples[at]) for at in range(0, len(samples), step)]
    order = {"due": 0, "later": 1, "running": 2, "dead": 4}
    longest = max(1.0, picked[-1][0])
    most = max(1, *(sum(row[order[s]] for s in _STATES) for _, row in picked))
    across, up = _over(longest), _upwards(most)
    drawn = _troubles(scenario, longest, across)
    below = [0.0] * len(picked)
    for state in _STATES:
        above = [under + row[order[state]] for under, (_, row) in zip(below, picked, strict=True)]
        top = [f"{across(x):.1f},{up(y):.1f}" for (x, _), y in zip(picked, above, strict=True)]
        bottom = [f"{across(x):.1f},{up(y):.1f}" for (x, _), y in zip(picked, below, strict=True)]
        points = " ".join([*top, *reversed(bottom)])
        drawn.append(f'<polygon class="{state}" points="{points}"><title>{state}</title></polygon>')
        below = above
    return drawn + _axes(longest, most, across, up)


def _success(comparison: Comparison) -> list[str]:
    curves = [sorted(result.record.times) for result in comparison]
    known = [curve for curve in curves if curve]
    if not known:
        return [f'<text class="soft" x="{_LEFT}" y="40">No job succeeded.</text>']
    least = max(0.001, min(curve[0] for curve in known))
    most = max(curve[-1] for curve in known)
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(max(most, least * 10)))

    def across(seconds: float) -> float:
        share = (math.log10(max(seconds, 10.0**low)) - low) / (high - low)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    up = _upwards(1.0)
    drawn = []
    for power in range(low, high + 1):
        x, words = across(10.0**power), in_words(10.0**power)
        drawn.append(_rule(x, x, _TOP, _HEIGHT - _BOTTOM))
        drawn.append(_label(x, _HEIGHT - 10, words, "middle"))
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        drawn.append(_rule(_LEFT, _WIDTH - _RIGHT, up(share), up(share)))
        drawn.append(_label(_LEFT - 8, up(share) + 4, f"{share:.0%}", "end"))
    for at, (result, curve) in enumerate(zip(comparison, curves, strict=True)):
        if not curve:
            continue
        step = max(1, len(curve) // _MOST_POINTS)
        jobs = max(1, result.record.jobs)
        points = [(curve[i], (i + 1) / jobs) for i in range(0, len(curve), step)]
        points.append((curve[-1], len(curve) / jobs))
        drawn.append(_line(points, across, up, at))
    return drawn


# --- the parts ------------------------------------------------------------------------------------


def _binned(counts: Sequence[int]) -> list[tuple[float, float]]:
    """The mean of each of at most so many parts."""
    if not counts:
        return [(0.0, 0.0), (1.0, 0.0)]
    size = max(1, math.ceil(len(counts) / _MOST_POINTS))
    starts = range(0, len(counts), size)
    points = [
        (float(at), sum(counts[at : at + size]) / len(counts[at : at + size])) for at in starts
    ]
    return [*points, (float(len(counts)), points[-1][1])]


def _over(longest: float) -> Scale:
    wide = _WIDTH - _LEFT - _RIGHT
    return lambda seconds: _LEFT + seconds / longest * wide


def _upwards(most: float) -> Scale:
    high = _HEIGHT - _TOP - _BOTTOM
    return lambda amount: _HEIGHT - _BOTTOM - amount / (most or 1) * high


def _line(points: Iterable[tuple[float, float]], across: Scale, up: Scale, at: int) -> str:
    drawn = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in points)
    return f'<polyline class="line c{at % COLOURS}" points="{drawn}"/>'


def _rule(x1: float, x2: float, y1: float, y2: float) -> str:
    return f'<line class="rule" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _label(x: float, y: float, words: str, anchor: str) -> str:
    if anchor == "middle" and x > _WIDTH - 2 * _BOTTOM:  # it would be cut off
        x, anchor = _WIDTH - 2, "end"
    return f'<text class="soft" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def _axes(longest: float, most: float, across: Scale, up: Scale) -> list[str]:
    drawn = []
    for amount in _ticks(most, 4):
        drawn.append(_rule(_LEFT, _WIDTH - _RIGHT, up(amount), up(amount)))
        drawn.append(_label(_LEFT - 8, up(amount) + 4, f"{amount:,g}", "end"))
    return drawn + [
        _label(across(seconds), _HEIGHT - 10, in_words(seconds), "middle")
        for seconds in _moments(longest)
    ]


def _troubles(scenario: Scenario, longest: float, across: Scale) -> list[str]:
    drawn, at = [], 0.0
    for phase in scenario.phases:
        until = longest if phase.seconds is None else min(longest, at + phase.seconds)
        if phase.is_ != "healthy" and until > at:
            wide = across(until) - across(at)
            drawn.append(
                f'<rect class="trouble" x="{across(at):.1f}" y="{_TOP}" width="{wide:.1f}"'
                f' height="{_HEIGHT - _TOP - _BOTTOM}"><title>{phase.is_}</title></rect>'
            )
        at = until
    return drawn


def _ticks(most: float, many: int) -> list[float]:
    """Round numbers from nothing up to the most."""
    rough = (most or 1) / many
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= rough)
    return [step * at for at in range(int(most / step) + 1)]


def _moments(longest: float) -> list[float]:
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 43_200)
    step = next(
        (each for each in steps if longest / each <= 7), 86_400 * math.ceil(longest / 604_800)
    )
    return [float(step * at) for at in range(int(longest / step) + 1)]
