"""A model's text becomes JSON, or an INVALID_RESPONSE that keeps the text.

Models wrap their JSON in code fences and stray prose. That alone is no failure: the text is
normalised first and judged after. What then is no JSON, or breaks its schema, raises a
`FaultError` whose `raw_output` is the whole text, for people to review; whether that is retried
is the policy's affair (fatal in `llm-reports`, retried with a back-off in `ai-worker`).
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Protocol, TypeVar, overload

from seawall.errors import FaultError
from seawall.faults import FaultCode

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
ModelT = TypeVar("ModelT", bound="Model[Any]")

MOST_CANDIDATES = 50
MOST_PROBLEMS = 3
_FENCE = re.compile(r"```[a-zA-Z0-9_-]{0,20}[ \t]*\r?\n?(.*?)(?:```|\Z)", re.DOTALL)
_OPENING = re.compile(r"[{\[]")


class Model(Protocol[T_co]):
    """A class that validates, as pydantic's models do."""

    @classmethod
    def model_validate(cls, obj: Any, /) -> T_co: ...


@overload
def parse_output(text: str | None) -> Any: ...
@overload
def parse_output(text: str | None, check: type[ModelT]) -> ModelT: ...
@overload
def parse_output(text: str | None, check: Callable[[Any], T]) -> T: ...
def parse_output(text: str | None, check: Any = None) -> Any:
    """The JSON that the text holds; with `check`, what it makes of it.

    Of several values in the prose the longest is meant. `check` is a pydantic model, or a function
    that validates and converts; whatever it raises means that the output breaks its schema.
    """
    value = _found(text or "")
    if check is None:
        return value
    validate = getattr(check, "model_validate", check)
    try:
        return validate(value)
    except Exception as error:
        raise FaultError(
            FaultCode.INVALID_RESPONSE,
            f"the output breaks its schema: {_without_input(error)}",
            detail="SCHEMA",
            raw_output=text,
        ) from error


def _without_input(error: Exception) -> str:
    """What is wrong, and where, without the output that validators like to quote."""
    errors = getattr(error, "errors", None)
    if callable(errors):  # pydantic
        found = errors(include_input=False, include_url=False, include_context=False)
        return "; ".join(
            f"{'.'.join(map(str, one['loc'])) or 'the whole'}: {one['msg']}"
            for one in found[:MOST_PROBLEMS]
        )
    place, rule = getattr(error, "json_path", None), getattr(error, "validator", None)
    if place and rule:  # jsonschema
        return f"{place}: {rule}"
    return type(error).__name__


def _found(text: str) -> Any:
    for candidate in _candidates(text):
        try:
            return json.loads(candidate, parse_constant=_refuse)
        except (ValueError, RecursionError):
            continue
    raise FaultError(
        FaultCode.INVALID_RESPONSE,
        "the output holds no JSON" if text.strip() else "the output is empty",
        detail="NO_JSON",
        raw_output=text,
    )


def _candidates(text: str) -> Iterator[str]:
    """The texts that may be the JSON meant, the likeliest first."""
    text = text.rpartition("</think>")[2].strip().removeprefix("\ufeff").strip()
    yield text
    fenced = [found[1].strip() for found in _FENCE.finditer(text)]
    yield from fenced[:MOST_CANDIDATES]
    for part in [*fenced[:MOST_CANDIDATES], text]:
        embedded = _longest_value(part)
        if embedded is not None:
            yield embedded


def _longest_value(text: str) -> str | None:
    """The longest JSON object or array that stands somewhere in the prose."""
    decoder = json.JSONDecoder(parse_constant=_refuse)
    best, position = "", 0
    for _ in range(MOST_CANDIDATES):
        opening = _OPENING.search(text, position)
        if opening is None:
            break
        try:
            _, end = decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            position = opening.end()
            continue
        best = max(best, text[opening.start() : end], key=len)
        position = end
    return best or None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
