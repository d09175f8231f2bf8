"""A job's states and every move between them, as data.

This table is the only place that says what may become what. The picture in docs/states.md is
drawn from it, the stores' SQL is checked against it, and the stateful tests drive both stores
beside `step`. "Scheduled" and "retrying" are no states: they are `queued` with a later due time.
"""

from dataclasses import dataclass
from enum import StrEnum

from seawall.errors import TransitionError


class State(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    SKIPPED = "skipped"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINISHED = frozenset({State.SUCCEEDED, State.SKIPPED, State.FAILED, State.CANCELLED})


class Move(StrEnum):
    """Something that happens to a job. The store's verbs carry these out."""

    ENQUEUE = "enqueue"
    BEGIN = "begin"
    CLAIM = "claim"
    ADVANCE = "advance"
    SUCCEED = "succeed"
    SKIP = "skip"
    RETRY = "retry"
    SNOOZE = "snooze"
    FAIL = "fail"
    STOP = "stop"
    RELEASE = "release"
    RECLAIM = "reclaim"
    GIVE_UP = "give up"
    CANCEL = "cancel"
    EXPIRE = "expire"
    REDRIVE = "redrive"
    PRUNE = "prune"


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of the table. `None` stands for "no such job": not yet born, or pruned."""

    move: Move
    before: State | None
    after: State | None
    verbs: tuple[str, ...]
    """The store's verbs that carry it out."""
    meaning: str


TRANSITIONS: tuple[Transition, ...] = (
    Transition(Move.ENQUEUE, None, State.QUEUED, ("enqueue",), "a caller asks for work"),
    Transition(
        Move.BEGIN, None, State.RUNNING, ("enqueue",), "the synchronous path tries it at once"
    ),
    Transition(Move.CLAIM, State.QUEUED, State.RUNNING, ("claim",), "a worker takes the lease"),
    Transition(
        Move.ADVANCE, State.RUNNING, State.RUNNING, ("advance",), "a stage is done, the next begins"
    ),
    Transition(Move.SUCCEED, State.RUNNING, State.SUCCEEDED, ("settle",), "the last stage is done"),
    Transition(Move.SKIP, State.RUNNING, State.SKIPPED, ("settle",), "nothing to do for this one"),
    Transition(Move.RETRY, State.RUNNING, State.QUEUED, ("settle",), "the verdict was to retry"),
    Transition(
        Move.SNOOZE, State.RUNNING, State.QUEUED, ("settle",), "its handler asked for later"
    ),
    Transition(Move.FAIL, State.RUNNING, State.FAILED, ("settle",), "the verdict was to fail"),
    Transition(
        Move.STOP,
        State.RUNNING,
        State.CANCELLED,
        ("settle", "release", "reclaim"),
        "cancelled while it ran",
    ),
    Transition(
        Move.RELEASE, State.RUNNING, State.QUEUED, ("release",), "handed back uncharged, as new"
    ),
    Transition(
        Move.RECLAIM, State.RUNNING, State.QUEUED, ("reclaim",), "the lease lapsed: worker lost"
    ),
    Transition(
        Move.GIVE_UP, State.RUNNING, State.FAILED, ("reclaim",), "workers lost once too often"
    ),
    Transition(Move.CANCEL, State.QUEUED, State.CANCELLED, ("cancel",), "cancelled before it ran"),
    Transition(Move.EXPIRE, State.QUEUED, State.FAILED, ("reclaim",), "its deadline passed"),
    Transition(Move.REDRIVE, State.FAILED, State.QUEUED, ("redrive",), "a person sends it again"),
    Transition(Move.PRUNE, State.SUCCEEDED, None, ("prune",), "kept for long enough"),
    Transition(Move.PRUNE, State.SKIPPED, None, ("prune",), "kept for long enough"),
    Transition(Move.PRUNE, State.FAILED, None, ("prune",), "kept for long enough"),
    Transition(Move.PRUNE, State.CANCELLED, None, ("prune",), "kept for long enough"),
)

_TABLE: dict[tuple[State | None, Move], Transition] = {
    (row.before, row.move): row for row in TRANSITIONS
}


def step(state: State | None, move: Move) -> State | None:
    """The state after the move, or `TransitionError` where the table has no such row."""
    row = _TABLE.get((state, move))
    if row is None:
        allowed = ", ".join(moves_from(state)) or "nothing"
        where = "a job that does not exist" if state is None else f"a {state} job"
        raise TransitionError(f"{where} cannot {move}; what it can do: {allowed}")
    return row.after


def moves_from(state: State | None) -> tuple[Move, ...]:
    """Every move that a job in this state can make."""
    return tuple(row.move for row in TRANSITIONS if row.before is state)
