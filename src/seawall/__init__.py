"""Durable jobs for Python that stand up to failing upstreams.

    from seawall import Seawall

    app = Seawall()

    @app.task(policy="llm-reports", upstream="openai")
    async def summarize(path: str) -> dict: ...

    summarize.enqueue("a.pdf")        # and: seawall worker --app module:app

A name is imported from its home when it is first used, so that `import seawall` costs next to
nothing. The block under TYPE_CHECKING tells type checkers the same; a test holds the two together.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seawall.answers import Answered, Done, Failed, HandedOver
    from seawall.app import Seawall
    from seawall.calls import Call, UpstreamHeld, upstream
    from seawall.configuration import load_policies
    from seawall.current import CurrentJob, current_job
    from seawall.decisions import breaker, budget, presets, retry_after
    from seawall.decisions.backoff import Backoff
    from seawall.decisions.breaker import Breaker
    from seawall.decisions.budget import RetryBudget
    from seawall.decisions.classify import Classifier, classifier, classify
    from seawall.decisions.hidden_retries import hidden_retries
    from seawall.decisions.inline import Inline
    from seawall.decisions.limits import Limits
    from seawall.decisions.output import parse_output
    from seawall.decisions.policy import Fail, Policy, Retry, Verdict
    from seawall.decisions.public import AI_CODES, CONVERTER_CODES, PublicFault, PublicMap
    from seawall.decisions.rule import Rule
    from seawall.decisions.schedule import Schedule
    from seawall.decisions.upstream import Upstream
    from seawall.errors import (
        ArgumentsError,
        ConfigurationError,
        FaultError,
        JobCancelledError,
        JobEndedError,
        JobFailedError,
        JobSkippedError,
        KeyConflictError,
        NoSuchJobError,
        NotFinishedError,
        PolicyError,
        SeawallError,
        SettingError,
        Skip,
        Snooze,
        StoreError,
        StoreUnavailableError,
        StoreVersionError,
        TransitionError,
        UnknownPolicyError,
    )
    from seawall.faults import Fault, FaultCode
    from seawall.finding import Cancelled, Count
    from seawall.hooks import FaultReport
    from seawall.jobs import JobHandle
    from seawall.letters import Dismissed
    from seawall.model import Attempt, Job, Outcome, Usage
    from seawall.pipelines import Pipeline, stage
    from seawall.rates import Rates
    from seawall.redriving import Redriven
    from seawall.runs import Run
    from seawall.standings import RunView, StageView
    from seawall.states import State
    from seawall.store import (
        DeadLetter,
        Evidence,
        LetterGroup,
        LetterGroups,
        LetterPage,
        LetterState,
        Page,
    )
    from seawall.tasks import Task
    from seawall.upstreams import UpstreamView
    from seawall.why import Why
    from seawall.worker.worker import Worker

__version__ = "0.1.0"

_HOMES = {
    "AI_CODES": "decisions.public",
    "Answered": "answers",
    "ArgumentsError": "errors",
    "Attempt": "model",
    "Backoff": "decisions.backoff",
    "Breaker": "decisions.breaker",
    "CONVERTER_CODES": "decisions.public",
    "Call": "calls",
    "Cancelled": "finding",
    "Classifier": "decisions.classify",
    "ConfigurationError": "errors",
    "Count": "finding",
    "CurrentJob": "current",
    "DeadLetter": "store",
    "Dismissed": "letters",
    "Done": "answers",
    "Evidence": "store",
    "Fail": "decisions.policy",
    "Failed": "answers",
    "Fault": "faults",
    "FaultCode": "faults",
    "FaultError": "errors",
    "FaultReport": "hooks",
    "HandedOver": "answers",
    "Inline": "decisions.inline",
    "Job": "model",
    "JobCancelledError": "errors",
    "JobEndedError": "errors",
    "JobFailedError": "errors",
    "JobHandle": "jobs",
    "JobSkippedError": "errors",
    "KeyConflictError": "errors",
    "LetterGroup": "store",
    "LetterGroups": "store",
    "LetterPage": "store",
    "LetterState": "store",
    "Limits": "decisions.limits",
    "NoSuchJobError": "errors",
    "NotFinishedError": "errors",
    "Outcome": "model",
    "Page": "store",
    "Pipeline": "pipelines",
    "Policy": "decisions.policy",
    "PolicyError": "errors",
    "PublicFault": "decisions.public",
    "PublicMap": "decisions.public",
    "Rates": "rates",
    "Redriven": "redriving",
    "Retry": "decisions.policy",
    "RetryBudget": "decisions.budget",
    "Rule": "decisions.rule",
    "Run": "runs",
    "RunView": "standings",
    "Schedule": "decisions.schedule",
    "Seawall": "app",
    "SeawallError": "errors",
    "SettingError": "errors",
    "Skip": "errors",
    "Snooze": "errors",
    "StageView": "standings",
    "State": "states",
    "StoreError": "errors",
    "StoreUnavailableError": "errors",
    "StoreVersionError": "errors",
    "Task": "tasks",
    "TransitionError": "errors",
    "UnknownPolicyError": "errors",
    "Upstream": "decisions.upstream",
    "UpstreamHeld": "calls",
    "UpstreamView": "upstreams",
    "Usage": "model",
    "Verdict": "decisions.policy",
    "Why": "why",
    "Worker": "worker.worker",
    "breaker": "decisions.breaker",
    "budget": "decisions.budget",
    "classifier": "decisions.classify",
    "classify": "decisions.classify",
    "current_job": "current",
    "hidden_retries": "decisions.hidden_retries",
    "load_policies": "configuration",
    "parse_output": "decisions.output",
    "presets": "decisions.presets",
    "retry_after": "decisions.retry_after",
    "stage": "pipelines",
    "upstream": "calls",
}

__all__ = [
    "AI_CODES",
    "CONVERTER_CODES",
    "Answered",
    "ArgumentsError",
    "Attempt",
    "Backoff",
    "Breaker",
    "Call",
    "Cancelled",
    "Classifier",
    "ConfigurationError",
    "Count",
    "CurrentJob",
    "DeadLetter",
    "Dismissed",
    "Done",
    "Evidence",
    "Fail",
    "Failed",
    "Fault",
    "FaultCode",
    "FaultError",
    "FaultReport",
    "HandedOver",
    "Inline",
    "Job",
    "JobCancelledError",
    "JobEndedError",
    "JobFailedError",
    "JobHandle",
    "JobSkippedError",
    "KeyConflictError",
    "LetterGroup",
    "LetterGroups",
    "LetterPage",
    "LetterState",
    "Limits",
    "NoSuchJobError",
    "NotFinishedError",
    "Outcome",
    "Page",
    "Pipeline",
    "Policy",
    "PolicyError",
    "PublicFault",
    "PublicMap",
    "Rates",
    "Redriven",
    "Retry",
    "RetryBudget",
    "Rule",
    "Run",
    "RunView",
    "Schedule",
    "Seawall",
    "SeawallError",
    "SettingError",
    "Skip",
    "Snooze",
    "StageView",
    "State",
    "StoreError",
    "StoreUnavailableError",
    "StoreVersionError",
    "Task",
    "TransitionError",
    "UnknownPolicyError",
    "Upstream",
    "UpstreamHeld",
    "UpstreamView",
    "Usage",
    "Verdict",
    "Why",
    "Worker",
    "__version__",
    "breaker",
    "budget",
    "classifier",
    "classify",
    "current_job",
    "hidden_retries",
    "load_policies",
    "parse_output",
    "presets",
    "retry_after",
    "stage",
    "upstream",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'seawall' has no attribute {name!r}")
    module = import_module(f"seawall.{home}")
    value = getattr(module, name, module)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
