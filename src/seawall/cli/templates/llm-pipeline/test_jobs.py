"""In memory, on a clock that only moves when it is told to, at a provider that is a real server."""

import pytest
from jobs import app, summaries


@pytest.fixture
def world(seawall_in_memory, provider):
    return seawall_in_memory(app)


@pytest.fixture
def document(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("What there is to say.", "utf-8")
    return str(file)


def test_a_refused_call_is_made_again_no_sooner_than_the_provider_said(world, document):
    begun = world.now
    job = summaries.enqueue(document)
    world.drain()
    assert job.result().summary == "short"
    outcomes = [(each.stage, each.outcome) for each in job.attempts()]
    assert outcomes == [(0, "advanced"), (1, "retried"), (1, "advanced"), (2, "succeeded")]
    assert (world.now - begun).total_seconds() >= 1


def test_one_bad_document_stops_no_other(world, document):
    run = summaries.run([document, "missing.txt"], name="all", failure_budget=None)
    world.drain()
    view = run.view()
    assert (view.status, view.succeeded, view.failed) == ("partial_success", 1, 1)
    (letter,) = app.dead_letters(run=run.id)
    assert (letter.fault.code, letter.stage) == ("NOT_FOUND", 0)


def test_an_empty_document_is_skipped(world, tmp_path):
    (tmp_path / "empty.txt").touch()
    job = summaries.enqueue(str(tmp_path / "empty.txt"))
    world.drain()
    assert job.state == "skipped"
