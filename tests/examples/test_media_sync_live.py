"""Whole workers between a hook and a media server that dies, scans and refuses, and the story."""

import os
import re
import subprocess
import sys

import httpx2
import pytest

from examples.media_sync.app import app, update
from examples.media_sync.client import Metadata
from examples.media_sync.hook import api
from examples.media_sync.peers import until
from seawall import State
from tests.examples.media_sync_world import synchronising
from tests.support.processes import quick_to_start
from tests.sync.web import served

FILM = Metadata(title="A film")
PATHS = [f"{number}.mkv" for number in range(12)]


@pytest.fixture
def sync(tmp_path):
    with synchronising(tmp_path) as made:
        yield made


def all_done(jobs):
    return all(job.state is State.SUCCEEDED for job in jobs)


def test_a_media_server_that_dies_is_held_and_costs_no_dead_letter(sync):
    sync.server.has(*PATHS)
    sync.start_worker()
    sync.server.die()
    jobs = [update.enqueue(path, FILM) for path in PATHS]
    until(sync.held, "it is held")
    until(lambda: app.upstreams.get("media-server").openings > 1, "a probe has failed")
    assert {job.state for job in jobs} <= {State.QUEUED, State.RUNNING}
    held = sync.said("upstream_held")
    assert held, "the log tells of it"
    assert held[0]["upstream"] == "media-server"
    charged = [each for job in jobs for each in job.attempts() if each.counted]
    assert len(charged) <= 5 + 1, "five in a row, and what ran beside the last"

    sync.server.start()
    until(lambda: all_done(jobs), "all are synchronised")
    assert all(sync.server.item(path) == {"title": "A film"} for path in PATHS)
    assert sync.said("upstream_released")
    assert not app.dead_letters()
    tries = [sum(each.counted for each in job.attempts()) for job in jobs]
    assert max(tries) < 6, "nobody has used up his five retries in an outage"


def test_a_worker_that_is_killed_takes_no_count_of_retries_with_it(sync):
    job = update.enqueue("slow.mkv", FILM)
    first = sync.start_worker()
    until(lambda: job.job().tries >= 2, "it was tried twice")
    first.kill()
    before = job.job().tries
    sync.start_worker()
    until(lambda: job.job().tries >= before + 2, "another worker goes on from there")
    sync.server.has("slow.mkv")
    until(lambda: all_done([job]), "it is synchronised")
    history = job.attempts()
    assert [each.seq for each in history] == list(range(1, len(history) + 1))
    assert len({each.worker for each in history}) == 2
    not_found = [each for each in history if each.fault and each.fault.code == "NOT_READY"]
    assert all(each.counted and each.delay_seconds >= 0.2 for each in not_found), "never at once"


def test_what_is_refused_fills_the_dead_letters_and_holds_nothing(sync):
    sync.server.has("film.mkv")
    sync.start_worker()
    assert app.settings.dead_letters_every == 10
    bad = app.enqueue_many(update.job(f"{number}", Metadata(title="")) for number in range(11))
    until(lambda: all(job.state is State.FAILED for job in bad), "they have failed")
    assert not sync.held()
    assert not sync.said("upstream_held")
    update.enqueue("film.mkv", FILM).wait(60)

    until(lambda: sync.said("dead_letters_new"), "the log tells of ten new ones")
    told = sync.said("dead_letters_new")[0]
    assert (told["new"] >= 10, told["letters"] >= 10, len(told["newest"])) == (True, True, 5)
    for line in told["newest"]:
        job, code, message = re.fullmatch(r"(.*?): (\w+): (.*)", line).groups()
        assert re.fullmatch(r"job \d+ \(update, stage 0\)", job)
        assert code == "INVALID_REQUEST"
        assert len(message) <= 100
    assert len(app.dead_letters()) == 11


def test_an_event_is_one_job_however_often_it_is_sent(sync):
    event = {"id": "e-1", "path": "film.mkv", "metadata": {"title": "A film"}}
    with served(api) as address, httpx2.Client(base_url=address) as client:
        first, second = (client.post("/events", json=event) for _ in range(2))
        assert (first.status_code, first.json()["new"]) == (202, True)
        assert second.json() == {"job": first.json()["job"], "new": False}
        other = client.post("/events", json={**event, "path": "another.mkv"})
        assert other.status_code == 409
        assert client.post("/events", json={**event, "metadata": {}}).status_code == 422


def test_the_one_command_tells_the_story_and_leaves_nothing_behind(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "examples.media_sync", str(tmp_path / "here")],
        env={**os.environ, **quick_to_start(tmp_path)},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for said in (
        "sent again, it is still job 1",
        "× NOT_READY, each time a longer wait; then the file was there.",
        "Its upstream media-server is held",
        "All 20 are synchronised; dead letters: 0.",
        "dead_letters_new new=1 letters=1",
        "INVALID_REQUEST 400",
        "It went through.",
        "No job is lost",
    ):
        assert said in done.stdout
    assert done.stderr == ""
    log = (tmp_path / "here" / "worker.log").read_text()
    assert "worker_stopped" in log
