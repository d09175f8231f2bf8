"""One state of a store that has something to do for every verb, and what each verb is asked there.

A job's `run` is the number that it is known by here. In the prepared state that is its id too; what
a verb adds later may have any id, because a number that was drawn in vain is not drawn again.
"""

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from seawall.clock import ManualClock
from seawall.model import Begin, Lane, Outcome, Token
from seawall.states import State
from seawall.store import NewWebhook, Planned, Store, Turn, UpstreamPhase
from seawall.store.backend import Backend
from seawall.store.values import (
    Advance,
    Answer,
    Claim,
    Enqueued,
    Observation,
    Presence,
    Progress,
    Redrive,
    Release,
    Result,
    Scope,
    Straightened,
    Taken,
)
from seawall.webhooks import EVENTS
from tests.support.ledger import ended, lost, new_job, wanted

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = START + timedelta(hours=2)
LEASE_SECONDS = 600.0
PATIENCE_SECONDS = 20

PRUNABLE, SUCCEEDING, RETRYING, FAILING, STOPPING, LAPSED, LAPSED_FOR_GOOD, LATE, FAILED = range(
    1, 10
)
QUEUED, DUE, DUE_TOO, BEGUN, NOT_BEGUN, KEYED, GATED, GATED_AGAIN = range(10, 18)
WRONG_DUE, WRONG_LEASE = range(18, 20)
OLD_DISMISSED, OPEN, DISMISSED = range(20, 23)
NOTED = 23
MOST_JOBS = 300

_CLAIMABLE = wanted(tasks=("claimable",), lease_seconds=LEASE_SECONDS)
_RUNNING = Begin(worker="w1", lease_seconds=LEASE_SECONDS)
_SHORTLY = Begin(worker="w0", lease_seconds=1.0)


def prepare(store: Store, clock: ManualClock) -> None:
    """Bring an empty store, by a clock that stands at `START`, to the prepared state at `NOW`."""
    _add(store, PRUNABLE, key="old", tags=("a", "b"), begin=_RUNNING)
    store.report([Progress(token=_token(PRUNABLE), done=1)])
    store.settle([ended(_token(PRUNABLE), output="kept", traceback="here")])
    store.plan("hourly", "a spec", START)
    store.observe([Observation("shop", "w1", firsts=1)])
    store.appear(_PRESENT)
    clock.advance((NOW - START).total_seconds() - 5)
    for run in (SUCCEEDING, RETRYING, FAILING, STOPPING):
        _add(store, run, begin=_RUNNING)
    store.cancel([STOPPING])
    for run in (LAPSED, LAPSED_FOR_GOOD):
        _add(store, run, begin=_SHORTLY)
    _add(store, LATE, deadline_at=clock.now() + timedelta(seconds=1))
    _add(store, FAILED, begin=_RUNNING)
    store.report([Progress(token=_token(FAILED), done=1)])
    store.settle([ended(_token(FAILED), Outcome.FAILED)])
    _add(store, QUEUED)
    _add(store, DUE, lane=Lane("claimable"))
    _add(store, DUE_TOO, lane=Lane("claimable", priority=3))
    for run in (BEGUN, NOT_BEGUN):
        _add(store, run, begin=_RUNNING)
    _add(store, KEYED, key="taken")
    _add(store, GATED, lane=Lane("gated", upstream="api"))
    _add(store, GATED_AGAIN, lane=Lane("gated", upstream="api", retry=True))
    with store.govern("shop") as desk:
        desk.keep("before", gated=True)
    store.hold(Scope.QUEUE, "held", reason="a test")
    clock.advance(3_600)  # a clock that is wrong, for a while
    _add(store, WRONG_DUE)
    _add(store, WRONG_LEASE, begin=_RUNNING)
    store.hold(Scope.TASK, "wrong", reason="a test", seconds=60)
    clock._now = START
    for run in (OLD_DISMISSED, OPEN, DISMISSED):
        _add(store, run, key=f"key{run}", begin=_RUNNING)
        store.settle([ended(_token(run), Outcome.FAILED, traceback="here")])
    store.dismiss([OLD_DISMISSED], note="a test")
    clock._now = NOW
    store.dismiss([DISMISSED], note="a test")
    # From now on every change is noted.
    store.add_webhook(NewWebhook(url="https://x", secret="whsec_x", events=tuple(EVENTS)))
    _add(store, NOTED)


def _add(store: Store, run: int, **fields: Any) -> None:
    ((taken, job_id, _),) = store.enqueue([new_job(run=run, request_id=f"r{run}", **fields)])
    assert (taken, job_id) == (Taken.CREATED, run)


def _token(run: int) -> Token:
    return Token(run, 1, 1)


# --- what stands there --------------------------------------------------------------------------


def standing(store: Store) -> dict[str, Any]:
    """All that can be seen of a store, without the ids that jobs were given."""
    jobs = store.jobs(range(1, MOST_JOBS))
    seen = store.verify()
    assert seen.violations == ()
    return {
        "jobs": Counter(
            repr(replace(job, id=0, lease=job.lease and replace(job.lease, job_id=0)))
            for job in jobs.values()
        ),
        "attempts": Counter(
            (job.run, repr(replace(attempt, job_id=0)))
            for job in jobs.values()
            if job.seq  # `verify` has seen that the others have none
            for attempt in store.attempts(job.id)
        ),
        "outputs": {run: store.output(run, 0) for run in (PRUNABLE, SUCCEEDING)},
        "evidence": {run: store.evidence(run, 1) for run in (PRUNABLE, SUCCEEDING)},
        "progress": {run: store.progress(run) for run in (PRUNABLE, SUCCEEDING, FAILED)},
        "fleet": store.workers(within_seconds=7_200),
        "schedules": [each._replace(last_job=each.last_job and 0) for each in store.planned()],
        "letters": store.letters_of(list(jobs)),
        "holds": store.holds(),
        "upstreams": store.watched(),
        "observed": {name: store.observed(name, within_seconds=7_200) for name in ("api", "shop")},
        "notes": Counter(repr(note._replace(id=0, job=0)) for note in store.notes()),
        "books": (seen.entered, seen.present, seen.pruned),
        # Jobs are counted in `books`, against which `verify` holds the counters.
        "tried": [each for each in store.totals() if each.kind == "attempt"],
        "phases": store.upstream_phases("api", START),
    }


# --- what is asked, and what may be answered when it is asked again -----------------------------

Ask = Callable[[Store], Any]
Fits = Callable[[Any, Any], bool]


def _claim_again(store: Store) -> list[Claim]:
    return store.claim(wanted(tasks=("claimable",)))


@dataclass(frozen=True)
class Verb:
    ask: Ask
    fits: Fits
    """Whether an answer will do for an ask that may have been done before, beside the first."""
    may_double: bool = False
    """Jobs without a key may be there twice when they are asked for again."""
    may_observe_twice: bool = False
    """What was observed adds up: asked again after an ask that was done, it counts twice."""
    claims: tuple[int, ...] = ()
    claim_again: Callable[[Store], list[Claim]] = _claim_again
    """How these are claimed once they are back."""


def _new(run: int, **fields: Any) -> Any:
    arguments = json.dumps({"run": run})
    return new_job(arguments, run=run, request_id=f"r{run}", lane=Lane("new"), **fields)


def _enqueued_fits(found: list[Enqueued], first: list[Enqueued]) -> bool:
    allowed = {
        Taken.CREATED: {Taken.CREATED, Taken.EXISTING},
        Taken.EXISTING: {Taken.EXISTING},
        Taken.CONFLICT: {Taken.CONFLICT},
    }
    return len(found) == len(first) and all(
        f.taken in allowed[g.taken] for f, g in zip(found, first, strict=True)
    )


def _created_fits(found: list[Enqueued], first: list[Enqueued]) -> bool:
    return [each.taken for each in found] == [each.taken for each in first]


def _done_or_already(found: list[Answer], first: list[Answer]) -> bool:
    return [f.state for f in found] == [g.state for g in first] and all(
        f.result in (Result.DONE, Result.ALREADY) for f in found
    )


def _released_fits(found: list[Answer], first: list[Answer]) -> bool:
    """The second had not begun: no history tells."""
    results = tuple(each.result for each in found)
    return results in ((Result.DONE, Result.DONE), (Result.ALREADY, Result.LOST))


def _reclaimed_fits(found: list[Answer], first: list[Answer]) -> bool:
    """Someone was first, perhaps this caller: all had been done, or none."""
    return found == first or {each.result for each in found} == {Result.LOST}


def _all_or_none(found: list[Claim], first: list[Claim]) -> bool:
    return found in (first, [])


def _exchanged_fits(found: Any, first: Any) -> bool:
    """Both halves had been done, or none."""
    results = {each.result for each in found[0]}
    expected = first[1] if results == {Result.DONE} else []
    return len(results) == 1 and _done_or_already(found[0], first[0]) and found[1] == expected


def _governed_fits(found: Any, first: Any) -> bool:
    """It is done with all that belongs to it, or nothing of it is."""
    return found in (first, (_DECIDED, []))


def _changed_fits(found: list[Any], first: list[Any]) -> bool:
    return [each.state for each in found] == [each.state for each in first]


def _straightened_fits(found: Straightened, first: Straightened) -> bool:
    return all(f in (g, 0) for f, g in zip(found, first, strict=True))


def _same(found: Any, first: Any) -> bool:
    return bool(found == first)


def _same_or_nothing(found: Any, first: Any) -> bool:
    return bool(found == first) or not found


def _no_more(found: int, first: int) -> bool:
    """Part of it may have been done before."""
    return 0 <= found <= first


def _fired_fits(found: Enqueued | None, first: Enqueued) -> bool:
    """Someone was faster, perhaps this caller."""
    return found is None or found.taken is first.taken


_DECIDED = "decided"


def _govern(store: Store) -> tuple[str, list[Claim]]:
    """What stood written, and what was claimed: first tries and retries."""
    asked = wanted(tasks=("gated",), lease_seconds=LEASE_SECONDS)
    with store.govern("api", wait=True) as desk:
        assert desk is not None
        claims = [*desk.claim(asked), *desk.claim(asked._replace(retry=True))]
        turn = Turn(UpstreamPhase.OPEN, NOW + timedelta(seconds=5))
        desk.keep(_DECIDED, gated=True, held_until=NOW, reason="a test", turn=turn)
        return desk.state, claims


def _tell(store: Store) -> int:
    """Of deliveries nothing is noted: told again, there is nothing left to tell."""
    return store.tell([(note, _delivery(400 + n)) for n, note in enumerate(store.notes())])


def _delivery(run: int) -> Any:
    return new_job(json.dumps({"run": run}), lane=Lane("seawall.webhook"))


def _drop(store: Store) -> None:
    with store.govern("shop", wait=True) as desk:
        assert desk is not None
        desk.drop()


_PRESENT = Presence(
    worker="w1", host="box", pid=1, version="1", queues=None, tasks=("work",), concurrency=1
)
_ENDS = [
    ended(_token(SUCCEEDING), output="done"),
    ended(_token(RETRYING), Outcome.RETRIED),
    ended(_token(FAILING), Outcome.FAILED),
    ended(_token(STOPPING), Outcome.RETRIED),
]
_ENDS_OF_CALLS = [
    *_ENDS[:1],
    ended(
        _token(RETRYING), Outcome.RETRIED, lane=Lane("work", upstream="new upstream", retry=True)
    ),
    *_ENDS[2:],
]
_CALLS = [
    Observation("api", "w1", firsts=3, failures=2, micros=70),
    Observation("shop", "w1", retries=1, denied=1, slow=1),
]
_ENDS_WITH_CHILDREN = [
    ended(_token(SUCCEEDING), traceback="here", children=(_new(101), _new(102, key="new"))),
    ended(_token(RETRYING), Outcome.SNOOZED, children=(_new(103, tags=("t",)),)),
    ended(_token(FAILING), Outcome.FAILED),
]
_TOLD = [Progress(token=_token(run), done=2, message="more") for run in (SUCCEEDING, RETRYING)]
_ADVANCES = [
    Advance(token=_token(SUCCEEDING), lane=Lane("work", stage=1), output="half"),
    Advance(token=_token(RETRYING), lane=Lane("work", stage=1, upstream="shop")),
]
_RELEASES = [
    Release(token=_token(BEGUN), duration_seconds=1.0),
    Release(token=_token(NOT_BEGUN)),
]
_RECLAIMS = [lost(_token(LAPSED)), lost(_token(LAPSED_FOR_GOOD), None)]
_REDRIVES = [
    Redrive(FAILED, Lane("work", priority=1)),
    Redrive(999),
    Redrive(OPEN, arguments="[2]", delay_seconds=5, by="ann"),
    Redrive(DISMISSED, only_open=True),
]
_LETTERS = [OPEN, DISMISSED, QUEUED, 999]
_WITH_KEYS = [_new(102, key="new"), new_job(key="taken"), new_job("[2]", key="taken"), _new(103)]
_MANY_WITH_KEYS = [_new(300 + n, key=f"new{n}") for n in range(3)]

VERBS: dict[str, Verb] = {
    "enqueue": Verb(lambda s: s.enqueue([_new(101)]), _created_fits, may_double=True),
    "enqueue with a key": Verb(lambda s: s.enqueue([_new(101, key="new")]), _enqueued_fits),
    "enqueue several": Verb(
        lambda s: s.enqueue([_new(200 + n) for n in range(4)]), _created_fits, may_double=True
    ),
    "enqueue a hundred": Verb(
        lambda s: s.enqueue([_new(200 + n) for n in range(100)]), _created_fits, may_double=True
    ),
    "enqueue several with keys": Verb(lambda s: s.enqueue(_MANY_WITH_KEYS), _enqueued_fits),
    "enqueue some with keys": Verb(
        lambda s: s.enqueue(_WITH_KEYS), _enqueued_fits, may_double=True
    ),
    "claim": Verb(lambda s: s.claim(_CLAIMABLE), _all_or_none, claims=(DUE, DUE_TOO)),
    "take back": Verb(
        lambda s: s.take_back(Token(DUE, 0, 0), worker="w1", lease_seconds=LEASE_SECONDS),
        _same_or_nothing,
        claims=(DUE,),
        claim_again=lambda s: [c for c in _claim_again(s) if c.token.job_id == DUE],
    ),
    "renew": Verb(
        lambda s: s.renew([_token(SUCCEEDING), _token(RETRYING)], lease_seconds=900), _same
    ),
    "advance": Verb(lambda s: s.advance(_ADVANCES), _done_or_already),
    "settle": Verb(lambda s: s.settle(_ENDS), _done_or_already),
    "observe with settle": Verb(
        lambda s: s.settle(_ENDS_OF_CALLS, _CALLS), _done_or_already, may_observe_twice=True
    ),
    "observe with exchange": Verb(
        lambda s: s.exchange(_ENDS_OF_CALLS, _CLAIMABLE, observations=_CALLS),
        _exchanged_fits,
        may_observe_twice=True,
        claims=(DUE, DUE_TOO),
    ),
    "govern": Verb(
        _govern,
        _governed_fits,
        claims=(GATED, GATED_AGAIN),
        claim_again=lambda s: _govern(s)[1],
    ),
    "drop": Verb(_drop, _same),
    "forget observations": Verb(
        lambda s: s.forget_observations(older_than_seconds=60), _same_or_nothing
    ),
    "fold pace": Verb(lambda s: s.fold_pace(), _no_more),
    "settle with children": Verb(lambda s: s.settle(_ENDS_WITH_CHILDREN), _done_or_already),
    "report": Verb(lambda s: s.report(_TOLD), _same),
    "appear": Verb(lambda s: s.appear(replace(_PRESENT, running=1)), _same),
    "leave": Verb(lambda s: s.leave("w1"), _same),
    "take a turn": Verb(lambda s: s.take_turn("prune", "w1", every_seconds=60), _same_or_nothing),
    "plan": Verb(lambda s: s.plan("hourly", "another spec", NOW), _same),
    "fire": Verb(
        lambda s: s.fire(
            Planned("hourly", "a spec", START, None, None), next_at=NOW, job=_new(101)
        ),
        _fired_fits,
    ),
    "exchange": Verb(
        lambda s: s.exchange(_ENDS, _CLAIMABLE), _exchanged_fits, claims=(DUE, DUE_TOO)
    ),
    "release": Verb(lambda s: s.release(_RELEASES), _released_fits),
    "reclaim": Verb(lambda s: s.reclaim(_RECLAIMS), _reclaimed_fits),
    "expire": Verb(lambda s: s.expire(), _same_or_nothing),
    "straighten": Verb(lambda s: s.straighten(), _straightened_fits),
    "redrive": Verb(lambda s: s.redrive(_REDRIVES), _changed_fits),
    "cancel": Verb(lambda s: s.cancel([QUEUED, SUCCEEDING, FAILED]), _changed_fits),
    "hold": Verb(lambda s: s.hold(Scope.UPSTREAM, "shop", reason="down", seconds=60), _same),
    "resume": Verb(lambda s: s.resume(Scope.QUEUE, "held"), _same_or_nothing),
    "dismiss": Verb(lambda s: s.dismiss(_LETTERS, note="why", by="ann"), _same),
    "undismiss": Verb(lambda s: s.undismiss(_LETTERS), _changed_fits),
    "prune dismissed": Verb(lambda s: s.prune_dismissed(older_than_seconds=60), _same_or_nothing),
    "tell": Verb(_tell, _same_or_nothing),
    "new letters": Verb(lambda s: s.new_letters(every=2), _same_or_nothing),
    "prune": Verb(lambda s: s.prune(State.SUCCEEDED, older_than_seconds=60), _same_or_nothing),
}


# --- a store without tables ---------------------------------------------------------------------


def opened_backend(url: str, clock: ManualClock) -> Backend:
    """The database itself, before anything was brought up."""
    if url.startswith("sqlite"):
        from seawall.store.sqlite import SqliteBackend

        return SqliteBackend(url.removeprefix("sqlite:///"), clock=clock)
    from seawall.store.postgres import PostgresBackend  # slow, and SQLite has no use for it

    return PostgresBackend(url, clock=clock)


def settle_down(backend: Any) -> None:
    """Wait for connections that are being made: what they send is no statement of a verb."""
    backend.all("store_now")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while backend.dialect == "postgres":
        pool = backend._connections._pool.get_stats()
        if pool["pool_available"] == pool["pool_size"]:
            return
        assert time.monotonic() < deadline, pool
        time.sleep(0.001)
