"""Jobs on pages: what one came to, whether it can be sent again, all that match; who shares a look."""

import asyncio
import json
import re

import pytest

from seawall.artifacts import keep
from seawall.errors import StoreUnavailableError
from seawall.finding import MOST_COUNTED, counted_failed, newest_of
from seawall.model import Lane, Outcome
from seawall.store import NewJob, Scope, Wanted
from seawall.web import outputs
from seawall.web.pages import acting
from tests.support.ledger import ended
from tests.web.looking import HTML, Person

SECRET = "sk-" + "abcdefghijklmnop1234567890"


def succeeded(world, output):
    job = world.job(None)
    world.end(job, output=output)
    return job


def counting(world, monkeypatch, *verbs):
    """Which of the store's verbs are asked, in order."""
    asked = []
    for verb in verbs:
        real = getattr(world.store, verb)

        def count(*args, verb=verb, real=real, **how):
            asked.append(verb)
            return real(*args, **how)

        monkeypatch.setattr(world.store, verb, count)
    return asked


# --- what it came to ------------------------------------------------------------------------------


@pytest.fixture
def with_artifacts(make_world, tmp_path):
    made = make_world(artifacts_url=f"file://{tmp_path}/kept", inline_bytes=100)
    made.house.glances.fresh_seconds = 0
    return made


def kept_elsewhere(world, content):
    return succeeded(world, keep(json.dumps(content), world.app.artifacts, 100))


def test_a_result_that_is_kept_elsewhere_is_fetched_once(with_artifacts, monkeypatch):
    world = with_artifacts
    job = kept_elsewhere(world, {"text": "x" * 200})
    fetched = []
    real = world.app.artifacts.get
    monkeypatch.setattr(world.app.artifacts, "get", lambda at: fetched.append(at) or real(at))
    operator = Person(world)

    for _ in range(3):
        assert "x" * 200 in operator.sees(f"/jobs/{job}")

    assert len(fetched) == 1


def test_a_result_that_cannot_be_read_is_told_of_on_its_page(with_artifacts, tmp_path, monkeypatch):
    world = with_artifacts
    job = kept_elsewhere(world, {"text": "x" * 200})
    for path in (tmp_path / "kept").rglob("*"):
        if path.is_file():
            path.unlink()
    asked = []
    real = world.app.artifacts.get
    monkeypatch.setattr(world.app.artifacts, "get", lambda at: asked.append(at) or real(at))
    operator = Person(world)

    for _ in range(3):
        shown = operator.reads(f"/jobs/{job}")
        assert "It is kept elsewhere and cannot be read: artifact" in shown
        assert "is not there" in shown
    assert len(asked) == 1, "nor is it asked for on every refresh"
    answer = world.get(f"/api/jobs/{job}/result")
    assert answer.status_code == 503
    assert answer.json()["code"] == "artifact_unavailable"


def test_without_artifacts_here_the_page_says_so(world):
    job = succeeded(world, '{"$seawall.artifact":{"sha256":"' + "ab" * 32 + '","bytes":7000}}')

    assert "artifacts_url is not set" in Person(world).reads(f"/jobs/{job}")


def test_a_large_result_is_told_by_its_size_and_address_and_not_fetched(world):
    size = outputs.LARGEST_SHOWN_BYTES + 1
    job = succeeded(world, f'{{"$seawall.artifact":{{"sha256":"{"ab" * 32}","bytes":{size}}}}}')

    shown = Person(world).reads(f"/jobs/{job}")

    assert f"{size:,} bytes" in shown
    assert "ab" * 32 in shown


def test_what_an_upstream_said_is_sieved_before_it_is_cut(world, monkeypatch):
    """Half a secret at the cut is known to nobody as one."""
    long = "x " * 9_990 + SECRET
    job = world.job(None, task="fails", arguments="{}")
    world.end(job, Outcome.FAILED, raw_output=long)

    text = Person(world).sees(f"/jobs/{job}")

    assert "sk-abcd" not in text
    assert "What the upstream said" in text


# --- sending it again -----------------------------------------------------------------------------


def test_an_operator_is_told_what_speaks_against_sending_somebodys_job_again(world):
    job = world.failed("ann", arguments='{"what":"gone"}')
    operator = Person(world)
    text = operator.sees(f"/jobs/{job}")

    assert re.search(r"<button[^>]* disabled[^>]*>Retry", text)
    assert "the source is gone" in text
    assert not re.search(r">Redrive</button>", text), "no button does it at once"
    question = text.partition("Redrive all the same …")[2]
    assert "the source is gone" in question.partition("</details>")[0]
    told = operator.presses(f"/jobs/{job}", f"/dead/letters/{job}/redrive")
    assert told == (f"Job {job} was redriven.", True)


def test_an_operator_redrives_somebodys_job_where_nothing_speaks_against_it(world):
    job = world.failed("ann")

    text = Person(world).sees(f"/jobs/{job}")
    assert re.search(r">Redrive</button>", text)
    assert "all the same" not in text


def test_an_owner_and_a_reader_are_told_no_commands(world):
    job = world.failed("ann")

    assert "seawall redrive" in Person(world).reads(f"/jobs/{job}")
    for role in ("owner", "read-only", "ann's reader"):
        assert "seawall redrive" not in Person(world, role).reads(f"/jobs/{job}"), role


# --- one look for all -----------------------------------------------------------------------------


def test_twenty_people_on_one_job_cost_one_look(make_world, monkeypatch):
    from seawall import access

    world = make_world()
    world.house.glances.fresh_seconds = 3_600.0
    job = world.failed("ann")
    tokens = [access.made(world.store, scope="operator", owner=f"o{n}")[0] for n in range(20)]
    asked = counting(world, monkeypatch, "jobs", "attempts", "letters_of", "children")
    pages = []
    for token in tokens:
        headers = {**HTML, "authorization": f"Bearer {token}"}
        pages.append(world.client.get(f"/jobs/{job}", headers=headers).text)

    assert all("Redrive</button>" in text for text in pages)
    assert asked.count("attempts") <= 2
    assert asked.count("children") == 1


def test_what_hangs_on_who_looks_is_not_shared(make_world):
    world = make_world()
    world.house.glances.fresh_seconds = 3_600.0
    job = world.failed("ann")
    path = f"/jobs/{job}"

    shown = {role: world.get(path, role, headers=HTML).text for role in ("operator", "owner")}
    shown["read-only"] = world.get(path, "read-only", headers=HTML).text

    assert "Redrive</button>" in shown["operator"]
    assert 'data-act="retry">Retry</button>' in shown["owner"]
    assert "Redrive</button>" not in shown["read-only"]
    assert "Retry</button>" not in shown["read-only"]
    assert world.get(path, "other", headers=HTML).status_code == 404


def test_many_tokens_in_use_are_looked_at_together_and_a_revoked_one_is_found(
    make_world, monkeypatch
):
    from seawall import access
    from seawall.web import access as module

    world = make_world()
    made = [access.made(world.store, scope="operator") for _ in range(20)]
    headers = [{**HTML, "authorization": f"Bearer {word}"} for word, _ in made]
    ask = [lambda h=h: world.client.get("/jobs", headers=h).status_code for h in headers]
    assert {each() for each in ask} == {200}
    asked = counting(world, monkeypatch, "access", "accesses", "note_access")
    real, skipped = module.time.monotonic, [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: real() + skipped[0])

    skipped[0] = module.BELIEVED_SECONDS + 0.1
    world.store.revoke_access(made[3][1].id)
    answers = [each() for each in ask]

    assert answers[3] == 303, "to where one signs in"
    assert answers.count(200) == 19
    assert asked.count("accesses") <= 3
    assert asked.count("access") == 1, "of the revoked one alone"
    assert "note_access" not in asked


# --- all that match -------------------------------------------------------------------------------


def test_a_page_that_asks_holds_still(world):
    job = world.failed(None)
    world.job(None)
    world.run(name="r")
    operator = Person(world)

    for path in ("/jobs/act?do=cancel&task=add", f"/dead/letters/{job}", "/runs/1/cancel"):
        assert "data-live" not in operator.sees(path), path
    assert "data-live" in operator.sees("/jobs")


def test_the_count_is_looked_at_once_for_all_who_ask(make_world, monkeypatch):
    world = make_world()
    world.house.glances.fresh_seconds = 3_600.0
    world.failed()
    asked = counting(world, monkeypatch, "letters_of")

    for _ in range(5):
        assert world.get("/jobs/act?do=retry&task=fails", headers=HTML).status_code == 200

    assert len(asked) == 1


def test_counting_what_would_be_sent_again_is_bounded(world, monkeypatch):
    lane = Lane(task="fails")
    for _ in range(3):
        world.store.enqueue([NewJob(lane=lane, arguments="{}")] * 1_000)
        claims = world.store.claim(Wanted("w1", None, ["fails"], 1_000, 60))
        world.store.settle([ended(claim.token, Outcome.FAILED) for claim in claims])
    asked = counting(world, monkeypatch, "letters_of")

    assert str(counted_failed(world.store, {"task": "fails"}, most=1_500)) == "1,500 or more"

    assert len(asked) == 2
    assert MOST_COUNTED <= 10_000


@pytest.mark.parametrize("do", ["cancel", "retry"])
def test_what_came_after_the_count_is_left_alone(world, do):
    make = world.job if do == "cancel" else world.failed
    jobs = [make(None) for _ in range(3)]
    newest = newest_of(world.store)
    late = make(None)
    before = world.store.jobs([late])[late].state
    operator = Person(world)
    task = "add" if do == "cancel" else "fails"

    told = operator.sends("/jobs/act", csrf=operator.csrf(), do=do, task=task, newest=str(newest))

    assert told[1]
    assert "3 jobs" in told[0]
    states = {job.state for job in world.store.jobs(jobs).values()}
    assert states == {"cancelled" if do == "cancel" else "queued"}
    assert world.store.jobs([late])[late].state == before


@pytest.mark.parametrize("do", ["cancel", "retry"])
def test_more_than_is_done_at_a_time_is_said(world, do, monkeypatch):
    monkeypatch.setattr(acting, "MOST_AT_ONCE", 2)
    for _ in range(3):
        (world.job if do == "cancel" else world.failed)(None)
    task = "add" if do == "cancel" else "fails"
    operator = Person(world)

    line, well = operator.sends("/jobs/act", csrf=operator.csrf(), do=do, task=task, newest="99")

    assert well
    assert line.startswith("2 jobs")
    assert "There are more: do it again for the rest." in line


@pytest.mark.parametrize("newest", [{}, {"newest": "x"}, {"newest": "9" * 5_000}])
def test_nothing_is_done_about_what_was_not_counted(world, newest):
    job = world.job(None)
    form = {"do": "cancel", "task": "add", **newest}

    answer = world.ask("operator", "POST", "/jobs/act", headers=HTML, data=form)

    assert answer.status_code == 422
    assert world.store.jobs([job])[job].state == "queued"


# --- what goes wrong ------------------------------------------------------------------------------

PAGES = ("/", "/jobs", "/jobs/1", "/dead", "/runs", "/upstreams", "/policies", "/fleet")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_of_a_store_that_does_not_answer_says_so_in_plain_words(world, monkeypatch, path):
    world.job(None)
    world.house.glances.fresh_seconds = 0
    assert world.get(path, headers=HTML).status_code == 200

    def away(*_, **__):
        raise StoreUnavailableError("postgresql://ann:hunter2@db.internal/jobs: no answer")

    for verb in ("now", "jobs", "backlog", "watched", "find", "letter_groups", "runs"):
        monkeypatch.setattr(world.store, verb, away)
    answer = world.get(path, headers=HTML)

    assert answer.status_code == 503
    assert answer.headers["content-type"].startswith("text/html")
    assert "the store does not answer" in answer.text
    assert "Wait a moment, then reload this page" in answer.text
    assert "db.internal" not in answer.text
    assert answer.headers["retry-after"] == "1"


def test_what_nobody_foresaw_is_a_page_for_people_and_a_problem_for_programs(world, monkeypatch):
    def breaks(*_, **__):
        raise RuntimeError("password=hunter2 in /srv/app/secret.py")

    monkeypatch.setattr(world.store, "find", breaks)
    shown = world.get("/jobs", headers=HTML)

    assert shown.status_code == 500
    assert shown.headers["content-type"].startswith("text/html")
    assert shown.headers["x-request-id"] in shown.text
    assert "hunter2" not in shown.text
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    program = world.get("/jobs")
    assert program.headers["content-type"] == "application/problem+json"
    assert "hunter2" not in program.text


def test_a_page_of_errors_that_is_broken_itself_is_a_bare_answer(world, monkeypatch):
    def breaks(*_, **__):
        raise RuntimeError("hunter2")

    monkeypatch.setattr(world.store, "find", breaks)
    monkeypatch.setattr(world.api.state, "wrong", breaks)
    answer = world.get("/jobs", headers=HTML)

    assert answer.status_code == 500
    assert answer.json()["status"] == 500


@pytest.mark.parametrize("length", ["99999999", "9" * 5_000])
def test_a_form_that_is_too_large_is_told_as_a_page(world, length):
    answer = world.post("/dead/dismiss", headers={**HTML, "content-length": length}, content=b"x")

    assert answer.status_code == 413
    assert answer.headers["content-type"].startswith("text/html")
    assert "larger than" in answer.text


def test_another_name_of_the_server_is_told_as_a_page(make_world):
    world = make_world(open_to_anybody=True)

    answer = world.client.get("/jobs", headers={**HTML, "host": "evil.example"})

    assert answer.status_code == 421
    assert "Ask for this page as localhost" in answer.text


# --- queues ---------------------------------------------------------------------------------------


def test_items_of_a_stopped_run_are_counted_apart(world):
    def one(item: int) -> int:
        return item

    run = world.app.pipeline("reports", [one]).run(range(5), name="nightly")
    operator = Person(world)
    assert "at work" in operator.reads("/fleet").replace("nobody serves it", "at work")
    run.pause("to look at it")
    shown = operator.reads("/fleet")

    assert f"5 all held with run {run.id}" in shown
    assert f"run {run.id}: to look at it" in shown
    assert "5 held with their runs" in operator.reads("/")
    assert any(hold.scope is Scope.RUN for hold in world.store.holds())
    world.job(None)
    assert f"6 5 held with run {run.id}" in operator.reads("/fleet")


def test_outputs_that_were_fetched_are_bounded(with_artifacts):
    world = with_artifacts
    texts = [
        keep(json.dumps({"n": n, "x": "x" * 100}), world.app.artifacts, 100)
        for n in range(outputs.MOST_KEPT + 5)
    ]

    async def ask():
        return [await world.house.outputs.ask(text) for text in texts]

    found = asyncio.run(ask())

    assert all(each.text is not None for each in found)
    assert len(world.house.outputs._known) == outputs.MOST_KEPT
