"""No statement of a worker or of upkeep reads the table of jobs from end to end.

The planners are asked with twenty thousand jobs in the store and their statistics fresh, without
knowing the parameters: on PostgreSQL that is the generic plan, the worst that a prepared statement
can get.
"""

import json
import re

import pytest

from seawall.model import Lane, Outcome, Usage
from seawall.store import NewRun, NewWebhook, open_store, statements
from seawall.store.values import Observation, Redrive
from tests.support.ledger import ended, new_job, wanted

JOBS = 20_000
INDEX = {
    "claim": "job_due",
    "renew": "job_pkey",
    "advance": "job_pkey",
    "settle": "job_pkey",
    "release": "job_pkey",
    "reclaim": "job_pkey",
    "redrive": "job_pkey",
    "cancel": "job_pkey",
    "lapsed": "job_lapse",
    "expire": "job_deadline",
    "straighten_due": "job_due_set",
    "straighten_leases": "job_lapse",
    "prune": "job_finished",
    "find_attempts": "attempt_pkey",
    "read_attempts": "attempt_pkey",
    "read_jobs": "job_pkey",
    "find_keys": "job_key_pkey",
    "report": "job_pkey",
    "stopping": "job_stopping",
    "heads": "job_due",
    "backlog": "job_due",
    "page_queued": "job_due",
    "page_finished": "job_finished",
    "page_running": "job_lapse",
    "page_tagged": "job_tag_pkey",
    "page_owned": "job_owner",
    "page_of_run": "job_run",
    "page_keyed": "job_key_pkey",
    "page_newest": "job_pkey",
    "look_queued": "job_due",
    "look_finished": "job_finished",
    "look_tagged": "job_tag_pkey",
    "look_owned": "job_owner",
    "look_of_run": "job_run",
    "look_newest": "job_pkey",
    "read_texts": "job_data_pkey",
    "read_children": "job_data_parent",
    "letter_trends": "dead_letter_alike",
    "read_ends": "attempt_pkey",
    "read_arguments": "job_data_pkey",
    "read_trace": "job_data_pkey",
    "read_evidence": "evidence_pkey",
    "read_progress": "progress_pkey",
    "count_waiting": "job_due",
    "count_open_letters": "dead_letter_state",
    "standing_of_owner": "job_owner",
    "seen_lately": "observation_pkey",
    "due_lanes": "job_due",
    "observed": "observation_pkey",
    "called_upstreams": "observation_pkey",
    "forget_observations": "observation_minute",
    "read_upstream": "upstream_pkey",
    "read_letters": "dead_letter_pkey",
    "page_letters": "dead_letter_state",
    "page_letters_alike": "dead_letter_alike",
    "page_letters_of_run": "dead_letter_run",
    "count_letters": "dead_letter_state|dead_letter_alike",
    "group_letters": "dead_letter_state|dead_letter_alike",
    "new_letters": "dead_letter_state",
    "dismiss": "dead_letter_pkey",
    "undismiss": "dead_letter_pkey",
    "prune_dismissed": "dead_letter_dismissed",
    "count_live_items": "job_run_open",
    "causes": "dead_letter_run",
    "unfinished_items": "job_run_open",
    "close_run": "job_run_open",
    "audit_stages": "job_run",
    "audit_tries": "job_run",
    "audit_troubles": "job_run",
    "audit_configs": "job_run",
    "audit_success": "job_run",
    "audit_failed": "job_run_failed",
    "read_usage": "usage_pkey",
    "sum_usage": "usage_owner",
    "read_changes": "job_finished",
    "find_access": "access_token_pkey",
    "read_pace": "pace_minute_pkey",
    "forget_pace": "pace_minute_minute",
    "read_upstream_pace": "upstream_pace_pkey",
    "read_upstream_totals": "upstream_pace_folded",
    "fold_upstream_pace": "upstream_pace_told",
    "forget_upstream_pace": "upstream_pace_folded",
    "read_phases": "upstream_phase_upstream",
    "note_phase": "upstream_phase_upstream",
    "forget_phases": "upstream_phase_at",
    "read_webhook_secrets": "webhook_pkey",
    "read_notes": "outbox_pkey",
    "take_notes": "outbox_pkey",
}
"""What each statement must reach its rows by."""
HOUR = {
    "sqlite": """
        WITH RECURSIVE ago (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM ago WHERE n < 3600)
        INSERT OR IGNORE INTO seawall_observation
        SELECT upstream, second - n, worker, 1, 0, 0, 0, 0, 0 FROM seawall_observation, ago
    """,
    "postgres": """
        INSERT INTO seawall.observation
        SELECT upstream, second - n, worker, 1, 0, 0, 0, 0, 0
        FROM seawall.observation, generate_series(1, 3600) AS ago (n) ON CONFLICT DO NOTHING
    """,
}
"""What was observed in each second of an hour."""
DAYS = {
    "sqlite": """
        WITH RECURSIVE ago (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM ago WHERE n < 2880)
        INSERT OR IGNORE INTO seawall_pace_minute
        SELECT task || n % 20, minute - n, 1, 0, 1, 0, 0, 0, 0, 0 FROM seawall_pace_minute, ago;
        WITH RECURSIVE ago (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM ago WHERE n < 2880)
        INSERT OR IGNORE INTO seawall_upstream_pace
        SELECT upstream, minute - n, bucket, '', 1, 0, 0, 0 FROM seawall_upstream_pace, ago
        WHERE minute > 0;
        WITH RECURSIVE ago (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM ago WHERE n < 2880)
        INSERT INTO seawall_upstream_phase (upstream, at, phase, open_before)
        SELECT 'u' || n % 7, n * 1000000, 'open', 0 FROM ago;
    """,
    "postgres": """
        INSERT INTO seawall.pace_minute
        SELECT task || n % 20, minute - n, 1, 0, 1, 0, 0, 0, 0, 0
        FROM seawall.pace_minute, generate_series(1, 2880) AS ago (n) ON CONFLICT DO NOTHING;
        INSERT INTO seawall.upstream_pace
        SELECT upstream, minute - n, bucket, '', 1, 0, 0, 0
        FROM seawall.upstream_pace, generate_series(1, 2880) AS ago (n)
        WHERE minute > 0 ON CONFLICT DO NOTHING;
        INSERT INTO seawall.upstream_phase (upstream, at, phase, open_before)
        SELECT 'u' || n % 7, now() - n * interval '1 minute', 'open', 0
        FROM generate_series(1, 2880) AS ago (n);
    """,
}
"""What happened in each minute of two days."""


@pytest.fixture(params=["file", "postgres16", "postgres18"], scope="module")
def full(request, tmp_path_factory):
    """A store with many jobs in several states and lanes."""
    kind = request.param
    if kind == "file":
        url = f"sqlite:///{tmp_path_factory.mktemp('plans')}/jobs.db"
    else:
        fleet = request.getfixturevalue("postgres_fleet")
        url = fleet.server(kind.removeprefix("postgres")).new_url()
    with open_store(url) as store:
        lanes = [Lane(task="work", owner=f"o{n}") for n in range(10)]
        for start in range(0, JOBS, 1_000):
            store.enqueue([new_job(lane=lanes[n % 10]) for n in range(start, start + 1_000)])
        store.enqueue([new_job(lane=lanes[0], key=f"k{n}") for n in range(1_000)])
        store.enqueue([new_job(tags=("a", f"t{n}"), owner=f"o{n % 7}") for n in range(1_000)])
        for n in range(20):
            run = store.start_run(NewRun(pipeline="p", name=f"r{n}", stages=("a",), terms="{}"))
            item = new_job(lane=Lane(task="work", run=run.run_id), run=run.run_id)
            store.enqueue([item] * 100)
        claims = store.claim(wanted(1_000))
        store.settle([
            ended(claim.token, Outcome.FAILED if claim.run else Outcome.SUCCEEDED,
                  usage=Usage(1, 1, 1.0))
            for claim in claims[::2]
        ])  # fmt: skip
        for n in range(7):  # each second of an hour, as time would have it
            store.observe([Observation(f"u{n}", "w", firsts=1, spans=((3, 1),))])
        for _ in range(5):
            claims = store.claim(wanted(1_000))
            store.settle([ended(claim.token) for claim in claims])
        claims = store.claim(wanted(1_000))
        store.settle([ended(claim.token, Outcome.FAILED) for claim in claims])
        store.dismiss([claim.token.job_id for claim in claims[::3]], note="x")
        store.redrive([Redrive(claim.token.job_id) for claim in claims[1::3]])
        store.claim(wanted(500))
        store.add_webhook(NewWebhook(url="https://x", secret="whsec_x", events=("job.queued",)))
        store.enqueue([new_job() for _ in range(1_000)])
        store.fold_pace()
        with store._backend.migrating() as session:
            session.script(HOUR[store._backend.dialect])
            session.script(DAYS[store._backend.dialect])
            session.script("ANALYZE")
        yield store


def plan_of(store, statement):
    """The planner's own words, one line a step."""
    if store._backend.dialect == "sqlite":
        return _sqlite_plan(store, statement.sql)
    return _postgres_plan(store, statement.sql)


def _sqlite_plan(store, sql):
    names = set(re.findall(r":(\w+)", sql))
    connection = store._backend._connection
    lines = []
    for part in sql.split(";\n"):
        values = dict.fromkeys(names)
        lines += [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {part}", values)]
    return lines


def _postgres_plan(store, sql):
    return [step for step, _ in _postgres_steps(store, sql)]


def _postgres_steps(store, sql):
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", sql)))
    numbered = re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}", sql)
    explain = f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {numbered}".replace("%%", "%")
    with store._backend._connected() as connection:
        (answer,) = connection.execute(explain.encode(), prepare=False).fetchone()
    found = answer if isinstance(answer, list) else json.loads(answer)
    return list(_steps(found[0]["Plan"]))


def _steps(node):
    """Each step, with the condition by which it enters an index."""
    step = f"{node['Node Type']} on {node.get('Relation Name')} by {node.get('Index Name')}"
    yield step, node.get("Index Cond", "")
    for child in node.get("Plans", ()):
        yield from _steps(child)


@pytest.mark.parametrize("name", INDEX)
def test_a_statement_reaches_its_rows_by_its_index(full, name):
    dialect = full._backend.dialect
    plan = plan_of(full, statements.load(dialect)[name])

    if dialect == "postgres":
        # A bitmap of an index is that index, too.
        assert any(re.search(rf" by ({INDEX[name]})$", line) for line in plan), plan
        assert not [
            line
            for line in plan
            if re.match(r"Seq Scan on (job|attempt|job_data|observation|dead_letter)\b", line)
        ]
    else:
        index = _in_sqlite(INDEX[name])
        assert any(re.search(index, line) for line in plan), plan
        # A scan of an index that has only what waits, or what runs, is none of the table.
        whole = (
            r"SCAN (seawall_job|waiting|job|letter)\b"
            r"(?! USING (COVERING )?INDEX seawall_job_(due|lapse))"
        )
        assert not [line for line in plan if re.match(whole, line)], plan


def _in_sqlite(index):
    """A primary key of PostgreSQL is the row id, or the key of a table without one."""
    return {
        "job_pkey": r"INTEGER PRIMARY KEY \((rowid>\? AND )?rowid[=<]\?\)",
        "attempt_pkey": r"USING PRIMARY KEY \(job=\?",
        "job_key_pkey": r"USING PRIMARY KEY \(task=\? AND key=\?\)",
        "job_tag_pkey": r"USING PRIMARY KEY \(tag=\? AND (job>\? AND )?job<\?\)",
        "job_data_pkey": r"INTEGER PRIMARY KEY \(rowid=\?\)",
        "progress_pkey": r"INTEGER PRIMARY KEY \(rowid=\?\)",
        "dead_letter_pkey": r"INTEGER PRIMARY KEY \(rowid=\?\)",
        "observation_pkey": r"USING PRIMARY KEY \(upstream=\? AND second>\?\)",
        "webhook_pkey": r"INTEGER PRIMARY KEY \(rowid=\?\)",
        "outbox_pkey": r"SCAN seawall_outbox$|INTEGER PRIMARY KEY \(rowid=\?\)",
        "upstream_pkey": r"USING PRIMARY KEY \(name=\?\)",
        "pace_minute_pkey": r"USING PRIMARY KEY \(task=\? AND minute>\? AND minute<\?\)",
        "upstream_pace_pkey": r"USING PRIMARY KEY \(upstream=\? AND minute>\? AND minute<\?\)",
        "access_token_pkey": r"USING PRIMARY KEY \(id=\?\)",
        "usage_pkey": r"USING PRIMARY KEY \(job=\?\)",
        "evidence_pkey": r"INDEX sqlite_autoindex_seawall_evidence_1 \(job=\? AND seq=\?\)",
    }.get(index, rf"INDEX seawall_({index})\b")


def test_a_claim_looks_into_one_lane_after_another_and_stops_when_it_has_enough(full):
    """Nothing sorts or gathers the visit: a thousand lanes cost as many looks as it takes."""
    plan = plan_of(full, statements.load(full._backend.dialect)["claim"])
    if full._backend.dialect == "sqlite":
        assert not [line for line in plan if "TEMP B-TREE" in line or "MATERIALIZE" in line], plan
        return
    assert not [line for line in plan if line.startswith(("Sort", "Hash Join", "Hash Anti"))], plan
    assert "Nested Loop on None by None" in plan


@pytest.mark.parametrize(
    "name",
    [
        "page_finished", "page_tagged", "page_owned", "page_newest", "page_letters",
        "page_letters_alike", "page_letters_of_run",
    ],
)  # fmt: skip
def test_a_page_is_walked_in_its_order_and_not_sorted(full, name):
    """So a part of a long list costs as much as one of a short list."""
    plan = plan_of(full, statements.load(full._backend.dialect)[name])
    assert not [line for line in plan if line.startswith("Sort") or "TEMP B-TREE" in line], plan


@pytest.mark.parametrize(
    ("name", "index", "column"),
    [
        ("claim", "job_due", "due_at"),
        ("due_lanes", "job_due", "due_at"),
        ("observed", "observation_pkey", "second"),
        ("forget_observations", "observation_minute", "second / 60|<expr>"),
        ("page_letters", "dead_letter_state", "last_at"),
        ("page_letters_alike", "dead_letter_alike", "last_at"),
        ("page_letters_of_run", "dead_letter_run", "last_at"),
        ("new_letters", "dead_letter_state", "last_at"),
        ("prune_dismissed", "dead_letter_dismissed", "handled_at"),
        ("read_changes", "job_finished", "finished_at"),
        ("read_changes", "job_due_set", "due_set_at"),
        ("read_pace", "pace_minute_pkey", "minute"),
        ("read_upstream_pace", "upstream_pace_pkey", "minute"),
        ("forget_pace", "pace_minute_minute", "minute"),
        ("forget_upstream_pace", "upstream_pace_folded", "minute"),
        ("forget_phases", "upstream_phase_at", "at"),
    ],
)
def test_an_index_is_entered_where_time_says_and_not_read_up_to_there(full, name, index, column):
    """By the server's own clock, too: a time that it may tell anew for each row enters no index."""
    if full._backend.dialect == "sqlite":
        plan = plan_of(full, statements.load("sqlite")[name])
        assert any(re.search(rf"({column})[<>]\?", line) for line in plan), plan
        return
    steps = _postgres_steps(full, statements.load("postgres")[name].sql)
    entered = [condition for step, condition in steps if step.endswith(f" by {index}")]
    assert any(re.search(rf"({column})\)? ?[<>]", condition) for condition in entered), steps


def test_every_statement_can_be_planned(full):
    for statement in statements.load(full._backend.dialect).values():
        assert plan_of(full, statement) is not None, statement.name


@pytest.mark.parametrize("version", ["16", "18"])
@pytest.mark.parametrize("name", ["claim", "renew", "settle", "reclaim", "find_attempts"])
def test_a_plan_made_while_the_store_was_empty_is_as_good(postgres_urls, version, name):
    """A prepared statement keeps its plan while a burst of jobs arrives."""
    with open_store(postgres_urls(version)) as store:
        plan = plan_of(store, statements.load("postgres")[name])
    assert not [
        line for line in plan if re.match(r"Seq Scan on (job|attempt|job_data|output)\b", line)
    ]


GUARDED = ["renew", "advance", "settle", "succeed", "release", "reclaim", "report"]


@pytest.fixture(params=["postgres16", "postgres18"], scope="module")
def counted_while_nothing_ran(request):
    """A store whose statistics know of no running job: their index looks like next to nothing."""
    server = request.getfixturevalue("postgres_fleet").server(request.param[-2:])
    with open_store(server.new_url()) as store:
        for _ in range(5):
            store.enqueue([new_job(lane=Lane(task="work")) for _ in range(1_000)])
        with store._backend.migrating() as session:
            session.script("ANALYZE")
        yield store


@pytest.mark.parametrize("name", GUARDED)
def test_a_guarded_row_is_found_by_its_id_whatever_the_statistics_say(
    counted_while_nothing_ran, name
):
    """By the index of what runs, each row would cost as much as there is running."""
    steps = _postgres_steps(counted_while_nothing_ran, statements.load("postgres")[name].sql)
    ways = {step.rpartition(" by ")[2] for step, _ in steps if " on job by " in step}
    assert ways - {"None"} == {"job_pkey"}
