"""Queues, workers and schedules on a page; pausing and resuming a queue there."""

from datetime import timedelta

from seawall.clock import ManualClock
from seawall.model import Lane
from seawall.store import NewJob, Presence
from tests.web.looking import HOSTILE, HTML, Person, is_harmless, words


def comes(world, worker="w1", **fields):
    usual = {"host": "harbour", "pid": 41, "version": "1.2", "queues": None, "tasks": ("add",)}
    told = Presence(worker=worker, **{**usual, "concurrency": 8, **fields})
    world.store.appear(told)


def test_queues_are_shown_with_what_waits_and_who_serves_them(world):
    world.store.enqueue(
        [NewJob(lane=Lane(task="add", queue="mail"), arguments='{"a":1}') for _ in range(3)]
    )
    world.job(run_after_seconds=7_200)
    comes(world, queues=("mail",))
    operator = Person(world)
    shown = operator.reads("/fleet")

    assert "mail at work 3 0 0" in shown
    assert "default nothing due 0 1 0 – 0" in shown
    assert 'href="/jobs?queue=mail"' in operator.sees("/fleet")


def test_workers_are_shown_with_what_they_serve_and_how_busy_they_are(world):
    comes(world, "one", running=3, tasks=("add", "fails", "private", "x", "y"))
    comes(world, "two", running=0, queues=("mail", "media"), pid=42)
    comes(world, "three", running=8)
    comes(world, "four", running=1, stopping=True)
    shown = Person(world).reads("/fleet")

    assert "4 workers alive, 12 of 32 slots busy" in shown
    assert "harbour pid 41 one at work 3 of 8 all 5 tasks" in shown
    assert "harbour pid 42 two idle 0 of 8 mail, media add" in shown
    assert "three full" in shown
    assert "four stopping" in shown
    assert "1.2" in shown


def test_what_nobody_serves_is_said_loudly_with_the_advice(make_world):
    clock = ManualClock()
    world = make_world(clock=clock)
    for task, queue in (("add", "mail"), ("fails", "default")):
        job = NewJob(lane=Lane(task=task, queue=queue), arguments="{}")
        world.store.enqueue([job])
    clock.advance(300)
    comes(world, queues=("default",))
    shown = Person(world).reads("/fleet")

    assert "Nobody serves add in the queue mail: its jobs have been due for 5 min" in shown
    assert "start a worker with --queues mail." in shown
    assert "Nobody serves fails: " in shown
    assert "start a worker whose application declares the task fails." in shown
    assert "mail nobody serves it" in shown


def test_a_queue_is_paused_with_a_reason_and_resumed(world):
    operator = Person(world)
    act = "/fleet/queues/default"

    told = operator.presses("/fleet", f"{act}/pause", why="too many complaints")
    assert told == ("The queue default is paused.", True)
    assert [hold.reason for hold in world.store.holds()] == ["too many complaints"]
    assert "default paused too many complaints, since now" in operator.reads("/fleet")

    assert operator.presses("/fleet", f"{act}/resume") == ("The queue default goes on.", True)
    assert not world.store.holds()
    line, well = operator.sends(f"{act}/resume", csrf=operator.csrf())
    assert (line, well) == ("the queue was not paused", False)


def test_a_held_task_is_told_with_its_queue(world):
    world.job()
    comes(world)
    world.store.hold("task", "add", reason="it is wrong")

    assert "default partly held task add: it is wrong" in Person(world).reads("/fleet")


def test_schedules_are_shown_with_their_next_fire(world):
    world.app.schedule(world.app.tasks["add"].job(1), name="hourly", every=3_600)
    world.app.schedule(world.app.tasks["add"].job(2), name="nightly", cron="0 3 * * *")
    spec = world.app.schedules["nightly"].schedule.spec
    world.store.plan("nightly", spec, world.store.now() + timedelta(hours=5))
    shown = Person(world).reads("/fleet")

    assert "hourly add every 1 h when a worker starts" in shown
    assert "nightly add at 03:00 every day" in shown
    assert "in 5 h" in shown


def test_without_workers_and_schedules_the_page_says_how_to_have_some(world):
    shown = Person(world).reads("/fleet")

    assert "No worker is alive" in shown
    assert "seawall worker --app jobs:app" in shown
    assert "app.schedule(" in shown


def test_only_those_who_see_all_see_it_and_only_operators_act(world):
    for role in ("owner", "ann's reader"):
        person = Person(world, role)
        assert person.ask("/fleet").status_code == 403
        assert "/fleet" not in person.sees("/")
    reader = Person(world, "read-only")
    assert "/fleet/queues/" not in reader.sees("/fleet")
    for role in ("owner", "read-only"):
        word = Person(world, role).csrf()
        answer = world.client.post("/fleet/queues/default/pause", data={"csrf": word}, headers=HTML)
        assert answer.status_code == 403
    Person(world)
    answer = world.client.post("/fleet/queues/default/pause", data={}, headers=HTML)
    assert answer.status_code == 403
    assert not world.store.holds()


def test_hostile_names_are_text_and_their_forms_work(world):
    name = HOSTILE + "/a?b#c"
    job = NewJob(lane=Lane(task=HOSTILE, queue=name), arguments="{}")
    world.store.enqueue([job])
    comes(world, HOSTILE, host=HOSTILE, queues=(name,), tasks=(HOSTILE,))
    operator = Person(world)
    text = operator.sees("/fleet")
    act = text.partition('method="post" action="/fleet')[2].partition('"')[0]

    is_harmless(text)
    assert HOSTILE in words(text)
    assert operator.presses("/fleet", f"/fleet{act}", why=HOSTILE)[1]
    is_harmless(operator.sees("/fleet"))
    assert world.store.holds()
