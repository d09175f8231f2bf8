"""With two workers, one of them killed, the metrics are what the script did: no more, no less."""

import urllib.request
from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from seawall import Seawall
from seawall.metrics import Metrics
from seawall.metrics.listening import listening
from seawall.states import State
from seawall.store import Store
from tests.life import tasks
from tests.life.world import Crew, Effects, await_state, enqueued
from tests.support.processes import free_ports


@pytest.fixture
def scrape(url: str):
    """All samples that are not 0, by metric and by labels but the queue; the task first."""
    (port,) = free_ports(1)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    app = Seawall(url)

    def scraped() -> dict[str, dict[tuple[str, ...], float]]:
        with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                task = sample.labels.pop("task", "")
                rest = [value for label, value in sample.labels.items() if label != "queue"]
                if sample.value:
                    found.setdefault(sample.name, {})[task, *rest] = sample.value
        return found

    with listening(Metrics(app.store, app.upstreams), port):
        yield scraped
    app.close()


def test_the_counts_are_the_scripts_with_two_workers_and_a_kill_in_between(
    url: str, store: Store, crew: Crew, effects: Effects, scrape
):
    noops = enqueued(store, *[tasks.noop.job()] * 20)
    shaky = enqueued(store, *[tasks.shaky.job()] * 3)
    hopeless = enqueued(store, *[tasks.hopeless.job()] * 2)
    captured = enqueued(store, tasks.captures.job("well"), tasks.captures.job("ill", fail=True))
    (skipped,) = enqueued(store, tasks.ends_apart.job("skip"))
    (cancelled,) = enqueued(store, tasks.noop.using(run_after=timedelta(hours=1)).job())
    store.cancel([cancelled])
    workers = [crew.stand_by(concurrency=4) for _ in range(2)]
    for each in workers:
        each.begin()
    await_state(store, State.SUCCEEDED, *noops, *shaky, captured[0])
    await_state(store, State.FAILED, *hopeless, captured[1])
    await_state(store, State.SKIPPED, skipped)
    (long,) = enqueued(store, tasks.slow.job(3.0))
    (began,) = effects.await_("began", [long])
    (killed,) = [each for each in workers if each.pid == began.worker_pid]
    killed.kill()
    noops += enqueued(store, *[tasks.noop.job()] * 5)
    await_state(store, State.SUCCEEDED, *noops, long)
    told = scrape()

    created = told["seawall_jobs_created_total"]
    assert created["noop",] == 26
    assert created["slow",] == 1
    completed = told["seawall_jobs_completed_total"]
    assert {key: many for key, many in completed.items() if key[0] != "work"} == {
        ("noop", "succeeded"): 25, ("noop", "cancelled"): 1, ("shaky", "succeeded"): 3,
        ("hopeless", "failed"): 2, ("captures", "succeeded"): 1, ("captures", "failed"): 1,
        ("ends_apart", "skipped"): 1, ("slow", "succeeded"): 1,
    }  # fmt: skip
    assert told["seawall_jobs_failed_total"] == {
        ("hopeless", "UNAVAILABLE"): 2, ("captures", "INVALID_RESPONSE"): 1,
    }  # fmt: skip
    attempts = told["seawall_attempts_total"]
    assert attempts["slow", "lost"] == 1
    assert attempts["slow", "succeeded"] == 1
    assert told["seawall_retries_scheduled_total"]["shaky", "UNAVAILABLE"] == 3
    assert told["seawall_retries_scheduled_total"]["hopeless", "UNAVAILABLE"] == 4
    assert told["seawall_schema_failures_total"] == {("captures",): 1}
    assert told["seawall_raw_captures_total"]["captures",] == 2
    assert told["seawall_dead_letters_open"] == {
        ("hopeless", "UNAVAILABLE"): 2, ("captures", "INVALID_RESPONSE"): 1,
    }  # fmt: skip
    assert told["seawall_time_to_success_seconds_count"]["noop",] == 25
    assert sum(many for key, many in attempts.items() if key[0] != "work") == (
        25 + 3 * 2 + 2 * 3 + 2 + 1 + 2
    )
