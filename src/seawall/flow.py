"""What flows through a job: what a stage is called with, what it leaves, and where that is kept.

Nothing here knows how a handler is called or what becomes of its faults; `execute` tells that.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from seawall.app import Seawall
from seawall.arguments import Call, problems
from seawall.artifacts import as_inline, keep, recall, reference_in
from seawall.errors import ArgumentsError, ArtifactError, FaultError
from seawall.faults import FaultCode
from seawall.model import LARGEST_TEXT, Lane, need_text
from seawall.store import Claim
from seawall.tasks import Task

QUICK_CHARACTERS = 4_096
"""An output that is no longer needs no thread of its own to be kept."""


class Encoded(NamedTuple):
    """A handler's value that is JSON already."""

    text: str | None
    kept: str | None = None
    """What is written in its place: itself, or where it is kept."""


def call_of(app: Seawall, claim: Claim, before: str | None) -> Call:
    """What the stage is called with, by what the job was asked for and the stage before it left."""
    stages = app.tasks[claim.lane.task].stages
    if claim.lane.stage >= len(stages):
        raise FaultError(
            FaultCode.CONFIG_MISSING,
            f"{claim.lane.task} has {len(stages)} stages here and none of the number"
            f" {claim.lane.stage}: it was begun by other code, which must finish it",
        )
    return arguments(stages[claim.lane.stage], claim.arguments, before)


async def recalled(app: Seawall, task: Task[..., Any, Any], text: str) -> str:
    """The output of the stage before, wherever it was kept."""
    return await _elsewhere(app, task, _recall, text)


async def kept(app: Seawall, task: Task[..., Any, Any], text: str) -> str:
    """What to write of an output: itself, or where it is kept."""
    return await _elsewhere(app, task, _put_away, text)


async def _elsewhere(
    app: Seawall, task: Task[..., Any, Any], do: Callable[[Seawall, str], str], text: str
) -> str:
    """Keep an output, or recall it; off the loop where that may take a while."""
    quick = app.artifacts is None or (len(text) < QUICK_CHARACTERS and reference_in(text) is None)
    if quick or task.isolated or not task.is_async:
        return do(app, text)
    return await asyncio.to_thread(do, app, text)


def _recall(app: Seawall, text: str) -> str:
    return recall(text, app.artifacts)


def _put_away(app: Seawall, text: str) -> str:
    """What to write of an output. Where its keeper is away the store takes it, if it can: what was
    paid for is not thrown away.
    """
    try:
        kept = keep(text, app.artifacts, app.settings.inline_bytes)
    except ArtifactError:
        if len(text) > LARGEST_TEXT:
            raise
        kept = as_inline(text)
    try:
        need_text("output", kept)
    except ValueError as error:
        raise BadResultError(f"its result cannot be kept: {error}") from None
    return kept


def arguments(task: Task[..., Any, Any], text: str, before: str | None = None) -> Call:
    """What the handler is called with; `BadArgumentsError` where it does not take it any more."""
    try:
        return task.call_of(text, before)
    except (ValueError, TypeError) as error:
        what = "its arguments no longer fit the task" if before is None else _NO_FIT
        raise BadArgumentsError(f"{what}: {problems(error)}") from None


_NO_FIT = "what the stage before left is not what this one takes"


class BadArgumentsError(Exception):
    """What was enqueued is not what the function takes now."""


def result(task: Task[..., Any, Any], value: object) -> Encoded:
    """What the handler returned, as it is kept; `BadResultError` where it cannot be."""
    try:
        text = task.signature.write_result(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise BadResultError(f"its result cannot be kept: {problems(error)}") from None
    return Encoded(text)


class BadResultError(Exception):
    """A handler returned what no store can keep."""


def upstream_of(stage: Task[..., Any, Any], arguments: str, before: str | None) -> str:
    """What the next stage will call. Where that cannot be told it says so itself, as its fault:
    what this one has paid for is kept.
    """
    if isinstance(stage.upstream, str):
        return stage.upstream
    try:
        return stage.upstream_for(*stage.call_of(arguments, before))
    except (ValueError, TypeError, ArgumentsError):
        return ""


@lru_cache(maxsize=1_024)
def next_lane(lane: Lane, upstream: str) -> Lane:
    """Where the job is when this stage is done."""
    return replace(lane, stage=lane.stage + 1, upstream=upstream, retry=False)
