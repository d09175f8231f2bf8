"""One message to one receiver, over the network.

What is called is the address that was looked at, under the name that was given: the certificate
must be that name's. Redirects are not followed, no proxy of the environment is asked, and what the
receiver answers is not read beyond its status and headers. What goes wrong is told by the host
alone: the rest of an address may be secret.
"""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import seawall
from seawall.decisions.readers import code_of_status
from seawall.decisions.retry_after import hint_seconds
from seawall.errors import FaultError
from seawall.faults import FaultCode
from seawall.webhooks.addresses import Address, Allowed, Place, place_of, read

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 15.0
"""How long a receiver may take, from the first look for its address on."""
MOST_TRIED = 4
"""Addresses of one name that are tried in turn."""
_THROTTLING = frozenset({429, 503})


async def send(
    url: str,
    secrets: Sequence[str],
    *,
    message_id: str,
    body: str,
    now: datetime,
    allowed: Allowed,
) -> int:
    """Send the message; the status with which it was taken. `FaultError` where it was not."""
    place = place_of(url)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            addresses = await resolved(place)
            refusal = allowed.refusal(place, addresses)
            if refusal is not None:
                raise FaultError(
                    FaultCode.INVALID_INPUT, f"refused: {refusal}; see the setting webhook_allow"
                )
            headers = signed(secrets, message_id, body, now)
            status, answered = await _posted(place, addresses, headers, body)
    except TimeoutError:
        words = f"no answer of {place.host} after {ANSWER_SECONDS:g} s"
        raise FaultError(FaultCode.TIMEOUT, words, ambiguous=True) from None
    if not 200 <= status < 300:
        raise _declined(place, status, answered, now)
    return status


def signed(secrets: Sequence[str], message_id: str, body: str, now: datetime) -> dict[str, str]:
    """The headers by which a receiver knows the message: a signature by each secret."""
    from standardwebhooks import Webhook  # noqa: PLC0415 - it is an extra

    signatures = [Webhook(secret).sign(message_id, now, body) for secret in secrets]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


async def resolved(place: Place) -> list[Address]:
    """Every address of the host."""
    try:
        found = await asyncio.to_thread(
            socket.getaddrinfo, place.host, place.port, type=socket.SOCK_STREAM
        )
        return read([address[0] for *_, address in found])
    except (OSError, ValueError):
        words = f"the address of {place.host} cannot be found"
        raise FaultError(FaultCode.UNAVAILABLE, words) from None


async def _posted(
    place: Place, addresses: Sequence[Address], headers: dict[str, str], body: str
) -> tuple[int, Any]:
    """Status and headers of the answer, of the first address that can be reached."""
    import httpx2  # noqa: PLC0415 - it is an extra

    timeout = httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
    # A connection is for one message: one that is kept belongs to an address, not to a name. And no
    # client: it would write the whole address into the log.
    async with httpx2.AsyncHTTPTransport(
        verify=_trust(), trust_env=False, limits=httpx2.Limits(max_keepalive_connections=0)
    ) as transport:
        for at, address in enumerate(addresses[:MOST_TRIED], start=1):
            request = httpx2.Request(
                "POST",
                httpx2.URL(
                    scheme=place.scheme,
                    host=str(address),
                    port=place.port,
                    raw_path=place.target.encode("ascii"),
                ),
                content=body.encode(),
                headers={
                    "host": place.authority,
                    "content-type": "application/json",
                    "user-agent": f"seawall/{seawall.__version__}",
                    **headers,
                },
                extensions={"sni_hostname": place.host, "timeout": timeout.as_dict()},
            )
            try:
                answer = await transport.handle_async_request(request)
            except httpx2.HTTPError as error:
                unreached = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
                if unreached and at < min(len(addresses), MOST_TRIED):
                    continue
                raise _broken(place, error) from None
            await answer.aclose()  # unread: nobody here wants to know more
            return answer.status_code, answer.headers
    raise FaultError(FaultCode.UNAVAILABLE, f"the address of {place.host} cannot be found")


@lru_cache(maxsize=1)
def _trust() -> ssl.SSLContext:
    """Whose certificates are believed: the system's. Made once, because that takes a while."""
    import httpx2  # noqa: PLC0415 - it is an extra

    return httpx2.create_ssl_context()


def _broken(place: Place, error: Exception) -> FaultError:
    """What went wrong before there was an answer, without the client's own words."""
    import httpx2  # noqa: PLC0415 - it is an extra

    if isinstance(error, httpx2.TimeoutException):
        reached = not isinstance(error, httpx2.ConnectTimeout)
        return FaultError(FaultCode.TIMEOUT, f"no answer of {place.host}", ambiguous=reached)
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, ssl.SSLCertVerificationError):
            words = f"the certificate of {place.host} was not accepted"
            return FaultError(FaultCode.UNAVAILABLE, words)
        chain = chain.__cause__ or chain.__context__
    if isinstance(error, httpx2.ConnectError):
        return FaultError(FaultCode.UNAVAILABLE, f"{place.host} cannot be reached")
    words = f"{place.host} broke off before it answered"
    return FaultError(FaultCode.UNAVAILABLE, words, ambiguous=True)


def _declined(place: Place, status: int, headers: object, now: datetime) -> FaultError:
    """What an answer means that is not yes."""
    wait = hint_seconds(headers, throttled=status in _THROTTLING, now=now)
    if status < 400:
        words = f"{place.host} answered {status}: redirects are not followed"
        return FaultError(FaultCode.INVALID_REQUEST, words, status=status)
    return FaultError(
        code_of_status(status),
        f"{place.host} answered {status}",
        status=status,
        retry_after_seconds=wait,
    )
