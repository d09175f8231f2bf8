"""A model's text becomes JSON after normalisation (SPEC A3)."""

import json
from contextlib import suppress

import jsonschema
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
    assert parse_output(text, Report) == Report(**REPORT)
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


def test_a_models_thoughts_are_not_its_answer():
    assert parse_output('<think>maybe {"pages": 0, "why": "a long guess"}</think>{"pages": 1}') == {
        "pages": 1
    }


def test_no_text_at_all_is_an_empty_output():
    with pytest.raises(FaultError, match="the output is empty"):
        parse_output(None)


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (Report, "pages: Input should be a valid integer"),
        (
            lambda value: jsonschema.validate(
                value, {"properties": {"pages": {"type": "integer"}}}
            ),
            "$.pages: type",
        ),
        (lambda value: int(value["pages"]), "ValueError"),
    ],
)
def test_the_message_says_where_and_why_and_never_quotes_the_output(check, said):
    with pytest.raises(FaultError) as caught:
        parse_output('{"pages": "sk-live-hunter2-word", "title": "t"}', check)
    assert str(caught.value).startswith(f"the output breaks its schema: {said}")
    assert "hunter2" not in str(caught.value)
