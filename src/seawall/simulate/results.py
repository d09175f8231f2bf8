"""What a simulation came to: figures for each choice, with how far they can be trusted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seawall.errors import ConfigurationError
from seawall.simulate.engine import Record, run
from seawall.simulate.scenario import Choice, Scenario
from seawall.simulate.spread import Spread, spread_of

FIGURES: dict[str, str] = {
    "calls": "calls",
    "failed_calls": "failed calls",
    "amplification": "calls for each job",
    "retries_per_job": "retries for each job",
    "dead_letters": "dead letters",
    "unfinished": "jobs that had not ended when the simulation did",
    "success_p50_seconds": "time to success, half of the jobs",
    "success_p95_seconds": "time to success, 95 of 100",
    "success_p99_seconds": "time to success, 99 of 100",
    "clear_seconds": "from when the upstream is well for good until the backlog is gone",
    "peak_calls_per_second": "most calls in any second",
    "idle_share": "share of the fleet's time that was not used",
    "cost": "cost of the calls",
}
"""What is measured of each run, in words."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one choice came to, over all seeds."""

    choice: Choice
    figures: dict[str, Spread | None]
    """By name, see `FIGURES`; None where it cannot be said, such as a backlog that never went."""
    record: Record
    """The run of the first seed, for pictures."""

    @property
    def name(self) -> str:
        return self.choice.name

    def __getattr__(self, name: str) -> Spread | None:
        try:
            return self.figures[name]
        except KeyError:
            raise AttributeError(name) from None

    def mean(self, name: str) -> float | None:
        """The mean of a figure."""
        found = self.figures[name]
        return None if found is None else found.mean


@dataclass(frozen=True, slots=True)
class Comparison:
    """What every choice of a scenario came to."""

    scenario: Scenario
    seeds: tuple[int, ...]
    results: tuple[Result, ...]

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def __getitem__(self, name: str) -> Result:
        for result in self.results:
            if result.name == name:
                return result
        there = ", ".join(result.name for result in self.results)
        raise KeyError(f"no choice {name!r}; there are: {there}")

    def as_data(self) -> dict[str, object]:
        """As plain values, the same to the last digit for the same scenario and seeds."""
        from seawall.simulate.verdict import verdict  # noqa: PLC0415 - it reads these

        return {
            "scenario": self.scenario.name,
            "seeds": list(self.seeds),
            "choices": [
                {
                    "name": result.name,
                    "policy": result.choice.policy.id,
                    "upstream": result.choice.upstream is not None,
                    "jobs": result.record.jobs,
                    **{name: _data(found) for name, found in result.figures.items()},
                }
                for result in self.results
            ],
            "verdict": verdict(self),
        }


def _data(found: Spread | None) -> dict[str, object] | None:
    if found is None:
        return None
    return {"mean": round(found.mean, 6), "ci95": [round(found.low, 6), round(found.high, 6)]}


def compare(scenario: Scenario, *, seeds: int | None = None, first_seed: int = 0) -> Comparison:
    """Simulate every choice of the scenario, once for each seed."""
    many = scenario.seeds if seeds is None else seeds
    if not 1 <= many <= 10_000:
        raise ConfigurationError(f"seeds: found {many!r:.80}, expected 1 to 10000")
    chosen = tuple(range(first_seed, first_seed + many))
    return Comparison(
        scenario, chosen, tuple(_result(scenario, choice, chosen) for choice in scenario.choices)
    )


def _result(scenario: Scenario, choice: Choice, seeds: Sequence[int]) -> Result:
    first = run(scenario, choice, seeds[0])
    found = [figures_of(scenario, first)]
    found += [figures_of(scenario, run(scenario, choice, seed)) for seed in seeds[1:]]
    return Result(choice, {name: _over([each[name] for each in found]) for name in FIGURES}, first)


def _over(values: Sequence[float | None]) -> Spread | None:
    known = [value for value in values if value is not None]
    return spread_of(known) if len(known) == len(values) else None


def figures_of(scenario: Scenario, record: Record) -> dict[str, float | None]:
    """The figures of one run."""
    times = sorted(record.times)
    slots, price = scenario.workers.slots, scenario.price_per_call
    whole = record.seconds * slots
    clear = record.clear_at
    return {
        "calls": float(record.calls),
        "failed_calls": float(record.failed_calls),
        "amplification": record.calls / record.jobs if record.jobs else None,
        "retries_per_job": record.retries / record.jobs if record.jobs else None,
        "dead_letters": float(record.dead),
        "unfinished": float(record.unfinished),
        "success_p50_seconds": _quantile(times, 0.50),
        "success_p95_seconds": _quantile(times, 0.95),
        "success_p99_seconds": _quantile(times, 0.99),
        "clear_seconds": None if clear is None else max(0.0, clear - scenario.well_from),
        "peak_calls_per_second": float(max(record.calls_by_second, default=0)),
        "idle_share": max(0.0, 1 - record.busy_seconds / whole) if whole else None,
        "cost": None if price is None else price * record.calls,
    }


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
