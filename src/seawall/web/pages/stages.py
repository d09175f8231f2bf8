"""Stages by their names: the store knows their numbers, people do not."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seawall.tasks import Task

Tasks = Mapping[str, Task[..., Any, Any]]


def stage_name(tasks: Tasks, task: str, stage: int) -> str:
    """What a stage of a task is called; empty where the task has but one.

    Of a task that is not known here, it is told which one it is, counted as people count.
    """
    known = tasks.get(task)
    names = [] if known is None else [each.name for each in known.stages]
    if stage < len(names):
        return names[stage] if len(names) > 1 else ""
    return f"number {stage + 1}" if stage else ""


def stage_names(tasks: Tasks, named: Iterable[str], stages: Iterable[int]) -> list[str]:
    """What these stages, of one of these tasks or another, are called; each name once."""
    there = list(named)
    found = {
        name: None
        for stage in stages
        for name in [next(filter(None, (stage_name(tasks, each, stage) for each in there)), "")]
        if name
    }
    return list(found)


def named_stage(names: Sequence[str], stage: int) -> str:
    """What a stage is called, of these in their order."""
    return names[stage] if stage < len(names) else f"number {stage + 1}"
