"""Where a message may go: to public addresses over HTTPS, and to what the setting allows.

A webhook is an address that somebody typed, called from inside a network: so what leads inwards is
refused, whatever name leads there. A name is resolved once, each of its addresses is looked at, and
the call goes to an address that was looked at: a name that leads elsewhere a moment later changes
nothing.
"""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from urllib.parse import urlsplit

from seawall.errors import ArgumentsError, ConfigurationError
from seawall.redact import one_line
from seawall.store.webhook_values import LONGEST_URL

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MOST_ALLOWED = 1_000
LONGEST_SHOWN = 200
MOST_ADDRESSES = 32
"""Of one name."""
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_.])?")
_TARGET = re.compile(r"[!-~]*", re.ASCII)
_PORTS = {"http": 80, "https": 443}
_INSIDE = tuple(
    ipaddress.ip_network(each)
    for each in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
        "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "168.63.129.16/32",  # a cloud's own services, on a public address
        "::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20",
        "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    )
)  # fmt: skip
"""What Python's own judgement of an address has not always known."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a webhook's address leads, in parts."""

    scheme: str
    host: str
    port: int
    target: str
    """Path and query."""

    @property
    def authority(self) -> str:
        """As a Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Allowed:
    """The hosts and networks that may be called although they are inside, and without TLS."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    def refusal(self, place: Place, addresses: Sequence[Address]) -> str | None:
        """Why a message must not go there; None where it may. Each address must be good."""
        if place.host in self.hosts:
            return None
        for each in addresses:
            address = embedded(each)
            if any(address in network for network in self.networks):
                continue
            if is_inside(address):
                return f"{place.host} leads to {each}, which is not public"
            if place.scheme != "https":
                return f"{place.host} is not called over HTTPS"
        return None


def allowed_by(text: str) -> Allowed:
    """What the setting `webhook_allow` says."""
    hosts: set[str] = set()
    networks: list[Network] = []
    entries = [each.strip().lower() for each in text.split(",") if each.strip()]
    if len(entries) > MOST_ALLOWED:
        raise ConfigurationError(f"webhook_allow: expected at most {MOST_ALLOWED:,} entries")
    for each in entries:
        try:
            networks.append(ipaddress.ip_network(each, strict=False))
        except ValueError:
            if not _HOST.fullmatch(each) or re.fullmatch(r"[0-9.]+", each):
                raise ConfigurationError(
                    f"webhook_allow: found {each!r:.80}, expected host names, addresses or"
                    " networks, such as hooks.internal, 127.0.0.1, 10.0.0.0/8"
                ) from None
            hosts.add(each)
    return Allowed(frozenset(hosts), tuple(networks))


def place_of(url: str) -> Place:
    """A webhook's address in parts; `ArgumentsError` where it is none."""
    problem = ""
    if not 1 <= len(url) <= LONGEST_URL:
        raise ArgumentsError(f"url: expected an address of at most {LONGEST_URL:,} characters")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise ArgumentsError(f"url: found {shown_url(url)}, expected https://HOST/PATH") from None
    if parts.scheme not in _PORTS or not _TARGET.fullmatch(url):
        problem = "expected https://HOST/PATH, in plain ASCII"
    elif "@" in parts.netloc:
        problem = "expected no user or password in it: messages are signed instead"
    elif "#" in url:
        problem = "expected nothing after a #"
    elif port == 0 or not (_HOST.fullmatch(host) or _is_address(host)):
        problem = "expected the name or the address of a host, and a port from 1 to 65535"
    if problem:
        raise ArgumentsError(f"url: found {shown_url(url)}, {problem}")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Place(parts.scheme, host, port or _PORTS[parts.scheme], target)


def shown_url(url: str) -> str:
    """An address fit to be shown: neither user nor query, which are often secrets."""
    head = url.partition("#")[0].partition("?")[0]
    scheme, mark, rest = head.partition("://")
    authority, slash, path = rest.partition("/")
    kept = f"{scheme}{mark}{authority.rpartition('@')[2]}{slash}{path}"
    return one_line(kept, longest=LONGEST_SHOWN)


def is_inside(address: Address) -> bool:
    """Whether it leads to this machine, its network, or nowhere at all."""
    judged = (
        address.is_private, address.is_loopback, address.is_link_local, address.is_multicast,
        address.is_reserved, address.is_unspecified, not address.is_global,
    )  # fmt: skip
    return any(judged) or any(address in network for network in _INSIDE)


def embedded(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, if it does."""
    if isinstance(address, IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and address.teredo is not None:
        inner = address.teredo[1]
    if inner is None and address in _NAT64:
        inner = IPv4Address(int(address) & 0xFFFFFFFF)
    return inner or address


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host


def read(found: Sequence[object]) -> list[Address]:
    """The addresses that a resolver found, each once."""
    texts = dict.fromkeys(str(each).partition("%")[0] for each in found)
    return [ipaddress.ip_address(text) for text in list(texts)[:MOST_ADDRESSES]]
