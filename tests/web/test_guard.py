"""What every request passes through: ids, bounds, headers, and what is told when things break."""

import json
import logging
import re

import pytest

from seawall.errors import StoreUnavailableError
from seawall.web.rates import Rates

HEADERS = {
    "content-security-policy": "default-src 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}


def need_problem(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert body["request_id"] == answer.headers["x-request-id"]
    assert body["detail"]
    return body


@pytest.mark.parametrize("path", ["/health", "/api/jobs", "/none", "/login", "/api/openapi.json"])
def test_every_answer_has_an_id_and_the_headers_that_keep_browsers_out_of_mischief(world, path):
    answer = world.get(path, "nobody")

    assert re.fullmatch(r"[0-9a-f]{16}", answer.headers["x-request-id"])
    for name, value in HEADERS.items():
        assert answer.headers[name].startswith(value), name
    assert "server" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("abc-1", True),
        ("a" * 201, False),
        ("a b", False),
        ("", False),
        ("sk-abcdef1234567890", False),
    ],
)
def test_the_callers_id_is_kept_where_it_is_one(world, given, kept):
    answer = world.get("/health", headers={"x-request-id": given})

    assert (answer.headers["x-request-id"] == given) is kept


def test_what_is_not_there_or_cannot_be_done_is_a_problem(world):
    need_problem(world.get("/none"), 404)
    wrong = world.ask("operator", "DELETE", "/api/jobs/1")
    need_problem(wrong, 405)
    assert wrong.headers["allow"] == "GET"
    assert world.ask("operator", "DELETE", "/api/jobs").headers["allow"] == "GET, POST"


def test_a_request_that_says_it_is_too_large_is_not_read(make_world):
    world = make_world(request_bytes=2_000)

    body = need_problem(world.post("/api/jobs", content=b"x" * 2_001), 413)

    assert body["code"] == "too_large"


def test_a_request_that_does_not_say_so_is_cut_off(make_world):
    world = make_world(request_bytes=2_000)

    def parts():
        for _ in range(10):
            yield b" " * 500

    headers = {"content-type": "application/json"}
    need_problem(world.post("/api/jobs", "owner", content=parts(), headers=headers), 413)


def test_strangers_are_turned_away_before_anything_is_read(make_world):
    world = make_world()

    def parts():
        raise AssertionError("it was read")
        yield b""

    need_problem(world.ask("nobody", "POST", "/api/jobs", content=parts()), 401)


def test_who_asks_too_often_is_told_when_to_come_back(make_world):
    world = make_world(requests_per_second=0.1)
    found = [world.get("/api/jobs", "owner") for _ in range(15)]  # a slow machine gets some more

    assert {each.status_code for each in found[:10]} == {200}
    need_problem(found[-1], 429)
    assert 1 <= int(found[-1].headers["retry-after"]) <= 11
    assert world.get("/api/jobs", "other").status_code == 200


def test_strangers_are_bounded_by_their_address(make_world):
    world = make_world(requests_per_second=0.1)

    assert [world.get("/health", "nobody").status_code for _ in range(15)][-1] == 429


def test_wrong_tokens_are_throttled_and_right_ones_that_are_known_are_not(world):
    assert world.get("/api/jobs", "owner").status_code == 200
    wrong = {"authorization": "Bearer sw_000000000000_" + "0" * 64}
    found = [world.client.get("/api/jobs", headers=wrong).status_code for _ in range(15)]

    assert set(found[:10]) == {401}
    assert found[-1] == 429
    assert world.get("/api/jobs", "owner").status_code == 200


def test_a_stranger_at_the_same_address_does_not_lock_out_who_was_known(world, monkeypatch):
    assert world.get("/api/jobs", "owner").status_code == 200
    signed_in = world.client.post("/login", data={"token": world.words["operator"]})
    cookie = {"cookie": signed_in.headers["set-cookie"].partition(";")[0]}
    world.client.cookies.clear()
    wrong = {"authorization": "Bearer sw_000000000000_" + "0" * 64}
    while world.client.get("/api/jobs", headers=wrong).status_code == 401:
        pass
    monkeypatch.setattr("seawall.web.access.BELIEVED_SECONDS", -1.0)

    assert world.get("/api/jobs", "owner").status_code == 200
    assert world.client.get("/api/jobs", headers=cookie).status_code == 200
    (known,) = [each.id for each in world.store.accesses() if each.id in world.words["owner"]]
    world.store.revoke_access(known)
    assert world.get("/api/jobs", "owner").status_code in {401, 429}
    assert world.get("/api/jobs", "owner").status_code == 429, "now it is a guess like any other"


@pytest.mark.parametrize("header", ["Basic YW5uOng=", "Bearer", "Bearer nonsense", "", "Bearer é"])
def test_what_is_no_token_is_401(world, header):
    answer = world.client.get("/api/jobs", headers={"authorization": header.encode()})

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_store_that_does_not_answer_is_503_and_its_words_are_kept_in(world, monkeypatch):
    def away(*_, **__):
        raise StoreUnavailableError("postgresql://ann:hunter2@db.internal/jobs: no answer")

    assert world.get("/api/jobs").status_code == 200
    monkeypatch.setattr(world.store, "page", away)
    answer = world.get("/api/jobs")

    body = need_problem(answer, 503)
    assert answer.headers["retry-after"] == "1"
    assert body["code"] == "store_unavailable"
    assert "db.internal" not in answer.text


def test_readiness_says_when_the_store_is_away(world, monkeypatch):
    assert world.get("/ready", "nobody").status_code == 200

    def away():
        raise StoreUnavailableError("no answer")

    monkeypatch.setattr(world.store, "need_current", away)
    assert need_problem(world.get("/ready", "nobody"), 503)["code"] == "not_ready"
    assert world.get("/health", "nobody").status_code == 200


def test_a_bug_is_a_bare_500_and_its_log_line_has_the_id(world, monkeypatch, caplog):
    def breaks(*_, **__):
        raise RuntimeError("password=hunter2 in /srv/app/secret.py")

    monkeypatch.setattr(world.store, "page", breaks)
    with caplog.at_level(logging.INFO, "seawall"):
        answer = world.get("/api/jobs", "owner")

    body = need_problem(answer, 500)
    (record,) = (each for each in caplog.records if each.seawall["event"] == "request_broke")
    assert record.seawall["request_id"] == body["request_id"]
    assert record.seawall["route"] == "/api/jobs"
    assert "hunter2" not in answer.text + caplog.text
    assert "/srv/app" not in answer.text + caplog.text


def test_log_lines_tell_routes_and_not_paths(world, caplog):
    with caplog.at_level(logging.DEBUG, "seawall"):
        world.get("/api/jobs/77/why?token=sk-abcdef1234567890", "owner")
        world.get("/sk-abcdef1234567890", "nobody")
        world.post("/api/jobs", "owner", json={"task": "add", "arguments": {"a": 1}})

    told = [each.seawall for each in caplog.records]
    assert [each["event"] for each in told] == [
        "request_refused", "request_refused", "request_changed",
    ]  # fmt: skip
    assert told[0]["route"] == "/api/jobs/{job_id:int}/why"
    assert told[2]["owner"] == "ann"
    assert "sk-abcdef" not in json.dumps(told)


# --- development mode -------------------------------------------------------------------------


@pytest.fixture
def dev(make_world):
    return make_world(open_to_anybody=True)


def test_in_development_nobody_is_asked_for_a_token(dev):
    assert dev.get("/api/jobs", "nobody").status_code == 200
    answer = dev.post("/api/jobs", "nobody", json={"task": "add", "arguments": {"a": 1}})
    assert answer.status_code == 201
    assert dev.app.job(answer.json()["job"]).job().owner is None


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[", "192.0.2.1"])
def test_in_development_a_name_that_was_rebound_is_not_answered_to(dev, host):
    need_problem(dev.get("/api/jobs", "nobody", headers={"host": host}), 421)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:8080"])
def test_in_development_loopback_is(dev, host):
    assert dev.get("/api/jobs", "nobody", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}],
)
def test_in_development_no_other_site_writes_through_the_browser(dev, headers):
    job = dev.job(None)

    need_problem(dev.post(f"/api/jobs/{job}/cancel", "nobody", headers=headers), 403)
    own = {"origin": "http://localhost:8080", "sec-fetch-site": "same-origin"}
    assert dev.post(f"/api/jobs/{job}/cancel", "nobody", headers=own).status_code == 200


# --- rates ------------------------------------------------------------------------------------


def test_a_rate_allows_a_burst_and_then_so_many_a_second():
    rates = Rates(2.0, 3.0)
    assert [rates.wait("a", 100.0) for _ in range(4)] == [0, 0, 0, pytest.approx(0.5)]
    assert rates.wait("a", 100.5) == 0
    assert rates.wait("a", 100.5) == pytest.approx(0.5)
    assert rates.wait("b", 100.5) == 0


def test_only_so_many_names_are_remembered():
    rates = Rates(1.0, 1.0, most=3)
    for name in "abcd":
        rates.wait(name, 0.0)
    assert len(rates._accounts) == 3
    assert rates.wait("a", 0.0) == 0
    assert rates.wait("d", 0.0) > 0
