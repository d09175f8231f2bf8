"""How the HTTP clients are made to raise."""

import asyncio
import urllib.request
from importlib import import_module

import aiohttp
import requests

from tests.clients.limits import no_more_files
from tests.clients.upstream import Answer
from tests.clients.world import Place, Raise, World, patience

CIRCLE = Answer(302, headers={"Location": "/again"})
NO_GZIP = Answer(200, "this is no gzip", {"Content-Encoding": "gzip"})
MORE_THAN_A_SOCKET_HOLDS = b"x" * 20_000_000

# ---------------------------------------------------------------- httpx and httpx2


def by_httpx(package: str, place: Place, *, content: bytes = b"") -> Raise:
    """A POST and `raise_for_status`, with either generation of httpx."""

    def raise_it(world: World) -> None:
        client = import_module(package).Client(timeout=patience(place), follow_redirects=True)
        with client:
            client.post(world.url(place), content=content).raise_for_status()

    return raise_it


def by_httpx_async(package: str, place: Place) -> Raise:
    async def call(url: str) -> None:
        async with import_module(package).AsyncClient(timeout=patience(place)) as client:
            (await client.get(url)).raise_for_status()

    return lambda world: asyncio.run(call(world.url(place)))


def by_httpx_to(package: str, url: str) -> Raise:
    """A URL that the client itself refuses."""

    def raise_it(_: World) -> None:
        with import_module(package).Client() as client:
            client.get(url)

    return raise_it


def by_httpx_with_a_header_of_two_lines(package: str) -> Raise:
    def raise_it(world: World) -> None:
        with import_module(package).Client() as client:
            client.get(world.url(Answer()), headers={"X-Two": "one\ntwo"})

    return raise_it


def by_httpx_without_a_free_file(package: str) -> Raise:
    """A socket is a file as well, and this process may open no more of them."""

    def raise_it(world: World) -> None:
        with import_module(package).Client() as client:
            url = world.url("refusing")
            with no_more_files():
                client.get(url)

    return raise_it


def by_httpx_with_a_full_pool(package: str) -> Raise:
    """One connection is allowed and another request holds it."""

    def raise_it(world: World) -> None:
        httpx = import_module(package)
        url = world.url("stalling_in_the_body")
        limits, timeout = httpx.Limits(max_connections=1), httpx.Timeout(30, pool=0.05)
        with httpx.Client(limits=limits, timeout=timeout) as client, client.stream("GET", url):
            client.get(url)

    return raise_it


def by_httpx_reading_twice(package: str) -> Raise:
    def raise_it(world: World) -> None:
        with import_module(package).stream("GET", world.url(Answer(200, "once"))) as response:
            for _ in (*response.iter_raw(), *response.iter_raw()):
                pass

    return raise_it


# ---------------------------------------------------------------- requests, urllib


def by_requests(place: Place, *, json: bool = False) -> Raise:
    def raise_it(world: World) -> None:
        with requests.Session() as session:
            response = session.get(world.url(place), timeout=patience(place))
            response.raise_for_status()
            response.json() if json else None

    return raise_it


def by_requests_to(url: str) -> Raise:
    def raise_it(_: World) -> None:
        with requests.Session() as session:
            session.get(url, timeout=5)

    return raise_it


def by_requests_without_a_free_file(world: World) -> None:
    with requests.Session() as session:
        url = world.url("refusing")
        with no_more_files():
            session.get(url, timeout=5)


def by_urllib(place: Place) -> Raise:
    def raise_it(world: World) -> None:
        url = world.url(place)
        with urllib.request.urlopen(url, timeout=patience(place)) as response:  # noqa: S310 - loopback
            response.read()

    return raise_it


# ---------------------------------------------------------------- aiohttp


def by_aiohttp(place: Place, *, timeout: str = "total", json: bool = False) -> Raise:
    """A GET, its status, its body; `timeout` names which of aiohttp's timeouts is set."""

    async def call(url: str) -> None:
        limit = aiohttp.ClientTimeout(**{"total": None, timeout: patience(place)})
        async with aiohttp.ClientSession(timeout=limit) as session, session.get(url) as response:
            response.raise_for_status()
            await (response.json() if json else response.read())

    return lambda world: asyncio.run(call(world.url(place)))


def by_aiohttp_to(url: str) -> Raise:
    async def call() -> None:
        async with aiohttp.ClientSession() as session, session.get(url):
            pass

    return lambda _: asyncio.run(call())
