"""What follows a fault while somebody waits for the answer: again here, later elsewhere, or never.

Two policies have a say. The job's own says whether there is another attempt at all: a fault that is
fatal to it is fatal here too. The inline one says whether the caller waits for that attempt. What
it does not wait for is handed over to the workers, whose allowance is untouched: to them the job
has not failed yet.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from seawall.decisions.policy import SPREAD_LEAST_SECONDS, Fail, Policy, Reason, Retry
from seawall.faults import Fault

TAKE_BACK_SECONDS = 2.0
"""For so long after an inline retry was due the workers leave it to its caller."""


@dataclass(frozen=True, slots=True)
class Again:
    """Try again here after the delay; where nobody does, the workers may after `due_seconds`."""

    delay_seconds: float
    due_seconds: float


@dataclass(frozen=True, slots=True)
class HandOver:
    """Leave it to the workers, who may begin after the delay."""

    delay_seconds: float
    reason: Reason
    """Why there is no further attempt here, in the inline policy's word."""


def follows(
    fault: Fault,
    *,
    own: Policy,
    inline: Policy,
    attempt: int,
    earlier: Sequence[Fault],
    elapsed_seconds: float,
    patience_seconds: float,
    deadline_seconds: float | None,
    rng: random.Random,
) -> Again | HandOver | Fail:
    """What follows the inline attempt of that number, which failed by this fault.

    `earlier` are the faults of the inline attempts before it; `patience_seconds` is for how long
    its caller waits yet, `deadline_seconds` when the job itself is too late.
    """
    later = _later(fault, own, rng)
    if isinstance(later, Fail):
        return later
    here = inline.decide(
        fault, attempt=attempt, rng=rng, earlier=earlier, elapsed_seconds=elapsed_seconds
    )
    limit = (
        patience_seconds if deadline_seconds is None else min(patience_seconds, deadline_seconds)
    )
    if isinstance(here, Retry) and here.delay_seconds < limit:
        return Again(here.delay_seconds, max(later, here.delay_seconds + TAKE_BACK_SECONDS))
    if deadline_seconds is not None and later >= deadline_seconds:
        return Fail("deadline")
    return HandOver(later, here.reason if isinstance(here, Fail) else "deadline")


def _later(fault: Fault, own: Policy, rng: random.Random) -> float | Fail:
    """When the workers may begin, by the job's own policy, as if this were its first failure.

    A policy that allows one attempt allows the workers that one.
    """
    verdict = own.decide(fault, attempt=1, rng=rng, earlier=())
    if isinstance(verdict, Retry):
        return verdict.delay_seconds
    if verdict.reason != "exhausted":
        return verdict
    hint = fault.retry_after_seconds
    return 0.0 if hint is None else hint + SPREAD_LEAST_SECONDS * rng.random()
