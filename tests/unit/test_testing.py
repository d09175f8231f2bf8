"""The testing package itself, and its pytest plugin."""

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

import seawall.testing
from seawall import (
    Backoff,
    FaultError,
    Outcome,
    Policy,
    RetryBudget,
    Rule,
    Seawall,
    SeawallError,
    Snooze,
    State,
    Upstream,
    current_job,
)
from seawall.testing import ManualClock, World, in_memory


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Seawall()


def test_what_the_package_offers_is_there():
    assert all(hasattr(seawall.testing, name) for name in seawall.testing.__all__)
    assert not [name for name in seawall.testing.__all__ if name.lower().startswith("test")]


def test_inside_the_block_the_application_is_in_memory_and_afterwards_as_before(app, tmp_path):
    before = (app.clock, app.rng)
    task = app.task(name="t")(lambda: 5)
    with in_memory(app) as world:
        assert isinstance(world, World)
        assert isinstance(app.clock, ManualClock)
        assert app.store is world.store
        task.enqueue()
    assert (app.clock, app.rng) == before
    assert list(tmp_path.iterdir()) == []
    with in_memory(app) as again:
        assert again.store.counts().get(State.QUEUED, 0) == 0


def test_a_block_that_breaks_gives_the_application_back(app):
    before = app.clock
    with pytest.raises(RuntimeError), in_memory(app):
        raise RuntimeError
    assert app.clock is before


def test_the_clock_stands_until_it_is_moved(app):
    with in_memory(app) as world:
        assert world.now == datetime(2026, 1, 1, tzinfo=UTC) == world.store.now()
        world.advance(60)
        assert world.now == datetime(2026, 1, 1, 0, 1, tzinfo=UTC) == world.store.now()


def test_work_runs_what_is_due_and_drain_waits_for_the_rest(app):
    task = app.task(name="t")(lambda: 5)
    with in_memory(app) as world:
        now = task.enqueue()
        later = task.using(run_after=timedelta(days=30)).enqueue()
        assert world.work() == 1
        assert (now.state, later.state) == (State.SUCCEEDED, State.QUEUED)
        assert world.work() == 0
        assert world.drain() == 1
        assert world.now == datetime(2026, 1, 31, tzinfo=UTC)


def test_more_jobs_than_a_worker_has_slots_are_all_run(app):
    task = app.task(name="t")(lambda n: n)
    with in_memory(app) as world:
        jobs = app.enqueue_many(task.job(n) for n in range(137))
        assert world.drain() == 137
        assert [job.result() for job in jobs] == list(range(137))


def test_what_is_held_stays(app):
    task = app.task(name="t")(lambda: 5)
    with in_memory(app) as world:
        app.pause("default")
        job = task.enqueue()
        later = task.using(run_after=timedelta(hours=1)).enqueue()
        assert world.drain() == 0
        assert (job.state, later.state) == (State.QUEUED, State.QUEUED)


def test_a_held_upstream_keeps_its_jobs_and_no_others(app):
    held = app.task(name="held", upstream="openai")(lambda: 5)
    other = app.task(name="other", upstream="mail")(lambda: 5)
    with in_memory(app) as world:
        app.upstreams.hold("openai", why="maintenance")
        jobs = [held.enqueue(), other.enqueue()]
        assert world.drain() == 1
        assert [job.state for job in jobs] == [State.QUEUED, State.SUCCEEDED]
        app.upstreams.resume("openai")  # it is let go little by little, which nobody waits for here
        assert world.drain() == 1
        assert jobs[0].state is State.SUCCEEDED


def test_a_hold_that_ends_by_itself_ends_when_time_passes(app):
    task = app.task(name="t", upstream="openai")(lambda: 5)
    with in_memory(app) as world:
        app.upstreams.hold("openai", seconds=60)
        task.enqueue()
        assert world.work() == 0
        world.advance(61)
        assert world.work() == 1


def test_limits_let_all_through_more_jobs_than_there_are_slots_as_well(app):
    app.upstream(Upstream("openai", concurrency=1, per_minute={"requests": 1}))
    task = app.task(name="t", upstream="openai")(lambda: 5)
    with in_memory(app) as world:
        app.upstreams.force("openai", "closed")
        for owner in ("ann", "bob"):
            app.enqueue_many(task.using(owner=owner).job() for _ in range(23))
        assert world.drain() == 46


def test_what_fails_at_an_upstream_is_tried_again_without_waiting_for_a_budget(app):
    app.upstream(Upstream("openai", retry_budget=RetryBudget(share=0, floor_per_second=0)))
    soon = Rule(on="all", max_attempts=3, backoff=Backoff(base_seconds=1))

    @app.task(upstream="openai", policy=Policy(name="soon", max_attempts=3, rules=(soon,)))
    def shaky() -> None:
        if current_job().attempt < 3:
            raise ConnectionError

    with in_memory(app) as world:
        job = shaky.enqueue()
        assert world.drain() == 3
        assert job.state is State.SUCCEEDED


def test_a_job_that_is_never_done_is_an_error_that_names_it(app):
    @app.task(name="endless")
    def endless():
        raise Snooze(1)

    with in_memory(app) as world:
        job = endless.enqueue()
        with pytest.raises(SeawallError, match=rf"after 25 attempts: job {job.id} \(endless\)"):
            world.drain(most_attempts=25)


def test_the_bound_of_one_drain_is_not_that_of_the_next(app):
    task = app.task(name="t")(lambda: 5)
    with in_memory(app) as world:
        task.enqueue()
        world.drain(most_attempts=1)
        app.enqueue_many(task.job() for _ in range(3))
        assert world.work() == 3


def test_delays_are_the_same_with_the_same_seed(app):
    policy = Policy(
        name="p", max_attempts=6, rules=(Rule(on="all", backoff=Backoff(jitter="full")),)
    )

    @app.task(policy=policy)
    def t():
        raise TimeoutError

    def delays(seed):
        with in_memory(app, seed=seed) as world:
            job = t.enqueue()
            world.drain()
            return [attempt.delay_seconds for attempt in job.attempts()]

    assert delays(1) == delays(1) != delays(2)


def test_a_deadline_passes_when_time_does(app):
    task = app.task(name="t")(lambda: 5)
    with in_memory(app) as world:
        job = task.using(deadline=timedelta(seconds=5), run_after=timedelta(seconds=10)).enqueue()
        world.advance(6)
        assert job.state is State.FAILED


def test_a_deadline_passes_while_it_drains_too(app):
    task = app.task(name="t")(lambda: 5)
    with in_memory(app) as world:
        job = task.using(deadline=timedelta(seconds=5), run_after=timedelta(seconds=10)).enqueue()
        assert world.drain() == 0
        assert job.state is State.FAILED


def test_schedules_fire_when_time_passes_but_not_while_it_drains(app):
    task = app.task(name="t")(lambda: 5)
    app.schedule(task.job(), every=60)
    with in_memory(app) as world:
        assert world.drain() == 0
        world.advance(1)
        world.advance(120)
        assert world.drain() >= 1


def test_a_settlement_that_the_store_refuses_is_an_error_of_the_test(app):
    child = app.task(name="child")(lambda n: None)

    @app.task
    def parent(n: int):
        child.using(key="k").enqueue(n)

    with in_memory(app) as world:
        parent.enqueue(1)
        parent.enqueue(2)
        with pytest.raises(SeawallError, match=r"^job \d+: "):
            world.drain()


def test_it_works_inside_a_running_loop(app):
    """As in tests that are coroutines themselves."""

    @app.task
    async def t() -> int:
        await asyncio.sleep(0)
        return 5

    async def main():
        with in_memory(app) as world:
            job = await t.aenqueue()
            world.drain()
            return job.result()

    assert asyncio.run(main()) == 5


PLUGIN = "seawall.pytest_plugin"


# ── The plugin ───────────────────────────────────────────────────────────────────────────────────

USERS_TEST = """
from seawall import Seawall
from seawall.testing import *
from seawall.testing import in_memory

app = Seawall()


@app.task(policy="ai-worker")
def double(n: int) -> int:
    if not calls:
        calls.append(n)
        raise TimeoutError
    return 2 * n


calls = []


def test_a_task(seawall_in_memory):
    world = seawall_in_memory(app)
    job = double.enqueue(21)
    world.drain()
    assert [a.outcome for a in job.attempts()] == ["retried", "succeeded"]
    assert job.result() == 42


def test_two_worlds_in_one_test(seawall_in_memory):
    other = Seawall()
    seawall_in_memory(app)
    seawall_in_memory(other)
    assert app.store is not other.store


def test_each_test_has_a_world_of_its_own(seawall_in_memory):
    seawall_in_memory(app)
    assert len(app.jobs()) == 0


def test_as_a_block():
    with in_memory(app) as world:
        double.enqueue(1)
        assert world.drain() == 1
"""


def test_the_plugin_gives_the_fixture_and_nothing_else_is_taken_for_a_test(tmp_path):
    (tmp_path / "test_mine.py").write_text(USERS_TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)],
        capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False,
    )  # fmt: skip
    assert "4 passed" in done.stdout, done.stdout
    assert done.returncode == 0
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".db"] == []


def test_the_plugin_imports_nothing_of_ours_until_it_is_asked():
    code = f"import sys, {PLUGIN}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(done.stdout.split())
    assert not loaded & {"seawall.app", "seawall.store", "apsw", "pydantic", "seawall.worker"}


def test_outcomes_are_the_words_of_the_history(app):
    task = app.task(name="t")(lambda: 5)
    with in_memory(app) as world:
        job = task.enqueue()
        world.drain()
        assert (
            [attempt.outcome for attempt in job.attempts()] == ["succeeded"] == [Outcome.SUCCEEDED]
        )


def test_a_schedule_fires_in_the_very_first_time_that_passes(app):
    @app.task
    def tick() -> None: ...

    app.schedule(tick.job(), every=2)
    with in_memory(app) as world:
        world.advance(10)
        assert world.drain() == 1


def test_progress_is_kept_as_a_worker_keeps_it(app):
    @app.task
    def count() -> None:
        current_job().progress(3, 4, "nearly")

    with in_memory(app) as world:
        job = count.enqueue()
        world.drain()
        kept = job.progress()
        assert (kept.done, kept.total, kept.message) == (3.0, 4.0, "nearly")


def test_what_a_worker_would_log_is_logged(app, caplog):
    @app.task(policy="ai-worker")
    def ask() -> None:
        raise FaultError("TIMEOUT", "no answer in time")

    with in_memory(app) as world:
        ask.using(request_id="r-7").enqueue()
        world.drain()
    said = [each.seawall for each in caplog.records if each.name == "seawall"]
    # Warnings at least, as nobody asked for more; the caller's own id is on each.
    assert [(each["event"], each["request_id"]) for each in said] == [("gave_up", "r-7")]


def test_async_handlers_share_one_loop_as_in_a_worker():
    """So a client that an application keeps, with its connections, can be used again."""
    app, loops = Seawall(), []

    @app.task
    async def note() -> None:
        loops.append(asyncio.get_running_loop())

    with in_memory(app) as world:
        for _ in range(3):
            note.enqueue()
        world.drain()
        note.enqueue()
        world.drain()
        assert len({id(loop) for loop in loops}) == 1
        assert not loops[0].is_closed()
    assert loops[0].is_closed()
