"""Dead letters with whole workers: sent again after a fix, told of, pruned, without secrets."""

from collections import Counter

import pytest

from seawall import FaultError, Policy, Rule, Seawall
from seawall.model import Outcome
from seawall.states import State
from seawall.store import LetterFilter, LetterState, Store
from seawall.worker.upkeep import Upkeep
from tests.life import tasks
from tests.life.world import Crew, await_state, enqueued, eventually, jobs

ONCE = Policy(name="once", max_attempts=1, rules=(Rule(on="all"),))
FEW, MANY, OTHERS = 5, 431, 9
OPEN = LetterFilter(state=LetterState.OPEN)


def open_letters(store: Store) -> int:
    return sum(pile.letters for pile in store.count_letters(OPEN))


def failing(url: str, **settings: object) -> tuple[Seawall, Counter, dict[str, bool]]:
    """An application whose task fails until it is mended, and how often each item was worked on."""
    app = Seawall(url, policies=[ONCE], policy="once", lease_seconds=5, **settings)
    calls: Counter = Counter()
    broken = {"now": True}

    @app.task
    def convert(item: int) -> int:
        calls[item] += 1
        if broken["now"]:
            raise FaultError("INVALID_RESPONSE", f"cannot read item {item}")
        return item

    @app.task
    def other(item: int) -> None:
        raise FaultError("NOT_FOUND", f"{item} is gone")

    return app, calls, broken


def test_redrive_after_a_fix_a_group_of_431_canaries_first_then_the_rest(
    url: str, store: Store, hire
):
    app, calls, broken = failing(url)
    convert, other = app.tasks["convert"], app.tasks["other"]
    app.enqueue_many(convert.job(n) for n in range(MANY))
    app.enqueue_many(other.job(n) for n in range(OTHERS))
    hire(app, concurrency=20)
    eventually(lambda: open_letters(store) == MANY + OTHERS)

    groups = app.dead_letter_groups()
    assert [(group.count, group.tasks) for group in groups] == [
        (MANY, ("convert",)), (OTHERS, ("other",)),
    ]  # fmt: skip
    group = groups.groups[0].fingerprint
    plan = app.redrive(group=group, canary=FEW, dry_run=True)
    assert (plan.found, plan.unserved) == (MANY, ())

    too_soon = app.redrive(group=group, canary=FEW)
    assert (too_soon.canary, too_soon.sent, too_soon.held_back) == ("failed", FEW, MANY - FEW)
    eventually(lambda: open_letters(store) == MANY + OTHERS)
    assert app.dead_letter_groups().groups[0].came_back == FEW

    broken["now"] = False
    told = app.redrive(group=group, canary=FEW, rate=500)
    assert (told.canary, told.sent, told.ok) == ("succeeded", MANY, True)
    eventually(lambda: store.counts()[State.SUCCEEDED] == MANY)

    assert open_letters(store) == OTHERS
    assert calls.total() == 2 * MANY + FEW, "each item once more, and the first canaries"
    assert max(calls.values()) <= 3
    done = jobs(store, [handle.id for handle in app.jobs(task="convert", limit=500)])
    assert {job.cycle for job in done} <= {1, 2}
    for job in done[:20]:
        ends = [attempt.outcome for attempt in store.attempts(job.id)]
        assert ends == [*[Outcome.FAILED] * job.cycle, Outcome.SUCCEEDED]
    assert {letter.state for letter in store.letters_of([job.id for job in done]).values()} == {
        LetterState.REDRIVEN
    }
    app.close()


def test_the_fleet_tells_of_new_letters_once_and_of_waiting_ones(url: str, store: Store, says):
    app, _, _ = failing(url, dead_letters_every=3)
    upkeeps = [Upkeep(app, name, store) for name in ("w1", "w2")]
    fail(store, 2)
    for upkeep in upkeeps:
        upkeep.tell_of_new_letters()
    assert says.said("dead_letters_new") == []

    fail(store, 5, message="x" * 300)
    for upkeep in upkeeps:
        upkeep.tell_of_new_letters()
    (told,) = says.said("dead_letters_new")
    assert (told["new"], told["letters"], len(told["newest"])) == (7, 7, 5)
    assert all(len(line) < 150 for line in told["newest"])

    upkeeps[0].tell_of_waiting_letters()
    (told,) = says.said("dead_letters_wait")
    assert (told["letters"], len(told["newest"])) == (7, 5)
    app.dismiss(state="open", note="a test")
    upkeeps[1].tell_of_waiting_letters()
    assert len(says.said("dead_letters_wait")) == 1
    app.close()


def fail(store: Store, many: int, message: str = "no answer") -> list[int]:
    from seawall.faults import Fault
    from tests.support.ledger import claimed, ended, new_job

    claims = claimed(store, *(new_job() for _ in range(many)), limit=many)
    fault = Fault("TIMEOUT", message)
    store.settle([ended(claim.token, Outcome.FAILED, fault=fault) for claim in claims])
    return [claim.token.job_id for claim in claims]


def test_a_worker_says_by_itself_that_letters_wait(url: str, store: Store, hire, says):
    app, _, _ = failing(url, dead_letters_every=2)
    fail(store, 2)
    hire(app)
    assert says.await_("dead_letters_wait")["letters"] == 2
    assert says.await_("dead_letters_new")["new"] == 2
    app.close()


def test_upkeep_prunes_what_was_dismissed_and_keeps_what_is_open(url: str, store: Store):
    app, _, _ = failing(url, keep_finished_seconds=0)
    dismissed, kept = fail(store, 2)
    store.dismiss([dismissed], note="x")
    upkeep = Upkeep(app, "w1", store)
    eventually(lambda: upkeep.prune() or dismissed not in store.jobs([dismissed]))
    assert sorted(store.letters_of([dismissed, kept])) == [kept]
    app.close()


@pytest.mark.parametrize("task", [tasks.captures, tasks.captures_apart], ids=["here", "apart"])
def test_captured_output_goes_through_the_applications_hook(store: Store, crew: Crew, task):
    captured, raised, broke, broke_apart = enqueued(
        store,
        task.job("a s3cr3t word"),
        task.job("a s3cr3t word", True),
        task.job("break the hook s3cr3t"),
        task.job("break the hook s3cr3t", True),
    )
    crew.start()
    await_state(store, State.SUCCEEDED, captured, broke)
    await_state(store, State.FAILED, raised, broke_apart)

    def kept(job_id: int) -> str:
        left = store.evidence(job_id, 1)
        assert left is not None
        return left.raw_output or ""

    assert kept(captured) == "a … word"
    assert kept(raised) == "raised a … word"
    for each in (broke, broke_apart):
        assert kept(each) == "(not kept: the capture hook hide broke: ValueError)"
