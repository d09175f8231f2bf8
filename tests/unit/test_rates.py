"""How well it goes: shares and a mean, of what the store has counted."""

import pytest

from seawall import FaultError, Rates, Seawall, Skip, current_job
from seawall.testing import in_memory


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Seawall()


def test_of_nothing_there_is_no_share(app):
    with in_memory(app):
        assert app.rates() == Rates()
        rates = app.rates("unheard-of")
    assert (rates.retry_rate, rates.final_failure_rate) == (None, None)
    assert (rates.schema_failure_rate, rates.mean_seconds_to_success) == (None, None)


def test_they_are_those_of_one_task_or_of_all(app):
    @app.task(policy="ai-worker")
    def ask(what: str) -> None:
        if what == "skip":
            raise Skip("nothing to do")
        if what == "odd" and current_job().attempt == 1:
            raise FaultError("INVALID_RESPONSE", "no JSON", raw_output="hm")
        if what == "bad":
            raise FaultError("INVALID_INPUT", "cannot be read")

    other = app.task(name="other")(lambda: None)
    with in_memory(app) as world:
        jobs = [ask.enqueue(what) for what in ("good", "odd", "skip", "bad")]
        other.enqueue()
        world.drain()
        rates, all_of_them = app.rates("ask"), app.rates()
        took = [(job.job().finished_at - job.job().created_at).total_seconds() for job in jobs[:2]]
    assert (rates.attempts, rates.retried, rates.schema_failures, rates.raw_captures) == (
        5,
        1,
        1,
        1,
    )
    assert (rates.succeeded, rates.failed, rates.ended) == (2, 1, 4)
    assert (rates.retry_rate, rates.schema_failure_rate) == (1 / 5, 1 / 5)
    assert rates.final_failure_rate == 1 / 4
    assert rates.mean_seconds_to_success == pytest.approx(sum(took) / 2)
    assert (all_of_them.attempts, all_of_them.ended) == (6, 5)


def test_what_an_attempt_left_for_review_is_at_hand(app):
    @app.task(policy="ai-worker")
    def ask() -> None:
        if current_job().attempt < 3:
            raise FaultError(
                "INVALID_RESPONSE", "no JSON", raw_output=f"hm {current_job().attempt}"
            )

    with in_memory(app) as world:
        job = ask.enqueue()
        assert job.evidence() is None
        world.work()
        assert job.evidence().raw_output == "hm 1"
        world.drain()
        assert job.evidence() is None, "the last one went well"
        assert job.evidence(2).raw_output == "hm 2"
