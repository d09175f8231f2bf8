"""Stages by their names, as people know them; the store counts them from 0."""

from collections.abc import Mapping, Sequence
from typing import Any


def stage_names(tasks: Mapping[str, Any], of: Sequence[str], stages: Sequence[int]) -> str:
    """Which stages of which tasks, by name; empty where none of them has more than one.

    Where several tasks are meant, or this application does not know the one, they are counted from
    1.
    """
    known = [[each.name for each in tasks[name].stages] for name in of if name in tasks]
    if len(known) == len(of) and all(len(names) == 1 for names in known):
        return ""
    if not stages or (not known and tuple(stages) == (0,)):
        return ""
    names = known[0] if len(of) == 1 and known else []
    said = [names[each] if each < len(names) else str(each + 1) for each in stages]
    return ", ".join(said)
