"""The API does what it says of itself: schemathesis asks it whatever its description allows."""

import subprocess
import sys

import pytest

from seawall.web.rates import Rates
from tests.web.served import served

# What a task takes is told by its own check, in a line; the description knows no tasks. Nor does it
# know which addresses are public. A stream has no end: tests/web/test_live.py listens to it.
CONFIG = """
[[operations]]
include-name = "POST /api/webhooks"
checks.positive_data_acceptance.enabled = false

[[operations]]
include-name = "POST /api/jobs"
checks.positive_data_acceptance.enabled = false

[[operations]]
include-name = "GET /api/events"
enabled = false
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('described')}/jobs.db"
    with served(url, requests_per_second=1_000_000) as made:
        made.server._house.failures = Rates(1e6, 1e6)  # it shows wrong tokens by the hundred
        with made.client("owner") as client:
            for n in range(3):
                client.post("/api/jobs", json={"task": "add", "arguments": {"a": n}})
        yield made


def test_schemathesis_finds_nothing(server, tmp_path):
    (tmp_path / "schemathesis.toml").write_text(CONFIG, "utf-8")
    done = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "--config-file", "schemathesis.toml", "run",
            f"{server.address}/api/openapi.json",
            "-H", f"Authorization: Bearer {server.words['operator']}",
            "--phases", "examples,coverage,fuzzing", "--max-examples", "4", "--seed", "1",
            "--generation-database", "none", "--no-color", "--continue-on-failure",
        ],
        cwd=tmp_path, capture_output=True, text=True, timeout=550, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    assert "No issues found" in done.stdout or "passed" in done.stdout, done.stdout[-2_000:]


def test_the_description_names_every_problem_and_how_to_sign_in(server):
    with server.client("nobody") as client:
        told = client.get("/api/openapi.json").json()
    assert set(told["components"]["securitySchemes"]) == {"token", "session"}
    for path in told["paths"].values():
        for operation in path.values():
            problem = operation["responses"]["default"]["content"]
            assert list(problem) == ["application/problem+json"]
            assert "422" not in operation["responses"]
