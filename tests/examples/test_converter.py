"""The figures of design document 003, by the policy and the breaker that production has."""

import os
import random
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from examples.converter import web
from examples.converter.__main__ import PDF
from examples.converter.app import app, convert, knobs, result_of, source_of, written
from examples.converter.knobs import Knobs
from examples.converter.peers import Peers
from seawall import (
    CONVERTER_CODES,
    ConfigurationError,
    Fail,
    Fault,
    FaultCode,
    Retry,
    State,
    breaker,
    presets,
)
from seawall.testing import in_memory
from tests.examples.converter_world import Gateway, knobs_of, uploaded

WINDOWS = [(5, 10), (10, 15)]
"""5 s · 2^attempt, the attempts numbered from 0, and 0 to 5 s more."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    with Peers(tmp_path_factory.mktemp("converter")) as peers:
        yield Gateway(peers)


@pytest.fixture
def world(gateway, tmp_path):
    gateway.is_well()
    with in_memory(app, seed=random.randrange(1_000)) as made, knobs_of(tmp_path, gateway):
        yield made


def public(job):
    return CONVERTER_CODES.view(job.job().last_fault).code


def waits(job):
    return [each.delay_seconds for each in job.attempts() if each.delay_seconds is not None]


# --- retrying -----------------------------------------------------------------------------------


def test_a_pdf_becomes_xml(world):
    job = uploaded()
    world.drain()
    assert job.result() == "sea.xml"
    text = result_of(job.arguments()["document"]).read_text()
    assert "<line>The sea is calm</line>" in text
    assert '<document pages="1">' in text


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_gateway_that_fails_is_asked_three_times_with_five_and_ten_seconds_and_more_between(
    world, gateway, status
):
    gateway.told(status=status)
    job = uploaded()
    world.drain()
    assert (job.state, public(job)) == (State.FAILED, "GW_5XX")
    assert len(job.attempts()) == 3
    for wait, (least, most) in zip(waits(job), WINDOWS, strict=True):
        assert least <= wait <= most


def test_no_answer_in_time_is_retried_too(world, gateway, tmp_path):
    gateway.told(seconds=5)
    with knobs_of(tmp_path, gateway, gateway_seconds=0.05):
        job = uploaded()
        world.drain()
    assert (len(job.attempts()), public(job)) == (3, "GW_TIMEOUT")
    assert all(least <= wait <= most for wait, (least, most) in zip(waits(job), WINDOWS))  # noqa: B905


@pytest.mark.parametrize(
    ("status", "word", "code"),
    [(400, "PARSE_ERROR", "GW_4XX"), (422, "INVALID_MAPPING", "GW_4XX"), (413, "NO", "TOO_LARGE"), (418, "NO", "GW_4XX"), (404, "NO", "GW_4XX")],
)  # fmt: skip
def test_what_the_gateway_refuses_is_not_tried_again(world, gateway, status, word, code):
    gateway.told(status=status, error=word)
    job = uploaded()
    world.drain()
    assert (len(job.attempts()), public(job)) == (1, code)
    assert job.job().last_fault.detail == word


def test_a_gateway_that_nobody_reaches_is_a_gateway_that_fails(world, gateway, tmp_path):
    class Nowhere:
        url = "http://127.0.0.1:1"

    with knobs_of(tmp_path, Nowhere):
        job = uploaded()
        world.drain()
    assert (len(job.attempts()), public(job)) == (3, "GW_5XX")


@pytest.mark.parametrize(
    ("fault", "code", "retried"),
    [
        (Fault(FaultCode.UPSTREAM_ERROR), "GW_5XX", True),
        (Fault(FaultCode.UNAVAILABLE), "GW_5XX", True),
        (Fault(FaultCode.UNAVAILABLE, detail="GW_UNAVAILABLE"), "GW_5XX", True),
        (Fault(FaultCode.TIMEOUT), "GW_TIMEOUT", True),
        (Fault(FaultCode.IO_ERROR), "IO_ERROR", True),
        (Fault(FaultCode.RESOURCE_EXHAUSTED, detail="MEMORY_ERROR"), "IO_ERROR", True),
        (Fault(FaultCode.UNKNOWN), "UNKNOWN", True),
        (Fault(FaultCode.UNKNOWN, status=418), "UNKNOWN", False),  # induced by the user
        (Fault(FaultCode.INVALID_REQUEST, status=400), "GW_4XX", False),
        (Fault(FaultCode.INVALID_RESPONSE, detail="PARSE_ERROR"), "GW_4XX", False),
        (Fault(FaultCode.INVALID_RESPONSE, detail="VALIDATION_ERROR"), "GW_4XX", False),
        (Fault(FaultCode.INVALID_REQUEST, detail="INVALID_MAPPING"), "GW_4XX", False),
        (Fault(FaultCode.INVALID_INPUT, detail="NOT_PDF"), "NOT_PDF", False),
        (Fault(FaultCode.EXPIRED), "EXPIRED", False),
    ],
    ids=str,
)
def test_whether_a_fault_is_retried_goes_with_its_public_code(fault, code, retried):
    assert CONVERTER_CODES.view(fault).code == code
    verdict = convert.policy.decide(fault, attempt=1, rng=random.Random(3))
    assert isinstance(verdict, Retry if retried else Fail)


def test_a_retry_is_not_claimed_before_its_time(world, gateway):
    gateway.told(status=502)
    job = uploaded()
    world.work()
    row = job.job()
    assert (row.state, row.tries, row.lease) == (State.QUEUED, 1, None)
    assert row.last_attempt_at is not None
    assert timedelta(seconds=5) <= row.due_at - world.now <= timedelta(seconds=10)
    gateway.told(status=200)
    world.advance((row.due_at - world.now).total_seconds() - 0.001)
    assert world.work() == 0
    world.advance(0.001)
    assert world.work() == 1
    assert job.state is State.SUCCEEDED


def test_a_429_that_says_when_is_honoured_and_one_that_does_not_is_refused(world, gateway):
    gateway.told(status=429)
    first = uploaded()
    world.work()
    assert (first.state, public(first)) == (State.FAILED, "GW_4XX")
    gateway.told(retry_after=40)
    second = uploaded()
    world.work()
    assert second.state is State.QUEUED
    assert (second.job().due_at - world.now).total_seconds() >= 40


def test_xml_that_is_cut_off_is_no_result_and_is_kept_for_review(world, gateway):
    gateway.told(garbled=True)
    job = uploaded()
    world.drain()
    assert (len(job.attempts()), public(job)) == (1, "GW_4XX")
    assert job.job().last_fault.code is FaultCode.INVALID_RESPONSE
    assert not result_of(job.arguments()["document"]).exists()
    assert "<document" in world.store.evidence(job.id, 1).raw_output


def test_a_document_that_is_gone_fails_at_once(world):
    job = uploaded()
    source_of(job.arguments()["document"]).unlink()
    world.drain()
    assert (job.state, len(job.attempts())) == (State.FAILED, 1)


# --- writing ------------------------------------------------------------------------------------


def test_a_reader_never_sees_half_of_a_result(tmp_path):
    place, whole, over, wrong = tmp_path / "a.xml", {b"a" * 300_000, b"b" * 300_000}, [], []

    def read():
        while not over:
            found = place.read_bytes() if place.exists() else None
            if found is not None and found not in whole:
                wrong.append(len(found))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(15):
        for content in whole:
            written(place, content)
    over.append(True)
    reader.join()
    assert wrong == []
    assert [each.name for each in tmp_path.iterdir()] == ["a.xml"]


def test_a_write_that_breaks_leaves_what_was_there(tmp_path, monkeypatch):
    place = tmp_path / "a.xml"
    written(place, b"<old/>")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        written(place, b"<new/>")
    assert place.read_bytes() == b"<old/>"
    assert [each.name for each in tmp_path.iterdir()] == ["a.xml"], "nor is a part of it left"


# --- knobs --------------------------------------------------------------------------------------


def test_left_alone_the_policy_is_the_one_that_ships():
    assert Knobs.read({}).policy().version == presets.get("converter").version
    assert convert.policy.version == presets.get("converter").version
    assert convert.policy.max_attempts == 3


def told(**environ):
    return Knobs.read(environ)


def windows(policy):
    rule = next(rule for rule in policy.rules if rule.matches(Fault(FaultCode.TIMEOUT)))
    return [*rule.backoff.window(1), *rule.backoff.window(2)]


@pytest.mark.parametrize(
    ("environ", "read", "expected"),
    [
        ({"RETRY_MAX_ATTEMPTS": "5"}, lambda k: k.policy().max_attempts, 5),
        ({"RETRY_BASE_DELAY_MS": "100"}, lambda k: windows(k.policy()), [0.1, 5.1, 0.2, 5.2]),
        ({"RETRY_JITTER_MAX_MS": "500"}, lambda k: windows(k.policy()), [5, 5.5, 10, 10.5]),
        ({"RETRY_JITTER_MAX_MS": "0"}, lambda k: windows(k.policy()), [5, 5, 10, 10]),
        ({"WORKER_LEASE_TTL_SEC": "45"}, lambda k: k.lease_seconds, 45),
        ({"GATEWAY_TIMEOUT_MS": "1500"}, lambda k: k.gateway_seconds, 1.5),
        ({"WORKER_CONCURRENCY": "7"}, lambda k: k.concurrency, 7),
        ({"CIRCUIT_WINDOW": "50"}, lambda k: (k.gateway(print).breaker.window_calls, k.gateway(print).breaker.minimum_calls), (50, 50)),
        ({"CIRCUIT_WINDOW": "90s"}, lambda k: k.gateway(print).breaker.window_seconds, 90),
        ({"CIRCUIT_FAIL_THRESHOLD": "0.8"}, lambda k: k.gateway(print).breaker.failure_rate, 0.8),
        ({"CIRCUIT_COOLDOWN_MS": "250"}, lambda k: k.gateway(print).breaker.open.window(9), (0.25, 0.25)),
        ({"DATABASE_URL": "postgresql://h/d"}, lambda k: k.database_url, "postgresql://h/d"),
        ({"GATEWAY_URL": "http://gw"}, lambda k: k.gateway_url, "http://gw"),
        ({"UPLOADS_DIR": "/u"}, lambda k: k.uploads, Path("/u")),
        ({"RESULTS_DIR": "/r"}, lambda k: k.results, Path("/r")),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)  # fmt: skip
def test_each_knob_does_what_its_name_says(environ, read, expected):
    assert read(told(**environ)) == pytest.approx(expected)


def test_the_application_goes_by_its_knobs():
    assert app.settings.lease_seconds == knobs.lease_seconds == 90, "renewed every 30 s"
    assert app.settings.concurrency == knobs.concurrency
    assert app.upstreams.of("gateway").breaker == knobs.gateway(print).breaker
    assert 1 <= app.settings.poll_seconds <= 2


@pytest.mark.parametrize(
    "environ",
    [{"RETRY_MAX_ATTEMPTS": "0"}, {"RETRY_BASE_DELAY_MS": "soon"}, {"WORKER_LEASE_TTL_SEC": "nan"},
     {"CIRCUIT_WINDOW": "1"}, {"CIRCUIT_WINDOW": "0s"}, {"CIRCUIT_FAIL_THRESHOLD": "50"}],
    ids=str,
)  # fmt: skip
def test_a_knob_that_cannot_be_is_one_line_with_its_name(environ):
    ((name, value),) = environ.items()
    with pytest.raises(ConfigurationError) as refused:
        told(**environ)
    assert str(refused.value).startswith(f"{name}: found '{value.removesuffix('s')}")
    assert "\n" not in str(refused.value)


# --- when the gateway is held -------------------------------------------------------------------

RULES = Knobs.read({}).gateway(print).breaker
WELL = breaker.event_of(None)
FAILED = breaker.event_of(Fault(FaultCode.UPSTREAM_ERROR))
NOW = 1_000_000.0


def after(*events, rules=RULES, state=None, now=NOW):
    state = state or breaker.BreakerState()
    for event in events:
        state = breaker.step(rules, state, event, now)
    return state


def test_it_is_held_when_half_of_its_last_twenty_calls_failed_and_not_before():
    assert after(*[WELL, FAILED] * 9, WELL, FAILED).phase == "open"
    assert after(*[WELL] * 11, *[FAILED] * 9).phase == "closed"
    assert after(*[FAILED] * 19).phase == "closed", "nineteen calls are not twenty"
    assert after(*[FAILED] * 9, *[WELL] * 12, *[FAILED] * 8).phase == "closed", "the last twenty"


@pytest.mark.parametrize("seconds", [60, 90, 120])
def test_or_half_of_its_calls_of_the_last_one_to_two_minutes(seconds):
    rules = told(CIRCUIT_WINDOW=f"{seconds}s").gateway(print).breaker
    old = after(*[WELL] * 40, rules=rules)
    assert after(*[FAILED] * 10, rules=rules, state=old, now=NOW + seconds + 1).phase == "open"
    assert after(*[FAILED] * 10, rules=rules, state=old, now=NOW + seconds / 2).phase == "closed"


@pytest.mark.parametrize("code", [FaultCode.INVALID_REQUEST, FaultCode.IO_ERROR])
def test_only_what_the_gateway_itself_does_counts_against_it(code):
    assert after(*[breaker.event_of(Fault(code))] * 60).phase == "closed"


def test_it_is_probed_after_its_cooldown_and_let_go_when_four_probes_of_five_are_well():
    state = after(*[FAILED] * 20)
    assert breaker.admission(RULES, state, NOW + 29).probes == 0
    assert breaker.admission(RULES, state, NOW + 30).probes == 1
    results = {
        "wwww": "closed",
        "wwfww": "closed",
        "wfwf": "open",
        "ff": "open",
        "www": "half_open",
    }
    for said, phase in results.items():
        probed, now = state, NOW + 30
        for number, each in enumerate(said):
            name = f"p{number}"
            probed = after(breaker.ProbeAsked(name), state=probed, now=now)
            fault = None if each == "w" else Fault(FaultCode.UNAVAILABLE)
            probed = after(breaker.event_of(fault, probe=name), state=probed, now=now + 1)
            now += 1
        assert probed.phase == phase, said


def test_what_finds_out_whether_the_gateway_is_well_is_not_a_job(world, gateway):
    probe = app.upstreams.of("gateway").probe
    probe()
    gateway.told(status=502)
    with pytest.raises(Exception, match="503"):
        probe()


# --- over HTTP ----------------------------------------------------------------------------------


@pytest.fixture
def visitors(world):
    """Two people, each with a session of their own."""
    made = [TestClient(web.api), TestClient(web.api)]
    for each in made:
        assert each.get("/").status_code == 200
    yield made
    for each in made:
        each.close()


def upload(visitor, name="sea.pdf", content=PDF):
    answer = visitor.post("/api/jobs", params={"name": name}, content=content)
    assert answer.status_code == 201
    return answer.json()["id"]


def test_a_pdf_is_uploaded_listed_and_fetched_as_xml(visitors, world):
    ann, _ = visitors
    job = upload(ann, "../über <b>.pdf")
    early = ann.get(f"/api/jobs/{job}/xml")
    assert (early.status_code, early.json()["code"]) == (503, "NOT_READY")
    world.drain()
    (row,) = ann.get("/api/jobs").json()
    assert (row["name"], row["status"], row["attemptCount"]) == ("über <b>.pdf", "complete", 1)
    assert "über &lt;b&gt;.pdf" in ann.get("/").text
    assert "The sea is calm" in ann.get(f"/api/jobs/{job}/xml").text
    assert ann.get(f"/api/jobs/{job}").json()["state"] == "succeeded"
    result_of(app.job(job).arguments()["document"]).unlink()
    gone = ann.get(f"/api/jobs/{job}/xml")
    assert (gone.status_code, gone.json()["code"]) == (410, "EXPIRED")


def test_what_is_no_pdf_or_too_large_is_refused_with_its_code_and_leaves_nothing(
    visitors, world, monkeypatch
):
    ann, _ = visitors
    monkeypatch.setattr(web, "LARGEST_PDF", 100)
    for content, status, code in ((b"<html>", 415, "NOT_PDF"), (PDF * 2, 413, "TOO_LARGE")):
        told = ann.post("/api/jobs", params={"name": "a.pdf"}, content=content)
        assert (told.status_code, told.json()["code"]) == (status, code)
    assert ann.get("/api/jobs").json() == []
    assert not any(source_of("x").parent.iterdir())


def test_a_job_is_its_sessions_own(visitors, world, gateway):
    ann, bob = visitors
    gateway.told(status=422)
    job = upload(ann)
    world.drain()
    assert bob.get("/api/jobs").json() == []
    assert bob.get(f"/api/jobs/{job}").status_code == 404
    assert bob.post(f"/api/jobs/{job}/retry").status_code == 404
    assert bob.get(f"/api/jobs/{job}/xml").json()["code"] == "FORBIDDEN"
    nobody = TestClient(web.api)
    for asked in (nobody.get("/api/jobs"), nobody.post(f"/api/jobs/{job}/retry")):
        assert (asked.status_code, asked.json()["code"]) == (403, "FORBIDDEN")
    cookie = ann.get("/", headers={"cookie": ""}).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=lax" in cookie.lower()
    session = ann.cookies["session"]
    assert session not in app.job(job).job().owner


def test_a_failed_job_is_sent_again_by_its_owner_while_its_source_is_there(
    visitors, world, gateway
):
    ann, _ = visitors
    gateway.told(status=502)
    job = upload(ann)
    assert ann.post(f"/api/jobs/{job}/retry").json()["code"] == "NOT_FAILED"
    world.drain()
    (row,) = ann.get("/api/jobs").json()
    assert (row["status"], row["attemptCount"], row["mayRetry"]) == ("failed", 3, True)
    assert row["error"]["code"] == "GW_5XX"

    source = source_of(app.job(job).arguments()["document"])
    source.rename(source.with_suffix(".away"))
    (row,) = ann.get("/api/jobs").json()
    assert (row["mayRetry"], row["whyNot"]) == (
        False,
        f"job {job}: sea.pdf is not there any more: upload it again",
    )
    assert "disabled" in ann.get("/rows").text
    refused = ann.post(f"/api/jobs/{job}/retry")
    assert (refused.status_code, refused.json()["code"]) == (409, "PRECONDITION_FAILED")
    source.with_suffix(".away").rename(source)

    gateway.told(status=200)
    assert ann.post(f"/api/jobs/{job}/retry").json() == {"id": job, "state": "queued"}
    (row,) = ann.get("/api/jobs").json()
    assert (row["status"], row["attemptCount"], row["error"]) == ("queued", 0, None)
    world.drain()
    assert ann.get("/api/jobs").json()[0]["status"] == "complete"
    assert [each.cycle for each in app.job(job).attempts()] == [0, 0, 0, 1]


def test_what_users_see_is_one_line_without_paths_or_traces(visitors, world, gateway, tmp_path):
    ann, _ = visitors
    job = upload(ann)
    source_of(app.job(job).arguments()["document"]).unlink()
    gateway.told(status=500)
    upload(ann)
    world.drain()
    shown = ann.get("/api/jobs").text + ann.get("/").text + ann.get(f"/api/jobs/{job}").text
    assert "GW_5XX" in shown
    for hidden in (str(tmp_path), "Traceback", "127.0.0.1", "httpx2", ".py"):
        assert hidden not in shown


def test_a_conversion_that_takes_a_day_is_given_up(visitors, world, gateway):
    ann, _ = visitors
    app.upstreams.hold("gateway")
    upload(ann)
    assert "Converter busy — jobs will resume automatically." in ann.get("/").text
    world.advance(86_401)
    (row,) = ann.get("/api/jobs").json()
    assert (row["status"], row["error"]["code"]) == ("failed", "EXPIRED")


def test_the_page_shows_the_application_as_it_is():
    code = Path("examples/converter/app.py").read_text()
    shown = code[code.index("@app.task(") : code.index("@app.classifier")]
    assert shown.strip() in Path("docs/examples/converter.md").read_text()
