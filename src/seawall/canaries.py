"""Canaries: a few jobs that go ahead of many, to see whether what broke them is mended."""

import time
from collections.abc import Sequence
from typing import Literal

from seawall.errors import StoreUnavailableError
from seawall.states import FINISHED, State
from seawall.store import DeadLetter, Store

CanaryEnd = Literal["", "succeeded", "failed", "undecided"]

_FIRST_LOOK_SECONDS = 0.05
_LONGEST_LOOK_SECONDS = 0.5
_WELL = frozenset({State.SUCCEEDED, State.SKIPPED})


def chosen(letters: Sequence[DeadLetter], most: int) -> list[DeadLetter]:
    """So many of them, of as many different kinds as may be."""
    kinds: dict[tuple[str, int, str], list[DeadLetter]] = {}
    for each in letters:
        kinds.setdefault((each.task, each.stage, each.fingerprint), []).append(each)
    found: list[DeadLetter] = []
    while len(found) < min(most, len(letters)):
        for alike in kinds.values():
            if alike and len(found) < most:
                found.append(alike.pop(0))
    return found


def became(store: Store, job_ids: Sequence[int], within_seconds: float) -> CanaryEnd:
    """Wait for their ends, for so long and no longer; one that fails decides at once."""
    deadline = time.monotonic() + within_seconds
    pause = _FIRST_LOOK_SECONDS
    while True:
        states = _states(store, job_ids)
        if states is not None:
            if any(state in FINISHED - _WELL for state in states):
                return "failed"
            if all(state in _WELL for state in states):
                return "succeeded"
        left = deadline - time.monotonic()
        if left <= 0:
            return "undecided"
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, _LONGEST_LOOK_SECONDS)


def _states(store: Store, job_ids: Sequence[int]) -> list[State] | None:
    """Where they stand; None while the store does not answer.

    One that is gone has succeeded: of what has failed, nothing is pruned so soon.
    """
    try:
        jobs = store.jobs(job_ids)
    except StoreUnavailableError:
        return None
    return [jobs[each].state if each in jobs else State.SUCCEEDED for each in job_ids]
