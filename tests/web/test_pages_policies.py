"""Policies on pages: which there are, who goes by them, their waits, and what they would decide."""

import re

import pytest

from seawall import Policy
from seawall.decisions import presets
from seawall.decisions.rule import Rule
from tests.web.conftest import World
from tests.web.looking import Person, is_harmless, words


@pytest.fixture(scope="module")
def shared():
    """Tasks by a preset, by one of the application's own and by one that only a task has."""
    made = World("sqlite://")
    made.app.task(policy="llm-reports", name="by_preset")(lambda: None)
    own = Policy(name="gentle", max_attempts=3, rules=[Rule(on="TIMEOUT")], description="<b>Ours")
    made.app.task(policy=own, name="by_its_own")(lambda: None)
    other = Policy(name="default", max_attempts=2, rules=[Rule(on="TIMEOUT")])
    made.app.task(policy=other, name="by_another_default")(lambda: None)

    def fetch(item: int) -> int:
        return item

    def keep(item: int) -> int:
        return item

    made.app.pipeline("reports", [fetch, keep])
    yield made
    made.close()


@pytest.mark.parametrize("role", ["operator", "owner", "read-only", "ann's reader"])
def test_everybody_who_is_signed_in_sees_every_policy_and_who_goes_by_it(shared, role):
    person = Person(shared, role)
    shown = person.reads("/policies")

    for name in presets.names():
        assert name in shown
        person.sees(f"/policies/{name}")
    assert re.search(r"llm-reports .*?preset by_preset", shown)
    assert re.search(r"gentle <b>Ours 3 this application by_its_own", shown)
    assert "add; fails; private and 2 more" in shown
    assert "reports, fetch" in person.reads("/policies/default")
    assert "nobody here" in shown


def test_nobody_else_is_shown_one(shared):
    shared.client.cookies.clear()
    for path in ("/policies", "/policies/default"):
        answer = shared.client.get(path, headers={"accept": "text/html"})
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/login")


def test_one_shows_its_rules_in_words_and_pictures(shared):
    operator = Person(shared)
    shown = operator.reads("/policies/media-sync")

    assert "30 s, ×2 each time, equal jitter (half to all of it), at most 10 min" in shown
    assert "13 failures by this rule" in shown
    assert "which is loose" in shown  # its notes
    assert "fails at once" in shown
    text = operator.sees("/policies/media-sync")
    pictures = re.findall(r'<svg class="picture sized".*?</svg>', text, re.DOTALL)
    assert len(pictures) == 3
    assert "How long rule 1 of media-sync waits after each failure" in pictures[0]
    assert pictures[0].count("<title>") == 12
    assert "4 attempts in all" in operator.reads("/policies/llm-reports")


def test_two_of_the_same_name_are_told_apart_by_their_versions(shared):
    operator = Person(shared)
    found = set(re.findall(r'href="(/policies/default[^"]*)"', operator.sees("/policies")))

    assert len(found) == 2
    (other,) = found - {"/policies/default"}
    assert "by_another_default" in operator.reads(other)
    assert "by_another_default" not in operator.reads("/policies/default")
    shown = operator.reads(f"{other}&fault=TIMEOUT&attempt=2")
    assert "This was attempt 2 of 2." in shown
    assert operator.ask("/policies/default?version=none").status_code == 404


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        ("fault=TIMEOUT", "retry after 24 s – 36 s by rule"),
        ("fault=TIMEOUT&attempt=2", "retry after 96 s – 2 min 24 s"),
        ("fault=TIMEOUT&attempt=4", "fail its allowance is used up"),
        ("status=503", "retry after"),
        ("status=404", "fail trying again cannot help"),
        ("fault=RATE_LIMITED&retry_after=300", "The upstream asked for 5 min."),
        ("fault=INVALID_INPUT&status=&attempt=&retry_after=", "fail trying again cannot help"),
    ],
)
def test_it_tells_what_it_would_decide_and_why(shared, asked, verdict):
    shown = Person(shared).reads(f"/policies/llm-reports?{asked}")

    assert verdict in shown
    assert "of llm-reports" in shown


def test_the_same_question_is_answered_alike(shared):
    operator = Person(shared)
    asked = "/policies/ai-worker?fault=TIMEOUT"

    def answer():
        return re.search(r'id="told".*?</ul>', operator.sees(asked), re.DOTALL)[0]

    assert answer() == answer()


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ("fault=NONE", "fault: found 'NONE', expected one of those listed"),
        ("status=200", "Status: found 200, expected 400 to 599"),
        ("status=x", "Status: found 'x', expected a number"),
        ("status=nan", "Status: found nan"),
        ("fault=TIMEOUT&attempt=0", "Attempt: found 0, expected 1 to"),
        ("fault=TIMEOUT&attempt=1.5", "Attempt: found 1.5"),
        ("fault=TIMEOUT&retry_after=-1", "Retry-after: found -1"),
        ("fault=TIMEOUT&retry_after=inf", "Retry-after: found inf"),
    ],
)
def test_a_question_that_makes_no_sense_is_told_beside_it(shared, asked, line):
    assert line in Person(shared).reads(f"/policies/default?{asked}")


def test_what_others_wrote_is_text(shared):
    operator = Person(shared)
    for path in ("/policies", "/policies/gentle?fault=%22%3E%3Cscript%3E&status=%22%3E%3Cimg%3E"):
        text = operator.sees(path)
        is_harmless(text)
        assert "<b>Ours" not in text
        assert "<b>Ours" in words(text)


def test_a_policy_that_is_not_there_is_a_page(shared):
    answer = Person(shared).ask("/policies/nothing")

    assert answer.status_code == 404
    assert "there is no policy 'nothing' here" in answer.text.replace("&#39;", "'")
