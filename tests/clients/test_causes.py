"""What is raised around, instead of, or out of a client's exception; and what is not imported."""

import json
import subprocess
import sys

import httpx2
import openai
import pytest
import requests

from seawall.decisions.classify import classify
from seawall.decisions.clients import CLIENTS
from seawall.decisions.matching import class_name
from seawall.faults import FaultCode
from tests.clients import raise_plain as plain
from tests.clients.raise_databases import by_psycopg, by_sqlite, lock_not_available, locked
from tests.clients.raise_http import by_httpx, by_requests
from tests.clients.raise_llm import by_openai, openai_choice, openai_error
from tests.clients.test_real_exceptions import facts, raised_by
from tests.clients.upstream import Answer
from tests.clients.world import Raise, World


class MyError(Exception):
    """What an application wraps around whatever its clients raise."""


class MyRateLimit(openai.RateLimitError):
    """A subclass that a user wrote, in a module of their own."""


@pytest.mark.parametrize(
    "inner",
    [
        by_httpx("httpx", "stalling"),
        by_httpx("httpx2", "stalling"),
        by_openai("stalling"),
        by_openai(openai_error(429, {"Retry-After": "20", "x-request-id": "req_1"})),
        by_requests(Answer(503, headers={"Retry-After": "3"})),
        by_psycopg(lock_not_available),
        by_sqlite("apsw", locked),
    ],
    ids=["httpx", "httpx2", "openai-timeout", "openai-429", "requests-503", "psycopg", "apsw"],
)
@pytest.mark.parametrize("depth", [1, 3])
def test_a_wrapped_exception_is_classified_as_its_cause(inner: Raise, depth: int, world: World):
    error = raised_by(inner, world)
    alone = classify(error)

    for _ in range(depth):
        error = wrapped(error)

    assert facts(classify(error)) == facts(alone)


def test_an_exception_raised_while_another_was_handled_is_classified_as_that(world: World):
    def clumsy(world: World) -> None:
        try:
            by_httpx("httpx2", "stalling")(world)
        except httpx2.HTTPError:
            raise MyError("no luck")  # noqa: B904 - without `from`, as people write it

    assert classify(raised_by(clumsy, world)).code is FaultCode.TIMEOUT


def test_a_subclass_that_a_user_wrote_is_read_like_its_parent(world: World):
    theirs = raised_by(
        by_openai(openai_error(429, {"Retry-After": "6"}, code="insufficient_quota")), world
    )
    mine = MyRateLimit("mine", response=theirs.response, body=theirs.body)

    assert facts(classify(mine)) == facts(classify(theirs))
    assert classify(mine).code is FaultCode.QUOTA_EXHAUSTED


def test_the_falsy_response_of_requests_is_read_all_the_same(world: World):
    error = raised_by(by_requests(Answer(429, headers={"Retry-After": "12"})), world)

    assert isinstance(error, requests.HTTPError)
    assert not error.response
    assert classify(error).retry_after_seconds == 12


def test_the_money_that_a_cut_off_answer_cost_is_still_at_hand(world: World):
    with (
        pytest.raises(openai.LengthFinishReasonError) as caught,
        openai.OpenAI(
            api_key="k", base_url=world.url(openai_choice("length")), max_retries=0
        ) as client,
    ):
        client.chat.completions.parse(model="m", messages=[], response_format=plain.Opinion)

    assert caught.value.completion.usage.total_tokens == 12


@pytest.mark.parametrize(
    "raise_it",
    [plain.broken_json, plain.broken_text, plain.broken_model, plain.broken_schema_instance],
    ids=lambda function: function.__name__,
)
def test_invalid_data_is_a_bad_answer_or_bad_input_as_the_stage_knows(
    raise_it: Raise, world: World
):
    error = raised_by(raise_it, world)

    assert classify(error, validating="output").code is FaultCode.INVALID_RESPONSE
    assert classify(error, validating="input").code is FaultCode.INVALID_INPUT


def test_every_name_in_the_table_is_a_class_that_its_client_really_has():
    existing = {class_name(kind) for kind in subclasses_of(BaseException)}
    installed = {name.partition(".")[0] for name in existing}

    assert {"anthropic", "apsw", "google", "obstore", "psycopg_pool"} <= installed
    assert set(CLIENTS) - existing == set()


def test_the_classifier_imports_none_of_the_clients():
    code = "import json, sys, seawall.decisions.classify; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}

    clients = {name.partition(".")[0] for name in CLIENTS if "." in name} - {"seawall"}
    standard = {
        "asyncio",
        "concurrent",
        "http",
        "json",
        "socket",
        "ssl",
        "sqlite3",
        "subprocess",
        "urllib",
    }
    assert clients >= {"openai", "anthropic", "google", "httpx", "httpx2", "requests", "psycopg"}
    assert loaded.isdisjoint(clients - standard | {"pydantic", "httpcore", "httpcore2"})
    assert loaded.isdisjoint({"asyncio", "http", "sqlite3", "ssl", "subprocess"})


def wrapped(error: BaseException) -> MyError:
    try:
        raise MyError("the stage failed") from error
    except MyError as outer:
        return outer


def subclasses_of(kind: type[BaseException]) -> set[type[BaseException]]:
    found = {kind}
    for child in type.__subclasses__(kind):
        found |= subclasses_of(child)
    return found
