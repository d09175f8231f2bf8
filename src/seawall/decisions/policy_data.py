"""A policy from plain data, such as TOML gives; `Policy.content` is the way back.

    [policies.my-llm]
    max_attempts = 4
    rules = [
        { on = ["RATE_LIMITED", 503], counts = false, backoff = { curve = "exponential", … } },
    ]
    otherwise = { retry = false }

The keys are the field names of `Policy`, `Rule` and `Backoff`. Every mistake is a `PolicyError`
that says where it stands, what was found and what is allowed.
"""

from collections.abc import Mapping

from seawall.decisions.matching import ALLOWED
from seawall.decisions.policy import Policy
from seawall.decisions.rule import Rule
from seawall.decisions.tables import (
    BOOLEAN,
    NUMBER,
    TABLE,
    TABLES,
    TEXT,
    WHOLE,
    Kind,
    backoff_from,
    checked,
    each_from,
    made,
)
from seawall.errors import PolicyError

_MATCHERS = Kind(ALLOWED, lambda found: isinstance(found, str | int | list | tuple))

_POLICY_KEYS = {
    "max_attempts": WHOLE,
    "max_elapsed_seconds": NUMBER,
    "max_wait_seconds": NUMBER,
    "rules": TABLES,
    "otherwise": TABLE,
    "description": TEXT,
    "notes": TEXT,
}
_RULE_KEYS = {
    "on": _MATCHERS,
    "retry": BOOLEAN,
    "max_attempts": WHOLE,
    "counts": BOOLEAN,
    "needs_retry_after": BOOLEAN,
    "backoff": TABLE,
}


def policies_from(tables: object, where: str) -> dict[str, Policy]:
    """Every policy of a `[policies]` table, by name."""
    return each_from(tables, where, "policies", policy_from, PolicyError)


def policy_from(name: str, table: object, where: str) -> Policy:
    """One policy from its table."""
    values = checked(table, _POLICY_KEYS, where, PolicyError)
    if "rules" in values:
        values["rules"] = tuple(
            _rule_from(rule, f"{where}.rules[{place}]")
            for place, rule in enumerate(values["rules"])
        )
    if "otherwise" in values:
        values["otherwise"] = _otherwise_from(values["otherwise"], f"{where}.otherwise")
    return made(where, lambda: Policy(name=name, **values), PolicyError)


def _otherwise_from(table: Mapping[str, object], where: str) -> Rule:
    keys = {key: kind for key, kind in _RULE_KEYS.items() if key != "on"}
    checked(table, keys, where, PolicyError)
    if "retry" not in table:
        raise PolicyError(f"{where}.retry: is missing, expected true or false")
    return _rule_from({"on": "all", **table}, where)


def _rule_from(table: object, where: str) -> Rule:
    values = checked(table, _RULE_KEYS, where, PolicyError)
    if "on" not in values:
        raise PolicyError(f"{where}.on: is missing, expected {ALLOWED}")
    if "backoff" in values:
        values["backoff"] = backoff_from(values["backoff"], f"{where}.backoff", PolicyError)
    return made(where, lambda: Rule(**values), PolicyError)
