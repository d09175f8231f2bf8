"""A gate as text: what the store keeps of an upstream, and does not understand.

What is as usual is left out, so that a gate that lets everybody through is as good as nothing. What
cannot be read is a new gate: it must not stop the work.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import Any

from seawall.decisions import limits as bounds
from seawall.decisions.breaker import BreakerState, Phase, Slot
from seawall.decisions.gate import Gate
from seawall.decisions.tally import Tally


def written(gate: Gate) -> str:
    """As text, without what is as usual."""
    state = {name: getattr(gate.breaker, name) for name in _KEPT}
    told: dict[str, Any] = {
        "breaker": {name: found for name, found in state.items() if found != _KEPT[name]},
        "why": gate.why,
        "limits": bounds.as_data(gate.limits),
        "owners": {owner: bounds.as_data(each) for owner, each in gate.owners},
        "retries": gate.retries.slices,
        "stopped": dict(gate.stopped),
    }
    return json.dumps({name: found for name, found in told.items() if found}, default=asdict)


_KEPT = {
    each.name: getattr(BreakerState(), each.name)
    for each in fields(BreakerState)
    if each.name != "tally"  # what was seen is told each time
}
"""What is written down of a breaker, where it is not as usual."""


def read(text: str) -> Gate:
    """What `written` wrote; a new gate where it is something else: it must not stop the work."""
    try:
        told = json.loads(text) if text else {}
        return Gate(
            breaker=_state_of(told.get("breaker", {})),
            why=str(told.get("why", "")),
            limits=bounds.from_data(told.get("limits")),
            owners=tuple(
                sorted((name, bounds.from_data(each)) for name, each in _items(told, "owners"))
            ),
            retries=_tally_of(told.get("retries", ())),
            stopped=tuple(sorted((name, float(at)) for name, at in _items(told, "stopped"))),
        )
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return Gate()


def _items(told: dict[str, Any], name: str) -> Iterable[tuple[str, Any]]:
    found: dict[str, Any] = told.get(name, {})
    return found.items()


def _state_of(told: dict[str, Any]) -> BreakerState:
    known = dict(told)
    if "phase" in known:
        known["phase"] = Phase(known["phase"])
    if "slots" in known:
        known["slots"] = tuple(Slot(**each) for each in known["slots"])
    known.pop("tally", None)
    state = BreakerState(**known)
    numbers = (state.until, state.asked_seconds, state.closed_at or 0.0, state.episode)
    times = [slot.expires for slot in state.slots]
    if not all(isinstance(each, int | float) for each in (*numbers, *times)):
        raise ValueError("a breaker's times are numbers")
    return state


def _tally_of(told: Iterable[Any]) -> Tally:
    return Tally(tuple((int(second), tuple(map(int, counts))) for second, counts in told))
