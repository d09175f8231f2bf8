"""`seawall simulate`: what each choice of policy and breaker comes to, before production does."""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.markup import escape

from seawall import configuration
from seawall.cli import show
from seawall.cli.show import AsJson, ConfigFile
from seawall.cli.simulate_html import in_cell, page
from seawall.decisions.upstream import Upstream
from seawall.errors import ConfigurationError
from seawall.simulate import (
    Choice,
    Comparison,
    Load,
    Scenario,
    compare,
    contention,
    load_scenario,
    verdict,
)
from seawall.simulate.contention import KINDS
from seawall.simulate.pictures import flat, whole
from seawall.simulate.results import FIGURES
from seawall.simulate.scenario import UPSTREAM
from seawall.simulate.scenario_data import phase_of, seconds_of, shipped

EXAMPLE = (
    "Try [bold]seawall simulate outage[/bold], [bold]seawall simulate outage --policy default"
    " --policy llm-reports --html out.html[/bold], or [bold]seawall simulate contention[/bold]."
)
T = TypeVar("T")

CONTENTION = "contention"
_USUAL_RUNS = 100

Named = Annotated[
    str | None,
    typer.Argument(
        metavar="SCENARIO",
        help="A TOML file, `contention`, or one that ships: `--list` names them. "
        "Default: what the flags say.",
    ),
]


def simulate(  # noqa: PLR0917 - Typer turns each into an option
    scenario: Named = None,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", metavar="NAME", help="A policy to compare; again for another."),
    ] = None,
    breaker: Annotated[
        list[str] | None,
        typer.Option(
            "--breaker",
            metavar="on|off",
            help="With the upstream's breaker, limits and budget, or without; both to compare.",
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Jobs that are there from the start.")] = None,
    rate: Annotated[
        float | None, typer.Option(help="Jobs that come, a second, for as long as --for says.")
    ] = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="How long jobs come: 600, 10m, 1h.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="How many workers.")] = None,
    concurrency: Annotated[int | None, typer.Option(help="Jobs at once, of each worker.")] = None,
    service: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long a call takes, on average.")
    ] = None,
    distribution: Annotated[
        str | None,
        typer.Option(help="How that varies: fixed, exponential, lognormal or uniform."),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="The time limit of a call.")
    ] = None,
    phase: Annotated[
        list[str] | None,
        typer.Option(
            "--phase",
            metavar="WHAT",
            help="How the upstream behaves, one after the other: 'healthy 10m', 'down 20m', "
            "'slow 10m factor=5', 'errors 5m rate=0.3', 'rate-limit limit=20 retry_after=true', "
            "'flapping 10m up_seconds=40 down_seconds=20', 'recovering 5m'.",
        ),
    ] = None,
    price: Annotated[float | None, typer.Option(help="What a call costs.")] = None,
    longest: Annotated[
        str | None, typer.Option(metavar="TIME", help="Simulate no longer than that.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="How many runs of each choice.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The first seed: the same gives the same.")] = 0,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with pictures.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the pictures.")] = None,
    png: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the pictures for what knows no SVG.")
    ] = None,
    clients: Annotated[
        int | None, typer.Option(help="With contention: clients that update one record.")
    ] = None,
    runs: Annotated[int | None, typer.Option(help="With contention: how many runs.")] = None,
    backoff: Annotated[
        str | None, typer.Option(help=f"With contention: one of {', '.join(KINDS)}. Default: all.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the scenarios that ship.")] = False,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Simulate policies, breakers and budgets in virtual time, and say what each choice costs."""
    if list_:
        _list(as_json=as_json)
        return
    if scenario == CONTENTION:
        _contention(clients or 100, runs or _USUAL_RUNS, backoff, seed, as_json=as_json)
        return
    if (clients, runs, backoff) != (None, None, None):
        raise ConfigurationError("--clients, --runs and --backoff are of: simulate contention")
    if png is not None:
        _need_png()  # before anything takes its time
    found = configuration.load(config)
    base = _base(
        scenario,
        {"jobs": jobs, "per_second": rate, "for_seconds": _seconds("--for", for_)},
        found,
    )
    fleet = {"count": workers, "concurrency": concurrency}
    calls = {
        "distribution": distribution,
        "mean_seconds": _seconds("--service", service),
        "timeout_seconds": _seconds("--timeout", timeout),
    }
    base = _made(
        base,
        workers=_altered(base.workers, "workers", fleet),
        service=_altered(base.service, "service", calls),
        phases=tuple(map(phase_of, phase)) if phase else base.phases,
        price_per_call=base.price_per_call if price is None else price,
        seconds=_seconds("--longest", longest) or base.seconds,
    )
    base = _chosen(base, policy, breaker, found)
    comparison = compare(base, seeds=seeds, first_seed=seed)
    named = [scenario] if scenario else []
    command = shlex.join(["seawall", "simulate", *named, "--seeds", str(len(comparison.seeds))])
    if html is not None:
        html.write_text(page(comparison, command), "utf-8")
    if svg is not None:
        svg.write_text(whole(comparison), "utf-8")
    if png is not None:
        png.write_bytes(_raster(whole(comparison)))
    if as_json:
        show.print_json(comparison.as_data())
    else:
        _print(comparison)
        for file in filter(None, (html, svg, png)):
            show.hint(f"written: {file}")


def _need_png() -> None:
    if find_spec("resvg_py") is None:
        raise ConfigurationError("--png needs an extra: pip install 'seawall[png]'; or use --svg")


def _raster(svg: str) -> bytes:
    import resvg_py  # noqa: PLC0415 - an extra

    return bytes(resvg_py.svg_to_bytes(svg_string=flat(svg), zoom=2.0))


# --- what is simulated ----------------------------------------------------------------------------


def _base(
    named: str | None, given: Mapping[str, object], found: configuration.Configuration
) -> Scenario:
    if named is not None:
        base = load_scenario(named, policies=found.policies)
        return _made(base, load=_altered(base.load, "load", given))
    said = {name: value for name, value in given.items() if value is not None}
    if not said:
        raise ConfigurationError(
            f"name a scenario ({', '.join((*shipped(), CONTENTION))}), a TOML file, or say what "
            "comes: --jobs, or --rate with --for"
        )
    try:
        return Scenario(name="flags", load=Load(**said))  # type: ignore[arg-type]
    except ValueError as error:
        raise ConfigurationError(f"load.{error}") from None


def _seconds(flag: str, text: str | None) -> float | None:
    return None if text is None else seconds_of(text, flag)


def _altered(part: T, where: str, given: Mapping[str, object]) -> T:
    """The same with what the flags say."""
    said = {name: value for name, value in given.items() if value is not None}
    try:
        return replace(part, **said)  # type: ignore[type-var]
    except ValueError as error:
        raise ConfigurationError(f"{where}.{error}") from None


def _made(base: Scenario, **changes: object) -> Scenario:
    try:
        return replace(base, **changes)  # type: ignore[arg-type]
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def _chosen(
    base: Scenario,
    policies: list[str] | None,
    breakers: list[str] | None,
    found: configuration.Configuration,
) -> Scenario:
    """The choices that the flags name, each policy with each breaker; else the scenario's own."""
    if not policies and not breakers:
        return base
    for each in breakers or ():
        if each not in ("on", "off"):
            raise ConfigurationError(f"--breaker: found {each!r:.80}, expected on or off")
    known = {choice.policy.name: choice.policy for choice in base.choices}
    chosen = [known.get(name) or found.policy(name) for name in policies or ()]
    chosen = chosen or list(known.values())
    kept = next((c.upstream for c in base.choices if c.upstream is not None), Upstream(UPSTREAM))
    return _made(
        base,
        choices=tuple(
            Choice(policy, kept if each == "on" else None)
            for policy in chosen
            for each in breakers or ("on",)
        ),
    )


# --- what it came to ------------------------------------------------------------------------------


def _list(*, as_json: bool) -> None:
    rows = [(name, load_scenario(name).description) for name in shipped()]
    rows.append((CONTENTION, "Many clients update one record at once; what each back-off costs."))
    if as_json:
        show.print_json([{"name": name, "description": said} for name, said in rows])
        return
    show.listing(("SCENARIO", "WHAT HAPPENS"), [(name, escape(said)) for name, said in rows])


def _contention(clients: int, runs: int, backoff: str | None, seed: int, *, as_json: bool) -> None:
    kinds = KINDS if backoff is None else (backoff,)
    found = [contention(clients, kind, runs=runs, seed=seed) for kind in kinds]
    if as_json:
        data = [each.as_data() for each in found]
        show.print_json(data if backoff is None else data[0])
        return
    rows = [
        (
            each.backoff,
            f"{each.calls.mean:,.0f} ± {each.calls.margin:,.0f}",
            f"{each.time_ms.mean:,.0f} ± {each.time_ms.margin:,.0f} ms",
        )
        for each in found
    ]
    show.console().print(f"{clients} clients update one record at once; {runs} runs.\n")
    show.listing(("BACK-OFF", "CALLS", "TIME"), rows, right=(1, 2))


def _print(comparison: Comparison) -> None:
    scenario, console = comparison.scenario, show.console()
    console.print(f"[bold]{escape(scenario.name)}[/bold] {escape(scenario.description)}")
    console.print(f"[dim]{len(comparison.seeds)} seeds, from {comparison.seeds[0]}[/dim]\n")
    columns = ("", *(escape(result.name).upper() for result in comparison))
    rows = [("jobs", *(f"{result.record.jobs:,}" for result in comparison))]
    for name, words in FIGURES.items():
        cells = [result.figures[name] for result in comparison]
        if any(cell is not None for cell in cells):
            rows.append((words, *(in_cell(name, cell) for cell in cells)))
    show.listing(columns, rows, right=range(1, len(columns)))
    console.print()
    for line in verdict(comparison):
        console.print(escape(line))
