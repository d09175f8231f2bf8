"""What happens reaches whoever wants to hear of it: signed, and in the end."""

import json
import os
import random
import subprocess
import sys
import time
from datetime import timedelta

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from seawall.states import State
from seawall.store import LetterFilter
from seawall.store.webhook_values import DELIVERY_TASK
from seawall.webhooks import delivering
from tests.life.world import ROOT, await_state, eventually


def deliveries(app):
    """Every delivery that there is."""
    return list(app.jobs(task=DELIVERY_TASK, limit=1_000))


def test_a_receiver_verifies_what_it_gets(app, receiver, hire):
    made = app.webhooks.create(receiver.url)
    good = app.tasks["well"].using(owner="ann", key="k 1").enqueue(3)
    bad = app.tasks["badly"].enqueue("at all")
    hire(app)

    got = receiver.await_(("job.complete", good.id), ("job.failed", bad.id))

    assert len(got) == 2, "nothing is told twice that was taken"
    told = {each.event[0]: each.verified(made.secret) for each in got}
    assert told["job.complete"]["data"] == {
        "job": good.id, "task": "well", "queue": "default", "state": "succeeded", "owner": "ann",
        "key": "k 1", "run": None, "stage": 0, "attempt": 1, "cycle": 0,
    }  # fmt: skip
    failed = told["job.failed"]["data"]
    assert (failed["state"], failed["fault"]["code"]) == ("failed", "INVALID_INPUT")
    assert failed["fault"]["message"] == "it is no good at all"
    finished = app.store.jobs([good.id])[good.id].finished_at
    assert told["job.complete"]["timestamp"] == f"{finished:%Y-%m-%dT%H:%M:%S.%f}Z"
    for each in got:
        assert each.headers["content-type"] == "application/json"
        assert each.headers["host"] == f"127.0.0.1:{receiver.port}"
        with pytest.raises(WebhookVerificationError):
            each.verified("whsec_" + "A" * 44)


def test_a_delivery_is_a_job_like_any_other(app, receiver, hire):
    made = app.webhooks.create(receiver.url)
    app.tasks["well"].enqueue()
    hire(app)
    (got,) = receiver.await_any()

    (job,) = eventually(lambda: [j for j in deliveries(app) if j.state is State.SUCCEEDED])

    assert (job.queue, job.upstream) == ("webhooks", f"seawall.webhook:{made.webhook.id}")
    assert job.key == got.id, "it is found by what the receiver knows it by"
    assert job.tags == (f"webhook:{made.webhook.id}",)
    assert app.job(job.id).result() == {"status": 204}
    assert made.secret not in app.store.arguments(job.id)


def test_deliveries_are_told_to_nobody(app, receiver, hire):
    app.webhooks.create(receiver.url, events=list(delivering.message.STATES))
    app.tasks["nothing"].enqueue()
    hire(app, drain=True).join()

    told = sorted(each.event[0] for each in receiver.got)  # they are delivered side by side
    assert told == ["job.queued", "job.skipped"]


def test_each_webhook_hears_what_it_wants_to_hear_of(app, receivers, hire):
    failures, mine, retries = receivers(), receivers(), receivers()
    app.webhooks.create(failures.url, events=["job.failed"], tasks=["badly"])
    app.webhooks.create(mine.url, owners=["ann"])
    app.webhooks.create(retries.url, events=["job.retry", "job.queued"], tasks=["again"])
    well = app.tasks["well"].using(owner="ann").enqueue(1)
    app.tasks["well"].using(owner="bob").enqueue(2)
    bad = app.tasks["badly"].enqueue()
    again = app.tasks["again"].using(owner="ann").enqueue()
    hire(app, drain=True).join()

    assert set(failures.taken()) == {("job.failed", bad.id)}
    assert set(mine.taken()) == {("job.complete", well.id), ("job.failed", again.id)}
    assert set(retries.taken()) == {("job.queued", again.id), ("job.retry", again.id)}


def test_a_worker_that_drains_tells_everything_before_it_ends(app, receiver, hire):
    app.webhooks.create(receiver.url)
    jobs = app.enqueue_many(app.tasks["well"].job(n) for n in range(30))
    hire(app, drain=True).join()

    assert set(receiver.taken()) == {("job.complete", job.id) for job in jobs}


def test_it_can_be_tried_out(app, receiver, hire):
    made = app.webhooks.create(receiver.url, tasks=["well"])
    job_id = app.webhooks.test(made.webhook.id)
    hire(app)
    (got,) = receiver.await_any()

    told = got.verified(made.secret)
    assert (told["type"], told["data"]) == ("webhook.test", {"webhook": made.webhook.id})
    await_state(app.store, State.SUCCEEDED, job_id)


# --- receivers that do not take it ----------------------------------------------------------------


def test_a_message_keeps_its_id_at_every_attempt_and_is_signed_anew(app, receiver, hire):
    made = app.webhooks.create(receiver.url)
    answers = iter([(500, {}), (404, {}), (401, {}), (200, {})])
    receiver.answer = lambda _: next(answers)
    job = app.tasks["well"].enqueue()
    hire(app)

    got = receiver.await_(("job.complete", job.id))

    assert [each.status for each in got] == [500, 404, 401, 200]
    assert len({each.id for each in got}) == len({each.body for each in got}) == 1
    assert all(each.verified(made.secret) for each in got)


def test_a_receiver_that_asks_for_time_gets_it(app, receiver, hire):
    app.webhooks.create(receiver.url)
    came = []

    def answer(_):
        came.append(time.monotonic())
        return (429, {"Retry-After": "1"}) if len(came) == 1 else (200, {})

    receiver.answer = answer
    job = app.tasks["well"].enqueue()
    hire(app)
    receiver.await_(("job.complete", job.id))

    assert came[1] - came[0] >= 1.0


def test_a_receiver_that_is_gone_leaves_a_dead_letter(app, receiver, hire):
    made = app.webhooks.create(receiver.url)
    receiver.answer = lambda _: (410, {})
    app.tasks["well"].enqueue()
    hire(app)

    letters = LetterFilter(task=DELIVERY_TASK)
    (letter,) = eventually(lambda: list(app.store.letters(letters)))
    assert letter.fault.message == "127.0.0.1 answered 410"

    receiver.answer = lambda _: (200, {})
    app.retry(letter.job_id)
    got = receiver.await_any(2)

    assert got[0].id == got[1].id
    assert got[1].verified(made.secret)


def test_a_redirect_is_not_followed(app, receivers, hire):
    elsewhere, receiver = receivers(), receivers()
    receiver.answer = lambda _: (302, {"Location": elsewhere.url})
    app.webhooks.create(receiver.url)
    app.tasks["well"].enqueue()
    hire(app)
    receiver.await_any(2)

    assert elsewhere.got == []
    (job,) = deliveries(app)
    assert job.last_fault.message == "127.0.0.1 answered 302: redirects are not followed"


def test_what_a_receiver_answers_is_neither_read_nor_kept(app, receiver, hire, says):
    planted = "Bearer sk-live-4242424242424242"
    receiver.answer = lambda _: (500, {"X-Secret": planted, "Content-Length": "1000000000"})
    app.webhooks.create(receiver.url)
    app.tasks["well"].enqueue()
    hire(app)
    receiver.await_any(3)
    (job,) = deliveries(app)

    attempts = eventually(lambda: app.store.attempts(job.id))
    kept = [app.store.evidence(job.id, each.seq) for each in attempts]
    assert "4242424242424242" not in repr([attempts, kept, says._said])


def test_a_receiver_that_never_answers_is_given_up_in_time(app, receiver, hire, monkeypatch):
    monkeypatch.setattr("seawall.webhooks.sending.ANSWER_SECONDS", 0.2)
    slow = [True]

    def answer(_):
        if slow:
            time.sleep(1)
        return 200, {}

    receiver.answer = answer
    app.webhooks.create(receiver.url)
    job = app.tasks["well"].enqueue()
    hire(app)
    (delivery,) = eventually(lambda: deliveries(app))
    eventually(lambda: app.store.attempts(delivery.id))
    slow.clear()
    receiver.await_(("job.complete", job.id))

    first = app.store.attempts(delivery.id)[0]
    assert (str(first.fault.code), first.fault.ambiguous) == ("TIMEOUT", True)


# --- a receiver that is down for a while ------------------------------------------------------------


def test_a_receiver_that_is_down_is_held_and_burns_few_attempts(app, receiver, hire):
    made = app.webhooks.create(receiver.url)
    receiver.down()
    jobs = app.enqueue_many(app.tasks["well"].job(n) for n in range(40))
    hire(app)
    eventually(lambda: app.webhooks.get(made.webhook.id).state == "held")
    assert app.webhooks.get(made.webhook.id).reason
    time.sleep(1)
    receiver.up()
    receiver.await_(*(("job.complete", job.id) for job in jobs))

    eventually(lambda: all(job.state is State.SUCCEEDED for job in deliveries(app)))
    burned = sum(job.tries - 1 for job in deliveries(app))
    assert burned < len(jobs), "most of them never called a receiver that was known to be down"


def test_whoever_is_killed_meanwhile_every_event_arrives_in_the_end(app, url, receiver):
    """Workers are killed -9 while jobs end and messages go out, to a receiver that comes and goes."""
    made = app.webhooks.create(
        receiver.url,
        events=["job.queued", "job.complete", "job.failed", "job.retry", "job.skipped"],
    )
    receiver.down()
    tasks = app.tasks
    jobs = {"well": [], "badly": [], "again": [], "nothing": []}
    workers: list[subprocess.Popen[bytes]] = []
    dice = random.Random(7)

    def start():
        environ = {**os.environ, "SEAWALL_URL": url}
        command = [sys.executable, "-m", "tests.webhooks.worker"]
        workers.append(subprocess.Popen(command, cwd=ROOT, env=environ))

    def ask(many):
        for name, ids in jobs.items():
            handles = app.enqueue_many(tasks[name].job() for _ in range(many))
            ids += [handle.id for handle in handles]

    try:
        ask(30)
        start()
        start()
        rounds = 8 if "CI" in os.environ else 3
        for n in range(rounds):
            time.sleep(0.8 + dice.random())
            workers[0].kill()
            workers.pop(0).wait()
            (receiver.down if n % 2 else receiver.up)()
            ask(10)
            start()
        receiver.down()
        receiver.up()
        expected = {
            *(("job.queued", id_) for ids in jobs.values() for id_ in ids),
            *(("job.complete", id_) for id_ in jobs["well"]),
            *(("job.failed", id_) for id_ in jobs["badly"] + jobs["again"]),
            *(("job.retry", id_) for id_ in jobs["again"]),
            *(("job.skipped", id_) for id_ in jobs["nothing"]),
        }
        eventually(lambda: expected <= set(receiver.taken()), 120)
        eventually(lambda: not app.store.any_notes())
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()

    assert set(receiver.taken()) <= expected | {("job.lost", 0)}
    bodies: dict[str, set[bytes]] = {}
    for got in receiver.got:
        assert got.verified(made.secret)
        bodies.setdefault(got.id, set()).add(got.body)
    assert all(len(each) == 1 for each in bodies.values()), "what is told twice is told alike"
    told = [json.loads(*each) for each in bodies.values()]
    retries = sum(each["type"] == "job.retry" for each in told)
    assert len(told) - retries == len(expected) - len(jobs["again"]), "each has one id"


# --- secrets ------------------------------------------------------------------------------------------


def test_while_a_secret_is_replaced_both_sign(app, receiver, hire):
    old = app.webhooks.create(receiver.url)
    new = app.webhooks.rotate(old.webhook.id, both_seconds=3_600)
    app.tasks["well"].enqueue()
    hire(app)
    (got,) = receiver.await_any()

    assert got.headers["webhook-signature"].count("v1,") == 2
    assert got.verified(old.secret) == got.verified(new.secret)

    newest = app.webhooks.rotate(old.webhook.id, both_seconds=0)
    job = app.tasks["well"].enqueue()
    receiver.await_(("job.complete", job.id))
    last = next(each for each in receiver.got if each.event[1] == job.id)
    assert last.verified(newest.secret)
    for secret in (old.secret, new.secret):
        with pytest.raises(WebhookVerificationError):
            last.verified(secret)


def test_a_message_is_signed_with_the_time_of_its_attempt(app, receiver, hire):
    made = app.webhooks.create(receiver.url)
    receiver.down()
    app.tasks["well"].enqueue()
    hand = hire(app)
    eventually(lambda: any(job.seq for job in deliveries(app)))
    time.sleep(1.2)
    receiver.up()
    (got,) = receiver.await_any()
    hand.stop()

    happened = got.verified(made.secret)["timestamp"]
    signed = int(got.headers["webhook-timestamp"])
    created = app.store.jobs([got.event[1]])[got.event[1]].created_at
    assert signed >= int((created + timedelta(seconds=1)).timestamp())
    assert happened.startswith(f"{created:%Y-%m-%dT%H:%M}"[:11])
    assert Webhook(made.secret).verify(got.body, got.headers)


# --- what people decide ---------------------------------------------------------------------------------


def test_what_happens_while_it_is_paused_is_told_when_it_goes_on(app, receiver, hire):
    made = app.webhooks.create(receiver.url)
    app.webhooks.pause(made.webhook.id, why="they are moving house")
    jobs = app.enqueue_many(app.tasks["well"].job(n) for n in range(5))
    hire(app)
    eventually(lambda: len(deliveries(app)) == 5)
    view = app.webhooks.get(made.webhook.id)
    assert (view.state, view.reason, view.waiting) == ("paused", "they are moving house", 5)
    time.sleep(0.5)
    assert receiver.got == []

    assert app.webhooks.resume(made.webhook.id)
    receiver.await_(*(("job.complete", job.id) for job in jobs))
    assert app.webhooks.get(made.webhook.id).state == "active"


def test_what_waits_for_one_that_was_deleted_is_skipped(app, receiver, hire):
    made = app.webhooks.create(receiver.url)
    app.webhooks.pause(made.webhook.id)
    app.tasks["well"].enqueue()
    hire(app)
    (job,) = eventually(lambda: deliveries(app))
    assert app.webhooks.delete(made.webhook.id)

    await_state(app.store, State.SKIPPED, job.id)
    assert receiver.got == []
    assert list(app.webhooks) == []


# --- workers that cannot ----------------------------------------------------------------------------------


def test_a_worker_without_the_extra_says_so_once_and_leaves_it_to_others(
    app, url, receiver, hire, says, monkeypatch
):
    monkeypatch.setattr(delivering, "_NEEDED", ("httpx2", "no_such_module"))
    app.webhooks.create(receiver.url)
    hand = hire(app)
    assert DELIVERY_TASK not in app.tasks
    for _ in range(3):
        job = app.tasks["well"].enqueue()
        await_state(app.store, State.SUCCEEDED, job.id)
        eventually(lambda: not app.store.any_notes())
    (said,) = says.said("webhooks_not_delivered")
    assert said["advice"] == "pip install 'seawall[webhooks]'"
    assert [job.state for job in deliveries(app)] == [State.QUEUED] * 3
    hand.stop()

    monkeypatch.undo()
    hire(app)
    receiver.await_(("job.complete", job.id))
