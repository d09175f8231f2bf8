"""`seawall runs` and `seawall run`: many items, seen, decided about and reported on."""

import json
import re
import signal
from html.parser import HTMLParser

import pytest

from seawall.model import Outcome, Usage
from seawall.standings import Terms, judged
from seawall.store import Lane, NewRun, RunStop, open_store
from tests.support.ledger import ended, new_job, wanted

URL = "sqlite:///jobs.db"
APP = """
from seawall import FaultError, Seawall, Skip, current_job, stage

app = Seawall({url!r})


def fetch(id: int, path: str) -> str:
    if path == "bad":
        raise FaultError("INVALID_INPUT", "no <b>good</b> & [red]never")
    if path == "empty":
        raise Skip("nothing in it")
    return path


@stage(policy="sample-stage")
def ask(document: str) -> str:
    current_job().usage(tokens_in=100, tokens_out=7, cost=0.25)
    if current_job().attempt == 1 and document == "slow":
        raise FaultError("TIMEOUT", "no answer")
    return document.upper()


reports = app.pipeline("reports", [fetch, ask])


@app.task
def plain() -> None: ...
"""
CALLING = APP.replace("def fetch", '@stage(upstream="files")\ndef fetch')
PATHS = ["good", "slow", "bad", "empty", "good", "good"]


@pytest.fixture(params=["sqlite", "postgres16", "postgres18"])
def url(request, seawall):
    if request.param == "sqlite":
        return URL
    fleet = request.getfixturevalue("postgres_fleet")
    return fleet.server(request.param.removeprefix("postgres")).new_url()


@pytest.fixture
def app(module, url):
    return f"{module(APP, url=url)}:app"


@pytest.fixture
def items(seawall):
    lines = [json.dumps({"id": at, "path": path}) for at, path in enumerate(PATHS)]
    (seawall.folder / "items.jsonl").write_text("\n".join(lines))
    return "items.jsonl"


def told(seawall, *words, **how):
    return json.loads(seawall(*words, "--json", **how))


def started(seawall, app, items, *words, name="monday"):
    return int(seawall("runs", "start", "reports", items, "--name", name, "--app", app, *words))


def drained(seawall, app):
    seawall("worker", "--app", app, "--drain", SEAWALL_POLL_SECONDS="0.1")


# ── From beginning to end ────────────────────────────────────────────────────────────────────────


def test_a_run_is_started_from_a_file_worked_off_and_told_of(seawall, url, app, items):
    run = started(seawall, app, items, "--key", "id", "--failure-budget", "none")
    view = told(seawall, "run", run, "--url", url)
    assert (view["status"], view["entered"], view["stages"][0]["waiting"]) == ("running", 6, 6)
    assert "No worker is alive" in seawall("run", run, "--url", url)
    drained(seawall, app)
    view = told(seawall, "run", run, "--url", url)
    assert (view["succeeded"], view["skipped"], view["failed"], view["ended"]) == (4, 1, 1, 6)
    assert (view["status"], view["retried"], view["cost"]) == ("partial_success", 1, 1.25)
    assert view["terms"]["failure_budget"] is None
    printed = seawall("run", run, "--url", url)
    assert "partial success" in printed
    assert "6: 4 succeeded, 1 skipped, 1 failed" in printed
    assert "it has cost 1.25; tokens in 500, out 35" in printed
    assert f"seawall dead --group --run {run}" in printed
    rows = [line.split() for line in printed.splitlines()]
    assert ["fetch", "–", "–", "–", "4", "1", "1"] in rows
    assert ["ask", "–", "–", "–", "4", "–", "–"] in rows


def test_the_same_call_again_goes_on_and_a_finished_one_starts_anew(seawall, app, items):
    run = started(seawall, app, items, "--key", "id")
    assert started(seawall, app, items, "--key", "id") == run
    drained(seawall, app)
    again = told(seawall, "runs", "start", "reports", items, "--name", "monday", "--app", app)
    assert (again["id"] > run, again["round"]) == (True, 2)


def test_whoever_waits_is_told_how_it_ended(seawall, module, items, start):
    app = f"{module(APP)}:app"
    start("worker", "--app", app)
    words = ("runs", "--app", app, "start", "reports", items, "--wait", "--name")
    seawall(*words, "monday", "--complete-at", "0.6", "--failure-budget", "50%")
    seawall(*words, "tuesday", expect=1)
    assert seawall.err == "seawall: run 2 is partial_success: seawall run 2\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nothing", "items.jsonl"], "no pipeline 'nothing'; there are: reports"),
        (["plain", "items.jsonl"], "no pipeline 'plain'; there are: reports"),
        (["reports", "items.txt"], "items: found items.txt, expected one of .jsonl"),
        (["reports", "none.csv"], "items: there is no file none.csv"),
        (["reports", "items.jsonl", "--failure-budget", "much"], "found 'much', expected a share"),
        (["reports", "items.jsonl", "--failure-budget", "2"], "failure_budget"),
        (["reports", "items.jsonl", "--key", "name"], "it has no field 'name'"),
    ],
)
def test_what_cannot_be_started_is_refused_in_one_line(seawall, module, items, words, line):
    app = f"{module(APP)}:app"
    said = seawall("runs", "start", *words, "--name", "monday", "--app", app, expect=2)
    assert line in said
    assert said.count("\n") == 1


# ── Lists ────────────────────────────────────────────────────────────────────────────────────────


def begun(store, name, *, pipeline="reports", items=0, terms="{}"):
    new = NewRun(pipeline=pipeline, name=name, stages=("fetch", "ask"), terms=terms)
    run = store.start_run(new).run_id
    lane = Lane(task="work", run=run)
    if items:
        store.enqueue([new_job(lane=lane, run=run) for _ in range(items)])
    return run


def test_runs_are_listed_from_the_newest_and_what_is_left_out_is_said(seawall, url):
    with open_store(url) as store:
        one = begun(store, "one", items=2)
        two, three = begun(store, "two"), begun(store, "[bold]three", pipeline="other")
        store.seal_run(two)
        store.close_run(two)
    assert [row["id"] for row in told(seawall, "runs", "--url", url)] == [three, two, one]
    assert [r["id"] for r in told(seawall, "runs", "--pipeline", "reports", "--url", url)] == [
        two, one,
    ]  # fmt: skip
    assert [r["id"] for r in told(seawall, "runs", "--unfinished", "--url", url)] == [three, one]
    assert [r["id"] for r in told(seawall, "runs", "--limit", "2", "--url", url)] == [three, two]
    assert seawall.err == f"seawall: there are more: the same with --before {two}\n"
    printed = seawall("runs", "--limit", "2", "--url", url)
    assert "[bold]three" in printed
    assert printed.endswith(f"\nThere are more: the same with --before {two}\n")
    printed = seawall("runs", "--before", two, "--url", url)
    assert "There are more" not in printed
    assert printed.splitlines()[1].split()[:5] == ["1", "reports", "one", "running", "2+"]


def test_where_there_are_none_it_says_so(seawall):
    open_store(URL).close()
    assert seawall("runs", "--url", URL) == "There are no such runs.\n"
    assert told(seawall, "runs", "--url", URL) == []
    seawall("run", "7", "--url", URL, expect=1)
    assert seawall.err == "seawall: there is no run 7\n"


# ── Deciding ─────────────────────────────────────────────────────────────────────────────────────


def test_an_aborted_run_is_cancelled_when_it_is_not_worth_going_on(seawall, url):
    with open_store(url) as store:
        run = begun(store, "monday", items=3)
        store.stop_run(run, RunStop.ABORTED, reason="failed too often")
    assert f"seawall run {run} cancel" in seawall("run", run, "--url", url)
    assert seawall("run", run, "cancel", "--url", url) == (
        f"Run {run} is cancelled for good, with 3 unfinished items.\n"
    )
    assert told(seawall, "run", run, "--url", url)["status"] == "cancelled"


def test_a_run_is_paused_resumed_and_cancelled(seawall, url):
    with open_store(url) as store:
        run = begun(store, "monday", items=3)
    assert seawall("run", run, "pause", "--why", "the [red]bill", "--url", url) == (
        f"Run {run} is paused: no more items begin. To go on: seawall run {run} resume\n"
    )
    assert "the [red]bill" in seawall("run", run, "--url", url)
    why = seawall("why", "1", "--url", url)
    assert f"Its run {run} (reports monday) is paused (the [red]bill)" in why
    assert f"`seawall run {run} resume`" in why
    with open_store(url) as store:
        assert store.claim(wanted()) == []
    seawall("run", run, "pause", "--url", url, expect=1)
    assert seawall.err == f"seawall: run {run} is paused already\n"
    assert seawall("run", run, "resume", "--url", url) == f"Run {run} goes on.\n"
    seawall("run", run, "resume", "--url", url, expect=1)
    assert seawall.err == f"seawall: run {run} is running: there is nothing to resume\n"
    assert seawall("run", run, "cancel", "--url", url) == (
        f"Run {run} is cancelled for good, with 3 unfinished items.\n"
    )
    assert told(seawall, "run", run, "--url", url)["cancelled"] == 3
    answer = told(seawall, "run", run, "resume", "--url", url, expect=1)
    assert answer == {"id": run, "done": False, "status": "cancelled"}
    assert "was cancelled for good" in seawall.err
    seawall("run", run, "cancel", "--url", url, expect=1)


def test_a_run_that_has_spent_its_cap_is_resumed_with_a_higher_one(seawall, url):
    with open_store(url) as store:
        run = begun(store, "monday", items=3, terms=Terms(spending_cap=0.25).text())
        (claim,) = store.claim(wanted(1))
        store.settle([ended(claim.token, usage=Usage(cost=0.5))])
        assert judged(store, store.run(run)) == "paused"
    shown = seawall("run", run, "--url", url)
    assert "paused: it has cost 0.5, and may cost 0.25" in shown
    assert f"seawall run {run} resume --spending-cap AMOUNT" in shown
    assert "give it a higher spending_cap" in seawall("run", run, "resume", "--url", url, expect=2)
    higher = ("run", run, "resume", "--spending-cap", "50", "--url", url)
    assert seawall(*higher) == f"Run {run} goes on, and may cost 50 in all.\n"
    assert seawall(*higher, expect=1) == ""
    assert told(seawall, "run", run, "--url", url)["terms"]["spending_cap"] == 50


def test_dead_letters_of_a_run_are_told_and_found_by_the_names_of_its_stages(
    seawall, url, app, items
):
    run = started(seawall, app, items, "--failure-budget", "none")
    drained(seawall, app)
    assert " fetch " in seawall("dead", "--url", url)
    assert "reports at fetch" in seawall("dead", "--group", "--url", url)
    (letter,) = told(seawall, "dead", "--run", run, "--stage", "fetch", "--url", url)
    assert "at stage fetch" in seawall("dead", "show", letter["job_id"], "--url", url)
    assert told(seawall, "dead", "--run", run, "--stage", "ask", "--url", url) == []
    line = seawall("dead", "--run", run, "--stage", "none", "--url", url, expect=2)
    assert f"stage: run {run} has no 'none'; there are: fetch, ask" in line


def test_a_run_that_is_over_stays_what_it_is(seawall, url):
    """Also where nobody has written down yet that it is."""
    with open_store(url) as store:
        run = begun(store, "monday", items=1)
        (claim,) = store.claim(wanted())
        store.settle([ended(claim.token)])
        store.seal_run(run)
    for action in ("cancel", "pause"):
        seawall("run", run, action, "--url", url, expect=1)
        assert seawall.err == f"seawall: run {run} is completed already\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["pause", "--watch"], "--watch shows how a run stands: leave out pause"),
        (["--watch", "--json"], "--watch is for people"),
        (["resume", "--why", "x"], "--why goes with pause"),
        (["pause", "--spending-cap", "5"], "--spending-cap goes with resume"),
        (["--html", "x.html"], "--html goes with report"),
        (["report", "--html", "x.html", "--json"], "ask for one of them"),
        (["report", "--html", "none/x.html"], "--html: none/x.html: no such file or directory"),
        (["explode"], "explode"),
    ],
)
def test_words_that_do_not_go_together_are_refused(seawall, words, line):
    with open_store(URL) as store:
        begun(store, "monday")
    assert line in seawall("run", "1", *words, "--url", URL, expect=2)


# ── Items ────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_tells_of_its_run_its_stages_and_what_it_used(seawall, url, app, items):
    run = started(seawall, app, items, "--failure-budget", "none")
    drained(seawall, app)
    bad = told(seawall, "jobs", "--run", run, "--state", "failed", "--url", url)
    assert [job["id"] for job in bad] == [3]
    assert len(told(seawall, "jobs", "--run", run, "--url", url)) == 6
    assert told(seawall, "jobs", "--run", run + 1, "--url", url) == []
    job = told(seawall, "job", "2", "--url", url)
    assert (job["run"], job["stages"]) == (run, ["fetch", "ask"])
    assert [a["stage_name"] for a in job["attempts"]] == ["fetch", "ask", "ask"]
    assert [a["usage"] and a["usage"]["cost"] for a in job["attempts"]] == [None, 0.25, 0.25]
    assert job["changed_stages"] == []
    printed = seawall("job", "2", "--url", url)
    assert re.search(rf"^run +{run}: reports monday *$", printed, re.MULTILINE)
    assert re.search(r"^stage +ask, 2 of 2 *$", printed, re.MULTILINE)
    assert "100 in, 7 out, cost 0.25" in printed


def test_a_stage_that_changed_between_two_attempts_is_told(seawall):
    with open_store(URL) as store:
        run = begun(store, "monday", items=1)
        (claim,) = store.claim(wanted())
        store.settle([ended(claim.token, Outcome.RETRIED, delay_seconds=0, config="aaa")])
        (again,) = store.claim(wanted())
        store.settle([ended(again.token, Outcome.RETRIED, delay_seconds=0, config="bbb")])
        (third,) = store.claim(wanted())
        store.settle([ended(third.token, config="bbb")])
    line = "Stage fetch changed since attempt 1: it was aaa, and bbb at attempt 2."
    assert seawall("job", "1", "--url", URL).splitlines()[-1] == line
    assert told(seawall, "job", "1", "--url", URL)["changed_stages"] == [line]
    report = seawall("run", run, "report", "--url", URL)
    assert re.search(r"fetch: aaa \(1 attempts, from .*\), then bbb \(2 attempts", report)


# ── The report ───────────────────────────────────────────────────────────────────────────────────


class Strict(HTMLParser):
    """Every element that was begun, and that each was ended."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.words = [], [], []

    def handle_starttag(self, tag, attrs):
        assert not any(name.startswith("on") or name in {"href", "src"} for name, _ in attrs)
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_a_report_is_printed_told_and_written_as_a_page(seawall, url, app, items):
    run = started(seawall, app, items, "--failure-budget", "none")
    drained(seawall, app)
    report = told(seawall, "run", run, "report", "--url", url)
    fetch, ask = report["stages"]
    assert (fetch["name"], fetch["attempts"], fetch["failed"]) == ("fetch", 6, 1)
    assert (ask["attempts"], ask["retried"], ask["reliability"]) == (5, 1, 0.8)
    assert (ask["tries"], ask["cost"], ask["changed"]) == ({"1": 3, "2": 1}, 1.25, False)
    assert [t["code"] for t in report["troubles"]] == ["INVALID_INPUT", "TIMEOUT"]
    assert report["to_success"]["p50"] > 0
    (bad,) = report["failed"]
    assert (bad["job_id"], bad["key"], bad["stage"]) == (3, "#3", "fetch")
    printed = seawall("run", run, "report", "--url", url)
    assert "no <b>good</b> & [red]never" in printed
    for heading in ("Stages", "Attempts that items needed", "Commonest troubles", "Items that"):
        assert f"\n{heading}" in printed
    said = seawall("run", run, "report", "--html", "run.html", "--url", url)
    assert said == f"The report of run {run} is in run.html\n"
    text = (seawall.folder / "run.html").read_text("utf-8")
    page = Strict()
    page.feed(text)
    assert page.open == []
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert page.tags.count("svg") >= 4
    assert "no <b>good</b> & [red]never" in page.words
    assert "<b>good" not in text
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text


def test_of_many_failed_items_the_first_are_listed_and_the_rest_is_said(seawall):
    with open_store(URL) as store:
        run = begun(store, "monday", items=25)
        claims = store.claim(wanted(25))
        store.settle([ended(claim.token, Outcome.FAILED) for claim in claims])
    printed = seawall("run", run, "report", "--url", URL)
    assert f"… and 5 more: seawall jobs --run {run} --state failed" in printed
    printed = seawall("run", run, "report", "--failed", "25", "--url", URL)
    assert "more: seawall jobs" not in printed
    seawall("run", run, "report", "--html", "r.html", "--failed", "3", "--url", URL)
    assert "And 22 more" in (seawall.folder / "r.html").read_text("utf-8")


# ── Watching ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("columns", [40, 80, 160])
def test_whoever_watches_sees_it_in_place_until_it_is_over(seawall, terminal, columns):
    with open_store(URL) as store:
        run = begun(store, "monday", items=3)
        store.seal_run(run)
        watching = terminal("run", str(run), "--watch", "--url", URL, columns=columns)
        watching.shows("0 of 3")
        claims = store.claim(wanted(3))
        store.settle([ended(claims[0].token, Outcome.FAILED)])
        watching.shows("1 of 3")
        store.settle([ended(claim.token) for claim in claims[1:]])
        watching.shows("3 of 3")
    assert watching.ended() == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", watching.shown).replace("\r", "\n")
    assert max(map(len, plain.splitlines())) <= columns
    assert "\x1b[1A" in watching.shown, "it goes back up instead of scrolling"
    assert "Traceback" not in watching.shown


def test_ctrl_c_ends_the_watching_and_nothing_else(seawall, terminal):
    with open_store(URL) as store:
        run = begun(store, "monday", items=3)
    watching = terminal("run", str(run), "--watch", "--url", URL)
    watching.shows("more may come")
    watching.process.send_signal(signal.SIGINT)
    assert watching.ended() == 0
    assert "Traceback" not in watching.shown
    assert told(seawall, "run", run, "--url", URL)["status"] == "running"


def test_to_watch_what_is_no_terminal_is_to_look_once_and_be_told(seawall):
    with open_store(URL) as store:
        run = begun(store, "monday")
    assert "running" in seawall("run", run, "--watch", "--url", URL)
    assert seawall.err == "seawall: the output is no terminal, so --watch showed it once\n"


def test_whoever_waits_in_python_at_a_terminal_sees_it_too(seawall, terminal, module, items):
    app = f"{module(CALLING)}:app"
    seawall("migrate", "--url", URL)
    seawall("hold", "files", "--for", "1h", "--why", "moving", "--url", URL)
    waiting = terminal(
        "runs", "start", "reports", items, "--name", "monday", "--app", app, "--wait",
        "--failure-budget", "none", columns=80,
    )  # fmt: skip
    waiting.shows("0 of 6")
    waiting.shows("upstream files is held")
    seawall("resume", "files", "--url", URL)
    drained(seawall, app)
    waiting.shows("6 of 6")
    assert waiting.ended() == 1
    assert "partial success" in waiting.shown
