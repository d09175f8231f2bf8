"""`seawall jobs`, `job`, `why`, `cancel`, `retry`: as somebody on call would use them."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from seawall.model import Outcome
from seawall.store import Evidence, Lane, Progress, open_store
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
        enqueued(store, new_job(lane=Lane(task="mail", queue="post"), owner="ann", tags=("eu",)))
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
    assert "Invalid value for 'ID" in seawall(command, "x", "--url", URL, expect=2)


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
