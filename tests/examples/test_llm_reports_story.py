"""The one command of `examples/llm_reports`: what it says, and what it leaves."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from seawall import Seawall

ROOT = Path(__file__).parents[2]
PLACES = ["--s3", "file"] if "CI" in os.environ else ["file"]


@pytest.mark.parametrize("place", PLACES)
def test_its_one_command_tells_the_story_and_leaves_every_report(place, tmp_path):
    words = [] if place == "file" else [place]
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(
            ("SEAWALL_", "AWS_", "REPORTS_", "OPENAI_", "PYTHONDONTWRITEBYTECODE")
        )
    }
    ours["PYTHONPYCACHEPREFIX"] = str(tmp_path / "cache")  # compiled once for all its processes
    done = subprocess.run(
        [sys.executable, "-m", "examples.llm_reports", "--folder", tmp_path / "here", *words],
        cwd=ROOT, env=ours, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for told in (
        "$ kill -9",
        "inbox/torn.md.json is corrupt: no JSON",
        "inbox/photo.png: reports are made of .md and .txt alone",
        "inbox/lost.txt: there is no such object",
        "it said: I'd be glad to! What is it about?",
        "2 jobs are sent again.",
        "16 rows and 16 objects, for 16 documents that could be read.",
        "retry rate", "final failure rate", "mean time to success", "schema failures",
        "2 raw outputs kept",
        "The books balance.",
    ):  # fmt: skip
        assert told in done.stdout
    assert "sk-examples" not in done.stdout + (tmp_path / "here" / "worker.log").read_text()
    history_is_what_was_told(tmp_path / "here")


def history_is_what_was_told(folder):
    """The killed worker's attempts are in it; no stage that was written down was done again."""
    app = Seawall(f"sqlite:///{folder}/jobs.db")
    attempts = [each for job in app.jobs(limit=50) for each in app.job(job.id).attempts()]
    lost = [each for each in attempts if each.outcome == "lost"]
    assert lost
    assert {each.fault.code for each in lost} == {"WORKER_LOST"}
    done = Counter(
        (each.job_id, each.cycle, each.stage)
        for each in attempts
        if each.outcome in ("advanced", "succeeded")
    )
    assert set(done.values()) == {1}
    app.close()
