"""The overview in figures: burn, charts whose last step is not over, banners and what they count."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from seawall.decisions import breaker as breakers
from seawall.decisions import gate as gates
from seawall.decisions import gate_text
from seawall.model import Lane, Outcome
from seawall.store import NewJob, Observation, PaceBucket, Wanted
from seawall.upstreams import settle_down
from seawall.web.pages import held
from seawall.web.pages.overview import Burn, burn, ended_chart
from seawall.web.pages.pictures import a_minute
from tests.support.ledger import ended
from tests.web.looking import HTML, Person

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


# --- burn -----------------------------------------------------------------------------------------


def bucket(succeeded=0, failed=0, at=NOW):
    counts = dict.fromkeys(PaceBucket._fields, 0) if hasattr(PaceBucket, "_fields") else {}
    return PaceBucket(**{**counts, "at": at, "succeeded": succeeded, "failed": failed})


def test_a_burn_of_one_uses_up_just_what_the_goal_leaves():
    assert burn([bucket(99, 1)], 1, 0.99).rate == pytest.approx(1.0)
    assert burn([bucket(90, 5), bucket(0, 5)], 6, 0.99).rate == pytest.approx(10.0)
    assert burn([bucket(5, 0)], 1, 0.99).rate == 0
    assert burn([bucket()], 1, 0.99) == Burn(1, 0, None, None)


@pytest.mark.parametrize(
    ("rate", "words"),
    [(0.0, "0"), (0.034, "0.034"), (1.0, "1.0"), (9.96, "10.0"), (100.0, "100"), (9999.0, "9,999")],
)
def test_a_burn_is_never_told_as_a_power_of_ten(rate, words):
    assert Burn(1, 1, 0.5, rate).rate_in_words == words


def test_the_last_hour_is_an_hour_and_not_up_to_two(make_world):
    world = make_world()
    asked = []
    real = world.store.pace

    def pace(since, *args, **how):
        asked.append((since, how))
        return real(since, *args, **how)

    world.store.pace = pace
    shown = Person(world).reads("/")

    assert "Last 1 hour" in shown
    assert all(how["step_seconds"] <= 300 for _, how in asked), "hours begin to the minute"


# --- charts ---------------------------------------------------------------------------------------


def test_a_step_that_is_not_over_is_told_as_far_as_it_has_come():
    begin = NOW - timedelta(seconds=60)

    assert a_minute(100, NOW - timedelta(seconds=600), 300, NOW) == 20.0
    assert a_minute(100, begin, 300, NOW) == 100.0
    assert a_minute(100, NOW - timedelta(seconds=5), 300, NOW) is None
    assert a_minute(100, begin, 60, NOW) == 100.0


def test_a_chart_does_not_drop_at_its_end():
    steady = [
        bucket(50, at=NOW - timedelta(seconds=700)),
        bucket(50, at=NOW - timedelta(seconds=400)),
    ]
    steady.append(bucket(17, at=NOW - timedelta(seconds=100)))

    chart = ended_chart(steady, 300, NOW)

    assert chart.lines[0].values == [10.0, 10.0, 10.2]


# --- banners --------------------------------------------------------------------------------------


def waits(world, upstream, jobs, owner=None):
    new = NewJob(lane=Lane(task="fails", upstream=upstream), arguments="{}", owner=owner)
    for begin in range(0, jobs, 1_000):
        world.store.enqueue([new] * min(1_000, jobs - begin))


def opened(world, name, event):
    """Its breaker after that event, kept as workers keep it."""
    upstream = world.app.upstreams.of(name)
    with world.store.govern(name, wait=True) as desk:
        now = desk.now.timestamp()
        gate = gate_text.read(desk.state)
        if event is None:
            state = breakers.opened(upstream.breaker, gate.breaker, now)
            gate = gates.Gate(breaker=state, why=gates.FAILING)
        else:
            gate = gates.heard(upstream, gate, event, now, gates.ASKED)
        settle_down(desk, upstream, gate)


def banner(text):
    found = re.search(r'<div class="banner.*?</div>\s*</div>', text, re.DOTALL)
    return found and " ".join(re.sub(r"<[^>]+>", " ", found[0]).split())


def test_a_banner_says_how_many_wait_and_when_it_is_tried_again(world):
    waits(world, "api", 1_204)
    opened(world, "api", None)

    said = banner(Person(world).sees("/"))

    assert "api is not answering: 1,204 jobs wait and will resume automatically" in said
    assert re.search(r"\(next try in \d+ (s|min) \)", said), said


def test_one_that_asked_for_time_is_not_said_to_be_silent(world):
    waits(world, "api", 1)
    opened(world, "api", breakers.AskedToWait(300.0))
    operator = Person(world)

    said = banner(operator.sees("/"))
    assert "api asked us to wait: 1 job waits and will resume automatically" in said
    assert "not answering" not in operator.reads("/upstreams/api")


def test_one_that_is_let_through_by_hand_is_not_announced_as_held(world):
    waits(world, "api", 3)
    opened(world, "api", None)
    world.app.upstreams.force("api", "closed", seconds=600)
    operator = Person(world)

    for path in ("/", "/jobs", "/upstreams"):
        assert banner(operator.sees(path)) is None, path
    assert "let through by hand" in operator.reads("/")
    assert "not answering" not in operator.reads("/")


def test_an_owner_is_told_of_an_outage_however_much_others_have_waiting(world, monkeypatch):
    waits(world, "other", 300, owner="bob")
    waits(world, "api", 1, owner="ann")
    waits(world, "api", 300, owner="bob")
    for name in ("api", "other"):
        world.app.upstreams.hold(name, why="a secret affair")
    looks = []
    real = world.store.standing_of
    monkeypatch.setattr(
        world.store, "standing_of", lambda *a, **k: looks.append(1) or real(*a, **k)
    )

    text = Person(world, "owner").sees("/runs")

    assert "api is held by hand" in text
    assert "other is held" not in text
    assert "301" not in text
    assert "a secret affair" not in text
    assert looks == [1], "asked once, not for each that is held"


def test_readers_can_look_at_what_is_held(world):
    waits(world, "api", 1)
    world.app.upstreams.hold("api")

    assert 'href="/upstreams/api">Look' in Person(world, "read-only").sees("/")
    assert "Look</a>" not in Person(world, "owner").sees("/")


def test_a_count_that_came_to_its_bound_says_so(world, monkeypatch):
    monkeypatch.setattr(held, "MOST_WAITING", 10)
    monkeypatch.setattr(held, "MOST_LETTERS", 2)
    for _ in range(4):
        world.failed()
    waits(world, "api", 30)
    opened(world, "api", None)
    text = Person(world).sees("/")

    assert "10 jobs or more wait" in banner(text)
    assert re.search(r'class="badge">.*?</span>2\+</span>', text)
    assert '<span class="value bad">2+</span>' in text, "the overview says the same"


def test_an_owners_badge_counts_all_of_his_letters_and_no_others(world):
    lane = Lane(task="add")
    world.store.enqueue([NewJob(lane=lane, arguments="{}", owner="ann") for _ in range(700)])
    world.store.enqueue([NewJob(lane=lane, arguments="{}", owner="bob") for _ in range(20)])
    claims = world.store.claim(Wanted("w1", None, ["add"], 1_000, 60))
    world.store.settle([ended(claim.token, Outcome.FAILED) for claim in claims])
    ann = Person(world, "owner")

    assert re.search(r'class="badge">.*?</span>700</span>', ann.sees("/"))
    assert "700 letters in" in ann.reads("/dead")


def test_the_overview_and_the_frame_agree_after_a_dismissal(make_world):
    world = make_world()
    jobs = [world.failed() for _ in range(3)]
    operator = Person(world)
    world.house.glances.fresh_seconds = 3_600.0
    assert '<span class="value bad">3</span>' in operator.sees("/")

    line, well = operator.sends(
        "/dead/dismiss", csrf=operator.csrf("/jobs"), job=str(jobs[0]), note="x"
    )
    assert well, line

    text = operator.sees("/")
    assert '<span class="value bad">2</span>' in text
    assert re.search(r'class="badge">.*?</span>2</span>', text)


@pytest.mark.parametrize("path", ["/jobs", "/dead", "/policies"])
def test_a_frame_costs_the_same_with_three_hundred_upstreams(world, monkeypatch, path):
    world.store.observe([Observation(f"api:{n}", "w1", firsts=1) for n in range(300)])
    for number in range(300):
        waits(world, f"api:{number}", 1)
    world.app.upstreams.hold("api:7")
    asked = []
    for verb in ("observed", "lately", "backlog", "count_letters", "watched", "waiting_at"):
        real = getattr(world.store, verb)
        monkeypatch.setattr(
            world.store,
            verb,
            lambda *a, verb=verb, real=real, **k: asked.append(verb) or real(*a, **k),
        )

    assert "api:7 is held by hand" in world.get(path, headers=HTML).text

    assert sorted(asked) == ["waiting_at", "watched"]


def test_three_hundred_upstreams_are_told_of_by_one_look_at_their_calls(world, monkeypatch):
    world.store.observe([Observation(f"api:{n}", "w1", firsts=n) for n in range(300)])
    asked = []
    for verb in ("observed", "lately"):
        real = getattr(world.store, verb)
        monkeypatch.setattr(
            world.store,
            verb,
            lambda *a, verb=verb, real=real, **k: asked.append(verb) or real(*a, **k),
        )

    found = {each.name: each.calls for each in world.app.upstreams.all()}

    assert found["api:299"] == 299
    assert asked == ["lately"]
