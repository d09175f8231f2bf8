"""What happened is noted with the change itself, for whoever wants to hear of it and nobody else."""

import json
from contextlib import suppress
from datetime import timedelta

import pytest

from seawall.faults import Fault, FaultCode
from seawall.model import Begin, Lane, Outcome
from seawall.store import NewRun, NewWebhook, Redrive, RunStop, open_store
from seawall.store.backend import BadRowError
from seawall.store.values import Advance, Release
from seawall.store.webhook_values import DELIVERY_TASK, MOST_WEBHOOKS, Note
from seawall.webhooks.events import EVENTS
from tests.support.kinds import shared
from tests.support.ledger import (
    LANE,
    TIMEOUT,
    WORKER_LOST,
    at_once,
    claimed,
    ended,
    enqueued,
    failed,
    lost,
    new_job,
    wanted,
)

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def new(**fields):
    usual = {"url": "https://example.com/hook", "secret": SECRET, "events": tuple(EVENTS)}
    return NewWebhook(**{**usual, **fields})


def heard(store):
    """The events that are noted, in the order in which they were."""
    return [(note.event, note.job) for note in store.notes()]


def struck_off(store):
    """Forget what was noted so far."""
    store.tell([(note, None) for note in store.notes()])


# --- each thing that happens ------------------------------------------------------------------


def test_a_job_that_is_asked_for_is_noted(store, clock):
    hook = store.add_webhook(new())
    plain, keyed, begun = (
        *enqueued(store, new_job()),
        *enqueued(store, new_job(key="k", owner="ann")),
        *enqueued(store, new_job(begin=Begin(worker="inline:x", lease_seconds=30.0))),
    )

    assert heard(store) == [("job.queued", plain), ("job.queued", keyed), ("job.queued", begun)]
    second = store.notes()[1]
    assert second == Note(
        second.id, hook.id, "job.queued", clock.now(), "work", "default", keyed,
        owner="ann", stage=0, attempt=0, cycle=0,
    )  # fmt: skip


def test_many_jobs_are_noted_one_by_one(store):
    store.add_webhook(new())
    ids = enqueued(store, *[new_job() for _ in range(50)])

    assert heard(store) == [("job.queued", id_) for id_ in ids]


def test_a_job_whose_key_is_taken_is_not_noted(store):
    store.add_webhook(new())
    (first,) = enqueued(store, new_job(key="k"))
    store.enqueue([new_job(key="k"), new_job(key="k", owner="bob"), new_job(key="k2")])

    assert [event for event, _ in heard(store)] == ["job.queued", "job.queued"]
    assert heard(store)[0] == ("job.queued", first)


@pytest.mark.parametrize(
    ("outcome", "event"),
    [
        (Outcome.SUCCEEDED, "job.complete"),
        (Outcome.SKIPPED, "job.skipped"),
        (Outcome.RETRIED, "job.retry"),
        (Outcome.SNOOZED, "job.snoozed"),
        (Outcome.FAILED, "job.failed"),
        (Outcome.CANCELLED, "job.cancelled"),
    ],
)
def test_the_end_of_an_attempt_is_noted(store, outcome, event):
    store.add_webhook(new())
    (claim,) = claimed(store, new_job(owner="ann"))
    struck_off(store)
    store.settle([ended(claim.token, outcome)])

    (note,) = store.notes()
    assert (note.event, note.job, note.owner) == (event, claim.token.job_id, "ann")
    assert (note.attempt, note.cycle, note.stage) == (1, 0, 0)
    waits = outcome in (Outcome.RETRIED, Outcome.SNOOZED)
    assert note.delay_seconds == (30.0 if waits else None)
    assert note.fault == (TIMEOUT if outcome in (Outcome.RETRIED, Outcome.FAILED) else None)


def test_a_success_of_which_there_is_more_to_tell_is_noted_once(store):
    store.add_webhook(new())
    (claim,) = claimed(store)
    struck_off(store)
    store.settle([ended(claim.token, traceback="where", output="1")])

    assert heard(store) == [("job.complete", claim.token.job_id)]


def test_a_deadline_that_passes_is_noted_as_such(store, clock):
    store.add_webhook(new())
    (waiting,) = enqueued(store, new_job(deadline_seconds=5))
    clock.advance(6)
    store.expire()
    (claim,) = claimed(store, new_job())
    late = Fault(FaultCode.EXPIRED, "its deadline passed while it ran")
    store.settle([ended(claim.token, Outcome.FAILED, fault=late)])

    told = [each for each in heard(store) if each[0] != "job.queued"]
    assert told == [("job.expired", waiting), ("job.expired", claim.token.job_id)]


def test_a_stage_that_is_done_is_noted(store):
    store.add_webhook(new())
    (claim,) = claimed(store)
    struck_off(store)
    then = Lane(task="work", stage=1)
    store.advance([Advance(token=claim.token, lane=then, output="1", duration_seconds=0.1)])

    (note,) = store.notes()
    assert (note.event, note.stage, note.attempt) == ("job.advanced", 0, 1)


def test_a_lost_worker_is_noted_and_so_is_giving_up(store, clock):
    store.add_webhook(new())
    first, second = claimed(store, new_job(), new_job())
    struck_off(store)
    clock.advance(61)
    store.reclaim([lost(first.token), lost(second.token, None)])

    told = {note.job: note for note in store.notes()}
    assert told[first.token.job_id].event == "job.lost"
    assert told[first.token.job_id].delay_seconds == 1.0
    assert told[second.token.job_id].event == "job.failed"
    assert told[second.token.job_id].fault == WORKER_LOST


def test_every_way_to_be_cancelled_is_noted_once(store, clock):
    store.add_webhook(new())
    claims = claimed(store, *[new_job() for _ in range(3)])
    (waiting,) = enqueued(store)
    struck_off(store)
    store.cancel([waiting, *(claim.token.job_id for claim in claims)])
    assert heard(store) == [("job.cancelled", waiting)]
    retried, released, gone = [claim.token for claim in claims]
    store.settle([ended(retried, Outcome.RETRIED)])
    store.release([Release(token=released)])
    clock.advance(61)
    store.reclaim([lost(gone)])

    ids = [waiting, *(token.job_id for token in (retried, released, gone))]
    assert heard(store) == [("job.cancelled", id_) for id_ in ids]
    assert all(note.fault is None for note in store.notes())


def test_what_is_handed_back_is_not_noted(store):
    store.add_webhook(new())
    (claim,) = claimed(store)
    struck_off(store)
    store.release([Release(token=claim.token, duration_seconds=1.0)])

    assert heard(store) == []


def test_what_is_sent_again_is_noted(store):
    store.add_webhook(new())
    (job,) = failed(store)
    struck_off(store)
    store.redrive([Redrive(job)])
    store.redrive([Redrive(job)])

    (note,) = store.notes()
    assert (note.event, note.job, note.cycle, note.attempt) == ("job.redriven", job, 1, 1)


def test_what_becomes_of_a_run_is_noted(store):
    store.add_webhook(new(tasks=("p",)))
    run = store.start_run(NewRun(pipeline="p", name="r", stages=("a",), terms="{}", owner="ann"))
    store.stop_run(run.run_id, RunStop.PAUSED, reason="dinner")
    store.stop_run(run.run_id, RunStop.PAUSED, reason="again")
    store.resume_run(run.run_id)
    store.stop_run(run.run_id, RunStop.ABORTED, reason="too many failed")
    store.resume_run(run.run_id)
    store.seal_run(run.run_id)
    assert store.close_run(run.run_id)
    assert not store.close_run(run.run_id)

    told = [(note.event, note.run, note.owner, note.reason) for note in store.notes()]
    assert told == [
        ("run.paused", run.run_id, "ann", "dinner"),
        ("run.aborted", run.run_id, "ann", "too many failed"),
        ("run.finished", run.run_id, "ann", ""),
    ]


def test_a_token_that_no_longer_stands_notes_nothing(store):
    store.add_webhook(new())
    (claim,) = claimed(store)
    store.settle([ended(claim.token)])
    struck_off(store)
    store.settle([ended(claim.token), ended(claim.token._replace(job_id=99), Outcome.FAILED)])

    assert heard(store) == []


# --- who wants to hear of what -----------------------------------------------------------------


def test_where_nobody_listens_nothing_is_noted(store, clock):
    failed(store)
    store.expire()
    assert not store.any_notes()

    store.add_webhook(new())

    assert not store.any_notes(), "of what happened before nobody is told"
    enqueued(store)
    assert store.any_notes()


def test_only_what_somebody_wants_to_hear_of_is_noted(store):
    failures = store.add_webhook(new(events=("job.failed",)))
    ends = store.add_webhook(new(events=("job.complete", "job.failed")))
    first, second = claimed(store, new_job(), new_job())
    store.settle([ended(first.token), ended(second.token, Outcome.FAILED)])

    told = {(note.webhook, note.event, note.job) for note in store.notes()}
    assert told == {
        (failures.id, "job.failed", second.token.job_id),
        (ends.id, "job.failed", second.token.job_id),
        (ends.id, "job.complete", first.token.job_id),
    }


def test_tasks_and_owners_are_told_apart(store):
    hooks = {
        "work": store.add_webhook(new(events=("job.queued",), tasks=("work",))),
        "either": store.add_webhook(new(events=("job.queued",), tasks=("work", 'o"ther é'))),
        "ann": store.add_webhook(new(events=("job.queued",), owners=("ann",))),
        "both": store.add_webhook(new(events=("job.queued",), tasks=("work",), owners=("ann",))),
    }
    other = Lane(task='o"ther é')
    jobs = enqueued(
        store, new_job(), new_job(owner="ann"), new_job(owner="bob"),
        new_job(lane=other), new_job(lane=other, owner="ann"),
    )  # fmt: skip

    told = {
        name: [jobs.index(note.job) for note in store.notes() if note.webhook == hook.id]
        for name, hook in hooks.items()
    }
    assert told == {"work": [0, 1, 2], "either": [0, 1, 2, 3, 4], "ann": [1, 4], "both": [1]}


def test_of_deliveries_nobody_is_told(store):
    store.add_webhook(new())
    lane = Lane(task=DELIVERY_TASK, queue="webhooks", upstream=f"{DELIVERY_TASK}:1")
    how = {"tasks": (DELIVERY_TASK,), "queues": ("webhooks",)}
    (claim,) = claimed(store, new_job(lane=lane), **how)
    store.settle([ended(claim.token, Outcome.FAILED)])
    store.redrive([Redrive(claim.token.job_id)])
    store.cancel([claim.token.job_id])

    assert not store.any_notes()


def test_what_a_callers_own_transaction_asks_for_is_noted_with_it(store):
    store.add_webhook(new())
    with suppress(ZeroDivisionError), store.transaction():
        store.enqueue([new_job()])
        raise ZeroDivisionError
    assert not store.any_notes()
    with store.transaction():
        store.enqueue([new_job()])

    assert [event for event, _ in heard(store)] == ["job.queued"]


# --- telling ------------------------------------------------------------------------------------


def delivery(note):
    lane = Lane(task=DELIVERY_TASK, queue="webhooks", upstream=f"{DELIVERY_TASK}:{note.webhook}")
    return new_job(json.dumps([note.id]), lane=lane, key=f"msg_{note.id}")


def test_notes_become_jobs_and_are_struck_off(store):
    store.add_webhook(new())
    enqueued(store, new_job(), new_job())
    notes = store.notes()

    assert store.tell([(note, delivery(note)) for note in notes]) == 2
    assert not store.any_notes()
    assert store.tell([(note, delivery(note)) for note in notes]) == 0
    assert store.tell([]) == 0
    assert len(store.claim(wanted(tasks=(DELIVERY_TASK,), queues=None))) == 2


def test_they_are_read_in_parts_the_oldest_first(store):
    store.add_webhook(new())
    ids = enqueued(store, *[new_job() for _ in range(5)])

    assert [note.job for note in store.notes(limit=2)] == ids[:2]


@shared
def test_many_that_tell_at_once_tell_of_each_once(store):
    store.add_webhook(new())
    enqueued(store, *[new_job() for _ in range(40)])
    notes = store.notes()

    told = at_once(4, lambda _: store.tell([(note, delivery(note)) for note in notes]))

    assert sum(told) == 40
    assert not store.any_notes()


def test_a_job_that_cannot_be_written_keeps_no_other_from_being_told(store):
    store.add_webhook(new())
    enqueued(store, *[new_job() for _ in range(3)])
    first, bad, last = store.notes()
    told = [(first, delivery(first)), (bad, new_job("\ud800")), (last, delivery(last))]

    with pytest.raises((BadRowError, UnicodeEncodeError)):
        store.tell(told)

    assert store.notes() == [bad], "it is still there to be told"


# --- webhooks themselves ------------------------------------------------------------------------


def test_a_webhook_is_kept_without_showing_its_secret(store, clock):
    kept = store.add_webhook(new(tasks=("work",)))

    assert store.webhooks() == [kept] == [store.webhook(kept.id)]
    assert SECRET not in repr(kept)
    assert SECRET not in repr(store.webhook_secrets(kept.id))
    assert (kept.tasks, kept.owners, kept.created_at) == (("work",), None, clock.now())
    assert kept.upstream == f"seawall.webhook:{kept.id}"
    assert store.webhook_secrets(kept.id) == ("https://example.com/hook", (SECRET,))


def test_a_secret_that_is_replaced_signs_for_a_while(store, clock):
    kept = store.add_webhook(new())
    after = store.rotate_webhook(kept.id, "whsec_new", both_seconds=60)

    assert after.old_until == clock.now() + timedelta(seconds=60)
    assert store.webhook_secrets(kept.id).secrets == ("whsec_new", SECRET)
    clock.advance(60)
    assert store.webhook_secrets(kept.id).secrets == ("whsec_new",)
    assert store.webhook(kept.id).old_until is None


def test_what_is_dropped_hears_of_nothing_more(store):
    kept = store.add_webhook(new())

    assert store.drop_webhook(kept.id)
    assert not store.drop_webhook(kept.id)
    assert store.webhook(kept.id) is store.webhook_secrets(kept.id) is None
    assert store.rotate_webhook(kept.id, "whsec_new", both_seconds=1) is None
    enqueued(store)
    assert not store.any_notes()


def test_there_are_only_so_many(store):
    for _ in range(MOST_WEBHOOKS):
        assert store.add_webhook(new(events=("job.failed",)))

    assert store.add_webhook(new()) is None


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("url", {"url": ""}),
        ("url", {"url": "x" * 2_001}),
        ("secret", {"secret": ""}),
        ("events", {"events": ()}),
        ("tasks", {"tasks": ()}),
        ("tasks", {"tasks": ("a\nb",)}),
        ("owners", {"owners": ("o",) * 101}),
    ],
)
def test_what_is_no_webhook_is_refused(field, wrong):
    with pytest.raises(ValueError, match=f"^{field}: "):
        new(**wrong)


@shared
def test_another_process_sees_the_same(store, url):
    kept = store.add_webhook(new())
    with open_store(url) as other:
        assert other.webhook(kept.id).url == kept.url
        other.enqueue([new_job(lane=LANE)])

    assert store.any_notes()
