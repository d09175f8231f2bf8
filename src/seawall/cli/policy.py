"""`seawall policy`: list the policies, show one's schedule, explain one decision."""

import dataclasses
import random
from typing import Annotated

import typer
from rich.markup import escape

from seawall import configuration
from seawall.cli import show
from seawall.cli.show import AsJson, ConfigFile
from seawall.decisions.explain import (
    MOST_ROWS,
    Explanation,
    Wait,
    explain,
    in_words,
    limits_in_words,
    remarks,
    rule_name,
    schedule,
    window_in_words,
)
from seawall.decisions.matching import short_name
from seawall.decisions.policy import Policy, Retry
from seawall.decisions.readers import code_of_status
from seawall.decisions.rule import Rule
from seawall.errors import ConfigurationError
from seawall.faults import LONGEST_WAIT_SECONDS, Fault, FaultCode, code_named

app = typer.Typer(
    invoke_without_command=True,
    callback=show.help_when_alone,
    help="Look at policies: which there are, what each waits, what it decides and why.",
)

NARROW = 72
BESIDE_THE_BAR = 52
"""The columns that the figures of a schedule may take."""

PolicyName = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="A policy. Default: the setting `policy`."),
]


@app.command("list")
def list_(config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List every policy: the presets and those of the configuration file."""
    found = configuration.load(config)
    if as_json:
        show.print_json([_summary(p, found.sources[name]) for name, p in found.policies.items()])
        return
    rows = [
        (
            escape(name),
            policy.version,
            str(policy.max_attempts or "–"),
            escape(found.sources[name]),
            escape(policy.description),
        )
        for name, policy in found.policies.items()
    ]
    console = show.console()
    if console.width < NARROW:
        for name, *_, description in rows:
            console.print(f"[bold]{name}[/bold]")
            console.print(show.indented(description))
        return
    columns = ("NAME", "VERSION", "ATTEMPTS", "FROM", "WHAT FOR")
    console.print(show.table(columns, rows, right=(2,)))
    console.print("\n[dim]More: seawall policy show NAME[/dim]")


@app.command("show")
def show_(name: PolicyName = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Show a policy: its rules, and the waits of each as a table and a picture."""
    found = configuration.load(config)
    policy = found.policy(name)
    if as_json:
        source = found.sources[policy.name]
        show.print_json({**_summary(policy, source), **policy.content(), "waits": _waits(policy)})
        return
    console = show.console()
    console.print(f"[bold]{escape(policy.name)}[/bold] [dim]version {policy.version}[/dim]")
    for line in (policy.description, policy.notes):
        if line:
            console.print(escape(line))
    console.print(escape(f"Limits: {limits_in_words(policy)}."))
    for rule in (*policy.rules, policy.otherwise):
        _print_rule(policy, rule)
    console.print(
        f"\n[dim]More: seawall policy explain {escape(policy.name)} --fault TIMEOUT[/dim]"
    )


@app.command("explain")
def explain_(  # noqa: PLR0917 - Typer turns each into an option
    name: PolicyName = None,
    fault: Annotated[
        str | None,
        typer.Option(
            help=f"What went wrong: {', '.join(FaultCode)}. Default: what --status means.",
            metavar="CODE",
        ),
    ] = None,
    attempt: Annotated[
        int | None,
        typer.Option(
            min=1, help="The attempt that just failed, from 1. Default: after the --earlier ones."
        ),
    ] = None,
    retry_after: Annotated[
        float | None,
        typer.Option(min=0, max=LONGEST_WAIT_SECONDS, help="Seconds that the upstream asked for."),
    ] = None,
    status: Annotated[int | None, typer.Option(min=400, max=599, help="HTTP status.")] = None,
    exception: Annotated[
        str | None, typer.Option(help="The exception's name, such as openai.APIError.")
    ] = None,
    earlier: Annotated[
        str | None,
        typer.Option(
            help="Codes of the earlier failures, oldest first, with commas between. "
            "Default: all failed by the same rule.",
            metavar="CODES",
        ),
    ] = None,
    elapsed: Annotated[
        float, typer.Option(min=0, help="Seconds since the first attempt began.")
    ] = 0.0,
    seed: Annotated[int | None, typer.Option(help="Draw the same delay every time.")] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Explain what a policy decides about a fault, and why."""
    policy = configuration.load(config).policy(name)
    occurred = Fault(
        _what_went_wrong(fault, status),
        status=status,
        retry_after_seconds=retry_after,
        kinds=(short_name(exception),) if exception else (),
    )
    past = None if earlier is None else [_code(c) for c in earlier.split(",") if c.strip()]
    told = explain(
        policy,
        occurred,
        attempt=attempt or 1 + sum(policy.rule_for(Fault(code)).counts for code in past or ()),
        rng=random.Random(seed),
        elapsed_seconds=elapsed,
        earlier=past,
    )
    if as_json:
        show.print_json(_told(policy, occurred, told))
    else:
        _print_told(told)


def _told(policy: Policy, occurred: Fault, told: Explanation) -> dict[str, object]:
    return {
        "policy": policy.id,
        "fault": occurred.code,
        "attempt": told.attempt,
        "rule": told.rule,
        "verdict": _verdict(told.verdict),
        "window_seconds": told.window,
        "why": told.sentences,
    }


def _print_told(told: Explanation) -> None:
    console = show.console()
    for sentence in told.sentences:
        console.print(escape(sentence))
    if isinstance(told.verdict, Retry):
        delay = in_words(told.verdict.delay_seconds)
        console.print(f"[bold green]Retry[/bold green] after {delay}.")
    else:
        console.print(f"[bold red]Fail[/bold red]: {told.verdict.reason}.")


def _what_went_wrong(fault: str | None, status: int | None) -> FaultCode:
    if fault is not None:
        return _code(fault)
    if status is None:
        raise ConfigurationError("say what went wrong: --fault CODE, or --status NUMBER")
    return code_of_status(status)


def _code(text: str) -> FaultCode:
    try:
        return code_named(text.strip().upper())
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def _verdict(verdict: object) -> dict[str, object]:
    kind = "retry" if isinstance(verdict, Retry) else "fail"
    return {"kind": kind, **dataclasses.asdict(verdict)}  # type: ignore[call-overload]


def _summary(policy: Policy, source: str) -> dict[str, object]:
    return {
        "name": policy.name,
        "version": policy.version,
        "from": source,
        "max_attempts": policy.max_attempts,
        "description": policy.description,
        "notes": policy.notes,
    }


def _waits(policy: Policy) -> list[dict[str, object]]:
    return [
        {"rule": rule_name(policy, rule), **dataclasses.asdict(wait)}
        for rule in (*policy.rules, policy.otherwise)
        for wait in schedule(policy, rule)
    ]


def _print_rule(policy: Policy, rule: Rule) -> None:
    console = show.console()
    name = rule_name(policy, rule).capitalize()
    console.print(f"\n[bold]{name}[/bold] on [cyan]{escape(rule.title)}[/cyan]")
    if not rule.retry:
        console.print(show.indented("fails at once"))
        return
    console.print(show.indented(escape("; ".join(remarks(rule)))))
    waits = schedule(policy, rule)
    if not waits:
        console.print(show.indented("no retry: its first failure is its last"))
        return
    longest = max(wait.most_seconds for wait in waits)
    rows = [_row(wait, longest, console.width - BESIDE_THE_BAR) for wait in waits]
    console.print(show.table(("  AFTER FAILURE", "WAIT", "SUM, ABOUT", ""), rows))
    if len(waits) == MOST_ROWS:
        console.print(show.indented("…"))


def _row(wait: Wait, longest: float, room: int) -> tuple[str, str, str, str]:
    return (
        f"  {wait.failure}",
        window_in_words((wait.least_seconds, wait.most_seconds)),
        in_words(wait.sum_seconds),
        show.range_bar(wait.least_seconds, wait.most_seconds, longest, room),
    )
