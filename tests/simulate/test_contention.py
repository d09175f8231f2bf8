"""Contention agrees with the well-known study of exponential back-off and jitter."""

import json
import subprocess
import sys

import pytest

from seawall.errors import ConfigurationError
from seawall.simulate import contention

# Means of 400 runs of the study's own model with 100 clients, each with its standard error.
KNOWN = {
    "none": ((2030.2, 2.3), (2423.6, 1.6)),
    "exponential": ((63681.7, 191.5), (1860.9, 2.9)),
    "equal": ((6675.5, 33.5), (812.5, 0.4)),
    "full": ((4876.6, 26.4), (796.0, 0.3)),
    "decorrelated": ((4613.3, 34.2), (1001.9, 1.3)),
}


@pytest.mark.parametrize("backoff", KNOWN)
def test_time_and_calls_are_those_of_the_study(backoff):
    found = contention(100, backoff, runs=100)
    for ours, (mean, error) in zip((found.time_ms, found.calls), KNOWN[backoff], strict=True):
        # Both are estimates: their difference is within four of its standard errors.
        both = ((ours.margin / 1.96) ** 2 + error**2) ** 0.5
        assert abs(ours.mean - mean) <= 4 * both, (backoff, ours, mean)


def test_jitter_takes_fewer_calls_than_none_and_less_time_than_none():
    plain, full = contention(60, "exponential", runs=30), contention(60, "full", runs=30)
    assert full.calls.high < plain.calls.low
    assert full.time_ms.high < plain.time_ms.low


def test_a_single_client_writes_once_after_four_messages():
    found = contention(1, "full", runs=200)
    assert found.calls.mean == 1
    assert found.time_ms.low < 40 < found.time_ms.high


def test_the_same_seed_is_the_same_and_another_is_not():
    assert contention(20, "full", runs=5, seed=3) == contention(20, "full", runs=5, seed=3)
    assert contention(20, "full", runs=5, seed=3) != contention(20, "full", runs=5, seed=4)


@pytest.mark.parametrize(
    ("clients", "backoff", "runs", "says"),
    [
        (0, "full", 1, "clients: found 0, expected 1 to 10000"),
        (1, "full", 0, "runs: found 0, expected 1 to 100000"),
        (1, "fuul", 1, "backoff: found 'fuul', expected one of none, exponential, equal, full"),
    ],
)
def test_what_cannot_be_is_refused(clients, backoff, runs, says):
    with pytest.raises(ConfigurationError, match=says):
        contention(clients, backoff, runs=runs)


def test_the_command_prints_what_it_promises():
    given = {"--clients": "20", "--runs": "5", "--backoff": "full"}
    command = ["simulate", "contention", *(w for pair in given.items() for w in pair), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "seawall", *command], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert list(found) == [
        "clients", "backoff", "runs", "time_ms_mean", "time_ms_ci95", "calls_mean", "calls_ci95",
    ]  # fmt: skip
    assert (found["clients"], found["backoff"], found["runs"]) == (20, "full", 5)
    low, high = found["calls_ci95"]
    assert low <= found["calls_mean"] <= high
