"""Declaring tasks, and what can be said about one job."""

import asyncio
import functools
from datetime import UTC, datetime, timedelta

import pytest

from seawall import ArgumentsError, ConfigurationError, Policy, Seawall, State, Task
from seawall.testing import in_memory

TOMORROW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
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


# ── Declaring ────────────────────────────────────────────────────────────────────────────────────


def test_a_bare_decorator_makes_a_task_of_a_function(app):
    @app.task
    def plain(a: int) -> int:
        """Its words."""
        return a + 1

    assert isinstance(plain, Task)
    assert (plain.name, plain.queue, plain.upstream, plain.priority) == ("plain", "default", "", 0)
    assert (plain.__doc__, plain.__name__, plain.__module__) == ("Its words.", "plain", __name__)
    assert plain.policy.name == "default"
    assert plain.timeout_seconds == app.settings.timeout_seconds
    assert not plain.is_async
    assert app.tasks == {"plain": plain}
    assert repr(plain) == "<task plain>"


def test_a_decorator_with_words_takes_them(app):
    @app.task(
        name="n", policy="converter", queue="q", upstream="u", priority=7, timeout_seconds=2.5,
        isolated=True, memory_mib=64,
    )  # fmt: skip
    async def told(): ...

    assert (told.name, told.policy.name, told.queue, told.upstream) == ("n", "converter", "q", "u")
    assert (told.priority, told.timeout_seconds, told.memory_mib) == (7, 2.5, 64)
    assert told.is_async
    assert told.isolated


def test_a_decorator_with_no_words_is_as_a_bare_one(app):
    @app.task()
    def plain(): ...

    assert plain.name == "plain"


def test_a_task_that_is_called_is_its_function(app):
    @app.task
    def add(a, b=1):
        return a + b

    @app.task
    async def later(a):
        return a

    assert add(1, b=2) == 3
    assert asyncio.run(later(5)) == 5


def test_a_policy_may_be_given_as_such(app):
    mine = Policy(name="mine", max_attempts=9)
    assert app.task(name="t", policy=mine)(print_nothing).policy is mine


def print_nothing(): ...


def test_a_policy_of_the_application_comes_before_a_preset_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine = Policy(name="default", max_attempts=9)
    app = Seawall(policies=[mine])
    assert app.task(name="a")(print_nothing).policy is mine
    assert app.task(name="b", policy="default")(print_nothing).policy is mine


def one_line(error):
    line = str(error.value)
    assert "\n" not in line
    return line


def test_a_name_can_be_declared_once(app):
    app.task(name="t")(print_nothing)
    with pytest.raises(ConfigurationError, match=r"^task t: is declared twice") as refused:
        app.task(name="t")(print_nothing)
    one_line(refused)


def test_an_unknown_policy_is_refused_with_the_tasks_name_and_what_there_is(app):
    with pytest.raises(ConfigurationError, match=r"^task t: ") as refused:
        app.task(name="t", policy="llm-report")(print_nothing)
    assert "llm-reports" in one_line(refused)
    assert "t" not in app.tasks


def generator():
    yield 1


async def async_generator():
    yield 1


@pytest.mark.parametrize("function", [generator, async_generator])
def test_a_generator_is_no_task(app, function):
    with pytest.raises(
        ConfigurationError, match=rf"^task {function.__name__}: is a generator"
    ) as no:
        app.task(function)
    one_line(no)
    assert app.tasks == {}


@pytest.mark.parametrize(("words", "told"), [
    ({"name": " "}, "task"), ({"name": "a\nb"}, "task"), ({"name": "n" * 201}, "task"), ({"queue": ""}, "queue"), ({"queue": 5}, "queue"),
    ({"upstream": "\0"}, "upstream"), ({"upstream": None}, "upstream"), ({"priority": 2**31}, "priority"), ({"priority": "high"}, "priority"),
    ({"priority": 1.5}, "priority"), ({"priority": None}, "priority"),
    ({"timeout_seconds": 0}, "timeout_seconds"), ({"timeout_seconds": -1}, "timeout_seconds"), ({"timeout_seconds": "60"}, "timeout_seconds"),
    ({"timeout_seconds": float("nan")}, "timeout_seconds"), ({"timeout_seconds": float("inf")}, "timeout_seconds"),
    ({"memory_mib": 64}, "memory_mib"), ({"memory_mib": 0, "isolated": True}, "memory_mib"), ({"memory_mib": -5, "isolated": True}, "memory_mib"),
    ({"memory_mib": "64", "isolated": True}, "memory_mib"),
])  # fmt: skip
def test_a_wrong_word_is_refused_with_the_task_and_the_word(app, words, told):
    with pytest.raises(ConfigurationError, match=r"^task ") as refused:
        app.task(**{"name": "t", **words})(print_nothing)
    assert told in one_line(refused)
    assert app.tasks == {}


def test_an_unknown_word_is_refused(app):
    with pytest.raises(TypeError, match="quue"):
        app.task(quue="x")(print_nothing)


@pytest.mark.parametrize("thing", ["reports", 5, None])
def test_what_is_no_function_is_no_task(app, thing):
    with pytest.raises(ConfigurationError):
        app.task(thing)


def test_a_partial_function_may_be_a_task_under_a_name(app, world):
    def add(a: int, b: int) -> int:
        return a + b

    job = app.task(name="add_one")(functools.partial(add, b=1)).enqueue(2)
    world.drain()
    assert job.result() == 3


def test_a_method_may_be_a_task(app, world):
    class Mailer:
        def send(self, to: str) -> str:
            return f"sent to {to}"

    job = app.task(Mailer().send).enqueue("ann")
    world.drain()
    assert job.result() == "sent to ann"


# ── Options ──────────────────────────────────────────────────────────────────────────────────────


def test_what_is_said_about_a_job_is_kept_with_it(ask, world):
    job = ask.using(
        queue="q", priority=5, run_after=TOMORROW, deadline=TOMORROW + timedelta(hours=1), key="k",
        owner="ann", tags=["a", "b"], request_id="req-1",
    ).enqueue("why?")  # fmt: skip
    found = job.job()
    assert (found.queue, found.priority, found.owner, found.key) == ("q", 5, "ann", "k")
    assert (found.due_at, found.deadline_at) == (TOMORROW, TOMORROW + timedelta(hours=1))
    assert set(found.tags) == {"a", "b"}
    assert found.state is State.QUEUED


def test_what_is_not_said_is_as_the_task_says(app, world):
    task = app.task(name="t", queue="q", priority=3, upstream="u")(print_nothing)
    found = task.enqueue().job()
    assert (found.queue, found.priority, found.upstream) == ("q", 3, "u")
    assert found.due_at == world.now
    assert task.using(priority=0).enqueue().job().priority == 0


def test_times_may_be_said_as_spans_from_now(ask, world):
    found = ask.using(run_after=timedelta(minutes=5), deadline=timedelta(hours=1)).enqueue().job()
    assert found.due_at == world.now + timedelta(minutes=5)
    assert found.deadline_at == world.now + timedelta(hours=1)


def test_a_span_is_counted_from_when_the_job_is_asked_for_and_not_from_when_it_was_said(ask, world):
    later = ask.using(run_after=timedelta(minutes=5))
    world.clock.advance(60)
    assert later.enqueue().job().due_at == world.now + timedelta(minutes=5)


def test_a_time_in_another_zone_is_the_same_moment(ask, world):
    there = TOMORROW.astimezone(tz=timedelta_zone(hours=5))
    assert ask.using(run_after=there).enqueue().job().due_at == TOMORROW


def timedelta_zone(**offset):
    from datetime import timezone

    return timezone(timedelta(**offset))


def test_a_time_that_has_passed_is_now(ask, world):
    job = ask.using(run_after=timedelta(days=-1)).enqueue("x")
    world.work()
    assert job.state is State.SUCCEEDED


def test_options_are_added_to_one_another_and_the_last_word_counts(ask, world):
    base = ask.using(owner="ann", priority=1)
    found = base.using(priority=2, tags=("t",)).enqueue().job()
    assert (found.owner, found.priority, found.tags) == ("ann", 2, ("t",))
    assert base.enqueue().job().priority == 1
    assert base.using(owner=None).enqueue().job().owner is None


@pytest.mark.parametrize(("said", "told"), [
    ({"run_after": datetime(2026, 1, 2)}, "run_after needs a time zone"),  # noqa: DTZ001
    ({"deadline": datetime(2026, 1, 2)}, "needs a time zone"),  # noqa: DTZ001
    ({"run_after": 60}, "run_after"), ({"run_after": "tomorrow"}, "run_after"), ({"deadline": 60.0}, "deadline"),
    ({"run_after": timedelta(days=999_999_999)}, "run_after"), ({"deadline": timedelta(days=999_999_999)}, "deadline"),
    ({"tags": "abc"}, "tags"), ({"tags": ["a", "a"]}, "tags"), ({"tags": [""]}, "tags"), ({"tags": [5]}, "tags"),
    ({"tags": [f"t{n}" for n in range(21)]}, "tags"), ({"key": ""}, "key"), ({"key": 5}, "key"), ({"key": "k" * 201}, "key"),
    ({"key": "a\0b"}, "key"), ({"owner": " "}, "owner"), ({"queue": ""}, "queue"), ({"request_id": "a\nb"}, "request_id"),
    ({"priority": 2**31}, "priority"), ({"priority": "high"}, "priority"), ({"priority": 1.5}, "priority"), ({"prio": 5}, "no option 'prio'"),
    ({"upstream": "x"}, "no option 'upstream'"),
])  # fmt: skip
def test_a_wrong_option_is_refused_in_one_line_that_names_the_task_and_the_option(
    ask, world, said, told
):
    with pytest.raises(ArgumentsError, match=r"^ask: ") as refused:
        ask.using(**said).enqueue("x")
    assert told in one_line(refused)
    assert len(app_jobs(world)) == 0


def app_jobs(world):
    return world.app.jobs()


def test_an_unknown_option_is_refused_with_those_there_are(ask):
    with pytest.raises(ArgumentsError) as refused:
        ask.using(delay=5)
    line = one_line(refused)
    assert all(name in line for name in ("run_after", "deadline", "key", "owner", "tags"))


def test_wrong_arguments_are_the_callers_mistake_at_once(ask, world):
    with pytest.raises(ArgumentsError, match=r"^ask: .*unexpected keyword argument 'promt'"):
        ask.enqueue(promt="x")
    with pytest.raises(ArgumentsError, match=r"^ask: prompt: "):
        ask.job(5)
    assert len(app_jobs(world)) == 0


@pytest.mark.parametrize(("size", "fits"), [(50, True), (51, False)])
@pytest.mark.parametrize("letter", ["x", "ü"])
def test_arguments_may_have_so_many_bytes_and_no_more(tmp_path, monkeypatch, size, fits, letter):
    monkeypatch.chdir(tmp_path)
    width = len(letter.encode())
    app = Seawall(payload_bytes=50 * width + len('{"a":""}'))

    @app.task
    def t(a: str): ...

    with in_memory(app):
        if fits:
            assert t.enqueue(letter * size).created
        else:
            with pytest.raises(ArgumentsError, match=r"^t: \d+ bytes of arguments, at most \d+"):
                t.enqueue(letter * size)


def test_a_job_that_is_only_named_asks_nothing_of_the_store(ask, world):
    request = ask.using(key="k").job("x")
    assert request.task is ask
    assert len(app_jobs(world)) == 0
