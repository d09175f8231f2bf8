"""Signing in: a token becomes a cookie, which is worth as much and no more."""

import re
import time

import pytest

from seawall.web import access
from seawall.web.sessions import COOKIE, Sessions


def sign_in(world, role="owner", **how):
    return world.client.post("/login", data={"token": world.words[role]}, **how)


@pytest.fixture(autouse=True)
def no_cookies_left(world):
    world.client.cookies.clear()


def csrf_of(world):
    return re.search(r'name="csrf" value="(\w+)"', world.client.get("/login").text)[1]


def test_a_token_becomes_a_cookie_that_scripts_cannot_read(world):
    answer = sign_in(world)

    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Path=/" in cookie
    assert "Secure" not in cookie  # http://localhost
    assert world.words["owner"] not in cookie
    assert world.client.get("/api/jobs").status_code == 200
    assert "You are signed in as ann, owner" in world.client.get("/login").text


def test_by_https_the_cookie_stays_there(world):
    answer = sign_in(world, headers={"host": "jobs.example"})
    assert "Secure" not in answer.headers["set-cookie"]
    world.client.base_url = "https://localhost:8080"
    answer = sign_in(world)

    assert "Secure" in answer.headers["set-cookie"]
    assert answer.headers["strict-transport-security"]


def test_a_write_by_cookie_needs_the_csrf_word(world):
    sign_in(world)
    job = world.job()
    path = f"/api/jobs/{job}/cancel"

    assert world.client.post(path).json()["code"] == "csrf"
    assert world.client.post(path, headers={"x-csrf-token": "0" * 64}).status_code == 403
    headers = {"x-csrf-token": csrf_of(world)}
    cross = {**headers, "sec-fetch-site": "cross-site"}
    assert world.client.post(path, headers=cross).status_code == 403
    assert world.client.post(path, headers=headers).status_code == 200


def test_the_csrf_word_of_one_session_is_not_that_of_another(world):
    sign_in(world)
    first = csrf_of(world)
    sign_in(world)

    assert csrf_of(world) != first


def test_a_write_by_token_needs_none(world):
    job = world.job()
    assert world.post(f"/api/jobs/{job}/cancel", "owner").status_code == 200


def test_signing_out_removes_the_cookie_and_needs_the_csrf_word(world):
    sign_in(world)
    assert world.client.post("/logout").status_code == 403
    answer = world.client.post("/logout", data={"csrf": csrf_of(world)})

    assert answer.status_code == 303
    assert COOKIE not in world.client.cookies
    assert world.client.get("/api/jobs").status_code == 401


def test_a_wrong_token_is_told_on_the_page_and_throttled(world):
    found = [world.client.post("/login", data={"token": "nonsense"}) for _ in range(15)]

    assert {each.status_code for each in found[:10]} == {401}
    assert found[-1].status_code == 429
    assert "not known" in found[0].text
    assert "set-cookie" not in found[0].headers
    assert found[-1].headers["retry-after"]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://["])
def test_another_site_signs_nobody_in(world, origin):
    assert sign_in(world, headers={"origin": origin}).status_code == 403


@pytest.mark.parametrize("body", [b"token=" + b"x" * 5_000, b"\xff", b"a=1&" * 50, b""])
def test_a_form_that_is_none_is_refused(world, body):
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = world.client.post("/login", content=body, headers=headers)
    assert answer.status_code in {400, 401, 413}


def test_the_page_runs_nothing_and_loads_only_our_style(world):
    answer = world.client.get("/login")
    policy = answer.headers["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "<script" not in answer.text
    assert "style-src 'self'" in policy


def test_a_revoked_token_ends_its_sessions(world, monkeypatch):
    monkeypatch.setattr(access, "BELIEVED_SECONDS", 0.0)
    sign_in(world)
    assert world.client.get("/api/jobs").status_code == 200
    for each in world.store.accesses():
        world.store.revoke_access(each.id)

    assert world.client.get("/api/jobs").status_code == 401
    assert world.get("/api/jobs", "owner").status_code == 401
    assert "Sign in" in world.client.get("/login").text


def test_that_a_token_was_used_is_noted(world):
    world.get("/api/jobs", "owner")

    used = {each.id for each in world.store.accesses() if each.last_used_at is not None}
    assert used == {world.words["owner"].split("_")[1]}


def test_a_cookie_is_good_until_its_end_and_only_as_it_was_made():
    sessions = Sessions("secret", 60)
    now = time.time()
    cookie = sessions.cookie("abc", now)

    assert sessions.known(cookie, now + 59).access_id == "abc"
    assert sessions.known(cookie, now + 61) is None
    assert sessions.known(cookie.replace("abc", "abd"), now) is None
    assert Sessions("other", 60).known(cookie, now) is None
    for wrong in ("", ".", "a.b", "é", cookie + "é", "a.b.c.d"):
        assert sessions.known(wrong, now) is None


def test_two_servers_of_one_store_know_each_others_sessions(make_world, tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    one, other = make_world(url), make_world(url)
    sign_in(one)

    other.client.cookies.set(COOKIE, one.client.cookies[COOKIE])

    assert other.client.get("/api/jobs").status_code == 200
    other.client.cookies.clear()
