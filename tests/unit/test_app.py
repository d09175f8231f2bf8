"""The application: asking, in bulk, in transactions, by handlers; and what people do with jobs."""

import asyncio
import threading
from datetime import timedelta
from itertools import count

import pytest

from seawall import (
    ArgumentsError,
    ConfigurationError,
    KeyConflictError,
    NoSuchJobError,
    Policy,
    Rule,
    Seawall,
    SeawallError,
    SettingError,
    Skip,
    Snooze,
    State,
    Worker,
    current_job,
)
from seawall.current import MOST_CHILDREN
from seawall.store import Scope
from seawall.testing import in_memory
from seawall.worker.events import Turn


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEAWALL_URL", raising=False)
    return Seawall()


@pytest.fixture
def world(app):
    with in_memory(app) as world:
        yield world


@pytest.fixture
def ask(app):
    @app.task
    def ask(prompt: str = "") -> str:
        return prompt

    return ask


def everything(app, **which):
    """Every job that matches, page by page."""
    found, after = [], None
    for _ in range(10_000):
        page = app.jobs(after=after, limit=7, **which)
        found += page
        after = page.next
        if after is None:
            return found
    raise AssertionError("no end of pages")


# ── Configuration ────────────────────────────────────────────────────────────────────────────────


def test_making_an_application_opens_no_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Seawall(f"sqlite:///{tmp_path}/jobs.db")
    assert list(tmp_path.iterdir()) == []


def test_what_is_said_to_the_application_is_as_strong_as_a_flag(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEAWALL_CONCURRENCY", "3")
    monkeypatch.setenv("SEAWALL_URL", "sqlite:///environment.db")
    app = Seawall("sqlite:///said.db", concurrency=5)
    assert (app.settings.concurrency, app.settings.url) == (5, "sqlite:///said.db")
    assert Seawall().settings.concurrency == 3


def test_a_file_may_be_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text("concurrency = 4\n[policies.mine]\nmax_attempts = 2\n")
    app = Seawall(config="mine.toml")
    assert app.settings.concurrency == 4
    assert app.policy("mine").max_attempts == 2


@pytest.mark.parametrize(
    "wrong", [{"concurrency": 0}, {"url": "mysql://x"}, {"lease_seconds": "soon"}]
)
def test_a_setting_that_cannot_be_used_is_refused_in_one_line(app, wrong):
    with pytest.raises(SettingError, match=f"^{next(iter(wrong))} ") as refused:
        Seawall(**wrong)
    assert "\n" not in str(refused.value)


def test_a_setting_that_there_is_not_is_refused_with_the_near_one():
    with pytest.raises(ConfigurationError, match="concurrency"):
        Seawall(concurency=5)


def test_configure_adds_settings_before_the_store_is_in_use(app):
    app.configure(concurrency=7, poll_seconds=None)
    assert app.settings.concurrency == 7
    assert app.settings.poll_seconds == 1.0


def test_configure_refuses_a_setting_that_there_is_not(app):
    with pytest.raises(ConfigurationError, match="concurrency"):
        app.configure(concurency=7)


def test_configure_refuses_once_the_store_is_in_use(app, world, ask):
    ask.enqueue()
    with pytest.raises(SeawallError, match="is in use"):
        app.configure(concurrency=7)
    app.configure(concurrency=None)  # nothing to say
    assert app.settings.concurrency == 10


def test_configuration_that_was_refused_leaves_things_as_they_were(app):
    with pytest.raises(SettingError):
        app.configure(concurrency=0)
    app.configure(poll_seconds=2.0)
    assert (app.settings.concurrency, app.settings.poll_seconds) == (10, 2.0)


def test_the_store_is_opened_once_however_many_threads_ask(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = Seawall("sqlite:///jobs.db")
    found, barrier = [], threading.Barrier(8)

    def look():
        barrier.wait()
        found.append(app.store)

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
    app.close()
    app.close()


def test_a_closed_application_opens_its_store_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = Seawall("sqlite:///jobs.db")
    task = app.task(name="t")(lambda: None)
    job = task.enqueue()
    app.close()
    app.configure(concurrency=2)
    assert app.job(job.id).state is State.QUEUED
    app.close()


# ── Keys ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_key_with_the_same_arguments_is_the_same_job_whatever_its_state(ask, world):
    first = ask.using(key="k").enqueue("a")
    assert first.created
    again = ask.using(key="k", priority=9).enqueue(prompt="a")
    assert (again.created, again.id) == (False, first.id)
    assert first.job().priority == 0
    world.drain()
    later = ask.using(key="k").enqueue("a")
    assert (later.created, later.id, later.result()) == (False, first.id, "a")


def test_the_same_key_with_other_arguments_is_refused_without_quoting_them(ask, world):
    first = ask.using(key="k").enqueue("a")
    with pytest.raises(KeyConflictError, match=rf"^ask: the key 'k' is taken by job {first.id}, "):
        ask.using(key="k").enqueue("hunter2")
    assert len(everything(world.app)) == 1


def test_a_key_belongs_to_its_task(app, ask, world):
    other = app.task(name="other")(lambda prompt: None)
    assert ask.using(key="k").enqueue("a").id != other.using(key="k").enqueue("a").id


# ── Many ─────────────────────────────────────────────────────────────────────────────────────────


def test_many_jobs_are_asked_for_in_batches_and_answered_in_order(app, ask, world):
    handles = app.enqueue_many(ask.job(str(n)) for n in range(2_345))
    assert len({handle.id for handle in handles}) == 2_345
    assert app.store.counts()[State.QUEUED] == 2_345
    for n in (0, 999, 1_000, 1_001, 2_344):
        assert app.store.arguments(handles[n].id) == f'{{"prompt":"{n}"}}'


def test_many_may_be_none(app, world):
    assert app.enqueue_many([]) == []
    assert asyncio.run(app.aenqueue_many([])) == []


def test_jobs_of_several_tasks_and_options_may_be_asked_for_together(app, ask, world):
    other = app.task(name="other")(lambda: 5)
    one, two, three = app.enqueue_many([ask.job("a"), other.job(), ask.using(owner="ann").job("b")])
    world.drain()
    assert (one.result(), two.result(), three.result()) == ("a", 5, "b")
    assert three.job().owner == "ann"


def test_where_a_key_is_taken_by_other_arguments_the_rest_is_written_and_then_told(app, ask, world):
    ask.using(key="k5").enqueue("other")
    with pytest.raises(KeyConflictError, match=r"^1 of 1,500 jobs were not enqueued") as refused:
        app.enqueue_many(ask.using(key=f"k{n}").job("same") for n in range(1_500))
    assert "k5" in str(refused.value)
    assert app.store.counts()[State.QUEUED] == 1_500


def test_the_same_key_twice_in_one_batch_is_one_job(app, ask, world):
    one, two = app.enqueue_many([ask.using(key="k").job("a"), ask.using(key="k").job("a")])
    assert one.id == two.id
    assert (one.created, two.created) == (True, False)


def test_the_async_twins_ask_alike(app, ask, world):
    async def main():
        one = await ask.aenqueue("a")
        two = await ask.using(key="k").aenqueue("b")
        again = await ask.using(key="k").aenqueue("b")
        many = await app.aenqueue_many(ask.job(str(n)) for n in range(3))
        with pytest.raises(KeyConflictError):
            await ask.using(key="k").aenqueue("c")
        with pytest.raises(ArgumentsError):
            await ask.aenqueue(5)
        return [one, two, *many], again

    handles, again = asyncio.run(main())
    world.drain()
    assert [handle.result() for handle in handles] == ["a", "b", "0", "1", "2"]
    assert again.id == handles[1].id


def test_a_task_of_another_application_is_refused(app, ask, world):
    elsewhere = Seawall().task(name="ask")(lambda prompt: None)
    with pytest.raises(ArgumentsError, match=r"^ask: is a task of another application"):
        app.enqueue_many([ask.job("a"), elsewhere.job("a")])
    assert len(everything(app)) == 0


# ── Transactions ─────────────────────────────────────────────────────────────────────────────────


def test_what_is_enqueued_in_a_transaction_is_there_at_its_end(app, ask, world):
    with app.transaction() as connection:
        connection.execute("CREATE TABLE mine (n)")
        connection.execute("INSERT INTO mine VALUES (7)")
        job = ask.enqueue("a")
        app.enqueue_many(ask.job(str(n)) for n in range(1_200))
    assert job.state is State.QUEUED
    assert app.store.counts()[State.QUEUED] == 1_201
    with app.transaction() as connection:
        assert list(connection.execute("SELECT n FROM mine")) == [(7,)]


def test_what_a_handler_enqueues_in_a_transaction_does_not_wait_for_its_end(app, ask, world):
    @app.task
    def parent() -> None:
        with app.transaction():
            asked = ask.enqueue("in the transaction")
        assert asked.id
        ask.enqueue("with the end of the attempt")
        raise ValueError("which is none")

    parent.enqueue()
    world.drain()

    assert [job.task for job in everything(app, state="succeeded")] == ["ask"]
    assert app.verify().ok


def test_async_asking_inside_a_transaction_is_part_of_it(app, ask, world):
    async def ask_twice() -> None:
        with app.transaction():
            await ask.aenqueue("one")
            await app.aenqueue_many([ask.job("two")])
            raise RuntimeError("and nothing of it remains")

    with pytest.raises(RuntimeError, match="nothing of it"):
        asyncio.run(ask_twice())
    assert everything(app) == []


def test_a_transaction_that_breaks_leaves_nothing(app, ask, world):
    with pytest.raises(RuntimeError), app.transaction() as connection:  # noqa: PT012
        connection.execute("CREATE TABLE mine (n)")
        ask.enqueue("a")
        app.enqueue_many(ask.job(str(n)) for n in range(1_200))
        raise RuntimeError("no")
    assert app.store.counts().get(State.QUEUED, 0) == 0
    assert app.verify().ok
    with app.transaction() as connection:
        assert not list(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'mine'"))


# ── Reading ──────────────────────────────────────────────────────────────────────────────────────


def test_jobs_are_found_by_what_is_said_about_them(app, ask, world):
    other = app.task(name="other", queue="q2")(lambda: None)
    a = ask.using(owner="ann", tags=["x", "y"]).enqueue("a")
    world.clock.advance(10)
    b = ask.using(key="k", queue="q3").enqueue("b")
    world.clock.advance(10)
    c = other.enqueue()

    def ids(**which):
        return {job.id for job in everything(app, **which)}

    assert ids() == {a.id, b.id, c.id}
    assert ids(owner="ann") == ids(tag="x") == ids(tag="y") == {a.id}
    assert ids(key="k", task="ask") == ids(queue="q3") == {b.id}
    assert ids(task="other") == ids(queue="q2") == {c.id}
    assert ids(owner="ann", task="other") == set()
    assert ids(created_after=world.now - timedelta(seconds=10)) == {b.id, c.id}
    assert a.id in ids(created_before=world.now - timedelta(seconds=10))
    assert ids(state="queued") == ids(state=State.QUEUED) == {a.id, b.id, c.id}
    world.drain()
    assert ids(state="queued") == set()
    assert ids(state="succeeded") == {a.id, b.id, c.id}


def test_pages_hold_still_while_jobs_come_and_go(app, ask, world):
    ids = {handle.id for handle in app.enqueue_many(ask.job(str(n)) for n in range(50))}
    seen, after = [], None
    for _ in range(20):
        page = app.jobs(after=after, limit=7)
        seen += [job.id for job in page]
        ask.enqueue("new")
        if page.next is None:
            break
        after = page.next
    assert len(seen) == len(set(seen))
    assert ids <= set(seen)


@pytest.mark.parametrize("wrong", [
    {"state": "sleeping"}, {"limit": 0}, {"limit": 1_001}, {"limit": "5"}, {"after": "garbage"}, {"after": ""}, {"task": ""}, {"tag": 5},
    {"created_after": "yesterday"},
])  # fmt: skip
def test_a_question_that_makes_no_sense_is_refused(app, ask, world, wrong):
    ask.enqueue("a")
    with pytest.raises(ArgumentsError) as refused:
        app.jobs(**wrong)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("job_id", [0, -1, 999, 2**63, 2**70])
def test_a_job_that_is_not_there_is_an_error_of_its_own(app, world, job_id):
    for verb in (app.job, app.cancel, app.retry, app.why):
        with pytest.raises(NoSuchJobError, match=rf"there is no job {job_id}"):
            verb(job_id)


def test_a_job_is_found_by_its_number_with_its_result_in_its_type(app, world):
    @app.task
    def when() -> timedelta:
        return timedelta(seconds=5)

    job = when.enqueue()
    world.drain()
    assert app.job(job.id).result() == timedelta(seconds=5)
    app.tasks.clear()
    assert app.job(job.id).result() == "PT5S"


# ── What people do ───────────────────────────────────────────────────────────────────────────────


def test_a_paused_queue_begins_no_job_until_it_is_resumed(app, ask, world):
    app.pause("default", reason="deploy")
    job = ask.enqueue("a")
    assert world.drain() == 0
    assert job.state is State.QUEUED
    (hold,) = app.holds()
    assert (hold.scope, hold.name, hold.reason) == (Scope.QUEUE, "default", "deploy")
    assert app.resume("default")
    assert not app.resume("default")
    assert world.drain() == 1


@pytest.mark.parametrize("queue", ["", " ", "a\nb", 5])
def test_a_queue_that_cannot_be_is_refused(app, world, queue):
    with pytest.raises(ArgumentsError):
        app.pause(queue)
    with pytest.raises(ArgumentsError):
        app.resume(queue)


def test_a_queued_job_is_cancelled_at_once_and_only_once(app, ask, world):
    job = ask.enqueue("a")
    assert job.cancel()
    assert job.state is State.CANCELLED
    assert not app.cancel(job.id)
    assert world.drain() == 0


def test_a_finished_job_is_not_cancelled(app, ask, world):
    job = ask.enqueue("a")
    world.drain()
    assert not job.cancel()
    assert job.state is State.SUCCEEDED


def test_only_a_failed_job_is_sent_again(app, ask, world):
    job = ask.enqueue("a")
    assert not app.retry(job.id)
    world.drain()
    assert not app.retry(job.id)


def test_the_books_balance(app, ask, world):
    app.enqueue_many(ask.job(str(n)) for n in range(20))
    app.cancel(1)
    world.drain()
    verified = app.verify()
    assert verified.ok
    assert verified.entered == 20


# ── Handlers that enqueue ────────────────────────────────────────────────────────────────────────


def parent_of(app, ask, end=None):
    """A task whose handler enqueues and then ends like this, the first time."""
    ends = iter([end])

    @app.task(policy=Policy(name="never", max_attempts=1))
    def parent():
        handle = ask.enqueue("child")
        assert handle.created
        assert repr(handle) == "<job not yet written>"
        with pytest.raises(SeawallError, match="until then it has no id"):
            _ = handle.id
        for step in ends:
            if step is not None:
                raise step

    return parent


@pytest.mark.parametrize(("end", "children"), [
    (None, 1), (Skip("enough"), 1), (Snooze(1), 2), (ValueError("broke"), 0),
], ids=["succeeds", "skips", "snoozes, then succeeds", "fails"])  # fmt: skip
def test_children_are_written_with_the_end_of_an_attempt_that_ends_well(
    app, ask, world, end, children
):
    parent_of(app, ask, end).enqueue()
    world.drain()
    found = everything(app, task="ask")
    assert len(found) == children
    assert all(job.state is State.SUCCEEDED for job in found)


def test_no_child_is_there_before_its_parent_has_ended(app, ask, world):
    seen = []

    @app.task
    def parent():
        ask.enqueue("child")
        app.enqueue_many(ask.job(str(n)) for n in range(3))
        seen.append(len(everything(app, task="ask")))

    parent.enqueue()
    world.drain()
    assert seen == [0]
    assert len(everything(app, task="ask")) == 4


def test_an_async_handler_enqueues_alike(app, ask, world):
    @app.task
    async def parent():
        await ask.aenqueue("a")
        await app.aenqueue_many([ask.job("b")])
        ask.enqueue("c")

    parent.enqueue()
    world.drain()
    assert len(everything(app, task="ask")) == 3


def test_a_child_inherits_the_callers_request_id_unless_it_has_its_own(app, world):
    seen = []

    @app.task
    def child():
        seen.append(current_job().request_id)

    @app.task
    def parent():
        child.enqueue()
        child.using(request_id="own").enqueue()

    parent.using(request_id="req-1").enqueue()
    parent.enqueue()
    world.drain()
    assert sorted(map(str, seen)) == ["None", "own", "own", "req-1"]


def test_an_attempt_may_enqueue_a_bounded_number_of_jobs(app, ask, world):
    told = []

    @app.task
    def parent():
        app.enqueue_many(ask.job(str(n)) for n in range(MOST_CHILDREN))
        try:
            ask.enqueue("one too many")
        except SeawallError as error:
            told.append(str(error))

    parent.enqueue()
    world.drain()
    assert "at most 1,000 jobs" in told[0]
    assert len(everything(app, task="ask")) == MOST_CHILDREN


def test_nothing_can_be_enqueued_by_what_outlives_its_attempt(app, ask, world):
    late = []

    @app.task
    async def parent():
        from contextvars import copy_context

        context = copy_context()
        late.append(lambda: context.run(ask.enqueue, "too late"))

    parent.enqueue()
    world.drain()
    with pytest.raises(SeawallError, match="the attempt has ended"):
        late[0]()
    assert everything(app, task="ask") == []


def test_after_an_attempt_the_same_thread_enqueues_as_anybody(app, ask, world):
    parent_of(app, ask).enqueue()
    world.drain()
    assert ask.enqueue("a").id


def test_what_a_retried_handler_enqueued_before_it_failed_is_not_there_twice(app, ask, world):
    tries = count()

    @app.task(policy="ai-worker")
    def parent():
        ask.enqueue("child")
        if next(tries) < 2:
            raise TimeoutError("slow")

    job = parent.enqueue()
    world.drain()
    assert job.state is State.SUCCEEDED
    assert len(everything(app, task="ask")) == 1


# ── Schedules ────────────────────────────────────────────────────────────────────────────────────


def test_a_schedule_asks_for_its_job_again_and_again(app, ask, world):
    app.schedule(ask.job("tick"), every=timedelta(minutes=1))
    for _ in range(4):
        world.advance(60)
        world.work()
    assert 3 <= len(everything(app, task="ask")) <= 4


@pytest.mark.parametrize(("words", "told"), [
    ({}, "schedule ask: "), ({"cron": "nonsense"}, "schedule ask: "), ({"every": 0}, "schedule ask: "), ({"every": -5.0}, "schedule ask: "),
    ({"cron": "0 3 * * *", "every": 5}, "schedule ask: "), ({"cron": "0 3 * * *", "timezone": "Mars/Base"}, "schedule ask: "),
    ({"cron": "0 3 * * *", "missed": "twice"}, "schedule ask: "),
])  # fmt: skip
def test_a_schedule_that_cannot_be_is_refused_in_one_line(app, ask, words, told):
    with pytest.raises(ConfigurationError, match=f"^{told}") as refused:
        app.schedule(ask.job("x"), **words)
    assert "\n" not in str(refused.value)
    assert app.schedules == {}


def test_a_schedule_has_a_name_of_its_own_and_no_key(app, ask):
    app.schedule(ask.job("x"), cron="0 3 * * *")
    with pytest.raises(ConfigurationError, match=r"^schedule ask: is declared twice"):
        app.schedule(ask.job("y"), cron="0 4 * * *")
    app.schedule(ask.job("y"), name="second", cron="0 4 * * *")
    with pytest.raises(ConfigurationError, match="takes no key"):
        app.schedule(ask.using(key="k").job("z"), name="third", cron="0 4 * * *")
    assert set(app.schedules) == {"ask", "second"}


def test_a_span_does_not_depend_on_the_askers_clock(app, ask, world):
    """The asking machine may be an hour off: what it says is how long, not when."""
    request = ask.using(run_after=timedelta(minutes=1), deadline=timedelta(hours=1)).job("x")
    new = request.new_job()
    assert (new.run_after, new.run_after_seconds) == (None, 60.0)
    assert (new.deadline_at, new.deadline_seconds) == (None, 3_600.0)


def test_what_must_not_be_repeated_after_a_loss_is_never_prefetched(app, ask, world):
    never = Policy(name="once", max_attempts=1, rules=[Rule(on="WORKER_LOST", retry=False)])

    @app.task(policy=never)
    def pay() -> None: ...

    _, turns = Worker(app)._at(app.store)
    (ahead,) = turns.wanted(Turn((), (), 5, prefetch=True))
    assert ahead.tasks == ("ask", "seawall.webhook")
    now, ahead = turns.wanted(Turn((), (), 5, prefetch=False, ahead=7))
    assert now.tasks == ("ask", "pay", "seawall.webhook")
    assert (ahead.tasks, ahead.limit) == (("ask", "seawall.webhook"), 7)
