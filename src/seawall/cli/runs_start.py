"""`seawall runs start`: the items of a file through a pipeline."""

from typing import Annotated, Any

import typer

from seawall.cli import apps, show
from seawall.cli.apps import AppName, Url
from seawall.cli.live import as_data
from seawall.cli.show import AsJson, ConfigFile
from seawall.errors import ConfigurationError
from seawall.pipelines import Pipeline

EXAMPLE = (
    "Example: [bold]seawall runs start reports items.jsonl --name monday --key id --app jobs:app"
    "[/bold]"
)


def start(  # noqa: PLR0917 - Typer turns each into an option
    context: typer.Context,
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="The pipeline's name.")],
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="One item a line: .jsonl, .ndjson or .csv.")
    ],
    name: Annotated[
        str, typer.Option(help="What it is known by: an unfinished run of that name goes on.")
    ],
    key: Annotated[
        str | None,
        typer.Option(metavar="FIELD", help="The field that tells items apart. Default: the place."),
    ] = None,
    failure_budget: Annotated[
        str,
        typer.Option(metavar="SHARE", help="Aborted when more fail: 0.1, 10%, or none."),
    ] = "0.1",
    minimum: Annotated[
        int, typer.Option(min=1, help="How many must have ended before that is judged.")
    ] = 1_000,
    complete_at: Annotated[float, typer.Option(help="Completed with this share.")] = 0.95,
    partial_at: Annotated[float, typer.Option(help="A partial success with this share.")] = 0.50,
    spending_cap: Annotated[
        float | None, typer.Option(help="Paused when it has cost so much.")
    ] = None,
    owner: Annotated[str | None, typer.Option(help="Whose it is.")] = None,
    queue: Annotated[str | None, typer.Option(help="Instead of the pipeline's own.")] = None,
    priority: Annotated[int | None, typer.Option(help="Higher is sooner.")] = None,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Watch it until it is over; exit code 1 unless completed."),
    ] = False,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Push the items of a file through a pipeline; prints the run's number.

    Called again while the run is unfinished, also after a crash, it goes on
    where it stood; a finished one starts anew.
    """
    earlier_app, earlier_url, earlier_config = context.obj
    with apps.configured_by(config or earlier_config):
        known = apps.needed(app or earlier_app, url=url or earlier_url)
        found = known.tasks.get(pipeline)
        if not isinstance(found, Pipeline):
            there = ", ".join(n for n, t in known.tasks.items() if isinstance(t, Pipeline))
            raise ConfigurationError(f"no pipeline {pipeline!r:.80}; there are: {there or 'none'}")
        try:
            begun = found.run(
                file, name=name, key=None if key is None else _field(key),
                failure_budget=_budget(failure_budget), minimum=minimum, complete_at=complete_at,
                partial_at=partial_at, spending_cap=spending_cap, owner=owner, queue=queue,
                priority=priority,
            )  # fmt: skip
            if not as_json:
                typer.echo(begun.id)
            view = begun.wait() if wait else begun.view()
        finally:
            known.close()
    if as_json:
        show.print_json(as_data(view))
    if wait and view.status != "completed":
        raise typer.Exit(show.refusal(f"run {begun.id} is {view.status}: seawall run {begun.id}"))


def _field(name: str) -> Any:
    def key(item: Any) -> str:
        if not isinstance(item, dict) or item.get(name) is None:
            raise ValueError(f"it has no field {name!r:.80}")
        return str(item[name])

    return key


def _budget(text: str) -> float | None:
    word = text.strip().lower()
    if word == "none":
        return None
    try:
        return float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        raise ConfigurationError(
            f"--failure-budget: found {text!r:.80}, expected a share such as 0.1 or 10%, or none"
        ) from None
