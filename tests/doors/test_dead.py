"""`seawall dead`, `redrive`, `dismiss`: mending what failed, as somebody on call would."""

import json

import pytest

from seawall.cli import redrive as commands
from seawall.faults import Fault, FaultCode
from seawall.model import Outcome
from seawall.states import State
from seawall.store import Lane, LetterState, open_store
from tests.support.doors import until
from tests.support.ledger import TIMEOUT, claimed, ended, enqueued, failed, new_job, wanted

URL = "sqlite:///jobs.db"
GONE = Fault(FaultCode.NOT_FOUND, "gone")


@pytest.fixture(params=["sqlite", "postgres16", "postgres18"])
def url(request, seawall):
    if request.param == "sqlite":
        return URL
    fleet = request.getfixturevalue("postgres_fleet")
    return fleet.server(request.param.removeprefix("postgres")).new_url()


def told(seawall, *words, **how):
    return json.loads(seawall(*words, "--json", **how))


def failed_by(store, *faults, **fields):
    claims = claimed(store, *(new_job(**fields) for _ in faults), limit=len(faults), queues=None,
                     tasks=("work", "mail"))  # fmt: skip
    for claim, fault in zip(claims, faults, strict=True):
        store.settle([ended(claim.token, Outcome.FAILED, fault=fault)])


def some(url):
    """Jobs 1 to 4: two timeouts, one of another task, one that is gone."""
    with open_store(url) as store:
        failed_by(store, TIMEOUT, TIMEOUT)
        failed_by(store, TIMEOUT, lane=Lane("mail", "post"), owner="ann", run=7)
        failed_by(store, GONE)


# --- looking --------------------------------------------------------------------------------------


def test_letters_are_listed_on_every_store(seawall, url):
    some(url)
    printed = seawall("dead", "--url", url)
    assert [line.split()[0] for line in printed.splitlines()] == ["ID", "4", "3", "2", "1"]
    assert "NOT_FOUND: gone" in printed
    listed = told(seawall, "dead", "--url", url)
    assert [letter["job_id"] for letter in listed] == [4, 3, 2, 1]
    assert (listed[1]["owner"], listed[1]["run"]) == ("ann", 7)
    assert (listed[1]["fault"]["code"], listed[1]["state"]) == ("TIMEOUT", "open")
    for words, ids in (
        (("--fault", "NOT_FOUND"), [4]),
        (("--fingerprint", TIMEOUT.fingerprint), [3, 2, 1]),
        (("--task", "mail"), [3]),
        (("--queue", "post"), [3]),
        (("--owner", "ann"), [3]),
        (("--run", "7"), [3]),
        (("--stage", "1"), []),
        (("--since", "1h"), [4, 3, 2, 1]),
        (("--since", "2999-01-01"), []),
        (("--state", "dismissed"), []),
        (("--state", "all"), [4, 3, 2, 1]),
    ):
        found = told(seawall, "dead", *words, "--url", url)
        assert [letter["job_id"] for letter in found] == ids, words
    assert seawall("dead", "--task", "none", "--url", url) == "There are no such dead letters.\n"


def test_a_list_that_is_cut_says_how_many_more_there_are(seawall):
    with open_store(URL) as store:
        failed(store, *(new_job() for _ in range(5)))
    assert "There are 3 more: the same with --after " in seawall(
        "dead", "--limit", "2", "--url", URL
    )
    seen, words = [], ["dead", "--limit", "2", "--url", URL]
    while True:
        seen += [letter["job_id"] for letter in told(seawall, *words)]
        if not seawall.err:
            break
        assert "more" in seawall.err
        cursor = seawall.err.split("--after ")[1].split(",")[0]
        words = ["dead", "--limit", "2", "--url", URL, "--after", cursor]
    assert seen == [5, 4, 3, 2, 1]


def test_groups_are_told_with_examples(seawall, url):
    some(url)
    printed = seawall("dead", "--group", "--url", url)
    first = printed.splitlines()[1]
    assert first.split()[:3] == [TIMEOUT.fingerprint, "3", "75%"]
    assert "mail, work" in first
    assert "job 3: TIMEOUT: no answer (also 2, 1)" in first
    groups = told(seawall, "dead", "--group", "--url", url)
    assert [group["count"] for group in groups] == [3, 1]
    assert "1 more groups" in seawall("dead", "--group", "--limit", "1", "--url", url)
    assert "no such" in seawall("dead", "--group", "--task", "none", "--url", url)


def test_one_letter_is_told_in_plain_words_with_the_next_step(seawall, url):
    with open_store(url) as store:
        (claim,) = claimed(store, new_job('{"path": "a.pdf"}'))
        store.settle([ended(claim.token, Outcome.RETRIED, delay_seconds=0)])
        (claim,) = store.claim(wanted())
        end = ended(claim.token, Outcome.FAILED, traceback="Traceback: here", raw_output="<html>")
        store.settle([end])
    printed = seawall("dead", "show", "1", "--url", url)
    assert printed.startswith("Job 1 (work) failed ")
    for words in (
        "after 2 attempts", "TIMEOUT: no answer", "The call may have been carried out",
        '"path": "a.pdf"', "Traceback: here", "<html>", "What to do next",
        "seawall redrive 1", 'seawall dismiss 1 --note "WHY"',
        f"seawall redrive --group {TIMEOUT.fingerprint} --canary 5",
    ):  # fmt: skip
        assert words in printed, words
    data = told(seawall, "dead", "show", "1", "--url", url)
    assert (data["job_id"], data["job"]["state"]) == (1, "failed")
    assert [made["outcome"] for made in data["attempts_made"]] == ["retried", "failed"]
    assert data["attempts_made"][1]["raw_output"] == "<html>"
    assert data["next"][0]["command"] == "seawall redrive 1"


def test_where_the_store_is_may_be_said_before_the_word_show(seawall):
    some(URL)
    assert "Job 4" in seawall("dead", "--url", URL, "show", "4")


def test_one_that_came_back_or_was_dealt_with_says_so(seawall):
    with open_store(URL) as store:
        failed(store)
    seawall("redrive", "1", "--url", URL)
    assert "It was redriven" in seawall("dead", "show", "1", "--url", URL)
    with open_store(URL) as store:
        store.settle([ended(c.token, Outcome.FAILED) for c in store.claim(wanted())])
    assert "failed for good 2 times" in seawall("dead", "show", "1", "--url", URL)
    assert "open, 2×" in seawall("dead", "--url", URL)
    seawall("dismiss", "1", "--note", "a test file", "--url", URL)
    printed = seawall("dead", "show", "1", "--url", URL)
    assert "Note: a test file" in printed
    assert "seawall dismiss 1 --undo" in printed


@pytest.mark.parametrize(
    ("fault", "step"),
    [
        (Fault(FaultCode.INVALID_INPUT), "--edit NAME=VALUE"),
        (Fault(FaultCode.INTERNAL_ERROR), "Once the code is mended"),
        (Fault(FaultCode.UNAUTHORIZED), "credentials, quota or configuration"),
    ],
)
def test_the_next_step_depends_on_what_went_wrong(seawall, fault, step):
    with open_store(URL) as store:
        failed_by(store, fault)
    assert step in seawall("dead", "show", "1", "--url", URL)


def test_a_job_without_a_letter_is_one_line_and_exit_code_one(seawall):
    with open_store(URL) as store:
        enqueued(store)
    assert seawall("dead", "show", "1", "--url", URL, expect=1) == ""
    assert seawall.err == "seawall: job 1 has no dead letter: it is queued\n"
    seawall("dead", "show", "7", "--url", URL, expect=1)
    assert seawall.err == "seawall: there is no job 7; it may have been pruned\n"


def test_other_commands_tell_of_it(seawall):
    some(URL)
    why = seawall("why", "1", "--url", URL)
    assert "2 others failed alike" in why
    assert "seawall redrive 1\n" in why
    assert "open, failed" in seawall("job", "1", "--url", URL)
    assert told(seawall, "job", "1", "--url", URL)["dead_letter"]["state"] == "open"
    (check,) = [c for c in told(seawall, "doctor", "--url", URL) if c["check"] == "letters"]
    assert (check["verdict"], check["found"]) == ("warning", "4 failed jobs wait for somebody")
    seawall("dismiss", "1", "--note", "never mind", "--url", URL)
    assert "never mind" in seawall("why", "1", "--url", URL)
    assert "dismissed" in seawall("job", "1", "--url", URL)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--fault", "TIMEUOT"), "no fault code 'TIMEUOT'; did you mean TIMEOUT?"),
        (("--since", "yesterday"), "--since: found 'yesterday', expected a span such as 90s"),
        (("--state", "shut"), "Invalid value for '--state'"),
        (("--stage", "ask"), "stage: 'ask' is a name: name its task or run as well"),
        (("--stage", "ask", "--task", "work"), "name the application, or the stage's number"),
        (("--after", "nonsense"), "after: found 'nonsense'"),
        (("--limit", "0"), "Invalid value for '--limit'"),
        (("show", "x"), "Invalid value for 'ID"),
    ],
)
def test_what_cannot_be_looked_for_is_refused(seawall, words, said):
    open_store(URL).close()
    line = seawall("dead", "--url", URL, *words, expect=2)
    assert said in line
    assert line.count("\n") == 1


# --- sending again --------------------------------------------------------------------------------


def states(url):
    with open_store(url) as store:
        return [job.state for _, job in sorted(store.jobs([1, 2, 3, 4]).items())]


def test_jobs_are_sent_again_by_name_group_or_filter(seawall, url):
    some(url)
    assert seawall("redrive", "1", "--url", url).startswith("1 of 1 job sent again.\n")
    printed = seawall("redrive", "--group", TIMEOUT.fingerprint, "--url", url)
    assert printed.startswith("2 jobs to be sent again.\n2 of 2 jobs sent again.\n")
    assert "No living worker serves mail" in printed
    assert states(url) == ["queued", "queued", "queued", "failed"]
    data = told(seawall, "redrive", "--fault", "NOT_FOUND", "--url", url)
    assert (data["found"], data["sent"], data["ok"]) == (1, 1, True)
    with open_store(url) as store:
        (letter,) = store.letters_of([4]).values()
    assert letter.state is LetterState.REDRIVEN
    assert letter.handled_by


def test_all_must_be_said(seawall):
    some(URL)
    assert "or --all" in seawall("redrive", "--url", URL, expect=2)
    assert states(URL) == ["failed"] * 4
    assert told(seawall, "redrive", "--all", "--url", URL)["sent"] == 4


def test_a_dry_run_says_what_would_happen(seawall):
    some(URL)
    printed = seawall("redrive", "--all", "--dry-run", "--rate", "1/s", "--url", URL)
    assert printed.splitlines() == [
        "4 jobs would be sent again.",
        "  2 × work, queue default, stage 0: TIMEOUT",
        "  1 × mail, queue post, stage 0: TIMEOUT",
        "  1 × work, queue default, stage 0: NOT_FOUND",
        "The last of them is due in 3 s.",
        "No living worker serves mail: its jobs will wait until one does.",
        "No living worker serves work: its jobs will wait until one does.",
    ]
    assert states(URL) == ["failed"] * 4


def test_what_is_not_sent_is_told_and_is_exit_code_one(seawall):
    some(URL)
    seawall("redrive", "1", "--url", URL)
    printed = seawall("redrive", "1", "2", "99", "--url", URL, expect=1)
    assert "1 of 3 jobs sent again." in printed
    assert "  job 1: it was sent again already, and has not failed since" in printed
    assert "  job 99: there is no such job; it may have been pruned" in printed
    seawall("redrive", "--group", "none", "--url", URL, expect=1)
    assert seawall.err == "seawall: there are no such dead letters\n"


def test_a_rate_spreads_due_times(seawall):
    some(URL)
    seawall("redrive", "--all", "--rate", "60/m", "--url", URL)
    with open_store(URL) as store:
        due = sorted(job.due_at for job in store.jobs([1, 2, 3, 4]).values())
        assert round((due[-1] - due[0]).total_seconds()) == 3


def test_the_input_is_edited_with_the_tasks_own_types(seawall, app):
    seawall("enqueue", "fails", "what=this", "--app", app)
    seawall("enqueue", "add", "a=1", "--app", app)
    seawall("worker", "--app", app, "--drain", "--poll-seconds", "0.1")
    line = seawall("redrive", "1", "--edit", "whta=that", "--app", app, expect=2)
    assert line.startswith("seawall: fails: got an unexpected keyword argument 'whta'; it takes")
    assert "what" in seawall("redrive", "1", "--edit", '{"what": 7}', "--app", app, expect=2)
    line = seawall("redrive", "1", "--edit", "what=that", "--url", URL, expect=2)
    assert "the task fails is not known here" in line
    seawall("redrive", "1", "--edit", "what=that", "--app", app)
    assert told(seawall, "job", "1", "--url", URL)["arguments"] == {"what": "that"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("1", "--group", "x"), "name jobs, or say which: not both"),
        (("1", "--all"), "name jobs, or say which: not both"),
        (("1", "--rate", "fast"), "--rate: found 'fast', expected such as 10/s"),
        (("1", "--rate", "0/s"), "--rate: found '0/s'"),
        (("1", "--edit", "x"), "expected NAME=VALUE"),
        (("1", "--edit", "[1]"), "--edit: expected NAME=VALUE, or a JSON object"),
        (("1", "--from-start", "--from-stage", "0"), "from_start, or from_stage: not both"),
        (("1", "--from-stage", "3"), "failed at stage 0, which comes before 3"),
        (("1", "--from-stage", "ask"), "name the application, or the stage's number"),
        (("1", "--canary", "0"), "Invalid value for '--canary'"),
        (("x",), "Invalid value for '[ID...]'"),
    ],
)
def test_what_cannot_be_done_is_one_line(seawall, words, said):
    some(URL)
    line = seawall("redrive", *words, "--url", URL, expect=2)
    assert said in line
    assert line.count("\n") == 1
    assert states(URL) == ["failed"] * 4


def test_canaries_go_first_and_the_rest_stays_where_they_fail(seawall, start, app):
    for n in range(12):
        seawall("enqueue", "fails", f"what=file {n}", "--app", app)
    start("worker", "--app", app)
    with open_store(URL) as store:
        until(lambda: store.counts()[State.FAILED] == 12, "all have failed")
    printed = seawall("redrive", "--all", "--canary", "2", "--app", app, expect=1)
    assert "2 canaries went first, and not all succeeded: the other 10 stay as they are." in printed


@pytest.mark.parametrize("answer", [True, False])
def test_many_are_asked_about_on_a_terminal(seawall, monkeypatch, answer):
    with open_store(URL) as store:
        failed(store, *(new_job() for _ in range(commands.MANY)))
        failed(store)
    monkeypatch.setattr(commands, "_is_watched", lambda: True)
    asked = []
    monkeypatch.setattr("typer.confirm", lambda text: asked.append(text) or answer)
    printed = seawall("redrive", "--all", "--url", URL, expect=0 if answer else 1)
    assert printed.startswith("11 jobs to be sent again.\n")
    assert asked == ["Send them?"]
    with open_store(URL) as store:
        assert store.counts()[State.QUEUED] == (11 if answer else 0)


def test_with_yes_nobody_is_asked(seawall, monkeypatch):
    with open_store(URL) as store:
        failed(store, *(new_job() for _ in range(9)))
        failed(store, new_job(), new_job())
    monkeypatch.setattr(commands, "_is_watched", lambda: True)
    assert "11 of 11 jobs sent again." in seawall("redrive", "--all", "--yes", "--url", URL)


# --- being done with them -------------------------------------------------------------------------


def test_letters_are_dismissed_with_a_note_and_opened_again(seawall, url):
    some(url)
    assert seawall("dismiss", "1", "--note", "a test", "--url", url) == "1 dead letter dismissed.\n"
    (letter,) = told(seawall, "dead", "--state", "dismissed", "--url", url)
    assert (letter["job_id"], letter["note"]) == (1, "a test")
    assert seawall("dismiss", "1", "--undo", "--url", url) == "1 dead letter opened again.\n"
    group = ("--group", TIMEOUT.fingerprint)
    assert told(seawall, "dismiss", *group, "--note", "x", "--url", url)["done"] == 3
    assert told(seawall, "dismiss", "--all", "--undo", "--url", url)["done"] == 3
    assert states(url) == ["failed"] * 4


def test_what_is_not_dismissed_is_told_and_is_exit_code_one(seawall):
    some(URL)
    seawall("redrive", "1", "--url", URL)
    printed = seawall("dismiss", "1", "2", "99", "--note", "x", "--url", URL, expect=1)
    assert printed.splitlines() == [
        "1 dead letter dismissed.",
        "  job 1: not dismissed: its letter is redriven",
        "  job 99: it has no dead letter: it has not failed, or was pruned",
    ]
    seawall("dismiss", "--task", "none", "--note", "x", "--url", URL, expect=1)
    assert seawall.err == "seawall: there are no such dead letters\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("1",), "say why with --note TEXT, or take it back with --undo"),
        (("1", "--note", "x", "--undo"), "say why with --note TEXT, or take it back"),
        (("1", "--note", ""), "note: found '', expected a few words"),
        (("--note", "x"), "name jobs, or say which"),
        (("1", "--fault", "TIMEOUT", "--note", "x"), "not both"),
    ],
)
def test_a_dismissal_that_is_none_is_one_line(seawall, words, said):
    some(URL)
    line = seawall("dismiss", *words, "--url", URL, expect=2)
    assert said in line
    assert line.count("\n") == 1
