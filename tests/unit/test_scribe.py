"""The thread that writes ends while the clerk claims."""

import threading

import pytest

from seawall.errors import StoreUnavailableError
from seawall.model import Outcome, Settlement, Token
from seawall.states import State
from seawall.store.values import Answer, Result
from seawall.worker.scribe import Scribe

PATIENCE_SECONDS = 30.0
DONE = Answer(Result.DONE, State.SUCCEEDED)


def ends(*job_ids):
    return [Settlement(token=Token(job_id, 1, 1), outcome=Outcome.SUCCEEDED) for job_id in job_ids]


class Store:
    """Writes when it is let, and fails as it is told."""

    def __init__(self):
        self.may = threading.Event()
        self.may.set()
        self.begun = threading.Event()
        self.given = []
        self.threads = set()
        self.errors = []

    def settle(self, settlements, observations=()):
        self.begun.set()
        assert self.may.wait(PATIENCE_SECONDS)
        self.given.append([each.token.job_id for each in settlements])
        self.threads.add(threading.current_thread())
        if self.errors:
            raise self.errors.pop(0)
        return [DONE] * len(settlements)


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def scribe(store):
    """One that ends with the test."""
    scribe = Scribe(store)
    yield scribe
    store.may.set()
    scribe.close()
    scribe._thread.join(PATIENCE_SECONDS)
    assert not scribe._thread.is_alive()


def test_whoever_gives_it_something_to_write_need_not_wait(store, scribe):
    store.may.clear()
    answers = scribe.settle(ends(1, 2))
    assert store.begun.wait(PATIENCE_SECONDS)
    assert not answers.done()
    store.may.set()
    assert answers.result(PATIENCE_SECONDS) == [DONE, DONE]
    assert threading.current_thread() not in store.threads


def test_it_writes_in_the_order_that_it_was_given_and_one_at_a_time(store, scribe):
    store.may.clear()
    answers = [scribe.settle(ends(*range(n, 2 * n))) for n in range(1, 20)]
    store.may.set()
    assert [len(each.result(PATIENCE_SECONDS)) for each in answers] == list(range(1, 20))
    assert store.given == [list(range(n, 2 * n)) for n in range(1, 20)]
    assert len(store.threads) == 1


@pytest.mark.parametrize(
    "error", [StoreUnavailableError("away"), ValueError("a bug"), SystemExit()]
)
def test_an_error_belongs_to_whoever_waits_and_the_next_is_written_all_the_same(
    store, scribe, error
):
    """A scribe that died of one would leave every later turn waiting for ever."""
    store.errors = [error]
    first, second = scribe.settle(ends(1)), scribe.settle(ends(2))
    assert first.exception(PATIENCE_SECONDS) is error
    assert second.result(PATIENCE_SECONDS) == [DONE]


def test_what_was_given_before_the_end_is_written_before_it(store):
    scribe = Scribe(store)
    store.may.clear()
    answers = [scribe.settle(ends(n)) for n in range(1, 4)]
    scribe.close()
    store.may.set()
    assert [each.result(PATIENCE_SECONDS) for each in answers] == [[DONE]] * 3
    scribe._thread.join(PATIENCE_SECONDS)
    assert not scribe._thread.is_alive()


def test_one_that_hangs_holds_up_nobodys_exit(scribe):
    assert scribe._thread.daemon
