"""`seawall upstreams`, `hold`, `resume` and `force`: what tasks call, and deciding about it."""

import time
from contextlib import suppress
from datetime import datetime
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape

from seawall.cli import apps, show, when
from seawall.cli.apps import AppName, Found, Url
from seawall.cli.show import AsJson, ConfigFile
from seawall.decisions.explain import in_words
from seawall.errors import ConfigurationError, StoreUnavailableError
from seawall.store import Scope
from seawall.upstreams import BY_HAND, UpstreamView
from seawall.why import span

EXAMPLE = "Example: [bold]seawall upstreams --watch --app jobs:app[/bold]"
HOLD_EXAMPLE = 'Example: [bold]seawall hold openai --for 10m --why "maintenance"[/bold]'
RESUME_EXAMPLE = "Example: [bold]seawall resume openai[/bold]"
FORCE_EXAMPLE = 'Example: [bold]seawall force openai closed --for 1h --why "false alarm"[/bold]'
WATCH_SECONDS = 1.0
DECIDED = "decided by hand"
NONE = 'There are no upstreams: a task names what it calls, as in @app.task(upstream="openai").'

_COLUMNS = (
    "UPSTREAM", "STATE", "FOR", "WAITING", "LATER", "RUNNING", "CALLS", "FAILED", "MEAN",
    "RETRIES LEFT", "WHY",
)  # fmt: skip
_RIGHT = (3, 4, 5, 6, 7, 8, 9)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The upstream, as tasks name it.")]
For = Annotated[
    str | None,
    typer.Option(
        "--for",
        metavar="SPAN",
        help="For so long: 10m, 2h, or until 2026-11-03T14:00Z. Default: until it is resumed.",
    ),
]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="What to tell others.")]


class To(StrEnum):
    """What an upstream can be forced to be."""

    OPEN = "open"
    CLOSED = "closed"
    AUTO = "auto"


# --- looking --------------------------------------------------------------------------------------


def upstreams(
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it anew every second, until Ctrl-C.")
    ] = False,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List what tasks call: whether it is well, held or probed, and why.

    Also how many jobs wait for it, how its calls went in the last minute, and
    how many retries its budget has left. With --app it is judged by what the
    application says of it, and those without jobs are listed, too; without,
    by the configuration file and the defaults.
    """
    if watch and as_json:
        raise ConfigurationError("--watch is for people: ask for --json again and again instead")
    with apps.opened(app, url, config) as found:
        out = show.console()
        if watch and out.is_terminal and not out.is_dumb_terminal:
            _watch(found, out)
            return
        listed, now = found.upstreams.all(), found.store.now()
    if as_json:
        show.print_json([_as_data(each) for each in listed])
    elif not listed:
        typer.echo(NONE)
    else:
        show.listing(_COLUMNS, [_row(each, now) for each in listed], right=_RIGHT)
    if watch:
        show.hint("the output is no terminal, so --watch showed it once")


def _watch(found: Found, out: Console) -> None:
    """Show it anew again and again, in place; Ctrl-C is how that ends."""
    with suppress(KeyboardInterrupt), Live(console=out, auto_refresh=False) as live:
        while True:
            try:
                shown = _shown(found, out)
            except StoreUnavailableError as error:
                shown = f"[yellow]{escape(str(error))}[/yellow]"
            end = f"[dim]every {WATCH_SECONDS:g} s; Ctrl-C ends it[/dim]"
            live.update(Group(shown, "", end), refresh=True)
            time.sleep(WATCH_SECONDS)


def _shown(found: Found, out: Console) -> RenderableType:
    listed, now = found.upstreams.all(), found.store.now()
    if not listed:
        return escape(NONE)
    return show.laid_out(out, _COLUMNS, [_row(each, now) for each in listed], right=_RIGHT)


def _row(each: UpstreamView, now: datetime) -> tuple[str, ...]:
    state = in_state(each)
    colour = "green" if state == "well" else "yellow"
    return (
        escape(each.name),
        f"[{colour}]{state}[/{colour}]",
        _for_another(each, now),
        f"{each.waiting:,}",
        f"{each.later:,}",
        f"{each.running:,}",
        f"{each.calls:,}",
        f"{each.failures:,}",
        "" if each.mean_seconds is None else in_words(each.mean_seconds),
        "" if each.retries_left is None else f"{each.retries_left:,}",
        "" if state in {"well", each.reason} else escape(_reason(each)),
    )


def _reason(each: UpstreamView) -> str:
    often = each.openings > 1 and not each.forced
    return f"{each.reason}, {each.openings} times in a row" if often else each.reason


def in_state(each: UpstreamView) -> str:
    """How it is, in words."""
    if each.forced == "open":
        return BY_HAND
    if each.forced == "closed":
        return "let through by hand"
    if each.phase == "open":
        return "held"
    if each.phase == "half_open":
        return "being probed"
    return "well" if each.share >= 1 else f"being let go, {each.share:.0%}"


def _for_another(each: UpstreamView, now: datetime) -> str:
    until = each.forced_until or each.held_until
    if until is not None:
        return span(until - now)
    return "until resumed" if each.forced else ""


def _as_data(each: UpstreamView) -> dict[str, object]:
    told: dict[str, object] = show.as_data(each)
    return {**told, "state": in_state(each)}


# --- deciding -------------------------------------------------------------------------------------


def hold(
    name: Name,
    for_: For = None,
    why: Why = BY_HAND,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Let no job begin that calls an upstream, for a time or until it is resumed.

    Those that run go on, and no attempt is used up by waiting. Afterwards its
    jobs are let go little by little, by themselves.
    """
    _forced(name, To.OPEN, for_, why, app, url, config, as_json=as_json)


def resume(
    name: Name,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Leave an upstream to its breaker again, and let go what was held.

    Its jobs are let go little by little, also where its own breaker held them.
    Exit code 1 if it was not held.
    """
    _resumed(name, app, url, config, as_json=as_json)


def force(
    name: Name,
    to: Annotated[
        To,
        typer.Argument(
            metavar="open|closed|auto",
            help="open: held, as by `hold`. closed: called, whatever its breaker thinks. auto: as "
            "its breaker thinks, as by `resume`.",
        ),
    ],
    for_: For = None,
    why: Why = DECIDED,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Decide in its breaker's place whether an upstream is called.

    `closed` lets its jobs begin although calls fail, and they use up attempts:
    for when you know better. Its limits hold all the same.
    """
    if to is not To.AUTO:
        _forced(name, to, for_, why, app, url, config, as_json=as_json)
        return
    if for_ is not None:
        raise ConfigurationError("--for goes with open or closed: auto has no end")
    _resumed(name, app, url, config, as_json=as_json)


def _forced(
    name: str,
    to: To,
    for_: str | None,
    why: str,
    app: str | None,
    url: str | None,
    config: str | None,
    *,
    as_json: bool,
) -> None:
    with apps.opened(app, url, config, write=True) as found:
        known = [each.name for each in found.upstreams.all()]
        seconds = None if for_ is None else when.lasting("--for", for_, found.store.now())
        found.upstreams.force(name, "open" if to is To.OPEN else "closed", seconds=seconds, why=why)
        after = found.upstreams.get(name)
        now = found.store.now()
    if as_json:
        show.print_json(_as_data(after))
        return
    until = after.forced_until
    end = "until somebody resumes it" if until is None else f"for {span(until - now)}"
    done = "is held" if to is To.OPEN else "is called, whatever its breaker thinks,"
    typer.echo(f"The upstream {name} {done} {end}. To end that: seawall resume {name}")
    _hint(name, known)


def _hint(name: str, known: list[str]) -> None:
    """What may have been meant instead, or as well."""
    keys = [each for each in known if each.startswith(f"{name}:")]
    if keys:
        others = ", ".join(keys[:5]) + (", …" if len(keys) > 5 else "")
        show.hint(f"keys are upstreams of their own, and are left as they are: {others}")
    elif name not in known:
        near = get_close_matches(name, known, n=1)
        meant = f"did you mean {near[0]}?" if near else "is it the name you meant?"
        show.hint(f"nothing waits for an upstream {name} now, and nothing is said of it; {meant}")


def _resumed(
    name: str, app: str | None, url: str | None, config: str | None, *, as_json: bool
) -> None:
    with apps.opened(app, url, config, write=True) as found:
        was_held = found.upstreams.resume(name)
        was_held |= found.store.resume(Scope.UPSTREAM, name)
        queues = {each.name for each in found.store.holds() if each.scope is Scope.QUEUE}
        after = [each for each in found.upstreams.all() if each.name == name]
        ramp = found.upstreams.of(name).breaker.ramp_seconds
    if as_json:
        show.print_json({"upstream": name, "was_held": was_held})
    elif was_held:
        ramps = any(each.share < 1 for each in after)
        held = f"; what was held is let go within {in_words(ramp)}" if ramps else ""
        typer.echo(f"The upstream {name} is its breaker's affair again{held}.")
    if not was_held:
        also = f"; for the queue of that name: seawall queues resume {name}"
        raise typer.Exit(
            show.refusal(f"the upstream {name} was not held{also if name in queues else ''}")
        )
