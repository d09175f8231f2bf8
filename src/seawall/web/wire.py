"""One connection: HTTP as uvicorn speaks it, with bounds for those who send or read too slowly.

A body is bounded where it is read, by `guard`; what comes before it, and whether the answer is ever
taken, only the connection knows. Who has not sent the head of a request in time, sends one that is
too long, or does not read what he is sent, is cut off: a few idle strangers must not use up the
connections of all.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_SECONDS = 10.0
"""How long the head of a request may take to arrive."""
HEAD_BYTES = 65_536
READ_SECONDS = 30.0
"""How long a reader may take to make room for more."""

_Spoken: Any = cast("Any", AutoHTTPProtocol)


class Wire(_Spoken):  # type: ignore[misc]  # which one it is depends on what is installed
    """A connection, from its first byte to its last."""

    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._cut)

    def data_received(self, data: bytes) -> None:
        before, was_whole = self.cycle, self._is_whole()
        super().data_received(data)
        if self.cycle is not before:  # its head is here
            self._head_bytes = 0
            self._end_head_timer()
        elif was_whole:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._cut()
            elif self._head_timer is None and (before is None or before.response_complete):
                self._head_timer = self.loop.call_later(HEAD_SECONDS, self._cut)

    def _is_whole(self) -> bool:
        """Whether what comes next is the head of a request, not the body of the one before."""
        return self.cycle is None or not self.cycle.more_body

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._read_timer is None:
            self._read_timer = self.loop.call_later(READ_SECONDS, self._cut)

    def resume_writing(self) -> None:
        self._end_read_timer()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head_timer()
        self._end_read_timer()
        super().connection_lost(exc)

    def _end_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _cut(self) -> None:
        self.transport.abort()
