"""The context of a trace as text: what comes back is what was kept, and what is none is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seawall import Seawall
from seawall.model import LONGEST_TRACE, Lane, NewJob
from seawall.telemetry.trace_context import LONGEST_STATE, TraceContext, from_headers, read

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


@given(
    st.integers(1, 2**128 - 1),
    st.integers(1, 2**64 - 1),
    st.integers(0, 1),
    st.sampled_from(["", "a=1", "vendor=x,other@sys=y", "a=1, b=2"]),
    st.booleans(),
)
def test_a_context_comes_back_as_it_was_kept(trace_id, span_id, flags, state, apart):
    context = TraceContext(trace_id, span_id, flags, state, apart)
    assert read(context.text) == context
    assert len(context.text) <= LONGEST_TRACE


@pytest.mark.parametrize("parent", [
    "", "00", PARENT.upper(), PARENT[:-1], PARENT + "0", "ff" + PARENT[2:], PARENT + "-more",
    f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", f"zz-{TRACE}-{SPAN}-01", "x" * 10_000,
    f"01-{TRACE}-{SPAN}-01-" + "m" * 1_000, PARENT + "\n00",
])  # fmt: skip
def test_what_is_no_traceparent_is_none(parent):
    assert from_headers(parent) is None


@given(st.text())
def test_no_header_breaks_anything(text):
    found = from_headers(text, text)
    assert found is None or found.state == ""
    read(text)


def test_a_later_version_is_read_as_the_first():
    assert from_headers(f"01-{TRACE}-{SPAN}-03-more").text == PARENT


@pytest.mark.parametrize(
    "state",
    ["a=" + "x" * LONGEST_STATE, "a=ü", "a=1\n", "vendor=sk-live_abcdefghijk", "a=\x00"],
)
def test_a_tracestate_that_is_long_odd_or_secret_is_left_out(state):
    kept = from_headers(PARENT, state)
    assert kept is not None
    assert kept.state in ("", "a=1")
    assert len(kept.text) <= LONGEST_TRACE
    assert "sk-live" not in kept.text


@pytest.mark.parametrize("trace", ["x" * (LONGEST_TRACE + 1), "two\nlines", "a\0b", 5])
def test_a_job_takes_no_trace_that_is_no_short_line(trace):
    with pytest.raises(ValueError, match="trace: "):
        NewJob(lane=Lane(task="t"), arguments="{}", trace=trace)


def test_a_job_in_a_trace_is_otherwise_the_same(tmp_path):
    app = Seawall(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    def greet() -> None: ...

    plain = greet.job().new_job()
    assert plain.is_plain
    in_one = plain.in_trace(PARENT)
    assert (in_one.trace, in_one.arguments, in_one.lane) == (PARENT, plain.arguments, plain.lane)
    assert in_one.is_plain
    assert plain.trace is None
