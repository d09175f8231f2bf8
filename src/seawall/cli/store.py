"""`seawall migrate` and `seawall verify`: the store itself, without any job being touched."""

import typer
from rich.markup import escape

from seawall import configuration
from seawall.cli import show
from seawall.cli.apps import Url
from seawall.cli.show import AsJson, ConfigFile
from seawall.store import migrate_store, verify_store
from seawall.store.values import Verification

BROKEN = 1


def migrate(url: Url = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Make the store's tables, or bring them up to date. Safe to repeat, and beside traffic."""
    applied = migrate_store(_url(url, config))
    if as_json:
        show.print_json(applied)
        return
    for name in applied:
        typer.echo(f"applied {name}")
    typer.echo("The store is up to date.")


def verify(url: Url = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Prove that no job was lost: every one that came in is there or was pruned, and every rule
    of the ledger holds. Reads only, in one instant, beside any traffic. Exit code 1 if not.
    """
    found = verify_store(_url(url, config))
    if as_json:
        show.print_json(_as_data(found))
    else:
        _print(found)
    if not found.ok:
        raise typer.Exit(BROKEN)


def _url(url: str | None, config: str | None) -> str:
    return configuration.load(config, flags={"url": url}).settings.url


def _print(found: Verification) -> None:
    console = show.console()
    states = [(str(state), f"{jobs:,}") for state, jobs in found.present.items()]
    counts = [*states, ("pruned", f"{found.pruned:,}"), ("entered", f"{found.entered:,}")]
    console.print(show.table(("STATE", "JOBS"), counts, right=(1,)))
    for broken in found.violations:
        jobs = ", ".join(map(str, broken.jobs)) or "–"
        line = f"[red]broken[/red] {broken.rule} ({broken.count:,}): {escape(broken.promise)}"
        console.print(line, f"jobs: {jobs}", sep="\n  ", soft_wrap=True)
    if found.ok:
        console.print("No job is lost: what entered is there or was pruned, and every rule holds.")


def _as_data(found: Verification) -> dict[str, object]:
    return {
        "ok": found.ok,
        "entered": found.entered,
        "present": {str(state): jobs for state, jobs in found.present.items()},
        "pruned": found.pruned,
        "violations": [
            {"rule": each.rule, "promise": each.promise, "count": each.count, "jobs": each.jobs}
            for each in found.violations
        ],
    }
