"""How a batch is written in parts, where it cannot be written whole."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from seawall.store.backend import BadRowError
from seawall.store.values import too_heavy

T = TypeVar("T")
A = TypeVar("A")


def in_parts(
    batch: Sequence[T], write: Callable[[Sequence[T]], list[A]], refused: Callable[[str], A]
) -> list[A]:
    """Write the batch; halve it where it is too heavy, or until a bad row stands alone."""
    if not batch:
        return []
    if not too_heavy(batch):
        try:
            return write(batch)
        except BadRowError as error:
            if len(batch) == 1:
                return [refused(str(error))]
    half = len(batch) // 2
    return in_parts(batch[:half], write, refused) + in_parts(batch[half:], write, refused)
