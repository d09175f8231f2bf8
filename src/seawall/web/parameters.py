"""What the paths and queries of routes are made of, the API's and the pages'."""

from typing import Annotated

from fastapi import Depends, Path, Query

from seawall.web.doing.jobs import are_names
from seawall.web.models import LARGEST_NUMBER, MOST_LISTED
from seawall.web.problems import ProblemError

JobId = Annotated[int, Path(ge=1, le=LARGEST_NUMBER)]
After = Annotated[str | None, Query(max_length=500, description="The `next` of the part before.")]
Limit = Annotated[int, Query(ge=1, le=MOST_LISTED)]


def _there(name: Annotated[str, Path(min_length=1, max_length=200)]) -> str:
    if not are_names(name):
        raise ProblemError(404, "there is nothing of that name, nor can there be")
    return name


ItsName = Annotated[str, Depends(_there)]
