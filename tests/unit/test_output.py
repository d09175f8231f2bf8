"""A model's text becomes JSON after normalisation (SPEC A3)."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from seawall import FaultError, classify, parse_output

REPORT = {"pages": 12, "title": "a {b} [c]"}
TEXT = json.dumps(REPORT)


class Report(BaseModel):
    pages: int
    title: str


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"  \n{TEXT}\n ",
        f"\ufeff{TEXT}",
        f"```json\n{TEXT}\n```",
        f"```\n{TEXT}\n```",
        f"```{TEXT}```",
        f"Sure, here it is:\n\n```json\n{TEXT}\n```\nAnything else?",
        f"```json\n{TEXT}",
        f"Here you are: {TEXT} Hope that helps!",
        f"As in [1], the answer is {TEXT}",
        f"```python\nprint('no')\n```\n```json\n{TEXT}\n```",
        f"{{thinking}} {TEXT}",
    ],
)
def test_fences_and_stray_prose_are_no_failure(text):
    assert parse_output(text) == REPORT
    assert parse_output(text, Report.model_validate) == Report(**REPORT)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "I could not find it.",
        TEXT[:-5],
        "{'pages': 12}",
        '{"pages": NaN}',
        "```json\n```",
        "[" * 100_000,
    ],
)
def test_what_is_no_json_is_an_invalid_response_that_keeps_the_text(text):
    with pytest.raises(FaultError) as caught:
        parse_output(text)
    fault = classify(caught.value)
    assert fault.code == "INVALID_RESPONSE"
    assert fault.detail == "NO_JSON"
    assert caught.value.raw_output == text


def test_what_breaks_its_schema_is_an_invalid_response_that_keeps_the_text():
    with pytest.raises(FaultError) as caught:
        parse_output('{"pages": "many"}', Report.model_validate)
    fault = classify(caught.value)
    assert (fault.code, fault.detail) == ("INVALID_RESPONSE", "SCHEMA")
    assert caught.value.raw_output == '{"pages": "many"}'
    assert "\n" not in fault.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_any_json_is_read_from_a_fence(value):
    assert parse_output(f"```json\n{json.dumps(value)}\n```") == value


@given(st.text())
def test_any_text_gives_a_value_or_a_fault_and_nothing_else(text):
    with suppress(FaultError):
        parse_output(text)
