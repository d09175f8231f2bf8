"""The simulated upstream: what it answers to a call, and after how long.

Faults are not made up here: what it answers goes through `classify`, as an exception of a client
would, so that statuses and Retry-After are read as in production.
"""

import math
import random
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from seawall.decisions.classify import classify
from seawall.errors import FaultError
from seawall.faults import Fault, FaultCode, code_named
from seawall.simulate.scenario import Scenario, Service

if TYPE_CHECKING:
    from seawall.simulate.scenario import Phase

REFUSAL_SECONDS = 0.05
"""How long a refusal takes where the scenario says nothing else."""
SLOW_FACTOR = 10.0

Answer = tuple[float, Fault | None]
"""After how many seconds, and what went wrong."""


class AnswerError(Exception):
    """An error answer, as clients raise them."""

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        super().__init__(f"HTTP {status}")
        self.status_code = status
        self.headers = headers


@lru_cache(maxsize=4_096)
def fault_of(code: str | None, status: int | None, retry_after_seconds: float | None) -> Fault:
    """What an application would make of that answer."""
    if status is not None:
        hint = {} if retry_after_seconds is None else {"retry-after": f"{retry_after_seconds:g}"}
        return classify(AnswerError(status, hint))
    named = FaultCode.UNAVAILABLE if code is None else code_named(code)
    return classify(FaultError(named, "simulated", retry_after_seconds=retry_after_seconds))


class SimulatedUpstream:
    """Answers calls, which must come in the order of time."""

    def __init__(self, scenario: Scenario, rng: random.Random) -> None:
        self._rng = rng
        self._service = scenario.service
        self._timeout = scenario.service.timeout_seconds
        self._took = _draw_of(scenario.service, rng)
        self._timed_out = classify(TimeoutError("no answer in time"))
        self._ahead: list[tuple[float, Phase]] = []
        """Phases yet to come and when they begin, the next one last."""
        at = 0.0
        for phase in scenario.phases:
            self._ahead.append((at, phase))
            at += phase.seconds or math.inf
        self._ahead.reverse()
        self._next_at = 0.0
        self._began = 0.0
        self._phase = scenario.phases[0]
        self._answer: Callable[[float], Answer] = self._well
        self._window, self._answered = -1, 0

    def call(self, now: float) -> Answer:
        """A call begins; how it ends."""
        if now >= self._next_at:
            self._move_on(now)
        return self._answer(now)

    def _move_on(self, now: float) -> None:
        while self._ahead and now >= self._ahead[-1][0]:
            self._began, self._phase = self._ahead.pop()
        self._next_at = self._ahead[-1][0] if self._ahead else math.inf
        self._window = -1
        self._answer = {
            "healthy": self._well,
            "down": self._down,
            "slow": self._slow,
            "errors": self._errors,
            "rate-limit": self._limited,
            "flapping": self._flapping,
            "recovering": self._recovering,
        }[self._phase.is_]

    def _well(self, _now: float) -> Answer:
        took = self._took()
        return (took, None) if took <= self._timeout else (self._timeout, self._timed_out)

    def _slow(self, _now: float) -> Answer:
        took = self._took() * (self._phase.factor or SLOW_FACTOR)
        return (took, None) if took <= self._timeout else (self._timeout, self._timed_out)

    def _down(self, _now: float) -> Answer:
        if self._phase.hangs:
            return self._timeout, self._timed_out
        return min(self._phase.answer_seconds or REFUSAL_SECONDS, self._timeout), self._fault()

    def _fault(self) -> Fault:
        phase = self._phase
        status = phase.status
        if status is None and phase.fault is None and phase.is_ in ("errors", "recovering"):
            status = 503
        return fault_of(phase.fault, status, phase.retry_after_seconds)

    def _errors(self, now: float) -> Answer:
        if self._rng.random() < (self._phase.rate or 0.0):
            return min(self._took(), self._timeout), self._fault()
        return self._well(now)

    def _recovering(self, now: float) -> Answer:
        length = self._phase.seconds
        left = 0.0 if length is None else 1 - (now - self._began) / length
        if self._rng.random() < left:
            return min(self._took(), self._timeout), self._fault()
        return self._well(now)

    def _flapping(self, now: float) -> Answer:
        up = self._phase.up_seconds or 0.0
        within = (now - self._began) % (up + (self._phase.down_seconds or 0.0))
        return self._well(now) if within < up else self._down(now)

    def _limited(self, now: float) -> Answer:
        phase = self._phase
        length = phase.window_seconds or 1.0
        window = int((now - self._began) / length)
        if window != self._window:
            self._window, self._answered = window, 0
        if self._answered < (phase.limit or 0):
            self._answered += 1
            return self._well(now)
        hint = phase.retry_after_seconds
        if phase.retry_after:
            hint = float(math.ceil(self._began + (window + 1) * length - now))
        return min(REFUSAL_SECONDS, self._timeout), fault_of(None, phase.status or 429, hint)


def _draw_of(service: Service, rng: random.Random) -> Callable[[], float]:
    mean, deviation = service.mean_seconds, service.deviation
    match service.distribution:
        case "exponential":
            return lambda: rng.expovariate(1 / mean)
        case "lognormal" if deviation > 0:
            square = math.log(1 + (deviation / mean) ** 2)
            middle, wide = math.log(mean) - square / 2, math.sqrt(square)
            return lambda: rng.lognormvariate(middle, wide)
        case "uniform":
            reach = deviation * math.sqrt(3)
            return lambda: rng.uniform(max(0.0, mean - reach), mean + reach)
        case _:
            return lambda: mean
