"""Dead letters on pages: what a form means and does not mean, what is refused and comes back."""

import html
import re

import pytest

from seawall import FaultError
from seawall.model import Lane, Outcome
from seawall.redriving import CANARY_SECONDS
from seawall.store import NewJob, Wanted
from seawall.web.pages.letters import NOTHING_NAMED
from tests.support.ledger import ended
from tests.web.looking import HTML, Person, words


def states(world, *jobs):
    return [str(world.app.dead_letter(job).state) for job in jobs]


def send(world, path, role="operator", **fields):
    return world.ask(role, "POST", path, headers=HTML, data=fields)


# --- what a form means ----------------------------------------------------------------------------

NOBODYS = [
    ({"owner": "bob"}, "You see only what is yours"),
    ({"job": "abc"}, "expected its number"),
    ({"job": ""}, "expected its number"),
    ({"job": "9" * 5_000}, "expected its number"),
    ({"job": "-1"}, "expected its number"),
    ({"job": "\N{SUPERSCRIPT TWO}"}, "expected its number"),
    ({"run": "x"}, "expected its number"),
    ({"fault": "NONE"}, "There is no such fault"),
    ({"task": "\0"}, "has signs that no name has"),
    ({"state": "strange"}, NOTHING_NAMED),
    ({"state": "open"}, NOTHING_NAMED),
    ({}, NOTHING_NAMED),
]


@pytest.mark.parametrize("verb", ["dismiss", "undismiss"])
@pytest.mark.parametrize(("fields", "line"), NOBODYS, ids=lambda each: f"{each!r:.40}")
def test_a_form_that_names_nothing_there_can_be_changes_nothing(world, verb, fields, line):
    jobs = [world.failed("ann") for _ in range(2)]
    if verb == "undismiss":
        world.store.dismiss(jobs, note="a test")
    before = states(world, *jobs)
    ann = Person(world, "owner")

    told, well = ann.sends(f"/dead/{verb}", csrf=ann.csrf(), note="x", **fields)

    assert not well
    assert line in told
    assert states(world, *jobs) == before


def test_an_owner_dismisses_his_own_of_a_group_and_nobody_elses(world):
    hers, his = world.failed("ann"), world.failed("bob")
    group = world.app.dead_letter(hers).fingerprint
    ann = Person(world, "owner")

    told = ann.presses(f"/dead/groups/{group}", "/dead/dismiss", group=group, note="x")

    assert told == ("1 dead letter dismissed.", True)
    assert states(world, hers, his) == ["dismissed", "open"]
    answer = send(world, "/dead/dismiss", "owner", job=str(his), note="x")
    assert answer.status_code == 404
    assert states(world, his) == ["open"]


# --- filters --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/dead?run=abc", "/dead?fault=NONE", "/dead?state=strange", "/dead?task=%00",
        "/dead/groups/{group}?after=x", "/dead/groups/{group}?run=x", "/dead/groups/{group}?fault=x",
        "/jobs?run=abc", "/jobs?fault=NONE", "/jobs?state=strange", "/jobs?after=x",
        "/runs?after=x",
    ],
)  # fmt: skip
def test_a_filter_that_nothing_can_match_is_told_in_the_place_of_the_list(world, path):
    group = world.app.dead_letter(world.failed()).fingerprint
    operator = Person(world)
    path = path.format(group=group)

    shown = operator.sees(path)
    assert "Nothing can match" in shown
    part = world.client.get(path, headers={**HTML, "hx-request": "true"})
    assert part.status_code == 200, "a part of a page that is refused is not put into it"
    assert "Nothing can match" in part.text


def test_an_owner_who_names_another_is_shown_neither_his_nor_all(world):
    world.failed("bob", arguments='{"what":"thing of bob"}')
    world.failed("ann", arguments='{"what":"thing of ann"}')
    ann = Person(world, "owner")

    for path in ("/jobs?owner=bob", "/dead?owner=bob"):
        assert "You see only what is yours" in ann.reads(path)
        assert "thing of" not in ann.reads(path)


# --- editing --------------------------------------------------------------------------------------


def refused(world, job, **fields):
    answer = send(world, f"/dead/letters/{job}/redrive", **fields)
    assert answer.status_code == 422, answer.status_code
    assert world.store.jobs([job])[job].state == "failed"
    typed = re.search(r'<textarea name="arguments"[^>]*>(.*?)</textarea>', answer.text, re.DOTALL)
    said = re.search(r'class="said wrong"[^>]*>([^<]*)<', answer.text)
    return html.unescape(typed[1]), html.unescape(said[1])


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ('{"what": "a long story",', "no JSON"),
        ('["what"]', "JSON object"),
        ('{"what": 7}', "what"),
        ('{"nothing": 1}', "nothing"),
    ],
)
def test_a_form_that_is_refused_comes_back_as_it_was_typed(world, typed, line):
    job = world.failed(None)

    kept, said = refused(world, job, arguments=typed, from_start="1")

    assert kept == typed
    assert line in said


def test_what_was_not_edited_is_sent_as_it_was(world):
    job = world.failed(None, arguments='{"what":"a  b"}')
    text = Person(world).sees(f"/dead/letters/{job}")
    shown = html.unescape(re.search(r'<textarea name="arguments"[^>]*>(.*?)<', text, re.DOTALL)[1])
    mark = re.search(r'name="of" value="(\w+)"', text)[1]
    assert text.count("a  b") < 3, "the payload is sent once"

    browsers = shown.replace("\n", "\r\n")
    told = world.client.post(
        f"/dead/letters/{job}/redrive",
        data={"arguments": browsers, "of": mark, "csrf": Person(world).csrf()},
        headers=HTML,
    )

    assert told.status_code == 303
    assert world.store.arguments(job) == '{"what":"a  b"}'


def test_blanks_within_a_text_are_an_edit(world):
    job = world.failed(None, arguments='{"what":"a  b"}')
    mark = re.search(r'name="of" value="(\w+)"', Person(world).sees(f"/dead/letters/{job}"))[1]

    send(world, f"/dead/letters/{job}/redrive", arguments='{"what": "a b"}', of=mark)

    assert "a b" in world.store.arguments(job)


def test_whatever_may_be_a_payload_can_be_edited(world):
    """A quotation mark is three characters in a form, and so is each byte of other alphabets."""
    most = world.app.settings.payload_bytes
    job = world.failed(None)
    long = "\N{CYRILLIC SMALL LETTER ZHE}" * ((most - 100) // 2)

    sent = send(world, f"/dead/letters/{job}/redrive", arguments=f'{{"what": "{long}"}}')

    assert sent.status_code == 303
    assert long in world.store.arguments(job)


def test_an_owner_is_led_to_his_letter_and_dismisses_it_there(world):
    job = world.failed("ann")
    ann = Person(world, "owner")

    assert f'href="/dead/letters/{job}"' in ann.sees(f"/jobs/{job}")
    told = ann.presses(f"/dead/letters/{job}", "/dead/dismiss", job=str(job), note="a test")
    assert told == ("1 dead letter dismissed.", True)


# --- sending again --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"canary": "x"}, "canary: found 'x', expected a number"),
        ({"canary": "0.5"}, "expected 1 to 100"),
        ({"canary": "3", "canary_seconds": "0.5"}, "expected 1 to 600 seconds"),
        ({"canary": "3", "canary_seconds": "nan"}, "expected 1 to 600 seconds"),
        ({"rate": "-1"}, "expected above 0"),
        ({"rate": "nan"}, "expected above 0"),
        ({"fault": "NONE"}, "There is no such fault"),
    ],
)
def test_a_redrive_that_makes_no_sense_comes_back_as_it_was_filled_in(world, fields, line):
    job = world.failed()
    group = world.app.dead_letter(job).fingerprint
    how = {"canary": "", "rate": "", **fields}

    for really in ({}, {"really": "1"}):
        answer = send(world, "/dead/redrive", group=group, **how, **really)

        assert answer.status_code == 422
        assert line in html.unescape(answer.text)
        if "fault" not in fields:
            for name, value in fields.items():
                assert re.search(rf'name="{name}"[^>]* value="{re.escape(value)}"', answer.text), (
                    name
                )
        assert world.store.jobs([job])[job].state == "failed"


def test_a_redrive_of_nothing_in_particular_sends_nothing(world):
    job = world.failed()
    operator = Person(world)

    assert operator.sends("/dead/redrive", csrf=operator.csrf(), really="1") == (
        NOTHING_NAMED, False,
    )  # fmt: skip
    assert world.store.jobs([job])[job].state == "failed"


def test_how_long_canaries_may_take_is_asked_and_carried_on(world):
    group = world.app.dead_letter(world.failed()).fingerprint
    operator = Person(world)
    usual = f'name="canary_seconds" type="number" min="1" max="600" value="{CANARY_SECONDS:g}"'
    assert usual in operator.sees(f"/dead/groups/{group}")

    plan = send(world, "/dead/redrive", group=group, canary="1", canary_seconds="90")

    assert "within 90 s" in words(plan.text)
    assert re.search(r'type="hidden" name="canary_seconds" value="90', plan.text)


def test_a_canary_is_waited_for_in_threads_of_its_own(world, monkeypatch):
    group = world.app.dead_letter(world.failed()).fingerprint
    asked = []
    real = world.house.canaries.ask
    monkeypatch.setattr(
        world.house.canaries, "ask", lambda *a, **k: asked.append(1) or real(*a, **k)
    )

    send(world, "/dead/redrive", group=group, canary="1", canary_seconds="1")
    assert not asked
    send(world, "/dead/redrive", group=group, canary="1", canary_seconds="1", really="1")
    assert asked == [1]


# --- what groups tell -----------------------------------------------------------------------------


def test_stages_are_told_by_their_names(world):
    def fetch(item: int) -> int:
        return item

    def ask_model(item: int) -> int:
        raise FaultError("INVALID_INPUT", f"item {item}")

    pipeline = world.app.pipeline("papers", [fetch, ask_model])
    pipeline.run([1], name="n")
    (claim,) = world.store.claim(Wanted("w1", None, ["papers"], 1, 60))
    world.store.settle([ended(claim.token, Outcome.FAILED)])
    second = Lane(task="papers", stage=1)
    world.store.enqueue([NewJob(lane=second, arguments="{}")])
    (claim,) = world.store.claim(Wanted("w1", None, ["papers"], 1, 60))
    world.store.settle([ended(claim.token, Outcome.FAILED)])
    group = world.app.dead_letter(claim.token.job_id).fingerprint
    operator = Person(world)

    assert "ask_model" in operator.reads("/dead")
    assert "ask_model" in operator.reads(f"/dead/groups/{group}")
    assert "ask_model" in words(send(world, "/dead/redrive", group=group).text)
    for text in (operator.reads("/dead"), operator.reads(f"/dead/groups/{group}")):
        assert "stage 1" not in text
        assert "stage 0" not in text
    log = operator.reads(f"/jobs/{claim.token.job_id}").partition("Event log")[2]
    assert "stage ask_model" in log


def test_a_plain_task_is_at_no_stage_in_particular(world):
    job = world.failed()

    text = Person(world).reads(f"/jobs/{job}")
    assert "stage 0" not in text
    assert " at fails" not in Person(world).reads("/dead")


def test_a_group_shows_different_samples_and_the_versions_of_its_code(world):
    lane = Lane(task="fails")
    world.store.enqueue([NewJob(lane=lane, arguments="{}") for _ in range(3)])
    claims = world.store.claim(Wanted("w1", None, ["fails"], 3, 60))
    world.store.settle(
        [
            ended(claim.token, Outcome.FAILED, config=f"version-{at}")
            for at, claim in enumerate(claims)
        ]
    )
    group = world.app.dead_letter(claims[0].token.job_id).fingerprint
    operator = Person(world)

    shown = operator.reads(f"/dead/groups/{group}")
    assert "version-0" in shown
    assert "version-1" in operator.reads("/dead")
    common = operator.sees(f"/dead/groups/{group}").partition('id="letters"')[0]
    assert "no answer" in common
    assert re.search(r'<li><a href="/jobs/\d+">', common)
