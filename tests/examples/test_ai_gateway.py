"""The AI gateway: every statement of design document 001, over HTTP, with both real clients.

The clock is moved by hand, so that the policies' own figures are those that are looked at.
"""

import logging
import random
from dataclasses import replace
from typing import get_args

import pytest
from fastapi.testclient import TestClient

from examples.ai_gateway import app as module
from examples.ai_gateway import providers
from examples.ai_gateway.api import api
from examples.ai_gateway.app import answer, app, costly, in_our_codes
from examples.ai_gateway.schema import AIErrorCode, AIErrorResponse, Ask
from seawall import Fault, FaultCode, FaultError, State, StoreUnavailableError, presets
from seawall.telemetry import log_hooks
from seawall.testing import in_memory
from tests.support.processes import free_ports
from tests.sync.upstream import Said, Upstream

log_hooks.remove(in_our_codes)  # it holds for the whole process: other tests are in it as well
KEY = "sk-live-Zq81hT0pmQ4vXw7LdN2cRb5y"
GOOD = {"mood": "good", "confidence": 1.0, "reason": "mock-reason"}


class Gateway:
    """The gateway in memory, on a clock that the tests move; both providers are real servers."""

    def __init__(self, world, llm):
        self.world, self.llm, self.client = world, llm, TestClient(api)
        self.client.headers["x-request-id"] = "req-77"

    def post(self, text="A fine day.", **more):
        return self.client.post("/v1/judgements", json={"text": text, **more})

    def breaks(self, status=502, *, times=1, retry_after=0):
        """Its next answers; 0 is no word about when to come back."""
        self.llm.behave(self.llm.failing(status, times=times, retry_after=retry_after))

    def worked(self):
        """Let the workers do what is left, past any time that an upstream asked for."""
        for _ in range(5):
            self.world.drain()
            self.world.advance(120)

    def error(self, job_id):
        return self.client.get(f"/jobs/{job_id}").json()["error"]


@pytest.fixture
def gateway(llm, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", llm.base_url("openai"))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", llm.base_url("anthropic"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    log_hooks.add(in_our_codes)
    with in_memory(app) as world:
        yield Gateway(world, llm)
    log_hooks.remove(in_our_codes)


@pytest.fixture
def upstream(monkeypatch):
    """A provider that answers just so, one call after the other."""
    made = []

    def new(*says):
        made.append(Upstream(*says).__enter__())
        monkeypatch.setenv("OPENAI_BASE_URL", made[-1].url)
        return made[-1]

    yield new
    for each in made:
        each.__exit__()


@pytest.fixture
def said(caplog):
    """The log events of that name so far."""
    caplog.set_level(logging.DEBUG, "seawall")

    def of(name):
        events = [each.seawall for each in caplog.records if each.name == "seawall"]
        return [each for each in events if each["event"] == name]

    return of


def history(job_id):
    """Who made each attempt, how it ended, and how long was waited after it."""
    return [
        ("inline" if each.worker.startswith("inline:") else "worker", str(each.outcome))
        for each in app.job(job_id).attempts()
    ]


def delays(job_id):
    found = app.job(job_id).attempts()
    return [each.delay_seconds for each in found if each.outcome == "retried"]


def codes(job_id):
    return [each.fault.code for each in app.job(job_id).attempts() if each.fault]


INLINE, WORKER = ("inline", "retried"), ("worker", "retried")

# --- while the caller waits -----------------------------------------------------------------------


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_both_providers_answer_through_the_one_gateway(gateway, provider, large):
    found = gateway.post(provider=provider, costly=large)
    assert (found.status_code, found.json()) == (200, GOOD)
    (call,) = gateway.llm.requests()
    assert (call["provider"], call["model"]) == (provider, providers.MODELS[provider, large])


def prose(gateway, monkeypatch):
    gateway.llm.behave(gateway.llm.saying("It is hard to say."))


def drift(gateway, monkeypatch):
    gateway.llm.behave(gateway.llm.saying('{"mood": "splendid", "confidence": 2}'))


def silence(gateway, monkeypatch):
    monkeypatch.setattr(providers, "CALL_SECONDS", 0.3)
    gateway.llm.behave(gateway.llm.slow(3))


def broken(gateway, monkeypatch):
    gateway.breaks(500)


def away(gateway, monkeypatch):
    gateway.breaks(529)


TROUBLES = {
    prose: "INVALID_RESPONSE",
    drift: "INVALID_RESPONSE",
    silence: "TIMEOUT",
    broken: "UPSTREAM_ERROR",
    away: "UNAVAILABLE",
}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_passing_trouble_is_met_by_one_retry_after_300_to_800_ms(
    gateway, monkeypatch, trouble, provider
):
    trouble(gateway, monkeypatch)
    found = gateway.post(provider=provider)
    assert (found.status_code, found.json()) == (200, GOOD)
    (job,) = app.jobs()
    assert codes(job.id) == [TROUBLES[trouble]]
    assert history(job.id) == [INLINE, ("inline", "succeeded")]
    times = [each.started_at for each in app.job(job.id).attempts()]
    assert 0.3 <= (times[1] - times[0]).total_seconds() <= 0.801, "never at once"


def test_a_second_trouble_is_handed_over_and_a_worker_finishes_it(gateway):
    gateway.breaks(times=2)
    found = gateway.post()
    assert (found.status_code, found.json()["state"]) == (202, "queued")
    place = found.headers["location"]
    gateway.worked()
    assert gateway.client.get(place).json()["result"] == GOOD
    assert history(found.json()["id"]) == [INLINE, INLINE, ("worker", "succeeded")]


def test_a_rate_limit_is_never_met_while_the_caller_waits_and_its_time_is_kept(gateway):
    gateway.breaks(429, retry_after=30)
    found = gateway.post()
    assert found.status_code == 202
    assert int(found.headers["retry-after"]) >= 30
    job = app.job(found.json()["id"])
    assert history(job.id) == [INLINE], "one call, and no more"
    assert (job.job().due_at - gateway.world.now).total_seconds() >= 30
    gateway.world.advance(29.9)
    assert gateway.world.work() == 0
    gateway.worked()
    assert job.state is State.SUCCEEDED


def test_a_provider_that_asks_for_time_is_left_alone_and_the_other_is_not(gateway):
    gateway.breaks(429, retry_after=30)
    gateway.post(provider="openai")
    assert gateway.post(provider="openai").status_code == 202
    assert gateway.post(provider="anthropic").status_code == 200
    asked = [each["provider"] for each in gateway.llm.requests()]
    assert asked == ["openai", "anthropic"], "the second was handed over without a call"


# --- by workers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "attempts", "windows"),
    [(answer, 3, [(0.8, 1.2), (1.6, 2.4)]), (costly, 2, [(0.8, 1.2)])],
)
def test_workers_try_three_times_and_twice_where_it_is_costly(gateway, task, attempts, windows):
    gateway.breaks(502, times=None)
    job = task.enqueue(Ask(text="A fine day.", costly=task is costly))
    gateway.world.drain()
    assert job.state is State.FAILED
    assert len(gateway.llm.requests()) == attempts
    for delay, (least, most) in zip(delays(job.id), windows, strict=True):
        assert least <= delay <= most


def test_without_jitter_the_waits_would_be_one_two_and_four_seconds():
    patient, rng = replace(presets.get("ai-worker"), max_attempts=9), random.Random(7)
    for attempt, middle in enumerate((1, 2, 4), 1):
        for code in (FaultCode.TIMEOUT, FaultCode.RATE_LIMITED, FaultCode.INVALID_RESPONSE):
            found = patient.decide(Fault(code), attempt=attempt, rng=rng).delay_seconds
            assert 0.8 * middle <= found <= 1.2 * middle


def test_a_rate_limit_that_does_not_say_when_follows_the_curve(gateway, upstream):
    service = upstream(*[Said(429, body="{}")] * 4)
    found = gateway.post()
    assert found.status_code == 202
    gateway.worked()
    job_id = found.json()["id"]
    assert history(job_id) == [INLINE, WORKER, WORKER, ("worker", "failed")]
    (inline, first, second) = delays(job_id)
    assert 0.8 <= inline <= 1.2
    assert 0.8 <= first <= 1.2
    assert 1.6 <= second <= 2.4
    assert len(service.calls) == 4
    assert gateway.error(job_id)["code"] == "RATE_LIMITED"


def test_the_time_that_a_rate_limit_asks_for_is_the_least_that_workers_wait(gateway):
    gateway.breaks(429, retry_after=40)
    job = answer.enqueue(Ask(text="A fine day."))
    gateway.world.drain()
    assert delays(job.id)[0] >= 40
    gateway.llm.reset()
    gateway.world.advance(300)
    gateway.breaks(429, retry_after=0)
    other = answer.enqueue(Ask(text="A fine night."))
    gateway.worked()
    assert delays(other.id)[0] >= 0.8, "nor is it less than the curve's own"


# --- what is not tried again ----------------------------------------------------------------------


def test_missing_configuration_fails_at_once_and_is_an_alert(gateway, monkeypatch, said, caplog):
    monkeypatch.delenv("OPENAI_API_KEY")
    found = gateway.post()
    body = AIErrorResponse.model_validate(found.json())
    assert (found.status_code, body.code, body.retryable) == (500, "CONFIG_MISSING", False)
    assert history(body.job) == [("inline", "failed")]
    (alert,) = said("config_missing")
    assert (alert["ai_code"], alert["request_id"]) == ("CONFIG_MISSING", "req-77")
    levels = {each.levelno for each in caplog.records if "config_missing" in each.getMessage()}
    assert levels == {logging.ERROR}
    assert gateway.llm.requests() == []


@pytest.mark.parametrize("status", [400, 404, 413, 422])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_request_that_a_provider_refuses_fails_at_once(gateway, provider, status):
    gateway.breaks(status, times=None)
    found = gateway.post(provider=provider)
    body = AIErrorResponse.model_validate(found.json())
    assert (found.status_code, body.code, body.retryable) == (422, "INVALID_REQUEST", False)
    assert len(gateway.llm.requests()) == 1
    gateway.worked()
    assert history(body.job) == [("inline", "failed")]


@pytest.mark.parametrize(
    "body", [{}, {"text": ""}, {"text": "x", "provider": "other"}, {"text": 7}]
)
def test_a_request_that_is_none_is_refused_in_one_line(gateway, body):
    found = gateway.client.post("/v1/judgements", json=body)
    told = AIErrorResponse.model_validate(found.json())
    assert (found.status_code, told.code, told.retryable) == (422, "INVALID_REQUEST", False)
    assert "\n" not in told.title
    assert gateway.llm.requests() == []
    assert list(app.jobs()) == []


class OddError(Exception):
    """Of no kind that anybody knows."""


@pytest.mark.parametrize(
    ("error", "code"), [(KeyError("mood"), "INTERNAL_ERROR"), (OddError("?"), "UNKNOWN")]
)
def test_a_bug_is_not_tried_again_while_the_caller_waits_and_once_by_workers(
    gateway, monkeypatch, error, code
):
    async def bug(*_):
        raise error

    monkeypatch.setattr(module, "said_by_model", bug)
    found = gateway.post()
    job_id = found.json()["id"]
    assert found.status_code == 202
    assert history(job_id) == [INLINE]
    gateway.worked()
    assert history(job_id) == [INLINE, WORKER, ("worker", "failed")]
    assert 0.8 <= delays(job_id)[-1] <= 1.2
    assert gateway.error(job_id)["code"] == code
    assert gateway.error(job_id)["retryable"] is False
    for attempt in app.job(job_id).attempts():
        assert type(error).__name__ in app.job(job_id).evidence(attempt.seq).traceback


# --- how errors are told --------------------------------------------------------------------------

TOLD = {
    FaultCode.RATE_LIMITED: ("RATE_LIMITED", True),
    FaultCode.INVALID_RESPONSE: ("INVALID_UPSTREAM_RESPONSE", True),
    FaultCode.TIMEOUT: ("TIMEOUT", True),
    FaultCode.UNAVAILABLE: ("UPSTREAM_UNAVAILABLE", True),
    FaultCode.UPSTREAM_ERROR: ("UPSTREAM_ERROR", True),
    FaultCode.CONFIG_MISSING: ("CONFIG_MISSING", False),
    FaultCode.INVALID_REQUEST: ("INVALID_REQUEST", False),
    FaultCode.INTERNAL_ERROR: ("INTERNAL_ERROR", False),
    FaultCode.UNKNOWN: ("UNKNOWN", False),
}


@pytest.mark.parametrize("code", TOLD)
def test_each_of_the_nine_codes_is_told_in_the_one_schema(gateway, monkeypatch, code):
    async def fails(*_):
        raise FaultError(code, f"{KEY} was refused", retry_after_seconds=2.5)

    monkeypatch.setattr(module, "said_by_model", fails)
    job = answer.enqueue(Ask(text="x"))
    gateway.worked()
    error = gateway.client.get(f"/jobs/{job.id}", headers={"x-caller": ""})
    assert error.status_code == 404, "it was nobody's"
    found = gateway.post()
    gateway.worked()
    told = gateway.error(found.json().get("id") or found.json()["job"])
    assert (told["code"], told["retryable"]) == TOLD[code]
    assert told["retryAfterMs"] == 2500
    assert KEY not in str(told)


def test_the_schema_knows_the_nine_codes_and_no_other():
    assert set(get_args(AIErrorCode)) == {code for code, _ in TOLD.values()}
    described = api.openapi()["components"]["schemas"]["AIErrorResponse"]
    assert set(described["properties"]["code"]["enum"]) == set(get_args(AIErrorCode))
    assert {"code", "retryable", "title", "status"} == set(described["required"])


def test_a_store_that_is_away_is_told_in_the_same_schema(gateway, monkeypatch):
    def away(_jobs):
        raise StoreUnavailableError("connection to host db-7.internal failed")

    monkeypatch.setattr(app.store, "enqueue", away)
    found = gateway.post()
    assert AIErrorResponse.model_validate(found.json()).code == "INTERNAL_ERROR"
    assert (found.status_code, "db-7" in found.text) == (500, False)


def test_a_judgement_is_shown_to_whoever_asked_for_it(gateway):
    gateway.breaks(times=2)
    found = gateway.client.post("/v1/judgements", json={"text": "x"}, headers={"x-caller": "ann"})
    place = found.headers["location"]
    assert gateway.client.get(place, headers={"x-caller": "ann"}).status_code == 200
    assert gateway.client.get(place, headers={"x-caller": "bob"}).status_code == 404


# --- what is logged -------------------------------------------------------------------------------


def test_every_retry_is_logged_with_its_request_code_attempt_and_delay(gateway, said):
    gateway.breaks(500, times=3)
    job_id = gateway.post().json()["id"]
    gateway.worked()
    lines = said("retry_scheduled")
    assert [each["request_id"] for each in lines] == ["req-77"] * 3
    assert [each["ai_code"] for each in lines] == ["UPSTREAM_ERROR"] * 3
    assert [(each["attempt"], each["max_attempts"]) for each in lines] == [(1, 2), (2, 2), (1, 3)]
    waited = [each["delay_ms"] for each in lines]
    assert 300 <= waited[0] <= 800
    assert 800 <= waited[1] <= 1_200
    assert 800 <= waited[2] <= 1_200
    (handed,) = said("job_handed_over")
    assert (handed["job"], handed["request_id"]) == (job_id, "req-77")


def test_the_delay_that_is_logged_holds_what_the_upstream_asked_for(gateway, said):
    gateway.breaks(429, retry_after=30)
    gateway.post()
    (line,) = said("retry_scheduled")
    assert line["ai_code"] == "RATE_LIMITED"
    assert line["delay_ms"] >= 30_000


def test_a_request_without_an_id_gets_one_and_the_provider_is_told(gateway, upstream, said):
    service = upstream(400)
    del gateway.client.headers["x-request-id"]
    asked = gateway.post().headers["x-request-id"]
    assert len(asked) == 32
    assert service.calls[0]["x-request-id"] == asked
    assert [each["request_id"] for each in said("gave_up")] == [asked]


def test_no_key_and_nothing_that_an_upstream_said_is_logged_or_answered(gateway, upstream, caplog):
    caplog.set_level(logging.DEBUG)
    secret, body = "tr0ub4dor-and-3", '{{"error": {{"message": "key {} and {} are wrong"}}}}'
    texts = []
    for status in (400, 401, 403, 404, 429, 500, 503):
        upstream(*[Said(status, {"x-secret": KEY}, body.format(KEY, secret))] * 2)
        found = gateway.post()
        texts.append(f"{found.text} {dict(found.headers)}")
        if "location" in found.headers:
            texts.append(gateway.client.get(found.headers["location"]).text)
    upstream(Said(body=f'{{"choices": [{{"message": {{"content": "{secret}"}}}}]}}'))
    texts.append(gateway.post().text)
    records = [each for each in caplog.records if each.name.startswith(("seawall", "fastapi"))]
    texts += [f"{each.getMessage()} {getattr(each, 'seawall', '')}" for each in records]
    assert len(texts) > 20
    for text in texts:
        assert KEY not in text
        assert secret not in text
        assert "Traceback" not in text


def test_a_provider_that_cannot_be_reached_is_unavailable(gateway, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{free_ports(1)[0]}/v1")
    found = gateway.post()
    assert found.status_code == 202
    assert codes(found.json()["id"]) == ["UNAVAILABLE"] * 2
