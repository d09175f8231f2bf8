"""What a comparison says, in words: each choice beside the first, where they really differ."""

from seawall.decisions.explain import in_words
from seawall.simulate.results import Comparison, Result
from seawall.simulate.spread import Spread

_WORDS = {
    "clear_seconds": ("clears the backlog {} sooner", "clears the backlog {} later"),
    "calls": ("sends {} fewer calls", "sends {} more calls"),
    "peak_calls_per_second": ("has a peak that is {} lower", "has a peak that is {} higher"),
    "success_p95_seconds": ("is {} quicker for 95 of 100 jobs", "is {} slower for 95 of 100 jobs"),
}
"""What less of a figure is called, which is better, and what more."""
_WORTH_SAYING = 0.02
"""A smaller difference is none, however sure it is."""
_LEAST_WORTH_SAYING = 1.0
"""No shares of less than a second, or a call."""


def verdict(comparison: Comparison) -> list[str]:
    """A sentence or two for each choice."""
    first, *others = comparison.results
    said = [_alone(first, comparison)] if not others else []
    said += [_beside(each, first) for each in others]
    said += [_losses(each) for each in comparison.results]
    if others and len(comparison.seeds) == 1:
        said.append("One seed cannot tell a difference from chance: simulate more of them.")
    return said


def _alone(result: Result, comparison: Comparison) -> str:
    calls, clear = result.mean("amplification") or 0.0, result.mean("clear_seconds")
    gone = "" if clear is None else f" and the backlog is gone after {in_words(clear)}"
    seeds = len(comparison.seeds)
    return f"{result.name}: {calls:.2f} calls for each job{gone}, over {seeds} seeds."


def _beside(result: Result, first: Result) -> str:
    better: list[str] = []
    worse: list[str] = []
    lossy = any((each.mean("dead_letters") or 0.0) >= 0.5 for each in (result, first))
    for name, (less, more) in _WORDS.items():
        if lossy and name.startswith("success"):
            continue  # whoever gives up on the slow ones has quick ones left
        change = _change(result.figures[name], first.figures[name])
        if change is not None:
            words = (less if change < 0 else more).format(f"{100 * abs(change):,.0f} %")
            (better if change < 0 else worse).append(words)
    if not better and not worse:
        return f"{result.name} and {first.name} do not differ beyond chance."
    told = " but ".join(part for part in (_listed(worse), _listed(better)) if part)
    return f"{result.name} {told} than {first.name}."


def _losses(result: Result) -> str:
    parts = []
    dead, left = result.mean("dead_letters") or 0.0, result.mean("unfinished") or 0.0
    if dead >= 0.5:
        parts.append(f"dead-letters {_jobs(dead)}")
    if left >= 0.5:
        parts.append(f"leaves {_jobs(left)} unfinished")
    if not parts:
        return f"{result.name} loses no job."
    return f"{result.name} {' and '.join(parts)}."


def _change(new: Spread | None, old: Spread | None) -> float | None:
    """By which share it differs; None where that may be chance, or is not worth a word."""
    if new is None or old is None or old.mean < _LEAST_WORTH_SAYING:
        return None
    if new.low <= old.high and old.low <= new.high:
        return None
    change = new.mean / old.mean - 1
    return change if abs(change) >= _WORTH_SAYING else None


def _listed(parts: list[str]) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _jobs(count: float) -> str:
    return f"{count:,.0f} job{'s' if round(count) != 1 else ''}"
