"""Behind PgBouncer in transaction mode a store keeps every promise; only LISTEN goes around it."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from seawall.errors import StoreUnavailableError
from seawall.model import Lane, Outcome
from seawall.states import State
from seawall.store import open_store
from seawall.store.values import Advance
from tests.support.ledger import claimed, ended, enqueued, new_job, wanted
from tests.support.pgbouncer import pooled


@pytest.fixture(params=["16", "18"])
def direct_url(request, postgres_urls):
    return postgres_urls(request.param)


@pytest.fixture
def pooled_url(direct_url):
    with pooled(direct_url) as url:
        yield url


def test_a_pooler_is_noticed_and_a_server_is_not_taken_for_one(direct_url, pooled_url):
    with open_store(direct_url) as direct, open_store(pooled_url) as behind:
        assert not direct._backend.pooled
        assert behind._backend.pooled


def test_every_verb_of_a_workers_life_works_behind_a_pooler(pooled_url):
    with open_store(pooled_url) as store:
        first, second, third = claimed(store, *[new_job(key=key) for key in "abc"])
        assert [answer.result for answer in store.renew([first.token], lease_seconds=9)] == ["done"]
        store.advance([Advance(token=first.token, lane=Lane(task="work", stage=1), output="1")])
        answers, claims = store.exchange(
            [ended(first.token.next()), ended(second.token, Outcome.FAILED), ended(third.token)],
            wanted(),
        )
        assert [answer.result for answer in answers] == ["done"] * 3
        assert claims == []
        enqueued(store, *[new_job() for _ in range(500)])  # by COPY
        assert store.counts()[State.QUEUED] == 500
        assert store.verify().ok


def test_one_at_a_time_decides_about_an_upstream_behind_a_pooler_too(direct_url, pooled_url):
    with open_store(direct_url) as direct, open_store(pooled_url) as behind:
        enqueued(direct, new_job(lane=Lane(task="work", upstream="api")))
        for first, second in [(behind, direct), (direct, behind), (behind, behind)]:
            with first.govern("api") as desk:
                with second.govern("api") as told:
                    assert told is None
                desk.keep("decided", gated=True)
        with behind.govern("api", wait=True) as desk:
            assert desk.state == "decided"
            assert len(desk.claim(wanted())) == 1
            desk.drop()
        assert direct.watched() == []


def test_many_threads_share_few_connections_without_mixing_their_statements(pooled_url):
    """With prepared statements one client would run what another had prepared."""
    with open_store(pooled_url) as one, open_store(pooled_url) as other:
        enqueued(one, *[new_job() for _ in range(400)])

        def worked(n: int) -> int:
            store = (one, other)[n % 2]
            done = 0
            while claims := store.claim(wanted(10, worker=f"w{n}")):
                answers = store.settle([ended(claim.token) for claim in claims])
                done += sum(answer.result == "done" for answer in answers)
            return done

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(worked, range(8))) == 400
        assert one.counts()[State.SUCCEEDED] == 400
        assert one.verify().ok


def test_the_time_limit_holds_behind_a_pooler(pooled_url):
    with open_store(pooled_url, statement_seconds=0.2) as store:
        store._backend._sql["count_states"] = "SELECT pg_sleep(60)"
        with pytest.raises(StoreUnavailableError, match="statement timeout"):
            store.counts()
        assert len(enqueued(store)) == 1


def test_a_listener_with_the_servers_own_address_is_woken(direct_url, pooled_url):
    with open_store(pooled_url, listen_url=direct_url) as waiting, open_store(pooled_url) as asking:
        while waiting.wait(0.3):
            pass  # the first look after connecting
        threading.Timer(0.05, lambda: enqueued(asking)).start()
        assert waiting.wait(10)


def test_without_such_an_address_waiting_is_sleeping(pooled_url):
    with open_store(pooled_url) as waiting:
        enqueued(waiting)
        began = time.monotonic()
        assert not waiting.wait(0.05)
        assert time.monotonic() - began >= 0.04
