"""The command line: one module for each group of commands.

A door, not a room: commands turn words into calls and results into tables or JSON. A mistake of
the user's is one line on standard error and exit code 2, never a stack trace.
"""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated

import typer

import seawall
from seawall.cli import (
    artifacts,
    cancel,
    dead,
    demo,
    doctor,
    enqueue,
    init,
    job,
    jobs,
    move,
    policy,
    queues,
    redrive,
    runs,
    schedules,
    serve,
    settings,
    simulate,
    store,
    token,
    upstreams,
    webhooks,
    worker,
)
from seawall.cli.show import help_when_alone
from seawall.errors import SeawallError

MISTAKE = 2

app = typer.Typer(
    name="seawall",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Durable jobs for Python that stand up to failing upstreams.",
    epilog="Try [bold]seawall demo[/bold], then [bold]seawall policy list[/bold].",
)
app.command(name="worker", epilog=worker.EXAMPLE)(worker.worker)
app.command(name="workers", epilog=worker.WORKERS_EXAMPLE)(worker.workers)
app.command(name="serve", epilog=serve.EXAMPLE)(serve.serve)
app.add_typer(token.app, name="token")
app.command(name="enqueue", epilog=enqueue.EXAMPLE)(enqueue.enqueue)
app.command(name="jobs", epilog=jobs.JOBS_EXAMPLE)(jobs.jobs)
app.command(name="job", epilog=job.EXAMPLE)(job.job)
app.command(name="why", epilog=jobs.WHY_EXAMPLE)(jobs.why)
app.command(name="cancel", epilog=cancel.EXAMPLE)(cancel.cancel)
app.command(name="retry", epilog=jobs.RETRY_EXAMPLE)(jobs.retry)
app.add_typer(dead.app, name="dead", epilog=dead.EXAMPLE)
app.command(name="redrive", epilog=redrive.EXAMPLE)(redrive.redrive)
app.command(name="dismiss", epilog=redrive.DISMISS_EXAMPLE)(redrive.dismiss)
app.add_typer(runs.app, name="runs", epilog=runs.EXAMPLE)
app.command(name="run", epilog=runs.RUN_EXAMPLE)(runs.run)
app.add_typer(queues.app, name="queues", epilog=queues.EXAMPLE)
app.command(name="upstreams", epilog=upstreams.EXAMPLE)(upstreams.upstreams)
app.command(name="hold", epilog=upstreams.HOLD_EXAMPLE)(upstreams.hold)
app.command(name="resume", epilog=upstreams.RESUME_EXAMPLE)(upstreams.resume)
app.command(name="force", epilog=upstreams.FORCE_EXAMPLE)(upstreams.force)
app.add_typer(webhooks.app, name="webhooks")
app.command(name="schedules", epilog=schedules.EXAMPLE)(schedules.schedules)
app.command(name="doctor", epilog=doctor.EXAMPLE)(doctor.doctor)
app.add_typer(policy.app, name="policy")
app.command(name="simulate", epilog=simulate.EXAMPLE)(simulate.simulate)
app.add_typer(artifacts.app, name="artifacts")
app.command(name="demo")(demo.demo)
app.command(name="init", epilog=init.EXAMPLE)(init.init)
app.command(name="settings")(settings.settings)
app.command(name="migrate")(store.migrate)
app.command(name="verify")(store.verify)
app.command(name="move", epilog=move.EXAMPLE)(move.move)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"seawall {seawall.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback has already answered
        bool,
        typer.Option(
            "--version", callback=_say_version, is_eager=True, help="Say the version and stop."
        ),
    ] = False,
) -> None:
    """Durable jobs for Python that stand up to failing upstreams."""
    help_when_alone(context)


def _one_sentence(mistake: typer.TyperException) -> str:
    say = getattr(mistake, "format_message", mistake.__str__)
    return " ".join(say().split()).rstrip(".") + "."


def run(words: Sequence[str] | None = None) -> int:
    """Run the command that these words name, or those of this process; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that lacks a sign shows another
            stream.reconfigure(errors="replace")
    try:
        code = app(words, standalone_mode=False, prog_name="seawall") or 0
        sys.stdout.flush()
    except typer.TyperException as mistake:
        context = getattr(mistake, "ctx", None)
        command = "seawall" if context is None else context.command_path
        return _refuse(f"{_one_sentence(mistake)} Try: {command} --help")
    except typer.Abort:
        raise KeyboardInterrupt from None
    except SeawallError as mistake:
        return _refuse(str(mistake))
    except BrokenPipeError:
        # Whoever read our output has seen enough (`seawall policy list | head -1`).
        _drop_the_rest()
        return 0
    except OSError as error:
        _drop_the_rest()
        return _refuse(f"the system says: {(error.strerror or type(error).__name__).lower()}")
    return int(code)


def _drop_the_rest() -> None:
    """Output that cannot be written must not be tried again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(line: str) -> int:
    typer.echo(f"seawall: {line}", err=True)
    return MISTAKE
