"""Removing artifacts that no output stands for any more.

Outputs go with their jobs, when those are pruned or redriven; what they stood for stays, because
another job may have left the same. A sweep removes what nobody has put for a while and no output
names. One that is put again meanwhile counts as young, and is spared.
"""

from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from seawall.artifacts import SPARED_SECONDS, Artifacts, Kept, as_reference
from seawall.store import Store
from seawall.store.values import MOST_ROWS


class Swept(NamedTuple):
    """What a sweep saw, and what it removed or would have."""

    seen: int
    removed: int
    removed_bytes: int
    leftovers: int
    """Files that writers who were killed left half-way."""


def sweep(
    store: Store,
    artifacts: Artifacts,
    *,
    dry_run: bool = False,
    told: Callable[[Swept], None] | None = None,
) -> Swept:
    """Remove what no output stands for and nobody has put for two days, a page at a time."""
    swept = Swept(0, 0, 0, 0)
    kept = artifacts.kept()
    while page := list(islice(kept, MOST_ROWS)):
        for each in _forgotten(store, page):
            gone = dry_run or artifacts.delete(each.address, older_than_seconds=SPARED_SECONDS)
            if gone:
                size = swept.removed_bytes + each.size
                swept = swept._replace(removed=swept.removed + 1, removed_bytes=size)
        swept = swept._replace(seen=swept.seen + len(page))
        if told is not None:
            told(swept)
    left = 0 if dry_run else artifacts.clear_leftovers()
    return swept._replace(leftovers=left)


def _forgotten(store: Store, page: list[Kept]) -> list[Kept]:
    now = store.now()
    old = {
        as_reference(each.address, each.size): each
        for each in page
        if each.age_seconds(now) >= SPARED_SECONDS
    }
    if not old:
        return []
    named = store.references(list(old))
    return [each for text, each in old.items() if text not in named]
