"""A scenario from plain data, such as TOML gives.

    description = "Twenty minutes without an answer"
    [load]
    per_second = 20
    for_seconds = 3600
    [[phases]]
    is = "down"
    seconds = 1200
    [[phases]]
    is = "healthy"
    [[choices]]
    policy = "default"
    upstream = { breaker = { consecutive_failures = 8 } }

The keys are the field names of `Scenario` and its parts; `[policies]` and `upstream` are as in the
configuration file. `upstream = false` is a task that names no upstream. Every mistake is a
`ConfigurationError` that says where it stands, what was found and what is allowed.
"""

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seawall import settings
from seawall.decisions import presets
from seawall.decisions.policy import Policy
from seawall.decisions.policy_data import policies_from
from seawall.decisions.tables import (
    BOOLEAN,
    NUMBER,
    TABLE,
    TABLES,
    TEXT,
    WHOLE,
    Kind,
    checked,
    made,
    shown,
)
from seawall.decisions.upstream_data import upstream_from
from seawall.errors import ConfigurationError, UnknownPolicyError
from seawall.simulate.scenario import (
    ARRIVALS,
    BEHAVIOURS,
    DISTRIBUTIONS,
    UPSTREAM,
    Choice,
    Fleet,
    Load,
    Phase,
    Scenario,
    Service,
)

if TYPE_CHECKING:
    from seawall.decisions.upstream import Upstream

_HOUSE = "seawall.simulate"
_FOLDER = "scenarios"


def _one_of(words: tuple[str, ...]) -> Kind:
    return Kind(f"one of {', '.join(words)}", words.__contains__)


_UPSTREAM = Kind(
    "a table, true for the defaults, or false for none",
    lambda found: isinstance(found, bool | Mapping),
)
_SCENARIO_KEYS = {
    "description": TEXT,
    "seconds": NUMBER,
    "seeds": WHOLE,
    "price_per_call": NUMBER,
    "load": TABLE,
    "workers": TABLE,
    "service": TABLE,
    "phases": TABLES,
    "policies": TABLE,
    "choices": TABLES,
}
_LOAD_KEYS = {
    "jobs": WHOLE, "per_second": NUMBER, "for_seconds": NUMBER, "arrivals": _one_of(ARRIVALS),
}  # fmt: skip
_FLEET_KEYS = {
    "count": WHOLE, "concurrency": WHOLE, "turn_seconds": NUMBER, "poll_seconds": NUMBER,
}  # fmt: skip
_SERVICE_KEYS = {
    "distribution": _one_of(DISTRIBUTIONS), "mean_seconds": NUMBER, "deviation_seconds": NUMBER,
    "timeout_seconds": NUMBER,
}  # fmt: skip
_PHASE_KEYS = {
    "is": _one_of(BEHAVIOURS), "seconds": NUMBER, "rate": NUMBER, "factor": NUMBER, "limit": WHOLE,
    "window_seconds": NUMBER, "up_seconds": NUMBER, "down_seconds": NUMBER, "fault": TEXT,
    "status": WHOLE, "retry_after": BOOLEAN, "retry_after_seconds": NUMBER,
    "answer_seconds": NUMBER, "hangs": BOOLEAN,
}  # fmt: skip
_CHOICE_KEYS = {"name": TEXT, "policy": TEXT, "upstream": _UPSTREAM}


def shipped() -> tuple[str, ...]:
    """The scenarios that come with seawall, by name."""
    folder = resources.files(_HOUSE) / _FOLDER
    names = (each.name for each in folder.iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def load_scenario(named: str | Path, *, policies: Mapping[str, Policy] | None = None) -> Scenario:
    """The scenario of that name, or in that file; `policies` are those it may name."""
    text = str(named)
    if text in shipped():
        content = (resources.files(_HOUSE) / _FOLDER / f"{text}.toml").read_text("utf-8")
        return scenario_from(tomllib.loads(content), f"{text}.toml", name=text, policies=policies)
    path = Path(named)
    if path.suffix != ".toml" and not path.exists():
        near = get_close_matches(text, shipped(), n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(shipped())}"
        raise ConfigurationError(f"no scenario {text!r:.80}; {hint} Or name a TOML file")
    return scenario_from(settings.read_file(path), str(named), name=path.stem, policies=policies)


def scenario_from(
    table: object,
    where: str,
    *,
    name: str = "scenario",
    policies: Mapping[str, Policy] | None = None,
) -> Scenario:
    """A scenario from its table."""
    values = checked(table, _SCENARIO_KEYS, f"{where}: scenario", ConfigurationError)
    known = dict(policies or {each: presets.get(each) for each in presets.names()})
    known |= policies_from(values.pop("policies", {}), f"{where}: policies")
    if "load" not in values:
        raise ConfigurationError(
            f"{where}: load: is missing, expected a table: jobs, or per_second"
        )
    for key, keys, make in (
        ("load", _LOAD_KEYS, Load), ("workers", _FLEET_KEYS, Fleet),
        ("service", _SERVICE_KEYS, Service),
    ):  # fmt: skip
        if key in values:
            values[key] = _part(values[key], keys, f"{where}: {key}", make)
    if "phases" in values:
        values["phases"] = tuple(
            phase_from(each, f"{where}: phases[{at}]") for at, each in enumerate(values["phases"])
        )
    if "choices" in values:
        values["choices"] = tuple(
            _choice(each, f"{where}: choices[{at}]", known)
            for at, each in enumerate(values["choices"])
        )
    return made(f"{where}: scenario", lambda: Scenario(name=name, **values), ConfigurationError)


def _part(table: object, keys: Mapping[str, Kind], where: str, make: Any) -> Any:
    values = checked(table, keys, where, ConfigurationError)
    return made(where, partial(make, **values), ConfigurationError)


def phase_from(table: object, where: str) -> Phase:
    """One phase from its table."""
    values = checked(table, _PHASE_KEYS, where, ConfigurationError)
    if "is" not in values:
        expected = f"one of {', '.join(BEHAVIOURS)}"
        raise ConfigurationError(f"{where}.is: is missing, expected {expected}")
    kind = values.pop("is")
    return made(where, lambda: Phase(kind, **values), ConfigurationError)


def phase_of(text: str) -> Phase:
    """A phase as it stands in a flag: `down 20m`, `rate-limit 600 limit=50 retry_after=true`."""
    where = f"--phase {text!r:.80}"
    kind, *rest = text.split() or [""]
    table: dict[str, object] = {"is": kind}
    if rest and "=" not in rest[0]:
        table["seconds"] = seconds_of(rest.pop(0), where)
    for word in rest:
        key, _, value = word.partition("=")
        try:
            table[key] = tomllib.loads(f"x = {value}")["x"]
        except tomllib.TOMLDecodeError:
            table[key] = value
    return phase_from(table, where)


_UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0}


def seconds_of(text: str, where: str) -> float:
    """A length of time as people write it: 90, 90s, 20m, 1.5h."""
    unit = _UNITS.get(text[-1:])
    number = text if unit is None else text[:-1]
    try:
        return float(number) * (unit or 1.0)
    except ValueError:
        expected = "a length of time such as 90, 20m or 1.5h"
        raise ConfigurationError(f"{where}: found {shown(text)}, expected {expected}") from None


def _choice(table: object, where: str, policies: dict[str, Policy]) -> Choice:
    values = checked(table, _CHOICE_KEYS, where, ConfigurationError)
    try:
        policy = presets.pick(values.get("policy", "default"), policies)
    except UnknownPolicyError as error:
        raise ConfigurationError(f"{where}.policy: {error}") from None
    said = values.get("upstream", True)
    upstream: Upstream | None = None
    if said is not False:
        upstream = upstream_from(UPSTREAM, {} if said is True else said, f"{where}.upstream")
    return made(where, lambda: Choice(policy, upstream, values.get("name", "")), ConfigurationError)
