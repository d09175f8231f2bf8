"""Pipelines, in memory: what flows from stage to stage, and what is done again."""

import pytest

from seawall import (
    ConfigurationError,
    FaultError,
    JobFailedError,
    Seawall,
    Skip,
    current_job,
    presets,
    stage,
)
from seawall.testing import in_memory

PATIENT = presets.get("sample-stage")


@pytest.fixture
def app():
    return Seawall("sqlite://")


def outcomes(job):
    return [(each.stage, each.outcome) for each in job.attempts()]


def test_what_a_stage_leaves_is_what_the_next_one_takes(app):
    def fetch(path: str) -> dict[str, int]:
        return {"length": len(path)}

    async def ask(document: dict[str, int]) -> int:
        return document["length"] * 2

    def store(answer: int, item: str) -> str:
        return f"{item}: {answer}"

    reports = app.pipeline("reports", [fetch, ask, store])
    with in_memory(app) as world:
        job = reports.enqueue("a.pdf")
        world.drain()
        assert job.result() == "a.pdf: 10"
        assert outcomes(job) == [(0, "advanced"), (1, "advanced"), (2, "succeeded")]
        assert job.job().lease_no == 1, "nobody went back to the queue between two stages"
        assert app.verify().ok


def test_what_is_done_is_not_done_again_when_a_later_stage_fails(app):
    calls = []

    def fetch(path: str) -> str:
        calls.append("fetch")
        return path

    @stage(policy=PATIENT)
    def ask(document: str) -> str:
        calls.append("ask")
        if calls.count("ask") < 3:
            raise FaultError("TIMEOUT", "no answer")
        return document.upper()

    reports = app.pipeline("reports", [fetch, ask])
    with in_memory(app) as world:
        job = reports.enqueue("a")
        world.drain()
        assert job.result() == "A"
    assert calls == ["fetch", "ask", "ask", "ask"]


def test_each_stage_has_tries_of_its_own_and_is_judged_by_its_own_policy(app):
    @stage(policy=PATIENT)
    def first(path: str) -> str:
        if current_job().attempt < 3:
            raise FaultError("TIMEOUT", "first")
        return path

    @stage(policy=PATIENT)
    def second(path: str) -> str:
        if current_job().attempt < 3:
            raise FaultError("TIMEOUT", "second")
        return path

    @stage(policy="sample-filter")
    def third(path: str) -> str:
        raise FaultError("TIMEOUT", "third")

    reports = app.pipeline("reports", [first, second, third])
    with in_memory(app) as world:
        job = reports.enqueue("a")
        world.drain()
        with pytest.raises(JobFailedError, match="third"):
            job.result()
        assert [s for s, _ in outcomes(job)] == [0, 0, 0, 1, 1, 1, 2]
        assert [a.policy.split("@")[0] for a in job.attempts() if a.policy][-1] == "sample-filter"


def test_a_stage_that_skips_ends_the_item_there(app):
    def fetch(path: str) -> str:
        raise Skip("nothing in it")

    def ask(document: str) -> str:
        raise AssertionError("never asked")

    reports = app.pipeline("reports", [fetch, ask])
    with in_memory(app) as world:
        job = reports.enqueue("a")
        world.drain()
        assert job.state == "skipped"


def test_an_error_that_is_returned_is_as_good_as_raised(app):
    def fetch(path: str) -> object:
        return ValueError("bad")

    reports = app.pipeline("reports", [fetch, lambda document: document])
    with in_memory(app) as world:
        job = reports.enqueue("a")
        world.drain()
        assert job.state == "failed"


def test_a_step_that_keeps_nothing_is_done_again_with_the_stage_after_it(app):
    calls = []

    @stage(checkpoint=False)
    def clean(path: str) -> str:
        calls.append("clean")
        return path.strip()

    @stage(policy=PATIENT)
    async def ask(document: str, item: str) -> list[str]:
        calls.append("ask")
        if current_job().attempt == 1:
            raise FaultError("TIMEOUT", "no answer")
        return [document, item]

    reports = app.pipeline("reports", [clean, ask])
    assert [each.name for each in reports.stages] == ["clean+ask"]
    with in_memory(app) as world:
        job = reports.enqueue(" a ")
        world.drain()
        assert job.result() == ["a", " a "]
    assert calls == ["clean", "ask"] * 2


def test_attempts_say_which_configuration_of_a_stage_they_were_made_with(app):
    @stage(config={"model": "one"})
    def ask(path: str) -> str:
        return path

    @stage(config={"model": "two"})
    def ask_two(path: str) -> str:
        return path

    ask_two.__name__ = "ask"
    one = app.pipeline("one", [ask])
    two = app.pipeline("two", [ask_two])
    three = app.pipeline("three", [ask])
    with in_memory(app) as world:
        jobs = [each.enqueue("a") for each in (one, two, three)]
        world.drain()
        found = [job.attempts()[0].config for job in jobs]
    assert found[0] == found[2] != found[1]
    assert all(found)


def test_what_an_attempt_used_is_kept_also_where_it_failed(app):
    @stage(policy=PATIENT)
    def ask(path: str) -> str:
        current_job().usage(tokens_in=100, tokens_out=10, cost=0.5)
        current_job().usage(tokens_in=1)
        if current_job().attempt == 1:
            raise FaultError("TIMEOUT", "no answer")
        return path

    reports = app.pipeline("reports", [ask])
    with in_memory(app) as world:
        job = reports.using(owner="ann").enqueue("a")
        world.drain()
        assert {seq: tuple(each) for seq, each in app.store.used(job.id).items()} == {
            1: (101, 10, 0.5),
            2: (101, 10, 0.5),
        }
        assert tuple(app.store.used_for("ann")) == (202, 20, 1.0)


def one(path: str) -> str:
    return path


def two(path: str, size: int) -> str:
    return path


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        ([], "a list of stages"),
        ("fetch", "a list of stages"),
        ([one, 7], "a task or a function"),
        ([one, two], "a later stage takes what the one before it left"),
        ([one, one], "two stages are called one"),
        ([stage(checkpoint=False)(lambda x: x)], "the last stage keeps its output"),
        ([stage(checkpoint=False, upstream="api")(lambda x: x), one], "upstream"),
        ([stage(policy="nonsense")(lambda x: x)], "nonsense"),
    ],
)
def test_stages_that_cannot_be_are_refused_in_one_line(app, stages, words):
    with pytest.raises(ConfigurationError, match=words) as refused:
        app.pipeline("reports", stages)
    assert "\n" not in str(refused.value)


def test_item_is_a_table_of_arguments_also_where_one_of_them_was_left_to_its_default(app):
    def fetch(number: int, path: str = "a.pdf") -> int:
        return number

    def store(_: int, item: dict[str, object]) -> dict[str, object]:
        return item

    plain = app.pipeline("plain", [fetch, store])
    joined = app.pipeline("joined", [stage(checkpoint=False)(fetch), store])
    with in_memory(app) as world:
        jobs = [each.enqueue(number=7) for each in (plain, joined)]
        jobs += [each.enqueue(7, "b.pdf") for each in (plain, joined)]
        world.drain()
        assert [job.result() for job in jobs] == [{"number": 7}] * 2 + [
            {"number": 7, "path": "b.pdf"}
        ] * 2


def test_a_stage_behind_one_that_keeps_nothing_still_gets_the_item(app):
    def fetch(path: str) -> str:
        return f"the text of {path}"

    @stage(checkpoint=False)
    def clean(document: str) -> str:
        return document.upper()

    async def ask(document: str, item: str) -> str:
        return f"{item}: {document}"

    reports = app.pipeline("reports", [fetch, clean, ask])
    with in_memory(app) as world:
        job = reports.enqueue("a.pdf")
        world.drain()
        assert job.result() == "a.pdf: THE TEXT OF A.PDF"
