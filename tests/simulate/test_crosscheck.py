"""The simulator and real workers agree: one small scenario, in virtual and in real time."""

import subprocess
import sys
from pathlib import Path

import pytest

from seawall.simulate import load_scenario
from seawall.simulate.engine import run
from tests.simulate.real import application

ROOT = Path(__file__).parents[2]
ERRORS = """
[load]
jobs = 300
[workers]
count = 2
concurrency = 10
[service]
distribution = "fixed"
mean_seconds = 0.02
[[phases]]
is = "errors"
rate = 0.3
status = 503
[policies.three]
max_attempts = 3
rules = [{ on = "all", backoff = { curve = "fixed", base_seconds = 0.3, jitter = "proportional" } }]
[[choices]]
policy = "three"
upstream = false
"""
OUTAGE = """
[load]
jobs = 200
[workers]
count = 2
concurrency = 5
[service]
distribution = "fixed"
mean_seconds = 0.05
[[phases]]
is = "down"
answer_seconds = 0.05
seconds = 4
[[phases]]
is = "healthy"
[policies.three]
max_attempts = 3
rules = [{ on = "all", backoff = { curve = "fixed", base_seconds = 0.3, jitter = "proportional" } }]
[[choices]]
policy = "three"
upstream = { retry_budget = false, breaker = { ramp_seconds = 1, open = { curve = "fixed", base_seconds = 1 } } }
"""


def simulated(scenario):
    """Calls, failed calls and dead letters: the least and the most of some seeds."""
    runs = [run(scenario, scenario.choices[0], seed) for seed in range(20)]
    found = [(each.calls, each.failed_calls, each.dead) for each in runs]
    return [(min(column), max(column)) for column in zip(*found, strict=True)]


def in_real_time(scenario, file, folder):
    app, call, _ = application(folder / "jobs.db", scenario)
    app.enqueue_many(call.job(n) for n in range(scenario.load.jobs))
    workers = [
        subprocess.Popen(
            [
                sys.executable, "-m", "tests.simulate.real", str(folder / "jobs.db"), str(file),
                str(number),
            ],
            cwd=ROOT,
        )
        for number in range(scenario.workers.count)
    ]  # fmt: skip
    for worker in workers:
        assert worker.wait(120) == 0
    store = app.store
    jobs = store.jobs(list(range(1, scenario.load.jobs + 1)))
    attempts = [each for job in jobs for each in store.attempts(job)]
    failed = [each for each in attempts if each.fault is not None]
    assert all(str(job.state) in ("succeeded", "failed") for job in jobs.values())
    dead = sum(str(job.state) == "failed" for job in jobs.values())
    app.close()
    return len(attempts), len(failed), dead


@pytest.mark.parametrize(("text", "slack"), [(ERRORS, 0.15), (OUTAGE, 0.30)])
def test_real_workers_come_to_what_was_simulated(tmp_path, text, slack):
    """Within the spread of twenty seeds, and some slack for a machine that is busy."""
    file = tmp_path / "small.toml"
    file.write_text(text, "utf-8")
    scenario = load_scenario(file)
    expected, found = simulated(scenario), in_real_time(scenario, file, tmp_path)
    for (least, most), real in zip(expected, found, strict=True):
        room = slack * most + 8
        assert least - room <= real <= most + room, (expected, found)
