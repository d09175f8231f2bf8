"""What is said of an upstream: in Python or TOML, equal, and clear about mistakes."""

import math
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seawall import (
    Backoff,
    Breaker,
    ConfigurationError,
    Limits,
    RetryBudget,
    Seawall,
    Upstream,
)
from seawall.decisions.upstream import family
from seawall.decisions.upstream_data import upstream_from, upstreams_from

# ── In Python ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("said", "line"), [
    ({"name": ""}, "name: found '', expected 1 to 200 characters"),
    ({"name": "  "}, "name: found '  ', expected 1 to 200 characters"),
    ({"name": "x" * 201}, "expected 1 to 200 characters"),
    ({"name": "two\nlines"}, "expected printable characters only"),
    ({"name": 3}, "name: found 3, expected text"),
    ({"breaker": None}, "breaker: found None, expected Breaker"),
    ({"breaker": {"probes": 1}}, "breaker: found {'probes': 1}, expected Breaker"),
    ({"retry_budget": 0.1}, "retry_budget: found 0.1, expected RetryBudget or None"),
    ({"each_owner": 5}, "each_owner: found 5, expected Limits or None"),
    ({"quorum": 0}, "quorum: found 0, expected 1 to 1000"),
    ({"quorum": 1_001}, "quorum: found 1001, expected 1 to 1000"),
    ({"quorum": "2"}, "quorum: found '2', expected int"),
    ({"quorum": True}, "quorum: found True, expected int"),
    ({"concurrency": 0}, "concurrency: found 0, expected 1 to"),
    ({"concurrency": 1.5}, "concurrency: found 1.5, expected 1 to"),
    ({"per_minute": 500}, "per_minute: found 500, expected"),
    ({"per_minute": {"tokens": 0}}, "per_minute['tokens']: found 0, expected above 0"),
    ({"per_minute": {"tokens": math.nan}}, "per_minute['tokens']: found nan, expected above 0"),
    ({"per_minute": {"": 5}}, "per_minute: found '', expected 1 to 50 letters"),
    ({"probe": "https://example.com/health"}, "probe: found 'https://example.com/health', expected a function"),
])  # fmt: skip
def test_what_cannot_be_is_refused_with_its_name_what_was_found_and_what_is_allowed(said, line):
    with pytest.raises(ValueError) as caught:
        Upstream(**{"name": "openai", **said})
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_not_said_is_careful():
    usual = Upstream("openai")
    assert (usual.concurrency, usual.per_minute, usual.each_owner) == (None, {}, None)
    assert usual.retry_budget == RetryBudget(share=0.1, floor_per_second=1.0)
    assert (usual.breaker, usual.quorum, usual.probe) == (Breaker(), 2, None)
    assert not usual.limited


@pytest.mark.parametrize("said", [
    {"concurrency": 1}, {"per_minute": {"tokens": 5}}, {"each_owner": Limits(concurrency=1)},
    {"each_owner": Limits(per_minute={"requests": 1})},
])  # fmt: skip
def test_an_upstream_of_which_anything_is_counted_is_limited(said):
    assert Upstream("openai", **said).limited
    assert not Upstream("openai", each_owner=Limits()).limited


def test_nobody_changes_its_limits_afterwards():
    mine = {"tokens": 5}
    made = Upstream("openai", per_minute=mine)
    mine["tokens"] = 9
    assert made.per_minute == {"tokens": 5}
    with pytest.raises(TypeError):
        made.per_minute["tokens"] = 9
    assert made == Upstream("openai", per_minute={"tokens": 5})
    assert len({made, Upstream("openai", per_minute={"tokens": 5})}) == 1


def test_a_key_is_the_same_under_its_own_name():
    openai = Upstream("openai", concurrency=3, breaker=Breaker(probes=2))
    key = openai.keyed("openai:gpt-5")
    assert key == Upstream("openai:gpt-5", concurrency=3, breaker=Breaker(probes=2))
    assert openai.keyed("openai") is openai


@pytest.mark.parametrize(("name", "of"), [
    ("openai", "openai"), ("openai:gpt-5", "openai"), ("a:b:c", "a"), (":b", ""), ("", ""),
])  # fmt: skip
def test_a_key_belongs_to_what_stands_before_its_first_colon(name, of):
    assert family(name) == of


# ── In TOML ──────────────────────────────────────────────────────────────────────────────────────

TOML = """
[upstreams.openai]
concurrency = 20
quorum = 3
per_minute = { requests = 500, tokens = 200_000.5 }
each_owner = { concurrency = 5, per_minute = { requests = 50 } }
retry_budget = { share = 0.2, window_seconds = 30 }

[upstreams.openai.breaker]
consecutive_failures = false
failure_rate = 0.25
window_seconds = 60
minimum_calls = 50
slow_call_seconds = 30
slow_call_rate = 0.9
probes = 2
probe_seconds = 20
successes_to_close = 4
failures_to_reopen = 2
ramp_seconds = 0
open = { curve = "exponential", base_seconds = 10, cap_seconds = 600, jitter = "full" }

[upstreams."openai:gpt-5"]
retry_budget = false
breaker = { failure_rate = false, window_calls = 30 }

[upstreams.mail]
"""
PYTHON = {
    "openai": Upstream(
        "openai",
        concurrency=20,
        quorum=3,
        per_minute={"requests": 500, "tokens": 200_000.5},
        each_owner=Limits(concurrency=5, per_minute={"requests": 50}),
        retry_budget=RetryBudget(share=0.2, floor_per_second=1.0, window_seconds=30),
        breaker=Breaker(
            consecutive_failures=None,
            failure_rate=0.25,
            window_seconds=60,
            minimum_calls=50,
            slow_call_seconds=30,
            slow_call_rate=0.9,
            probes=2,
            probe_seconds=20,
            successes_to_close=4,
            failures_to_reopen=2,
            ramp_seconds=0,
            open=Backoff(curve="exponential", base_seconds=10, cap_seconds=600, jitter="full"),
        ),
    ),
    "openai:gpt-5": Upstream(
        "openai:gpt-5",
        retry_budget=None,
        breaker=Breaker(failure_rate=None, window_calls=30),
    ),
    "mail": Upstream("mail"),
}


def test_toml_and_python_give_equal_upstreams():
    assert upstreams_from(tomllib.loads(TOML)["upstreams"], "x") == PYTHON


MISTAKES = [
    ("upstreams = 3", "upstreams: found 3, expected a table of upstreams"),
    ("[upstreams]\nopenai = 3", "upstreams.openai: found 3, expected a table"),
    ("[upstreams]\nopenai = false", "upstreams.openai: found False, expected a table"),
    ("concurency = 3", "upstreams.openai.concurency: no such key; did you mean concurrency?"),
    ("x = 3", "upstreams.openai.x: no such key; there are: concurrency, per_minute, each_owner, quorum, retry_budget, breaker"),
    ("concurrency = 0", "upstreams.openai.concurrency: found 0, expected 1 to 1000000, whole"),
    ("concurrency = 2.5", "upstreams.openai.concurrency: found 2.5, expected a whole number"),
    ("concurrency = true", "upstreams.openai.concurrency: found True, expected a whole number"),
    ('concurrency = "many"', "upstreams.openai.concurrency: found 'many', expected a whole number"),
    ("quorum = 0", "upstreams.openai.quorum: found 0, expected 1 to 1000"),
    ("per_minute = 500", "upstreams.openai.per_minute: found 500, expected a table"),
    ('per_minute = { tokens = "many" }', "upstreams.openai.per_minute['tokens']: found 'many', expected above 0 to 1e+12"),
    ("per_minute = { tokens = -1 }", "upstreams.openai.per_minute['tokens']: found -1, expected above 0 to 1e+12"),
    ("per_minute = { tokens = inf }", "upstreams.openai.per_minute['tokens']: found inf, expected above 0 to 1e+12"),
    ("each_owner = 5", "upstreams.openai.each_owner: found 5, expected a table"),
    ("each_owner = { concurrency = 0 }", "upstreams.openai.each_owner.concurrency: found 0, expected 1 to 1000000, whole"),
    ("each_owner = { quorum = 1 }", "upstreams.openai.each_owner.quorum: no such key; there are: concurrency, per_minute"),
    ("each_owner = { per_minute = { requests = 0 } }", "upstreams.openai.each_owner.per_minute['requests']: found 0, expected above 0 to 1e+12"),
    ("retry_budget = true", "upstreams.openai.retry_budget: found True, expected a table, or false for none"),
    ("retry_budget = 0.1", "upstreams.openai.retry_budget: found 0.1, expected a table, or false for none"),
    ("retry_budget = { shares = 1 }", "upstreams.openai.retry_budget.shares: no such key; did you mean share?"),
    ("retry_budget = { share = 2 }", "upstreams.openai.retry_budget.share: found 2, expected a number from 0 to 1"),
    ('retry_budget = { window_seconds = "1m" }', "upstreams.openai.retry_budget.window_seconds: found '1m', expected a number"),
    ("breaker = false", "upstreams.openai.breaker: found False, expected a table"),
    ("breaker = { probs = 1 }", "upstreams.openai.breaker.probs: no such key; did you mean probes?"),
    ("breaker = { probes = 0 }", "upstreams.openai.breaker.probes: found 0, expected 1 to 1000"),
    ("breaker = { probes = false }", "upstreams.openai.breaker.probes: found False, expected a whole number"),
    ("breaker = { failure_rate = true }", "upstreams.openai.breaker.failure_rate: found True, expected a number, or false for never"),
    ("breaker = { window_calls = 3 }", "upstreams.openai.breaker.minimum_calls: found 20, more than the 3 of window_calls: no rate would ever be judged"),
    ("breaker = { open = 5 }", "upstreams.openai.breaker.open: found 5, expected a table"),
    ("breaker = { open = { base_second = 5 } }", "upstreams.openai.breaker.open.base_second: no such key; did you mean base_seconds?"),
    ('breaker = { open = { curve = "expo" } }', "upstreams.openai.breaker.open.curve: found 'expo', expected one of fixed, linear, exponential, decorrelated, schedule"),
    ('breaker = { open = { curve = "decorrelated" } }', "expected a Backoff whose curve grows by itself"),
    ('probe = "https://x"', "upstreams.openai.probe: found one, expected none: a function is given in code, as Upstream(…, probe=…)"),
    ('[upstreams."two\\nlines"]', "upstreams.two lines.name: found 'two\\nlines', expected printable characters only"),
    ('[upstreams.""]', "upstreams..name: found '', expected 1 to 200 characters"),
]  # fmt: skip


@pytest.mark.parametrize(("toml", "said"), MISTAKES, ids=[toml for toml, _ in MISTAKES])
def test_a_mistake_says_file_key_what_was_found_and_what_is_allowed(toml, said):
    text = toml if "upstreams" in toml else f"[upstreams.openai]\n{toml}"
    with pytest.raises(ConfigurationError) as caught:
        upstreams_from(tomllib.loads(text)["upstreams"], "seawall.toml: upstreams")
    line = str(caught.value)
    assert line.startswith("seawall.toml: upstreams")
    assert said in line
    assert "\n" not in line


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
KEYS = st.sampled_from([
    "concurrency", "per_minute", "each_owner", "quorum", "retry_budget", "breaker", "open", "probes", "share",
    "requests", "tokens", "curve", "base_seconds", "window_calls", "failure_rate", "probe", "",
])  # fmt: skip
DATA = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(DATA | st.dictionaries(KEYS, DATA, max_size=4))
def test_any_data_is_an_upstream_or_one_line_that_says_why_not(data):
    line = ""
    try:
        assert isinstance(upstream_from("openai", data, "here"), Upstream)
    except ConfigurationError as error:
        line = str(error)
    assert line == "" or line.startswith("here")
    assert "\n" not in line


# ── In an application ────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "seawall.toml"
    path.write_text(TOML)
    return path


def test_an_application_takes_the_files_upstreams_as_declared(file):
    app = Seawall()
    assert app.upstreams.said == PYTHON
    assert app.upstreams.of("openai") == PYTHON["openai"]
    assert app.upstreams.of("openai:gpt-5") == PYTHON["openai:gpt-5"]
    assert app.upstreams.of("openai:other") == PYTHON["openai"].keyed("openai:other")
    assert app.upstreams.of("unheard-of") == Upstream("unheard-of")
    assert app.upstreams.limited == {"openai"}


def test_what_code_declares_replaces_the_files_of_the_same_name_and_no_other(file):
    app = Seawall()
    assert app.upstreams.of("openai").concurrency == 20
    mine = app.upstream(Upstream("openai", concurrency=2))
    assert app.upstreams.of("openai") == mine
    assert app.upstreams.of("openai:other") == mine.keyed("openai:other")
    assert app.upstreams.of("openai:gpt-5") == PYTHON["openai:gpt-5"], "said of the key itself"
    with pytest.raises(ConfigurationError, match="upstream openai: is declared twice"):
        app.upstream(Upstream("openai"))


def test_settings_that_come_later_leave_what_was_declared(file):
    app = Seawall()
    mine = app.upstream(Upstream("openai", concurrency=2))
    file.write_text("[upstreams.mail]\nconcurrency = 7\n")
    app.configure(concurrency=3)
    assert app.upstreams.said == {"openai": mine, "mail": Upstream("mail", concurrency=7)}
    assert app.upstreams.of("openai:gpt-5") == mine.keyed("openai:gpt-5")


def test_a_mistake_in_the_file_stops_the_application_in_one_line(file):
    file.write_text("[upstreams.openai]\nconcurency = 7\n")
    with pytest.raises(ConfigurationError) as caught:
        Seawall()
    assert str(caught.value) == (
        "seawall.toml: upstreams.openai.concurency: no such key; did you mean concurrency?"
    )


def test_a_table_under_another_name_is_told_the_right_one(file):
    file.write_text("[upstream.openai]\nconcurrency = 7\n")
    with pytest.raises(
        ConfigurationError, match="upstream: no such setting; did you mean upstreams"
    ):
        Seawall()
