"""Short words for the tests of the store: the usual lane, job, claim and ends of an attempt."""

import threading
from collections.abc import Callable
from typing import Any

from seawall.faults import Fault, FaultCode
from seawall.model import Lane, NewJob, Outcome, Settlement, Token
from seawall.store import Store
from seawall.store.values import Claim, Reclaim, Taken, Wanted

LANE = Lane(task="work")
TIMEOUT = Fault(FaultCode.TIMEOUT, "no answer")
WORKER_LOST = Fault(FaultCode.WORKER_LOST, "the worker is gone")


def new_job(arguments: str = "[]", *, lane: Lane = LANE, **fields: Any) -> NewJob:
    return NewJob(lane=lane, arguments=arguments, **fields)


def enqueued(store: Store, *jobs: NewJob) -> list[int]:
    """The ids of these jobs, all new; one usual job where none is given."""
    answers = store.enqueue(jobs or [new_job()])
    assert {answer.taken for answer in answers} == {Taken.CREATED}
    return [answer.job_id for answer in answers if answer.job_id is not None]


def wanted(
    limit: int = 10,
    *,
    worker: str = "w1",
    lease_seconds: float = 60.0,
    queues: tuple[str, ...] | None = ("default",),
    tasks: tuple[str, ...] = ("work",),
    prefetch: bool = False,
) -> Wanted:
    return Wanted(worker, queues, tasks, limit, lease_seconds, prefetch)


def claimed(store: Store, *jobs: NewJob, **how: Any) -> list[Claim]:
    """Enqueue these jobs (or one usual job) and claim what is due."""
    enqueued(store, *jobs)
    return store.claim(wanted(**how))


def ended(token: Token, outcome: Outcome = Outcome.SUCCEEDED, **fields: Any) -> Settlement:
    """A settlement with what its outcome needs."""
    usual: dict[str, Any] = {}
    if outcome in (Outcome.RETRIED, Outcome.FAILED):
        usual["fault"] = TIMEOUT
    if outcome in (Outcome.RETRIED, Outcome.SNOOZED):
        usual["delay_seconds"] = 30.0
    return Settlement(token=token, outcome=outcome, **{**usual, **fields})


def failed(store: Store, *jobs: NewJob) -> list[int]:
    """The ids of jobs that have failed in their first attempt."""
    claims = claimed(store, *jobs)
    store.settle([ended(claim.token, Outcome.FAILED) for claim in claims])
    return [claim.token.job_id for claim in claims]


def lost(token: Token, delay_seconds: float | None = 1.0) -> Reclaim:
    return Reclaim(token=token, fault=WORKER_LOST, delay_seconds=delay_seconds)


def at_once(count: int, ask: Callable[[int], Any]) -> list[Any]:
    """What this many threads get that ask at the same moment."""
    together = threading.Barrier(count)
    found: list[Any] = []

    def run(at: int) -> None:
        together.wait()
        found.append(ask(at))

    threads = [threading.Thread(target=run, args=(at,)) for at in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
