"""What a type checker sees of the public face. Checked by `mypy --strict`, never run."""

import random
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, assert_never, assert_type

from seawall import (
    Answered,
    Attempt,
    Backoff,
    CurrentJob,
    DeadLetter,
    Dismissed,
    Done,
    Fail,
    Failed,
    Fault,
    FaultCode,
    FaultReport,
    HandedOver,
    Job,
    JobHandle,
    LetterGroups,
    LetterPage,
    Page,
    Policy,
    PublicFault,
    Redriven,
    Retry,
    Rule,
    Seawall,
    State,
    Why,
    classifier,
    classify,
    current_job,
    load_policies,
    parse_output,
    presets,
)
from seawall.decisions.hidden_retries import HiddenRetries, hidden_retries
from seawall.testing import World, in_memory


def fetch(path: str, *, pages: int = 1) -> bytes:
    return path.encode() * pages


async def ask(prompt: str) -> list[str]:
    return [prompt]


policy = presets.get("llm-reports")
assert_type(policy, Policy)
assert_type(policy.call(fetch, "a.pdf", pages=2), bytes)
policy.call(fetch, 3)  # type: ignore[arg-type]
policy.call(fetch, "a.pdf", sheets=2)  # type: ignore[call-arg]


async def main() -> None:
    assert_type(await policy.acall(ask, "why?"), list[str])
    await policy.acall(fetch, "a.pdf")  # type: ignore[arg-type]


fault = classify(ValueError())
assert_type(fault, Fault)
assert_type(fault.code, FaultCode)
assert_type(fault.retry_after_seconds, float | None)

verdict = policy.decide(fault, attempt=1, rng=random.Random(1))
assert_type(verdict, Retry | Fail)
match verdict:
    case Retry(delay_seconds, counts):
        assert_type(delay_seconds, float)
        assert_type(counts, bool)
    case Fail(reason):
        _: str = reason

Rule(on=["TIMEOUT", 429, "5xx", TimeoutError, FaultCode.UNKNOWN])
Rule(on=3.5)  # type: ignore[arg-type]
Backoff(curve="exponential", jitter="full")
Backoff(curve="expo")  # type: ignore[arg-type]


@classifier("plexapi.exceptions.NotFound", KeyError)
def scanning(error: BaseException) -> FaultCode:
    return FaultCode.NOT_READY


assert_type(scanning(KeyError()), FaultCode)


class Report:
    @classmethod
    def validate(cls, value: Any) -> "Report":
        return cls()


assert_type(parse_output("{}", Report.validate), Report)
assert_type(load_policies("seawall.toml"), dict[str, Policy])
assert_type(hidden_retries(object()), HiddenRetries | None)
assert_type(PublicFault("A", "b", retryable=True).as_json(), dict[str, object])


# ── Tasks ────────────────────────────────────────────────────────────────────────────────────────

app = Seawall("sqlite:///jobs.db", concurrency=5, policies=[policy])
app.configure(concurrency=3)


@app.task
def pages_of(path: str, *, dpi: int = 300) -> list[bytes]:
    assert_type(current_job(), CurrentJob)
    return [path.encode()] * dpi


@app.task(policy="llm-reports", upstream="openai", queue="reports", timeout_seconds=60)
async def summarize(path: str, length: int = 5) -> dict[str, str]:
    return {path: str(length)}


@app.task()
def clean_up() -> None: ...


# Called, a task is its function.
assert_type(pages_of("a.pdf", dpi=72), list[bytes])
_promise: Coroutine[Any, Any, dict[str, str]] = summarize("a.pdf")
pages_of(5)  # type: ignore[arg-type]

# Asked for, it takes the same arguments, and its handle gives the same result.
job = pages_of.enqueue("a.pdf", dpi=72)
assert_type(job, JobHandle[list[bytes]])
assert_type(job.id, int)
assert_type(job.state, State)
assert_type(job.job(), Job)
assert_type(job.attempts(), list[Attempt])
assert_type(job.result(), list[bytes])
assert_type(job.wait(), list[bytes])
assert_type(job.wait(timeout_seconds=5), list[bytes])
assert_type(job.cancel(), bool)
assert_type(summarize.enqueue("a.pdf", 3).result(), dict[str, str])
assert_type(summarize.enqueue("a.pdf", length=3).wait(1.5), dict[str, str])
pages_of.enqueue(5)  # type: ignore[arg-type]
pages_of.enqueue("a.pdf", 72)  # type: ignore[call-arg]
pages_of.enqueue("a.pdf", dip=72)  # type: ignore[call-arg]
pages_of.enqueue()  # type: ignore[call-arg]
summarize.enqueue("a.pdf", "long")  # type: ignore[arg-type]
clean_up.enqueue(1)  # type: ignore[call-arg]
assert_type(clean_up.enqueue(), JobHandle[None])


async def asking() -> None:
    assert_type(await pages_of.aenqueue("a.pdf"), JobHandle[list[bytes]])
    handle = await summarize.using(key="a.pdf").aenqueue("a.pdf")
    assert_type(handle, JobHandle[dict[str, str]])
    assert_type(await handle.await_(timeout_seconds=5), dict[str, str])
    assert_type(await summarize("a.pdf"), dict[str, str])
    await summarize.aenqueue(5)  # type: ignore[arg-type]
    await summarize.using(owner="ann").aenqueue("a.pdf", "long")  # type: ignore[arg-type]


# Called now, it answers one of three values, each with its job.
answered = pages_of.call_or_enqueue("a.pdf", dpi=72)
assert_type(answered, Done[list[bytes]] | Failed[list[bytes]] | HandedOver[list[bytes]])
match answered:
    case Done(value):
        assert_type(value, list[bytes])
    case Failed(why_not, failed_job):
        assert_type(why_not, Fault)
        assert_type(failed_job, JobHandle[list[bytes]])
    case HandedOver(handed_over):
        assert_type(handed_over.wait(), list[bytes])
    case _:
        assert_never(answered)
pages_of.call_or_enqueue(5)  # type: ignore[arg-type]
summarize.using(inline="ai-sync", inline_seconds=5).call_or_enqueue("a.pdf", "x")  # type: ignore[arg-type]
summarize.using(inline=5)  # type: ignore[arg-type]


async def calling() -> None:
    later = await summarize.using(inline=policy).acall_or_enqueue("a.pdf")
    assert_type(later, Answered[dict[str, str]])
    if isinstance(later, Done):
        assert_type(later.value, dict[str, str])


# Options are checked too.
soon = summarize.using(
    priority=5,
    run_after=timedelta(minutes=5),
    deadline=datetime(2026, 12, 1, tzinfo=UTC),
    key="a.pdf",
    owner="ann",
    tags=["a", "b"],
    request_id="req-1",
    queue="slow",
)
assert_type(soon.enqueue("a.pdf"), JobHandle[dict[str, str]])
assert_type(soon.using(priority=6).enqueue("a.pdf").result(), dict[str, str])
soon.enqueue(5)  # type: ignore[arg-type]
summarize.using(priority="high")  # type: ignore[arg-type]
summarize.using(run_after=60)  # type: ignore[arg-type]
summarize.using(prio=5)  # type: ignore[call-arg]
summarize.using(tags="abc")  # type: ignore[arg-type]
app.task(quue="x")  # type: ignore[call-overload]

# Many.
assert_type(
    app.enqueue_many(summarize.job(path) for path in ["a.pdf"]), list[JobHandle[dict[str, str]]]
)
summarize.job(5)  # type: ignore[arg-type]
app.enqueue_many(["a.pdf"])  # type: ignore[arg-type]
app.schedule(summarize.using(owner="ann").job("a.pdf"), cron="0 3 * * *", timezone="Europe/Berlin")
app.schedule(clean_up.job(), every=timedelta(hours=1), missed="never")  # type: ignore[arg-type]

# People.
assert_type(app.job(5), JobHandle[Any])
assert_type(app.jobs(state="failed", owner="ann", limit=10), Page)
assert_type(app.jobs().next, str | None)
assert_type(app.why(5), Why)
assert_type(app.cancel(5), bool)
assert_type(app.retry(5), bool)
assert_type(app.dead_letters(fault="TIMEOUT", since=datetime.now(UTC), limit=10), LetterPage)
assert_type(app.dead_letter(5), DeadLetter)
assert_type(app.dead_letter(5).fault, Fault)
assert_type(app.dead_letter_groups(task="mail"), LetterGroups)
assert_type(app.redrive(5, 6, dry_run=True), Redriven)
assert_type(app.redrive(group="x", canary=5, rate=10, edit={"path": "b"}), Redriven)
assert_type(app.dismiss(5, note="x"), Dismissed)
app.dead_letters(colour="red")  # type: ignore[call-arg]
app.redrive("5")  # type: ignore[arg-type]
app.redrive(5, canary="x")  # type: ignore[arg-type]
app.dismiss(5)  # type: ignore[call-arg]


@app.on_capture
def hide(text: str) -> str | None:
    return text


app.on_capture(lambda text: 5)  # type: ignore[arg-type,return-value]
for found in app.jobs():
    assert_type(found, Job)


@app.on_failed
def tell_the_owner(report: FaultReport) -> None:
    assert_type(report.owner, str | None)


@app.on_fault
def tell_the_tracker(report: FaultReport) -> None:
    assert_type(report.fault, Fault)
    assert_type(report.final, bool)


def test_of_a_user() -> None:
    with in_memory(app) as world:
        assert_type(world, World)
        assert_type(world.drain(), int)


served_app = Seawall("sqlite://")


@served_app.task(http=True)
def served(path: str, pages: int = 1) -> int:
    return len(path) * pages


@served.retry_when
def source_is_there(path: str, pages: int = 1) -> bool | str:
    return pages > 0 or f"{path} is gone"


assert_type(source_is_there("a"), bool | str)


@served.retry_when  # type: ignore[arg-type]
def takes_something_else(number: float) -> bool:
    return number > 0
