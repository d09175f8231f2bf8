"""What the port refuses before any store is asked, the same for all of them."""

from datetime import UTC, datetime

import pytest

from seawall.faults import Fault, FaultCode
from seawall.model import Lane, Outcome, Settlement, Token, need_lease
from seawall.states import State
from seawall.store import Begin, NewJob, Reclaim, Release, Wanted
from seawall.store.values import is_id, need_finished, need_limit, need_wanted

LANE = Lane(task="work")
TOKEN = Token(1, 1, 1)

WRONG = {
    "arguments that are no text": ("arguments", lambda: NewJob(lane=LANE, arguments=["x"])),
    "a lane that is none": ("lane", lambda: NewJob(lane="work", arguments="[]")),
    "a time that is none": ("run_after", lambda: _job(run_after="tomorrow")),
    "a time beyond the calendar": (
        "deadline_at",
        lambda: _job(deadline_at=datetime.max.replace(tzinfo=UTC)),
    ),
    "a time without a zone": (
        "run_after",
        lambda: _job(run_after=datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)),
    ),
    "a name of many bytes": ("key", lambda: _job(key="\U0001f600" * 200)),
    "a lease in words": ("lease_seconds", lambda: Begin(worker="w", lease_seconds="60")),
    "a lease of no time": ("lease_seconds", lambda: need_lease(0)),
    "an endless lease": ("lease_seconds", lambda: need_lease(float("inf"))),
    "an output that is no text": ("output", lambda: _end(Outcome.SUCCEEDED, output={"a": 1})),
    "a fault that is none": ("fault", lambda: _end(Outcome.FAILED, fault="boom")),
    "no fault where one is due": ("fault", lambda: _end(Outcome.FAILED)),
    "no delay where one is due": (
        "delay_seconds",
        lambda: _end("retried", fault=Fault(FaultCode.TIMEOUT)),
    ),
    "a negative duration": ("duration_seconds", lambda: Release(token=TOKEN, duration_seconds=-1)),
    "a delay in words": (
        "delay_seconds",
        lambda: Reclaim(token=TOKEN, fault=Fault(FaultCode.WORKER_LOST), delay_seconds="5"),
    ),
    "half a limit": ("limit", lambda: need_limit(1.5)),
    "one queue's name for a list": (
        "queues",
        lambda: need_wanted(Wanted("w", "default", ["t"], 1, 60)),
    ),
    "a state that is no end": ("state", lambda: need_finished(State.QUEUED)),
    "a state that is none": ("state", lambda: need_finished("bogus")),
    "an id in words": ("job id", lambda: is_id("1")),
}


def _job(**fields):
    return NewJob(lane=LANE, arguments="[]", **fields)


def _end(outcome, **fields):
    return Settlement(token=TOKEN, outcome=outcome, **fields)


@pytest.mark.parametrize(("field", "make"), WRONG.values(), ids=WRONG)
def test_what_no_store_can_keep_is_refused_in_one_line_that_names_the_field(field, make):
    with pytest.raises(ValueError, match=f"^{field}[: ]") as refused:
        make()
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 250


def test_an_outcome_may_be_said_in_words():
    assert _end("succeeded").state is State.SUCCEEDED
