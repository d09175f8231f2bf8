"""The books of a crash test, read by somebody who knows none of the project's code.

What the workers wrote down before and after each ask is held against the rows that are really
there. A worker that was killed may have left its last ask without an answer: that ask may have
been done or not. Nothing else may be open.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import psycopg

ENDS = frozenset({"succeeded", "skipped", "retried", "failed", "cancelled", "released", "lost"})
FINISHED = frozenset({"succeeded", "skipped", "failed", "cancelled"})
UNSTARTED = "unstarted"
"""What the log calls handing back a job that had not begun: history has no line for it."""

_ROWS = """
SELECT id, state, lease_no, seq, worker FROM {0}job ORDER BY id;
SELECT job, seq, lease_no, worker, outcome, {1} FROM {0}attempt ORDER BY job, seq;
SELECT job, arguments FROM {0}job_data;
SELECT task, key, job FROM {0}job_key
"""


class Row(NamedTuple):
    """A row of `attempt`."""

    job: int
    seq: int
    lease_no: int
    worker: str
    outcome: str
    finished_at: int


class End(NamedTuple):
    """A worker's word that an attempt ends so: job, lease and number, and the outcome."""

    job: int
    lease_no: int
    seq: int
    outcome: str


@dataclass
class Ask:
    worker: str
    verb: str
    ends: list[End]
    most_claims: int
    until: int
    """How long at least a lease lasts that this renews."""
    results: list[str] | None = None
    """None where nobody heard the answer."""
    claims: list[tuple[int, int, int, int, int]] | None = None
    """Job, lease and number; when it was claimed and until when, by the store's clock."""

    @property
    def is_open(self) -> bool:
        return self.results is None


class Database:
    """Every row, as the database has it."""

    def __init__(self, url: str) -> None:
        found = _from_sqlite(url) if url.startswith("sqlite") else _from_postgres(url)
        self.jobs = {id_: (state, lease_no, seq) for id_, state, lease_no, seq, _ in found[0]}
        self.workers = {id_: worker for id_, *_, worker in found[0]}
        self.attempts = [Row(*row) for row in found[1]]
        self.arguments = {job: json.loads(arguments) for job, arguments in found[2]}
        self.keys = {(task, key): job for task, key, job in found[3]}


def _from_sqlite(url: str) -> list[list[Any]]:
    connection = apsw.Connection(url.removeprefix("sqlite:///"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        queries = _ROWS.format("seawall_", "finished_at").split(";")
        return [connection.execute(query).fetchall() for query in queries]
    finally:
        connection.close()


def _from_postgres(url: str) -> list[list[Any]]:
    finished_at = "(extract(epoch FROM finished_at) * 1000000)::bigint"
    with psycopg.connect(url) as connection:
        queries = _ROWS.format("seawall.", finished_at).split(";")
        return [connection.execute(query).fetchall() for query in queries]


def read_logs(paths: Iterable[Path], killed: set[str]) -> list[Ask]:
    """Every ask of every worker, in the order that each asked; only the killed may leave one."""
    asks: list[Ask] = []
    for path in paths:
        mine = _read_log(path)
        open_ones = [ask for ask in mine if ask.is_open and ask.claims is None]
        assert not open_ones or path.stem in killed, f"{path.stem} lived, and left an ask open"
        assert open_ones in ([], mine[-1:]), f"{path.stem} went on before it was answered"
        asks += mine
    return asks


def _read_log(path: Path) -> list[Ask]:
    asks: dict[int, Ask] = {}
    *whole, torn = path.read_bytes().split(b"\n")
    assert torn == b"" or not torn.endswith(b"}"), "a line is written with its end, or not whole"
    for line in map(json.loads, whole):
        if "ask" in line:
            ends = [End(*row) for row in line["rows"]]
            asks[line["ask"]] = Ask(path.stem, line["verb"], ends, line["claims"], line["until"])
        elif "answered" in line:
            ask = asks[line["answered"]]
            ask.results = line.get("results")  # None where the store was not available
            ask.claims = [tuple(claim) for claim in line.get("claims", ())]
    return list(asks.values())


class Audit:
    """Everything that must hold between the logs and the rows."""

    def __init__(self, database: Database, asks: list[Ask]) -> None:
        self.database = database
        self.asks = asks
        self.claims = {
            (job, lease_no): (seq, claimed_at)
            for ask in asks
            for job, lease_no, seq, claimed_at, _ in ask.claims or ()
        }
        self.done = Counter(end for end, result in self._heard() if result == "done")
        self.unheard = {end for ask in asks if ask.is_open for end in ask.ends}
        self.handed_back = {end[:2] for end in self.done if end.outcome == UNSTARTED}
        self.perhaps_handed_back = {e[:2] for e in self.unheard if e.outcome == UNSTARTED}
        self.ended: dict[tuple[int, int], list[Row]] = defaultdict(list)
        for row in database.attempts:
            if row.outcome in ENDS:
                self.ended[row.job, row.lease_no].append(row)

    def _heard(self) -> list[tuple[End, str]]:
        """Each word of a worker with what the store said to it; renewing ends nothing."""
        return [
            pair
            for ask in self.asks
            if ask.results is not None and ask.verb != "renew"
            for pair in zip(ask.ends, ask.results, strict=True)
        ]

    def nothing_is_lost(self, created: set[int], keys: set[tuple[str, str]]) -> None:
        assert set(self.database.jobs) == created == set(self.database.arguments)
        unfinished = {
            job: state for job, (state, *_) in self.database.jobs.items() if state not in FINISHED
        }
        assert unfinished == {}
        assert set(self.database.keys) == keys
        named = Counter(each["key"] for each in self.database.arguments.values() if each["key"])
        assert set(named.values()) <= {1}, "a key has several jobs"
        assert set(named) == {key for _, key in keys}

    def nothing_is_held_twice(self) -> None:
        """Each lease is one worker's, and none is given before the one before it was ended."""
        given = [(job, lease) for ask in self.asks for job, lease, *_ in ask.claims or ()]
        assert len(given) == len(set(given)), "two claims answered the same lease"
        for job, (_, leases, _) in self.database.jobs.items():
            for lease_no in range(1, leases + 1):
                self._lease_ended_once(job, lease_no)
                self._claimed_after_the_one_before(job, lease_no)
                if (job, lease_no) not in self.claims:
                    self._nobody_heard_of(job, lease_no)

    def _lease_ended_once(self, job: int, lease_no: int) -> None:
        rows = self.ended[job, lease_no]
        assert len(rows) <= 1, f"ended twice: {rows}"
        if rows:
            assert (job, lease_no) not in self.handed_back, f"handed back, and ended: {rows}"
        else:
            known = self.handed_back | self.perhaps_handed_back
            assert (job, lease_no) in known, f"lease {lease_no} of job {job} never ended"

    def _claimed_after_the_one_before(self, job: int, lease_no: int) -> None:
        now, before = self.claims.get((job, lease_no)), self.claims.get((job, lease_no - 1))
        if now and before:
            assert before[0] <= now[0], "the attempt's number fell"
        for row in self.ended[job, lease_no - 1]:
            if now:
                assert now[0] > row.seq, f"claimed with the number of an ended attempt: {row}"
            if now and row.outcome != "released":  # that one is due from long before
                assert now[1] >= row.finished_at, f"claimed before it ended: {row}"

    def leases_were_left_to_their_end(self) -> None:
        """Nobody took a job back while its worker still had the right to it."""
        until: dict[tuple[int, int], int] = {}
        for ask in self.asks:
            for job, lease_no, _, _, end in ask.claims or ():
                until[job, lease_no] = max(end, until.get((job, lease_no), 0))
            for end, result in zip(ask.ends, ask.results or (), strict=False):
                if (ask.verb, result) == ("renew", "done"):
                    until[end[:2]] = max(ask.until, until.get(end[:2], 0))
        for row in self.database.attempts:
            if row.outcome == "lost":
                assert row.finished_at >= until.get((row.job, row.lease_no), 0), f"early: {row}"

    def _nobody_heard_of(self, job: int, lease_no: int) -> None:
        """Its worker died before it could write it down, so only time can have ended it."""
        (row,) = self.ended[job, lease_no]
        assert row.outcome == "lost", f"ended by somebody who did not claim it: {row}"
        unheard = [a for a in self.asks if a.worker == row.worker and a.is_open and a.most_claims]
        assert unheard, f"{row.worker} was answered every claim, but not this: {row}"

    def no_more_is_unheard_than_was_asked(self) -> None:
        unknown: Counter[str] = Counter(
            rows[0].worker
            for lease, rows in self.ended.items()
            if rows and lease not in self.claims
        )
        for worker, count in unknown.items():
            most = sum(a.most_claims for a in self.asks if a.worker == worker and a.is_open)
            assert count <= most, f"{worker} had {count} jobs that it never heard of"

    def leases_grow(self) -> None:
        """Along each job's history, and along each worker's claims."""
        for before, after in zip(self.database.attempts, self.database.attempts[1:], strict=False):
            if before.job == after.job:
                assert after.seq == before.seq + 1
                same = before.outcome == "advanced"
                assert after.lease_no >= before.lease_no + (not same), f"{before} then {after}"
        last: dict[tuple[str, int], int] = {}
        for ask in self.asks:
            for job, lease_no, *_ in ask.claims or ():
                assert last.get((ask.worker, job), 0) < lease_no
                last[ask.worker, job] = lease_no

    def history_is_what_was_answered(self) -> None:
        """Each `done` has its row, each row its `done` or an ask that nobody heard of."""
        rows = {End(r.job, r.lease_no, r.seq, r.outcome) for r in self.database.attempts}
        tokens = Counter(end[:3] for end in self.done.elements())
        assert set(tokens.values()) <= {1}, "a token was answered done twice"
        answered = {end for end in self.done if end.outcome != UNSTARTED}
        assert answered <= rows, f"done, but not in history: {answered - rows}"
        unexplained = rows - answered - self.unheard
        assert unexplained == set(), "in history, but nobody asked for it or was told otherwise"
        for end, result in self._heard():
            assert result in ("done", "already", "lost")
            if result == "already":
                assert end in rows
            elif result == "lost" and end.outcome != "lost":  # two may take the same job back
                assert end not in rows, f"told that it was lost, but it was done: {end}"

    def every_attempt_was_counted(self, tried: Counter[str]) -> None:
        """What was counted as it happened is what the rows say."""
        assert Counter(row.outcome for row in self.database.attempts) == tried

    def lost_by(self, workers: set[str]) -> int:
        return sum(r.outcome == "lost" and r.worker in workers for r in self.database.attempts)
