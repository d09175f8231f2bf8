"""What jobs came to, for those who look at them, where that is kept elsewhere.

An artifact may be large, far away, or gone. So a large one is not fetched at all, any other once
for all who look: its address is the hash of what it is, and what was fetched stays true. Why one
cannot be read is told, and believed for a while. On the event loop only.
"""

import asyncio
import time
from collections import OrderedDict
from typing import NamedTuple

from seawall.app import Seawall
from seawall.artifacts import recall, reference_in
from seawall.errors import ArtifactError, ConfigurationError
from seawall.redact import one_line
from seawall.web.threads import Threads

LARGEST_SHOWN_BYTES = 256 * 1024
MOST_KEPT = 32
BELIEVED_SECONDS = 30.0
"""For how long it is believed that one cannot be read."""


class Output(NamedTuple):
    """What a stage left, as text; or why it is not shown."""

    text: str | None
    why_not: str = ""


class _Known(NamedTuple):
    output: Output
    good_until: float


class Outputs:
    """Outputs that were looked at lately, by the text that the store keeps in their place."""

    def __init__(self, app: Seawall, threads: Threads) -> None:
        self._app = app
        self._threads = threads
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[Output]] = {}

    async def ask(self, kept: str) -> Output:
        """The output that stands behind what the store keeps."""
        reference = reference_in(kept)
        if reference is None:
            return Output(recall(kept, None))
        if reference.size > LARGEST_SHOWN_BYTES:
            where = f"it has {reference.size:,} bytes and is kept as artifact {reference.address}"
            return Output(None, f"It is too large to be shown here: {where}.")
        known = self._known.get(kept)
        if known is not None and time.monotonic() < known.good_until:
            return known.output
        under_way = self._under_way.get(kept)
        if under_way is None:
            under_way = self._under_way[kept] = asyncio.ensure_future(self._fetched(kept))
            under_way.add_done_callback(lambda done: self._done(kept, done))
        return await asyncio.shield(under_way)

    async def _fetched(self, kept: str) -> Output:
        output = await self._threads.ask(self._read, kept)
        lasts = float("inf") if output.text is not None else BELIEVED_SECONDS
        self._known[kept] = _Known(output, time.monotonic() + lasts)
        self._known.move_to_end(kept)
        if len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)
        return output

    def _done(self, kept: str, done: "asyncio.Task[Output]") -> None:
        self._under_way.pop(kept, None)
        if not done.cancelled():
            done.exception()  # perhaps nobody waits for it any more

    def _read(self, kept: str) -> Output:
        try:
            return Output(recall(kept, self._app.artifacts))
        except (ArtifactError, ConfigurationError) as error:
            why = f"It is kept elsewhere and cannot be read: {one_line(str(error))}."
            return Output(None, why)
