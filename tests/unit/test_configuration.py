"""The configuration file: where it is found, what it adds, what it replaces."""

import pytest

from seawall import ConfigurationError, PolicyError, presets
from seawall.configuration import load

MINE = '[policies.mine]\nmax_attempts = 2\nrules = [{ on = "all" }]\n'


def test_without_a_file_there_are_the_presets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = load(environ={})
    assert tuple(found.policies) == presets.names()
    assert found.policy().name == "default"


def test_the_file_adds_policies_and_may_replace_a_preset(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(MINE + "[policies.default]\nmax_attempts = 1\n")
    found = load(file, environ={})
    assert found.policy("mine").max_attempts == 2
    assert found.policy("default").max_attempts == 1
    assert found.sources["default"] == str(file)
    assert found.sources["converter"] == "preset"


def test_the_files_setting_chooses_the_policy_of_those_that_name_none(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text('policy = "mine"\n' + MINE)
    assert load(file, environ={}).policy().name == "mine"
    assert load(file, environ={"SEAWALL_POLICY": "converter"}).policy().name == "converter"


def test_the_file_is_found_by_argument_then_variable_then_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, attempts in (("seawall.toml", 1), ("variable.toml", 2), ("argument.toml", 3)):
        (tmp_path / name).write_text(f"[policies.mine]\nmax_attempts = {attempts}\n")
    variable = {"SEAWALL_CONFIG": "variable.toml"}
    assert load(environ={}).policy("mine").max_attempts == 1
    assert load(environ=variable).policy("mine").max_attempts == 2
    assert load("argument.toml", environ=variable).policy("mine").max_attempts == 3


def test_a_file_that_is_named_must_be_there(tmp_path):
    with pytest.raises(ConfigurationError, match="no such file"):
        load(tmp_path / "none.toml", environ={})


def test_a_mistake_names_the_file(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text("[policies.mine]\nmax_attempts = 0\n")
    with pytest.raises(PolicyError, match=r"s\.toml: policies\.mine\.max_attempts: found 0"):
        load(file, environ={})
