"""Access tokens: making one, and knowing one again.

A token is `sw_ID_SECRET`: a public part by which people speak of it, and 256 random bits. The store
keeps a SHA-256 of the whole: of so long a random word nobody finds the original, so neither salt
nor a slow hash is needed, and one is found by its hash in one look, which takes as long for a wrong
one as for a right one.
"""

import hashlib
import re
import secrets

from seawall.errors import ArgumentsError
from seawall.store import Access, AccessScope, NewAccess, Store

_TOKEN = re.compile(r"sw_([0-9a-f]{12})_[0-9a-f]{64}")


def made(
    store: Store,
    *,
    scope: AccessScope | str,
    owner: str | None = None,
    lasts_seconds: float | None = None,
) -> tuple[str, Access]:
    """A new token, which can be seen only now, and what is kept of it."""
    public = secrets.token_hex(6)
    word = f"sw_{public}_{secrets.token_hex(32)}"
    try:
        new = NewAccess(
            id=public,
            digest=digest(word),
            scope=AccessScope(scope),
            owner=owner,
            lasts_seconds=lasts_seconds,
        )
    except ValueError as error:
        raise ArgumentsError(str(error)) from None
    return word, store.add_access(new)


def digest(word: str) -> str:
    """What the store knows a token by."""
    return hashlib.sha256(word.encode()).hexdigest()


def is_token(word: str) -> bool:
    """Whether it looks like one of ours; what does not is none, and nobody need be asked."""
    return _TOKEN.fullmatch(word) is not None
