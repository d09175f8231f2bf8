"""Policies as TOML (SPEC A4): equal to their Python twins, and clear about mistakes."""

import dataclasses
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seawall import Backoff, Policy, PolicyError, Rule, load_policies, presets
from seawall.decisions.policy_data import policies_from, policy_from
from tests.unit.test_backoff import backoffs

TOML = """
[policies.mine]
max_attempts = 4
max_elapsed_seconds = 3600
rules = [
    { on = ["RATE_LIMITED", 503, "openai._exceptions.APIError"], counts = false, max_attempts = 9 },
    { on = "transport", backoff = { curve = "schedule", schedule_seconds = [1, 2.5], jitter = "full" } },
]
otherwise = { retry = false }
"""
PYTHON = Policy(
    name="mine",
    max_attempts=4,
    max_elapsed_seconds=3600,
    rules=[
        Rule(on=["RATE_LIMITED", 503, "openai.APIError"], counts=False, max_attempts=9),
        Rule(
            on="transport",
            backoff=Backoff(curve="schedule", schedule_seconds=(1, 2.5), jitter="full"),
        ),
    ],
)


def test_toml_and_python_give_equal_policies():
    mine = policies_from(tomllib.loads(TOML)["policies"], "seawall.toml: policies")["mine"]
    assert mine == PYTHON
    assert mine.version == PYTHON.version


@pytest.mark.parametrize("name", presets.names())
def test_every_preset_survives_the_way_to_a_table_and_back(name):
    policy = dataclasses.replace(presets.get(name), description="", notes="")
    again = policy_from(name, policy.content(), "x")
    assert (again, again.version) == (policy, policy.version)


@given(
    st.lists(
        st.builds(
            Rule,
            on=st.lists(
                st.sampled_from(["TIMEOUT", 429, "5xx", "httpx.ReadTimeout"]),
                min_size=1,
                max_size=3,
            ),
            max_attempts=st.integers(1, 99),
            counts=st.booleans(),
            backoff=backoffs(),
        ),
        max_size=4,
    )
)
def test_any_policy_survives_the_way_to_a_table_and_back(rules):
    policy = Policy(name="p", rules=rules)
    again = policy_from("p", policy.content(), "x")
    assert (again, again.version) == (policy, policy.version)


MISTAKES = [
    ("[policies]\nmine = 3", r"seawall.toml: policies.mine: found 3, expected a table"),
    ("[policies.mine]\nmax_atempts = 3", "seawall.toml: policies.mine.max_atempts: no such key; did you mean max_attempts?"),
    ('[policies.mine]\nmax_attempts = "3"', "seawall.toml: policies.mine.max_attempts: found '3', expected a whole number"),
    ("[policies.mine]\nmax_attempts = true", "seawall.toml: policies.mine.max_attempts: found True, expected a whole number"),
    ("[policies.mine]\nmax_attempts = 0", "seawall.toml: policies.mine.max_attempts: found 0, expected 1 to 1000000"),
    ("[policies.mine]\nmax_elapsed_seconds = nan", "policies.mine.max_elapsed_seconds: found nan, expected a number"),
    ("[policies.mine]\nrules = 1", "policies.mine.rules: found 1, expected a list of tables"),
    ("[policies.mine]\nrules = [{retry = true}]", r"policies.mine.rules\[0\].on: is missing, expected a fault code"),
    ('[policies.mine]\nrules = [{on = "RATE_LIMTED"}]', r"policies.mine.rules\[0\].on: found 'RATE_LIMTED', expected .*did you mean RATE_LIMITED"),
    ("[policies.mine]\nrules = [{on = 999}]", r"policies.mine.rules\[0\].on: found 999, expected a fault code"),
    ("[policies.mine]\nrules = [{on = []}]", r"policies.mine.rules\[0\].on: found 0 entries"),
    ('[policies.mine]\nrules = [{on = "all", counts = 1}]', r"policies.mine.rules\[0\].counts: found 1, expected true or false"),
    ('[policies.mine]\nmax_attempts = 3\nrules = [{on = "all", backoff = {curve = "expo"}}]', r"rules\[0\].backoff.curve: found 'expo', expected one of fixed, linear, exponential"),
    ('[policies.mine]\nrules = [{on = "all", backoff = {curve = "schedule", schedule_seconds = ["1"]}}]', r"backoff.schedule_seconds: found \['1'\], expected a list of numbers"),
    ('[policies.mine]\nrules = [{on = "all", backoff = {curve = "fixed", jitter = "full", jitter_ratio = 0.5}}]', "backoff.jitter_ratio: found 0.5, expected none without jitter"),
    ('[policies.mine]\nrules = [{on = "all"}]', r"policies.mine.rules\[0\] \(all\): would retry for ever"),
    ("[policies.mine]\notherwise = {retry = true}", "policies.mine.otherwise: would retry for ever"),
    ('[policies.mine]\notherwise = {on = "TIMEOUT", retry = true}', "policies.mine.otherwise.on: no such key"),
    ("[policies.mine]\notherwise = {counts = false}", "policies.mine.otherwise.retry: is missing, expected true or false"),
    ("[policies.mine]\nmax_elapsed_seconds = " + "9" * 400, "policies.mine.max_elapsed_seconds: found 9+, expected a number"),
    ('[policies.mine]\nmax_attempts = 3\nrules = [{on = "RATE_LIMITED", counts = false}]', "its failures use up none of the policy's attempts and would retry for ever; give the rule max_attempts, or the policy max_elapsed_seconds"),
    ('[policies."two\\nlines"]\nmax_attempts = 1', "policies.two lines.name: found"),
    ('[policies."two words"]\nmax_attempts = 1', "name: found 'two words'"),
]  # fmt: skip


@pytest.mark.parametrize(("toml", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_a_mistake_says_file_key_what_was_found_and_what_is_allowed(toml, said):
    with pytest.raises(PolicyError, match=said) as caught:
        policies_from(tomllib.loads(toml)["policies"], "seawall.toml: policies")
    assert str(caught.value).startswith("seawall.toml: policies")
    assert "\n" not in str(caught.value)


def test_policies_are_loaded_from_a_file(tmp_path):
    file = tmp_path / "retry.toml"
    file.write_text(TOML)
    assert load_policies(file) == {"mine": PYTHON}
