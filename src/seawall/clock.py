"""Time as an argument.

Nothing in seawall asks the system for the time except `SystemClock`. Tests and the simulator
pass a `ManualClock`, on which a day of retries takes no time at all.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> datetime:
        """The wall-clock time, always in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return when that many seconds have passed."""
        ...

    async def asleep(self, seconds: float) -> None:
        """The async twin of `sleep`."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    async def asleep(self, seconds: float) -> None:
        import asyncio  # noqa: PLC0415 - `import seawall` stays light

        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that stands still until it is told to move; sleeping moves it."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        if start.tzinfo is None:
            raise ValueError("start needs a time zone: datetime(…, tzinfo=UTC)")
        self._now = start.astimezone(UTC)
        self._elapsed = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    async def asleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let that many seconds pass."""
        if seconds < 0:
            raise ValueError(f"a clock cannot go back: {seconds} seconds")
        self._now += timedelta(seconds=seconds)
        self._elapsed += seconds
