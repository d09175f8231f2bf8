"""What every keeper of artifacts promises, and the words that they share."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn, Protocol, Self

from seawall.errors import ArtifactDamagedError, ArtifactError, ArtifactMissingError
from seawall.faults import FaultCode

LARGEST_ARTIFACT_BYTES = 1024**3
RENEWED_AFTER_SECONDS = 86_400.0
"""`put` makes young again what it finds older than this."""
SPARED_SECONDS = 2 * RENEWED_AFTER_SECONDS
"""A sweep must spare what is younger: its reference may not have been written yet."""

_ADDRESS = re.compile(r"[0-9a-f]{64}")


class Address(str):
    """The SHA-256 of an artifact, as 64 hexadecimal digits; any other text is refused."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        if not _ADDRESS.fullmatch(text):
            raise ValueError(f"address: found {text[:80]!r}, expected 64 hexadecimal digits")
        return super().__new__(cls, text)

    @property
    def path(self) -> str:
        """Where it lies below the keeper's root: in one of 65,536 folders."""
        return f"{self[:2]}/{self[2:4]}/{self}"


@dataclass(frozen=True, slots=True)
class Kept:
    """One artifact that is there."""

    address: Address
    size: int
    since: datetime
    """When it was put last, by the keeper's own clock."""

    def age_seconds(self, now: datetime) -> float:
        """How long ago it was put last; nothing is younger than just now."""
        return max(0.0, (now - self.since).total_seconds())


class Artifacts(Protocol):
    """A keeper of artifacts, safe for many threads and processes at once.

    What goes wrong is an `ArtifactError` of one line, whose code says what to do: `IO_ERROR` and
    `RESOURCE_EXHAUSTED` pass, `CONFIG_MISSING` (no access, no such bucket) needs a person.
    """

    def put(self, data: bytes) -> Address:
        """Keep these bytes; when it returns they are there for good, wholly, under this address.

        Until then nobody finds any of them. Content that is there already is not written again,
        unless it is damaged; it only counts as put just now.
        """

    def get(self, address: Address) -> bytes:
        """The very bytes that were put: a hash that does not match is `ArtifactDamagedError`.

        `ArtifactMissingError` where there is nothing of that address.
        """

    def exists(self, address: Address) -> bool:
        """Whether something is kept under that address; whether it is sound, only `get` knows."""

    def delete(self, address: Address, *, older_than_seconds: float = 0.0) -> bool:
        """Keep it no longer; whether it was there and as old as that. Twice does no harm."""

    def kept(self) -> Iterator[Kept]:
        """All that is kept, in no order; what comes and goes meanwhile may or may not be told."""

    def clear_leftovers(self, *, older_than_seconds: float = SPARED_SECONDS) -> int:
        """Remove what writers that were killed left half-way, and say how many that were."""


def address_of(data: bytes) -> Address:
    """The address of these bytes, wherever they are kept."""
    return Address(hashlib.sha256(data).hexdigest())


def checked(data: bytes) -> Address:
    """The address of bytes that are not too many to be kept."""
    if len(data) > LARGEST_ARTIFACT_BYTES:
        raise ArtifactError(
            FaultCode.INVALID_INPUT,
            f"an output of {len(data):,} bytes is too large to be kept: "
            f"at most {LARGEST_ARTIFACT_BYTES:,}; return a reference to it instead",
        )
    return address_of(data)


def sound(data: bytes, address: Address) -> bytes:
    """The bytes, if they are those of the address."""
    if address_of(data) != address:
        raise ArtifactDamagedError(
            FaultCode.INVALID_INPUT,
            f"artifact {address[:12]}… is damaged: its {len(data):,} bytes are not those that "
            "were put; do the stage that made it again",
        )
    return data


def missing(address: Address) -> NoReturn:
    """Say that nothing is kept there."""
    raise ArtifactMissingError(
        FaultCode.NOT_FOUND,
        f"artifact {address[:12]}… is not there; do the stage that made it again",
    ) from None
