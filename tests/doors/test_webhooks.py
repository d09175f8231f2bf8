"""`seawall webhooks`: made, listed, tried out, paused, rotated, deleted; and what is refused."""

import json

import pytest
from standardwebhooks import Webhook

from seawall.store import open_store
from tests.support.doors import until
from tests.webhooks.receiver import Receiver

URL = "sqlite:///jobs.db"
HOOK = "https://93.184.215.14/hooks"


@pytest.fixture
def hooks(seawall):
    """`seawall webhooks …` in the folder's store."""
    open_store(URL).close()

    def run(*words, **how):
        return seawall("webhooks", *words, "--url", URL, **how)

    def data(*words, **how):
        return json.loads(run(*words, "--json", **how))

    run.data = data
    return run


@pytest.fixture
def receiver():
    made = Receiver().up()
    yield made
    made.down()


def test_one_is_made_and_its_secret_shown_once(hooks, seawall):
    secret = hooks("create", f"{HOOK}?token=t0p", "--event", "job.failed", "--task", "add").strip()
    assert Webhook(secret)
    assert "not shown again" in seawall.err

    listed = hooks.data("list")
    assert [(each["id"], each["url"], each["state"]) for each in listed] == [(1, HOOK, "active")]
    assert (listed[0]["events"], listed[0]["tasks"]) == (["job.failed"], ["add"])
    printed = hooks("list")
    assert HOOK in printed
    for text in (printed, json.dumps(listed)):
        assert secret not in text
        assert "t0p" not in text


def test_without_a_word_it_hears_how_jobs_ended(hooks):
    made = hooks.data("create", HOOK, "--owner", "ann", "--owner", "bob")

    assert made["events"] == ["job.complete", "job.failed", "job.expired", "job.cancelled"]
    assert (made["owners"], made["tasks"]) == (["ann", "bob"], None)
    assert made["secret"].startswith("whsec_")


def test_where_there_is_none_it_says_how_to_make_one(hooks):
    assert "seawall webhooks create" in hooks("list")
    assert hooks.data("list") == []


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("http://93.184.215.14/",), "not called over HTTPS"),
        (("https://127.0.0.1/",), "webhook_allow"),
        (("https://ann:pw@example.com/",), "no user or password"),
        (("nonsense",), "expected https://HOST/PATH"),
        ((HOOK, "--event", "job.fail"), "did you mean job.failed?"),
        ((HOOK, "--task", "a\nb"), "tasks"),
    ],
)
def test_what_cannot_be_one_is_refused_in_a_line(hooks, words, line):
    printed = hooks("create", *words, expect=2)

    assert line in printed
    assert "ann:pw" not in printed
    assert len(printed.strip().splitlines()) == 1
    assert hooks.data("list") == []


def test_what_is_inside_can_be_allowed(hooks, receiver):
    hooks("create", receiver.url, SEAWALL_WEBHOOK_ALLOW="127.0.0.0/8")

    assert "expected host names" in hooks(
        "create", receiver.url, SEAWALL_WEBHOOK_ALLOW="http://x", expect=2
    )


def test_it_is_paused_and_goes_on(hooks):
    hooks("create", HOOK)
    assert "is paused" in hooks("pause", "1", "--why", "they are moving")
    (listed,) = hooks.data("list")
    assert (listed["state"], listed["reason"]) == ("paused", "they are moving")
    assert "paused: they are moving" in hooks("list")
    assert hooks.data("resume", "1")["state"] == "active"
    hooks("resume", "1", expect=1)


def test_its_secret_is_replaced(hooks):
    before = hooks.data("create", HOOK)["secret"]
    after = hooks.data("rotate", "1", "--both", "7d")

    assert after["secret"] != before
    assert after["old_secret_until"] is not None
    assert hooks.data("rotate", "1", "--both", "0s")["old_secret_until"] is None
    assert "--both" in hooks("rotate", "1", "--both", "soon", expect=2)


def test_it_is_deleted_once(hooks, seawall):
    hooks("create", HOOK)
    assert "is deleted" in hooks("delete", "1")
    hooks("delete", "1", expect=1)
    assert "no webhook 1" in seawall.err
    for verb in ("pause", "resume", "rotate", "test"):
        assert "there is no webhook 1" in hooks(verb, "1", expect=2)


def test_it_is_tried_out(hooks, seawall, app, start, receiver, monkeypatch):
    secret = hooks("create", receiver.url, SEAWALL_WEBHOOK_ALLOW="127.0.0.1").strip()
    assert hooks.data("test", "1", "--no-wait")["state"] == "queued"
    monkeypatch.setenv("SEAWALL_WEBHOOK_ALLOW", "127.0.0.1")
    start("worker", "--app", app)
    until(lambda: receiver.got, "the first message")

    assert "said yes" in hooks("test", "1")
    assert receiver.got[-1].verified(secret)["type"] == "webhook.test"

    receiver.answer = lambda _: (500, {})
    hooks("test", "1", expect=1)
    assert "127.0.0.1 answered 500" in seawall.err


def test_the_doctor_says_that_nobody_delivers(hooks, seawall, app, start):
    hooks("create", HOOK)
    found = {each["check"]: each for each in json.loads(seawall("doctor", "--url", URL, "--json"))}
    assert found["webhooks"]["verdict"] == "warning"
    assert "seawall[webhooks]" in found["webhooks"]["what_to_do"]

    worker = start("worker", "--app", app)
    worker.says("serves")

    def delivers():
        checks = json.loads(seawall("doctor", "--url", URL, "--json"))
        return {each["check"]: each["verdict"] for each in checks}["webhooks"] == "ok"

    until(delivers, "a worker that delivers")


def test_a_worker_of_other_queues_does_not_deliver(hooks, seawall, app, start):
    hooks("create", HOOK)
    start("worker", "--app", app, "--queues", "default").says("serves")
    until(lambda: json.loads(seawall("workers", "--url", URL, "--json")), "a worker")

    found = {each["check"]: each for each in json.loads(seawall("doctor", "--url", URL, "--json"))}
    assert found["webhooks"]["verdict"] == "warning"
