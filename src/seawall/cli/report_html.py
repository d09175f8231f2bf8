"""A run's report as one HTML file: no script, nothing from elsewhere, light and dark.

Names, keys and messages come from others, who may mean harm: whatever is not ours goes through
`_text`, and a policy in the page forbids the browser everything but its own style.
"""

import math
from collections.abc import Iterable, Sequence
from html import escape

from seawall.cli.report_style import STYLE
from seawall.cli.show import harmless
from seawall.decisions.explain import in_words
from seawall.report import Report, StageReport
from seawall.standings import span_of
from seawall.store import MOST_TRIES
from seawall.why import span, times

_WIDTH = 860
"""Of each picture, in its own units; the page scales it."""
_LABEL = 200
_ROW = 28
_MOST_TROUBLES = 12
_LONGEST_LABEL = 28


def page(report: Report) -> str:
    """The whole page."""
    run = report.run
    title = _text(f"{run.pipeline} {run.name}")
    parts = [
        _head(report),
        _section("Items", _items(report)),
        _section("Stages", _stage_table(report.stages)),
        _section("How long attempts took", _latency(report.stages)),
        _section("Attempts that items needed", _tries(report.stages)),
        _section("What it cost, by stage", _cost(report.stages)),
        _section("Stages that changed during the run", _changes(report)),
        _section("Commonest troubles", _troubles(report)),
        _section("Items that failed", _failed(report)),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>Run {run.id}: {title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body>\n</html>\n"
    )


def _text(text: object) -> str:
    """Text of others, as a browser shows it and does nothing else."""
    return escape(harmless(str(text)).encode("utf-8", "replace").decode(), quote=True)


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>\n{content}\n</section>" if content else ""


def _span(seconds: float | None) -> str:
    return "–" if seconds is None else in_words(seconds)


# --- above ----------------------------------------------------------------------------------------


def _head(report: Report) -> str:
    run, took = report.run, report.to_success
    again = f", round {run.round} of this name" if run.round > 1 else ""
    rate = run.success_rate
    cards = [
        ("items", f"{run.entered:,}"),
        ("succeeded", "–" if rate is None else f"{rate:.1%}"),
        ("failed", f"{run.failed:,}"),
        ("attempts", f"{report.attempts:,}"),
        ("retries", f"{run.retried:,}"),
        ("took", span(span_of(run))),
        ("half succeeded within", _span(took.p50)),
        ("99 of 100 within", _span(took.p99)),
    ]
    if run.cost:
        cards.append(("cost", f"{run.cost:,.6g}"))
    boxes = "".join(
        f'<div class="card"><span class="soft">{name}</span><b>{value}</b></div>'
        for name, value in cards
    )
    status = (
        f'<span class="status {_text(run.status)}">{_text(run.status.replace("_", " "))}</span>'
    )
    reason = f"<p>{_text(run.reason)}</p>" if run.reason else ""
    gone = ""
    if run.pruned:
        gone = f'<p class="soft">Of {run.pruned:,} items the history was pruned: not in here.</p>'
    return (
        f"<header><h1>{_text(run.pipeline)} {_text(run.name)} {status}</h1>"
        f'<p class="soft">Run {run.id}{again}. Begun {run.created_at:%Y-%m-%d %H:%M:%S} UTC,'
        f" looked at {run.at:%Y-%m-%d %H:%M:%S} UTC.</p>{reason}{gone}</header>\n"
        f'<div class="cards">{boxes}</div>'
    )


def _items(report: Report) -> str:
    run = report.run
    shares = [
        (run.succeeded, "succeeded", "good"),
        (run.skipped, "skipped", "skip"),
        (run.failed, "failed", "bad"),
        (run.cancelled, "cancelled", "warn"),
        (run.unfinished, "unfinished", "rest"),
    ]
    whole = sum(max(0, count) for count, *_ in shares)
    if not whole:
        return '<p class="soft">There are none yet.</p>'
    at, bars, keys = 0.0, [], []
    for count, word, kind in shares:
        if count <= 0:
            continue
        wide = count / whole * _WIDTH
        bars.append(
            f'<rect class="{kind}" x="{at:.2f}" width="{max(wide, 1.5):.2f}" height="26">'
            f"<title>{count:,} {word}</title></rect>"
        )
        colour = "line" if kind == "rest" else kind
        keys.append(
            f'<span><i style="background: var(--{colour})"></i>{count:,} {word}'
            f" ({count / whole:.1%})</span>"
        )
        at += wide
    return f'{_picture("Items by how they ended", 26, bars)}<p class="key">{"".join(keys)}</p>'


# --- stages ---------------------------------------------------------------------------------------


def _stage_table(stages: Sequence[StageReport]) -> str:
    rows = [
        [
            _text(each.name),
            f"{each.attempts:,}",
            "–" if each.reliability is None else f"{each.reliability:.1%}",
            f"{each.retried:,}",
            f"{each.failed:,}",
            f"{each.lost:,}",
            *map(_span, each.took),
            f"{each.tokens_in:,}",
            f"{each.tokens_out:,}",
            f"{each.cost:,.6g}",
        ]
        for each in stages
    ]
    head = [
        "stage", "attempts", "well", "retried", "failed", "lost", "p50", "p95", "p99", "longest",
        "tokens in", "tokens out", "cost",
    ]  # fmt: skip
    return _table(head, rows, numbers=range(1, 13))


def _latency(stages: Sequence[StageReport]) -> str:
    """From p50 to p99 on a scale of powers of ten, p95 and the longest marked."""
    timed = [each for each in stages if each.took.p50 is not None]
    if not timed:
        return ""
    least = min(max(each.took.p50 or 0, 0.001) for each in timed)
    most = max(max(each.took.longest or 0, 0.001) for each in timed)
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(most) + 1e-9)
    high = max(high, low + 1)

    def place(seconds: float | None) -> float:
        share = (math.log10(max(seconds or 0, 10.0**low)) - low) / (high - low)
        return _LABEL + min(1.0, share) * (_WIDTH - _LABEL - 20)

    height = _ROW * len(timed) + 24
    drawn = []
    for power in range(low, high + 1):
        x = place(10.0**power)
        drawn.append(f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - 20}"/>')
        drawn.append(
            f'<text class="soft" x="{x:.1f}" y="{height - 5}" text-anchor="middle">'
            f"{in_words(10.0**power)}</text>"
        )
    for row, each in enumerate(timed):
        took, y = each.took, row * _ROW
        start, end = place(took.p50), place(took.p99)
        told = f"p50 {_span(took.p50)}, p95 {_span(took.p95)}, p99 {_span(took.p99)}"
        drawn += [
            _label(each.name, y),
            _box("light", start, max(3.0, end - start), y + 6, 14, told),
            _box("main", start - 1.5, 3.0, y + 4, 18, told),
            _box("warn", place(took.p95) - 1.5, 3.0, y + 4, 18, told),
            _box("bad", place(took.longest) - 3, 6.0, y + 10, 6, f"longest {_span(took.longest)}"),
        ]
    key = (
        '<p class="key"><span><i style="background: var(--main)"></i>half</span>'
        '<span><i style="background: var(--warn)"></i>95 of 100</span>'
        '<span><i style="background: var(--light)"></i>to 99 of 100</span>'
        '<span><i style="background: var(--bad)"></i>longest</span></p>'
    )
    return _picture("How long attempts took, by stage", height, drawn) + key


def _tries(stages: Sequence[StageReport]) -> str:
    bars = [
        (
            f"{each.name}, {attempts}{' or more' if attempts >= MOST_TRIES else ''}×",
            items,
            times(items, "item"),
            "good" if attempts == 1 else "warn",
        )
        for each in stages
        for attempts, items in each.tries.items()
    ]
    return _bars("How many items needed so many attempts at a stage", bars)


def _cost(stages: Sequence[StageReport]) -> str:
    spent = [each for each in stages if each.cost]
    bars = [(each.name, each.cost, f"{each.cost:,.6g}", "main") for each in spent]
    return _bars("What each stage cost", bars)


def _changes(report: Report) -> str:
    rows = [
        [
            _text(stage.name),
            f"<code>{_text(each.config)}</code>",
            f"{each.attempts:,}",
            f"{each.first_at:%Y-%m-%d %H:%M:%S} UTC",
            f"{each.last_at:%Y-%m-%d %H:%M:%S} UTC",
        ]
        for stage in report.stages
        if stage.changed
        for each in stage.configs
    ]
    head = ["stage", "configuration", "attempts", "first began", "last ended"]
    return _table(head, rows, numbers=[2], times=[3, 4]) if rows else ""


# --- what went wrong ------------------------------------------------------------------------------


def _troubles(report: Report) -> str:
    if not report.troubles:
        return ""
    first = report.troubles[:_MOST_TROUBLES]
    bars = [
        (f"{each.code} in {each.stage}", each.attempts, times(each.attempts, "attempt"), "bad")
        for each in first
    ]
    rows = [
        [
            _text(each.code),
            _text(each.stage),
            f"{each.attempts:,}",
            f"{each.items:,}",
            str(each.job_id),
            _text(each.message),
        ]
        for each in report.troubles
    ]
    head = ["code", "stage", "attempts", "items", "e.g. job", "message"]
    more = ""
    if report.more_troubles:
        more = f'<p class="soft">And {report.more_troubles:,} kinds more.</p>'
    return (
        _bars("Commonest troubles by attempts", bars)
        + _table(head, rows, numbers=[2, 3, 4], wide=[5])
        + more
    )


def _failed(report: Report) -> str:
    if not report.failed:
        return ""
    rows = [
        [
            str(each.job_id),
            _text(each.key or ""),
            _text(each.stage),
            str(each.attempts),
            _text(each.fault),
            f"{each.finished_at:%Y-%m-%d %H:%M:%S} UTC",
        ]
        for each in report.failed
    ]
    head = ["job", "key", "stage", "attempts", "fault", "ended"]
    more = ""
    if report.more_failed:
        more = (
            f'<p class="soft">And {report.more_failed:,} more: <code>seawall jobs'
            f" --run {report.run.id} --state failed</code></p>"
        )
    return _table(head, rows, numbers=[0, 3], wide=[4], times=[5]) + more


# --- pictures and tables --------------------------------------------------------------------------


def _picture(title: str, height: float, drawn: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{title}">'
        f"{''.join(drawn)}</svg>"
    )


def _box(kind: str, x: float, width: float, y: float, height: float, told: str) -> str:
    """A box that says what it is to whoever points at it."""
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" rx="2">'
        f"<title>{_text(told)}</title></rect>"
    )


def _label(name: str, y: float) -> str:
    shown = name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…"
    return f'<text x="0" y="{y + 17}">{_text(shown)}<title>{_text(name)}</title></text>'


def _bars(title: str, bars: Sequence[tuple[str, float, str, str]]) -> str:
    """A bar for each: what it is of, how long, what it says, and of which kind it is."""
    if not bars:
        return ""
    most = max(amount for _, amount, *_ in bars) or 1
    room = _WIDTH - _LABEL - 130
    drawn = []
    for row, (name, amount, told, kind) in enumerate(bars):
        y, wide = row * _ROW, max(2.0, amount / most * room)
        drawn += [
            _label(name, y),
            _box(kind, _LABEL, wide, y + 5, 16, f"{name}: {told}"),
            f'<text class="soft" x="{_LABEL + wide + 8:.1f}" y="{y + 17}">{told}</text>',
        ]
    return _picture(title, _ROW * len(bars), drawn)


def _table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Sequence[int] = (),
    wide: Sequence[int] = (),
    times: Sequence[int] = (),
) -> str:
    """A table of cells that are HTML already."""
    said = {"n": numbers, "w": wide, "t": times}
    kinds = {at: f' class="{kind}"' for kind, places in said.items() for at in places}

    def line(cells: Sequence[str], tag: str) -> str:
        filled = (f"<{tag}{kinds.get(at, '')}>{cell}</{tag}>" for at, cell in enumerate(cells))
        return f"<tr>{''.join(filled)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>"
