"""What the verbs cost, in counts: statements, round trips, rows looked at.

Seconds say little on a noisy machine. A count says the same everywhere, and it is what grows when
something that was done once for a batch is done once for each job. The bounds are what is seen
today and a little more; whoever has to raise one has made every user of the store pay for it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

import apsw
import pytest

from seawall.model import Lane, Outcome, Usage
from seawall.store import finding, open_store, postgres_connections
from seawall.store.values import Advance, Filter, Observation, Redrive, Release, Result, Scope
from tests.crash.proxy import Proxy
from tests.support.ledger import ended, enqueued, new_job, wanted

MANY = 1_000
"""As many as a batch may have."""
_VERBS = ("all", "batch", "together", "enqueue_plain", "transaction")
SPARE = 2
"""A word to those who wait may go a moment later, and once a second the lanes are looked at."""

pytestmark = pytest.mark.parametrize("kind", ["file", "postgres18"], indirect=True)


class Cost(NamedTuple):
    """What something took."""

    asks: int
    """How often the ledger turned to its backend."""
    statements: int
    """On SQLite each that ran, BEGIN and COMMIT too, but for the rows that one was given; on
    PostgreSQL each that travelled."""
    trips: int
    """On PostgreSQL how often an answer was waited for; on SQLite transactions."""


MOST = {
    # What is seen today: on SQLite the statements of each step, BEGIN and COMMIT; on PostgreSQL as
    # many statements as there are steps, all in one trip. What comes in or ends is counted by one
    # statement more on SQLite, whatever the batch, and within the same one on PostgreSQL.
    "enqueue": {"file": Cost(1, 8, 1), "postgres18": Cost(1, 1, 1)},
    "settle": {"file": Cost(1, 8, 1), "postgres18": Cost(1, 1, 1)},
    "fail": {"file": Cost(1, 11, 1), "postgres18": Cost(1, 1, 1)},
    "advance": {"file": Cost(1, 10, 1), "postgres18": Cost(1, 1, 1)},
    "claim": {"file": Cost(1, 3, 1), "postgres18": Cost(1, 1, 1)},
    "exchange": {"file": Cost(1, 9, 1), "postgres18": Cost(1, 2, 1)},
    "exchange ahead": {"file": Cost(1, 10, 1), "postgres18": Cost(1, 3, 1)},
    # And what is asked for at an upstream's desk, each for itself: what follows depends on it.
    # Calls are counted by the minute, too.
    "observe": {"file": Cost(1, 11, 1), "postgres18": Cost(1, 3, 1)},
    "govern": {"file": Cost(1, 6, 1), "postgres18": Cost(1, 6, 3)},
    "due": {"file": Cost(1, 1, 0), "postgres18": Cost(1, 1, 1)},
}
"""For a thousand jobs each; an exchange ends a thousand and claims a thousand."""


class Meter:
    """Counts what the store does while it is `on`."""

    def __init__(self, store, proxy) -> None:
        self._proxy = proxy
        self._depth = self._asks = 0
        self._ran: list[str] = []
        for verb in _VERBS:
            self._count(store._backend, verb)
        if proxy is None:
            store._backend._connection.exec_trace = self._runs

    def _count(self, backend, verb) -> None:
        real = getattr(backend, verb)

        def counted(*words, **values):
            self._asks += self._depth == 0
            self._depth += 1
            try:
                return real(*words, **values)
            finally:
                self._depth -= 1

        setattr(backend, verb, counted)

    def _runs(self, _cursor, statement, _values) -> bool:
        if not statement.startswith("INSERT INTO given_"):
            self._ran.append(statement)
        return True

    @contextmanager
    def on(self) -> Iterator[list[Cost]]:
        """What was done in the block; there when it is left."""
        found: list[Cost] = []
        self._asks, self._ran = 0, []
        if self._proxy is not None:
            self._proxy.arm()
        yield found
        if self._proxy is None:
            begun = sum(each.startswith("BEGIN") for each in self._ran)
            found.append(Cost(self._asks, len(self._ran), begun))
        else:
            self._proxy.disarm()
            seen = self._proxy.seen
            statements = sum(seen.count(kind) for kind in "QEd")
            found.append(Cost(self._asks, statements, seen.count("S") + seen.count("Q")))


@pytest.fixture
def proxy(kind, url):
    if kind == "file":
        yield None
        return
    with Proxy(url) as between:
        yield between


@pytest.fixture
def store(url, clock, proxy, monkeypatch):
    """As every test of the suite has it, but on one connection, and heard on its way."""
    monkeypatch.setattr(postgres_connections, "CONNECTIONS", 1)
    with open_store(url if proxy is None else proxy.url, clock=clock) as opened:
        yield opened
        assert opened.verify().violations == ()


@pytest.fixture
def meter(store, proxy):
    """A meter of a store that has met its lane and prepared its statements."""
    for _ in range(3):
        _enqueue(store, 20)
        store.settle(_ends(store.claim(wanted(5))))
        _, more = store.exchange(_ends(store.claim(wanted(5))), wanted(5), wanted(5, prefetch=True))
        store.settle(_ends(more))
    return Meter(store, proxy)


def _enqueue(store, many):
    return enqueued(store, *(new_job('{"n": 1}') for _ in range(many)))


def _ends(claims):
    return [ended(claim.token, output='{"n": 1}') for claim in claims]


def _within(cost, what, kind):
    """No dearer than it was, but for what has nothing to do with how many jobs there are."""
    assert all(seen <= most + SPARE for seen, most in zip(cost, MOST[what][kind], strict=True)), (
        cost
    )


def test_a_thousand_plain_jobs_are_enqueued_by_one_ask(store, kind, meter):
    with meter.on() as cost:
        assert len(_enqueue(store, MANY)) == MANY

    _within(*cost, "enqueue", kind)


def test_a_thousand_jobs_are_claimed_by_one_ask(store, kind, meter):
    _enqueue(store, MANY)

    with meter.on() as cost:
        assert len(store.claim(wanted(MANY))) == MANY

    _within(*cost, "claim", kind)


def test_a_thousand_successes_are_settled_by_one_ask(store, kind, meter):
    _enqueue(store, MANY)
    claims = store.claim(wanted(MANY))

    with meter.on() as cost:
        store.settle(_ends(claims))

    _within(*cost, "settle", kind)


@pytest.mark.parametrize("outcome", [Outcome.RETRIED, Outcome.FAILED])
def test_a_thousand_failures_are_settled_by_one_ask(store, kind, meter, outcome):
    _enqueue(store, MANY)
    claims = store.claim(wanted(MANY))
    ends = [ended(claim.token, outcome, traceback="somewhere") for claim in claims]

    with meter.on() as cost:
        answers = store.settle(ends)

    assert {answer.result for answer in answers} == {Result.DONE}
    _within(*cost, "fail", kind)


def test_a_thousand_items_go_on_to_their_next_stage_by_one_ask(store, kind, meter):
    _items(store, MANY)
    first, *others = _go_on(store.claim(wanted(MANY)))
    store.advance([first])  # who meets their lane

    with meter.on() as cost:
        answers = store.advance(others)

    assert {answer.result for answer in answers} == {Result.DONE}
    _within(*cost, "advance", kind)


def test_no_statement_is_prepared_anew_for_each_row(store, proxy):
    """A plan that hangs on what is bound is made for every row again, at many times its cost."""
    for _ in range(6):
        _worked(store, 5)
    few = _prepared(store, proxy, 5)
    many = _prepared(store, proxy, 200)

    assert many <= SLACK * few, (few, many)


def _prepared(store, proxy, many) -> int:
    """How much is prepared while so many go their way."""
    if proxy is not None:
        proxy.arm()
        _worked(store, many)
        proxy.disarm()
        return proxy.seen.count("P")
    asked: list[int] = []
    # SQLite asks whether it may read or write something when it prepares, and only then; whoever
    # begins to listen has everything prepared once more.
    store._backend._connection.authorizer = lambda *_: asked.append(1) or apsw.SQLITE_OK
    _worked(store, many)
    store._backend._connection.authorizer = None
    assert asked, "it counts nothing"
    return len(asked)


def _worked(store, many) -> None:
    """Every way that a job of a pipeline goes, for each of so many."""
    _items(store, many)
    claims = store.claim(wanted(many))
    store.renew([claim.token for claim in claims], lease_seconds=60)
    store.advance(_go_on(claims))
    tokens = [claim.token.next() for claim in claims]
    thirds = tokens[0::3], tokens[1::3], tokens[2::3]
    store.settle([ended(token, output="1") for token in thirds[0]])
    store.settle([ended(token, Outcome.FAILED) for token in thirds[1]])
    store.release([Release(token=token) for token in thirds[2]])
    failed = [token.job_id for token in thirds[1]]
    store.redrive([Redrive(job_id) for job_id in failed])
    store.cancel([token.job_id for token in tokens])


def _items(store, many):
    return enqueued(store, *(new_job(run=1) for _ in range(many)))


def _go_on(claims):
    lane = replace(claims[0].lane, stage=1)
    return [
        Advance(token=claim.token, lane=lane, output="1", config="c", usage=Usage(1, 1, 1.0))
        for claim in claims
    ]


def test_a_thousand_ends_and_a_thousand_claims_are_exchanged_by_one_ask(store, kind, meter):
    _enqueue(store, MANY)
    _enqueue(store, MANY)
    claims = store.claim(wanted(MANY))

    with meter.on() as cost:
        answers, more = store.exchange(_ends(claims), wanted(MANY))

    assert (len(answers), len(more)) == (MANY, MANY)
    _within(*cost, "exchange", kind)


def test_what_is_claimed_ahead_goes_with_the_same_exchange(store, kind, meter):
    for _ in range(3):
        _enqueue(store, MANY)
    claims = store.claim(wanted(MANY))

    with meter.on() as cost:
        answers, more = store.exchange(_ends(claims), wanted(MANY), wanted(MANY, prefetch=True))

    assert (len(answers), len(more)) == (MANY, 2 * MANY)
    _within(*cost, "exchange ahead", kind)


def test_calls_are_told_of_with_the_same_exchange(store, kind, meter):
    _enqueue(store, MANY)
    _enqueue(store, MANY)
    claims = store.claim(wanted(MANY))

    with meter.on() as cost:
        answers, more = store.exchange(
            _ends(claims), wanted(MANY), observations=[Observation("api", "w1", firsts=MANY)]
        )

    assert (len(answers), len(more)) == (MANY, MANY)
    _within(*cost, "observe", kind)


def test_a_thousand_jobs_are_claimed_at_a_desk_by_one_transaction(store, kind, meter):
    enqueued(store, *(new_job(lane=GATED) for _ in range(MANY)))

    with meter.on() as cost, store.govern("api") as desk:
        claims = desk.claim(wanted(MANY))
        desk.keep("decided", gated=True)

    assert len(claims) == MANY
    _within(*cost, "govern", kind)


def test_to_ask_where_something_is_due_is_one_statement(store, kind, meter):
    enqueued(store, *(new_job(lane=replace(GATED, owner=f"o{n}")) for n in range(100)))

    with meter.on() as cost:
        assert len(store.due_at(wanted(), ["api"])) == 100

    _within(*cost, "due", kind)


# ── Rows ─────────────────────────────────────────────────────────────────────────────────────────

HELD = Lane(task="held")
GATED = Lane(task="work", upstream="api", priority=9)
"""In front of all others, were it not for its gate."""
BOTH = ("work", "held")
BACKLOG = 5
"""How many times a thousand jobs pile up in a lane."""
PER_CLAIM = 100
"""How many jobs a claim takes here."""
SLACK = 1.25
"""A page more of an index is no matter; twenty times as many rows would be."""
MOST_LOOKS_PER_JOB = {"sqlite": 350, "postgres": 10}
"""Steps of SQLite's own machine, rows and entries that PostgreSQL reads; today 264 and 7.1."""


class Looks:
    """How much the database looks at for an ask, by its own count."""

    def __init__(self, store) -> None:
        self._store = store

    def of_a_claim(self, **asked) -> int:
        return self.of(lambda: self._claim(**asked))

    def of(self, ask) -> int:
        if self._store._backend.dialect == "sqlite":
            return self._steps(ask)
        before = self._read()
        ask()
        return self._read() - before

    def _claim(self, **asked) -> None:
        plain = wanted(PER_CLAIM, tasks=BOTH)._replace(**asked)
        assert len(self._store.claim(plain)) == PER_CLAIM

    def _steps(self, ask) -> int:
        """The steps of SQLite's machine."""
        found: list[int] = []

        def ran(event) -> None:
            found.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

        connection = self._store._backend._connection
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, ran, id=self)
        ask()
        connection.trace_v2(0, None, id=self)
        return sum(found)

    def _read(self) -> int:
        """Rows and index entries that PostgreSQL has read so far."""
        with self._store._backend._connected() as connection:
            connection.execute("SELECT pg_stat_force_next_flush()")  # they are told once a second
            (tables,) = connection.execute(
                "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables"
            ).fetchone()
            (indexes,) = connection.execute(
                "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes"
            ).fetchone()
            return int(tables) + int(indexes)


def _full(store, clock) -> None:
    """Many that wait, many for later, and many that are held."""
    for _ in range(2):
        _enqueue(store, MANY)
        later = clock.now() + timedelta(hours=1)
        enqueued(store, *(new_job(run_after=later) for _ in range(MANY)))
        enqueued(store, *(new_job(lane=HELD) for _ in range(MANY)))


def test_a_claim_looks_at_no_more_rows_however_many_wait_for_now_later_or_are_held(
    store, clock, meter
):
    """A backlog must not make a claim dearer: that is when it can least be afforded."""
    enqueued(store, new_job(lane=HELD))
    store.hold(Scope.TASK, "held", reason="a test")
    clock.advance(1)
    looks = Looks(store)
    _enqueue(store, 3 * PER_CLAIM)
    looks.of_a_claim()  # what was done before may be told of with it
    of_few = [looks.of_a_claim() for _ in range(2)]
    _full(store, clock)

    of_many = [looks.of_a_claim() for _ in range(5)]

    usual = min(of_many)  # while the server looks after its tables, what was claimed is read again
    assert usual <= SLACK * min(of_few), (of_few, of_many)
    assert min(of_few) >= PER_CLAIM, "it counts nothing"
    assert usual <= MOST_LOOKS_PER_JOB[store._backend.dialect] * PER_CLAIM, of_many


MOST_LOOKS_PER_LANE = {"sqlite": 20, "postgres": 5}
"""For a look whether something is due in it; today 12 and 2.7."""


def _gate(store) -> None:
    with store.govern("api") as desk:
        desk.keep("decided", gated=True)


@pytest.mark.parametrize("knows", [False, True])
def test_a_claim_of_other_work_looks_at_no_more_rows_however_much_waits_at_a_gate(
    store, clock, meter, knows
):
    """Whether or not it was told of the gate: an outage is when the backlog grows."""
    enqueued(store, new_job(lane=GATED), new_job(lane=replace(GATED, retry=True)))
    _gate(store)
    clock.advance(1)
    looks, asked = Looks(store), {"without": frozenset({"api"})} if knows else {}
    _enqueue(store, 3 * PER_CLAIM)
    looks.of_a_claim(**asked)
    of_few = [looks.of_a_claim(**asked) for _ in range(2)]
    _enqueue(store, MANY)
    for lane in [GATED, replace(GATED, retry=True)] * BACKLOG:
        enqueued(store, *(new_job(lane=lane) for _ in range(MANY)))

    of_many = [looks.of_a_claim(**asked) for _ in range(5)]

    usual = min(of_many)
    assert usual <= SLACK * min(of_few), (of_few, of_many)
    assert min(of_few) >= PER_CLAIM, "it counts nothing"
    assert usual <= MOST_LOOKS_PER_JOB[store._backend.dialect] * PER_CLAIM, of_many


def test_a_desk_looks_at_no_more_rows_however_much_waits_elsewhere(store, clock, meter):
    def claim() -> None:
        with store.govern("api") as desk:
            assert len(desk.claim(wanted(PER_CLAIM))) == PER_CLAIM
            desk.keep("decided", gated=True)

    enqueued(store, *(new_job(lane=GATED) for _ in range(MANY)))
    looks = Looks(store)
    looks.of(claim)
    of_few = [looks.of(claim) for _ in range(2)]
    enqueued(store, *(new_job(lane=GATED) for _ in range(MANY)))
    for lane in [Lane(task="work"), replace(GATED, retry=True)] * BACKLOG:
        enqueued(store, *(new_job(lane=lane) for _ in range(MANY)))

    of_many = [looks.of(claim) for _ in range(5)]

    assert min(of_many) <= SLACK * min(of_few), (of_few, of_many)


def test_where_something_is_due_costs_a_look_into_each_lane_however_much_waits_there(
    store, clock, meter
):
    lanes = [replace(GATED, owner=f"o{n}", retry=bool(n % 2)) for n in range(100)]

    def ask() -> None:
        assert len(store.due_at(wanted(), ["api"])) == len(lanes)

    enqueued(store, *(new_job(lane=lane) for lane in lanes))
    looks = Looks(store)
    looks.of(ask)
    of_few = min(looks.of(ask) for _ in range(2))
    for _ in range(BACKLOG):
        _enqueue(store, MANY)
        enqueued(store, *(new_job(lane=lanes[n % 100]) for n in range(MANY)))
        later = clock.now() + timedelta(hours=1)
        enqueued(store, *(new_job(lane=lanes[n % 100], run_after=later) for n in range(MANY)))

    of_many = min(looks.of(ask) for _ in range(5))

    assert of_many <= SLACK * of_few, (of_few, of_many)
    assert len(lanes) <= of_many <= MOST_LOOKS_PER_LANE[store._backend.dialect] * len(lanes)


def test_what_was_seen_lately_is_read_and_what_is_older_is_not(store, clock, meter):
    """A desk reads it for each decision, and an hour of it is kept."""

    def ask() -> None:
        assert len(store.observed("api", within_seconds=10)) == 10

    def forget() -> None:
        assert store.forget_observations(older_than_seconds=7_200) == 0

    def seen_for(seconds) -> None:
        for _ in range(seconds):
            clock.advance(1)
            store.observe([Observation("api", "w1", firsts=1)])

    looks = Looks(store)
    seen_for(20)
    looks.of(ask)
    of_few = [min(looks.of(each) for _ in range(3)) for each in (ask, forget)]
    seen_for(1_000)

    of_many = [min(looks.of(each) for _ in range(3)) for each in (ask, forget)]

    assert of_many[0] <= SLACK * of_few[0] + 5, (of_few, of_many)
    assert of_many[1] <= SLACK * of_few[1] + 5, (of_few, of_many)
    assert of_few[0] >= 10, "it counts nothing"


def _analyse(store) -> None:
    """As PostgreSQL does by itself before long: plans are made by what there is."""
    if store._backend.dialect == "postgres":
        with store._backend.migrating() as session:
            session.script("ANALYZE")


SEARCHES = {
    "all": Filter(argument="needle"),
    "a task's": Filter(task="held"),
    "an owner's that wait": Filter(state="queued", owner="nobody"),
    "a fault's": Filter(state="queued", fault="TIMEOUT"),
}


@pytest.mark.parametrize("which", SEARCHES.values(), ids=SEARCHES)
def test_a_search_looks_at_no_more_rows_however_many_jobs_there_are(
    store, clock, meter, which, monkeypatch
):
    monkeypatch.setattr(finding, "LOOKED_AT", 100)
    monkeypatch.setattr(finding, "LOOKED_INTO", 100)

    def ask() -> None:
        page = store.page(which)
        assert (page.jobs, page.whole) == ((), False)

    looks = Looks(store)
    enqueued(store, new_job(lane=HELD))
    for _ in range(5):
        clock.advance(1)
        _enqueue(store, 200)
    _analyse(store)
    looks.of(ask)
    of_few = [looks.of(ask) for _ in range(3)]
    for _ in range(BACKLOG):
        clock.advance(1)
        _enqueue(store, MANY)
    _analyse(store)

    of_many = [looks.of(ask) for _ in range(5)]

    assert min(of_many) <= SLACK * min(of_few) + 20, (of_few, of_many)
    assert min(of_few) >= 100, "it counts nothing"


def _pace_rows(store) -> int:
    """How many rows there are that were not folded."""
    if store._backend.dialect == "sqlite":
        asked = "SELECT count(*) FROM seawall_pace_change"
        return store._backend._connection.execute(asked).fetchall()[0][0]
    with store._backend._connected() as connection:
        return connection.execute("SELECT count(*) FROM seawall.pace_change").fetchone()[0]


def test_a_thousand_jobs_that_are_alike_are_counted_by_a_row_or_two(store, meter):
    store.fold_pace()
    _enqueue(store, MANY)
    claims = store.claim(wanted(MANY))
    assert _pace_rows(store) == 1
    store.settle(_ends(claims))

    assert _pace_rows(store) == 2


def test_the_past_costs_no_more_to_be_read_however_many_jobs_there_were(store, clock, meter):
    """By the minute, by the hour and in all."""

    def ask() -> None:
        since = clock.now() - timedelta(hours=24)
        assert len(store.pace(since)) == 24 * 60 + 1
        store.pace(since, step_seconds=3_600, task="work")
        store.totals()

    def work(many) -> None:
        for _ in range(20):
            clock.advance(60)
            _enqueue(store, many)
            store.settle(_ends(store.claim(wanted(many))))
        store.fold_pace()

    looks = Looks(store)
    work(1)
    looks.of(ask)
    of_few = min(looks.of(ask) for _ in range(2))
    work(MANY // 5)
    clock.advance(24 * 3_600 - 20 * 60)  # as many minutes are looked at as before

    of_many = min(looks.of(ask) for _ in range(5))

    assert of_few >= 20, "it counts nothing"
    # A plan made of older statistics may read a few hundred more; never the thousands there were.
    assert of_many <= 2 * of_few + MANY, (of_few, of_many)
