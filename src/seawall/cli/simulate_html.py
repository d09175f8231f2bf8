"""A comparison as one HTML file: no script, nothing from elsewhere, light and dark."""

from html import escape

from seawall.cli.report_style import STYLE
from seawall.cli.show import harmless
from seawall.decisions.explain import in_words
from seawall.simulate import Comparison, Spread, verdict
from seawall.simulate.pictures import (
    COLOURS,
    load_over_time,
    state_words,
    states_over_time,
    time_to_success,
)
from seawall.simulate.pictures import STYLE as PICTURES
from seawall.simulate.results import FIGURES

_KEY = """
.key { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; font-size: .9rem; }
.key i { display: inline-block; width: .8rem; height: .8rem; border-radius: .15rem;
  margin-right: .4rem; vertical-align: -.05rem; }
.k0 { background: #3273b8; } .k1 { background: #c98a1b; } .k2 { background: #2f9e6e; }
.k3 { background: #a0559b; } .k4 { background: #d1495b; } .k5 { background: #6b7f94; }
.due { background: #c98a1b; } .later { background: #8fa3b8; } .running { background: #2f9e6e; }
.dead { background: #d1495b; } h3 { font-size: .95rem; margin: 1rem 0 .4rem; }
.verdict { font-size: 1.05rem; }
"""


def page(comparison: Comparison, command: str) -> str:
    """The whole page."""
    scenario = comparison.scenario
    title = _text(scenario.name)
    sections = [
        (
            "The verdict",
            "".join(f'<p class="verdict">{_text(each)}</p>' for each in verdict(comparison)),
        ),
        ("Figures", _table(comparison)),
        ("Load on the upstream", _choices(comparison) + load_over_time(comparison) + _SHADED),
        ("States over time", _states(comparison)),
        ("Time to success", _choices(comparison) + time_to_success(comparison) + _SHARE),
    ]
    body = "\n".join(f"<section><h2>{name}</h2>\n{inside}\n</section>" for name, inside in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>Simulation: {title}</title>\n"
        f"<style>{STYLE}{PICTURES}{_KEY}</style>\n</head>\n<body>\n"
        f"<header><h1>{title}</h1><p>{_text(scenario.description)}</p>"
        f'<p class="soft">{len(comparison.seeds)} seeds; figures are means with 95 % intervals,'
        f" pictures are of seed {comparison.seeds[0]}. <code>{_text(command)}</code></p></header>\n"
        f"{body}\n</body>\n</html>\n"
    )


_SHADED = '<p class="soft">Calls a second. Shaded: the upstream is not simply well.</p>'
_SHARE = '<p class="soft">The share of all jobs that had succeeded after so long.</p>'


def _text(text: object) -> str:
    return escape(harmless(str(text)).encode("utf-8", "replace").decode(), quote=True)


def _choices(comparison: Comparison) -> str:
    keys = "".join(
        f'<span><i class="k{at % COLOURS}"></i>{_text(result.name)}</span>'
        for at, result in enumerate(comparison)
    )
    return f'<p class="key">{keys}</p>'


def _states(comparison: Comparison) -> str:
    keys = "".join(f'<span><i class="{name}"></i>{words}</span>' for name, words in state_words())
    pictures = "".join(
        f"<h3>{_text(result.name)}</h3>{states_over_time(result, comparison.scenario)}"
        for result in comparison
    )
    return f'<p class="key">{keys}</p>{pictures}'


def _table(comparison: Comparison) -> str:
    head = "".join(f'<th class="n">{_text(result.name)}</th>' for result in comparison)
    jobs = "".join(f'<td class="n">{result.record.jobs:,}</td>' for result in comparison)
    rows = [f"<tr><td>jobs</td>{jobs}</tr>"]
    for name, words in FIGURES.items():
        cells = [result.figures[name] for result in comparison]
        if any(cell is not None for cell in cells):
            shown = "".join(f'<td class="n">{in_cell(name, cell)}</td>' for cell in cells)
            rows.append(f"<tr><td>{words}</td>{shown}</tr>")
    return f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def in_cell(name: str, found: Spread | None) -> str:
    """A figure as people read it, with its margin."""
    if found is None:
        return "–"
    if name.endswith("_seconds"):
        margin = f" ± {in_words(found.margin)}" if found.margin >= 0.0005 else ""
        return in_words(found.mean) + margin
    if name == "idle_share":
        return f"{found.mean:.1%}"
    digits = 2 if found.mean < 100 and name in ("amplification", "retries_per_job", "cost") else 0
    margin = f" ± {found.margin:,.{digits}f}" if found.margin >= 0.5 * 10**-digits else ""
    return f"{found.mean:,.{digits}f}{margin}"
