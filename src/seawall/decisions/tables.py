"""Plain data, such as TOML gives, read strictly: no unknown key, and every value of its key's kind.

Every mistake says in one line where it stands, what was found and what is allowed. What the
values mean together is the business of whoever is made of them: see `made`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from seawall.decisions.backoff import CURVES, JITTERS, Backoff, is_number
from seawall.errors import ConfigurationError
from seawall.redact import one_line

T = TypeVar("T")
Error = type[ConfigurationError]


@dataclass(frozen=True, slots=True)
class Kind:
    """What a key's value must be: in words, and as a test."""

    expected: str
    fits: Callable[[object], bool]

    def or_false(self, meaning: str) -> "Kind":
        """The same, or `false`, which TOML has instead of None."""
        fits = self.fits
        return Kind(
            f"{self.expected}, or false for {meaning}", lambda found: found is False or fits(found)
        )


def _is_list(found: object, fits: Callable[[object], bool]) -> bool:
    return isinstance(found, list | tuple) and all(fits(item) for item in found)


TEXT = Kind("text", lambda found: isinstance(found, str))
WHOLE = Kind("a whole number", lambda found: is_number(found) and isinstance(found, int))
NUMBER = Kind("a number", is_number)
BOOLEAN = Kind("true or false", lambda found: isinstance(found, bool))
NUMBERS = Kind("a list of numbers", lambda found: _is_list(found, is_number))
TABLE = Kind("a table", lambda found: isinstance(found, Mapping))
TABLES = Kind("a list of tables", lambda found: _is_list(found, TABLE.fits))

_BACKOFF_KEYS = {
    "curve": Kind(f"one of {', '.join(CURVES)}", CURVES.__contains__),
    "base_seconds": NUMBER,
    "factor": NUMBER,
    "schedule_seconds": NUMBERS,
    "cap_seconds": NUMBER,
    "jitter": Kind(f"one of {', '.join(JITTERS)}", JITTERS.__contains__),
    "jitter_ratio": NUMBER,
    "jitter_seconds": NUMBER,
}


def each_from(
    tables: object, where: str, what: str, read: Callable[[str, object, str], T], error: Error
) -> dict[str, T]:
    """What each table of a table of tables comes to, by name."""
    if not isinstance(tables, Mapping):
        raise error(f"{where}: found {shown(tables)}, expected a table of {what}")
    return {name: read(name, table, f"{where}.{one_line(name)}") for name, table in tables.items()}


def checked(table: object, keys: Mapping[str, Kind], where: str, error: Error) -> dict[str, Any]:
    """The table's content, if it has no unknown key and each value is of its key's kind."""
    if not isinstance(table, Mapping):
        raise error(f"{where}: found {shown(table)}, expected a table")
    for key, found in table.items():
        if key not in keys:
            near = get_close_matches(str(key), keys, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(keys)}"
            raise error(f"{where}.{one_line(str(key))}: no such key; {hint}")
        kind = keys[key]
        if not kind.fits(found):
            raise error(f"{where}.{key}: found {shown(found)}, expected {kind.expected}")
    return dict(table)


def backoff_from(table: object, where: str, error: Error) -> Backoff:
    """A `Backoff` from its table."""
    values = checked(table, _BACKOFF_KEYS, where, error)
    return made(where, lambda: Backoff(**values), error)


def made(where: str, make: Callable[[], T], error: Error) -> T:
    """What is made of the values, if they go together."""
    try:
        return make()
    except ValueError as problem:
        raise error(f"{where}.{problem}") from None


def shown(found: object) -> str:
    """A value as it stands in an error's line."""
    return repr(found)[:100]
