"""Who may use the server, as the store keeps it: access tokens, by a hash of each.

An access token is a long random word that a person or a program shows with every request. It has
nothing to do with the token of a lease.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from seawall.model import need_name, need_span

_DIGEST = re.compile(r"[0-9a-f]{64}")


class AccessScope(StrEnum):
    """What the bearer of an access token may do."""

    OWNER = "owner"
    """See and change what belongs to its owner, and ask for jobs in that name."""
    OPERATOR = "operator"
    """See and change everything."""
    READ_ONLY = "read-only"
    """See everything, or what belongs to its owner where it has one; change nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAccess:
    """An access token to be kept."""

    id: str
    """Its public part, by which people speak of it."""
    digest: str
    scope: AccessScope
    owner: str | None = None
    lasts_seconds: float | None = None
    """None: until it is revoked."""

    def __post_init__(self) -> None:
        need_name("id", self.id)
        if not _DIGEST.fullmatch(self.digest):
            raise ValueError("digest: expected a SHA-256 as 64 hexadecimal digits")
        if self.scope not in AccessScope.__members__.values():
            there = ", ".join(AccessScope)
            raise ValueError(f"scope: found {self.scope!r:.80}, expected one of {there}")
        if self.owner is not None:
            need_name("owner", self.owner)
        elif self.scope == AccessScope.OWNER:
            raise ValueError("owner: expected a name: this scope sees what belongs to its owner")
        if self.lasts_seconds is not None:
            need_span("lasts_seconds", self.lasts_seconds)
            if self.lasts_seconds <= 0:
                raise ValueError("lasts_seconds: expected more than 0")


class Access(NamedTuple):
    """An access token as it is kept: not the token itself, which nobody can tell any more."""

    id: str
    owner: str | None
    scope: AccessScope
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    """To within some minutes."""
    revoked_at: datetime | None
    stands: bool
    """Whether it is good now: neither expired nor revoked."""
