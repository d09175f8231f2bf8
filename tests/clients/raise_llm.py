"""How the LLM clients are made to raise. Their hidden retries are off, as they must be in a job."""

import asyncio
import warnings
from importlib import import_module
from typing import Any

import anthropic
import httpx2
import openai
import pydantic

from tests.clients.upstream import Answer
from tests.clients.world import Place, Raise, World, patience

with warnings.catch_warnings():
    # Compiled for the first time, it makes Python warn of an escape sequence in one of its texts.
    warnings.simplefilter("ignore")
    from google import genai
    from google.genai import types as google_types

MESSAGES: Any = [{"role": "user", "content": "hello"}]


class Opinion(pydantic.BaseModel):
    """What a job wants the model to fill in."""

    verdict: str


# ---------------------------------------------------------------- openai


def openai_error(status: int, headers: dict[str, str] | None = None, **error: object) -> Answer:
    """OpenAI's error body: `{"error": {"message", "type", "code", "param"}}`."""
    return Answer(status, {"error": {"message": "no", **error}}, headers or {})


def openai_choice(finish_reason: str) -> Answer:
    """A completion that ended for this reason, half-way through its JSON."""
    message = {"role": "assistant", "content": '{"verd'}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    choice = {"index": 0, "finish_reason": finish_reason, "message": message}
    return Answer(
        200,
        {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage},
    )  # fmt: skip


def by_openai(place: Place, *, package: str = "httpx2") -> Raise:
    """A call of openai's client, over either generation of httpx."""

    def raise_it(world: World) -> None:
        http = import_module(package).Client(timeout=patience(place))
        with _openai(world.url(place), http) as client:
            client.chat.completions.create(model="m", messages=MESSAGES)

    return raise_it


def by_openai_async(place: Place) -> Raise:
    async def call(url: str) -> None:
        async with openai.AsyncOpenAI(
            api_key="k", base_url=url, max_retries=0, timeout=patience(place)
        ) as client:
            await client.chat.completions.create(model="m", messages=MESSAGES)

    return lambda world: asyncio.run(call(world.url(place)))


def openai_without_a_key(_: World) -> None:
    openai.OpenAI()


def by_openai_stream(place: Place) -> Raise:
    def raise_it(world: World) -> None:
        http = httpx2.Client(timeout=patience(place))
        with _openai(world.url(place), http) as client:
            for _ in client.chat.completions.create(model="m", messages=MESSAGES, stream=True):
                pass

    return raise_it


def by_openai_parse(place: Place) -> Raise:
    def raise_it(world: World) -> None:
        with _openai(world.url(place), httpx2.Client()) as client:
            client.chat.completions.parse(model="m", messages=MESSAGES, response_format=Opinion)

    return raise_it


def by_openai_with_a_full_pool(world: World) -> None:
    """One connection is allowed and another request holds it."""
    url = world.url("stalling_in_the_body")
    limits, timeout = httpx2.Limits(max_connections=1), httpx2.Timeout(30, pool=0.05)
    http = httpx2.Client(limits=limits, timeout=timeout)
    with _openai(url, http) as client, http.stream("GET", url):
        client.chat.completions.create(model="m", messages=MESSAGES, timeout=timeout)


def _openai(url: str, http: httpx2.Client) -> openai.OpenAI:
    return openai.OpenAI(
        api_key="k", base_url=url, max_retries=0, http_client=http, timeout=http.timeout
    )


# ---------------------------------------------------------------- anthropic


def anthropic_error(
    status: int, kind: str, headers: dict[str, str] | None = None, **details: object
) -> Answer:
    """Anthropic's error body: `{"type": "error", "error": {"type", "message", "details"}}`."""
    error = {"type": kind, "message": "no", **({"details": details} if details else {})}
    return Answer(status, {"type": "error", "error": error}, headers or {})


def by_anthropic(place: Place, *, stream: bool = False) -> Raise:
    def raise_it(world: World) -> None:
        with anthropic.Anthropic(
            api_key="k", base_url=world.url(place), max_retries=0, timeout=patience(place)
        ) as client:
            answer = client.messages.create(
                model="m", max_tokens=9, messages=MESSAGES, stream=stream
            )
            for _ in answer if stream else ():
                pass

    return raise_it


# ---------------------------------------------------------------- google


def google_error(code: int, status: str, *details: dict[str, object]) -> Answer:
    """Google's error body, whose details are typed messages."""
    error = {"code": code, "message": "no", "status": status, "details": list(details)}
    return Answer(code, {"error": error})


def retry_info(delay: str) -> dict[str, object]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def quota_failure(quota: str) -> dict[str, object]:
    violation = {"quotaMetric": "generate_content_requests", "quotaId": quota}
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}


def by_google(place: Place, *, package: str = "httpx2") -> Raise:
    def raise_it(world: World) -> None:
        options = _options(world.url(place), patience(place), import_module(package).Client())
        with genai.Client(api_key="k", http_options=options) as client:
            client.models.generate_content(model="m", contents="hello")

    return raise_it


def by_google_async(place: Place) -> Raise:
    """Google's asynchronous path goes over aiohttp."""

    async def call(url: str) -> None:
        options = _options(url, patience(place))
        async with genai.Client(api_key="k", http_options=options).aio as client:
            await client.models.generate_content(model="m", contents="hello")

    def raise_it(world: World) -> None:
        with warnings.catch_warnings():
            # It subclasses aiohttp's session, which aiohttp asks nobody to do.
            warnings.simplefilter("ignore", DeprecationWarning)
            asyncio.run(call(world.url(place)))

    return raise_it


def _options(
    url: str, timeout: float, http: httpx2.Client | None = None
) -> google_types.HttpOptions:
    return google_types.HttpOptions(
        base_url=url,
        timeout=int(timeout * 1_000),
        httpx_client=http,
        retry_options=google_types.HttpRetryOptions(attempts=1),
    )
