"""What is looked for, as addresses and forms say it and as the application takes it.

All lists of jobs and of dead letters are asked for in these words, and so is what is done about all
that match. What cannot be is a 422 of one line: a list tells it in the place of what it found.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from seawall.faults import FaultCode
from seawall.redact import one_line
from seawall.states import State
from seawall.store import LetterState
from seawall.web.access import Visitor
from seawall.web.doing.jobs import are_names
from seawall.web.problems import ProblemError

OF_JOBS = ("state", "task", "queue", "owner", "fault", "tag", "argument", "key", "run")
OF_LETTERS = ("state", "fault", "task", "queue", "owner", "run", "group")
JOB_STATES = tuple(str(state) for state in State)
LETTER_STATES = (*(str(state) for state in LetterState), "all")
_NAMES = ("task", "queue", "owner", "tag", "key", "group")
_LONGEST_NUMBER = 18
"""Digits: every number of so many is one that the store can keep."""


class Given(Protocol):
    """Fields by name: an address's, or a form's."""

    def get(self, name: str, usual: str, /) -> str: ...


def said_in(given: Given, names: Sequence[str]) -> dict[str, str]:
    """What was said, by the names that forms and addresses use; empty fields say nothing."""
    return {name: value for name in names if (value := given.get(name, "").strip())}


def meant(
    visitor: Visitor, said: Mapping[str, str], states: Collection[str] = JOB_STATES
) -> dict[str, Any]:
    """The same as the application takes it, of what this visitor sees; 422 where there can be none.

    Whoever sees only what is theirs and names another owner means nothing: neither all, nor theirs.
    """
    found: dict[str, Any] = dict(said)
    if "state" in said and said["state"] not in states:
        raise ProblemError(422, f"There is no such state: it is one of {', '.join(states)}.")
    if "fault" in said and said["fault"] not in FaultCode.__members__:
        raise ProblemError(422, f"There is no such fault: it is one of {', '.join(FaultCode)}.")
    if not are_names(*(said.get(name) for name in _NAMES)):
        raise ProblemError(422, "What is looked for is too long, or has signs that no name has.")
    if "run" in said:
        found["run"] = number("Run", said["run"])
    if visitor.only is not None:
        if said.get("owner", visitor.only) != visitor.only:
            raise ProblemError(422, "You see only what is yours.")
        found["owner"] = visitor.only
    return found


def number(what: str, text: str) -> int:
    """The number of a job or a run; 422 where it is none."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER):
        raise ProblemError(422, f"{what}: found {text!r:.40}, expected its number.")
    return int(text)


def in_place(error: Exception) -> str:
    """What a list tells in the place of what it found: in words for people, whatever was wrong."""
    if isinstance(error, ProblemError) and error.code == "no_such_place":
        return "The list has no such place to go on from: begin it anew."
    if isinstance(error, ProblemError) and error.status != 422:
        raise error
    return error.detail if isinstance(error, ProblemError) else one_line(str(error))
