"""How a run is shown while it goes on: on standard error, in place, calm.

`seawall.runs` asks for `shown` by name where somebody waits at a terminal; `seawall run ID --watch`
shows the same from another one. What is shown is one `RunView` after the other; the rate is that of
the last minute, and what is left is told by it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from seawall.cli import show
from seawall.cli.show import harmless
from seawall.errors import StoreUnavailableError
from seawall.standings import Pace, RunView, StageView
from seawall.store import Store
from seawall.why import span

WIDEST_BAR = 40
NARROW = 64
"""A terminal of fewer columns has no room for the table of stages."""
LONGEST_NAME = 24

_COUNTED = ("ended", "unfinished", "running", "retried", "cost", "success_rate", "over")

COLOURS = {
    "running": "cyan",
    "completed": "green",
    "partial_success": "yellow",
    "failed": "red",
    "paused": "yellow",
    "aborted": "red",
    "cancelled": "yellow",
}


@contextmanager
def shown(
    out: Console | None = None, held: Callable[[], Sequence[str]] = tuple
) -> Iterator[Callable[[RunView], None]]:
    """A block that gives what shows a run, in place; the last view stays when it ends.

    `held` tells in words what keeps its items waiting.
    """
    console = Console(stderr=True, highlight=False) if out is None else out
    pace = Pace()
    with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:

        def show(view: RunView) -> None:
            pace.saw(view)
            live.update(drawn(view, pace, console.width, held()), refresh=True)

        yield show


def held_of(store: Store, run_id: int) -> list[str]:
    """What keeps items of a run waiting that is not the run's own affair, in words."""
    try:
        lanes = [each.lane for each in store.backlog() if each.lane.run == run_id]
        now, names = store.now(), {lane.upstream for lane in lanes}
        watched = [each for each in store.watched() if each.name in names]
    except StoreUnavailableError as error:
        return [str(error)]
    return [
        f"upstream {harmless(each.name)} is held for another {span(each.held_until - now)}:"
        f" {harmless(each.reason)}"
        for each in watched
        if each.held_until is not None and each.held_until > now
    ]


def drawn(view: RunView, pace: Pace, width: int, held: Sequence[str] = ()) -> RenderableType:
    """One look at a run, at most so wide."""
    lines: list[RenderableType] = [_title(view), _progress(view, pace, width), _counts(view)]
    lines += [_stages(view, width) if width >= NARROW else _stages_below(view)]
    if spent := spent_of(view):
        lines.append(Text(spent, style="dim"))
    if view.reason:
        lines.append(Text(f"{view.status}: {harmless(view.reason)}", style=_colour(view)))
    lines += [Text(each, style="yellow") for each in held]
    return Group(*lines)


def _colour(view: RunView) -> str:
    return COLOURS.get(view.status, "")


def status_of(view: RunView) -> str:
    """The status, in its colour."""
    colour = _colour(view)
    word = view.status.replace("_", " ")
    return f"[{colour}]{word}[/{colour}]" if colour else word


def _title(view: RunView) -> Text:
    name = escape(harmless(f"{view.pipeline} {view.name}"))
    line = Text.from_markup(f"[bold]{name}[/bold]  run {view.id}  {status_of(view)}")
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _progress(view: RunView, pace: Pace, width: int) -> Text:
    rate, left = pace.per_second, pace.left(view)
    parts = [f"{view.ended:,} of {view.entered:,}"]
    if not view.sealed:
        parts = [f"{view.ended:,} ended, {view.entered:,} are here and more may come"]
    if rate is not None and view.status == "running":
        parts.append(f"{rate:,.1f}/s" if rate < 100 else f"{rate:,.0f}/s")
    if left is not None and view.unfinished:
        parts.append(f"{span(left)} left")
    told = " · ".join(parts)
    room = min(WIDEST_BAR, width - len(told) - 8)
    if not view.sealed or room < 8:
        return Text(told)
    return Text.assemble(*_bar(view, room), f" {_share(view):>4.0%}  {told}")


def _share(view: RunView) -> float:
    """How much of it has ended; all of it only when nothing is left."""
    if not view.unfinished:
        return 1.0
    return min(0.99, view.ended / view.entered)


def _bar(view: RunView, room: int) -> list[tuple[str, str]]:
    whole = max(1, view.entered)
    good = round((view.succeeded + view.skipped) / whole * room)
    ended = room if not view.unfinished else min(room, round(view.ended / whole * room))
    bad = view.failed + view.cancelled
    # What went wrong is seen, however little of the whole it is.
    good = min(good, ended - 1) if bad and ended else min(good, ended)
    return [("█" * max(0, good), "green"), ("█" * (ended - max(0, good)), "red"),
            ("░" * (room - ended), "dim")]  # fmt: skip


def _counts(view: RunView) -> Text:
    said = [(f"{view.succeeded:,} succeeded", "green" if view.succeeded else "dim")]
    for count, word, colour in (
        (view.skipped, "skipped", ""),
        (view.failed, "failed", "red"),
        (view.cancelled, "cancelled", "yellow"),
        (view.running, "running", "cyan"),
        (view.retried, "retries", "yellow"),
    ):
        if count:
            said += [(" · ", "dim"), (f"{count:,} {word}", colour)]
    return Text.assemble(*said)


STAGE_COLUMNS = ("STAGE", "WAITING", "LATER", "RUNNING", "DONE", "SKIPPED", "FAILED")


def stage_row(stage: StageView) -> tuple[str, ...]:
    """A stage as a line of a table; what is not is left blank."""
    counts = (
        stage.waiting, stage.later, stage.running, stage.done, stage.skipped, stage.failed,
    )  # fmt: skip
    return (escape(harmless(stage.name)), *(f"{each:,}" if each else "–" for each in counts))


def _stages(view: RunView, width: int) -> Table:
    made = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    made.add_column(STAGE_COLUMNS[0], no_wrap=True, overflow="ellipsis", max_width=LONGEST_NAME)
    for name in STAGE_COLUMNS[1:]:
        made.add_column(name, justify="right", no_wrap=True, min_width=min(7, width // 12))
    for stage in view.stages:
        made.add_row(*stage_row(stage))
    return made


def _stages_below(view: RunView) -> Group:
    return Group(*(_stage_line(stage) for stage in view.stages))


def _stage_line(stage: StageView) -> Text:
    words = ("waiting", "later", "running", "done", "skipped", "failed")
    counts = [f"{n:,} {word}" for word in words if (n := getattr(stage, word))]
    line = f"{harmless(stage.name)[:LONGEST_NAME]}: {', '.join(counts) or 'nothing yet'}"
    return Text(line, overflow="ellipsis", no_wrap=True)


def spent_of(view: RunView) -> str:
    """What its attempts used up, in words; nothing where none said so."""
    tokens_in = sum(stage.tokens_in for stage in view.stages)
    tokens_out = sum(stage.tokens_out for stage in view.stages)
    parts = []
    if view.cost or view.terms.spending_cap is not None:
        cap = view.terms.spending_cap
        most = "" if cap is None else f", and may cost {cap:,.6g}"
        parts.append(f"it has cost {view.cost:,.6g}{most}")
    if tokens_in or tokens_out:
        parts.append(f"tokens in {tokens_in:,}, out {tokens_out:,}")
    return "; ".join(parts)


def as_data(view: RunView) -> dict[str, Any]:
    """A run as JSON can hold it, with what follows from its counts."""
    told: dict[str, Any] = show.as_data(view)
    return told | {name: show.as_data(getattr(view, name)) for name in _COUNTED}
