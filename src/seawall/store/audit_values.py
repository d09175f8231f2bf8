"""What the history of a run comes to, as the store adds it up."""

from datetime import datetime
from typing import NamedTuple

from seawall.faults import Fault

MOST_TRIES = 20
"""Items that needed so many attempts at a stage, or more, are counted together."""
MOST_KINDS = 50
"""How many kinds of trouble are told, and how many configurations."""


class Spans(NamedTuple):
    """How long something took, in seconds: half of them at most p50, and so on. None of none."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    longest: float | None = None


class StageAudit(NamedTuple):
    """How the attempts at one stage went."""

    stage: int
    attempts: int
    done: int
    """Those that finished the stage, or skipped the rest."""
    retried: int
    failed: int
    lost: int
    """Those whose worker was lost."""
    took: Spans
    """Of those that a handler ended, one way or the other."""


class Tries(NamedTuple):
    """How many items needed so many attempts at a stage."""

    stage: int
    attempts: int
    """`MOST_TRIES` stands for so many and more."""
    items: int


class Trouble(NamedTuple):
    """One thing that attempts at a stage went wrong for."""

    stage: int
    fingerprint: str
    code: str
    attempts: int
    items: int
    message: str
    """Of one of them."""
    job_id: int
    """The last of the items."""


class ConfigSeen(NamedTuple):
    """One configuration of a stage that attempts were made with."""

    stage: int
    config: str
    attempts: int
    first_at: datetime
    last_at: datetime


class FailedItem(NamedTuple):
    """One item that failed."""

    job_id: int
    stage: int
    key: str | None
    attempts: int
    fault: Fault
    finished_at: datetime


class Audit(NamedTuple):
    """What the history of a run comes to, as far as its items have not been pruned."""

    stages: tuple[StageAudit, ...] = ()
    tries: tuple[Tries, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    kinds: int = 0
    """How many kinds of trouble there are; `troubles` has the commonest."""
    configs: tuple[ConfigSeen, ...] = ()
    all_configs: int = 0
    succeeded: int = 0
    to_success: Spans = Spans()
    """From being asked for to the end, of those that succeeded."""
    failed: tuple[FailedItem, ...] = ()
    """The first of them."""
