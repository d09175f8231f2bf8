"""Access tokens: how one is made, and known again."""

import pytest

from seawall import access
from seawall.errors import ArgumentsError
from seawall.redact import without_secrets
from seawall.store import open_store


@pytest.fixture
def store():
    with open_store("sqlite://") as made:
        yield made


def test_a_token_is_random_and_found_by_its_hash(store):
    made = [access.made(store, scope="owner", owner="ann") for _ in range(20)]

    assert len({word for word, _ in made}) == 20
    for word, kept in made:
        assert access.is_token(word)
        assert word.split("_")[1] == kept.id
        assert store.access(digest=access.digest(word)) == kept


def test_a_token_is_a_secret_wherever_it_is_said(store):
    word, _ = access.made(store, scope="operator")
    secret = word.split("_")[2]

    for line in (word, f"found {word} there", f"token={word}", f"Authorization: Bearer {word}"):
        assert secret not in without_secrets(line)


@pytest.mark.parametrize("word", ["", "sw_", "sw_0_1", "sw_000000000000_" + "g" * 64, "x" * 100])
def test_what_is_none_is_not_even_looked_up(word):
    assert not access.is_token(word)


@pytest.mark.parametrize(
    "wrong", [{"scope": "root"}, {"scope": "owner"}, {"scope": "operator", "lasts_seconds": -1}]
)
def test_a_token_that_cannot_be_is_refused_in_a_line(store, wrong):
    with pytest.raises(ArgumentsError):
        access.made(store, **wrong)
