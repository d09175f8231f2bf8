"""The whole system under many seeds: real store, real workers, and trouble at every statement.

`SEAWALL_SYSTEM_SEEDS=5000` runs so many. A seed that fails is run again alone, step by step, with
`python -m seawall.simulate.system --first SEED --seeds 1`.
"""

import os
import subprocess
import sys
from collections import Counter

import pytest

from seawall.simulate import system
from seawall.simulate.system import BrokenPromiseError, System, run_seed
from seawall.worker.core import Core
from seawall.worker.upkeep import Upkeep

PARTS = 4
SEEDS = int(os.environ.get("SEAWALL_SYSTEM_SEEDS", "120"))


@pytest.mark.parametrize("part", range(PARTS))
def test_every_promise_holds_under_every_seed(part):
    trouble = Counter()
    for seed in range(part, SEEDS, PARTS):
        trouble += run_seed(seed).trouble
    kinds = {"died", "killed", "error", "lost answer", "stood still", "clock jumped"}
    assert set(trouble) == kinds, "some trouble never came"


def test_a_seed_replays_exactly():
    assert run_seed(11) == run_seed(11)


def test_a_seed_replays_exactly_in_another_process():
    command = [sys.executable, "-m", "seawall.simulate.system", "--first", "5", "--seeds", "2"]
    found = {
        subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": dice},
        ).stdout
        for dice in ("1", "2")
    }
    assert len(found) == 1
    assert "2 seeds, every promise held" in found.pop()


# --- broken on purpose ----------------------------------------------------------------------------


def first_broken(seeds, make=System):
    for seed in seeds:
        try:
            make(seed).run()
        except BrokenPromiseError as broken:
            return str(broken)
    return None


@pytest.fixture(autouse=True)
def silent(monkeypatch):
    monkeypatch.setattr(system.LOGGER, "disabled", True)


def test_a_worker_that_forgets_ends_when_the_store_is_away_is_caught(monkeypatch):
    sound = Core._turn_failed

    def forgets(core, now):
        core._settlements.clear()
        sound(core, now)

    monkeypatch.setattr(Core, "_turn_failed", forgets)
    assert "all end" in first_broken(range(60))


def test_a_fleet_that_never_takes_jobs_back_is_caught(monkeypatch):
    monkeypatch.setattr(Upkeep, "reclaim", lambda upkeep: None)
    assert "all end" in first_broken(range(5))


def test_a_store_that_does_not_count_tries_is_caught():
    def careless(seed):
        made = System(seed)
        sound = made.backend._sql
        made.backend._sql = {
            name: sql.replace("tries = tries + given.counted", "tries = tries")
            for name, sql in sound.items()
        }
        assert made.backend._sql != sound
        return made

    assert "verify" in first_broken(range(5), careless)


def test_a_claim_that_is_given_to_two_is_caught():
    made = System(0)
    made.started((1, 1, 1))
    with pytest.raises(BrokenPromiseError, match="once"):
        made.started((1, 1, 1))
