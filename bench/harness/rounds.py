"""Rounds: every row of a table in turn, then in reverse, so that no row has the quiet hours.

A machine's speed drifts while it is measured. So a ratio is taken within a round, between
neighbours in time, and the median of the rounds is what counts.
"""

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.adapters import NotMeasuredError
from harness.standstill import Watch

TRIES = 3

Key = tuple[str, str]
"""A row: what is measured, and on which backend."""


@dataclass
class Cell:
    """What the rounds gave for one row and column; or why there is nothing."""

    rounds: dict[int, float] = field(default_factory=dict)
    reason: str = "–"

    def add(self, round_: int, value: float) -> None:
        self.rounds[round_] = value

    @property
    def median(self) -> float:
        return statistics.median(self.rounds.values())

    @property
    def spread(self) -> tuple[float, float]:
        return min(self.rounds.values()), max(self.rounds.values())

    def over(self, base: "Cell") -> float | None:
        """The median of the ratios, round by round."""
        both = self.rounds.keys() & base.rounds.keys()
        ratios = [self.rounds[each] / base.rounds[each] for each in both if base.rounds[each]]
        return statistics.median(ratios) if ratios else None


Table = dict[Key, dict[str, Cell]]
Row = Callable[[], float | dict[str, float]]


def measured(title: str, rows: dict[Key, Row], columns: list[str], rounds: int) -> Table:
    """A row that gives one number fills the first column. One that failed is not asked again."""
    table: Table = {key: {column: Cell() for column in columns} for key in rows}
    left = dict(rows)
    for round_ in range(rounds):
        for key in list(left) if round_ % 2 == 0 else reversed(list(left)):
            try:
                found = _undisturbed(title, key, left[key])
            except NotMeasuredError as error:
                del left[key]
                for cell in table[key].values():
                    cell.reason = str(error)
                _tell(title, key, str(error))
                continue
            values = found if isinstance(found, dict) else {columns[0]: found}
            for column, value in values.items():
                table[key][column].add(round_, value)
            _tell(title, key, ", ".join(f"{value:,.1f}" for value in values.values()))
    return table


def _undisturbed(title: str, key: Key, row: Row) -> float | dict[str, float]:
    """What a row gives while the machine does not stand still; of some tries, the last."""
    for _ in range(TRIES):
        with Watch() as watch:
            found = row()
        if not watch.stood_still:
            break
        _tell(title, key, f"the machine stood still for {watch.worst_seconds:.1f} s: once more")
    return found


def _tell(title: str, key: Key, what: str) -> None:
    print(f"{title:<24} {' on '.join(key):<28} {what}", file=sys.stderr, flush=True)
