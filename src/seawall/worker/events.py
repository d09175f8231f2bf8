"""What the core hears, and what it answers: the words between it and the loops that obey it.

Those that come once for every job are tuples: they are made by the thousand.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from seawall.execute import Stop
from seawall.model import Settlement, Token
from seawall.store import Claim, Ending, Release

# --- what happens -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Woken:
    """There may be work, or time has passed."""

    look: bool = False
    """Somebody said that there is work."""


@dataclass(frozen=True, slots=True)
class Began:
    """A handler that had to wait for its process is called now: its time runs from here."""

    token: Token


class Ended(NamedTuple):
    """An attempt came to its end."""

    token: Token
    write: Ending | Release
    freed: bool = True
    """False where its handler goes on and cannot be stopped."""


@dataclass(frozen=True, slots=True)
class Freed:
    """A handler that had been left behind has returned."""

    token: Token


@dataclass(frozen=True, slots=True)
class Turned:
    """A turn was carried out, or its claims at least."""

    claims: tuple[Claim, ...] = ()
    instead: tuple[Settlement, ...] = ()
    """What is to be written in place of settlements that the store will not take."""
    advanced: tuple["Advanced", ...] = ()
    """The jobs of which a stage is done and written."""
    written: bool = True
    """False where the ends are to be written again: perhaps they are not there."""
    again_at: float | None = None
    """When there may be more to claim that nobody will tell of."""


class Advanced(NamedTuple):
    """A stage is done, and written: the job is at its next one, under the same lease."""

    token: Token
    """Of the attempt that has ended."""
    goes_on: bool = True
    """False where the next stage may not begin here and now: the job is handed back."""


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """The store did not answer; nothing or all of the turn was done."""


@dataclass(frozen=True, slots=True)
class Shut:
    """Nothing of these upstreams may begin now, but for the probes."""

    upstreams: frozenset[str]
    probes: frozenset[Token]


@dataclass(frozen=True, slots=True)
class Halted:
    """No item of these runs may begin now."""

    runs: frozenset[int]


@dataclass(frozen=True, slots=True)
class Asked:
    """Somebody wants this job to stop."""

    token: Token


@dataclass(frozen=True, slots=True)
class Renewed:
    """These leases last for a whole length from now."""

    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Taken:
    """The store says that this lease is lost."""

    token: Token


@dataclass(frozen=True, slots=True)
class Signal:
    """The worker is to stop; the second time it is to hurry."""


Event = (
    Woken
    | Began
    | Ended
    | Freed
    | Turned
    | TurnFailed
    | Shut
    | Halted
    | Asked
    | Renewed
    | Taken
    | Signal
)


# --- what is to be done -----------------------------------------------------------------------


class Start(NamedTuple):
    """Call this job's handler."""

    claim: Claim
    claimed_at: float
    """When the claim came."""
    use_by: float = math.inf
    """Until when it may begin; later it has to be claimed anew."""


@dataclass(frozen=True, slots=True)
class Abort:
    """Stop this attempt; it still has to say that it ended."""

    token: Token
    why: Stop
    leave: bool = False
    """It was asked before and goes on: leave it behind."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Write these ends, then claim."""

    settlements: tuple[Ending, ...]
    releases: tuple[Release, ...]
    limit: int
    """How many jobs to claim; 0 is none."""
    prefetch: bool
    """Whether they are to wait in our hands."""
    ahead: int = 0
    """How many more to claim that are to wait in our hands."""

    @property
    def tokens(self) -> frozenset[Token]:
        """Whose ends it writes."""
        settled = [each.token for each in self.settlements]
        return frozenset([*settled, *(each.token for each in self.releases)])


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do for so long, unless something happens."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Exit:
    """Everything is written."""


Action = Start | Abort | Turn | Rest | Exit
