"""Jobs on pages: finding them as one types."""

from functools import partial
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from seawall.errors import ArgumentsError
from seawall.faults import FaultCode
from seawall.web.doing.jobs import in_a_list
from seawall.web.house import house_of
from seawall.web.pages import filters
from seawall.web.pages.people import Viewer
from seawall.web.pages.site import looked_at, page
from seawall.web.problems import ProblemError

router = APIRouter(include_in_schema=False)

ON_A_PAGE = 50


@router.get("/jobs")
async def show_jobs(request: Request, visitor: Viewer) -> Response:
    """Jobs that match what is typed."""
    house, query = house_of(request), request.query_params
    said = filters.said_in(query, filters.OF_JOBS)
    after = query.get("after") or None
    wrong, found = "", None
    try:
        which = filters.meant(visitor, said)
        look = partial(in_a_list, house.app.jobs, **which, after=after, limit=ON_A_PAGE)
        key = ("jobs", tuple(sorted(which.items())), after)
        found = await looked_at(request, visitor, key, look)
    except (ProblemError, ArgumentsError) as error:
        wrong = filters.in_place(error)
    shown = {name: value for name, value in said.items() if visitor.sees_all or name != "owner"}
    more = ""
    if found is not None and found.next is not None:
        more = f"/jobs?{urlencode({**shown, 'after': found.next})}"
    return await page(
        request,
        visitor,
        "jobs.html",
        found=found,
        nothing_can=wrong,
        looked_for=shown,
        query=urlencode(shown),
        states=filters.JOB_STATES,
        codes=list(FaultCode),
        tasks=sorted(house.app.tasks),
        queues=sorted({task.queue for task in house.app.tasks.values()}),
        more=more,
        first=after is None,
    )
