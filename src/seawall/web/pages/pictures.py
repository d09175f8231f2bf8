"""Pictures for pages, as SVG drawn here: so they are there without a script.

Each takes plain values and answers markup. Colours are classes (`f-good`, `s-bad`), which the style
gives their light and dark values. Whatever comes from others is escaped.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from markupsafe import Markup, escape

from seawall.web.pages.wording import brief, short

SHORTEST_STEP = 20.0
"""Seconds of the step that is not over, from which on it tells something."""
_WIDE = 860.0
_NARROW = 340.0
"""What is drawn for a desk would be too small to read on a phone: so it is drawn twice."""
_SHORTEST = 6.0
_QUICKEST = 0.0001
"""What took less is drawn as if it took so long, in seconds."""
_PIECE = 40.0
"""What a piece of a job's life needs on a phone."""


def _svg(width: float, height: float, name: str, parts: Iterable[str], kind: str = "") -> Markup:
    """A picture as wide as there is room; one that is `sized` is as wide as it was drawn."""
    inside = Markup("").join(Markup(part) for part in parts)  # noqa: S704 - made below, escaped
    size = Markup('width="{}" height="{}"').format(f"{width:g}", f"{height:g}")
    return Markup(
        '<svg class="picture {}" {} viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(kind, size if kind == "sized" else "", f"{width:g}", f"{height:g}", name, inside)


# --- shares of a whole ----------------------------------------------------------------------------


class Part(NamedTuple):
    """So many of something, in a colour."""

    number: float
    name: str
    kind: str


def bar(name: str, parts: Sequence[Part]) -> Markup:
    """A bar that is divided as the whole is."""
    whole = sum(part.number for part in parts)
    if whole <= 0:
        return _flat(f"{name}: none yet", [])
    at, drawn, told = 0.0, [], []
    for part in parts:
        if part.number <= 0:
            continue
        wide = part.number / whole * _WIDE
        title = escape(f"{part.number:,.0f} {part.name}")
        drawn.append(
            f'<rect class="f-{escape(part.kind)}" x="{at:.2f}" width="{max(wide - 1, 4):.2f}"'
            f' height="10"><title>{title}</title></rect>'
        )
        told.append(f"{part.number:,.0f} {part.name}")
        at += wide
    return _flat(f"{name}: {', '.join(told)}", drawn)


def meter(name: str, used: float, most: float, *, kind: str = "sea") -> Markup:
    """How much of what may be used is."""
    part = 0.0 if most <= 0 else max(0.0, min(1.0, used / most))
    wide = part * _WIDE
    return _flat(name, [f'<rect class="f-{escape(kind)}" width="{wide:.2f}" height="10"/>'])


def gauge(name: str, part: float, allowed: float) -> Markup:
    """A share beside the share that is allowed, which is marked."""
    whole = min(1.0, max(2 * allowed, 1.1 * part, 0.02))
    kind = "bad" if part > allowed else "warn" if part > allowed / 2 else "good"
    wide, mark = min(1.0, part / whole) * _WIDE, min(1.0, allowed / whole) * _WIDE
    drawn = [
        f'<rect class="f-{kind}" width="{wide:.2f}" height="10"/>',
        f'<path class="mark" d="M{mark:.1f} 0V10"/>',
    ]
    return _flat(name, drawn)


def _flat(name: str, parts: Iterable[str]) -> Markup:
    """A bar as high as the style has it, and as wide as there is room."""
    inside = Markup("").join(Markup(part) for part in parts)  # noqa: S704 - made above, escaped
    return Markup(
        '<svg class="picture flat" viewBox="0 0 {} 10" preserveAspectRatio="none" role="img"'
        ' aria-label="{}"><rect class="f-none" width="100%" height="10"/>{}</svg>'
    ).format(f"{_WIDE:g}", name, inside)


class Scale(NamedTuple):
    """Spans of time side by side: each ten times as long is one step further."""

    least: float
    most: float

    @classmethod
    def of(cls, seconds: Iterable[float]) -> "Scale":
        """One that has room for all of these."""
        found = [max(_QUICKEST, each) for each in seconds] or [0.001]
        low = math.floor(math.log10(min(found)) + 1e-9)
        high = math.ceil(math.log10(max(found)) - 1e-9)
        return cls(10.0**low, 10.0 ** max(high, low + 1))

    def place(self, seconds: float) -> float:
        """From 0 to 1."""
        low, high = math.log10(self.least), math.log10(self.most)
        found = (math.log10(max(seconds, self.least)) - low) / (high - low)
        return max(0.0, min(1.0, found))


def spread(name: str, scale: Scale, p50: float, p95: float, p99: float, longest: float) -> Markup:
    """How long something took: from half of it to 99 of 100, with 95 and the longest marked."""
    begin, inner, end, last = (scale.place(each) * _WIDE for each in (p50, p95, p99, longest))
    drawn = [
        f'<rect class="f-sea" x="{begin:.1f}" width="{max(6.0, inner - begin):.1f}" height="10"/>',
        f'<rect class="f-rest" x="{inner:.1f}" width="{max(0.0, end - inner):.1f}" height="10"/>',
        f'<path class="mark" d="M{min(_WIDE - 2, last):.1f} 0V10"/>',
    ]
    return _flat(name, drawn)


# --- over time ------------------------------------------------------------------------------------


class Line(NamedTuple):
    """A line of a chart: a value for each time, None where there is none."""

    name: str
    kind: str
    values: Sequence[float | None]
    fill: bool = False
    unit: str = ""


def a_minute(count: int, at: datetime, step_seconds: int, now: datetime) -> float | None:
    """How much that is by the minute, of a step that began then; of the one that is not over, as
    far as it has come, and nothing where that is too short to tell.
    """
    passed = min(float(step_seconds), (now - at).total_seconds())
    return round(count * 60 / passed, 2) if passed >= min(step_seconds, SHORTEST_STEP) else None


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over time; a script makes more of its `data`, and the picture is there without one."""

    name: str
    times: Sequence[float]
    """Seconds since 1970, one for each value."""
    lines: Sequence[Line]

    @property
    def data(self) -> str:
        """For the script."""
        return json.dumps(
            {
                "x": list(self.times),
                "lines": [
                    {
                        "name": each.name,
                        "kind": each.kind,
                        "y": list(each.values),
                        "fill": each.fill,
                        "unit": each.unit,
                    }
                    for each in self.lines
                ],
            },
            separators=(",", ":"),
        )

    @property
    def told(self) -> str:
        """What is to be seen in it, in words: each line's last value, and its highest."""
        lines = []
        for each in self.lines:
            known = [f"{_nice(value)}{each.unit}" for value in _ends(each.values)]
            told = "{}, {} at most".format(*known) if known else "none"
            lines.append(f"{each.name} {told}")
        return f"{self.name}: {'; '.join(lines)}"

    @property
    def picture(self) -> Markup:
        """The lines, once for a desk and once for a phone; the style shows the one that fits."""
        return self._drawn(_WIDE, "broad") + self._drawn(_NARROW, "narrow")

    def _drawn(self, width: float, kind: str) -> Markup:
        high, left, foot = 170.0, 40.0, 18.0
        top = max([v for each in self.lines for v in each.values if v is not None] or [0]) or 1
        step = (width - left) / max(1, len(self.times) - 1)
        scale = (high - foot - 6) / top
        drawn = [
            f'<path class="axis" d="M{left} {high - foot}H{width:g}"/>',
            f'<text x="{left - 6}" y="14" text-anchor="end">{escape(_nice(top))}</text>',
            f'<text x="{left - 6}" y="{high - foot}" text-anchor="end">0</text>',
        ]
        for each in self.lines:
            points = [
                (left + at * step, high - foot - value * scale)
                for at, value in enumerate(each.values)
                if value is not None
            ]
            if len(points) < 2:
                continue
            path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
            if each.fill:
                under = (
                    f"{path}L{points[-1][0]:.1f} {high - foot}L{points[0][0]:.1f} {high - foot}Z"
                )
                drawn.append(f'<path class="wash f-{escape(each.kind)}" d="{under}"/>')
            drawn.append(f'<path class="line s-{escape(each.kind)}" d="{path}"/>')
        if self.times:
            span = self.times[-1] - self.times[0]
            drawn.append(f'<text x="{left}" y="{high - 4}">{escape(short(span))} ago</text>')
            drawn.append(f'<text x="{width:g}" y="{high - 4}" text-anchor="end">now</text>')
        return _svg(width, high, self.name, drawn, kind)


def _ends(values: Sequence[float | None]) -> list[float]:
    """The last value and the highest; nothing where there is none."""
    known = [value for value in values if value is not None]
    return [known[-1], max(known)] if known else []


def _nice(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def spark(name: str, counts: Sequence[float], *, kind: str = "bad") -> Markup:
    """A few counts, side by side, where there is little room."""
    wide, high = 120.0, 28.0
    top = max(counts, default=0) or 1
    step = wide / max(1, len(counts))
    bars = [
        f'<rect class="f-{kind if each else "none"}" x="{at * step:.1f}"'
        f' width="{max(1.0, step - 1):.1f}" y="{high - tall:.1f}" height="{tall:.1f}"/>'
        for at, each in enumerate(counts)
        for tall in [max(1.5, each / top * high)]
    ]
    return _svg(wide, high, name, bars, "spark")


class Span(NamedTuple):
    """From one time to another, in a colour."""

    begin: float
    end: float
    name: str
    kind: str


def band(name: str, begin: float, end: float, spans: Sequence[Span]) -> Markup:
    """How something was, over time."""
    length = max(1e-9, end - begin)
    drawn = []
    for each in spans:
        left = max(0.0, (each.begin - begin) / length) * _WIDE
        right = min(1.0, (each.end - begin) / length) * _WIDE
        if right <= left:
            continue
        title = escape(f"{each.name}, {short(each.end - each.begin)}")
        drawn.append(
            f'<rect class="f-{escape(each.kind)}" x="{left:.2f}" height="10"'
            f' width="{max(2.0, right - left):.2f}"><title>{title}</title></rect>'
        )
    return _flat(name, drawn)


# --- a job's life ---------------------------------------------------------------------------------


class Bit(NamedTuple):
    """A piece of a job's life."""

    what: str
    """`attempt`; or what it waited for: `wait`, `delay`, `later`, `held`."""
    seconds: float
    kind: str
    label: str
    """Above it, where there is room."""
    title: str
    row: int = 0
    longer: str = ""
    """Instead of the label, where there is more room."""


def timeline(name: str, bits: Sequence[Bit], rows: Sequence[str]) -> Markup:
    """The pieces one after the other. Long ones are drawn shorter than they are, so that short ones
    are seen: how long each was is written beside it.

    Drawn once for a desk and once for a phone, where a long life is wider than the screen.
    """
    long = min(_WIDE, max(_NARROW, _PIECE * len(bits)))
    narrow = Markup('<div class="scroll narrow" tabindex="0" role="group" aria-label="{}">{}</div>')
    return _life(name, bits, rows, _WIDE, "broad") + narrow.format(
        "Its life, as a picture", _life(name, bits, rows, long, "sized")
    )


def _life(name: str, bits: Sequence[Bit], rows: Sequence[str], wide: float, kind: str) -> Markup:
    left = (110.0 if kind == "broad" else 84.0) if len(rows) > 1 else 0.0
    high, top = 46.0, 20.0
    sizes = [_SHORTEST + math.log1p(max(0.0, bit.seconds) * 20) * 8 for bit in bits]
    scale = (wide - left) / sum(sizes) if bits else 1.0
    drawn, at = [], left
    for row, called in enumerate(rows):
        y = top + row * high
        if len(rows) > 1:
            short_name = escape(called[: int(left / 7)])
            drawn.append(f'<text class="strong" x="0" y="{y + 14:.0f}">{short_name}</text>')
        drawn.append(f'<path class="axis" d="M{left} {y + 10:.1f}H{wide:g}"/>')
    for bit, size in zip(bits, sizes, strict=True):
        drawn.append(_bit(bit, at, size * scale, top + bit.row * high))
        at += size * scale
    return _svg(wide, top + high * max(1, len(rows)), name, drawn, kind)


def _bit(bit: Bit, x: float, wide: float, y: float) -> str:
    title = f"<title>{escape(bit.title)}</title>"
    middle = x + wide / 2
    if bit.what == "attempt":
        drawn = (
            f'<rect class="f-{escape(bit.kind)}" x="{x + 0.5:.1f}" y="{y}" rx="3"'
            f' width="{max(2.0, wide - 1):.1f}" height="20">{title}</rect>'
        )
        below = 34
    else:
        kind = "delay" if bit.what in ("delay", "held") else "wait"
        kind = kind if kind == bit.what else f"{kind} {bit.what}"
        drawn = (
            f'<path class="{kind}" d="M{x:.1f} {y + 10:.1f}h{wide:.1f}">{title}</path>'
            f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="20" fill="transparent">'
            f"{title}</rect>"
        )
        below = 4
    fit = [each for each in (bit.longer, bit.label) if each and wide >= 7.0 * len(each)]
    if fit:
        place = f'x="{middle:.1f}" y="{y + below:.1f}" text-anchor="middle"'
        drawn += f"<text {place}>{escape(fit[0])}</text>"
    return f"<g>{drawn}</g>"


# --- a policy's delays ----------------------------------------------------------------------------


class Delay(NamedTuple):
    """How long is waited after a failure: at least, usually, at most."""

    least: float
    middle: float
    most: float


def delays(name: str, found: Sequence[Delay]) -> Markup:
    """The wait after each failure, as a bar from the shortest to the longest."""
    left, step, high, ground = 46.0, 56.0, 150.0, 126.0
    top = max((each.most for each in found), default=0.0) or 1.0
    wide = left + step * max(1, len(found))
    drawn = [
        f'<path class="grid" d="M{left} 18H{wide:.0f}"/>',
        f'<path class="axis" d="M{left} {ground}H{wide:.0f}"/>',
        f'<text x="{left - 6}" y="22" text-anchor="end">{escape(brief(top))}</text>',
        f'<text x="{left - 6}" y="{ground}" text-anchor="end">0</text>',
    ]
    for at, each in enumerate(found):
        drawn.append(_delay(at + 1, each, left + (at + 0.5) * step, (ground - 18) / top))
    return _svg(wide, high, name, drawn, "sized")


def _delay(failure: int, each: Delay, middle: float, scale: float) -> str:
    """One wait: a bar from the shortest to the longest, over a faint one from the ground."""
    ground, wide = 126.0, 26.0
    low, up = ground - each.least * scale, ground - each.most * scale
    title = escape(f"after failure {failure}: {brief(each.least)} to {brief(each.most)}")
    place = f'x="{middle - wide / 2:.1f}" width="{wide:.1f}"'
    return (
        f'<rect class="f-warn wash" {place} y="{up:.1f}" height="{ground - up:.1f}"/>'
        f'<rect class="f-warn" {place} y="{min(up, ground - 2):.1f}" rx="2"'
        f' height="{max(2.0, low - up):.1f}"><title>{title}</title></rect>'
        f'<text class="strong" x="{middle:.1f}" y="{max(10.0, up - 5):.1f}" text-anchor="middle">'
        f"{escape(brief(each.middle))}</text>"
        f'<text x="{middle:.1f}" y="{ground + 16}" text-anchor="middle">{failure}</text>'
    )
