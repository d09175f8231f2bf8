"""The dashboard without a browser: who sees what, what forms do, what pages may load."""

import hashlib
import html
import itertools
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import seawall.web
from seawall import access
from seawall.model import Outcome
from tests.web.conftest import ROLES, World
from tests.web.looking import HOSTILE, HTML, Elements
from tests.web.page_routes import FORMS, NAMES, PAGES, QUERIES

STATIC = Path(seawall.web.__file__).parent / "static"


@pytest.fixture(scope="module")
def shared_world():
    made = World("sqlite://")
    made.house.glances.fresh_seconds = 0
    yield made
    made.close()


@pytest.fixture
def world(make_world):
    made = make_world()
    made.house.glances.fresh_seconds = 0
    return made


def page(world, path, role="operator", **how):
    answer = world.ask(role, "GET", path, headers=HTML, **how)
    assert answer.status_code == 200, answer.text
    return answer.text


def send(world, path, role="operator", **fields):
    return world.ask(role, "POST", path, headers=HTML, data=fields)


def told(world, answer):
    """What the page says after something was done."""
    assert answer.status_code == 303, answer.text
    shown = world.client.get(answer.headers["location"], headers=world.headers("operator") | HTML)
    found = re.search(r'class="said( wrong)?" role="\w+">([^<]*)<', shown.text)
    return found and found[2]


# --- who ------------------------------------------------------------------------------------------

NUMBERS = itertools.count()
CASES = [
    pytest.param(method, route, who, status, id=f"{who}: {method} {route}")
    for (method, route), row in PAGES.items()
    for who, status in zip(ROLES, row, strict=True)
]


@pytest.mark.parametrize(("method", "route", "who", "status"), CASES)
def test_who_sees_and_does_what(shared_world, method, route, who, status):
    job = shared_world.failed()
    group = shared_world.app.dead_letter(job).fingerprint
    form = {
        name: value.format(job=job, group=group) for name, value in FORMS.get(route, {}).items()
    }
    path = route.replace("{fingerprint}", group).replace("{name:path}", "mail")
    path = path.replace("{name}", NAMES.get(route, ""))
    if method == "GET":
        path += QUERIES.get(route, "")
    if "{job_id:int}" in path:
        job = shared_world.job() if path.endswith("cancel") else job
        path = path.replace("{job_id:int}", str(job))
    if "{run_id:int}" in path:
        run = shared_world.run(name=f"page {next(NUMBERS)}")
        path = path.replace("{run_id:int}", str(run))
    if path.startswith("/upstreams/"):
        shared_world.app.upstreams.hold("mail")

    before = shared_world.store.jobs([job])[job], shared_world.store.letters_of([job])
    how = {"data": form} if form and method == "POST" else {}
    answer = shared_world.ask(who, method, path, headers=HTML, **how)

    assert answer.status_code == status, answer.text
    if status != 303 or who in ("nobody", "other"):
        after = shared_world.store.jobs([job])[job], shared_world.store.letters_of([job])
        assert after == before, "what is refused changes nothing"
    if who == "nobody" and status == 303:
        assert answer.headers["location"].startswith("/login")
    if status >= 400:
        assert answer.headers["content-type"].startswith("text/html")
        assert answer.headers["x-request-id"] in answer.text


def test_whoever_signs_in_is_led_back_to_where_he_was_going(world):
    away = world.client.get("/jobs?state=failed&task=add", headers=HTML)
    assert away.headers["location"] == "/login?next=/jobs%3Fstate%3Dfailed%26task%3Dadd"
    form = world.client.get(away.headers["location"], headers=HTML).text
    back = re.search(r'name="next" value="([^"]*)"', form)[1].replace("&amp;", "&")

    done = world.client.post("/login", data={"token": world.words["owner"], "next": back})

    assert done.headers["location"] == "/jobs?state=failed&task=add"
    assert world.client.get(done.headers["location"], headers=HTML).status_code == 200


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil", "x", "/a\nb"])
def test_nobody_is_led_to_another_site(world, to):
    done = world.client.post("/login", data={"token": world.words["owner"], "next": to})

    assert done.headers["location"] == "/"


def test_an_owner_sees_only_his_own_on_every_page(world):
    for owner in ("ann", "bob"):
        world.failed(owner, arguments=f'{{"what":"thing of {owner}"}}')
    world.app.upstreams.hold("api", why="a secret affair")

    for path in ("/", "/jobs", "/dead", "/jobs?owner=bob", "/dead?owner=ann"):
        text = page(world, path, "owner")
        assert "bob" not in text.replace('value="bob"', ""), path
        assert "a secret affair" not in text
    assert world.ask("owner", "GET", "/jobs/2", headers=HTML).status_code == 404


def test_a_held_upstream_is_told_of_to_owners_whose_jobs_wait_for_it(world):
    world.app.tasks["fails"].using(owner="ann").enqueue("x")
    world.app.upstreams.hold("api", seconds=600)

    assert "api is held by hand" in page(world, "/", "owner")
    assert "api is held by hand" not in page(world, "/", "other")
    assert "1 job waits" in page(world, "/", "operator")


def test_a_form_without_its_word_changes_nothing(world):
    job = world.failed("ann")
    world.client.post("/login", data={"token": world.words["owner"]})

    refused = world.client.post(f"/jobs/{job}/retry", data={}, headers=HTML)
    assert refused.status_code == 403
    assert world.store.jobs([job])[job].state == "failed"

    word = re.search(r'name="csrf" value="(\w+)"', world.client.get(f"/jobs/{job}").text)[1]
    done = world.client.post(f"/jobs/{job}/retry", data={"csrf": word}, headers=HTML)
    assert done.status_code == 303
    assert world.store.jobs([job])[job].state == "queued"


# --- what they show and do ------------------------------------------------------------------------


def test_jobs_are_found_by_what_one_types(world):
    world.job(task="add")
    failed = world.failed(task="fails")

    assert f"/jobs/{failed}" in page(world, "/jobs?state=failed")
    assert "No job matches" in page(world, "/jobs?task=nothing")
    assert "Nothing can match" in page(world, "/jobs?state=strange")
    assert "Nothing can match" in page(world, "/jobs?run=x")
    assert "Nothing can match" in page(world, "/jobs?after=x")


def test_a_long_list_goes_on(world):
    for _ in range(55):
        world.job()

    first = page(world, "/jobs")
    more = re.search(r'href="(/jobs\?after=[^"]+)" rel="next"', first)[1]
    second = page(world, more)

    assert 'href="/jobs/55"' in first
    assert 'href="/jobs/5"' not in first
    assert 'href="/jobs/5"' in second


def test_a_job_tells_why_and_is_retried(world):
    job = world.failed(None)
    text = page(world, f"/jobs/{job}")

    assert "It failed" in text
    assert 'data-act="retry">Retry' in text
    assert f"Job {job} is retried" in told(world, send(world, f"/jobs/{job}/retry"))
    assert world.store.jobs([job])[job].state == "queued"


def test_a_job_leads_to_what_it_asked_for_and_back(world):
    parent = world.job("ann")
    child, his = world.job("ann", parent=parent), world.job("bob", parent=parent)

    text = page(world, f"/jobs/{parent}")
    assert f'href="/jobs/{child}"' in text
    assert f'href="/jobs/{his}"' in text
    assert f'href="/jobs/{his}"' not in page(world, f"/jobs/{parent}", "owner")
    assert f'<a href="/jobs/{parent}">' in page(world, f"/jobs/{child}")
    assert f"/jobs/{parent}" not in page(world, f"/jobs/{his}", "other")


def test_a_job_leads_to_its_trace(make_world):
    world = make_world(trace_url="https://traces.example/trace/{trace_id}")
    job = world.job(None, trace=f"00-{'ab' * 16}-{'cd' * 8}-01")

    assert f'href="https://traces.example/trace/{"ab" * 16}"' in page(world, f"/jobs/{job}")
    assert "<dt>Trace</dt>" not in page(world, f"/jobs/{world.job(None)}")


def test_groups_tell_whether_they_are_new_or_came_back(world):
    job = world.failed()
    assert ">new<" in page(world, "/dead")
    assert 'class="f-bad"' in page(world, "/dead"), "the last hour of its sparkline"
    world.app.redrive(job)
    world.end(job, Outcome.FAILED)

    assert ">came back<" in page(world, "/dead")
    assert "1 failed again after a redrive" in page(world, "/dead")


def test_retry_is_disabled_with_the_reason_where_the_source_is_gone(world):
    job = world.failed(None, arguments='{"what":"gone"}')

    text = page(world, f"/jobs/{job}")

    assert re.search(r"<button[^>]* disabled[^>]*>Retry", text)
    assert "the source is gone" in text
    assert "the source is gone" in told(world, send(world, f"/jobs/{job}/retry"))


def test_a_job_is_cancelled_once(world):
    job = world.job(None)

    assert "was cancelled" in told(world, send(world, f"/jobs/{job}/cancel"))
    assert "is cancelled" in told(world, send(world, f"/jobs/{job}/cancel"))


def test_all_that_match_are_cancelled_once_the_count_was_said(world):
    jobs = [world.job(None, task="add") for _ in range(3)]
    other = world.job(None, task="private")

    asked = page(world, "/jobs/act?do=cancel&task=add")
    assert "Cancel 3 jobs?" in asked
    assert {world.store.jobs([job])[job].state for job in jobs} == {"queued"}
    late = world.job(None, task="add")
    form = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', asked))
    assert "3 jobs cancelled" in told(world, send(world, "/jobs/act", **form))
    assert world.store.jobs([late])[late].state == "queued", "it came after they were counted"
    assert {world.store.jobs([job])[job].state for job in jobs} == {"cancelled"}
    assert world.store.jobs([other])[other].state == "queued"
    world.store.cancel([late])
    assert "disabled" in page(world, "/jobs/act?do=cancel&task=add")


def test_all_that_match_are_sent_again_by_operators_only(world):
    jobs = [world.failed() for _ in range(3)]

    assert "Redrive 3 jobs?" in page(world, "/jobs/act?do=retry&task=fails")
    owner = world.ask("owner", "GET", "/jobs/act?do=retry&task=fails", headers=HTML)
    assert owner.status_code == 403
    form = {"do": "retry", "task": "fails", "newest": str(jobs[-1])}
    assert "3 jobs redriven" in told(world, send(world, "/jobs/act", **form))
    assert {world.store.jobs([job])[job].state for job in jobs} == {"queued"}


def test_an_owner_cancels_by_filter_only_what_is_his(world):
    hers, his = world.job("ann"), world.job("bob")

    assert "Cancel 1 job?" in page(world, "/jobs/act?do=cancel&task=add", "owner")
    theirs = send(
        world, "/jobs/act", "owner", do="cancel", task="add", owner="bob", newest=str(his)
    )
    assert theirs.status_code == 422, "neither his nor, instead, hers"
    assert {job.state for job in world.store.jobs([hers, his]).values()} == {"queued"}

    send(world, "/jobs/act", "owner", do="cancel", task="add", newest=str(his))

    assert world.store.jobs([hers])[hers].state == "cancelled"
    assert world.store.jobs([his])[his].state == "queued"


@pytest.mark.parametrize("query", ["do=cancel", "do=cancel&state=failed", "do=retry&state=queued"])
def test_what_cannot_be_done_to_all_says_so(world, query):
    answer = world.ask("operator", "GET", f"/jobs/act?{query}", headers=HTML)

    assert answer.status_code == 422
    assert "<h1>" in answer.text


def test_what_was_done_is_said_once(world):
    job = world.job(None)
    away = send(world, f"/jobs/{job}/cancel")

    assert "was cancelled." in page(world, away.headers["location"])
    assert 'class="said' not in page(world, away.headers["location"])


def test_a_group_is_sent_again_after_it_was_said_what_would_happen(world):
    jobs = [world.failed() for _ in range(3)]
    group = world.app.dead_letter(jobs[0]).fingerprint
    assert "3 jobs" in page(world, "/dead")
    assert f"/jobs/{jobs[0]}" in page(world, f"/dead/groups/{group}")

    plan = send(world, "/dead/redrive", group=group, rate="10")
    assert plan.status_code == 200
    assert "3 jobs would be redriven" in plan.text
    assert {world.store.jobs([job])[job].state for job in jobs} == {"failed"}

    assert "3 jobs redriven" in told(
        world, send(world, "/dead/redrive", group=group, rate="10", really="1")
    )
    assert {world.store.jobs([job])[job].state for job in jobs} == {"queued"}


def test_an_input_is_edited_and_what_looks_like_a_secret_stays(world):
    job = world.failed(None, "fails", '{"what":"old"}')
    text = page(world, f"/dead/letters/{job}")
    assert "&#34;what&#34;: &#34;old&#34;" in text

    for typed, line in (("{", "no JSON"), ("[1]", "JSON object"), ('{"not": 1}', "not")):
        refused = send(world, f"/dead/letters/{job}/redrive", arguments=typed)
        assert refused.status_code == 422
        assert line in refused.text
        assert f">{html.escape(typed)}</textarea>".replace("&quot;", "&#34;") in refused.text
    assert world.store.jobs([job])[job].state == "failed"
    edited = send(world, f"/dead/letters/{job}/redrive", arguments='{"what": "new"}')

    assert "as you edited it" in told(world, edited)
    assert "new" in world.store.arguments(job)


def test_secrets_in_arguments_are_neither_shown_nor_offered_for_editing(world):
    job = world.failed(None, "fails", '{"what":"x","api_key":"sk-abcdefghijklmnop1234567890"}')

    for path in (f"/jobs/{job}", f"/dead/letters/{job}"):
        assert "sk-abcdefghij" not in page(world, path)
    assert "api_key" in page(world, f"/dead/letters/{job}")


def test_letters_are_dismissed_with_a_note_and_opened_again(world):
    job = world.failed()

    assert "Say why" in told(world, send(world, "/dead/dismiss", job=str(job)))
    assert "1 dead letter dismissed" in told(
        world, send(world, "/dead/dismiss", job=str(job), note="a test file")
    )
    assert world.app.dead_letter(job).note == "a test file"
    assert "opened again" in told(world, send(world, "/dead/undismiss", job=str(job)))
    assert world.app.dead_letter(job).state == "open"


def test_empty_pages_teach(world):
    assert "seawall enqueue" in page(world, "/")
    assert "seawall enqueue" in page(world, "/jobs")
    assert "Nothing waits for you" in page(world, "/dead")


# --- what they may load ---------------------------------------------------------------------------


def test_whatever_comes_from_others_is_escaped(world):
    job = world.job(HOSTILE, arguments=json.dumps({"a": HOSTILE}), tags=(HOSTILE,))
    failed = world.failed(HOSTILE)
    group = world.app.dead_letter(failed).fingerprint
    paths = ["/", "/jobs", f"/jobs/{job}", f"/jobs/{failed}", "/dead", f"/dead/groups/{group}"]
    paths += [f"/dead/letters/{failed}", "/jobs?task=%22%3E%3Cscript%3E", "/dead?task=%3Cscript%3E"]

    for path in paths:
        found = Elements(page(world, path)).found
        scripts = [attrs for tag, attrs in found if tag == "script"]
        assert all(attrs.get("src", "").startswith("/static/") for attrs in scripts), path
        assert not [attrs for tag, attrs in found if tag == "img"], path
        assert not [1 for _, attrs in found if any(name.startswith("on") for name in attrs)], path


def test_pages_load_nothing_from_elsewhere_and_hold_no_script_or_style(world):
    world.failed()
    for path in ("/", "/jobs", "/jobs/1", "/dead", "/dead/letters/1", "/login"):
        answer = world.ask("operator", "GET", path, headers=HTML)
        for tag, attrs in Elements(answer.text).found:
            assert "style" not in attrs, (path, tag)
            for name in ("src", "href", "action", "hx-get"):
                assert re.match(r"[/#]", attrs.get(name) or "/"), (path, tag, attrs)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy


def test_files_are_kept_by_browsers_for_ever_and_named_by_their_content(world):
    for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', page(world, "/")):
        answer = world.client.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert hashlib.sha256(answer.content).hexdigest().startswith(address.rpartition("=")[2])


def test_what_others_wrote_is_unchanged():
    known = {
        "htmx.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
        "uplot.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
        "uplot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    }
    for name, digest in known.items():
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == digest, name


def test_a_program_is_told_of_problems_as_json_and_a_person_as_a_page(world):
    assert world.get("/jobs/99").json()["status"] == 404
    answer = world.ask("operator", "GET", "/jobs/99", headers=HTML)
    assert answer.status_code == 404
    assert "there is no job 99" in answer.text
    assert "overview" in answer.text


# --- one look for all -----------------------------------------------------------------------------


def test_a_hundred_who_look_at_once_cost_one_look(make_world, monkeypatch):
    world = make_world()
    world.house.glances.fresh_seconds = 3_600.0
    world.end(world.job(), Outcome.SUCCEEDED)
    tokens = [access.made(world.store, scope="operator")[0] for _ in range(20)]
    looks = []
    real = world.store.page
    monkeypatch.setattr(world.app.store, "page", lambda *a, **k: looks.append(1) or real(*a, **k))

    def ask(number):
        headers = {**HTML, "authorization": f"Bearer {tokens[number % len(tokens)]}"}
        return world.client.get("/jobs", headers=headers).status_code

    with ThreadPoolExecutor(20) as people:
        answers = list(people.map(ask, range(100)))

    assert answers == [200] * 100
    assert len(looks) == 1
