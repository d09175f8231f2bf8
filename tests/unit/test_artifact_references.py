"""What stands in the store for an output that is kept elsewhere, and that nothing else looks like it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seawall.artifacts import (
    Address,
    Reference,
    address_of,
    as_inline,
    as_reference,
    inline_in,
    keep,
    recall,
    reference_in,
)
from seawall.decisions.classify import classify
from seawall.errors import ArtifactError

ADDRESSES = st.binary(max_size=20).map(address_of)
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
MARKS = st.sampled_from(["$seawall.artifact", "$seawall.inline", "$seawall.", "sha256", "bytes"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MARKS, inner, max_size=3)
)
REFERENCES = st.builds(as_reference, ADDRESSES, st.integers(0, 2**50))
WRAPPED = REFERENCES.map(as_inline)
TEXTS = (
    st.builds(json.dumps, VALUES)
    | st.builds(lambda value: json.dumps(value, separators=(",", ":")), VALUES)
    | REFERENCES
    | WRAPPED
    | WRAPPED.map(as_inline)
    | st.text(max_size=50)
)


class InMemory(dict):
    """A keeper that is a dictionary."""

    def put(self, data):
        self[address_of(data)] = data
        return address_of(data)

    def get(self, address):
        return self[address]


@given(ADDRESSES, st.integers(0, 2**50))
def test_a_reference_is_json_and_is_read_as_it_was_written(address, size):
    text = as_reference(address, size)
    assert reference_in(text) == Reference(address, size)
    assert json.loads(text) == {"$seawall.artifact": {"sha256": address, "bytes": size}}


@given(TEXTS)
def test_no_output_is_ever_taken_for_a_reference(text):
    assert reference_in(as_inline(text)) is None
    assert inline_in(as_inline(text)) == text


@given(TEXTS)
def test_what_is_kept_inline_is_json_where_the_output_was(text):
    try:
        value = json.loads(text)
    except ValueError:
        return
    kept = json.loads(as_inline(text))
    assert kept in (value, {"$seawall.inline": value})


@given(TEXTS, st.integers(0, 100), st.booleans())
def test_what_was_kept_is_recalled_wherever_it_was_kept(text, inline_bytes, has_artifacts):
    artifacts = InMemory() if has_artifacts else None
    kept = keep(text, artifacts, inline_bytes)
    assert recall(kept, artifacts) == text
    is_large = len(text.encode()) > inline_bytes
    assert (reference_in(kept) is not None) == (has_artifacts and is_large)


def test_a_size_is_measured_in_bytes_and_the_bound_itself_stays_inline():
    artifacts = InMemory()
    assert keep('"äää"', artifacts, 8) == '"äää"'
    assert reference_in(keep('"äää"', artifacts, 7)).size == 8


def test_a_plain_output_is_kept_to_the_letter():
    for text in ("null", "{}", '{"$seawall":1}', '"$seawall.artifact"', ' {"$seawall.artifact":1}'):
        assert as_inline(text) == text


def test_without_artifacts_a_reference_is_a_setting_that_is_missing():
    with pytest.raises(ArtifactError, match="artifacts_url is not set") as raised:
        recall(as_reference(address_of(b"x"), 1), None)
    assert classify(raised.value).code == "CONFIG_MISSING"


@pytest.mark.parametrize(
    "text",
    ["", "x" * 64, "../" * 21 + "a", "A" * 64, "a" * 63, "a" * 65, "a" * 64 + "\n", "٣" * 64],
)
def test_an_address_is_64_hexadecimal_digits_and_nothing_else(text):
    with pytest.raises(ValueError, match=r"expected 64 hexadecimal digits$"):
        Address(text)
    with pytest.raises(ValueError, match=r"expected 64 hexadecimal digits$"):
        as_reference(text, 1)


@pytest.mark.parametrize("text", [
    '{"$seawall.artifact":{"sha256":"' + "a" * 64 + '","bytes":-1}}',
    '{"$seawall.artifact":{"sha256":"' + "a" * 64 + '","bytes":01}}',
    '{"$seawall.artifact":{"sha256":"' + "a" * 64 + '","bytes":1}} ',
    '{"$seawall.artifact":{"sha256":"' + "a" * 63 + '","bytes":1}}',
    '{"$seawall.artifact": {"sha256":"' + "a" * 64 + '","bytes":1}}',
    '{"$seawall.artifact":"' + "a" * 64 + '"}',
])  # fmt: skip
def test_what_is_a_reference_only_nearly_is_none(text):
    assert reference_in(text) is None
