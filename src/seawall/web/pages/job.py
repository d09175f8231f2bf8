"""One job on a page: all that happened to it, why it is not running, retry and cancel."""

from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response

from seawall.model import Attempt, Job
from seawall.redact import redacted, without_secrets
from seawall.retrying import refusal
from seawall.states import State
from seawall.store import AccessScope, DeadLetter, PhaseSpan
from seawall.store.values import MOST_ROWS
from seawall.telemetry import trace_context
from seawall.timeline import Happening, events
from seawall.web.access import Visitor
from seawall.web.doing import jobs as doing
from seawall.web.house import House, house_of
from seawall.web.pages.life import Known, Life, life_of
from seawall.web.pages.people import Sent, Viewer
from seawall.web.pages.site import looked_at, page, tried
from seawall.web.pages.wording import LONGEST_JSON
from seawall.web.parameters import JobId

router = APIRouter(include_in_schema=False)

MOST_ATTEMPTS = 200
MOST_CAPTURED = 5
MOST_CHILDREN = 20
PHASES_KEPT = timedelta(days=2)


class Whole(NamedTuple):
    """All that there is to tell of a job, to whoever sees as much."""

    job: Job
    arguments: Any
    kept: str | None
    """What the store keeps of what it came to."""
    attempts: list[Attempt]
    happenings: list[Happening]
    letter: DeadLetter | None
    captured: dict[int, str]
    why: tuple[str, ...]
    against: str
    """What speaks against sending it again; empty where nothing does, or it has not failed."""
    life: Life
    progress: Any
    stages: list[str]
    trace_id: str
    """Empty where it was asked for outside any trace."""
    trace_url: str
    parent: int | None
    children: list[Job]
    more_children: bool


class Again(NamedTuple):
    """What this visitor can do about a job that has failed."""

    may_retry: bool
    no_retry: str
    """Why it cannot be retried; empty where it can."""
    may_redrive: bool
    """Whether it is an operator's to send again, whatever speaks against it."""


class Result(NamedTuple):
    """What it came to."""

    has_result: bool
    result: Any = None
    no_result: str = ""
    """Why that is not shown."""


@router.get("/jobs/{job_id:int}")
async def show_job(request: Request, visitor: Viewer, job_id: JobId) -> Response:
    """One job: what happened to it, and why it is not running."""
    house = house_of(request)
    operates = visitor.scope is AccessScope.OPERATOR
    key = ("job", job_id, visitor.only, operates)
    whole = await looked_at(request, visitor, key, partial(_whole, house, visitor, job_id))
    result, again = await _result(house, whole), _again(visitor, whole)
    return await page(
        request, visitor, "job.html", **whole._asdict(), **result._asdict(), **again._asdict()
    )


def _whole(house: House, visitor: Visitor, job_id: int) -> Whole:
    """What is shown hangs on what the visitor sees, not on who that is."""
    job = doing.seen(house, visitor, job_id)
    store = house.store
    last = store.attempts(job_id, after=max(0, job.seq - MOST_ATTEMPTS), limit=MOST_ROWS)
    letter = store.letters_of([job_id]).get(job_id)
    stages = _stages(house, job)
    context = trace_context.read(store.trace(job_id))
    trace_id = "" if context is None else f"{context.trace_id:032x}"
    children = store.children(job_id, owner=visitor.only, limit=MOST_CHILDREN + 1)
    operates = visitor.scope is AccessScope.OPERATOR
    known = Known(stages, letter, _phases(house, job), names_workers=visitor.sees_all)
    refused = refusal(house.app, job) if job.state is State.FAILED else None
    return Whole(
        job=job,
        arguments=redacted(doing.parsed(store.arguments(job_id))),
        kept=_kept(house, job),
        attempts=last,
        happenings=list(events(job, last, letter)) if job.seq <= MOST_ATTEMPTS else [],
        letter=letter,
        captured=_captured(house, visitor, last),
        why=house.app.why(job_id, only=visitor.only, commands=operates).lines,
        against="" if refused is None else str(refused),
        life=life_of(job, last, known, store.now()),
        progress=store.progress(job_id),
        stages=stages,
        trace_id=trace_id,
        trace_url=house.app.settings.trace_url.replace("{trace_id}", trace_id) if trace_id else "",
        parent=doing.parent_of(house, visitor, job),
        children=children[:MOST_CHILDREN],
        more_children=len(children) > MOST_CHILDREN,
    )


def _stages(house: House, job: Job) -> list[str]:
    """The names of its stages, as far as they are known here."""
    task = house.app.tasks.get(job.task)
    kept = None if job.run is None else house.store.run(job.run)
    if kept is not None:
        return list(kept.stages)
    return [] if task is None else [each.name for each in task.stages]


def _phases(house: House, job: Job) -> list[PhaseSpan]:
    """How its upstream's breaker stood during its life, as long as that is kept."""
    if not job.upstream:
        return []
    since = max(job.created_at, house.store.now() - PHASES_KEPT)
    return house.store.upstream_phases(job.upstream, since)


def _captured(house: House, visitor: Visitor, attempts: list[Attempt]) -> dict[int, str]:
    """What upstreams really said to its last attempts, by attempt: for those who see all, and
    without what looks like a secret. Where it broke, the command line tells.
    """
    if not visitor.sees_all:
        return {}
    wrong = [each for each in attempts if each.fault is not None][-MOST_CAPTURED:]
    found = {each.seq: house.store.evidence(each.job_id, each.seq) for each in wrong}
    return {  # sieved before it is cut: half a secret is known to nobody as one
        seq: without_secrets(left.raw_output)[:LONGEST_JSON]
        for seq, left in found.items()
        if left is not None and left.raw_output is not None
    }


def _kept(house: House, job: Job) -> str | None:
    if job.state not in (State.SUCCEEDED, State.SKIPPED):
        return None
    return house.store.output(job.id, job.stage)


async def _result(house: House, whole: Whole) -> Result:
    if whole.kept is None:
        return Result(has_result=False)
    if whole.job.state is State.SKIPPED:
        return Result(has_result=True, result=redacted(doing.parsed(whole.kept)))
    output = await house.outputs.ask(whole.kept)
    if output.text is None:
        return Result(has_result=True, no_result=output.why_not)
    return Result(has_result=True, result=redacted(doing.parsed(output.text)))


def _again(visitor: Visitor, whole: Whole) -> Again:
    """Whether this visitor can send it again, and why not."""
    job = whole.job
    if job.state is not State.FAILED:
        return Again(may_retry=False, no_retry="", may_redrive=False)
    owns, operates = visitor.owns(job.owner), visitor.scope is AccessScope.OPERATOR
    not_mine = "" if owns or operates else "it is not yours."
    return Again(
        may_retry=owns and not whole.against,
        no_retry=not_mine or whole.against,
        may_redrive=operates and whole.letter is not None and (bool(whole.against) or not owns),
    )


# --- what people do about it ----------------------------------------------------------------------


@router.post("/jobs/{job_id:int}/retry")
async def retry(request: Request, form: Sent, job_id: JobId) -> Response:
    """Send a failed job again."""
    house = house_of(request)
    return await tried(
        request,
        f"/jobs/{job_id}",
        house.slow.ask(doing.sent_again, house, form.visitor, job_id),
        lambda _: f"Job {job_id} is retried, with a fresh allowance of attempts.",
    )


@router.post("/jobs/{job_id:int}/cancel")
async def cancel(request: Request, form: Sent, job_id: JobId) -> Response:
    """Cancel a queued job, ask a running one to stop."""
    house = house_of(request)
    return await tried(
        request,
        f"/jobs/{job_id}",
        house.threads.ask(doing.stopped, house, form.visitor, job_id),
        lambda state: f"Job {job_id} {_ended(state)}.",
    )


def _ended(state: State) -> str:
    return "was cancelled" if state is State.CANCELLED else "was asked to stop"
