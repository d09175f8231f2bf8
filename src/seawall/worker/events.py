"""What the core hears, and what it answers: the words between it and the loops that obey it."""

from dataclasses import dataclass

from seawall.execute import Stop
from seawall.model import Settlement, Token
from seawall.store import Claim, Release

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


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt came to its end."""

    token: Token
    write: Settlement | Release
    freed: bool = True
    """False where its handler goes on and cannot be stopped."""


@dataclass(frozen=True, slots=True)
class Freed:
    """A handler that had been left behind has returned."""

    token: Token


@dataclass(frozen=True, slots=True)
class Turned:
    """A turn was carried out."""

    claims: tuple[Claim, ...] = ()
    instead: tuple[Settlement, ...] = ()
    """What is to be written in place of settlements that the store will not take."""


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """The store did not answer; nothing or all of the turn was done."""


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


Event = Woken | Began | Ended | Freed | Turned | TurnFailed | Asked | Renewed | Taken | Signal


# --- what is to be done -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """Call this job's handler."""

    claim: Claim
    claimed_at: float
    """When the claim came."""


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

    settlements: tuple[Settlement, ...]
    releases: tuple[Release, ...]
    limit: int
    """How many jobs to claim; 0 is none."""
    prefetch: bool

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
