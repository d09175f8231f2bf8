"""A model's text becomes JSON, or an INVALID_RESPONSE that keeps the text.

Models wrap their JSON in code fences and stray prose. That alone is no failure: the text is
normalised first and judged after. What then is no JSON, or breaks its schema, raises a
`FaultError` whose `raw_output` is the whole text, for people to review; whether that is retried
is the policy's affair (fatal in `llm-reports`, retried with a back-off in `ai-worker`).
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar, overload

from seawall.errors import FaultError
from seawall.faults import FaultCode

T = TypeVar("T")

MOST_CANDIDATES = 50
_FENCE = re.compile(r"```[a-zA-Z0-9_-]{0,20}[ \t]*\r?\n?(.*?)(?:```|\Z)", re.DOTALL)
_OPENING = re.compile(r"[{\[]")


@overload
def parse_output(text: str) -> Any: ...
@overload
def parse_output(text: str, check: Callable[[Any], T]) -> T: ...
def parse_output(text: str, check: Callable[[Any], Any] | None = None) -> Any:
    """The JSON that the text holds; with `check`, what it makes of it.

    `check` validates and converts, such as a pydantic model's `model_validate`; whatever it
    raises means that the output breaks its schema.
    """
    value = _found(text)
    if check is None:
        return value
    try:
        return check(value)
    except Exception as error:
        raise FaultError(
            FaultCode.INVALID_RESPONSE,
            f"the output breaks its schema: {error}",
            detail="SCHEMA",
            raw_output=text,
        ) from error


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
    text = text.strip().removeprefix("\ufeff").strip()
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
