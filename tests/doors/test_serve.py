"""`seawall serve` and `seawall token`: real processes, signals, kill -9, and what is refused."""

import json
import signal
import socket
import threading

import httpx
import pytest

from seawall.access import digest, is_token
from seawall.store import open_store
from tests.support.doors import until
from tests.support.processes import free_ports

URL = "sqlite:///jobs.db"
TASKS = """
from seawall import FaultError, Seawall

app = Seawall({url!r})


@app.task(http=True)
def add(a: int, note: str = "") -> int:
    return a


@app.task(http=True, policy="sample-filter")
def leaks(password: str, note: str) -> None:
    raise FaultError(
        "UPSTREAM_ERROR", f"401 for Authorization: Bearer {{password}}; api_key={{password}}",
        raw_output=f"<html>{{password}}</html>",
    )
"""


@pytest.fixture
def app(module):
    return f"{module(TASKS)}:app"


@pytest.fixture
def token(seawall):
    """A new token, of the store in the folder."""

    def make(*words):
        seawall("migrate", "--url", URL)
        return json.loads(seawall("token", "create", "--url", URL, "--json", *words))["token"]

    return make


@pytest.fixture
def serve(start, app):
    """Start a server; where it listens, and its process."""

    def begin(*words, port=None):
        port = port or free_ports(1)[0]
        server = start("serve", "--app", app, "--port", port, *words)
        server.says("server_started")
        return server, f"http://127.0.0.1:{port}"

    return begin


def client(address, word=None):
    headers = {} if word is None else {"authorization": f"Bearer {word}"}
    return httpx.Client(base_url=address, headers=headers, timeout=60, trust_env=False)


# --- tokens -----------------------------------------------------------------------------------


def test_a_token_is_shown_once_and_kept_as_a_hash(seawall):
    seawall("migrate", "--url", URL)
    word = seawall("token", "create", "--owner", "ann", "--url", URL).strip()

    assert is_token(word)
    assert "seawall token revoke" in seawall.err
    assert word not in seawall("token", "list", "--url", URL, "--json")
    assert word not in seawall("token", "list", "--url", URL)
    assert word.encode() not in (seawall.folder / "jobs.db").read_bytes()
    with open_store(URL) as store:
        assert store.access(digest=digest(word)).owner == "ann"


def test_tokens_are_listed_and_revoked(seawall, token):
    token("--owner", "ann", "--expires", "30d")
    token("--scope", "operator")
    listed = json.loads(seawall("token", "list", "--url", URL, "--json"))
    assert [(each["scope"], each["owner"], each["state"]) for each in listed] == [
        ("owner", "ann", "stands"), ("operator", None, "stands"),
    ]  # fmt: skip
    assert listed[0]["expires_at"] is not None

    seawall("token", "revoke", listed[0]["id"], "--url", URL)
    seawall("token", "revoke", listed[0]["id"], "--url", URL, expect=1)

    assert "there is no token" in seawall.err
    assert json.loads(seawall("token", "list", "--url", URL, "--json"))[0]["state"] == "revoked"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "owner: expected a name"),
        (("--owner", "\n"), "owner: "),
        (("--owner", "ann", "--expires", "never"), "--expires"),
        (("--owner", "ann", "--scope", "root"), "scope"),
    ],
)
def test_a_token_of_nothing_is_refused_in_a_line(seawall, words, said):
    seawall("migrate", "--url", URL)
    line = seawall("token", "create", "--url", URL, *words, expect=2)
    assert said in line
    assert len(line.splitlines()) == 1


# --- serving ----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_told_to_stop_and_ends_well(serve, token, number):
    word = token("--owner", "ann")
    server, address = serve()
    with client(address, word) as ann:
        asked = ann.post("/api/jobs", json={"task": "add", "arguments": {"a": 1}})
        assert asked.status_code == 201
        with ann.stream("GET", "/api/events") as live:
            assert next(live.iter_lines()) == "retry: 2000"
            server.tell(number)
            assert server.ended() == 0
    assert "server_stopped" in server.said
    assert "Traceback" not in server.said


def test_what_is_said_for_people_is_not_said_in_json(serve):
    server, address = serve("--log-format", "json", "--dev-no-auth")
    with client(address) as anybody:
        assert anybody.get("/api/jobs").status_code == 200
        assert anybody.get("/api/none").status_code == 404
    server.tell(signal.SIGTERM)
    assert server.ended() == 0
    events = {json.loads(line)["event"] for line in server.said.splitlines()}
    assert events == {"server_started", "request_refused", "server_stopping", "server_stopped"}


@pytest.mark.parametrize(
    ("words", "said"), [((), "no access token stands"), (("--dev-no-auth",), "loopback only")]
)
def test_it_refuses_what_would_leave_jobs_open_to_strangers(seawall, app, words, said):
    public = ("--host", "0.0.0.0", "--port", free_ports(1)[0])  # noqa: S104

    assert said in seawall("serve", "--app", app, *public, *words, expect=2)


def test_with_a_token_it_listens_on_a_public_address(serve, token):
    token("--scope", "operator")
    _, address = serve("--host", "0.0.0.0")  # noqa: S104
    with client(address) as stranger:
        assert stranger.get("/health").status_code == 200
        assert stranger.get("/api/jobs").status_code == 401


def test_a_port_that_is_taken_is_told_in_a_line(seawall, app):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = seawall("serve", "--app", app, "--port", port, expect=2)
    assert f"127.0.0.1:{port}: address already in use" in line
    assert len(line.splitlines()) == 1


def test_nothing_that_was_accepted_is_lost_when_it_is_killed(serve, token):
    word = token("--owner", "ann")
    (port,) = free_ports(1)
    server, address = serve(port=port)
    accepted, asked = [], []
    killed = threading.Event()

    def ask(name):
        with client(address, word) as ann:
            for n in range(10_000):
                body = {"task": "add", "arguments": {"a": n, "note": name}}
                asked.append((name, n))
                try:
                    answer = ann.post(
                        "/api/jobs", json=body, headers={"idempotency-key": f"{name}-{n}"}
                    )
                except httpx.HTTPError:
                    return
                if answer.status_code == 201:
                    accepted.append((f"ann/{name}-{n}", answer.json()["job"]))
                if killed.is_set():
                    return

    threads = [threading.Thread(target=ask, args=(f"t{n}",)) for n in range(8)]
    for each in threads:
        each.start()
    until(lambda: len(accepted) > 200, "jobs come in")
    server.process.kill()
    killed.set()
    for each in threads:
        each.join()
    server.process.wait()

    _, address = serve(port=port)
    with client(address, word) as ann:
        for key, job in accepted[-20:]:
            assert ann.get(f"/api/jobs/{job}").json()["key"] == key
    with open_store(URL) as store:
        ids = [job for _, job in accepted]
        found = {}
        for start in range(0, len(ids), 500):
            found |= store.jobs(ids[start : start + 500])
        assert {(job.key, id_) for id_, job in found.items()} == set(accepted)
        assert len(set(ids)) == len(ids)
        assert sum(store.counts().values()) <= len(asked)
        assert store.verify().ok


SECRETS = ("sk-planted0123456789abcdef", "hunter2-in-a-header-9f8e7d")


def test_no_secret_is_in_any_answer_or_log_line(seawall, serve, token, app):
    word = token("--owner", "ann")
    boss = token("--scope", "operator")
    server, address = serve("--log-level", "debug")
    secret, header = SECRETS
    with client(address, word) as ann, client(address, boss) as olga:
        texts = []

        def said(answer):
            texts.append(f"{answer.headers} {answer.text}")
            return answer

        arguments = {"password": secret, "note": f"Authorization: Bearer {secret}"}
        headers = {"x-api-key": header, "cookie": f"session={header}", "x-request-id": secret}
        job = said(
            ann.post("/api/jobs", json={"task": "leaks", "arguments": arguments}, headers=headers)
        ).json()["job"]
        said(ann.post("/api/jobs", json={"task": "add", "arguments": {"a": secret}}))
        said(ann.post("/api/jobs", json={"task": "leaks", "arguments": {"nope": secret}}))
        said(ann.get("/api/jobs", headers={"authorization": f"Bearer {header}"}))
        said(ann.get(f"/api/none?key={secret}"))
        log = seawall("worker", "--app", app, "--drain", "--log-level", "debug") + seawall.err
        for who in (ann, olga):
            for path in ("", "/attempts", "/events", "/result", "/why"):
                said(who.get(f"/api/jobs/{job}{path}"))
            for path in ("/api/jobs", "/api/dead-letters", "/api/dead-letters/groups"):
                said(who.get(path))
            said(who.get(f"/api/dead-letters/{job}"))
        said(olga.get("/api/upstreams"))
        said(olga.post("/api/dead-letters/redrive", json={"jobs": [job], "dry_run": True}))
        assert '"state":"failed"' in texts[-20]
    server.tell(signal.SIGTERM)
    assert server.ended() == 0
    for text in (*texts, server.said, log):
        for each in (*SECRETS, word, boss, word.split("_")[2], boss.split("_")[2]):
            assert each not in text
