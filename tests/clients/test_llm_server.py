"""The provider that other tests call: that it answers, breaks as told, and sees what its clients do."""

import anthropic
import openai
import pytest

from seawall import FaultCode, classify
from tests.support.llm import running

MODEL = "gpt-5"


@pytest.fixture
def client(llm):
    with openai.OpenAI(base_url=llm.base_url(), api_key="any", max_retries=0, timeout=20) as made:
        yield made


def ask(client, **how):
    asked = [{"role": "user", "content": "Say something."}]
    return client.chat.completions.create(model=MODEL, messages=asked, **how)


def streamed(client):
    """The text, and the reason for its end."""
    text, reason = "", None
    for chunk in ask(client, stream=True):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reason = choice.finish_reason or reason
    return text, reason


def test_it_says_what_it_is_told(llm, client):
    llm.behave(llm.saying('{"grade": 1}'))
    assert ask(client).choices[0].message.content == '{"grade": 1}'
    assert ask(client).choices[0].message.content != '{"grade": 1}'
    assert [each["status"] for each in llm.requests()] == [200, 200]


def test_anthropic_has_its_own_door(llm):
    llm.behave(llm.failing(529, match={"provider": "anthropic"}))
    url, said = llm.base_url("anthropic"), [{"role": "user", "content": "Hello."}]
    with (
        anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as client,
        pytest.raises(anthropic.APIStatusError) as raised,
    ):
        client.messages.create(model="claude", max_tokens=10, messages=said)
    assert classify(raised.value).code is FaultCode.UNAVAILABLE


def test_it_limits_the_rate_and_says_for_how_long(llm, client):
    llm.behave(llm.rate_limited(retry_after=7, times=2))
    for _ in range(2):
        with pytest.raises(openai.RateLimitError) as raised:
            ask(client)
        fault = classify(raised.value)
        assert (fault.code, fault.retry_after_seconds) == (FaultCode.RATE_LIMITED, 7)
    assert ask(client).choices
    assert [each["status"] for each in llm.requests()] == [429, 429, 200]


def test_it_sees_who_does_not_wait_as_long_as_it_asked(llm, client):
    llm.behave(llm.rate_limited(retry_after=60))
    with pytest.raises(openai.RateLimitError):
        ask(client)
    ask(client)
    verdict = llm.verdict()
    assert not verdict["passed"]
    assert [each["code"] for each in verdict["findings"]] == ["retry_after_ignored"]


def test_an_outage_lasts_until_it_is_well(llm, client):
    llm.behave(llm.outage())
    for _ in range(3):
        with pytest.raises(openai.InternalServerError):
            ask(client)
    llm.well()
    assert ask(client).choices


def test_a_truncated_stream_ends_without_a_reason_and_without_an_error(llm, client):
    _, reason = streamed(client)
    assert reason == "stop"
    llm.behave(llm.truncated(after_chunks=2))
    _, reason = streamed(client)
    assert reason is None


def test_a_stream_that_is_cut_off_is_an_error(llm, client):
    llm.behave(llm.cut_off(after_chunks=2))
    with pytest.raises(openai.APIConnectionError) as raised:
        streamed(client)
    assert classify(raised.value).code is FaultCode.UNAVAILABLE


def test_a_stalled_stream_and_a_slow_answer_run_into_the_clients_timeout(llm, client):
    llm.behave(llm.stalled(30, after_chunks=1), llm.slow(30, match={"stream": False}))
    for call in (streamed, ask):
        with pytest.raises(openai.APITimeoutError) as raised:
            call(client.with_options(timeout=0.5))
        assert classify(raised.value).code is FaultCode.TIMEOUT


def test_a_server_of_ones_own_fails_by_chance_and_keeps_quotas():
    with (
        running("--error-rate", "500=1", "--rpm", "600") as own,
        openai.OpenAI(base_url=own.base_url(), api_key="any", max_retries=0) as client,
        pytest.raises(openai.InternalServerError),
    ):
        ask(client)
