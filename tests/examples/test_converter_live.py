"""Whole workers before a gateway that fails, is slow and comes back; signals, kills, and the story."""

import os
import subprocess
import sys

import httpx2
import pytest

from examples.converter.app import app, result_of
from examples.converter.peers import free_port, until
from seawall import State
from tests.examples.converter_world import at_work, uploaded
from tests.support.processes import quick_to_start


@pytest.fixture
def shop(tmp_path):
    with at_work(tmp_path) as made:
        yield made


def xml_of(job):
    return result_of(job.arguments()["document"]).read_text()


def test_sigterm_lets_a_conversion_finish_and_nothing_more_is_begun(shop):
    worker = shop.worker()
    shop.gateway.told(seconds=1.5)
    first = uploaded()
    shop.begun()
    worker.terminate()
    until(lambda: shop.said("worker_stopping"), "it has heard")
    second = uploaded()
    assert worker.wait(60) == 0
    assert (first.state, second.state) == (State.SUCCEEDED, State.QUEUED)
    assert "The sea is calm" in xml_of(first)
    assert len(shop.gateway.calls()) == 1
    assert second.attempts() == []


def test_what_cannot_finish_after_sigterm_is_queued_again_cleanly_and_uncharged(shop):
    worker = shop.worker(SEAWALL_GRACE_SECONDS="0.2", WORKER_LEASE_TTL_SEC="60")
    shop.gateway.told(seconds=600)
    job = uploaded()
    shop.begun()
    worker.terminate()
    assert worker.wait(60) == 0
    row = job.job()
    assert (row.state, row.tries, row.lease, row.losses) == (State.QUEUED, 0, None, 0)
    assert not list(result_of("x").parent.glob("*.xml"))
    shop.gateway.is_well()
    shop.worker()
    assert job.wait(60) == "sea.xml"


def test_a_conversion_outlives_its_lease_by_renewal_and_nobody_else_begins_it(shop):
    for _ in range(2):
        shop.worker()
    shop.gateway.told(seconds=5)
    job = uploaded()
    assert job.wait(60) == "sea.xml"
    (attempt,) = job.attempts()
    assert attempt.duration.total_seconds() > 4, "twice as long as the lease"
    assert len(shop.gateway.calls()) == 1
    assert not shop.said("reclaimed")


@pytest.fixture(params=["sqlite", "postgres18"])
def either_shop(request, tmp_path):
    """On either store."""
    url = None
    if request.param != "sqlite":
        url = request.getfixturevalue("postgres_fleet").server("18").new_url()
    with at_work(tmp_path, url) as made:
        yield made


def test_a_conversion_whose_worker_is_killed_is_done_by_another(either_shop):
    shop = either_shop
    worker = shop.worker()
    shop.gateway.told(seconds=30)
    job = uploaded()
    shop.begun()
    worker.kill()
    worker.wait()
    shop.gateway.is_well()
    shop.worker()
    assert job.wait(60) == "sea.xml"
    lost, done = job.attempts()
    assert (lost.outcome, lost.fault.code, lost.counted) == ("lost", "WORKER_LOST", False)
    assert (done.outcome, job.job().tries) == ("succeeded", 1)
    first, second = shop.gateway.calls()
    assert first == second, "the gateway can tell that it is the same conversion"
    assert "The sea is calm" in xml_of(job)


def test_a_gateway_that_fails_is_held_and_resumes_by_itself(shop):
    port = free_port()
    shop.worker("--metrics-port", str(port), RETRY_MAX_ATTEMPTS="4")
    shop.gateway.told(status=502)
    jobs = [uploaded(f"{number}.pdf") for number in range(8)]
    until(lambda: app.upstreams.get("gateway").is_held, "it is held")
    until(lambda: shop.said("upstream_held"), "the log says so")
    calls = len(shop.gateway.calls())
    assert calls <= 6 + 1, "a window of six, and one that was under way"
    states = {job.state for job in jobs}
    assert State.QUEUED in states
    assert states <= {State.QUEUED, State.RUNNING}
    until(lambda: len(shop.said("upstream_held")) > 1, "its health is asked for, in vain")
    assert len(shop.gateway.calls()) <= calls + 1, "and no job is sent to find out"

    shop.gateway.is_well()
    until(lambda: all(job.state is State.SUCCEEDED for job in jobs), "all are converted")
    until(lambda: shop.said("upstream_released"), "the log says so")
    retried = shop.said("retry_scheduled")[0]
    assert (retried["status"], retried["fault_code"], retried["upstream"]) == (
        502, "UPSTREAM_ERROR", "gateway",
    )  # fmt: skip
    assert {"job", "state", "attempt", "max_attempts", "duration_ms", "delay_ms", "breaker"} <= set(
        retried
    )
    done = shop.said("job_succeeded")
    assert {each["job"] for each in done} == {job.id for job in jobs}
    assert {"state", "attempt", "duration_ms"} <= set(done[0])
    metrics(port, len(jobs))


def metrics(port, jobs):
    """What is counted: every counter and gauge that the document names."""
    told = httpx2.get(f"http://127.0.0.1:{port}/metrics").text
    values = dict(line.rsplit(" ", 1) for line in told.splitlines() if not line.startswith("#"))
    found = {name.partition("{")[0]: float(value) for name, value in values.items()}
    assert found["seawall_jobs_created_total"] == jobs
    assert found["seawall_jobs_completed_total"] == jobs
    assert found["seawall_retries_scheduled_total"] >= 1
    assert found["seawall_upstream_open_seconds_total"] > 0
    assert "seawall_queue_depth" in found
    assert "seawall_upstream_call_duration_seconds_bucket" in found


def test_the_one_command_tells_the_story(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "examples.converter", str(tmp_path / "here")],
        env={**os.environ, **quick_to_start(tmp_path)},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for said in (
        "<line>The sea is calm</line>",
        "GW_4XX after 1 attempt: The converter could not accept this file.",
        "odd.pdf is not there any more: upload it again",
        "Retry by somebody else: There is no such job.",
        "Converter busy — jobs will resume automatically.",
        "The gateway is well again: 6 of 6 are complete, with no click.",
        "No job is lost",
    ):
        assert said in done.stdout
    assert done.stderr == ""
