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
    Wait,
    backoff_in_words,
    explain,
    in_words,
    rule_name,
    schedule,
    window_in_words,
)
from seawall.decisions.policy import Policy, Retry, Rule
from seawall.errors import ConfigurationError
from seawall.faults import Fault, FaultCode, code_named

app = typer.Typer(
    no_args_is_help=True,
    help="Look at policies: which there are, what each waits, what it decides and why.",
)

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
            found.sources[name],
            escape(policy.description),
        )
        for name, policy in found.policies.items()
    ]
    console = show.console()
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
    console.print(escape(_limits(policy)))
    for rule in (*policy.rules, policy.otherwise):
        _print_rule(policy, rule)
    console.print(
        f"\n[dim]More: seawall policy explain {escape(policy.name)} --fault TIMEOUT[/dim]"
    )


@app.command("explain")
def explain_(  # noqa: PLR0917 - Typer turns each into an option
    fault: Annotated[
        str,
        typer.Option(help=f"What went wrong: {', '.join(FaultCode)}.", metavar="CODE"),
    ],
    name: PolicyName = None,
    attempt: Annotated[int, typer.Option(min=1, help="The attempt that just failed, from 1.")] = 1,
    retry_after: Annotated[
        float | None, typer.Option(min=0, help="Seconds that the upstream asked for.")
    ] = None,
    status: Annotated[int | None, typer.Option(min=100, max=599, help="HTTP status.")] = None,
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
        _code(fault),
        status=status,
        retry_after_seconds=retry_after,
        kinds=(exception,) if exception else (),
    )
    told = explain(
        policy,
        occurred,
        attempt=attempt,
        rng=random.Random(seed),
        elapsed_seconds=elapsed,
        earlier=None if earlier is None else [_code(c) for c in earlier.split(",") if c.strip()],
    )
    if as_json:
        show.print_json(
            {
                "policy": policy.id,
                "fault": occurred.code,
                "attempt": attempt,
                "rule": told.rule,
                "verdict": _verdict(told.verdict),
                "window_seconds": told.window,
                "why": told.sentences,
            }
        )
        return
    console = show.console()
    for sentence in told.sentences:
        console.print(escape(sentence))
    if isinstance(told.verdict, Retry):
        console.print(
            f"[bold green]Retry[/bold green] after {in_words(told.verdict.delay_seconds)}."
        )
    else:
        console.print(f"[bold red]Fail[/bold red]: {told.verdict.reason}.")


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


def _limits(policy: Policy) -> str:
    said = []
    if policy.max_attempts is not None:
        said.append(f"{policy.max_attempts} attempts in all")
    if policy.max_elapsed_seconds is not None:
        said.append(f"{in_words(policy.max_elapsed_seconds)} from the first attempt on")
    if policy.max_wait_seconds is not None:
        said.append(f"no Retry-After beyond {in_words(policy.max_wait_seconds)}")
    return f"Limits: {', '.join(said) or 'those of each rule'}."


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
        console.print("  fails at once")
        return
    remarks = [
        backoff_in_words(rule.backoff),
        *([f"{rule.max_attempts} failures by this rule"] if rule.max_attempts else []),
        *([] if rule.counts else ["uses up no attempt"]),
        *(["only with a Retry-After"] if rule.needs_retry_after else []),
    ]
    console.print("  " + escape("; ".join(remarks)))
    waits = schedule(policy, rule)
    if not waits:
        console.print("  no retry: its first failure is its last")
        return
    longest = max(wait.most_seconds for wait in waits)
    rows = [_row(wait, longest) for wait in waits]
    console.print(show.table(("  AFTER FAILURE", "WAIT", "SUM, ABOUT", ""), rows))


def _row(wait: Wait, longest: float) -> tuple[str, str, str, str]:
    return (
        f"  {wait.failure}",
        window_in_words((wait.least_seconds, wait.most_seconds)),
        in_words(wait.sum_seconds),
        show.range_bar(wait.least_seconds, wait.most_seconds, longest),
    )
