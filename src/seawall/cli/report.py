"""`seawall run ID report`: what the history of a run comes to, as tables, as JSON, as a page."""

from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from seawall.cli import report_html, show
from seawall.cli.live import spent_of, status_of
from seawall.decisions.explain import in_words
from seawall.errors import ConfigurationError
from seawall.report import Report, StageReport
from seawall.standings import span_of
from seawall.store import MOST_TRIES, Spans
from seawall.why import span

MOST_TROUBLES = 10
WIDEST_BAR = 30


def show_report(report: Report, html: str | None, *, as_json: bool) -> None:
    """The report, the way it was asked for."""
    if as_json:
        show.print_json(as_data(report))
    elif html is None:
        _print(report)
    else:
        _write(report, html)


def as_data(report: Report) -> dict[str, Any]:
    """The report as JSON can hold it, with what follows from its counts."""
    told: dict[str, Any] = show.as_data(report)
    for stage, data in zip(report.stages, told["stages"], strict=True):
        data |= {"reliability": stage.reliability, "changed": stage.changed}
    return told | {"attempts": report.attempts}


def _write(report: Report, file: str) -> None:
    try:
        Path(file).write_text(report_html.page(report), "utf-8")
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise ConfigurationError(f"--html: {file}: {reason}") from None
    typer.echo(f"The report of run {report.run.id} is in {file}")


# --- as tables ------------------------------------------------------------------------------------


def _print(report: Report) -> None:
    run, out = report.run, show.console()
    out.print(
        show.fields(
            [
                ("run", f"{run.id}: {_safe(f'{run.pipeline} {run.name}')}"),
                ("status", status_of(run) + (f": {_safe(run.reason)}" if run.reason else "")),
                ("items", _items(report)),
                ("took", span(span_of(run))),
                ("spent", spent_of(run)),
                ("to success", _to_success(report.to_success)),
            ]
        )
    )
    _print_stages(report)
    _print_tries(report)
    _print_configs(report)
    _print_troubles(report)
    _print_failed(report)


def _safe(text: str) -> str:
    return escape(show.harmless(text))


def _items(report: Report) -> str:
    run = report.run
    words = ("succeeded", "skipped", "failed", "cancelled", "unfinished")
    counts = [f"{count:,} {word}" for word in words if (count := getattr(run, word))]
    gone = f"; of {run.pruned:,} the history was pruned, and is not in here" if run.pruned else ""
    return f"{run.entered:,}: {', '.join(counts) or 'nothing yet'}{gone}"


def _to_success(took: Spans) -> str:
    if took.p50 is None:
        return ""
    return (
        f"half of the items within {_span(took.p50)}, 95 of 100 within {_span(took.p95)}, 99 of 100"
        f" within {_span(took.p99)}, all within {_span(took.longest)}"
    )


def _span(seconds: float | None) -> str:
    return "–" if seconds is None else in_words(seconds)


def _heading(text: str) -> None:
    show.console().print(f"\n[bold]{text}[/bold]")


def _print_stages(report: Report) -> None:
    _heading("Stages")
    rows = [
        (
            _safe(each.name),
            f"{each.attempts:,}",
            "–" if each.reliability is None else f"{each.reliability:.1%}",
            f"{each.retried:,}",
            f"{each.failed:,}",
            f"{each.lost:,}",
            *map(_span, each.took),
            f"{each.cost:,.6g}" if each.cost else "–",
            f"{each.tokens_in:,} / {each.tokens_out:,}"
            if each.tokens_in + each.tokens_out
            else "–",
        )
        for each in report.stages
    ]
    columns = (
        "STAGE", "ATTEMPTS", "WELL", "RETRIED", "FAILED", "LOST", "P50", "P95", "P99", "LONGEST",
        "COST", "TOKENS IN / OUT",
    )  # fmt: skip
    show.listing(columns, rows, right=range(1, 12))


def _print_tries(report: Report) -> None:
    tried = [each for each in report.stages if each.tries]
    if not tried:
        return
    _heading("Attempts that items needed")
    rows = []
    for stage in tried:
        most = max(stage.tries.values())
        for attempts, items in stage.tries.items():
            bar = "█" * max(1, round(items / most * WIDEST_BAR))
            rows.append((_safe(stage.name), tries_in_words(attempts), f"{items:,}", bar))
    show.listing(("STAGE", "ATTEMPTS", "ITEMS", ""), rows, right=(1, 2))


def tries_in_words(attempts: int) -> str:
    """`3`, or `20 or more`."""
    return f"{attempts} or more" if attempts >= MOST_TRIES else str(attempts)


def _print_configs(report: Report) -> None:
    changed = [each for each in report.stages if each.changed]
    if not changed:
        return
    _heading("Stages that changed during the run")
    for stage in changed:
        typer.echo(changes(stage))
    if report.unlisted_configs:
        typer.echo(f"… and {report.unlisted_configs:,} configurations more")


def changes(stage: StageReport) -> str:
    """Which configurations a stage had, one after the other."""
    told = [
        f"{each.config} ({each.attempts:,} attempts, from {each.first_at:%Y-%m-%d %H:%M:%S} UTC)"
        for each in stage.configs
    ]
    return f"{show.harmless(stage.name)}: {', then '.join(told)}"


def _print_troubles(report: Report) -> None:
    if not report.troubles:
        return
    _heading("Commonest troubles")
    rows = [
        (
            f"{each.attempts:,}",
            f"{each.items:,}",
            _safe(each.stage),
            each.code,
            str(each.job_id),
            _safe(each.message),
        )
        for each in report.troubles[:MOST_TROUBLES]
    ]
    show.listing(
        ("ATTEMPTS", "ITEMS", "STAGE", "CODE", "E.G. JOB", "MESSAGE"), rows, right=(0, 1, 4)
    )
    more = len(report.troubles) - len(rows) + report.more_troubles
    if more:
        typer.echo(f"… and {more:,} kinds more: --json has {len(report.troubles):,}")


def _print_failed(report: Report) -> None:
    if not report.failed:
        return
    _heading("Items that failed")
    rows = [
        (
            str(each.job_id),
            _safe(each.key or ""),
            _safe(each.stage),
            str(each.attempts),
            _safe(str(each.fault)),
        )
        for each in report.failed
    ]
    show.listing(("JOB", "KEY", "STAGE", "ATTEMPTS", "FAULT"), rows, right=(0, 3))
    if report.more_failed:
        typer.echo(
            f"… and {report.more_failed:,} more: seawall jobs --run {report.run.id} --state failed"
        )
