"""Durable jobs for Python that stand up to failing upstreams.

The deciding part is useful alone, without a queue:

    from seawall import classify, presets

    fault = classify(error)
    verdict = presets.get("llm-reports").decide(fault, attempt=1, rng=rng)

A name is imported from its home when it is first used, so that `import seawall` costs next to
nothing. The block under TYPE_CHECKING tells type checkers the same; a test holds the two together.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seawall.configuration import load_policies
    from seawall.decisions import breaker, budget, presets, retry_after
    from seawall.decisions.backoff import Backoff
    from seawall.decisions.breaker import Breaker
    from seawall.decisions.budget import RetryBudget
    from seawall.decisions.classify import Classifier, classifier, classify
    from seawall.decisions.hidden_retries import hidden_retries
    from seawall.decisions.inline import Inline
    from seawall.decisions.output import parse_output
    from seawall.decisions.policy import Fail, Policy, Retry, Verdict
    from seawall.decisions.public import AI_CODES, CONVERTER_CODES, PublicFault, PublicMap
    from seawall.decisions.rule import Rule
    from seawall.errors import (
        ConfigurationError,
        FaultError,
        PolicyError,
        SeawallError,
        SettingError,
        TransitionError,
        UnknownPolicyError,
    )
    from seawall.faults import Fault, FaultCode

__version__ = "0.1.0"

_HOMES = {
    "AI_CODES": "decisions.public",
    "Backoff": "decisions.backoff",
    "Breaker": "decisions.breaker",
    "CONVERTER_CODES": "decisions.public",
    "Classifier": "decisions.classify",
    "ConfigurationError": "errors",
    "Fail": "decisions.policy",
    "Fault": "faults",
    "FaultCode": "faults",
    "FaultError": "errors",
    "Inline": "decisions.inline",
    "Policy": "decisions.policy",
    "PolicyError": "errors",
    "PublicFault": "decisions.public",
    "PublicMap": "decisions.public",
    "Retry": "decisions.policy",
    "RetryBudget": "decisions.budget",
    "Rule": "decisions.rule",
    "SeawallError": "errors",
    "SettingError": "errors",
    "TransitionError": "errors",
    "UnknownPolicyError": "errors",
    "Verdict": "decisions.policy",
    "breaker": "decisions.breaker",
    "budget": "decisions.budget",
    "classifier": "decisions.classify",
    "classify": "decisions.classify",
    "hidden_retries": "decisions.hidden_retries",
    "load_policies": "configuration",
    "parse_output": "decisions.output",
    "presets": "decisions.presets",
    "retry_after": "decisions.retry_after",
}

__all__ = [
    "AI_CODES",
    "CONVERTER_CODES",
    "Backoff",
    "Breaker",
    "Classifier",
    "ConfigurationError",
    "Fail",
    "Fault",
    "FaultCode",
    "FaultError",
    "Inline",
    "Policy",
    "PolicyError",
    "PublicFault",
    "PublicMap",
    "Retry",
    "RetryBudget",
    "Rule",
    "SeawallError",
    "SettingError",
    "TransitionError",
    "UnknownPolicyError",
    "Verdict",
    "__version__",
    "breaker",
    "budget",
    "classifier",
    "classify",
    "hidden_retries",
    "load_policies",
    "parse_output",
    "presets",
    "retry_after",
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
