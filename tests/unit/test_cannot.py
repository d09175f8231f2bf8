"""What a test does where the machine lacks what it takes."""

import pytest

from tests.support.processes import cannot


def test_where_a_server_is_missing_its_tests_skip_loudly(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="NOT TESTED: no wheel"):
        cannot("no wheel")


def test_in_ci_a_missing_server_is_a_failure(monkeypatch):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no wheel"):
        cannot("no wheel")
