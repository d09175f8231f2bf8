"""`seawall queues`, `schedules` and `workers`: the whole of a store at a glance."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from seawall.store import Lane, Presence, Scope, open_store
from tests.support.ledger import claimed, enqueued, new_job

URL = "sqlite:///jobs.db"


@pytest.fixture(params=["sqlite", "postgres16", "postgres18"])
def url(request, seawall):
    if request.param == "sqlite":
        return URL
    fleet = request.getfixturevalue("postgres_fleet")
    return fleet.server(request.param.removeprefix("postgres")).new_url()


def presence(worker="w1", queues=("default",), **fields):
    usual = {"host": "here", "pid": 7, "version": "1.0", "tasks": ("work",), "concurrency": 4}
    return Presence(worker=worker, queues=queues, **{**usual, **fields})


def test_queues_are_counted_held_and_served(seawall, url):
    with open_store(url) as store:
        claimed(store, new_job(), new_job(), limit=1)
        later = datetime.now(UTC) + timedelta(hours=1)
        enqueued(store, new_job(lane=Lane(task="mail", queue="post", upstream="smtp")))
        enqueued(store, new_job(lane=Lane(task="mail", queue="post"), run_after=later))
        store.hold(Scope.UPSTREAM, "smtp", reason="it is down", seconds=600)
        store.appear(presence())
        store.appear(presence("w2", None))
        store.appear(presence("w3", ("idle",)))
        store.appear(presence("w4", None, stopping=True))
    listed = {row["queue"]: row for row in json.loads(seawall("queues", "--json", "--url", url))}
    counts = {
        name: (row["due"], row["later"], row["running"], row["workers"], row["paused"])
        for name, row in listed.items()
    }
    assert counts == {
        "default": (1, 0, 1, 2, False),
        "idle": (0, 0, 0, 2, False),
        "post": (1, 1, 0, 1, False),
    }
    assert listed["default"]["oldest_due_seconds"] >= 0
    assert listed["idle"]["oldest_due_at"] is None
    (hold,) = listed["post"]["holds"]
    assert (hold["scope"], hold["name"], hold["reason"]) == ("upstream", "smtp", "it is down")
    printed = seawall("queues", "--url", url)
    assert "upstream smtp held since" in printed
    assert "it is down, for another 10 min" in printed


def test_a_queue_is_paused_and_resumed(seawall, url):
    open_store(url).close()
    assert seawall("queues", "--url", url) == "Nothing waits, nothing runs, nothing is held.\n"
    assert seawall("queues", "pause", "mail", "--why", "a flood", "--url", url) == (
        "The queue mail is paused. To go on: seawall queues resume mail\n"
    )
    assert "a flood" in seawall("queues", "--url", url)
    (row,) = json.loads(seawall("queues", "--json", "--url", url))
    assert row["paused"]
    assert seawall("queues", "--url", url, "resume", "mail") == "The queue mail goes on.\n"
    assert seawall("queues", "resume", "mail", "--url", url, expect=1) == ""
    assert seawall.err == "seawall: the queue mail was not paused\n"
    assert json.loads(seawall("queues", "pause", "mail", "--json", "--url", url)) == {
        "queue": "mail", "paused": True, "reason": "paused by hand",
    }  # fmt: skip
    assert json.loads(seawall("queues", "resume", "mail", "--json", "--url", url)) == {
        "queue": "mail", "paused": False, "was_paused": True,
    }  # fmt: skip


def test_a_queue_needs_a_name(seawall):
    open_store(URL).close()
    assert "name: found ''" in seawall("queues", "pause", "", "--url", URL, expect=2)
    assert "name: found ''" in seawall("queues", "resume", "", "--url", URL, expect=2)
    assert "reason: found ''" in seawall("queues", "pause", "x", "--why=", "--url", URL, expect=2)


def test_queues_of_an_application_are_listed_although_nothing_waits(seawall, app):
    seawall("migrate", "--url", URL)
    listed = json.loads(seawall("queues", "--json", "--app", app))
    assert [row["queue"] for row in listed] == ["default", "slow"]


def test_workers_are_listed_while_they_live(seawall, url):
    open_store(url).close()
    nobody = seawall("workers", "--url", url)
    assert nobody == "No worker is alive. Start one: seawall worker --app MODULE:APP\n"
    with open_store(url) as store:
        store.appear(presence(running=3))
        store.appear(presence("w2", None, stopping=True))
    printed = seawall("workers", "--url", url)
    assert "3/4" in printed
    assert "stopping" in printed
    first, second = json.loads(seawall("workers", "--json", "--url", url))
    assert (first["worker"], first["queues"], first["tasks"]) == ("w1", ["default"], ["work"])
    assert (first["running"], first["concurrency"], first["pid"]) == (3, 4, 7)
    assert second["queues"] is None
    assert datetime.fromisoformat(first["seen_at"]).tzinfo is not None


SCHEDULED = """
from seawall import Seawall

app = Seawall("sqlite:///jobs.db")


@app.task
def report(place: str) -> None: ...


app.schedule(report.job("eu"), name="night", cron="0 3 * * *")
app.schedule(report.job("us"), name="often", every=90)
"""


def test_schedules_are_told_as_planned_and_in_words(seawall, module):
    app = f"{module(SCHEDULED)}:app"
    with open_store(URL) as store:
        soon = datetime.now(UTC) + timedelta(minutes=10, seconds=30)
        past = datetime.now(UTC) - timedelta(hours=5)
        planned = store.plan("night", "cron 0 3 * * * UTC", past)
        assert store.fire(planned, next_at=soon, job=new_job()).job_id == 1
    printed = seawall("schedules", "--url", URL)
    assert "cron 0 3 * * * UTC" in printed
    assert "in 10 min" in printed
    assert "5 h ago" in printed
    assert "often" not in printed
    printed = seawall("schedules", "--app", app)
    assert "report at 03:00 every day in UTC" in printed
    assert "when a worker starts" in printed
    night, often = json.loads(seawall("schedules", "--json", "--app", app))
    assert (night["name"], night["last_job"], night["task"]) == ("night", 1, "report")
    assert (often["next_at"], often["explained"]) == (None, "every 90 s")
    (alone,) = json.loads(seawall("schedules", "--json", "--url", URL))
    assert alone["explained"] is None


def test_no_schedules_are_said_to_be_none(seawall, url):
    open_store(url).close()
    assert seawall("schedules", "--url", url) == "There are no schedules.\n"
