"""The samples: a file with one a line, and what is wrong with some of them.

What a sample is like follows from its number alone, so that the same factory makes the same of the
same samples, however often it is started.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

_WORDS = (
    *("harbour", "tide", "gull", "anchor", "rope", "mast", "salt", "buoy", "pier", "wave"),
    *("keel", "sail", "storm", "chart", "lamp", "crew", "cargo", "dock", "fog", "reef"),
)


class Kind(StrEnum):
    """What a sample is like."""

    GOOD = "good"
    NO_JSON = "its line is no JSON"
    DAMAGED = "its text is damaged"
    SHORT = "too short to be kept"
    LONG = "longer than the embedder takes at once"


def kind_of(number: int) -> Kind:
    """Of 200 one is no JSON and one is damaged; of 100 four are too short and five too long."""
    if number % 200 == 7:
        return Kind.NO_JSON
    if number % 200 == 107:
        return Kind.DAMAGED
    if number % 25 == 3:
        return Kind.SHORT
    if number % 20 == 11:
        return Kind.LONG
    return Kind.GOOD


def kinds(many: int) -> Counter[Kind]:
    """How many of each there are among so many samples."""
    return Counter(kind_of(number) for number in range(1, many + 1))


def written(path: Path, many: int, *, after: int = 0, damaged_of_100: int = 0) -> Path:
    """So many samples in a file, numbered from there on; a bad source damages more of them."""
    with path.open("w", encoding="utf-8") as file:
        numbers = range(after + 1, after + many + 1)
        file.writelines(f"{line}\n" for line in _lines(numbers, damaged_of_100))
    return path


def _lines(numbers: range, damaged_of_100: int) -> Iterator[str]:
    for number in numbers:
        kind = Kind.DAMAGED if number * 37 % 100 < damaged_of_100 else kind_of(number)
        sample = json.dumps({"id": number, "text": _text(number, kind)})
        yield sample[:-9] if kind is Kind.NO_JSON else sample


def _text(number: int, kind: Kind) -> str:
    rng = random.Random(number)
    count = {Kind.SHORT: 3, Kind.LONG: 600 + number % 900}.get(kind, 20 + number % 40)
    words = rng.choices(_WORDS, k=count)
    if kind is Kind.DAMAGED:
        words[count // 2] = "l\ufffd\ufffdp"
    return " ".join(words)
