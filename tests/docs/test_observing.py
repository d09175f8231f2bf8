"""The page of error trackers: its Sentry snippet, as it stands, with the real SDK and a real receiver."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sentry import Sentry

PAGE = (Path(__file__).parent.parent.parent / "docs" / "observing.md").read_text("utf-8")
SOURCE = re.search(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)[1]
SECRET = "hunter2-Zq9Xplanted"
MORE = """

@app.task(policy="two-tries")
def flaky(card: str) -> None:
    local = {"card": card}
    raise FaultError("TIMEOUT", f"no answer for token={local['card']}")


@app.task(policy="sample-filter", isolated=True)
def apart(card: str) -> None:
    raise RuntimeError(f"broke with password={card}")
"""
POLICY = """
[policies.two-tries]
max_attempts = 2
[[policies.two-tries.rules]]
on = "all"
backoff = { curve = "fixed", base_seconds = 0.01 }
"""


@pytest.fixture
def received():
    with Sentry() as found:
        yield found


def seawall(folder, *words, dsn):
    done = subprocess.run(
        [sys.executable, "-m", "seawall", *words],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "SENTRY_DSN": dsn, "no_proxy": "*", "SEAWALL_APP": "jobs:app"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_final_failures_arrive_at_sentry_with_what_they_are_and_without_secrets(tmp_path, received):
    events = received.events
    (tmp_path / "jobs.py").write_text(SOURCE + MORE, "utf-8")
    (tmp_path / "seawall.toml").write_text(POLICY, "utf-8")
    program = (
        "import jobs\n"
        f"for task in (jobs.charge, jobs.flaky, jobs.apart): task.enqueue({SECRET!r})\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=120)
    said = seawall(tmp_path, "worker", "--drain", dsn=received.dsn)

    by_task = {event["tags"]["task"]: event for event in events}
    assert sorted(event["tags"]["task"] for event in events) == ["apart", "charge", "flaky"]
    charge, flaky, apart = by_task["charge"], by_task["flaky"], by_task["apart"]
    assert (charge["tags"]["fault_code"], charge["tags"]["attempt"]) == ("UNAUTHORIZED", 1)
    assert (flaky["tags"]["fault_code"], flaky["tags"]["attempt"]) == ("TIMEOUT", 2)
    raised = charge["exception"]["values"][-1]
    assert raised["type"] == "FaultError"
    assert "the gateway refused password=[redacted]" in raised["value"]
    assert raised["stacktrace"]["frames"][-1]["function"] == "charge"
    assert apart["tags"]["fault_code"] == "UNKNOWN"
    assert charge["contexts"]["job"]["id"] == 1
    assert charge["fingerprint"][0] == "charge"
    assert SECRET.encode() not in b"".join(received.bodies)
    assert SECRET not in said
