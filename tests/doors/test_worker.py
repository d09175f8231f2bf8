"""`seawall worker`: it starts, drains, stops when told, and leaves no lease behind."""

import json
import os
import signal
import time

import pytest

from seawall.states import State
from seawall.store import Filter, open_store
from seawall.worker.supervise import ONE_SIGNAL_SECONDS
from tests.support.doors import is_alive, until

URL = "sqlite:///jobs.db"


def states(store):
    return {state: many for state, many in store.counts().items() if many}


def test_it_drains_and_ends(seawall, start, app):
    for n in range(3):
        seawall("enqueue", "add", f"a={n}", "--app", app)
    seawall("enqueue", "fails", "--app", app)
    worker = start("worker", "--app", app, "--drain", "--log-level", "debug")
    assert worker.ended() == 0
    with open_store(URL) as store:
        assert states(store) == {State.SUCCEEDED: 3, State.FAILED: 1}
        assert store.workers(within_seconds=60) == []
    assert "seawall: 10 at once, all queues, sqlite:///jobs.db\n" in worker.said
    assert "Ctrl-C lets running jobs finish" in worker.said
    assert worker.said.count("DEBUG   job_succeeded") == 3
    assert "WARNING gave_up job=4 task=fails" in worker.said


def test_drained_in_one_process_it_is_the_commands_own_exit(seawall, app):
    seawall("enqueue", "add", "a=1", "--app", app)
    seawall("worker", "--app", app, "--drain", "--log-format", "json", "--poll-seconds", "0.1")
    with open_store(URL) as store:
        assert states(store) == {State.SUCCEEDED: 1}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_lets_its_jobs_finish(seawall, start, app, number):
    seawall("enqueue", "slow", "mark=begun", "seconds=1", "--app", app)
    worker = start("worker", "--app", app)
    until((seawall.folder / "begun").exists, "the job begins")
    worker.tell(number)
    assert worker.ended() == 0
    with open_store(URL) as store:
        assert states(store) == {State.SUCCEEDED: 1}


def test_told_twice_it_hands_its_jobs_back_and_leaves_no_lease(seawall, start, app):
    seawall("enqueue", "slow", "mark=begun", "--app", app)
    worker = start("worker", "--app", app)
    until((seawall.folder / "begun").exists, "the job begins")
    worker.tell(signal.SIGTERM)
    worker.says("worker_stopping")
    worker.tell(signal.SIGTERM)
    assert worker.ended() == 0
    with open_store(URL) as store:
        assert states(store) == {State.QUEUED: 1}
        assert store.jobs([1])[1].lease is None
        assert store.workers(within_seconds=60) == []


def test_it_serves_the_queues_named_and_no_other(seawall, start, app):
    seawall("enqueue", "add", "a=1", "--app", app)
    seawall("enqueue", "slow", "seconds=0", "--app", app)
    assert start("worker", "--app", app, "--drain", "--queues", "slow, other").ended() == 0
    with open_store(URL) as store:
        (waiting,) = store.page(Filter(state=State.QUEUED))
        assert waiting.task == "add"


def test_flags_are_stronger_than_the_application(seawall, start, app):
    seawall("enqueue", "add", "a=1", "--app", app, "--url", "sqlite:///other.db")
    worker = start(
        "worker", "--app", app, "--drain", "--url", "sqlite:///other.db", "--concurrency", "3"
    )
    assert worker.ended() == 0
    assert "seawall: 3 at once, all queues, sqlite:///other.db\n" in worker.said
    assert not (seawall.folder / "jobs.db").exists()


def test_json_logs_are_one_object_a_line_whoever_logs(seawall, start, module):
    name = module(
        "import logging, warnings\nfrom seawall import Seawall\n"
        "app = Seawall('sqlite:///jobs.db')\n"
        "@app.task\n"
        "def talks() -> None:\n"
        "    logging.getLogger('client').info('GET https://api.example/x?key=sekret')\n"
        "    warnings.warn('old ways', stacklevel=1)\n"
        "    try:\n"
        "        1 / 0\n"
        "    except ZeroDivisionError:\n"
        "        logging.exception('two\\nlines')\n"
    )
    seawall("enqueue", "talks", "--app", f"{name}:app")
    worker = start(
        "worker", "--app", f"{name}:app", "--drain", "--log-format", "json", "--log-level", "debug"
    )
    assert worker.ended() == 0
    lines = [json.loads(line) for line in worker.said.splitlines()]
    assert all({"time", "level", "event"} <= line.keys() for line in lines)
    by_event = {line["event"]: line for line in lines}
    assert by_event["worker_started"]["tasks"] == "seawall.webhook,talks"
    assert by_event["job_succeeded"]["job"] == 1
    logged = {line["logger"]: line for line in lines if line["event"] == "log"}
    assert logged["client"]["message"] == "GET https://api.example/x"
    assert "old ways" in logged["py.warnings"]["message"]
    assert logged["root"]["message"] == "two\nlines"
    assert "ZeroDivisionError" in logged["root"]["traceback"]


def test_a_store_that_is_not_there_is_one_line(start, app):
    url = "postgresql://ann:hunter2@127.0.0.1:1/jobs"
    worker = start("worker", "--app", app, "--url", url)
    assert worker.ended() == 2
    assert worker.said.splitlines()[-1].startswith("seawall: PostgreSQL")
    assert "Traceback" not in worker.said
    assert "hunter2" not in worker.said


@pytest.mark.parametrize("kind", ["sqlite", "postgres18"])
def test_people_look_while_a_worker_works(seawall, start, app, request, kind):
    url = URL
    if kind != "sqlite":
        fleet = request.getfixturevalue("postgres_fleet")
        url = fleet.server(kind.removeprefix("postgres")).new_url()
    here = ("--app", app, "--url", url)
    worker = start("worker", *here)
    assert seawall("enqueue", "add", "a=1", "--wait-seconds", "40", *here) == "1\n3\n"
    seawall("enqueue", "slow", "mark=begun", *here)
    until((seawall.folder / "begun").exists, "the job begins")
    assert "It is running" in seawall("why", "2", *here)
    assert [job["id"] for job in json.loads(seawall("jobs", "--json", *here))] == [2, 1]
    (row,) = [q for q in json.loads(seawall("queues", "--json", *here)) if q["queue"] == "slow"]
    assert (row["running"], row["workers"]) == (1, 1)
    (listed,) = json.loads(seawall("workers", "--json", *here))
    assert listed["pid"] == worker.process.pid
    seawall("doctor", *here)
    assert seawall("cancel", "2", *here) == "job 2: asked to stop\n"
    worker.says("job_cancelled")
    worker.tell(signal.SIGTERM)
    assert worker.ended() == 0
    assert "cancelled" in seawall("job", "2", *here)


# --- several processes ------------------------------------------------------------------------


def alive(seawall, app, count):
    """The workers that tell of themselves, when there are so many."""

    def found():
        listed = json.loads(seawall("workers", "--app", app, "--json"))
        return listed if len(listed) == count else None

    until((seawall.folder / "jobs.db").exists, "a worker makes the store")
    seawall("migrate", "--url", URL)
    return until(found, f"{count} workers are alive")


def test_several_processes_stop_together(seawall, start, app):
    supervisor = start("worker", "--app", app, "--processes", "2")
    pids = {each["pid"] for each in alive(seawall, app, 2)}
    assert supervisor.process.pid not in pids
    supervisor.tell(signal.SIGTERM)
    assert supervisor.ended() == 0
    assert not any(map(is_alive, pids))
    assert supervisor.said.count("worker_stopped") == 2
    assert "2 processes, each 10 at once" in supervisor.said
    with open_store(URL) as store:
        assert store.workers(within_seconds=60) == []


def test_a_process_that_dies_is_replaced(seawall, start, app):
    supervisor = start("worker", "--app", app, "--processes", "2")
    first = {each["pid"] for each in alive(seawall, app, 2)}
    supervisor.says("worker_started", 2)  # a worker is seen a moment before it says so
    victim = min(first)
    os.kill(victim, signal.SIGKILL)
    supervisor.says("process_ended")
    assert f"pid={victim} signal=9 delay_ms=500" in supervisor.said
    supervisor.says("worker_started", 3)
    supervisor.tell(signal.SIGINT)
    assert supervisor.ended() == 0


def test_processes_whose_supervisor_is_killed_stop_by_themselves(seawall, start, app):
    seawall("enqueue", "slow", "mark=begun", "seconds=1", "--app", app)
    supervisor = start("worker", "--app", app, "--processes", "2")
    pids = {each["pid"] for each in alive(seawall, app, 2)}
    until((seawall.folder / "begun").exists, "the job begins")
    supervisor.process.kill()
    until(lambda: not any(map(is_alive, pids)), "both have ended")
    assert supervisor.said.count("worker_stopped") == 2
    with open_store(URL) as store:
        assert states(store) == {State.SUCCEEDED: 1}


def test_several_processes_drain(seawall, start, app):
    for n in range(20):
        seawall("enqueue", "add", f"a={n}", "--app", app)
    assert start("worker", "--app", app, "--processes", "2", "--drain").ended() == 0
    with open_store(URL) as store:
        assert states(store) == {State.SUCCEEDED: 20}


def test_a_second_signal_reaches_every_process(seawall, start, app):
    seawall("enqueue", "slow", "mark=begun", "--app", app)
    supervisor = start("worker", "--app", app, "--processes", "2")
    until((seawall.folder / "begun").exists, "the job begins")
    supervisor.says("worker_started", 2)
    supervisor.tell(signal.SIGTERM)
    supervisor.says("worker_stopping", 2)
    time.sleep(ONE_SIGNAL_SECONDS)  # sooner, it would be taken for the same one
    supervisor.tell(signal.SIGTERM)
    assert supervisor.ended() == 0
    with open_store(URL) as store:
        assert states(store) == {State.QUEUED: 1}


def test_a_signal_for_the_whole_group_of_processes_is_one_signal(seawall, start, app):
    """As systemd sends it: to the supervisor and to each of its children."""
    seawall("enqueue", "slow", "mark=begun", "seconds=2", "--app", app)
    supervisor = start("worker", "--app", app, "--processes", "2")
    until((seawall.folder / "begun").exists, "the job begins")
    pids = {each["pid"] for each in alive(seawall, app, 2)}
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    supervisor.tell(signal.SIGTERM)
    assert supervisor.ended() == 0
    with open_store(URL) as store:
        assert states(store) == {State.SUCCEEDED: 1}
