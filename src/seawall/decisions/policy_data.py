"""A policy as plain data, such as TOML gives, and back.

    [policies.my-llm]
    max_attempts = 4
    rules = [
        { on = ["RATE_LIMITED", 503], counts = false, backoff = { curve = "exponential", … } },
    ]
    otherwise = { retry = false }

The keys are the field names of `Policy`, `Rule` and `Backoff`. Every mistake is a `PolicyError`
that says where it stands, what was found and what is allowed.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from seawall.decisions.backoff import Backoff
from seawall.decisions.matching import ALLOWED
from seawall.decisions.policy import CAREFUL, Policy, Rule
from seawall.errors import PolicyError
from seawall.redact import one_line

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind:
    """What a key's value must be: in words, and as a test."""

    expected: str
    fits: Callable[[object], bool]


def _is_number(found: object) -> bool:
    if isinstance(found, bool) or not isinstance(found, int | float):
        return False
    return not math.isnan(found)


def _is_list(found: object, fits: Callable[[object], bool]) -> bool:
    return isinstance(found, list | tuple) and all(fits(item) for item in found)


_TEXT = Kind("text", lambda found: isinstance(found, str))
_WHOLE = Kind("a whole number", lambda found: _is_number(found) and isinstance(found, int))
_NUMBER = Kind("a number", _is_number)
_BOOLEAN = Kind("true or false", lambda found: isinstance(found, bool))
_NUMBERS = Kind("a list of numbers", lambda found: _is_list(found, _is_number))
_TABLE = Kind("a table", lambda found: isinstance(found, Mapping))
_TABLES = Kind("a list of tables", lambda found: _is_list(found, _TABLE.fits))
_MATCHERS = Kind(ALLOWED, lambda found: isinstance(found, str | int | list | tuple))

_POLICY_KEYS = {
    "max_attempts": _WHOLE,
    "max_elapsed_seconds": _NUMBER,
    "max_wait_seconds": _NUMBER,
    "rules": _TABLES,
    "otherwise": _TABLE,
    "description": _TEXT,
    "notes": _TEXT,
}
_RULE_KEYS = {
    "on": _MATCHERS,
    "retry": _BOOLEAN,
    "max_attempts": _WHOLE,
    "counts": _BOOLEAN,
    "needs_retry_after": _BOOLEAN,
    "backoff": _TABLE,
}
_BACKOFF_KEYS = {
    "curve": _TEXT,
    "base_seconds": _NUMBER,
    "factor": _NUMBER,
    "schedule_seconds": _NUMBERS,
    "cap_seconds": _NUMBER,
    "jitter": _TEXT,
    "jitter_ratio": _NUMBER,
    "jitter_seconds": _NUMBER,
}


def policies_from(tables: object, where: str) -> dict[str, Policy]:
    """Every policy of a `[policies]` table, by name."""
    if not isinstance(tables, Mapping):
        raise PolicyError(f"{where}: found {_shown(tables)}, expected a table of policies")
    return {
        name: policy_from(name, table, f"{where}.{one_line(name)}")
        for name, table in tables.items()
    }


def policy_from(name: str, table: object, where: str) -> Policy:
    """One policy from its table."""
    values = _checked(table, _POLICY_KEYS, where)
    if "rules" in values:
        values["rules"] = tuple(
            _rule_from(rule, f"{where}.rules[{place}]")
            for place, rule in enumerate(values["rules"])
        )
    if "otherwise" in values:
        otherwise = values["otherwise"]
        values["otherwise"] = _rule_from({"on": "all", **otherwise}, f"{where}.otherwise")
    return _made(where, lambda: Policy(name=name, **values))


def table_of(policy: Policy) -> dict[str, Any]:
    """The policy as the table that gives an equal one."""
    table: dict[str, Any] = _without_defaults(policy, "name", "rules", "otherwise")
    table["rules"] = [_rule_table(rule) for rule in policy.rules]
    otherwise = _rule_table(policy.otherwise)
    del otherwise["on"]
    return {**table, "otherwise": otherwise}


def _rule_from(table: object, where: str) -> Rule:
    values = _checked(table, _RULE_KEYS, where)
    if "on" not in values:
        raise PolicyError(f"{where}.on: is missing, expected {ALLOWED}")
    if "backoff" in values:
        values["backoff"] = _backoff_from(values["backoff"], f"{where}.backoff")
    on = values.pop("on")
    try:
        Rule(on=on)
    except (ValueError, TypeError) as error:
        raise PolicyError(f"{where}.on: {error}") from None
    return _made(where, lambda: Rule(on=on, **values))


def _backoff_from(table: object, where: str) -> Backoff:
    values = _checked(table, _BACKOFF_KEYS, where)
    if "curve" not in values:
        raise PolicyError(f"{where}.curve: is missing, expected the name of a curve")
    return _made(where, lambda: Backoff(**values))


def _made(where: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except ValueError as error:
        raise PolicyError(f"{where}.{error}") from None


def _checked(table: object, keys: Mapping[str, Kind], where: str) -> dict[str, Any]:
    """The table's content, if it has no unknown key and each value is of its key's kind."""
    if not isinstance(table, Mapping):
        raise PolicyError(f"{where}: found {_shown(table)}, expected a table")
    for key, found in table.items():
        if key not in keys:
            near = get_close_matches(str(key), keys, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(keys)}"
            raise PolicyError(f"{where}.{one_line(str(key))}: no such key; {hint}")
        kind = keys[key]
        if not kind.fits(found):
            raise PolicyError(f"{where}.{key}: found {_shown(found)}, expected {kind.expected}")
    return dict(table)


def _rule_table(rule: Rule) -> dict[str, Any]:
    table: dict[str, Any] = {"on": [m if isinstance(m, int) else str(m) for m in rule.matchers]}
    table |= _without_defaults(rule, "backoff")
    if rule.backoff != CAREFUL:
        table["backoff"] = _without_defaults(rule.backoff)
    return table


def _without_defaults(value: Any, *leave_out: str) -> dict[str, Any]:
    """The fields that say something; a tuple becomes a list, as TOML has it."""
    table: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        found = getattr(value, field.name)
        if not field.init or field.name in leave_out or found == field.default:
            continue
        table[field.name] = list(found) if isinstance(found, tuple) else found
    return table


def _shown(found: object) -> str:
    return repr(found)[:100]
