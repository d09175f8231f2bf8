"""An application's upstreams, as people see them, and what people decide about them."""

import math
from datetime import timedelta

import pytest

from seawall import ArgumentsError, ConfigurationError, RetryBudget, Seawall, Upstream
from seawall.decisions import gate as gates
from seawall.decisions import gate_text
from seawall.decisions.backoff import Backoff
from seawall.decisions.breaker import Breaker
from seawall.store import Observation, Wanted
from seawall.testing import in_memory
from seawall.upstreams import Upstreams, settle_down

HOUR = Breaker(open=Backoff(curve="fixed", base_seconds=3_600, jitter="none"))


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = Seawall()

    @made.task(name="ask", upstream="openai")
    def ask() -> None: ...

    @made.task(name="quiet")
    def quiet() -> None: ...

    return made


@pytest.fixture
def world(app):
    with in_memory(app) as world:
        yield world


def decided(world, name, step, upstream=None):
    """Decide about it, as a worker does that knows what it is."""
    upstream = upstream or world.app.upstreams.of(name)
    with world.store.govern(name, wait=True) as desk:
        gate = step(upstream, gate_text.read(desk.state), desk.now.timestamp())
        settle_down(desk, upstream, gate)


def failing(upstream, gate, now):
    seen = [gates.Seen(worker, int(now), 9, 0, 9, 0, 0) for worker in ("w1", "w2")]
    return gates.watched(upstream, gate, seen, 2, now)


def taken(count):
    return lambda upstream, gate, now: gates.begun(
        upstream, gate, "w1", {"": count}, now, retries=0, probes=(), hold_seconds=60.0
    )


# ── How they are ─────────────────────────────────────────────────────────────────────────────────


def test_those_that_are_declared_have_jobs_or_are_under_watch_are_listed_by_name(world, app):
    app.upstream(Upstream("vision"))
    app.tasks["ask"].enqueue()
    app.tasks["quiet"].enqueue()
    app.upstreams.hold("mail")
    assert [each.name for each in app.upstreams.all()] == ["mail", "openai", "vision"]
    assert [each.name for each in app.upstreams] == ["mail", "openai", "vision"]


def test_one_that_is_well_says_what_waits_and_how_its_calls_went(world, app):
    ask = app.tasks["ask"]
    ask.enqueue()
    ask.enqueue()
    ask.using(run_after=timedelta(hours=1)).enqueue()
    world.store.claim(Wanted("w1", None, ("ask",), 1, 60.0))
    world.store.observe([Observation("openai", "w0", 30, 0, 30, 0, 0, 1)])
    world.clock.advance(61)
    world.store.observe(
        [
            Observation("openai", "w1", 30, 5, 2, 0, 0, 70_000_000),
            Observation("openai", "w2", 5, 0, 1, 1, 0, 10_000_000),
            Observation("other", "w2", 5, 0, 1, 1, 0, 10_000_000),
        ]
    )
    found = app.upstreams.get("openai")
    assert (found.phase, found.forced, found.held_until, found.share) == ("closed", None, None, 1.0)
    assert not found.is_held
    assert (found.waiting, found.later, found.running) == (1, 1, 1)
    assert (found.calls, found.failures, found.mean_seconds) == (40, 3, 2.0)
    now = world.now.timestamp()
    assert found.retries_left == gates.retries_left(Upstream("openai"), gates.Gate(), 35, now) > 0
    assert found.reason == ""


def test_without_calls_there_is_no_mean_and_without_a_budget_nothing_is_left_of_it(world, app):
    app.upstream(Upstream("openai", retry_budget=None))
    found = app.upstreams.get("openai")
    assert (found.calls, found.mean_seconds, found.retries_left) == (0, None, None)


def test_a_budget_that_is_overdrawn_has_none_left(world, app):
    app.upstream(Upstream("openai", retry_budget=RetryBudget(share=0, floor_per_second=0.1)))
    decided(world, "openai", lambda u, gate, now: gates.begun(
        u, gate, "w1", {"": 50}, now, retries=50, probes=(), hold_seconds=60.0
    ))  # fmt: skip
    assert app.upstreams.get("openai").retries_left == 0


def test_one_that_its_breaker_holds_says_why_and_for_how_long(world, app):
    app.upstream(Upstream("openai", breaker=HOUR))
    decided(world, "openai", failing)
    found = app.upstreams.get("openai")
    assert (found.phase, found.forced, found.share) == ("open", None, 0.0)
    assert found.is_held
    assert found.held_until == world.now + timedelta(hours=1)
    assert (found.reason, found.forced_until) == (gates.FAILING, None)
    world.clock.advance(3_600)
    assert app.upstreams.get("openai").phase == "half_open"
    assert app.upstreams.get("openai").held_until is None


def test_those_that_are_held_are_told_without_a_look_at_jobs_or_calls(world, app, monkeypatch):
    for name in ("broken", "held", "through", "asked"):
        app.upstream(Upstream(name, breaker=HOUR))
    decided(world, "broken", failing)
    decided(world, "through", failing)
    app.upstreams.hold("held")
    app.upstreams.force("through", "closed")
    wait = gates.breakers.AskedToWait(60.0)
    decided(world, "asked", lambda upstream, gate, now: gates.heard(upstream, gate, wait, now))
    for verb in ("backlog", "observed", "lately", "called"):
        monkeypatch.setattr(world.store, verb, None)

    found = app.upstreams.held()

    assert [(each.name, each.asked) for each in found] == [
        ("asked", True), ("broken", False), ("held", False),
    ]  # fmt: skip
    world.clock.advance(3_600)
    assert [each.name for each in app.upstreams.held() if each.asked] == []


def test_one_that_is_not_there_is_an_error_that_names_those_that_are(world, app):
    with pytest.raises(ArgumentsError, match="no upstream 'opena'; there are: none"):
        app.upstreams.get("opena")
    app.upstream(Upstream("openai"))
    with pytest.raises(ArgumentsError, match="no upstream 'opena'; there are: openai"):
        app.upstreams.get("opena")


# ── What people decide ───────────────────────────────────────────────────────────────────────────


def test_what_is_held_for_a_time_is_held_until_then_and_let_go_in_a_ramp(world, app):
    app.upstreams.hold("openai", seconds=600, why="maintenance")
    found = app.upstreams.get("openai")
    end = world.now + timedelta(seconds=600)
    assert (found.forced, found.forced_until, found.held_until) == ("open", end, end)
    assert found.reason == "maintenance"
    (row,) = world.store.watched()
    assert (row.gated, row.held_until, row.reason) == (True, end, "maintenance")
    world.clock.advance(600 + 10)
    found = app.upstreams.get("openai")
    assert (found.forced, found.phase, round(found.share, 3)) == (None, "closed", 0.4)


def test_what_is_held_without_an_end_is_held_until_it_is_resumed(world, app):
    app.upstreams.hold("openai")
    world.clock.advance(86_400 * 365)
    found = app.upstreams.get("openai")
    assert (found.forced, found.forced_until, found.held_until) == ("open", None, None)
    assert found.is_held
    assert app.upstreams.resume("openai")
    found = app.upstreams.get("openai")
    assert (found.forced, found.reason, round(found.share, 3)) == (None, "", 0.1)
    assert not app.upstreams.resume("openai"), "it is let go already"
    assert round(app.upstreams.get("openai").share, 3) == 0.1


def test_to_resume_is_to_let_go_what_the_breaker_holds(world, app):
    app.upstream(Upstream("openai", breaker=HOUR))
    decided(world, "openai", failing)
    assert app.upstreams.resume("openai")
    found = app.upstreams.get("openai")
    assert (found.phase, found.reason, round(found.share, 3)) == ("closed", "", 0.1)


def test_to_resume_what_is_well_is_nothing_and_leaves_nothing(world, app):
    assert not app.upstreams.resume("openai")
    assert world.store.watched() == []


def test_one_that_is_forced_closed_is_called_whatever_its_breaker_thinks(world, app):
    app.upstream(Upstream("openai", breaker=HOUR))
    decided(world, "openai", failing)
    app.upstreams.force("openai", "closed", seconds=60, why="false alarm")
    found = app.upstreams.get("openai")
    assert (found.forced, found.share, found.held_until) == ("closed", 1.0, None)
    assert found.forced_until == world.now + timedelta(seconds=60)
    decided(world, "openai", failing)
    assert app.upstreams.get("openai").share == 1.0
    world.clock.advance(60)
    found = app.upstreams.get("openai")
    assert (found.forced, found.phase, found.share) == (None, "closed", 1.0)


@pytest.mark.parametrize(("name", "how", "line"), [
    ("", {}, "upstream: found '', expected 1 to 200 characters"),
    ("two\nlines", {}, "upstream: found 'two\\nlines', expected printable"),
    ("openai", {"why": ""}, "why: found '', expected 1 to 200 characters"),
    ("openai", {"why": "x" * 201}, "expected 1 to 200 characters"),
    ("openai", {"why": "two\nlines"}, "why: found 'two\\nlines', expected printable"),
    ("openai", {"seconds": -1}, "seconds: found -1, expected seconds from 0"),
    ("openai", {"seconds": math.nan}, "seconds: found nan, expected seconds from 0"),
    ("openai", {"seconds": math.inf}, "seconds: found inf, expected seconds from 0"),
])  # fmt: skip
def test_what_cannot_be_decided_is_refused_and_changes_nothing(world, app, name, how, line):
    with pytest.raises(ArgumentsError) as caught:
        app.upstreams.hold(name, **how)
    assert line in str(caught.value)
    assert world.store.watched() == []


def test_only_open_and_closed_can_be_forced(world, app):
    with pytest.raises(ArgumentsError, match="found 'shut', expected 'open' or 'closed'"):
        app.upstreams.force("openai", "shut")
    with pytest.raises(ConfigurationError, match="found 'openai', expected an Upstream"):
        app.upstream("openai")


def test_a_secret_in_a_reason_is_not_kept(world, app):
    app.upstreams.hold("openai", why="rotated sk-proj-abcdefghijklmnopqrstuvwxyz123456")
    assert "abcdefghij" not in app.upstreams.get("openai").reason


# ── Without knowing everything ───────────────────────────────────────────────────────────────────


class Looking:
    """Somebody who has the store and no application."""

    def __init__(self, store):
        self.store = store


def test_whoever_does_not_know_its_breaker_believes_what_was_written(world, app):
    app.upstream(Upstream("openai", breaker=HOUR))
    decided(world, "openai", failing)
    found = Upstreams(Looking(world.store), knows=False).get("openai")
    assert (found.phase, found.held_until) == ("open", world.now + timedelta(hours=1))


@pytest.mark.parametrize("to", ["open", "closed"])
def test_whoever_does_not_know_its_limits_forgets_none_of_what_is_counted(world, app, to):
    app.upstream(Upstream("openai", concurrency=3))
    decided(world, "openai", taken(3))
    stranger = Upstreams(Looking(world.store), knows=False)
    stranger.force("openai", to)
    assert stranger.resume("openai")
    world.clock.advance(1)
    (row,) = world.store.watched()
    assert row.gated, "nobody may claim past its limit"
    assert gate_text.read(row.state).limits.places[0][:2] == ("w1", 3)


def test_what_a_stranger_left_is_tidied_up_by_whoever_knows(world, app):
    stranger = Upstreams(Looking(world.store), knows=False)
    stranger.force("openai", "closed")
    stranger.resume("openai")
    assert [each.gated for each in world.store.watched()] == [True]
    decided(world, "openai", lambda upstream, gate, now: gate)
    assert world.store.watched() == []
