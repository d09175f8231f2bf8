"""An upstream from plain data, such as TOML gives.

    [upstreams.openai]
    concurrency = 20
    per_minute = { requests = 500, tokens = 200_000 }
    each_owner = { concurrency = 5 }
    retry_budget = { share = 0.1 }
    breaker = { consecutive_failures = 8, open = { base_seconds = 10, cap_seconds = 600 } }

The keys are the field names of `Upstream`, `Limits`, `RetryBudget`, `Breaker` and `Backoff`; what
is not said is as `Upstream` has it. Where Python has None, TOML has `false`. Every mistake is a
`ConfigurationError` that says where it stands, what was found and what is allowed.
"""

from collections.abc import Mapping
from dataclasses import replace

from seawall.decisions.breaker import Breaker
from seawall.decisions.budget import RetryBudget
from seawall.decisions.limits import Limits
from seawall.decisions.tables import (
    NUMBER,
    TABLE,
    WHOLE,
    backoff_from,
    checked,
    each_from,
    made,
)
from seawall.decisions.upstream import Upstream
from seawall.errors import ConfigurationError

_UPSTREAM_KEYS = {
    "concurrency": WHOLE,
    "per_minute": TABLE,
    "each_owner": TABLE,
    "quorum": WHOLE,
    "retry_budget": TABLE.or_false("none"),
    "breaker": TABLE,
}
_LIMITS_KEYS = {"concurrency": WHOLE, "per_minute": TABLE}
_BUDGET_KEYS = {"share": NUMBER, "floor_per_second": NUMBER, "window_seconds": NUMBER}
_BREAKER_KEYS = {
    "consecutive_failures": WHOLE.or_false("never"),
    "failure_rate": NUMBER.or_false("never"),
    "window_calls": WHOLE,
    "window_seconds": NUMBER,
    "minimum_calls": WHOLE,
    "slow_call_seconds": NUMBER,
    "slow_call_rate": NUMBER,
    "open": TABLE,
    "probes": WHOLE,
    "probe_seconds": NUMBER,
    "successes_to_close": WHOLE,
    "failures_to_reopen": WHOLE,
    "ramp_seconds": NUMBER,
}
_USUAL = Upstream("usual")


def upstreams_from(tables: object, where: str) -> dict[str, Upstream]:
    """Every upstream of an `[upstreams]` table, by name."""
    return each_from(tables, where, "upstreams", upstream_from, ConfigurationError)


def upstream_from(name: str, table: object, where: str) -> Upstream:
    """One upstream from its table."""
    if isinstance(table, Mapping) and "probe" in table:
        expected = "none: a function is given in code, as Upstream(…, probe=…)"
        raise ConfigurationError(f"{where}.probe: found one, expected {expected}")
    values = checked(table, _UPSTREAM_KEYS, where, ConfigurationError)
    if "each_owner" in values:
        values["each_owner"] = _limits_from(values["each_owner"], f"{where}.each_owner")
    if "retry_budget" in values:
        values["retry_budget"] = _budget_from(values["retry_budget"], f"{where}.retry_budget")
    if "breaker" in values:
        values["breaker"] = _breaker_from(values["breaker"], f"{where}.breaker")
    return made(where, lambda: Upstream(name, **values), ConfigurationError)


def _limits_from(table: object, where: str) -> Limits:
    values = checked(table, _LIMITS_KEYS, where, ConfigurationError)
    return made(where, lambda: Limits(**values), ConfigurationError)


def _budget_from(table: object, where: str) -> RetryBudget | None:
    if table is False:
        return None
    values = checked(table, _BUDGET_KEYS, where, ConfigurationError)
    usual = _USUAL.retry_budget or RetryBudget()
    return made(where, lambda: replace(usual, **values), ConfigurationError)


def _breaker_from(table: object, where: str) -> Breaker:
    values = checked(table, _BREAKER_KEYS, where, ConfigurationError)
    values = {name: None if found is False else found for name, found in values.items()}
    if "open" in values:
        values["open"] = backoff_from(values["open"], f"{where}.open", ConfigurationError)
    return made(where, lambda: Breaker(**values), ConfigurationError)
