"""`seawall enqueue`: asking for a job by hand."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seawall.app import Seawall
from seawall.cli import apps, show, when
from seawall.cli.apps import AppName, Url
from seawall.cli.show import AsJson, ConfigFile
from seawall.errors import ArgumentsError, ConfigurationError, JobEndedError, NotFinishedError
from seawall.jobs import JobHandle, plain
from seawall.tasks import Task

if TYPE_CHECKING:
    from seawall.tasks import Said

EXAMPLE = (
    "Example: [bold]seawall enqueue summarize path=a.pdf --app jobs:app --wait[/bold], "
    """or all arguments as JSON: [bold]'{"path": "a.pdf"}'[/bold]"""
)
_EXPECTED = 'expected NAME=VALUE, or all as JSON: \'{"name": 1}\' or \'["by", "position"]\''


def enqueue(  # noqa: PLR0917 - Typer turns each into an option
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task's name.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[JSON] [NAME=VALUE...]",
            help="A JSON object or array, or pairs. A value is JSON if it can be read as such, "
            "otherwise text.",
        ),
    ] = None,
    key: Annotated[str | None, typer.Option(help="At most one job of the task with it.")] = None,
    priority: Annotated[int | None, typer.Option(help="Higher is sooner.")] = None,
    run_after: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="Not before: 10m from now, or 2026-11-03T14:00Z."),
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Failed where it has not ended by then.")
    ] = None,
    owner: Annotated[str | None, typer.Option(help="Whose it is.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A word to find it by; repeatable.")] = None,
    queue: Annotated[str | None, typer.Option(help="Instead of the task's own.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for its end and print what it came to, as JSON.")
    ] = False,
    wait_seconds: Annotated[
        float | None,
        typer.Option(min=0, metavar="S", help="As --wait, but give up after so long: exit code 1."),
    ] = None,
    app: AppName = None,
    url: Url = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Ask for a job; prints its number."""
    with apps.configured_by(config):
        found = apps.needed(app, url=url)
        asked = _task(found, task)
        args, kwargs = read_arguments(arguments or [])
        said: Said = {"key": key, "owner": owner, "tags": tag or []}
        said["run_after"] = None if run_after is None else when.typed("--run-after", run_after)
        said["deadline"] = None if deadline is None else when.typed("--deadline", deadline)
        if queue is not None:
            said["queue"] = queue
        if priority is not None:
            said["priority"] = priority
        try:
            handle = asked.using(**said).enqueue(*args, **kwargs)
            _tell(found, handle, wait or wait_seconds is not None, wait_seconds, as_json=as_json)
        finally:
            found.close()


def _task(app: Seawall, name: str) -> Task[..., Any, Any]:
    found = app.tasks.get(name)
    if found is None:
        there = ", ".join(sorted(app.tasks)) or "none"
        raise ConfigurationError(f"no task {name!r:.80}; there are: {there}")
    return found


def read_arguments(words: list[str]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named arguments, as they were typed."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if equals and name.isidentifier():
            kwargs[name] = _value(value)
            continue
        whole = _value(word)
        if place > 0 or not isinstance(whole, dict | list):
            raise ArgumentsError(f"found {word!r:.80}, {_EXPECTED}")
        if isinstance(whole, dict):
            kwargs.update(whole)
        else:
            args = whole
    return args, kwargs


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _tell(
    app: Seawall, handle: JobHandle[Any], wait: bool, seconds: float | None, *, as_json: bool
) -> None:
    told: dict[str, Any] = {"id": handle.id, "created": handle.created}
    if not handle.created:
        show.hint("a job of the task has this key already: this is that one")
    if not as_json:
        typer.echo(handle.id)
    if wait:
        untyped = JobHandle(app, handle.id, plain)
        try:
            told |= {"state": "succeeded", "result": untyped.wait(seconds)}
        except (JobEndedError, NotFinishedError) as error:
            if as_json:
                show.print_json({**told, "state": str(handle.state)})
            raise typer.Exit(show.refusal(str(error))) from None
    if as_json:
        show.print_json(told)
    elif wait:
        show.print_json(told["result"])
