"""Upstreams on pages: how each is in words, limits and their use; hold, resume, let through."""

import re

import pytest

from seawall import Upstream
from seawall.decisions.breaker import Breaker
from seawall.decisions.budget import RetryBudget
from seawall.decisions.limits import Limits
from seawall.model import Lane
from seawall.store import NewJob, Observation, Scope
from seawall.web.pages import upstream_words
from tests.web.looking import HOSTILE, HTML, Person, is_harmless, words


def waits(world, upstream, jobs=3, task="fails", queue="default"):
    lane = Lane(task=task, upstream=upstream, queue=queue)
    world.store.enqueue([NewJob(lane=lane, arguments="{}") for _ in range(jobs)])


def test_upstreams_are_listed_with_the_held_ones_first(world):
    waits(world, "slow", 2)
    waits(world, "quick", 5)
    world.app.upstreams.hold("slow", seconds=600, why="maintenance")
    world.store.observe([Observation("quick", "w1", firsts=8, failures=2, micros=4_000_000)])
    operator = Person(world)
    shown = operator.reads("/upstreams")

    assert shown.index("slow held by hand") < shown.index("quick well")
    assert "Somebody holds it: none of its jobs begins" in shown
    assert "That ends in 10 min" in shown
    assert "5 waiting" in shown
    assert "8 calls a minute" in shown
    assert "25.0% failed" in shown
    assert "500 ms on average" in shown
    assert 'href="/upstreams/slow"' in operator.sees("/upstreams")


def test_many_upstreams_are_found_by_name_and_not_all_shown(world):
    for number in range(70):
        waits(world, f"openai:model-{number}", 1)
    operator = Person(world)

    assert "10 more match" in operator.reads("/upstreams")
    shown = operator.reads("/upstreams?name=MODEL-69")
    assert "openai:model-69" in shown
    assert "openai:model-68" not in shown
    assert "No upstream has that in its name" in operator.reads("/upstreams?name=nothing")


def test_without_an_upstream_the_page_says_how_to_name_one(world):
    shown = Person(world).reads("/upstreams")

    assert "No upstream is known yet" in shown
    assert '@app.task(upstream="openai")' in shown


def test_one_shows_its_state_limits_breaker_and_what_needs_it(world):
    world.app.upstream(
        Upstream(
            "openai",
            concurrency=20,
            per_minute={"requests": 500, "tokens": 200_000},
            each_owner=Limits(concurrency=5, per_minute={"requests": 60}),
            breaker=Breaker(consecutive_failures=7, slow_call_seconds=10),
        )
    )
    waits(world, "openai", 3)
    waits(world, "openai", 2, "add", "mail")
    waits(world, "openai:gpt-5", 1)
    world.store.observe([Observation("openai", "w1", firsts=125, micros=1_000_000)])
    operator = Person(world)
    shown = operator.reads("/upstreams/openai")

    assert "It is called as jobs need it." in shown
    assert "0 of 20 at once free" in shown
    assert "125 of 500 requests a minute free" in shown
    assert "200,000 tokens a minute free" in shown
    assert "Each owner may use: 5 calls at once, 60 requests a minute." in shown
    assert "Held after 7 failures in a row, or when 50% of the last 20 calls fail or" in shown
    assert "take 10 s or longer" in shown
    assert "fails default 3 0 0" in shown
    assert "add mail 2 0 0" in shown
    text = operator.sees("/upstreams/openai")
    assert 'href="/jobs?state=queued&amp;task=fails&amp;queue=default"' in text
    assert 'href="/upstreams/openai%3Agpt-5"' in text
    operator.sees("/upstreams/openai%3Agpt-5")


def test_one_is_held_for_a_while_let_through_and_resumed(world):
    waits(world, "api", 4)
    operator, page = Person(world), "/upstreams/api"

    told = operator.presses(page, f"{page}/hold", seconds="600", why="maintenance")
    assert told == ("api is held for 10 min.", True)
    held = world.app.upstreams.get("api")
    assert (held.forced, held.reason) == ("open", "maintenance")
    shown = operator.reads(page)
    assert "That ends by itself in 10 min." in shown
    assert "Why: maintenance" in shown
    assert f'action="{page}/hold"' not in operator.sees(page)

    told = operator.presses(page, f"{page}/force", seconds="", why="")
    assert told == (
        "api is called whatever its breaker thinks until somebody resumes it.", True,
    )  # fmt: skip
    assert world.app.upstreams.get("api").forced == "closed"
    assert "Somebody lets everything through" in operator.reads(page)

    assert operator.presses(page, f"{page}/resume")[1]
    assert world.app.upstreams.get("api").forced is None
    line, well = operator.sends(f"{page}/resume", csrf=operator.csrf())
    assert (line, well) == ("the upstream was not held", False)


def test_a_hold_that_stands_in_the_store_is_told_and_resumed(world):
    waits(world, "api")
    world.store.hold(Scope.UPSTREAM, "api", reason="an older way")
    operator = Person(world)

    assert "an older way" in operator.reads("/upstreams/api")
    assert operator.presses("/upstreams/api", "/upstreams/api/resume")[1]
    assert not world.store.holds()


@pytest.mark.parametrize("seconds", ["x", "-1", "nan", "1e99"])
def test_a_span_that_makes_no_sense_is_told_and_nothing_is_held(world, seconds):
    waits(world, "api")
    operator = Person(world)

    for act in ("hold", "force"):
        how = {"seconds": seconds, "why": "the 3rd time today"}
        line, well = operator.presses("/upstreams/api", f"/upstreams/api/{act}", **how)
        assert not well
        assert "For how long" in line
    assert world.app.upstreams.get("api").forced is None


def test_readers_see_upstreams_and_have_no_forms(world):
    waits(world, "api")
    reader = Person(world, "read-only")

    text = reader.sees("/upstreams/api")
    assert "/upstreams/api/hold" not in text
    for act in ("hold", "force", "resume"):
        answer = world.client.post(
            f"/upstreams/api/{act}", data={"csrf": reader.csrf()}, headers=HTML
        )
        assert answer.status_code == 403
    for who in ("owner", "other"):
        owner = Person(world, who)
        for path in ("/upstreams", "/upstreams/api"):
            assert owner.ask(path).status_code == 403
        assert "/upstreams" not in owner.sees("/")
    assert world.app.upstreams.get("api").forced is None


def test_a_form_of_an_upstream_without_its_word_changes_nothing(world):
    waits(world, "api")
    Person(world)

    for act in ("hold", "force", "resume"):
        answer = world.client.post(f"/upstreams/api/{act}", data={}, headers=HTML)
        assert answer.status_code == 403
    assert world.app.upstreams.get("api").forced is None


def test_an_upstream_of_which_nobody_heard_is_a_page(world):
    operator = Person(world)
    answer = operator.ask("/upstreams/nothing")

    assert answer.status_code == 404
    assert "there is no upstream nothing" in answer.text
    assert operator.ask("/upstreams/%00").status_code == 404


def test_hostile_names_and_reasons_are_text_and_lead_where_they_should(world):
    name = HOSTILE + "/a?b#c"
    waits(world, name)
    world.app.upstreams.hold(name, why=HOSTILE)
    operator = Person(world)
    text = operator.sees("/upstreams")
    path = text.partition('class="card stack upstream" href="')[2].partition('"')[0]

    is_harmless(text)
    shown = operator.sees(path)
    assert name in words(shown)
    is_harmless(shown)
    assert operator.presses(path, f"{path}/resume")[1]


# --- in words -------------------------------------------------------------------------------------


def test_what_was_said_of_an_upstream_reads_well():
    plain = Upstream("x", quorum=1)
    assert upstream_words.breaker_in_words(plain) == [
        (
            "Held after 5 failures in a row, or when 50% of the last 20 calls fail (judged from"
            " 20 calls on); also for as long as it asks for by Retry-After."
        ),
        "Held for 5 s, ×2 each time, ±20%, at most 5 min.",
        "Then 1 call at a time tries it: 1 success lets it go, 1 failure holds it again.",
        "What waited is let go little by little, within 30 s.",
    ]
    probed = Upstream(
        "x",
        probe=lambda: None,
        retry_budget=None,
        breaker=Breaker(
            consecutive_failures=None,
            failure_rate=None,
            probes=3,
            successes_to_close=4,
            failures_to_reopen=2,
            ramp_seconds=0,
        ),
    )
    lines = upstream_words.breaker_in_words(probed)
    assert lines[0] == "No failure holds it."
    assert "2 of them must have seen failures" in lines[1]
    assert lines[3] == (
        "Then a health probe, instead of a job, tries it: 4 successes let it go,"
        " 2 failures hold it again."
    )
    assert lines[4] == "What waited is let go at once."
    assert list(upstream_words.more_in_words(probed)) == [
        "Retries are not bounded: as many as policies want.",
        "How much of it is used is not limited.",
    ]
    budget = RetryBudget(share=0.2, floor_per_second=0.5)
    assert "20% may be retried, and 0.5 a second" in next(
        upstream_words.more_in_words(Upstream("x", retry_budget=budget))
    )


def test_its_history_tells_how_its_breaker_stood_and_what_calls_took(world):
    waits(world, "slow")
    world.store.observe([Observation("slow", "w1", 4, 0, 2, 0, 0, 4_000_000, ((9, 4),))])
    world.app.upstreams.hold("slow", seconds=600, why="maintenance")

    text = Person(world).sees("/upstreams/slow")

    assert "nothing was let through for" in text
    assert "held by hand" in text
    assert 'aria-label="How long calls took, in seconds"' in text
    assert re.search(r"p50 [\d.]+ (ms|s)", text)
