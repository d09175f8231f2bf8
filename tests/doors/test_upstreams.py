"""`seawall upstreams`, `hold`, `resume` and `force`: what tasks call, seen and decided about."""

import json
import signal
from datetime import UTC, datetime, timedelta

import pytest

from seawall import Upstream
from seawall.decisions import gate as gates
from seawall.decisions import gate_text
from seawall.decisions.backoff import Backoff
from seawall.decisions.breaker import Breaker
from seawall.store import Lane, Observation, Scope, open_store
from seawall.upstreams import settle_down
from tests.support.ledger import claimed, enqueued, new_job, wanted

URL = "sqlite:///jobs.db"
ASK = Lane(task="work", upstream="openai")
KEYED = Lane(task="work", upstream="openai:gpt-5")
HOUR = Breaker(open=Backoff(curve="fixed", base_seconds=3_600, jitter="none"))
APP = """
from seawall import Backoff, Breaker, Seawall, Upstream

app = Seawall({url!r})
app.upstream(Upstream("openai", concurrency=2, retry_budget=None))
app.upstream(Upstream("vision", per_minute={{"requests": 31}}))


@app.task(name="work", upstream="openai")
def work() -> None: ...


@app.task(name="look", upstream="vision")
def look() -> None: ...
"""


@pytest.fixture(params=["sqlite", "postgres16", "postgres18"])
def url(request, seawall):
    if request.param == "sqlite":
        return URL
    fleet = request.getfixturevalue("postgres_fleet")
    return fleet.server(request.param.removeprefix("postgres")).new_url()


def decided(store, upstream, step):
    """Decide about it, as a worker does."""
    with store.govern(upstream.name, wait=True) as desk:
        gate = step(upstream, gate_text.read(desk.state), desk.now.timestamp())
        settle_down(desk, upstream, gate)


def failing(upstream, gate, now):
    seen = [gates.Seen(worker, int(now), 9, 0, 9, 0, 0) for worker in ("w1", "w2")]
    return gates.watched(upstream, gate, seen, 2, now)


def begun(count):
    return lambda upstream, gate, now: gates.begun(
        upstream, gate, "w1", {"": count}, now, retries=0, probes=(), hold_seconds=60.0
    )


def listed(seawall, *words):
    return {row["name"]: row for row in json.loads(seawall("upstreams", "--json", *words))}


# ── Looking ──────────────────────────────────────────────────────────────────────────────────────


def test_upstreams_are_listed_with_what_waits_and_how_their_calls_went(seawall, url):
    with open_store(url) as store:
        later = datetime.now(UTC) + timedelta(hours=1)
        claimed(store, new_job(lane=ASK), new_job(lane=ASK), new_job(lane=ASK), limit=1)
        enqueued(store, new_job(lane=ASK, run_after=later), new_job(), new_job(lane=KEYED))
        store.observe([Observation("openai", "w1", 30, 10, 4, 0, 0, 80_000_000)])
    assert list(listed(seawall, "--url", url)) == ["openai", "openai:gpt-5"]
    openai = listed(seawall, "--url", url)["openai"]
    counts = {name: openai[name] for name in ("waiting", "later", "running", "calls", "failures")}
    assert counts == {"waiting": 2, "later": 1, "running": 1, "calls": 40, "failures": 4}
    assert (openai["state"], openai["phase"], openai["mean_seconds"]) == ("well", "closed", 2.0)
    left = openai["retries_left"]
    assert left > 0
    printed = seawall("upstreams", "--url", url).splitlines()
    assert printed[0].split() == [
        "UPSTREAM", "STATE", "FOR", "WAITING", "LATER", "RUNNING", "CALLS", "FAILED", "MEAN",
        "RETRIES", "LEFT", "WHY",
    ]  # fmt: skip
    assert printed[1].split() == ["openai", "well", "2", "1", "1", "40", "4", "2", "s", str(left)]


def test_every_state_is_said_in_words(seawall, url):
    with open_store(url) as store:
        decided(store, Upstream("broken", breaker=HOUR), failing)
        soon = Breaker(open=Backoff(curve="fixed", base_seconds=0.001, jitter="none"))
        decided(store, Upstream("probed", breaker=soon), failing)
        enqueued(store, new_job(lane=Lane(task="work", upstream="fine")))
    seawall("hold", "held", "--why", "maintenance", "--url", url)
    seawall("hold", "later", "--for", "10m", "--url", url)
    seawall("force", "forced", "closed", "--url", url)
    seawall("hold", "released", "--url", url)
    seawall("resume", "released", "--url", url)
    found = listed(seawall, "--url", url)
    states = {name: row["state"] for name, row in found.items()}
    assert states.pop("released").startswith("being let go, 1")
    assert states == {
        "broken": "held",
        "probed": "being probed",
        "fine": "well",
        "held": "held by hand",
        "later": "held by hand",
        "forced": "let through by hand",
    }
    lines = {line.split()[0]: line for line in seawall("upstreams", "--url", url).splitlines()}
    assert "its calls fail" in lines["broken"]
    assert "60 min" in lines["broken"]
    assert "until resumed" in lines["held"]
    assert "maintenance" in lines["held"]
    assert "10 min" in lines["later"]
    assert lines["later"].count("held by hand") == 1
    for name, ends in (("broken", True), ("later", True), ("held", False)):
        assert (found[name]["held_until"] is not None) is ends


def test_an_applications_own_words_hold_and_what_has_no_jobs_is_listed(seawall, module):
    app = f"{module(APP)}:app"
    open_store(URL).close()
    with open_store(URL) as store:
        enqueued(store, new_job(lane=ASK))
    (seawall.folder / "seawall.toml").write_text("[upstreams.mail]\nretry_budget = false\n")
    assert list(listed(seawall, "--app", app)) == ["mail", "openai", "vision"]
    assert listed(seawall, "--app", app)["openai"]["retries_left"] is None
    assert list(listed(seawall, "--url", URL)) == ["mail", "openai"], "the file counts, too"
    assert listed(seawall, "--url", URL)["mail"]["retries_left"] is None


def test_where_there_is_none_it_says_how_there_would_be(seawall):
    open_store(URL).close()
    assert seawall("upstreams", "--url", URL) == (
        'There are no upstreams: a task names what it calls, as in @app.task(upstream="openai").\n'
    )
    assert json.loads(seawall("upstreams", "--json", "--url", URL)) == []


def test_to_watch_what_is_no_terminal_is_to_look_once_and_be_told(seawall):
    with open_store(URL) as store:
        enqueued(store, new_job(lane=ASK))
    assert "openai" in seawall("upstreams", "--watch", "--url", URL)
    assert seawall.err == "seawall: the output is no terminal, so --watch showed it once\n"
    line = seawall("upstreams", "--watch", "--json", "--url", URL, expect=2)
    assert line == ("seawall: --watch is for people: ask for --json again and again instead\n")


@pytest.mark.parametrize("columns", [70, 180])
def test_whoever_watches_sees_it_anew_in_place_until_ctrl_c(seawall, terminal, columns):
    with open_store(URL) as store:
        enqueued(store, new_job(lane=ASK))
    watching = terminal("upstreams", "--watch", "--url", URL, columns=columns)
    watching.shows("well", times=2)
    seawall("hold", "openai", "--why", "maintenance", "--url", URL)
    watching.shows("maintenance")
    assert "\x1b[1A" in watching.shown, "it goes back up instead of scrolling"
    watching.process.send_signal(signal.SIGINT)
    assert watching.ended() == 0
    assert "Traceback" not in watching.shown
    assert watching.shown.rstrip().endswith("\x1b[?25h"), "the cursor is back"


# ── Deciding ─────────────────────────────────────────────────────────────────────────────────────


def test_an_upstream_is_held_and_resumed(seawall, url):
    with open_store(url) as store:
        enqueued(store, new_job(lane=ASK))
    assert seawall("hold", "openai", "--for", "10m", "--why", "a flood", "--url", url) == (
        "The upstream openai is held for 10 min. To end that: seawall resume openai\n"
    )
    assert seawall.err == ""
    with open_store(url) as store:
        assert store.claim(wanted()) == []
    row = listed(seawall, "--url", url)["openai"]
    assert (row["forced"], row["reason"], row["waiting"]) == ("open", "a flood", 1)
    assert seawall("resume", "openai", "--url", url) == (
        "The upstream openai is its breaker's affair again; what was held is let go within 30 s.\n"
    )
    assert listed(seawall, "--url", url)["openai"]["forced"] is None
    assert seawall("resume", "openai", "--url", url, expect=1) == ""
    assert seawall.err == "seawall: the upstream openai was not held\n"


def test_without_an_end_it_is_held_until_somebody_resumes_it(seawall, url):
    with open_store(url) as store:
        enqueued(store, new_job(lane=ASK))
    assert seawall("hold", "openai", "--url", url) == (
        "The upstream openai is held until somebody resumes it. To end that: seawall resume openai\n"
    )
    row = listed(seawall, "--url", url)["openai"]
    assert (row["forced"], row["forced_until"], row["held_until"]) == ("open", None, None)


def test_a_breaker_is_forced_and_left_to_itself_again(seawall, url):
    with open_store(url) as store:
        decided(store, Upstream("openai", breaker=HOUR), failing)
    words = ("openai", "closed", "--for", "1h", "--why", "false alarm", "--url", url)
    assert seawall("force", *words) == (
        "The upstream openai is called, whatever its breaker thinks, for 60 min. To end that: seawall"
        " resume openai\n"
    )
    row = listed(seawall, "--url", url)["openai"]
    assert (row["forced"], row["share"], row["reason"]) == ("closed", 1.0, "false alarm")
    assert seawall("force", "openai", "auto", "--url", url) == (
        "The upstream openai is its breaker's affair again.\n"
    )
    assert "is held" in seawall("force", "openai", "open", "--url", url)
    assert listed(seawall, "--url", url)["openai"]["forced"] == "open"


def test_what_a_breaker_holds_can_be_resumed(seawall, url):
    with open_store(url) as store:
        decided(store, Upstream("openai", breaker=HOUR), failing)
    assert "what was held is let go" in seawall("resume", "openai", "--url", url)
    assert listed(seawall, "--url", url)["openai"]["phase"] == "closed"


def test_what_was_decided_is_told_as_json(seawall):
    open_store(URL).close()
    held = json.loads(seawall("hold", "openai", "--for", "10m", "--json", "--url", URL))
    assert (held["name"], held["forced"], held["state"]) == ("openai", "open", "held by hand")
    assert datetime.fromisoformat(held["held_until"]).tzinfo is not None
    forced = json.loads(seawall("force", "openai", "closed", "--json", "--url", URL))
    assert (forced["forced"], forced["forced_until"]) == ("closed", None)
    resumed = seawall("resume", "openai", "--json", "--url", URL)
    assert json.loads(resumed) == {"upstream": "openai", "was_held": True}
    resumed = seawall("resume", "openai", "--json", "--url", URL, expect=1)
    assert json.loads(resumed) == {"upstream": "openai", "was_held": False}


def test_whoever_holds_a_family_is_told_of_its_keys(seawall):
    with open_store(URL) as store:
        enqueued(store, new_job(lane=KEYED))
    seawall("hold", "openai", "--url", URL)
    assert seawall.err == (
        "seawall: keys are upstreams of their own, and are left as they are: openai:gpt-5\n"
    )
    seawall("hold", "openai:gpt-5", "--url", URL)
    assert seawall.err == ""


def test_a_name_that_nobody_knows_is_done_and_questioned(seawall):
    with open_store(URL) as store:
        enqueued(store, new_job(lane=ASK))
    seawall("hold", "opeanai", "--url", URL)
    assert seawall.err.endswith("nothing is said of it; did you mean openai?\n")
    seawall("force", "mail", "closed", "--url", URL)
    assert seawall.err.endswith("nothing is said of it; is it the name you meant?\n")


def test_a_paused_queue_of_that_name_is_resumed_by_another_command(seawall):
    open_store(URL).close()
    seawall("queues", "pause", "openai", "--url", URL)
    seawall("resume", "openai", "--url", URL, expect=1)
    assert seawall.err == (
        "seawall: the upstream openai was not held; for the queue of that name: seawall queues resume"
        " openai\n"
    )


def test_a_hold_in_the_ledger_itself_is_ended_as_well(seawall):
    with open_store(URL) as store:
        store.hold(Scope.UPSTREAM, "openai", reason="by a script")
    assert "is its breaker's affair again" in seawall("resume", "openai", "--url", URL)
    with open_store(URL) as store:
        assert store.holds() == []


def test_whoever_decides_without_the_application_forgets_nothing_that_is_counted(seawall, module):
    app = f"{module(APP)}:app"
    upstream = Upstream("openai", concurrency=2, retry_budget=None)
    with open_store(URL) as store:
        decided(store, upstream, begun(2))
    seawall("force", "openai", "closed", "--url", URL)
    seawall("resume", "openai", "--url", URL)
    with open_store(URL) as store:
        (row,) = store.watched()
        assert row.gated
        assert gate_text.read(row.state).limits.places[0][:2] == ("w1", 2)
    seawall("force", "openai", "closed", "--app", app)
    seawall("resume", "openai", "--app", app)
    with open_store(URL) as store:
        assert gate_text.read(store.watched()[0].state).limits.places[0][:2] == ("w1", 2)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("hold", "openai", "--for", "0s"), "--for: 0s is no time at all\n"),
        (("hold", "openai", "--for", "2020-01-01"), "--for: 2020-01-01 is over already\n"),
        (("hold", "openai", "--for", "soon"), "--for: found 'soon', expected a span such as 90s,"),
        (("hold", "openai", "--why="), "why: found '', expected 1 to 200 characters\n"),
        (("hold", ""), "upstream: found '', expected 1 to 200 characters\n"),
        (("resume", ""), "upstream: found '', expected 1 to 200 characters\n"),
        (
            ("force", "openai", "auto", "--for", "1h"),
            "--for goes with open or closed: auto has no end\n",
        ),
        (("force", "openai", "shut"), "Invalid value for 'open|closed|auto': "),
        (("force", "openai"), "Missing argument 'open|closed|auto'"),
        (("hold",), "Missing argument"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(seawall, words, line):
    open_store(URL).close()
    said = seawall(*words, "--url", URL, expect=2)
    assert said.startswith(f"seawall: {line}")
    assert said.count("\n") == 1
    with open_store(URL) as store:
        assert store.watched() == []


@pytest.mark.parametrize(
    "words", [("upstreams",), ("hold", "x"), ("resume", "x"), ("force", "x", "open")]
)
def test_a_store_that_is_not_there_is_not_made(seawall, words):
    said = seawall(*words, "--url", URL, expect=2)
    assert said.startswith("seawall: jobs.db: no such file; `seawall migrate` makes a store")
    assert not (seawall.folder / "jobs.db").exists()


def test_a_mistake_in_the_files_upstreams_is_one_line(seawall):
    (seawall.folder / "seawall.toml").write_text("[upstreams.openai]\nconcurency = 3\n")
    assert seawall("upstreams", expect=2) == (
        "seawall: seawall.toml: upstreams.openai.concurency: no such key; did you mean concurrency?\n"
    )


# ── Why ──────────────────────────────────────────────────────────────────────────────────────────


def test_why_tells_of_the_upstream_that_keeps_a_job_waiting(seawall, url):
    with open_store(url) as store:
        (job,) = enqueued(store, new_job(lane=ASK))
        decided(store, Upstream("openai", breaker=HOUR), failing)
    held = seawall("why", job, "--url", url)
    assert "Its upstream openai is held (its calls fail), for another 60 min" in held
    seawall("hold", "openai", "--why", "maintenance", "--url", url)
    held = seawall("why", job, "--url", url)
    assert "held by hand (maintenance), until somebody resumes it" in held
    assert "seawall resume openai" in held
    seawall("resume", "openai", "--url", url)
    told = json.loads(seawall("why", job, "--json", "--url", url))
    assert "let go little by little" in told["lines"][1]


def test_why_knows_the_limits_that_the_application_declares(seawall, module):
    app = f"{module(APP)}:app"
    with open_store(URL) as store:
        (job,) = enqueued(store, new_job(lane=Lane(task="look", upstream="vision")))
        decided(store, Upstream("vision", per_minute={"requests": 31}), begun(1))
    told = seawall("why", job, "--app", app)
    assert "has used up its requests, 31 a minute: there is room again in " in told
    assert "31 a minute" not in seawall("why", job, "--url", URL)
