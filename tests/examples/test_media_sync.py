"""The figures of design document 002, by the policy and the breaker that production has."""

import random
import statistics
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from examples.media_sync.app import app, update
from examples.media_sync.client import Metadata
from examples.media_sync.peers import Peers
from seawall import Fault, FaultCode, State, breaker, load_policies, presets
from seawall.clock import SystemClock
from seawall.store import open_store
from seawall.testing import in_memory
from tests.examples.media_sync_world import Server
from tests.life.world import Hand, Says, eventually

FILM = Metadata(title="A film")
NOT_FOUND_WINDOWS = [(15, 30), (30, 60), (60, 120), (120, 240), (240, 480), *[(300, 600)] * 7]
TRANSIENT_WINDOWS = [(0, 5), (0, 10), (0, 20), (0, 40), (0, 80)]
RULES = app.upstreams.of("media-server").breaker


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Peers(tmp_path_factory.mktemp("media_sync")) as peers:
        yield Server(peers)


@pytest.fixture(autouse=True)
def called(server, monkeypatch):
    monkeypatch.setenv("MEDIA_SERVER_URL", server.url)
    yield
    server.told(busy=False, scan_seconds=0)


@pytest.fixture(params=range(3))
def world(request):
    with in_memory(app, seed=request.param) as made:
        yield made


def waits(job):
    return [each.delay_seconds for each in job.attempts() if each.delay_seconds is not None]


def codes(job):
    return [each.fault and str(each.fault.code) for each in job.attempts()]


def are_within(found, windows):
    assert len(found) == len(windows)
    for wait, (least, most) in zip(found, windows, strict=True):
        assert least <= wait <= most


# --- what each failure deserves -----------------------------------------------------------------


def test_a_file_that_never_comes_is_asked_for_twelve_more_times_and_then_given_up(world):
    begun = world.now
    job = update.enqueue("never.mkv", FILM)
    world.drain()
    assert codes(job) == ["NOT_READY"] * 13
    are_within(waits(job), NOT_FOUND_WINDOWS)
    assert job.job().tries == 13
    assert 5_130 / 2 <= (world.now - begun).total_seconds() <= 5_130
    (letter,) = app.dead_letters()
    assert (letter.fault.code, letter.fault.status) == (FaultCode.NOT_READY, 404)


def test_a_file_that_is_scanned_forty_minutes_later_is_synchronised(world, server):
    begun = world.now
    name = f"late-{random.random()}.mkv"
    job = update.enqueue(name, FILM)
    while job.state is State.QUEUED:
        if world.now - begun >= timedelta(minutes=40):
            server.has(name)
        world.work()
        world.advance(max(0, (job.job().due_at - world.now).total_seconds()))
    assert job.state is State.SUCCEEDED
    assert world.now - begun >= timedelta(minutes=40)
    assert server.item(name) == {"title": "A film"}
    assert not app.dead_letters()


def test_other_trouble_is_tried_again_five_times_within_five_to_eighty_seconds(world, server):
    server.told(busy=True)
    job = update.enqueue("film.mkv", FILM)
    world.drain()
    assert codes(job) == ["UPSTREAM_ERROR"] * 6
    are_within(waits(job), TRANSIENT_WINDOWS)
    assert job.state is State.FAILED


def test_the_mean_of_each_wait_is_half_of_its_window():
    policy, rng = presets.get("media-sync"), random.Random(2)
    for attempt, (_, most) in enumerate(TRANSIENT_WINDOWS, 1):
        fault = Fault(FaultCode.TIMEOUT)
        drawn = [
            policy.decide(fault, attempt=attempt, rng=rng, earlier=[fault] * (attempt - 1))
            for _ in range(4_000)
        ]
        mean = statistics.mean(each.delay_seconds for each in drawn)
        assert mean == pytest.approx(most / 2, rel=0.05)  # five standard errors
        assert len({each.delay_seconds for each in drawn}) > 3_900, "nobody comes back together"


def test_what_the_media_server_refuses_is_given_up_at_once(world):
    job = update.enqueue("film.mkv", Metadata(title=""))
    world.drain()
    assert codes(job) == ["INVALID_REQUEST"]
    assert job.state is State.FAILED


def test_the_example_runs_under_the_policy_as_it_ships():
    assert update.policy.version == presets.get("media-sync").version


def test_the_quick_policy_has_other_waits_and_nothing_else():
    """The story and the tests of whole workers go by it."""
    quick = load_policies("examples/media_sync/quick.toml")["media-sync"]
    for ours, shipped in zip(quick.rules, presets.get("media-sync").rules, strict=True):
        assert replace(ours, backoff=shipped.backoff) == shipped
        assert (ours.backoff.curve, ours.backoff.jitter) == (
            shipped.backoff.curve,
            shipped.backoff.jitter,
        )


# --- when the media server is held --------------------------------------------------------------


def after(state, *events, now):
    for event in events:
        state = breaker.step(RULES, state, event, now)
    return state


FAULT = Fault(FaultCode.UNAVAILABLE)
FAILED = breaker.event_of(FAULT)
WELL = breaker.event_of(None)
NOW = 1_000_000.0


def test_it_is_held_after_five_failures_in_a_row_and_not_after_four():
    state = after(breaker.BreakerState(), *[FAILED] * 4, now=NOW)
    assert state.phase == "closed"
    assert after(state, FAILED, now=NOW).phase == "open"
    assert after(state, WELL, *[FAILED] * 4, now=NOW).phase == "closed", "one success starts again"


def test_it_is_held_for_sixty_seconds_and_one_success_lets_it_go():
    state = after(breaker.BreakerState(), *[FAILED] * 5, now=NOW)
    assert breaker.admission(RULES, state, NOW + 59.9).probes == 0
    assert breaker.admission(RULES, state, NOW + 60).probes == 1
    state = after(state, breaker.ProbeAsked("w"), now=NOW + 60)
    assert breaker.admission(RULES, state, NOW + 60).probes == 0, "one, and no more at a time"
    probed = breaker.event_of(None, probe="w")
    assert after(state, probed, now=NOW + 61).phase == "closed"


def test_a_probe_that_fails_holds_it_again_for_longer():
    state = after(breaker.BreakerState(), *[FAILED] * 5, now=NOW)
    state = after(state, breaker.ProbeAsked("w"), now=NOW + 60)
    state = after(state, breaker.event_of(FAULT, probe="w"), now=NOW + 61)
    assert (state.phase, state.until) == ("open", NOW + 61 + 120)


@pytest.mark.parametrize("code", [FaultCode.NOT_READY, FaultCode.INVALID_REQUEST])
def test_a_file_that_is_not_there_and_a_bad_request_say_nothing_about_its_health(code):
    events = [breaker.event_of(Fault(code))] * 50
    assert after(breaker.BreakerState(), *events, now=NOW).phase == "closed"


# --- a clock that is wrong ----------------------------------------------------------------------


class Jumping(SystemClock):
    """The machine's clock, some seconds ahead."""

    ahead = 0.0

    def now(self):
        return super().now() + timedelta(seconds=self.ahead)


def test_a_clock_that_was_a_day_ahead_strands_no_job(server, tmp_path):
    clock, url = Jumping(), f"sqlite:///{tmp_path}/jobs.db"
    app.configure(url=url)
    with (
        Says() as says,
        open_store(url, clock=clock) as store,
        app.replaced(store, clock, random.Random(0)),
    ):
        clock.ahead = 86_400
        job = update.enqueue("jump.mkv", FILM)
        first = Hand(app)
        eventually(lambda: job.job().tries == 1)
        first.stop()
        clock.ahead = 0
        wrong = (job.job().due_at - clock.now()).total_seconds()
        assert wrong > 86_000, "a day and half a minute from now"

        server.has("jump.mkv")
        second = Hand(app)
        assert says.await_("clock_put_right")["due_times"] == 1
        assert (job.job().due_at - clock.now()).total_seconds() <= 30, "the wait, and no day"
        clock.ahead = 31
        eventually(lambda: job.state is State.SUCCEEDED)
        second.stop()
    app.configure(url="sqlite:///seawall.db")


def test_the_page_shows_the_application_as_it_is():
    code = Path("examples/media_sync/app.py").read_text().partition('"""\n\n')[2]
    assert code in Path("docs/examples/media_sync.md").read_text()
