"""Calling now, with a policy, for code that has no queue.

The same verdicts as a worker's, carried out by waiting on the clock that it is given: in the
caller's thread, or on its event loop. Only `Exception`s are judged; a cancellation or Ctrl-C goes
straight through. When the policy gives up, the caller gets the original exception, with a note
that says why. Nobody sleeps for hours because an upstream said so: a wait longer than
`longest_wait_seconds` ends the call as `deadline`.
"""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from seawall.clock import Clock, SystemClock
from seawall.decisions.classify import CLASSIFIER, Classifier
from seawall.decisions.policy import Fail, Policy, Retry, Verdict
from seawall.faults import Fault, FaultCode
from seawall.telemetry import ConfigMissing, Event, GaveUp, RetryScheduled, emit, fault_fields

P = ParamSpec("P")
R = TypeVar("R")

LONGEST_INLINE_WAIT_SECONDS = 900.0


@dataclass(slots=True, kw_only=True)
class _Story:
    """What has happened to one call so far."""

    task: str
    started: float
    attempt_started: float
    calls: int = 0
    attempt: int = 1
    """The try under way, among those that count."""
    failures: Counter[int] = field(default_factory=Counter)
    """By rule, how many attempts failed by it."""
    previous_delay_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Inline:
    """A policy with what it needs to be carried out here and now."""

    policy: Policy
    rng: random.Random = field(default_factory=random.Random)
    clock: Clock = field(default_factory=SystemClock)
    classifier: Classifier = CLASSIFIER
    longest_wait_seconds: float = LONGEST_INLINE_WAIT_SECONDS

    def call(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function's value, from the first attempt that succeeds."""
        story = self._begin(fn)
        while True:
            self._begin_attempt(story)
            try:
                value = fn(*args, **kwargs)
            except Exception as error:
                delay = self._delay_or_none(story, error)
                if delay is None:
                    raise
            else:
                _refuse_coroutine(value, story.task)
                return value
            self.clock.sleep(delay)

    async def acall(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """The awaited value, from the first attempt that succeeds."""
        story = self._begin(fn)
        while True:
            self._begin_attempt(story)
            try:
                promise: Any = fn(*args, **kwargs)
                if isinstance(promise, Awaitable):
                    return await promise  # type: ignore[no-any-return]
            except Exception as error:
                delay = self._delay_or_none(story, error)
                if delay is None:
                    raise
            else:
                raise TypeError(f"{story.task} gave nothing to await: use policy.call")
            await self.clock.asleep(delay)

    def _begin(self, fn: object) -> _Story:
        if not callable(fn):
            raise TypeError(f"expected a function to call, found {fn!r}")
        now = self.clock.monotonic()
        name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
        return _Story(task=name, started=now, attempt_started=now)

    def _begin_attempt(self, story: _Story) -> None:
        story.calls += 1
        story.attempt_started = self.clock.monotonic()

    def _delay_or_none(self, story: _Story, error: Exception) -> float | None:
        """How long to wait before the next attempt; None where there is none."""
        fault = self.classifier.classify(error, now=self.clock.now())
        now = self.clock.monotonic()
        verdict = self._verdict(story, fault, now - story.started)
        facts = {
            "task": story.task,
            "attempt": story.attempt,
            "max_attempts": self.policy.max_attempts,
            "policy": self.policy.id,
            "duration_ms": round((now - story.attempt_started) * 1_000),
            **fault_fields(fault),
        }
        for event in verdict_events(verdict, fault, facts):
            emit(event)
        if isinstance(verdict, Fail):
            tries = f"{story.calls} attempt{'s' if story.calls > 1 else ''}"
            reason = f"{verdict.reason}; {fault.code}; policy {self.policy.name}"
            _note(error, f"seawall: gave up after {tries} ({reason})")
            return None
        story.attempt += verdict.counts
        story.previous_delay_seconds = verdict.delay_seconds
        return verdict.delay_seconds

    def _verdict(self, story: _Story, fault: Fault, elapsed_seconds: float) -> Verdict:
        rule = self.policy.rule_for(fault)
        story.failures[id(rule)] += 1
        verdict = self.policy.judge_by(
            rule,
            fault,
            attempt=story.attempt,
            own=story.failures[id(rule)],
            elapsed_seconds=elapsed_seconds,
            previous_delay_seconds=story.previous_delay_seconds,
        ).verdict(self.rng)
        if isinstance(verdict, Retry) and verdict.delay_seconds > self.longest_wait_seconds:
            return Fail("deadline")
        return verdict


def _note(error: Exception, words: str) -> None:
    """Add the note, where the exception takes one: it must reach the caller in any case."""
    with suppress(Exception):
        if words not in getattr(error, "__notes__", ()):
            error.add_note(words)


def _refuse_coroutine(value: object, task: str) -> None:
    """A coroutine that nobody awaits is a call that was never made."""
    if isinstance(value, Coroutine):
        value.close()
        raise TypeError(f"{task} is async: use `await policy.acall(…)`")


def verdict_events(verdict: Verdict, fault: Fault, facts: dict[str, object]) -> list[Event]:
    """What is to be said about a verdict; `facts` are the fields of `AttemptEvent`."""
    events: list[Event] = []
    if fault.code is FaultCode.CONFIG_MISSING:
        events.append(ConfigMissing(**facts))  # type: ignore[arg-type]
    if isinstance(verdict, Fail):
        events.append(GaveUp(reason=verdict.reason, **facts))  # type: ignore[arg-type]
    else:
        delay_ms = round(verdict.delay_seconds * 1_000)
        retry = RetryScheduled(delay_ms=delay_ms, counts=verdict.counts, **facts)  # type: ignore[arg-type]
        events.append(retry)
    return events
