"""What `call_or_enqueue` answers: values, to be matched once.

    match summarize.call_or_enqueue("a.pdf"):
        case Done(value): ...
        case Failed(fault): ...
        case HandedOver(job=job): ...

Each has the job itself, with its whole history; which of them it is says who is to act next.
"""

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from seawall.faults import Fault
from seawall.jobs import JobHandle

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """It was done while its caller waited."""

    value: R
    job: JobHandle[R]


@dataclass(frozen=True, slots=True)
class Failed(Generic[R]):
    """It failed for good: there will be no further attempt, and a dead letter waits for people."""

    fault: Fault
    job: JobHandle[R]


@dataclass(frozen=True, slots=True)
class HandedOver(Generic[R]):
    """Workers do it, or go on with it: ask the job what came of it."""

    job: JobHandle[R]
    retry_after_seconds: float = 0.0
    """When the workers may begin: before then there is no use in asking."""


Answered: TypeAlias = Done[R] | Failed[R] | HandedOver[R]
"""What calling a task now comes to."""
