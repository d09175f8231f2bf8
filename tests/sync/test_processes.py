"""Callers that are killed, stopped and interrupted: their jobs are never lost, nor settled twice."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from seawall import Done, Failed, HandedOver, State
from seawall.model import Outcome, Token
from seawall.store import Result
from tests.life.world import PATIENCE_SECONDS, ROOT, eventually
from tests.sync.jobs import application
from tests.sync.upstream import Said


@pytest.fixture(params=["file", "postgres18"])
def kind(request):
    return request.param


@contextmanager
def caller(url, face, task, *arguments, seconds=30.0):
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.sync.caller",
            face,
            task,
            str(seconds),
            json.dumps(arguments),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "SEAWALL_URL": url},
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def ended(process):
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return out, err


def outcomes(app, job_id):
    return [attempt.outcome for attempt in app.job(job_id).attempts()]


def lapses(app, job):
    """Let the lease of a caller that is gone end now, and not when it would have."""
    token = Token(job.id, job.lease_no, job.seq + 1)
    (answer,) = app.store.renew([token], lease_seconds=0.01)
    assert answer.result is Result.DONE


@pytest.mark.parametrize(("face", "task"), [("sync", "look"), ("async", "ask")])
def test_a_caller_that_is_killed_inline_leaves_its_job_to_a_worker(
    app, url, upstream, hire, face, task
):
    service = upstream(Said(seconds=30))
    with caller(url, face, task, service.url) as process:
        eventually(lambda: service.calls)
        process.kill()
        process.wait()
    (job,) = app.jobs(key="k")
    assert job.state is State.RUNNING
    left = (job.lease.until - app.store.now()).total_seconds()
    assert left <= 35, "as long as it would have waited, and 5 s more"
    lapses(app, job)
    hire(app)
    assert app.job(job.id).wait(PATIENCE_SECONDS) == {"answer": "short"}
    assert outcomes(app, job.id) == [Outcome.LOST, Outcome.SUCCEEDED]
    first, second = service.calls
    assert first["idempotency-key"] == second["idempotency-key"]


def test_a_caller_that_wakes_up_too_late_settles_nothing_and_answers_as_the_job_stands(
    app, url, upstream, hire
):
    service = upstream(Said(seconds=1), Said(body='{"answer": "by a worker"}'))
    with caller(url, "sync", "look", service.url) as process:
        eventually(lambda: service.calls)
        os.kill(process.pid, signal.SIGSTOP)
        (job,) = app.jobs(key="k")
        lapses(app, job)
        hire(app)
        app.job(job.id).wait(PATIENCE_SECONDS)
        os.kill(process.pid, signal.SIGCONT)
        out, err = ended(process)
    assert json.loads(out) == {"answer": "Done", "job": job.id, "value": {"answer": "by a worker"}}
    assert (process.returncode, err) == (0, "")
    assert outcomes(app, job.id) == [Outcome.LOST, Outcome.SUCCEEDED]


@pytest.mark.parametrize("kind", ["file"])
@pytest.mark.parametrize(("face", "task"), [("sync", "look"), ("sync", "ask"), ("loop", "ask")])
def test_ctrl_c_hands_the_job_back_uncharged(app, url, upstream, face, task):
    service = upstream(Said(seconds=30))
    with caller(url, face, task, service.url) as process:
        eventually(lambda: service.calls)
        process.send_signal(signal.SIGINT)
        _, err = ended(process)
    assert "KeyboardInterrupt" in err
    (job,) = app.jobs(key="k")
    assert (job.state, job.tries, job.losses) == (State.QUEUED, 0, 0)
    assert outcomes(app, job.id) == [Outcome.RELEASED]


def test_a_caller_and_a_reclaimer_never_both_settle(url, upstream, hire, monkeypatch):
    """The lease ends just when the answer comes, again and again: whoever is first, is first."""
    monkeypatch.setattr("seawall.sync_path.call.LEASE_MARGIN_SECONDS", 0.05)
    app = application(url, poll_seconds=0.05, lease_seconds=0.5, inline_seconds=0.5)
    hire(app)
    service = upstream(*[Said(seconds=0.40 + 0.02 * n) for n in range(12)])
    answers = []
    threads = [
        threading.Thread(
            target=lambda: answers.append(app.tasks["unwatched"].call_or_enqueue(service.url))
        )
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 12
    for answer in answers:
        if isinstance(answer, HandedOver):
            answer.job.wait(PATIENCE_SECONDS)
        state = answer.job.state
        assert state is (State.FAILED if isinstance(answer, Failed) else State.SUCCEEDED)
        if isinstance(answer, Done):
            assert answer.job.result() == answer.value
        ends = [a.outcome for a in answer.job.attempts() if a.outcome is Outcome.SUCCEEDED]
        assert len(ends) == 1
    assert app.verify().violations == ()
    app.close()
