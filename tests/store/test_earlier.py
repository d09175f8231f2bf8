"""A claim carries what went wrong at its stage before, so that whoever judges it need not ask."""

import pytest

from seawall.faults import Fault, FaultCode
from seawall.model import Lane, Outcome
from seawall.store.claiming import ATTEMPTS_REMEMBERED
from seawall.store.values import Advance, Earlier, Redrive, Release
from tests.support.ledger import TIMEOUT, WORKER_LOST, claimed, ended, lost, wanted

BUSY = Fault(FaultCode.RATE_LIMITED, "busy", retry_after_seconds=3.5, kinds=("a.B", "c.D"))


def again(store, claim, outcome=Outcome.RETRIED, **fields):
    """End an attempt so that it comes again at once, and claim it."""
    store.settle([ended(claim.token, outcome, delay_seconds=0, **fields)])
    (claim,) = store.claim(wanted())
    return claim


def test_a_first_attempt_has_nothing_before_it(store):
    (claim,) = claimed(store)

    assert claim.history is None
    assert store.earlier(claim) == []


def test_faults_and_waits_come_oldest_first(store, clock):
    (claim,) = claimed(store)
    expected = []
    for fault, delay in ((TIMEOUT, 1.5), (BUSY, 0.25)):
        clock.advance(10)
        store.settle(
            [
                ended(
                    claim.token,
                    Outcome.RETRIED,
                    fault=fault,
                    delay_seconds=delay,
                    duration_seconds=0,
                )
            ]
        )
        expected.append(Earlier(fault, delay, clock.now()))
        clock.advance(delay)
        (claim,) = store.claim(wanted())

    assert store.earlier(claim) == expected


def test_a_lost_worker_is_told_of_too(store, clock):
    (claim,) = claimed(store, lease_seconds=60)
    began = clock.now()
    clock.advance(60)
    store.reclaim([lost(claim.token, 0)])

    (claim,) = store.claim(wanted())

    assert store.earlier(claim) == [Earlier(WORKER_LOST, 0, began)]


def test_what_went_well_or_was_put_off_is_left_out(store):
    (claim,) = claimed(store)
    claim = again(store, claim, Outcome.SNOOZED)
    store.release([Release(token=claim.token, duration_seconds=1)])
    (claim,) = store.claim(wanted())
    assert store.earlier(claim) == []

    claim = again(store, claim)

    assert [past.fault for past in store.earlier(claim)] == [TIMEOUT]


def test_another_stage_begins_with_nothing(store):
    (claim,) = claimed(store)
    claim = again(store, claim)
    store.advance([Advance(token=claim.token, lane=Lane(task="work", stage=1))])
    store.release([Release(token=claim.token.next())])

    (claim,) = store.claim(wanted())

    assert (claim.lane.stage, store.earlier(claim)) == (1, [])


def test_another_cycle_begins_with_nothing(store):
    (claim,) = claimed(store)
    claim = again(store, claim)
    store.settle([ended(claim.token, Outcome.FAILED)])
    store.redrive([Redrive(claim.token.job_id)])

    (claim,) = store.claim(wanted())

    assert store.earlier(claim) == []
    assert len(store.earlier(again(store, claim))) == 1


@pytest.mark.parametrize("more", [0, 5])
def test_it_looks_back_only_so_far(store, more):
    (claim,) = claimed(store)
    for at in range(ATTEMPTS_REMEMBERED + more):
        claim = again(store, claim, fault=Fault(FaultCode.TIMEOUT, f"{at}"))

    messages = [past.fault.message for past in store.earlier(claim)]

    assert messages == [str(at) for at in range(more, ATTEMPTS_REMEMBERED + more)]


def test_an_exchange_carries_it_too(store):
    (claim,) = claimed(store)

    _, (claim,) = store.exchange([ended(claim.token, Outcome.RETRIED, delay_seconds=0)], wanted())

    assert [past.fault for past in store.earlier(claim)] == [TIMEOUT]
