"""The locks hold what pyproject asks for, with hashes and without addresses."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
OPTIONAL = [requirement for extra in EXTRAS.values() for requirement in extra]
ASKED = {
    "requirements.lock": [*PROJECT["project"]["dependencies"], *OPTIONAL],
    "requirements-dev.lock": [
        *PROJECT["project"]["dependencies"], *OPTIONAL, *PROJECT["dependency-groups"]["dev"],
    ],
    "requirements-setup.lock": ["uv"],
}  # fmt: skip


def name_of(requirement):
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


@pytest.mark.parametrize("lock", ASKED)
def test_a_lock_holds_all_that_is_asked_for_at_a_version_that_will_do(lock):
    text = (ROOT / lock).read_text("utf-8")
    pinned = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))
    for requirement in ASKED[lock]:
        found = pinned.get(name_of(requirement))
        assert found, f"{requirement} is not in {lock}: run `make lock`"
        least = re.search(r">=([\d.]+)", requirement)
        if least:
            assert numbers(found) >= numbers(least[1]), f"{requirement}: found {found}"


def numbers(version):
    return [int(part) for part in re.findall(r"\d+", version)]


@pytest.mark.parametrize("lock", ASKED)
def test_a_lock_has_a_hash_for_everything_and_no_address(lock):
    text = (ROOT / lock).read_text("utf-8")
    assert "://" not in text
    entries = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in entry for entry in entries)


def test_the_extras_are_those_that_are_promised():
    assert set(EXTRAS) == {
        "postgres", "server", "http", "otel", "s3", "png", "metrics", "webhooks", "django",
    }  # fmt: skip


def test_the_core_needs_little():
    needed = {name_of(requirement) for requirement in PROJECT["project"]["dependencies"]}
    assert needed == {"apsw", "cronsim", "pydantic", "rich", "typer", "typing-extensions", "tzdata"}


def test_pytest_finds_the_plugin():
    (module,) = PROJECT["project"]["entry-points"]["pytest11"].values()
    assert (ROOT / "src" / Path(*module.split("."))).with_suffix(".py").is_file()
