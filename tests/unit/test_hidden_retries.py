"""Real clients that retry underneath us are seen, and those that do not are not accused."""

import anthropic
import botocore.session
import openai
import pytest
import requests
from botocore.config import Config
from google import genai
from google.genai.types import HttpOptions, HttpRetryOptions
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from seawall import hidden_retries


def s3(**retries):
    return botocore.session.get_session().create_client(
        "s3",
        region_name="eu-west-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
        config=Config(retries=retries) if retries else None,
    )


def session(max_retries):
    made = requests.Session()
    made.mount("http://", HTTPAdapter(max_retries=max_retries))
    return made


def gemini(**options):
    return genai.Client(api_key="x", http_options=HttpOptions(**options))


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (lambda: openai.OpenAI(api_key="x"), 2),
        (lambda: openai.AsyncOpenAI(api_key="x", max_retries=5), 5),
        (lambda: openai.OpenAI(api_key="x", max_retries=0), None),
        (lambda: anthropic.Anthropic(api_key="x"), 2),
        (lambda: anthropic.AsyncAnthropic(api_key="x", max_retries=0), None),
        (lambda: s3(total_max_attempts=4), 3),
        (lambda: s3(mode="standard"), 2),
        (lambda: s3(mode="legacy"), 4),
        (lambda: s3(total_max_attempts=1), None),
        (lambda: gemini(retry_options=HttpRetryOptions(attempts=5)), 4),
        (gemini, 1),
        (lambda: gemini(retry_options=HttpRetryOptions(attempts=1)), None),
        (lambda: session(3), 3),
        (lambda: session(Retry(total=7)), 7),
        (lambda: session(0), None),
        (object, None),
    ],
)
def test_the_retries_of_a_real_client_are_counted(make, count):
    found = hidden_retries(make())
    assert (found and found.count) == count


def test_the_warning_says_what_it_costs_and_what_to_do():
    said = str(hidden_retries(openai.OpenAI(api_key="x")))
    assert (
        said
        == "openai.OpenAI retries 2× by itself: each attempt is up to 3 requests; create it with max_retries=0"
    )
