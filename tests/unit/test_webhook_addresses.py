"""Where a message may go: what leads inwards is refused, however it is written."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seawall.errors import ArgumentsError, ConfigurationError
from seawall.webhooks.addresses import (
    Allowed,
    Place,
    allowed_by,
    embedded,
    is_inside,
    place_of,
    read,
    shown_url,
)

NOBODY = Allowed()
PLACE = Place("https", "hooks.example.com", 443, "/")
PUBLIC = ["93.184.215.14", "8.8.8.8", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "::ffff:8.8.8.8"]
INSIDE = {
    "loopback": ["127.0.0.1", "127.255.255.254", "::1"],
    "private": ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fd00::1"],
    "link-local": ["169.254.0.1", "fe80::1"],
    "metadata": ["169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16"],
    "shared": ["100.64.0.1", "100.127.255.255"],
    "multicast": ["224.0.0.1", "239.255.255.255", "ff02::1"],
    "reserved": ["240.0.0.1", "255.255.255.255", "192.0.0.8", "198.18.0.1", "::8.8.8.8"],
    "documentation": ["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"],
    "unspecified": ["0.0.0.0", "0.1.2.3", "::"],  # noqa: S104 - nobody listens
    "within IPv6": [
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::127.0.0.1",
        "64:ff9b::10.0.0.1", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::",
    ],
    "site-local": ["fec0::1"],
}  # fmt: skip


def addresses(*texts):
    return [ipaddress.ip_address(text) for text in texts]


@pytest.mark.parametrize("text", PUBLIC)
def test_what_is_public_may_be_called(text):
    assert NOBODY.refusal(PLACE, addresses(text)) is None


@pytest.mark.parametrize("text", [each for kind in INSIDE.values() for each in kind])
def test_what_is_inside_is_refused(text):
    refusal = NOBODY.refusal(PLACE, addresses(text))

    assert refusal is not None
    assert "not public" in refusal


@pytest.mark.parametrize("text", [each for kind in INSIDE.values() for each in kind])
def test_one_bad_address_among_good_ones_is_enough(text):
    assert NOBODY.refusal(PLACE, addresses("8.8.8.8", text, "1.1.1.1")) is not None


@given(st.ip_addresses(v=4))
def test_an_address_is_judged_alike_however_it_is_written(address):
    mapped = ipaddress.ip_address(f"::ffff:{address}")
    translated = ipaddress.ip_address(int(ipaddress.ip_address("64:ff9b::")) + int(address))

    assert embedded(mapped) == embedded(translated) == address
    found = {NOBODY.refusal(PLACE, [each]) is None for each in (address, mapped, translated)}
    assert len(found) == 1


@given(st.ip_addresses())
def test_nothing_passes_that_python_calls_anything_but_global(address):
    inner = embedded(address)
    if not inner.is_global or inner.is_private or inner.is_multicast:
        assert is_inside(inner)


def test_networks_are_allowed_by_the_setting():
    allowed = allowed_by("10.1.0.0/16, 127.0.0.1,fd00::/8")

    assert allowed.refusal(PLACE, addresses("10.1.2.3", "127.0.0.1", "fd12::1")) is None
    assert allowed.refusal(PLACE, addresses("::ffff:10.1.2.3")) is None
    assert allowed.refusal(PLACE, addresses("10.2.0.1")) is not None
    assert allowed.refusal(PLACE, addresses("10.1.0.1", "10.2.0.1")) is not None
    assert allowed.refusal(PLACE, addresses("127.0.0.2")) is not None


def test_hosts_are_allowed_by_their_names_and_no_other():
    allowed = allowed_by("Hooks.Internal")
    inside = addresses("10.0.0.1")

    assert allowed.refusal(Place("http", "hooks.internal", 80, "/"), inside) is None
    assert allowed.refusal(Place("https", "x.hooks.internal", 443, "/"), inside) is not None


def test_without_tls_only_what_is_allowed_is_called():
    plain = Place("http", "hooks.example.com", 80, "/")
    public = addresses("8.8.8.8")

    assert NOBODY.refusal(plain, public) == "hooks.example.com is not called over HTTPS"
    assert allowed_by("8.8.8.0/24").refusal(plain, public) is None
    assert allowed_by("hooks.example.com").refusal(plain, public) is None


@pytest.mark.parametrize("text", ["10.0.0", "300.1.1.1", "a b", "http://x", "10.0.0.0/33", "*"])
def test_what_the_setting_cannot_mean_is_refused(text):
    with pytest.raises(ConfigurationError, match=r"^webhook_allow: found "):
        allowed_by(text)


def test_an_address_is_taken_apart():
    assert place_of("https://Example.com") == Place("https", "example.com", 443, "/")
    assert place_of("http://example.com.:8080/a?b=c") == Place(
        "http", "example.com", 8080, "/a?b=c"
    )
    assert place_of("https://[2001:DB8::1]:444/x") == Place("https", "2001:db8::1", 444, "/x")
    assert place_of("https://[2001:db8::1]:444/x").authority == "[2001:db8::1]:444"
    assert place_of("https://example.com:443/").authority == "example.com"


@pytest.mark.parametrize(
    "url",
    [
        "", "example.com", "ftp://example.com/", "file:///etc/passwd", "https://", "https:///x",
        "https://ann:secret@example.com/", "https://ann@example.com/", "https://example.com/#x",
        "https://example.com:0/", "https://example.com:99999/", "https://example.com:x/",
        "https://exa mple.com/", "https://example.com/a b", "https://example.com/\r\nx: y",
        "https://bücher.example/", "https://[::1%25eth0]/", "https://[::1", "https://-/", "https://a\\b/",
        "https://example.com/" + "x" * 2_000, "https://" + "a" * 300 + "/",
    ],
)  # fmt: skip
def test_what_is_no_address_of_a_webhook_is_refused_in_one_line(url):
    with pytest.raises(ArgumentsError, match=r"^url: ") as refused:
        place_of(url)

    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


@given(st.text(max_size=80))
def test_whatever_is_typed_is_taken_or_refused_in_one_line(text):
    for url in (text, f"https://{text}", f"https://a/{text}"):
        refusal, place = "", PLACE
        try:
            place = place_of(url)
        except ArgumentsError as error:
            refusal = str(error)
        assert "\n" not in refusal
        assert place.host
        assert 1 <= place.port <= 65_535
        assert (place.host + place.target).isascii()


def test_an_address_is_shown_without_what_may_be_secret():
    assert shown_url("https://a.example/x?token=s3cret#y") == "https://a.example/x"
    assert shown_url("https://ann:s3cret@a.example/x") == "https://a.example/x"
    assert shown_url("https://a.example/x") == "https://a.example/x"


def test_what_a_resolver_finds_is_read_once_and_bounded():
    found = read(["8.8.8.8", "8.8.8.8", "fe80::1%eth0", *(f"10.0.0.{n}" for n in range(100))])

    assert found[:2] == addresses("8.8.8.8", "fe80::1")
    assert len(found) == 32
