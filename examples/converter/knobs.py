"""What the environment says, by the names of the converter's own settings.

Left alone, the policy is `converter` as it ships.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from seawall import Backoff, Breaker, ConfigurationError, Policy, Upstream, presets

FEWEST_CALLS = 10
"""In a window of seconds, no rate is judged on fewer."""


@dataclass(frozen=True, kw_only=True)
class Knobs:
    """The converter's settings, already checked."""

    database_url: str
    gateway_url: str
    uploads: Path
    results: Path
    max_attempts: int
    base_delay_seconds: float
    jitter_seconds: float
    lease_seconds: float
    gateway_seconds: float
    concurrency: int
    window_calls: int | None
    window_seconds: float | None
    """One of the two: the last so many calls, or the calls of the last so many seconds."""
    fail_threshold: float
    cooldown_seconds: float

    @classmethod
    def read(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """`ConfigurationError`, in one line, where a value cannot be used."""

        def number(name: str, usual: float, least: float, most: float) -> float:
            return _number(name, environ.get(name, str(usual)), least, most)

        window = environ.get("CIRCUIT_WINDOW", "20")
        of_seconds = window.endswith("s")
        bounds = (1, 3_600) if of_seconds else (2, 10_000)
        window_size = _number("CIRCUIT_WINDOW", window.removesuffix("s"), *bounds)
        return cls(
            database_url=environ.get("DATABASE_URL", "sqlite:///converter.db"),
            gateway_url=environ.get("GATEWAY_URL", "http://127.0.0.1:8090"),
            uploads=Path(environ.get("UPLOADS_DIR", "uploads")),
            results=Path(environ.get("RESULTS_DIR", "results")),
            max_attempts=int(number("RETRY_MAX_ATTEMPTS", 3, 1, 1_000)),
            base_delay_seconds=number("RETRY_BASE_DELAY_MS", 5_000, 1, 86_400_000) / 1_000,
            jitter_seconds=number("RETRY_JITTER_MAX_MS", 5_000, 0, 86_400_000) / 1_000,
            lease_seconds=number("WORKER_LEASE_TTL_SEC", 90, 0.5, 86_400),
            gateway_seconds=number("GATEWAY_TIMEOUT_MS", 120_000, 1, 86_400_000) / 1_000,
            concurrency=int(number("WORKER_CONCURRENCY", 4, 1, 10_000)),
            window_calls=None if of_seconds else int(window_size),
            window_seconds=window_size if of_seconds else None,
            fail_threshold=number("CIRCUIT_FAIL_THRESHOLD", 0.5, 0.001, 1),
            cooldown_seconds=number("CIRCUIT_COOLDOWN_MS", 30_000, 1, 86_400_000) / 1_000,
        )

    def policy(self) -> Policy:
        """The policy `converter` with these attempts and delays."""
        jitter: dict[str, Any] = {"jitter": "none"}
        if self.jitter_seconds:
            jitter = {"jitter": "additive", "jitter_seconds": self.jitter_seconds}
        backoff = Backoff(curve="exponential", base_seconds=self.base_delay_seconds, **jitter)
        shipped = presets.get("converter")
        rules = [
            replace(rule, backoff=backoff) if rule.retry and rule.counts else rule
            for rule in shipped.rules
        ]
        return replace(shipped, max_attempts=self.max_attempts, rules=rules)

    def gateway(self, probe: Callable[[], object]) -> Upstream:
        """When the gateway is held, and how it is found to be well: by four probes of five."""
        calls = self.window_calls
        breaker = Breaker(
            consecutive_failures=None,
            failure_rate=self.fail_threshold,
            window_calls=calls or FEWEST_CALLS,
            minimum_calls=calls or FEWEST_CALLS,
            window_seconds=self.window_seconds,
            open=Backoff(curve="fixed", base_seconds=self.cooldown_seconds, jitter="none"),
            successes_to_close=4,
            failures_to_reopen=2,
        )
        return Upstream("gateway", breaker=breaker, probe=probe)


def _number(name: str, found: str, least: float, most: float) -> float:
    try:
        value = float(found)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        raise ConfigurationError(f"{name}: found {found!r:.80}, expected {least:g} to {most:g}")
    return value
