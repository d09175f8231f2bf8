"""The pictures of docs/concepts.md, drawn from the code: the states, and one job's life.

Where a state stands is said here; which moves there are is not: they come from the table in
`states.py`, and a state without a place fails the build. The life is that of a real job in memory,
on a clock that stands still until it is moved. A file shows itself light or dark.
"""

from collections.abc import Iterable
from html import escape
from itertools import groupby
from math import hypot

from seawall import Attempt, FaultError, Seawall, current_job, stage, states
from seawall.states import State
from seawall.testing import in_memory

STYLE = """
:root { color-scheme: light dark; }
svg { --ink: #1d2733; --soft: #5b6773; --line: #8fa3b8; --ground: #fbfbfa; --box: #eef2f6;
  font: 13px system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { svg { --ink: #e4e9ee; --soft: #a5b1bd; --line: #5d7186;
  --ground: #14181d; --box: #222a33; } }
.ground { fill: var(--ground); } text { fill: var(--ink); }
.box { fill: var(--box); stroke: var(--line); } .name { font-weight: 600; text-anchor: middle; }
.edge { fill: none; stroke: var(--line); stroke-width: 1.5; } .head { fill: var(--line); }
.dot { fill: var(--ink); }
.word { fill: var(--soft); text-anchor: middle; font-size: 12px; stroke: var(--ground);
  stroke-width: 4px; paint-order: stroke; }
.left { text-anchor: start; } .soft { fill: var(--soft); font-size: 12px; }
.queued { fill: #8fa3b8; } .running { fill: #2f9e6e; } .later { fill: #c98a1b; opacity: .75; }
.failing { fill: #d1495b; } .ended { fill: #3273b8; }
"""

Point = tuple[float, float]

BIRTH, DEATH = "birth", "death"
PLACES: dict[State | str, Point] = {
    BIRTH: (30, 190),
    State.QUEUED: (215, 190),
    State.RUNNING: (520, 100),
    State.SUCCEEDED: (760, 60),
    State.SKIPPED: (760, 150),
    State.CANCELLED: (640, 320),
    State.FAILED: (250, 370),
    DEATH: (900, 240),
}
BENDS: dict[tuple[State | str, State | str], float] = {
    (BIRTH, State.RUNNING): -110,
    (State.QUEUED, State.RUNNING): -30,
    (State.RUNNING, State.QUEUED): -24,
    (State.QUEUED, State.FAILED): -34,
    (State.FAILED, State.QUEUED): -34,
    (State.QUEUED, State.CANCELLED): 36,
    (State.FAILED, DEATH): 120,
    (State.RUNNING, State.FAILED): -12,
}
"""By how much an edge leaves the straight line, to its right; the others are straight."""
WIDTH, HEIGHT = 940, 470
_BOX = (104.0, 36.0)
_DOT = 7.0


def state_diagram() -> str:
    """Every row of the table as an arrow; moves between the same two states share one."""
    rows = sorted(
        states.TRANSITIONS, key=lambda row: (str(row.before or BIRTH), str(row.after or DEATH))
    )
    parts = []
    for (before, after), moves in groupby(
        rows, key=lambda row: (row.before or BIRTH, row.after or DEATH)
    ):
        parts.append(_edge(before, after, ", ".join(str(row.move) for row in moves)))
    parts += [_place(name) for name in (BIRTH, *State, DEATH)]
    return _picture(parts, WIDTH, HEIGHT, "The states of a job, and every move between them")


def _place(name: State | str) -> str:
    x, y = PLACES[name]
    if name in (BIRTH, DEATH):
        return f'<circle class="dot" cx="{x}" cy="{y}" r="{_DOT}"/>'
    width, height = _BOX
    return (
        f'<rect class="box" x="{x - width / 2}" y="{y - height / 2}" width="{width}"'
        f' height="{height}" rx="8"/><text class="name" x="{x}" y="{y + 4.5}">{name}</text>'
    )


def _edge(before: State | str, after: State | str, word: str) -> str:
    if before == after:
        return _loop(PLACES[before], word)
    (x1, y1), (x2, y2) = PLACES[before], PLACES[after]
    bend = BENDS.get((before, after), 0.0)
    length = hypot(x2 - x1, y2 - y1)
    middle = (
        (x1 + x2) / 2 - 2 * bend * (y2 - y1) / length,
        (y1 + y2) / 2 + 2 * bend * (x2 - x1) / length,
    )
    start, end = _rim(before, middle), _rim(after, middle)
    at = tuple((a + 2 * b + c) / 4 for a, b, c in zip(start, middle, end, strict=True))
    path = f"M{_xy(start)} Q{_xy(middle)} {_xy(end)}"
    return (
        f'<path class="edge" d="{path}" marker-end="url(#head)"/>'
        f'<text class="word" x="{at[0]:.1f}" y="{at[1] + 4:.1f}">{escape(word)}</text>'
    )


def _loop(place: Point, word: str) -> str:
    x, y = place[0], place[1] - _BOX[1] / 2
    path = f"M{x - 20},{y} C{x - 34},{y - 46} {x + 34},{y - 46} {x + 20},{y - 3}"
    return (
        f'<path class="edge" d="{path}" marker-end="url(#head)"/>'
        f'<text class="word" x="{x}" y="{y - 34}">{escape(word)}</text>'
    )


def _rim(name: State | str, towards: Point) -> Point:
    """Where a line from the middle of a place leaves it."""
    (x, y), (dx, dy) = PLACES[name], (towards[0] - PLACES[name][0], towards[1] - PLACES[name][1])
    if name in (BIRTH, DEATH):
        share = (_DOT + 4) / hypot(dx, dy)
    else:
        half = (_BOX[0] / 2 + 4, _BOX[1] / 2 + 4)
        share = min(half[0] / abs(dx or 1e-9), half[1] / abs(dy or 1e-9))
    return x + dx * share, y + dy * share


def a_life() -> str:
    """A job of two stages, whose second is tried twice: what history says of it."""
    attempts, born = _lived()
    return _picture(_drawn(attempts, born), 940, 220, "A job's life, from its history")


def _lived() -> tuple[list[Attempt], float]:
    app = Seawall("sqlite://")

    with in_memory(app, seed=3) as world:

        @stage(policy="ai-worker")
        def fetch(path: str) -> str:
            world.clock.advance(0.8)
            return f"the text of {path}"

        @stage(policy="ai-worker", upstream="openai")
        def ask(text: str) -> str:
            world.clock.advance(1.6)
            if current_job().attempt == 1:
                raise FaultError("TIMEOUT", "no answer in time")
            return text[:8]

        report = app.pipeline("report", [fetch, ask])
        job = report.enqueue("a.pdf")
        born = world.now.timestamp()
        world.clock.advance(0.5)
        world.drain()
        return job.attempts(), born


def _drawn(attempts: list[Attempt], born: float) -> Iterable[str]:
    ends = [each.finished_at.timestamp() for each in attempts]
    scale = 860 / (ends[-1] - born)

    def x(moment: float) -> float:
        return 40 + (moment - born) * scale

    yield '<text class="soft left" x="40" y="30">the row of the job</text>'
    yield '<text class="soft left" x="40" y="146">its history, a row for each attempt</text>'
    before = born
    for number, each in enumerate(attempts):
        start, end = each.started_at.timestamp(), each.finished_at.timestamp()
        if start > before:
            kind, word = ("later", "queued, for later") if number else ("queued", "queued")
            yield _bar(x(before), x(start), kind, word)
        kind = "running" if each.fault is None else "failing"
        yield _bar(x(start), x(end), kind, f"running, stage {each.stage}")
        yield _line(x(start), 170 + 20 * number, each)
        before = end
    yield f'<circle class="ended" cx="{x(ends[-1]):.1f}" cy="74" r="9"/>'
    yield f'<text class="word" x="{x(ends[-1]) - 6:.1f}" y="44">succeeded</text>'


def _bar(start: float, end: float, kind: str, word: str) -> str:
    return (
        f'<rect class="{kind}" x="{start:.1f}" y="62" width="{end - start:.1f}" height="24"/>'
        f'<text class="soft left" x="{start:.1f}" y="104">{escape(word)}</text>'
    )


def _line(start: float, y: float, each: Attempt) -> str:
    said = f"{each.seq}: stage {each.stage}, {each.outcome}"
    if each.fault is not None and each.delay_seconds is not None:
        said += f" ({each.fault.code}), again in {each.delay_seconds:.1f} s, by the policy"
    elif each.outcome == "advanced":
        said += ": its output is kept, and the next stage begins"
    anchor, x = ("end", 900.0) if start > 560 else ("start", start)
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}">{escape(said)}</text>'


def _picture(parts: Iterable[str], width: int, height: int, title: str) -> str:
    head = (
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
        ' orient="auto"><path class="head" d="M0,0 L8,4 L0,8 z"/></marker>'
    )
    size = f'viewBox="0 0 {width} {height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title><style>{STYLE}</style><defs>{head}</defs>",
        f'<rect class="ground" width="{width}" height="{height}" rx="8"/>',
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _xy(point: Point) -> str:
    return f"{point[0]:.1f},{point[1]:.1f}"


PICTURES = {"assets/states.svg": state_diagram, "assets/life.svg": a_life}
