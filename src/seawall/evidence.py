"""What an attempt that went wrong leaves for people: where it broke, and what the upstream said.

Both are bounded, and text that every store can keep.
"""

import traceback

from seawall.current import LARGEST_CAPTURE
from seawall.errors import FaultError
from seawall.faults import Fault
from seawall.redact import without_secrets

LONGEST_TRACEBACK = 20_000
DEEPEST_TRACEBACK = 30


class ElsewhereError(Exception):
    """What a handler raised in another process, classified there: it may not travel itself."""

    def __init__(self, fault: Fault, shown: str, raw_output: str | None) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.shown = shown
        self.raw_output = raw_output


def raw_output_of(error: BaseException | None) -> str | None:
    """What the upstream really said, where some error on the way kept it."""
    for _ in range(DEEPEST_TRACEBACK):
        if error is None:
            return None
        found = error.raw_output if isinstance(error, FaultError | ElsewhereError) else None
        if isinstance(found, str):
            return storable(found)[:LARGEST_CAPTURE]
        error = error.__cause__ or error.__context__
    return None


def traceback_of(error: BaseException) -> str:
    """Where it broke, without what looks like a secret; the end of it where it is long."""
    if isinstance(error, ElsewhereError):
        return error.shown
    try:
        lines = traceback.format_exception(error, limit=-DEEPEST_TRACEBACK)
    except Exception:  # noqa: BLE001 - an exception that cannot be shown
        return f"{type(error).__name__}: cannot be shown"
    text = "\n".join(without_secrets(line) for line in "".join(lines).splitlines())
    return storable(text)[-LONGEST_TRACEBACK:]


def storable(text: str) -> str:
    """The text as every store can keep it."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
