"""What an attempt costs in memory that is taken, by Python's own count of blocks."""

import gc
import sys

import pytest

from seawall import Seawall
from seawall.execute import begun, carry_out
from seawall.model import Outcome
from seawall.store import Wanted
from seawall.testing import in_memory
from seawall.worker.runner import awaited, called, without_waiting

MANY = 500
MOST_BLOCKS_TO_BEGIN = 7
"""Of what is made of a claim to begin it; today 4."""
MOST_BLOCKS_TO_END = 6
"""Of what is kept of a plain success until it is written; today 3."""


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Seawall()


def blocks_of(made):
    """What this keeps, and how many blocks that takes for each of it."""
    gc.collect()
    before = sys.getallocatedblocks()
    kept = made()
    gc.collect()
    return kept, (sys.getallocatedblocks() - before) / MANY


@pytest.mark.parametrize("is_async", [False, True])
def test_a_plain_success_takes_a_handful_of_blocks(app, is_async):
    """They are made and let go of for every job, by the thousand each second."""
    if is_async:

        @app.task(name="add")
        async def task(n: int) -> int:
            return n + 1_000_000
    else:

        @app.task(name="add")
        def task(n: int) -> int:
            return n + 1_000_000

    with in_memory(app) as world:
        app.enqueue_many(task.job(n) for n in range(2 * MANY))
        invoke = awaited if is_async else called

        def works():
            claims = world.store.claim(Wanted("me", None, ("add",), MANY, 60.0))
            gc.collect()
            return blocks_of(
                lambda: [begun(app, claim, lease_seconds=60.0, claimed=0.0) for claim in claims]
            )

        def ends(works):
            return blocks_of(lambda: [without_waiting(carry_out(work, invoke)) for work in works])

        ends(works()[0])  # what is made once for all is there now
        begun_now, to_begin = works()
        ended_now, to_end = ends(begun_now)

    assert {end.write.outcome for end in ended_now} == {Outcome.SUCCEEDED}
    assert 0 < to_begin <= MOST_BLOCKS_TO_BEGIN
    assert 0 < to_end <= MOST_BLOCKS_TO_END
