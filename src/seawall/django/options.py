"""What can be said about a Django task beyond Django's own words: how seawall runs it.

    @task(queue_name="reports")
    @runs_with(policy="llm-reports", upstream="openai", timeout_seconds=60)
    def summarize(path): ...

It is said of the function, below `@task`, so the same code works with any backend of Django's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from seawall.decisions.policy import Policy
from seawall.errors import ConfigurationError
from seawall.tasks import UpstreamOf

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__seawall_runs_with__"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsWith:
    """How a task is run. What is None is as the settings say."""

    policy: str | Policy | None = None
    upstream: UpstreamOf = ""
    timeout_seconds: float | None = None
    isolated: bool = False
    memory_mib: int | None = None
    retry_when: Callable[..., bool | str] | None = None


AS_IT_IS = RunsWith()


def runs_with(
    *,
    policy: str | Policy | None = None,
    upstream: UpstreamOf = "",
    timeout_seconds: float | None = None,
    isolated: bool = False,
    memory_mib: int | None = None,
    retry_when: Callable[..., bool | str] | None = None,
) -> Callable[[F], F]:
    """Say how seawall runs the function that `@task` makes a task of.

    `policy` judges its faults; `upstream` is what it calls, or a function that tells it from the
    task's arguments; an attempt that takes longer than `timeout_seconds` ends as TIMEOUT; isolated,
    it runs in a process of its own, with at most `memory_mib`; `retry_when` is asked, with the
    arguments, before a person sends a failed job again.
    """
    said = RunsWith(
        policy=policy,
        upstream=upstream,
        timeout_seconds=timeout_seconds,
        isolated=isolated,
        memory_mib=memory_mib,
        retry_when=retry_when,
    )

    def mark(function: F) -> F:
        if not hasattr(function, "__code__"):
            raise ConfigurationError("runs_with: expected a function: put it below @task")
        setattr(function, _MARK, said)
        return function

    return mark


def said_of(function: Callable[..., Any]) -> RunsWith:
    """What was said about the function."""
    found = getattr(function, _MARK, AS_IT_IS)
    return found if isinstance(found, RunsWith) else AS_IT_IS
