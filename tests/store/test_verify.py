"""`verify`: every rule that several rows can break is found broken, with the job that breaks it."""

import pytest

from seawall.errors import StoreError
from seawall.model import Lane, Outcome
from seawall.states import State
from seawall.store import NewRun, open_store, statements
from seawall.store.backend import BadRowError
from seawall.store.values import Advance, Redrive, Release
from seawall.store.verify import MOST_SHOWN
from tests.support.ledger import claimed, ended, enqueued, failed, lost, new_job, wanted


def _copied(who, seq, lease_no, *, of):
    """A line of history made from another."""
    columns = "worker, started_at, finished_at, outcome, counted"
    return (
        f"INSERT INTO seawall.attempt (job, seq, lease_no, cycle, stage, {columns})"
        f" SELECT {who}, {seq}, {lease_no}, cycle, stage, {columns}"
        f" FROM seawall.attempt WHERE {of}"
    )


def _told(who, lease_no, seq):
    """Progress, at no time in particular."""
    columns = "job, lease_no, seq, done, message, reported_at"
    return (
        f"INSERT INTO seawall.progress ({columns})"
        f" SELECT {who}, {lease_no}, {seq}, 1, '', created_at FROM seawall.job WHERE id = {{done}}"
    )


def _buried(who):
    """A dead letter like the one that is there."""
    columns = "state, lane, stage, code, fingerprint, fault, first_at, last_at, attempts"
    return (
        f"INSERT INTO seawall.dead_letter (job, {columns})"
        f" SELECT {who}, {columns} FROM seawall.dead_letter WHERE job = {{failed}}"
    )


def _used(who, seq):
    """What an attempt used up."""
    columns = "job, seq, stage, tokens_in, tokens_out, cost"
    return f"INSERT INTO seawall.usage ({columns}) VALUES ({who}, {seq}, 0, 1, 1, 1)"


BROKEN = [
    ("books", None, ["UPDATE seawall.tally SET jobs = jobs + 1 WHERE name = 'enqueued'"]),
    ("books", None, ["UPDATE seawall.tally SET jobs = jobs + 1 WHERE name = 'failed'"]),
    ("books", None, [
        "DELETE FROM seawall.job WHERE id = {keyless}",
        "DELETE FROM seawall.job_data WHERE job = {keyless}",
    ]),
    ("jobs_without_data", "keyless", ["DELETE FROM seawall.job_data WHERE job = {keyless}"]),
    ("rows_without_a_job", "nobody", [
        "INSERT INTO seawall.job_data (job, codec, arguments) VALUES ({nobody}, 'json', '[]')",
    ]),
    ("rows_without_a_job", "nobody", [
        "INSERT INTO seawall.job_key (task, key, job, digest) VALUES ('t', 'k', {nobody}, 'd')",
    ]),
    ("rows_without_a_job", "nobody", [
        "INSERT INTO seawall.output (job, stage, content) VALUES ({nobody}, 0, '[]')",
    ]),
    ("rows_without_a_job", "nobody", [
        _copied("{nobody}", 1, 1, of="job = {done}"),
    ]),
    ("rows_without_a_job", "nobody", [
        "INSERT INTO seawall.job_tag (tag, job) VALUES ('t', {nobody})",
    ]),
    ("rows_without_a_job", "nobody", [
        "INSERT INTO seawall.evidence (job, seq, traceback) VALUES ({nobody}, 1, 'x')",
    ]),
    ("rows_without_a_job", "nobody", [
        _told("{nobody}", 1, 1),
    ]),
    ("evidence_of_no_attempt", "tried", [
        "INSERT INTO seawall.evidence (job, seq, traceback) VALUES ({tried}, 3, 'x')",
    ]),
    ("progress_of_no_attempt", "tried", [_told("{tried}", 1, 4)]),
    ("progress_of_no_attempt", "tried", [_told("{tried}", 4, 1)]),
    ("jobs_in_no_lane", "keyless", ["UPDATE seawall.job SET lane = 999 WHERE id = {keyless}"]),
    ("jobs_in_no_lane", "keyless", ["UPDATE seawall.job SET stage = 1 WHERE id = {keyless}"]),
    ("leases_used_twice", "tried", [
        "DELETE FROM seawall.attempt WHERE job = {tried} AND seq = 2",
        _copied("job", 2, 1, of="job = {tried} AND seq = 1"),
    ]),
    ("leases_used_twice", "running", [
        "UPDATE seawall.job SET lease_no = 1 WHERE id = {running}",
    ]),
    ("history_with_gaps", "tried", [
        "DELETE FROM seawall.attempt WHERE job = {tried} AND seq = 1",
    ]),
    ("history_with_gaps", "tried", [
        "DELETE FROM seawall.attempt WHERE job = {tried} AND seq = 2",
    ]),
    ("history_with_gaps", "tried", [
        _copied("job", 3, 3, of="job = {tried} AND seq = 2"),
    ]),
    ("wrong_counts", "tried", ["UPDATE seawall.job SET tries = 1 WHERE id = {tried}"]),
    ("wrong_counts", "tried", ["UPDATE seawall.job SET losses = 1 WHERE id = {tried}"]),
    ("wrong_counts", "done", ["UPDATE seawall.job SET cycle = 1 WHERE id = {done}"]),
    ("leases_out_of_order", "tried", [
        "UPDATE seawall.job SET lease_no = 1 WHERE id = {tried}",
    ]),
    ("leases_out_of_order", "tried", [
        "DELETE FROM seawall.attempt WHERE job = {tried} AND seq = 1",
        _copied("job", 1, 2, of="job = {tried} AND seq = 2"),
        "DELETE FROM seawall.attempt WHERE job = {tried} AND seq = 2",
        _copied("job", 2, 1, of="job = {tried} AND seq = 1"),
    ]),
    ("rows_without_a_job", "nobody", [_buried("{nobody}")]),
    ("failures_without_a_letter", "failed", [
        "DELETE FROM seawall.dead_letter WHERE job = {failed}",
    ]),
    ("failures_without_a_letter", "failed", [
        "UPDATE seawall.dead_letter SET state = 'redriven', handled_at = last_at WHERE job = {failed}",
    ]),
    ("failures_without_a_letter", "failed", [
        "UPDATE seawall.dead_letter SET attempts = 7 WHERE job = {failed}",
    ]),
    ("letters_of_no_failure", "keyless", [_buried("{keyless}")]),
    ("ends_without_an_attempt", "done", [
        "UPDATE seawall.job SET state = 'skipped' WHERE id = {done}",
    ]),
    ("usage_of_no_attempt", "tried", [
        _used("{tried}", 9),
    ]),
    ("rows_without_a_job", "nobody", [
        _used("{nobody}", 1),
    ]),
    ("stranded_items", "item", ["UPDATE seawall.run SET closed_at = created_at"]),
    ("items_unaccounted_for", "run", ["UPDATE seawall.run_tally SET entered = entered + 1"]),
    ("wrong_items", "run", ["UPDATE seawall.run_tally SET failed = failed + 1"]),
    ("wrong_items", "run", [
        "UPDATE seawall.run_tally SET failed = failed - 1, succeeded = succeeded + 1",
    ]),
    ("wrong_pace", "one", [
        "UPDATE seawall.pace_total SET many = many + 1 WHERE kind = 'job' AND what = 'created'",
    ]),
    ("wrong_pace", "one", [
        "UPDATE seawall.pace_total SET many = many - 1 WHERE kind = 'job' AND what = 'succeeded'",
    ]),
    ("wrong_pace", "one", [
        "DELETE FROM seawall.pace_total WHERE kind = 'job' AND what = 'succeeded'",
    ]),
]  # fmt: skip


@pytest.fixture
def store(url, clock):
    """Without the proof at the end: here its books are cooked."""
    with open_store(url, clock=clock) as opened:
        yield opened


def _write(store, sql, ids):
    sql = sql.format(**ids)
    if store._backend.dialect == "sqlite":
        sql = sql.replace("seawall.", "seawall_")
    with store._backend.transaction() as session:
        session.script(sql)


def _some_jobs(store):
    """Sound jobs of several fates."""
    run = store.start_run(NewRun(pipeline="p", name="r", stages=("a",), terms="{}")).run_id
    item = new_job(lane=Lane(task="work", run=run), run=run)
    failed(store, item)
    (done,) = claimed(store)
    store.settle([ended(done.token, output="[1]", duration_seconds=1)])
    (bad,) = failed(store, new_job())
    (again,) = claimed(store)
    store.settle([ended(again.token, Outcome.RETRIED, delay_seconds=0)])
    store.claim(wanted())
    (tried,) = enqueued(store)
    for seconds in (1, 1, None):
        (claim,) = store.claim(wanted())
        store.release([Release(token=claim.token, duration_seconds=seconds)])
    (keyless, _, waiting) = enqueued(store, new_job(), new_job(key="k"), item)
    store.fold_runs()
    store.fold_pace()
    assert store.verify().ok
    return {
        "done": done.token.job_id,
        "failed": bad,
        "running": again.token.job_id,
        "tried": tried,
        "keyless": keyless,
        "nobody": 10**6,
        "run": run,
        "item": waiting,
        "one": 1,
    }


@pytest.mark.parametrize(("rule", "culprit", "sql"), BROKEN)
def test_a_broken_rule_is_named_with_the_job_that_breaks_it(store, rule, culprit, sql):
    ids = _some_jobs(store)
    for statement in sql:
        _write(store, statement, ids)

    found = store.verify()

    assert not found.ok
    # Where the books are cooked, or an end is another, the counters know it, too.
    told = [each for each in found.violations if rule == each.rule or each.rule != "wrong_pace"]
    (violation,) = told
    assert (violation.rule, violation.count) == (rule, 1)
    assert violation.jobs == (() if culprit is None else (ids[culprit],))
    assert violation.promise


def test_every_rule_is_broken_above(store):
    rules = {s.name for s in statements.load(store._backend.dialect).values() if s.verb == "verify"}

    assert {rule for rule, _, _ in BROKEN} == rules


def test_books_that_do_not_balance_say_by_how_much(store):
    _write(store, "UPDATE seawall.tally SET jobs = 1234 WHERE name = 'skipped'", {})

    violation, counted = store.verify().violations

    assert (counted.rule, counted.jobs) == ("wrong_pace", (1_234,))
    assert violation.count == 1_234
    assert "(0 ≠ 0 + 1,234)" in violation.promise


def test_of_many_that_break_a_rule_all_are_counted_and_the_first_are_shown(store):
    ids = enqueued(store, *(new_job() for _ in range(50)))
    _write(store, "DELETE FROM seawall.job_data", {})

    (violation,) = store.verify().violations

    assert (violation.count, violation.jobs) == (50, tuple(ids[:MOST_SHOWN]))


def test_several_broken_rules_are_all_told(store):
    ids = _some_jobs(store)
    _write(store, "DELETE FROM seawall.job_data WHERE job = {keyless}", ids)
    _write(store, "UPDATE seawall.job SET tries = 1 WHERE id = {tried}", ids)

    assert [v.rule for v in store.verify().violations] == ["jobs_without_data", "wrong_counts"]


def test_an_empty_store_is_sound(store):
    found = store.verify()

    assert (found.ok, found.entered, found.pruned) == (True, 0, 0)
    assert found.present == dict.fromkeys(State, 0)


def test_a_full_life_is_sound_at_every_step(store, clock):
    second = Lane(task="work", stage=1)
    (job_id,) = enqueued(store, new_job(key="k"))
    tokens = []

    def claim():
        tokens.extend(found.token for found in store.claim(wanted()))
        return tokens[-1]

    steps = [
        lambda: store.settle([ended(claim(), Outcome.RETRIED, delay_seconds=0)]),
        lambda: store.advance([Advance(token=claim(), lane=second, output="[1]")]),
        lambda: store.settle([ended(tokens[-1].next(), Outcome.RETRIED, delay_seconds=0)]),
        claim,
        lambda: clock.advance(60),
        lambda: store.reclaim([lost(tokens[-1], None)]),
        lambda: store.redrive([Redrive(job_id, Lane(task="work"))]),
        lambda: store.advance([Advance(token=claim(), lane=second)]),
        lambda: store.settle([ended(tokens[-1].next())]),
        lambda: clock.advance(1),
    ]
    for step in steps:
        step()
        assert store.verify().violations == ()

    assert store.prune(State.SUCCEEDED, older_than_seconds=0) == 1
    assert (store.verify().violations, store.verify().pruned) == ((), 1)


def test_it_tells_what_came_in_what_is_there_and_what_has_gone(store, clock):
    _some_jobs(store)
    clock.advance(1)
    store.prune(State.FAILED, older_than_seconds=0)

    found = store.verify()

    assert (found.entered, found.pruned) == (8, 2)
    assert found.present == store.counts()
    assert found.present == {
        **dict.fromkeys(State, 0), State.QUEUED: 4, State.RUNNING: 1, State.SUCCEEDED: 1,
    }  # fmt: skip


# --- what one row alone can get wrong, the schema forbids -------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        "state = 'odd'",
        "state = 'running'",
        "worker = 'w1'",
        "state = 'succeeded'",
        "finished_at = created_at",
        "state = 'failed', finished_at = created_at",
        "cancel_requested = true",
        "tries = 1",
        "losses = 1",
        "cycle = -1",
        "stage = -1",
        "lease_no = -1",
        "seq = 1",
        "started_at = created_at",
        "due_at = created_at, due_set_at = deadline_at",
        "due_at = NULL",
        "lane = NULL",
    ],
)
def test_a_job_that_contradicts_itself_cannot_be_written(store, clock, wrong):
    later = clock.now().replace(year=2030)
    (job_id,) = enqueued(store, new_job(deadline_at=later))
    before = store.jobs([job_id])

    with pytest.raises(BadRowError):
        _write(store, f"UPDATE seawall.job SET {wrong}", {})

    assert store.jobs([job_id]) == before


@pytest.mark.parametrize(
    "wrong", ["worker = NULL", "lease_until = leased_at", "lease_no = 0", "lease_until = NULL"]
)
def test_a_lease_that_contradicts_itself_cannot_be_written(store, wrong):
    claimed(store)

    with pytest.raises(BadRowError):
        _write(store, f"UPDATE seawall.job SET {wrong}", {})


@pytest.mark.parametrize(
    "wrong",
    [
        "1, finished_at, started_at, 'released'",
        "0, started_at, finished_at, 'released'",
        "1, started_at, finished_at, 'failed'",
        "1, started_at, finished_at, 'odd'",
    ],
)
def test_an_attempt_that_contradicts_itself_cannot_be_written(store, wrong):
    ids = _some_jobs(store)
    columns = (
        "(job, seq, cycle, stage, worker, counted, lease_no, started_at, finished_at, outcome)"
    )
    row = f"job, 9, cycle, stage, worker, counted, {wrong}"

    with pytest.raises(BadRowError):
        _write(
            store,
            f"INSERT INTO seawall.attempt {columns} SELECT {row}"
            " FROM seawall.attempt WHERE job = {done}",
            ids,
        )


def test_history_cannot_be_changed(store):
    ids = _some_jobs(store)
    before = store.attempts(ids["done"])

    with pytest.raises(StoreError, match="attempts are never changed"):
        _write(store, "UPDATE seawall.attempt SET counted = false WHERE job = {done}", ids)

    assert store.attempts(ids["done"]) == before
