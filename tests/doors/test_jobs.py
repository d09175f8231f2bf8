"""`seawall jobs`, `job`, `why`, `cancel`, `retry`: as somebody on call would use them."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from seawall.model import Outcome
from seawall.store import Evidence, Filter, Lane, Progress, finding, open_store
from tests.support.ledger import claimed, ended, enqueued, failed, new_job, wanted

URL = "sqlite:///jobs.db"


@pytest.fixture(params=["sqlite", "postgres16", "postgres18"])
def url(request, seawall):
    if request.param == "sqlite":
        return URL
    fleet = request.getfixturevalue("postgres_fleet")
    return fleet.server(request.param.removeprefix("postgres")).new_url()


def told(seawall, *words, **how):
    return json.loads(seawall(*words, "--json", **how))


def test_jobs_are_listed_on_every_store(seawall, url):
    with open_store(url) as store:
        (bad,) = failed(store)
        lane = Lane(task="mail", queue="post")
        enqueued(store, new_job('["eu-7"]', lane=lane, owner="ann", tags=("eu",)))
        later = datetime.now(UTC) + timedelta(hours=2, minutes=5)
        enqueued(store, new_job(run_after=later, key="k1"))
    printed = seawall("jobs", "--url", url)
    assert [line.split()[0] for line in printed.splitlines()] == ["ID", "3", "2", str(bad)]
    assert "failed" in printed
    assert "TIMEOUT: no answer" in printed
    assert "due in 2 h" in printed
    listed = told(seawall, "jobs", "--url", url)
    assert [job["id"] for job in listed] == [3, 2, 1]
    assert listed[2]["last_fault"]["code"] == "TIMEOUT"
    assert datetime.fromisoformat(listed[0]["due_at"]) == later
    for words, ids in (
        (("--state", "failed"), [1]),
        (("--task", "mail"), [2]),
        (("--queue", "post"), [2]),
        (("--owner", "ann"), [2]),
        (("--tag", "eu"), [2]),
        (("--key", "k1"), [3]),
        (("--since", "1h"), [3, 2, 1]),
        (("--since", "2999-01-01"), []),
        (("--task", "none"), []),
        (("--fault", "TIMEOUT"), [1]),
        (("--argument", "EU-7"), [2]),
        (("--argument", "none"), []),
    ):
        assert [job["id"] for job in told(seawall, "jobs", *words, "--url", url)] == ids, words
    assert seawall("jobs", "--task", "none", "--url", url) == "There are no such jobs.\n"


def test_a_list_goes_on_where_its_page_ended(seawall):
    with open_store(URL) as store:
        enqueued(store, *[new_job() for _ in range(5)])
    seen = []
    words = ["jobs", "--limit", "2", "--url", URL]
    while True:
        seen += [job["id"] for job in told(seawall, *words)]
        if not seawall.err:
            break
        hint, _, cursor = seawall.err.strip().rpartition(" ")
        assert hint == "seawall: there are more: the same with --after"
        words = ["jobs", "--limit", "2", "--url", URL, "--after", cursor]
    assert seen == [5, 4, 3, 2, 1]
    assert "There are more: the same with --after " in seawall("jobs", "--limit", "2", "--url", URL)


def test_a_piped_list_keeps_each_job_on_one_line(seawall):
    with open_store(URL) as store:
        failed(store, new_job(lane=Lane(task="work", queue="default")))
    lines = seawall("jobs", "--url", URL, COLUMNS="30").splitlines()
    assert len(lines) == 2
    assert lines[1].rstrip().endswith("TIMEOUT: no answer")


def test_tries_are_told_beside_their_limit_where_the_task_is_known(seawall, app):
    seawall("enqueue", "fails", "--app", app)
    seawall("worker", "--app", app, "--drain", "--poll-seconds", "0.1")
    assert "1/5" in seawall("jobs", "--app", app)
    assert "1/5" not in seawall("jobs", "--url", URL)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--since", "yesterday"), "--since: found 'yesterday', expected a span such as 90s"),
        (("--since", "99999999w"), "before the calendar begins"),
        (("--state", "asleep"), "Invalid value for '--state'"),
        (("--after", "nonsense"), "after: found 'nonsense', expected the `next` of a page"),
        (("--limit", "0"), "Invalid value for '--limit'"),
        (("--task", ""), "task: found '', expected 1 to 200 characters"),
    ],
)
def test_what_cannot_be_looked_for_is_refused(seawall, words, said):
    open_store(URL).close()
    line = seawall("jobs", *words, "--url", URL, expect=2)
    assert said in line
    assert line.count("\n") == 1


def test_one_job_is_told_whole(seawall, url):
    with open_store(url) as store:
        (claim,) = claimed(store, new_job('{"path": "a.pdf"}', key="k", owner="ann", tags=("eu",)))
        store.report([Progress(token=claim.token, done=3, total=4, message="pages")])
        running = seawall("job", "1", "--url", url)
        broken = ended(
            claim.token, Outcome.FAILED, traceback="Traceback: here", raw_output="<html>"
        )
        store.settle([broken])
        assert store.evidence(1, 1) == Evidence("Traceback: here", "<html>")
    for words in ("state running", "worker w1, leased for", "3 of 4 pages", '"path": "a.pdf"'):
        assert words in " ".join(running.split())
    printed = seawall("job", "1", "--url", url)
    assert "History" in printed
    assert "TIMEOUT: no answer" in printed
    assert "Traceback: here" not in printed
    shown = seawall("job", "1", "--traceback", "--url", url)
    assert "Attempt 1 broke here\nTraceback: here\n" in shown
    assert "Attempt 1 got this from the upstream\n<html>\n" in shown
    data = told(seawall, "job", "1", "--url", url)
    assert (data["key"], data["owner"], data["tags"]) == ("k", "ann", ["eu"])
    assert data["arguments"] == {"path": "a.pdf"}
    (attempt,) = data["attempts"]
    assert (attempt["outcome"], attempt["fault"]["code"]) == ("failed", "TIMEOUT")
    assert "traceback" not in attempt
    (attempt,) = told(seawall, "job", "1", "--traceback", "--url", url)["attempts"]
    assert (attempt["traceback"], attempt["raw_output"]) == ("Traceback: here", "<html>")


def test_results_and_skips_are_told(seawall, app):
    seawall("enqueue", "add", "a=1", "--app", app)
    seawall("enqueue", "skips", "--app", app)
    seawall("worker", "--app", app, "--drain", "--poll-seconds", "0.1")
    assert "Result\n3\n" in seawall("job", "1", "--url", URL)
    assert told(seawall, "job", "1", "--url", URL)["result"] == 3
    assert 'Skipped because\n"nothing to do"\n' in seawall("job", "2", "--app", app)
    assert told(seawall, "job", "2", "--url", URL)["skip_reason"] == "nothing to do"


def test_long_arguments_are_cut_for_people_only(seawall):
    with open_store(URL) as store:
        enqueued(store, new_job(json.dumps({"text": "x" * 9_000})))
    printed = seawall("job", "1", "--url", URL)
    assert "characters more: --json" in printed
    assert len(printed) < 6_000
    assert told(seawall, "job", "1", "--url", URL)["arguments"] == {"text": "x" * 9_000}


def test_a_long_history_is_told_by_its_end(seawall):
    with open_store(URL) as store:
        (claim,) = claimed(store)
        for _ in range(60):
            store.settle([ended(claim.token, Outcome.SNOOZED, delay_seconds=0.0)])
            (claim,) = store.claim(wanted())
    assert "History, the last 50 of 60" in seawall("job", "1", "--url", URL)
    assert len(told(seawall, "job", "1", "--url", URL)["attempts"]) == 60


def test_why_says_what_a_job_waits_for(seawall, url):
    with open_store(url) as store:
        enqueued(store)
    printed = seawall("why", "1", "--url", url)
    assert printed.startswith("It is queued.\nNo worker is alive")
    data = told(seawall, "why", "1", "--url", url)
    assert (data["id"], data["state"]) == (1, "queued")
    assert data["lines"] == printed.splitlines()


@pytest.mark.parametrize("words", [("job", "7"), ("why", "7"), ("job", "7", "--json")])
def test_a_job_that_is_not_there_is_one_line_and_exit_code_one(seawall, words):
    open_store(URL).close()
    assert seawall(*words, "--url", URL, expect=1) == ""
    assert seawall.err == "seawall: there is no job 7; it may have been pruned\n"


def test_each_cancel_is_answered_in_words(seawall, url):
    with open_store(url) as store:
        claims = claimed(store, new_job(), new_job(), limit=2)
        store.settle([ended(claims[1].token)])
        enqueued(store)
    assert seawall("cancel", "1", "2", "3", "99", "--url", url, expect=1).splitlines() == [
        "job 1: asked to stop",
        "job 2: had already ended as succeeded",
        "job 3: cancelled",
        "job 99: no such job; it may have been pruned",
    ]
    assert seawall("cancel", "1", "1", "--url", url) == "job 1: asked to stop\n"
    assert "running, to stop" in seawall("jobs", "--url", url)
    (answer,) = told(seawall, "cancel", "3", "--url", url, expect=1)
    assert (answer["id"], answer["done"], answer["state"]) == (3, False, "cancelled")
    (answer,) = told(seawall, "cancel", str(2**70), "--url", url, expect=1)
    assert answer["state"] is None


def test_only_failed_jobs_are_sent_again(seawall, url):
    with open_store(url) as store:
        failed(store)
        enqueued(store)
    assert seawall("retry", "1", "2", "9", "--url", url, expect=1).splitlines() == [
        "job 1: queued again",
        "job 2: not sent again: it is queued, and only failed jobs are",
        "job 9: no such job; it may have been pruned",
    ]
    with open_store(url) as store:
        store.cancel([2])
        store.settle([ended(c.token, Outcome.FAILED) for c in store.claim(wanted())])
    assert told(seawall, "retry", "1", "--url", url) == [
        {"id": 1, "done": True, "state": "queued", "said": "queued again"}
    ]


@pytest.mark.parametrize("command", ["job", "why", "cancel", "retry"])
def test_a_number_must_be_one(seawall, command):
    assert re.search(r"Invalid value for '\[?ID", seawall(command, "x", "--url", URL, expect=2))


LOOKING = (
    ("jobs",), ("job", "1"), ("why", "1"), ("cancel", "1"), ("retry", "1"), ("workers",),
    ("queues",), ("queues", "pause", "x"), ("queues", "resume", "x"), ("schedules",),
    ("dead",), ("dead", "show", "1"), ("redrive", "1"), ("dismiss", "1", "--note", "x"),
)  # fmt: skip


@pytest.mark.parametrize("words", LOOKING)
def test_no_command_makes_a_store_by_looking_for_one(seawall, words):
    line = seawall(*words, "--url", URL, expect=2)
    assert line.startswith("seawall: jobs.db: no such file; `seawall migrate` makes a store")
    assert list(seawall.folder.iterdir()) == []
    assert "in memory" in seawall(*words, "--url", "sqlite://", expect=2)


@pytest.mark.parametrize("words", LOOKING)
def test_no_command_brings_a_store_up_to_date_unasked(seawall, postgres_fleet, words):
    url = postgres_fleet.server("16").new_url()
    line = seawall(*words, "--url", url, expect=2)
    assert line.endswith("run `seawall migrate` first\n")


@pytest.mark.parametrize("words", LOOKING)
def test_a_server_that_is_away_is_one_line_without_its_password(seawall, words):
    url = "postgresql://ann:hunter2@127.0.0.1:1/jobs"
    line = seawall(*words, expect=2, SEAWALL_URL=url)
    assert line.count("\n") == 1
    assert "hunter2" not in line


@pytest.mark.parametrize("words", [*LOOKING, ("worker",), ("enqueue",), ("doctor",)], ids=" ".join)
def test_help_teaches_with_an_example(seawall, words):
    command = words[:2] if words[0] in ("queues", "dead") else words[:1]
    text = " ".join(seawall(*command, "--help").split())
    assert f"Example: seawall {command[0]}" in text


def test_a_narrow_terminal_gets_one_job_below_the_other(seawall):
    with open_store(URL) as store:
        failed(store)
    printed = seawall("jobs", "--url", URL, COLUMNS="40", FORCE_COLOR="1")
    assert "TIMEOUT" in printed
    assert all(len(line) <= 80 for line in printed.splitlines())
    assert "TRIES" not in printed


def test_what_an_upstream_said_cannot_steer_the_terminal(seawall):
    with open_store(URL) as store:
        (claim,) = claimed(store)
        store.settle([ended(claim.token, Outcome.FAILED, raw_output="a\x1b[2Jb\nc")])
    assert "a\\x1b[2Jb\nc\n" in seawall("job", "1", "--traceback", "--url", URL)


# --- all that match -------------------------------------------------------------------------------


def states(store):
    return [str(job.state) for job in sorted(store.page(Filter()), key=lambda job: job.id)]


def test_all_that_match_are_cancelled_with_the_count_said_first(seawall, url):
    with open_store(url) as store:
        enqueued(store, *[new_job(lane=Lane(task="mail"))] * 3, new_job())
    words = ("cancel", "--task", "mail", "--state", "queued", "--url", url)

    assert seawall(*words, "--dry-run") == "3 jobs would be cancelled.\n"
    assert seawall(*words, expect=1) == "3 jobs to be cancelled.\n"
    assert seawall.err == "seawall: nothing was cancelled: agree to it with --yes\n"
    with open_store(url) as store:
        assert set(states(store)) == {"queued"}
    assert seawall(*words, "--yes").splitlines() == [
        "3 jobs to be cancelled.", "3 jobs cancelled.",
    ]  # fmt: skip
    with open_store(url) as store:
        assert states(store) == ["cancelled", "cancelled", "cancelled", "queued"]
    assert seawall(*words, "--yes") == "There are no such jobs.\n"
    assert told(seawall, *words, "--dry-run")["found"] == 0


def test_running_ones_that_match_are_asked_to_stop(seawall):
    with open_store(URL) as store:
        claimed(store, new_job('["a.pdf"]'), new_job('["b.pdf"]'))
    answer = told(seawall, "cancel", "--argument", "A.PDF", "--yes", "--url", URL)
    assert (answer["found"], answer["stopping"], answer["cancelled"]) == (1, 1, 0)


@pytest.mark.parametrize("answer", [True, False])
def test_somebody_at_a_terminal_is_asked_whether_to_cancel(seawall, monkeypatch, answer):
    with open_store(URL) as store:
        enqueued(store, new_job(), new_job())
    monkeypatch.setattr("seawall.cli.cancel._is_watched", lambda: True)
    asked = []
    monkeypatch.setattr("typer.confirm", lambda text: asked.append(text) or answer)
    seawall("cancel", "--state", "queued", "--url", URL, expect=0 if answer else 1)
    assert asked == ["Cancel them?"]
    with open_store(URL) as store:
        assert set(states(store)) == {"cancelled" if answer else "queued"}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "name jobs, or say which"),
        (("1", "--task", "mail"), "not both"),
        (("1", "--dry-run"), "--dry-run"),
        (("--state", "failed", "--yes"), "expected queued or running"),
        (("--fault", "TIMEOUTS", "--yes"), "did you mean TIMEOUT"),
        (("--argument", "", "--yes"), "argument"),
    ],
)
def test_a_cancel_without_an_aim_is_refused_in_one_line(seawall, words, line):
    with open_store(URL) as store:
        enqueued(store)
    said = seawall("cancel", *words, "--url", URL, expect=2)
    assert line in said
    assert said.count("\n") == 1
    with open_store(URL) as store:
        assert states(store) == ["queued"]


def test_a_search_goes_on_by_itself_and_says_where_it_stopped(seawall, monkeypatch):
    monkeypatch.setattr(finding, "LOOKED_INTO", 5)
    with open_store(URL) as store:
        (far,) = enqueued(store, new_job('["needle"]'))
        enqueued(store, *[new_job()] * 40)
    assert [each["id"] for each in told(seawall, "jobs", "--argument", "needle", "--url", URL)] == [
        far
    ]
    monkeypatch.setattr("seawall.cli.jobs.MOST_LOOKS", 2)
    words = ("jobs", "--argument", "needle", "--url", URL)
    first = seawall(*words).splitlines()
    assert first[0] == "No such job was found so far."
    assert first[-1].startswith("There may be more, further back: the same with --after ")


def test_a_job_tells_who_asked_for_it_and_what_it_asked_for(seawall):
    with open_store(URL) as store:
        (parent,) = enqueued(store)
        born = enqueued(store, *[new_job(parent=parent)] * 2)
    assert told(seawall, "job", born[0], "--url", URL)["parent"] == parent
    assert told(seawall, "job", parent, "--url", URL)["children"] == born
    assert f"asked for by  job {parent}" in seawall("job", born[0], "--url", URL)
    assert "children" in (shown := seawall("job", parent, "--url", URL))
    assert f"{born[0]}, {born[1]}" in shown
