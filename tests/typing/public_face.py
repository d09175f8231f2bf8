"""What a type checker sees of the public face. Checked by `mypy --strict`, never run."""

import random
from typing import Any, assert_type

from seawall import (
    Backoff,
    Fail,
    Fault,
    FaultCode,
    Policy,
    PublicFault,
    Retry,
    Rule,
    classifier,
    classify,
    load_policies,
    parse_output,
    presets,
)
from seawall.decisions.hidden_retries import HiddenRetries, hidden_retries


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
