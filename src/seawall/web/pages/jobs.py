"""Jobs on pages: finding them as one types, one with all that happened to it, retry and cancel."""

from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from seawall.artifacts import recall
from seawall.errors import ArgumentsError
from seawall.faults import FaultCode
from seawall.model import Attempt, Job
from seawall.redact import redacted, without_secrets
from seawall.retrying import refusal
from seawall.states import State
from seawall.store import AccessScope, DeadLetter
from seawall.store.values import MOST_ROWS
from seawall.telemetry import trace_context
from seawall.timeline import Happening, events
from seawall.web.access import Visitor
from seawall.web.house import House, house_of
from seawall.web.pages.life import Life, life_of
from seawall.web.pages.people import Sent, Viewer
from seawall.web.pages.site import page, tried
from seawall.web.pages.wording import LONGEST_JSON
from seawall.web.problems import ProblemError
from seawall.web.routes import jobs as api
from seawall.web.routes.jobs import JobId, are_names

router = APIRouter(include_in_schema=False)

ON_A_PAGE = 50
MOST_ATTEMPTS = 200
MOST_CAPTURED = 5
MOST_CHILDREN = 20
FILTERS = ("state", "task", "queue", "owner", "fault", "tag", "argument", "key", "run")


# --- the list -------------------------------------------------------------------------------------


def filters_of(request: Request, visitor: Visitor) -> dict[str, Any]:
    """What is looked for, by the names that forms and addresses use; empty fields say nothing."""
    said: dict[str, Any] = {
        name: request.query_params[name].strip()
        for name in FILTERS
        if request.query_params.get(name, "").strip()
    }
    if visitor.only is not None:
        said["owner"] = visitor.only
    return said


def asked(said: dict[str, Any]) -> dict[str, Any]:
    """The same, as the application takes it; 422 where there can be no such thing."""
    if said.get("state", "queued") not in State.__members__.values():
        raise ProblemError(422, f"state: expected one of {', '.join(State)}")
    if said.get("fault", "UNKNOWN") not in FaultCode.__members__:
        raise ProblemError(422, f"fault: expected one of {', '.join(FaultCode)}")
    if not are_names(*(said.get(name) for name in ("task", "queue", "owner", "tag", "key"))):
        raise ProblemError(422, "what is looked for has signs that no name has")
    found = dict(said)
    if "run" in found:
        if not (found["run"].isdecimal() and len(found["run"]) < 18):
            raise ProblemError(422, "run: expected its number")
        found["run"] = int(found["run"])
    return found


@router.get("/jobs")
async def show_jobs(request: Request, visitor: Viewer) -> Response:
    """Jobs that match what is typed."""
    house = house_of(request)
    said = filters_of(request, visitor)
    after = request.query_params.get("after") or None
    wrong, found = "", None
    try:
        which = asked(said)
        look = partial(house.app.jobs, **which, after=after, limit=ON_A_PAGE)
        key = ("jobs", tuple(sorted(which.items())), after)
        found = await house.glances.ask(key, look)
    except (ProblemError, ArgumentsError) as error:
        wrong = str(error)
    shown = {name: value for name, value in said.items() if visitor.sees_all or name != "owner"}
    more = ""
    if found is not None and found.next is not None:
        more = f"/jobs?{urlencode({**shown, 'after': found.next})}"
    return await page(
        request,
        visitor,
        "jobs.html",
        found=found,
        wrong=wrong,
        looked_for=shown,
        query=urlencode(shown),
        states=list(State),
        codes=list(FaultCode),
        tasks=sorted(house.app.tasks),
        queues=sorted({task.queue for task in house.app.tasks.values()}),
        more=more,
        first=after is None,
    )


# --- one ------------------------------------------------------------------------------------------


class Whole(NamedTuple):
    """All that there is to tell of a job."""

    job: Job
    arguments: Any
    result: Any
    has_result: bool
    attempts: list[Attempt]
    happenings: list[Happening]
    letter: DeadLetter | None
    captured: dict[int, str]
    why: tuple[str, ...]
    may_retry: bool
    no_retry: str
    """Why it cannot be sent again; empty where it can, or nobody would."""
    may_redrive: bool
    """Whether it is an operator's to send again, because it is somebody else's."""
    life: Life
    progress: Any
    stages: list[str]
    trace_id: str
    """Empty where it was asked for outside any trace."""
    trace_url: str
    parent: int | None
    children: list[Job]
    more_children: bool


@router.get("/jobs/{job_id:int}")
async def show_job(request: Request, visitor: Viewer, job_id: JobId) -> Response:
    """One job: what happened to it, and why it is not running."""
    house = house_of(request)
    whole = await house.glances.ask(
        ("job", job_id, visitor.access_id), partial(_whole, house, visitor, job_id)
    )
    return await page(request, visitor, "job.html", **whole._asdict())


def _whole(house: House, visitor: Visitor, job_id: int) -> Whole:
    job = api.seen(house, visitor, job_id)
    store = house.store
    last = store.attempts(job_id, after=max(0, job.seq - MOST_ATTEMPTS), limit=MOST_ROWS)
    letter = store.letters_of([job_id]).get(job_id)
    result, has_result = _result(house, job)
    may_retry, no_retry = _retry(house, visitor, job)
    stages = _stages(house, job)
    context = trace_context.read(store.trace(job_id))
    trace_id = "" if context is None else f"{context.trace_id:032x}"
    children = store.children(job_id, owner=visitor.only, limit=MOST_CHILDREN + 1)
    return Whole(
        job=job,
        arguments=redacted(api.parsed(store.arguments(job_id))),
        result=redacted(result),
        has_result=has_result,
        attempts=last,
        happenings=list(events(job, last, letter)) if job.seq <= MOST_ATTEMPTS else [],
        letter=letter,
        captured=_captured(house, visitor, last),
        why=house.app.why(job_id, only=visitor.only).lines,
        may_retry=may_retry,
        no_retry=no_retry,
        may_redrive=letter is not None
        and visitor.scope is AccessScope.OPERATOR
        and not visitor.owns(job.owner),
        life=life_of(job, last, stages, store.now()),
        progress=store.progress(job_id),
        stages=stages,
        trace_id=trace_id,
        trace_url=house.app.settings.trace_url.replace("{trace_id}", trace_id) if trace_id else "",
        parent=api.parent_of(house, visitor, job),
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


def _result(house: House, job: Job) -> tuple[Any, bool]:
    if job.state not in (State.SUCCEEDED, State.SKIPPED):
        return None, False
    text = house.store.output(job.id, job.stage)
    if text is None:
        return None, False
    if job.state is State.SKIPPED:
        return api.parsed(text), True
    return api.parsed(recall(text, house.app.artifacts)), True


def _captured(house: House, visitor: Visitor, attempts: list[Attempt]) -> dict[int, str]:
    """What upstreams really said to its last attempts, by attempt: for those who see all, and
    without what looks like a secret. Where it broke, the command line tells.
    """
    if not visitor.sees_all:
        return {}
    wrong = [each for each in attempts if each.fault is not None][-MOST_CAPTURED:]
    found = {each.seq: house.store.evidence(each.job_id, each.seq) for each in wrong}
    return {
        seq: without_secrets(left.raw_output[:LONGEST_JSON])
        for seq, left in found.items()
        if left is not None and left.raw_output is not None
    }


def _retry(house: House, visitor: Visitor, job: Job) -> tuple[bool, str]:
    """Whether this visitor can send it again, and why not."""
    if job.state is not State.FAILED:
        return False, ""
    if not visitor.owns(job.owner):
        mine = visitor.scope is AccessScope.OPERATOR
        return False, "" if mine else "it is not yours."
    refused = refusal(house.app, job)
    return refused is None, "" if refused is None else str(refused)


@router.post("/jobs/{job_id:int}/retry")
async def retry(request: Request, form: Sent, job_id: JobId) -> Response:
    """Send a failed job again."""
    return await tried(
        request,
        f"/jobs/{job_id}",
        api.retry_job(request, form.visitor, job_id),
        lambda _: f"Job {job_id} is retried, with a fresh allowance of attempts.",
    )


@router.post("/jobs/{job_id:int}/cancel")
async def cancel(request: Request, form: Sent, job_id: JobId) -> Response:
    """Cancel a queued job, ask a running one to stop."""
    return await tried(
        request,
        f"/jobs/{job_id}",
        api.cancel_job(request, form.visitor, job_id),
        lambda ended: f"Job {job_id} {_ended(ended.state)}.",
    )


def _ended(state: State) -> str:
    return "was cancelled" if state is State.CANCELLED else "was asked to stop"
