"""A thread that writes ends while the clerk claims.

A database server works for two connections at once, so a turn takes as long as the longer of its
two halves. Neither needs the other: an end that could not be written is written again, and whoever
asks twice is told `already`.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from queue import SimpleQueue

from seawall.store import Answer, Ending, Observation, Store

_Given = tuple[Sequence[Ending], Sequence[Observation], Future[list[Answer]]]


class Scribe:
    """Settles what it is given, in the order that it was given."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._given = SimpleQueue[_Given | None]()
        self._thread = threading.Thread(target=self._run, name="seawall-scribe", daemon=True)
        self._thread.start()

    def settle(
        self, settlements: Sequence[Ending], observations: Sequence[Observation] = ()
    ) -> "Future[list[Answer]]":
        """Begin to write these; their answers come later."""
        answers: Future[list[Answer]] = Future()
        self._given.put((settlements, observations, answers))
        return answers

    def _run(self) -> None:
        while (given := self._given.get()) is not None:
            settlements, observations, answers = given
            try:
                answers.set_result(self._store.settle(settlements, observations))
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
                answers.set_exception(error)

    def close(self) -> None:
        self._given.put(None)
