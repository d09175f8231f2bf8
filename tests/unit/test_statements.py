"""The SQL files against each other and against the table of states."""

import re

import pytest

from seawall.states import TRANSITIONS, Move
from seawall.store import statements

DIALECTS = ("sqlite", "postgres")
ONLY_ON_POSTGRES = {"wake"}
"""Files whose statements SQLite needs not: it has no round trips to save and nobody to notify."""
WRITES_A_STATE = re.compile(
    r"INSERT INTO seawall[._]job\s*\(|COPY seawall\.job\s*\(|DELETE FROM seawall[._]job\s"
    r"|UPDATE seawall[._]job\s+SET(?:(?!\bWHERE\b).)*?\bstate\s*=(?!=)",
    re.DOTALL,
)


def all_statements():
    return [
        pytest.param(statement, id=f"{dialect}-{statement.name}")
        for dialect in DIALECTS
        for statement in statements.load(dialect).values()
    ]


def test_both_dialects_have_the_same_statements_in_the_same_order():
    names = {
        dialect: [
            (each.verb, each.name)
            for each in statements.load(dialect).values()
            if each.verb not in ONLY_ON_POSTGRES
        ]
        for dialect in DIALECTS
    }
    assert names["sqlite"] == names["postgres"]


def test_both_dialects_promise_the_same():
    """Further lines may say how one of them does it; the promise itself is the first sentence."""
    sqlite, postgres = (statements.load(dialect) for dialect in DIALECTS)
    for name, statement in sqlite.items():
        first = statement.promise.partition(":")[0].partition(". ")[0]
        assert postgres[name].promise.startswith(first), name
        assert postgres[name].moves == statement.moves, name


@pytest.mark.parametrize("statement", all_statements())
def test_every_statement_says_what_it_promises(statement):
    assert re.fullmatch(r"[A-Z].{15,}\.", statement.promise), statement.promise


@pytest.mark.parametrize("statement", all_statements())
def test_a_statement_names_moves_exactly_if_it_writes_a_state(statement):
    assert bool(WRITES_A_STATE.search(statement.sql)) == bool(statement.moves)


@pytest.mark.parametrize("statement", all_statements())
def test_every_move_of_a_statement_is_in_the_table_for_its_verb(statement):
    verb = "enqueue" if statement.verb in ONLY_ON_POSTGRES else statement.verb
    for move in statement.moves:
        assert any(row.move is move and verb in row.verbs for row in TRANSITIONS), move


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("row", TRANSITIONS, ids=lambda row: f"{row.before}-{row.move}")
def test_every_row_of_the_table_is_carried_out_by_a_statement_of_each_of_its_verbs(dialect, row):
    found = statements.load(dialect).values()
    for verb in row.verbs:
        assert any(row.move in each.moves for each in found if each.verb == verb), verb


@pytest.mark.parametrize("statement", all_statements())
def test_a_statement_that_moves_running_jobs_names_their_token(statement):
    leaving = {row.move for row in TRANSITIONS if row.before == "running"} | {Move.ADVANCE}
    if leaving.intersection(statement.moves):
        assert re.search(r"lease_no = (:|given\.)lease_no", statement.sql)
        assert re.search(r"seq = (:|given\.)seq - 1", statement.sql)
        assert "state = 'running'" in statement.sql


@pytest.mark.parametrize("dialect", DIALECTS)
def test_whatever_prunes_a_job_removes_all_that_hangs_on_it(dialect):
    found = statements.load(dialect)
    hanging = {
        name: set(re.findall(r"DELETE FROM seawall[._](\w+)", found[name].sql))
        for name in ("prune", "prune_dismissed")
    }
    assert hanging["prune"] == hanging["prune_dismissed"]
    rules = found["rows_without_a_job"].sql
    checked = set(re.findall(r"SELECT job FROM seawall[._](\w+)", rules))
    assert hanging["prune"] == {*checked, "job"}
