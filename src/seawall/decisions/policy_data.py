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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from seawall.decisions.backoff import CURVES, JITTERS, Backoff, is_number
from seawall.decisions.matching import ALLOWED
from seawall.decisions.policy import Policy
from seawall.decisions.rule import Rule
from seawall.errors import PolicyError
from seawall.redact import one_line

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind:
    """What a key's value must be: in words, and as a test."""

    expected: str
    fits: Callable[[object], bool]


def _is_list(found: object, fits: Callable[[object], bool]) -> bool:
    return isinstance(found, list | tuple) and all(fits(item) for item in found)


_TEXT = Kind("text", lambda found: isinstance(found, str))
_WHOLE = Kind("a whole number", lambda found: is_number(found) and isinstance(found, int))
_NUMBER = Kind("a number", is_number)
_BOOLEAN = Kind("true or false", lambda found: isinstance(found, bool))
_NUMBERS = Kind("a list of numbers", lambda found: _is_list(found, is_number))
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
    "curve": Kind(f"one of {', '.join(CURVES)}", CURVES.__contains__),
    "base_seconds": _NUMBER,
    "factor": _NUMBER,
    "schedule_seconds": _NUMBERS,
    "cap_seconds": _NUMBER,
    "jitter": Kind(f"one of {', '.join(JITTERS)}", JITTERS.__contains__),
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
        values["otherwise"] = _otherwise_from(values["otherwise"], f"{where}.otherwise")
    return _made(where, lambda: Policy(name=name, **values))


def _otherwise_from(table: Mapping[str, object], where: str) -> Rule:
    _checked(table, {key: kind for key, kind in _RULE_KEYS.items() if key != "on"}, where)
    if "retry" not in table:
        raise PolicyError(f"{where}.retry: is missing, expected true or false")
    return _rule_from({"on": "all", **table}, where)


def _rule_from(table: object, where: str) -> Rule:
    values = _checked(table, _RULE_KEYS, where)
    if "on" not in values:
        raise PolicyError(f"{where}.on: is missing, expected {ALLOWED}")
    if "backoff" in values:
        values["backoff"] = _backoff_from(values["backoff"], f"{where}.backoff")
    return _made(where, lambda: Rule(**values))


def _backoff_from(table: object, where: str) -> Backoff:
    values = _checked(table, _BACKOFF_KEYS, where)
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


def _shown(found: object) -> str:
    return repr(found)[:100]
