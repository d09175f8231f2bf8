"""The table of states against itself."""

import pytest

from seawall.errors import TransitionError
from seawall.states import FINISHED, TRANSITIONS, Move, State, moves_from, step

EVERYWHERE = [None, *State]


@pytest.mark.parametrize("move", Move)
@pytest.mark.parametrize("state", EVERYWHERE)
def test_every_move_is_in_the_table_or_refused_with_what_is_allowed(state, move):
    rows = [row for row in TRANSITIONS if (row.before, row.move) == (state, move)]
    if rows:
        assert [step(state, move)] == [row.after for row in rows]
        return
    with pytest.raises(TransitionError) as refused:
        step(state, move)
    message = str(refused.value)
    assert f"cannot {move};" in message
    assert ("does not exist" if state is None else f"a {state} job") in message
    allowed = message.rpartition(": ")[2].split(", ")
    assert allowed == [row.move for row in TRANSITIONS if row.before is state]


def test_no_state_has_two_rows_for_one_move():
    keys = [(row.before, row.move) for row in TRANSITIONS]
    assert len(keys) == len(set(keys))


def test_every_state_can_be_reached_from_nothing():
    reached, frontier = set(), {None}
    while frontier:
        reached |= frontier
        frontier = {row.after for row in TRANSITIONS if row.before in frontier} - reached
    assert reached == set(EVERYWHERE)


def test_every_job_can_finish_and_every_row_can_go():
    """From every state there is a way to a finished one, and from that to nothing."""
    ends = set(FINISHED)
    for _ in State:
        ends |= {row.before for row in TRANSITIONS if row.after in ends and row.before}
    assert ends == set(State)
    assert all(step(state, Move.PRUNE) is None for state in FINISHED)


@pytest.mark.parametrize("state", sorted(FINISHED))
def test_a_finished_job_can_only_be_pruned_or_if_it_failed_redriven(state):
    expected = {Move.REDRIVE, Move.PRUNE} if state is State.FAILED else {Move.PRUNE}
    assert set(moves_from(state)) == expected


def test_the_unfinished_states_are_queued_and_running():
    assert set(State) - FINISHED == {State.QUEUED, State.RUNNING}


def test_every_move_is_in_the_table_and_has_a_verb_and_a_meaning():
    assert {row.move for row in TRANSITIONS} == set(Move)
    assert all(row.verbs and row.meaning for row in TRANSITIONS)


def test_only_a_begin_or_a_claim_makes_a_job_run():
    starting = {row.move for row in TRANSITIONS if row.after is State.RUNNING}
    assert starting == {Move.BEGIN, Move.CLAIM, Move.ADVANCE}
    assert step(State.RUNNING, Move.ADVANCE) is State.RUNNING
