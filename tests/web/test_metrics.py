"""Metrics: what is told after a known script, to whom, and within which bounds."""

import sys
import urllib.error
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families

import seawall
from seawall.errors import ConfigurationError, StoreUnavailableError
from seawall.faults import Fault, FaultCode
from seawall.metrics import METRICS, Kind, telling
from seawall.metrics.figures import MOST_NAMES, Named
from seawall.metrics.listening import listening
from seawall.model import Lane, Outcome, Usage
from seawall.store import NewJob, Observation, Presence, Wanted
from tests.support.ledger import ended
from tests.support.processes import free_ports

NOT_JSON = Fault(FaultCode.INVALID_RESPONSE, "no JSON")


@pytest.fixture(params=["sqlite", "postgres18"])
def world(request, make_world):
    if request.param == "sqlite":
        return make_world()
    return make_world(request.getfixturevalue("postgres_fleet").server("18").new_url())


@pytest.fixture(autouse=True)
def every_look_is_fresh(monkeypatch):
    monkeypatch.setattr(telling, "SHOWN_SECONDS", 0.0)
    monkeypatch.setattr(telling, "SHARE", 0.0)


def samples(text):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class Scraped:
    """Samples, asked for by name and labels."""

    def __init__(self, text):
        self.found = samples(text)

    def __call__(self, name, **labels):
        return self.found.get((f"seawall_{name}", *sorted(labels.items())))

    def all(self, name, by):
        """Every value that is not 0, by one label."""
        return {
            dict(key[1:])[by]: value
            for key, value in self.found.items()
            if key[0] == f"seawall_{name}" and value
        }


def scraped(world):
    answer = world.get("/metrics")
    assert answer.status_code == 200, answer.text
    return Scraped(answer.text)


ADD = {"task": "add", "queue": "default"}


def test_after_a_known_script_the_numbers_are_the_scripts(world):
    ids = [world.job() for _ in range(7)]
    well, again, bad, skipped, asked, dies, later = ids
    world.store.cancel([later])
    claims = world.store.claim(Wanted("w1", None, ["add"], 100, 60))
    tokens = {claim.token.job_id: claim.token for claim in claims}
    world.store.settle(
        [
            ended(
                tokens[well],
                duration_seconds=0.25,
                usage=Usage(3, 4, 0.5),
                raw_output="what it said",
            ),
            ended(tokens[again], Outcome.RETRIED, fault=NOT_JSON, delay_seconds=0),
            ended(tokens[bad], Outcome.FAILED, fault=NOT_JSON),
            ended(tokens[skipped], Outcome.SKIPPED),
            ended(tokens[dies], Outcome.FAILED, fault=Fault(FaultCode.CONFIG_MISSING, "no key")),
        ]
    )
    told = scraped(world)

    assert told("jobs_created_total", **ADD) == 7
    assert told.all("jobs_completed_total", "state") == {
        "succeeded": 1, "skipped": 1, "failed": 2, "cancelled": 1,
    }  # fmt: skip
    assert told.all("jobs_failed_total", "code") == {"INVALID_RESPONSE": 1, "CONFIG_MISSING": 1}
    assert told.all("attempts_total", "outcome") == {
        "succeeded": 1, "retried": 1, "failed": 2, "skipped": 1,
    }  # fmt: skip
    assert told.all("attempt_faults_total", "code") == {"INVALID_RESPONSE": 2, "CONFIG_MISSING": 1}
    assert told.all("retries_scheduled_total", "code") == {"INVALID_RESPONSE": 1}
    assert told("schema_failures_total", **ADD) == 2
    assert told("raw_captures_total", **ADD) == 1
    assert told.all("tokens_total", "direction") == {"in": 3, "out": 4}
    assert told("spend_total", **ADD) == 0.5
    assert told("attempt_duration_seconds_count", **ADD) == 5
    assert told("time_to_success_seconds_count", **ADD) == 1
    assert told("time_to_success_seconds_bucket", **ADD, le="+Inf") == 1
    assert told.all("queue_depth", "state") == {"due": 1, "running": 1}
    assert told("oldest_due_age_seconds", queue="default") >= 0
    assert told.all("dead_letters_open", "code") == {"INVALID_RESPONSE": 1, "CONFIG_MISSING": 1}

    world.app.retry(bad)

    told = scraped(world)
    assert told("jobs_redriven_total", **ADD) == 1
    assert told.all("dead_letters_open", "code") == {"CONFIG_MISSING": 1}
    world.store.settle([ended(tokens[asked])])
    assert scraped(world).all("jobs_completed_total", "state")["succeeded"] == 2


def test_upstreams_are_told_with_how_they_are_and_what_waits_for_them(world):
    for _ in range(3):
        world.job(task="fails", arguments="{}")
    lane = Lane(task="fails", upstream="api")
    world.store.enqueue([NewJob(lane=lane, arguments="{}") for _ in range(2)])
    calls = Observation("api", "w1", firsts=4, retries=1, failures=2, denied=1, micros=5_000_000)
    world.store.observe([calls])

    before = scraped(world)
    world.app.upstreams.hold("api", seconds=600)
    held = scraped(world)
    world.app.upstreams.resume("api")
    world.app.pause("default")
    paused = scraped(world)

    assert before("upstream_calls_total", upstream="api") == 5
    assert before("upstream_failures_total", upstream="api") == 2
    assert before("upstream_denied_total", upstream="api") == 1
    assert before("upstream_call_duration_seconds_sum", upstream="api") == 5
    assert [told("upstream_held", upstream="api") for told in (before, held)] == [0, 1]
    assert held("upstream_waiting_jobs", upstream="api") == 2
    assert [told("held_jobs", queue="default") for told in (before, held, paused)] == [0, 2, 5]
    assert paused.all("holds", "scope") == {"queue": 1}
    shut = paused("upstream_open_seconds_total", upstream="api")
    assert 0 < shut < 600


def test_a_hold_without_an_end_is_told_too(world):
    world.app.upstreams.hold("api")
    assert scraped(world)("upstream_held", upstream="api") == 1


def test_living_workers_and_their_slots_are_told(world):
    for n in range(2):
        world.store.appear(
            Presence(
                worker=f"w{n}",
                host="h",
                pid=n,
                version="1",
                queues=None,
                tasks=("add",),
                concurrency=10,
                running=n,
            )
        )
    told = scraped(world)
    found = [told(name) for name in ("workers", "worker_slots", "worker_slots_busy")]
    assert found == [2, 20, 1]
    assert list(told.all("build_info", "version")) == [seawall.__version__]


# --- formats, bounds, cost ----------------------------------------------------------------------


def test_what_is_told_is_what_is_declared_in_both_formats(make_world):
    world = make_world()
    world.failed()
    kinds = {metric.name.removesuffix("_total"): metric.kind for metric in METRICS}

    plain = world.get("/metrics")
    openly = world.get("/metrics", headers={"accept": "application/openmetrics-text"})

    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert openly.headers["content-type"].startswith("application/openmetrics-text")
    for families in (text_string_to_metric_families(plain.text), open_families(openly.text)):
        assert {each.name.removesuffix("_total"): Kind(each.type) for each in families} == kinds


def test_every_sample_has_the_labels_that_are_declared(make_world):
    world = make_world()
    world.failed()
    world.store.observe([Observation("api", "w1", firsts=1)])
    labels = {metric.name.removesuffix("_total"): set(metric.labels) for metric in METRICS}

    for family in text_string_to_metric_families(world.get("/metrics").text):
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == labels[family.name.removesuffix("_total")]


def test_a_hundred_names_are_told_and_the_rest_together(make_world):
    world = make_world()
    many = MOST_NAMES + 20
    lanes = [Lane(task=f"t{n}", queue=f"q{n}", upstream=f"u{n}") for n in range(many)]
    world.store.enqueue([NewJob(lane=lane, arguments="{}") for lane in lanes])
    world.store.enqueue([NewJob(lane=lanes[-1], arguments="{}")])

    told = scraped(world)

    by_task = told.all("jobs_created_total", "task")
    assert len(by_task) == MOST_NAMES + 1
    assert by_task["other"] == 20
    assert by_task[f"t{many - 1}"] == 2  # the busiest has its name
    for name, label in (("queue_depth", "queue"), ("upstream_waiting_jobs", "upstream")):
        found = told.all(name, label)
        assert len(found) == MOST_NAMES + 1
        assert sum(found.values()) == many + 1


def test_who_has_a_name_keeps_it_so_that_no_counter_goes_back():
    named = Named(2)
    named.saw({("a",): 1, ("b",): 3, ("c",): 2})
    named.saw({("a",): 9, ("b",): 3, ("c",): 2})
    assert [named.of(each) for each in "abc"] == [("other",), ("b",), ("c",)]


def test_scrapes_at_about_the_same_time_share_a_look(make_world, monkeypatch):
    monkeypatch.setattr(telling, "SHOWN_SECONDS", 3_600.0)
    world = make_world()
    first = world.get("/metrics").text
    world.job()
    assert world.get("/metrics").text == first


def test_a_missing_library_is_one_clear_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ConfigurationError, match=r"^metrics need prometheus-client: pip install"):
        telling.need_client()


# --- a worker's own port ------------------------------------------------------------------------


def asked(port, path="/metrics"):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_port_of_its_own_tells_the_same_and_nothing_else(make_world):
    world = make_world()
    world.failed()
    (port,) = free_ports(1)
    with listening(world.house.metrics, port):
        status, text = asked(port)
        assert status == 200
        assert samples(text) == scraped(world).found
        assert asked(port, "/") == (404, "metrics are at /metrics\n")
    with pytest.raises(OSError, match="refused"):
        asked(port)


def test_a_store_that_is_away_is_one_line(make_world, monkeypatch):
    world = make_world()
    (port,) = free_ports(1)

    def away():
        raise StoreUnavailableError("postgresql://s3cr3t")

    monkeypatch.setattr(world.house.metrics._reader, "look", away)
    with listening(world.house.metrics, port):
        assert asked(port) == (503, "the store does not answer\n")
    assert world.get("/metrics").status_code == 503


def test_a_port_that_is_taken_is_one_line(make_world):
    world = make_world()
    (port,) = free_ports(1)
    with (
        listening(world.house.metrics, port),
        pytest.raises(ConfigurationError, match="choose another --metrics-port"),
        listening(world.house.metrics, port),
    ):
        pass
