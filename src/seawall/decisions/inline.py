"""Calling now, with a policy, for code that has no queue.

The same verdicts as a worker's, carried out by waiting: in the caller's thread, or on its event
loop. Only `Exception`s are judged; a cancellation or Ctrl-C goes straight through. When the
policy gives up, the caller gets the original exception, with a note that says why.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from seawall.clock import Clock, SystemClock
from seawall.decisions.classify import CLASSIFIER, Classifier
from seawall.decisions.policy import Fail, Policy, Retry
from seawall.faults import Fault, FaultCode
from seawall.telemetry import ConfigMissing, Event, GaveUp, RetryScheduled, emit, fault_fields

P = ParamSpec("P")
R = TypeVar("R")

MOST_REMEMBERED = 1_000


@dataclass(slots=True, kw_only=True)
class _Story:
    """What has happened to one call so far."""

    task: str
    started: float
    attempt_started: float
    attempt: int = 1
    earlier: list[Fault] = field(default_factory=list)
    previous_delay_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Inline:
    """A policy with what it needs to be carried out here and now."""

    policy: Policy
    rng: random.Random = field(default_factory=random.Random)
    clock: Clock = field(default_factory=SystemClock)
    classifier: Classifier = CLASSIFIER
    asleep: Callable[[float], Awaitable[None]] | None = None
    """How the async twin waits; the event loop's own sleep unless a test says otherwise."""

    def call(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function's value, from the first attempt that succeeds."""
        story = self._begin(fn)
        while True:
            story.attempt_started = self.clock.monotonic()
            try:
                return fn(*args, **kwargs)
            except Exception as error:
                delay = self._delay_or_none(story, error)
                if delay is None:
                    raise
            self.clock.sleep(delay)

    async def acall(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """The awaited value, from the first attempt that succeeds."""
        story = self._begin(fn)
        while True:
            story.attempt_started = self.clock.monotonic()
            try:
                return await fn(*args, **kwargs)
            except Exception as error:
                delay = self._delay_or_none(story, error)
                if delay is None:
                    raise
            await self._wait(delay)

    async def _wait(self, seconds: float) -> None:
        if self.asleep is not None:
            await self.asleep(seconds)
            return
        import asyncio  # noqa: PLC0415 - `import seawall` stays light

        await asyncio.sleep(seconds)

    def _begin(self, fn: object) -> _Story:
        now = self.clock.monotonic()
        name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
        return _Story(task=name, started=now, attempt_started=now)

    def _delay_or_none(self, story: _Story, error: Exception) -> float | None:
        """How long to wait before the next attempt; None where there is none."""
        fault = self.classifier.classify(error, now=self.clock.now())
        now = self.clock.monotonic()
        verdict = self.policy.decide(
            fault,
            attempt=story.attempt,
            rng=self.rng,
            elapsed_seconds=now - story.started,
            earlier=story.earlier,
            previous_delay_seconds=story.previous_delay_seconds,
        )
        facts = {
            "task": story.task,
            "attempt": story.attempt,
            "max_attempts": self.policy.max_attempts,
            "policy": self.policy.id,
            "duration_ms": round((now - story.attempt_started) * 1_000),
            **fault_fields(fault),
        }
        for event in _events(verdict, fault, facts):
            emit(event)
        if isinstance(verdict, Fail):
            tries = len(story.earlier) + 1
            error.add_note(
                f"seawall: gave up after {tries} attempt{'s' if tries > 1 else ''} "
                f"({verdict.reason}; {fault.code}; policy {self.policy.name})"
            )
            return None
        story.attempt += verdict.counts
        story.earlier = [*story.earlier[-MOST_REMEMBERED:], fault]
        story.previous_delay_seconds = verdict.delay_seconds
        return verdict.delay_seconds


def _events(verdict: Retry | Fail, fault: Fault, facts: dict[str, object]) -> list[Event]:
    events: list[Event] = []
    if fault.code is FaultCode.CONFIG_MISSING:
        events.append(ConfigMissing(**facts))  # type: ignore[arg-type]
    if isinstance(verdict, Fail):
        events.append(GaveUp(reason=verdict.reason, **facts))  # type: ignore[arg-type]
    else:
        delay_ms = round(verdict.delay_seconds * 1_000)
        events.append(RetryScheduled(delay_ms=delay_ms, **facts))  # type: ignore[arg-type]
    return events
