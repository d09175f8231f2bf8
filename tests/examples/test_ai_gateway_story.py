"""The one command of `examples/ai_gateway`: what it says, and what it leaves."""

import os
import re
import subprocess
import sys
from pathlib import Path

from seawall import Seawall

ROOT = Path(__file__).parents[2]
OURS = ("SEAWALL_", "OPENAI_", "ANTHROPIC_", "GATEWAY_", "PYTHONDONTWRITEBYTECODE")


def test_its_one_command_tells_the_story_with_real_processes(tmp_path):
    ours = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    folder = tmp_path / "here"
    ours["PYTHONPYCACHEPREFIX"] = str(tmp_path / "cache")  # compiled once for all its processes
    done = subprocess.run(
        [sys.executable, "-m", "examples.ai_gateway", "--folder", folder],
        cwd=ROOT, env=ours, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for told in (
        "OpenAI: 200", "Anthropic: 200", "It breaks once: 200", "It answers prose once: 200",
        "It breaks twice: 202", "It throttles, for 3 s: 202", "It refuses the request: 422",
        "It refuses the key: 500", "There is nothing to judge: 422",
        "No key stands in the log. The books balance.",
    ):  # fmt: skip
        assert told in done.stdout
    lines = re.findall(
        r"request_id=story-(\d) ai_code=(\w+) attempt=(\d) max_attempts=(\d) delay_ms=(\d+)",
        done.stdout,
    )
    inline = [int(delay) for *_, attempt, most, delay in lines[:3]]
    assert len(lines) == 5
    assert all(300 <= delay <= 800 for delay in inline)
    assert lines[-1][1] == "RATE_LIMITED"
    assert int(lines[-1][-1]) >= 3_000
    the_time_that_was_asked_for_was_kept(folder)


def the_time_that_was_asked_for_was_kept(folder):
    app = Seawall(f"sqlite:///{folder}/jobs.db")
    (throttled,) = [
        app.job(job.id)
        for job in app.jobs(limit=50)
        if any(
            each.fault and each.fault.code == "RATE_LIMITED" for each in app.job(job.id).attempts()
        )
    ]
    first, second = throttled.attempts()
    assert first.worker.startswith("inline:")
    assert not second.worker.startswith("inline:")
    assert (second.started_at - first.started_at).total_seconds() >= 3
    app.close()
