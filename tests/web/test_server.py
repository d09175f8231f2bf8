"""Where the server listens, whom it believes, and that two of them agree."""

import pytest

from seawall.errors import ConfigurationError
from seawall.web.server import bound, is_loopback, known_proxies
from tests.support.doors import until
from tests.web.served import served


@pytest.mark.parametrize(
    ("host", "is_it"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("192.0.2.1", False),
        ("::", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host, is_it):
    assert is_loopback(host) is is_it


def test_proxies_are_addresses_or_networks():
    assert known_proxies("") == []
    assert known_proxies("10.0.0.7, 10.1.0.0/16,::1") == ["10.0.0.7", "10.1.0.0/16", "::1"]
    for wrong in ("proxy", "10.0.0.0/99", "*"):
        with pytest.raises(ConfigurationError, match=r"^trusted_proxies: "):
            known_proxies(wrong)


def test_an_address_that_is_not_ours_is_refused_in_a_line():
    for host in ("192.0.2.1", "no-such-host.invalid"):
        with pytest.raises(ConfigurationError) as refused:
            bound(host, 8080)
        assert "\n" not in str(refused.value)


FORWARDED = {"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https"}


@pytest.mark.parametrize(("proxies", "believed"), [("127.0.0.0/8", True), ("10.0.0.7", False)])
def test_only_a_proxy_that_was_named_is_believed(proxies, believed):
    with (
        served("sqlite://", trusted_proxies=proxies) as server,
        server.client("nobody") as client,
    ):
        answer = client.get("/health", headers=FORWARDED)
        signed_in = client.post("/login", data={"token": server.words["owner"]}, headers=FORWARDED)

        assert ("strict-transport-security" in answer.headers) is believed
        assert ("Secure" in signed_in.headers["set-cookie"]) is believed
        names = list(server.server._house.rates._accounts)
        assert ("address 203.0.113.9" in names) is believed


def test_a_token_revoked_at_one_server_is_refused_by_the_other(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with served(url) as one, served(url) as other, other.client() as client:
        client.headers["authorization"] = f"Bearer {one.words['owner']}"
        assert client.get("/api/jobs").status_code == 200
        one.app.store.revoke_access(one.words["owner"].split("_")[1])

        until(lambda: client.get("/api/jobs").status_code == 401, "it is refused")
