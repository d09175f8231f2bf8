"""How the text of an output says that the output itself is an artifact.

The store of jobs keeps an output as JSON text. In the place of one that is kept elsewhere stands

    {"$seawall.artifact":{"sha256":"…64 digits…","bytes":70123}}

to the letter. A handler's own output is never taken for that, whatever it is: one that begins as
our own marks do is kept as `{"$seawall.inline":…}` around its text, and so comes back as it was.
"""

import re
from dataclasses import dataclass

from seawall.artifacts.port import Address, Artifacts
from seawall.errors import ArtifactError
from seawall.faults import FaultCode

_OURS = '{"$seawall.'
_INLINE = '{"$seawall.inline":'
_REFERENCE = re.compile(
    r'\{"\$seawall\.artifact":\{"sha256":"([0-9a-f]{64})","bytes":(0|[1-9][0-9]{0,15})\}\}'
)


@dataclass(frozen=True, slots=True)
class Reference:
    """Which artifact an output is, and how large."""

    address: Address
    size: int


def as_reference(address: Address, size: int) -> str:
    """The text that stands for an artifact."""
    return f'{{"$seawall.artifact":{{"sha256":"{Address(address)}","bytes":{size:d}}}}}'


def reference_in(text: str) -> Reference | None:
    """The artifact that a kept text stands for; None where the text is the output itself."""
    if not text.startswith(_OURS):
        return None
    found = _REFERENCE.fullmatch(text)
    return None if found is None else Reference(Address(found[1]), int(found[2]))


def as_inline(text: str) -> str:
    """The text to keep for an output that stays where it is: nearly always itself."""
    return f"{_INLINE}{text}}}" if text.startswith(_OURS) else text


def inline_in(text: str) -> str:
    """The output whose kept text this is; the opposite of `as_inline`."""
    return text[len(_INLINE) : -1] if text.startswith(_INLINE) else text


def keep(text: str, artifacts: Artifacts | None, inline_bytes: int) -> str:
    """Keep an output, and say what to write in its place; without artifacts it stays inline."""
    # A character is at most four bytes: most outputs need not be encoded to be measured.
    if artifacts is None or len(text) * 4 <= inline_bytes:
        return as_inline(text)
    data = text.encode()
    if len(data) <= inline_bytes:
        return as_inline(text)
    return as_reference(artifacts.put(data), len(data))


def recall(text: str, artifacts: Artifacts | None) -> str:
    """The output again, wherever it was kept."""
    reference = reference_in(text)
    if reference is None:
        return inline_in(text)
    if artifacts is None:
        raise ArtifactError(
            FaultCode.CONFIG_MISSING,
            "the output is kept as an artifact, and artifacts_url is not set for this process",
        )
    return artifacts.get(reference.address).decode()
