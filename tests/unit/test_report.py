"""What the history of a run comes to, in memory; how it is drawn, and that harm stays text."""

from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from rich.console import Console

from seawall import FaultError, NoSuchJobError, Seawall, current_job, stage
from seawall.cli import report_html
from seawall.cli.live import Pace, drawn, shown
from seawall.standings import RunView, StageView, Terms
from seawall.testing import World, in_memory

HARM = "\"><script>alert(1)</script>'&\x1b[2J\u202e"


@pytest.fixture
def app():
    return Seawall("sqlite://")


def pipeline(app, *, model="one", name="reports"):
    def fetch(number: int) -> int:
        if number % 10 == 0:
            raise FaultError("INVALID_INPUT", "round")
        return number

    @stage(policy="sample-stage", config={"model": model})
    def ask(number: int) -> int:
        current_job().usage(tokens_in=10, tokens_out=1, cost=0.5)
        if number % 4 == 1 and current_job().attempt < 3:
            raise FaultError("TIMEOUT", "no answer")
        return number

    return app.pipeline(name, [fetch, ask])


def test_a_report_adds_up_what_was_tried_what_went_wrong_and_what_it_cost(app):
    reports = pipeline(app)
    with in_memory(app) as world:
        run = reports.run(range(1, 21), name="monday", key=lambda n: f"n{n}", failure_budget=None)
        world.drain()
        report = app.run(run.id).report()
    assert report.run.status == "partial_success"
    fetch, ask = report.stages
    assert (fetch.attempts, fetch.done, fetch.failed, fetch.reliability) == (20, 18, 2, 0.9)
    assert (ask.attempts, ask.retried, ask.reliability) == (28, 10, 18 / 28)
    assert (fetch.tries, ask.tries) == ({1: 20}, {1: 13, 3: 5})
    assert (ask.tokens_in, ask.tokens_out, ask.cost) == (280, 28, 14.0)
    assert [(t.stage, t.code, t.attempts, t.items) for t in report.troubles] == [
        ("ask", "TIMEOUT", 10, 5), ("fetch", "INVALID_INPUT", 2, 2),
    ]  # fmt: skip
    assert [(each.key, each.stage) for each in report.failed] == [
        ("n10", "fetch"),
        ("n20", "fetch"),
    ]
    assert (report.more_failed, report.more_troubles, report.attempts) == (0, 0, 48)
    assert report.to_success.p50 == 0.0
    assert report.to_success.longest > 1.0
    assert not ask.changed


def test_what_is_not_listed_is_counted(app):
    reports = pipeline(app)
    with in_memory(app) as world:
        run = reports.run(range(10, 60, 10), name="monday", failure_budget=None)
        world.drain()
        report = run.report(most_failed=2)
    assert (len(report.failed), report.more_failed) == (2, 3)
    assert [each.key for each in report.failed] == ["#1", "#2"]


def test_a_stage_that_changed_during_the_run_is_told_with_both_configurations(app):
    """The code is replaced while the item waits for its second attempt."""
    other = Seawall("sqlite://")
    before, _ = pipeline(app), pipeline(other, model="two")
    with in_memory(app) as world:
        run = before.run([1], name="monday", failure_budget=None)
        world.work()
        with other.replaced(world.store, world.clock, other.rng):
            World(other, world.store, world.clock).drain()
        fetch, ask = run.report().stages
    assert (fetch.changed, ask.changed) == (False, True)
    assert [each.attempts for each in ask.configs] == [1, 2]
    assert ask.configs[0].last_at <= ask.configs[1].first_at


def test_a_run_that_has_done_nothing_has_an_empty_report(app):
    with in_memory(app):
        report = pipeline(app).run([1], name="monday").report()
        assert report.attempts == 0
        assert [each.reliability for each in report.stages] == [None, None]
        assert (report.to_success.p50, report.failed, report.troubles) == (None, (), ())
        assert "<svg" in report_html.page(report)
        with pytest.raises(NoSuchJobError):
            app.run(7)


# ── As a page ────────────────────────────────────────────────────────────────────────────────────


def test_names_keys_and_messages_do_no_harm_in_a_page(app):
    def fetch(number: int) -> int:
        raise FaultError("INVALID_INPUT", HARM)

    fetch.__name__ = "<b>fetch</b>"
    with in_memory(app) as world:
        run = app.pipeline("<i>p</i>", [fetch]).run(
            [1], name=HARM[:-6], key=lambda _: "<k>", failure_budget=None
        )
        run.pause("<u>why</u>")
        run.resume()
        world.drain()
        page = report_html.page(run.report())
    for harm in ("<script", "<b>fetch", "<i>p", "<k>", "<u>", "\x1b", "\u202e", "javascript:"):
        assert harm not in page
    assert "&lt;script&gt;" in page
    assert page.count("<svg") == page.count("</svg>") >= 3
    assert "http://" not in page
    assert "https://" not in page


# ── Live ─────────────────────────────────────────────────────────────────────────────────────────

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def view(**fields):
    usual = {"waiting": 0, "later": 0, "running": 0, "done": 0, "skipped": 0, "failed": 0}
    usual |= {"cancelled": 0, "retried": 0, "tokens_in": 0, "tokens_out": 0, "cost": 0.0}
    named = fields.pop("stage", {})
    stages = (StageView(**{"name": "fetch", **usual, **named}), StageView(name="ask", **usual))
    told = {
        "id": 7, "pipeline": "reports", "name": "monday", "round": 1, "status": "running",
        "reason": "", "terms": Terms(), "owner": None, "sealed": True, "created_at": NOW,
        "closed_at": None, "stages": stages, "entered": 100, "succeeded": 0, "skipped": 0,
        "failed": 0, "cancelled": 0, "pruned": 0, "at": NOW,
    }  # fmt: skip
    return RunView(**(told | fields))


def text(look, width, pace=None, held=()):
    out = Console(file=StringIO(), width=width, color_system=None)
    out.print(drawn(look, pace or Pace(), width, held))
    return out.file.getvalue()


def test_the_rate_is_that_of_the_last_minute_and_tells_what_is_left():
    pace = Pace()
    assert pace.per_second is None
    for second in range(0, 301, 10):
        fast = second if second <= 200 else 200 + (second - 200) * 4
        pace.saw(view(entered=2_000, succeeded=fast, at=NOW + timedelta(seconds=second)))
    assert pace.per_second == pytest.approx(4.0)
    late = view(entered=2_000, succeeded=600)
    assert pace.left(late) == timedelta(seconds=350)
    assert pace.left(view(entered=2_000, succeeded=600, sealed=False)) is None
    assert pace.left(view(entered=2_000, succeeded=600, status="paused")) is None
    assert "600 of 2,000 · 4.0/s · 6 min left" in text(late, 80, pace)


@pytest.mark.parametrize("width", [20, 40, 63, 64, 80, 200])
def test_it_fits_whatever_the_terminal_and_the_figures(width):
    big = 12_345_678
    look = view(
        entered=9 * big, succeeded=big, skipped=big, failed=big, cancelled=big, name="n" * 200,
        pipeline="[red]p", status="aborted", reason="why " * 60,
        stage={"name": "[b]" + "f" * 90, "waiting": big, "later": big, "running": big, "done": big,
               "skipped": big, "failed": big, "cost": 1e6, "tokens_in": big},
    )  # fmt: skip
    printed = text(look, width, held=["upstream openai is held"])
    assert max(map(len, printed.splitlines())) <= width


def test_what_went_wrong_is_seen_however_little_it_is():
    printed = text(view(entered=10_000, succeeded=5_000, failed=1), 80)
    assert "5,000 succeeded · 1 failed" in printed
    assert "░" in printed
    assert "99%" in text(view(entered=100_000, succeeded=99_999), 80)
    assert "100%" in text(view(entered=100, succeeded=100), 80)


def test_names_are_shown_as_they_are():
    printed = text(view(pipeline="[red]p", name="[/x]", reason="[bold]\x1b[2J"), 80)
    assert "[red]p [/x]" in printed
    assert "[bold]\\x1b[2J" in printed


def test_the_last_look_stays():
    out = Console(file=StringIO(), width=80, force_terminal=True, color_system=None)
    with shown(out, lambda: ["upstream openai is held"]) as show:
        show(view())
        show(view(succeeded=100, status="completed"))
    assert "100 of 100" in out.file.getvalue()
    assert "upstream openai is held" in out.file.getvalue()
