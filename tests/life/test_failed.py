"""Hooks for failed jobs: told once that stands in the store, never of what was lost, none forgotten."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from seawall import Failed, FaultReport, Policy, Seawall, State, current_job
from seawall.errors import StoreUnavailableError
from seawall.model import Token
from seawall.store import Result, Store
from seawall.worker import teller
from tests.life.world import PATIENCE_SECONDS, Hand, Says, eventually
from tests.support.ledger import lost

ONCE = Policy(name="once", max_attempts=1)


@pytest.fixture
def app(url: str) -> Seawall:
    return Seawall(url, policies=[ONCE], policy="once", poll_seconds=0.05, lease_seconds=2)


@pytest.fixture
def heard(app: Seawall) -> list[tuple[int, State, str]]:
    """Of which jobs it was told, and what the store said of each just then."""
    found: list[tuple[int, State, str]] = []

    @app.on_failed
    def hear(report: FaultReport) -> None:
        assert report.final
        found.append((report.job_id, app.job(report.job_id).state, type(report.error).__name__))

    return found


def test_a_failed_job_is_told_when_that_is_written_and_before_the_worker_ends(
    app: Seawall, store: Store, heard: Any, hire: Callable[..., Hand]
):
    @app.task
    def plain() -> None:
        raise ValueError("plain")

    @app.task
    async def later() -> None:
        raise KeyError("later")

    @app.task
    def good() -> None:
        pass

    jobs = [plain.enqueue(), later.enqueue(), good.enqueue()]
    hire(app, drain=True).join()
    assert sorted(heard) == [
        (jobs[0].id, State.FAILED, "ValueError"), (jobs[1].id, State.FAILED, "KeyError"),
    ]  # fmt: skip


@pytest.mark.parametrize("how", ["plain", "async"])
def test_an_attempt_that_lost_its_lease_tells_nothing(
    app: Seawall, store: Store, heard: Any, hire: Callable[..., Hand], how: str
):
    def lose() -> None:
        current = current_job()
        if current.seq > 1:
            return
        token = Token(current.id, 1, 1)

        def is_taken() -> bool:
            store.renew([token], lease_seconds=0.001)
            (answer,) = store.reclaim([lost(token, delay_seconds=0.0)])
            return answer.result is Result.DONE

        eventually(is_taken)
        raise ValueError("too late")

    async def alose() -> None:
        lose()

    job = app.task(name="loses")(lose if how == "plain" else alose).enqueue()
    hire(app, drain=True).join()
    assert job.state is State.SUCCEEDED
    assert heard == []


def test_a_settlement_whose_answer_was_lost_is_told_once(
    app: Seawall, store: Store, heard: Any, hire: Callable[..., Hand],
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    @app.task
    def broken() -> None:
        raise ValueError

    cut_off = []

    def cut(verb: str) -> None:
        real = getattr(type(store), verb)

        def asked(self: Store, settlements: Any, *given: Any, **named: Any) -> Any:
            answer = real(self, settlements, *given, **named)
            if settlements and not cut_off:
                cut_off.append(verb)
                raise StoreUnavailableError("cut off after the commit")
            return answer

        monkeypatch.setattr(type(store), verb, asked)

    cut("settle")
    cut("exchange")
    job = broken.enqueue()
    hire(app, drain=True).join()
    assert len(cut_off) == 1
    assert heard == [(job.id, State.FAILED, "ValueError")]


def test_a_slow_hook_holds_up_no_job_and_misses_none(
    app: Seawall, store: Store, hire: Callable[..., Hand]
):
    let_go, told = threading.Event(), []

    @app.on_failed
    def slow(report: FaultReport) -> None:
        assert let_go.wait(PATIENCE_SECONDS)
        told.append(report.job_id)

    @app.task
    def broken() -> None:
        raise ValueError

    hand = hire(app)
    jobs = [broken.enqueue() for _ in range(5)]
    for job in jobs:
        eventually(lambda job=job: job.state is State.FAILED)
    assert told == []
    hand.worker.stop()
    let_go.set()
    hand.join()
    assert sorted(told) == [job.id for job in jobs]


def test_a_hook_that_does_not_return_is_named_and_ends_no_worker(
    app: Seawall, store: Store, hire: Callable[..., Hand], says: Says,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    monkeypatch.setattr(teller, "MOST_WAITING", 2)
    monkeypatch.setattr(teller, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(teller, "CLOSING_SECONDS", 0.2)
    let_go = threading.Event()
    app.on_failed(lambda _: let_go.wait(PATIENCE_SECONDS))

    @app.task
    def broken() -> None:
        raise ValueError

    jobs = [broken.enqueue() for _ in range(8)]
    hand = hire(app, drain=True)
    hand.join()
    let_go.set()
    assert {job.state for job in jobs} == {State.FAILED}
    said = says.said("hook_failed")
    assert len(said) == 7  # all but the one that it was told
    assert {each["hook"] for each in said} == {"on_failed"}
    assert all("not told" in each["message"] for each in said)


def test_a_call_that_failed_now_is_told_before_its_answer(app: Seawall, store: Store, heard: Any):
    @app.task
    def broken() -> None:
        raise ValueError

    answer = broken.call_or_enqueue()
    assert isinstance(answer, Failed)
    assert heard == [(answer.job.id, State.FAILED, "ValueError")]
    app.close()
