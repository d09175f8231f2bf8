"""FastAPI: a real application, served by uvicorn, asked by real clients."""

import logging
import threading

import httpx
import pytest

from seawall import (
    CONVERTER_CODES,
    ConfigurationError,
    FaultError,
    Seawall,
    State,
    StoreUnavailableError,
    Worker,
)
from seawall.model import Outcome
from seawall.store import open_store
from tests.life.world import eventually
from tests.sync.jobs import application
from tests.sync.upstream import Said
from tests.sync.web import served, web

SECRET = "sk-live-Zq81hT0pmQ4vXw7LdN2cRb5y"
PLAIN_SECRET = "correct-horse-battery"
"""Of no shape that anybody could recognise; in arguments."""
BODY_SECRET = "tr0ub4dor-and-3"
"""As well, in what upstreams say: operators may see their error's line, users nothing of it."""


@pytest.fixture(params=["file", "postgres18"])
def kind(request):
    return request.param


@pytest.fixture
def client(url, app):
    """A client of the application without a worker, as Ann."""
    with served(web(app)) as address, httpx.Client(base_url=address, timeout=60) as made:
        made.headers["x-user"] = "ann"
        yield made


def asked(client, url, **more):
    return client.post("/asks", json={"url": url, **more})


def test_a_call_that_goes_well_is_200_with_its_value(client, upstream):
    answer = asked(client, upstream().url)
    assert (answer.status_code, answer.json()) == (200, {"answer": "short"})
    answer = client.post("/looks", params={"url": upstream().url})
    assert (answer.status_code, answer.json()) == (200, {"answer": "short"})


def test_one_that_is_handed_over_is_202_and_a_worker_in_the_web_process_finishes_it(url, upstream):
    app = application(url, poll_seconds=0.05)
    service = upstream(502, 502)
    with served(web(app, worker=True)) as address, httpx.Client(base_url=address) as client:
        client.headers["x-user"] = "ann"
        answer = asked(client, service.url)
        assert answer.status_code == 202
        assert int(answer.headers["retry-after"]) >= 1
        place = answer.headers["location"]
        assert place == f"/jobs/{answer.json()['id']}"
        assert answer.json()["state"] == "queued"

        def ended():
            found = client.get(place)
            assert found.status_code == 200
            return found.json() if found.json()["state"] == "succeeded" else None

        status = eventually(ended)
        assert status == {
            "id": answer.json()["id"], "state": "succeeded", "result": {"answer": "short"},
        }  # fmt: skip
        assert client.get(place, headers={"x-user": "bob"}).status_code == 404
        assert client.get(place, headers={"x-user": ""}).status_code == 404
    with open_store(url) as store:
        assert store.workers(within_seconds=60) == [], "it has left"
        assert store.verify().violations == ()


def test_a_failure_is_answered_by_its_public_code(client, upstream, app):
    answer = asked(client, upstream(400).url)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body == {
        "type": "about:blank", "title": "This request cannot be processed.", "status": 422,
        "job": body["job"], "code": "INVALID_REQUEST", "retryable": False,
    }  # fmt: skip
    status = client.get(f"/jobs/{body['job']}").json()
    assert status["state"] == "failed"
    assert status["error"] == {
        "code": "INVALID_REQUEST", "message": "This request cannot be processed.", "retryable": False,
    }  # fmt: skip


def test_a_rate_limit_is_202_and_says_when_to_ask_again(client, upstream):
    answer = asked(client, upstream(Said(429, {"retry-after": "30"})).url)
    assert answer.status_code == 202
    assert int(answer.headers["retry-after"]) >= 30
    status = client.get(answer.headers["location"])
    assert int(status.headers["retry-after"]) >= 20
    assert status.json() == {"id": answer.json()["id"], "state": "queued"}


def test_bad_input_is_422_in_one_line_that_quotes_nothing(client, upstream):
    for answer in (
        asked(client, [PLAIN_SECRET]),
        asked(client, "u", secret=[PLAIN_SECRET]),
        asked(client, "u", nonsense=PLAIN_SECRET),
        client.post("/looks", params={"url": "u", "pages": PLAIN_SECRET}),
        client.post("/asks", content=PLAIN_SECRET),
        asked(client, "u", inline_seconds=1e9),
        client.get("/jobs/0"),
        client.get("/jobs/99999999999999999999"),
        client.get(f"/jobs/{PLAIN_SECRET}"),
    ):
        assert answer.status_code == 422, answer.text
        assert answer.json()["code"] == "INVALID_REQUEST"
        assert "\n" not in answer.json()["title"]
        assert PLAIN_SECRET not in answer.text


def test_what_is_not_there_is_404_whoever_asks(client):
    answer = client.get("/jobs/999")
    assert (answer.status_code, answer.json()["title"]) == (404, "There is no such job.")


def test_odd_ends_have_statuses_of_their_own(client, upstream, app):
    service = upstream()
    assert asked(client, service.url, key="k").status_code == 200
    conflict = asked(client, service.url + "?other", key="k")
    assert (conflict.status_code, conflict.json()["code"]) == (409, "CONFLICT")
    skipped = client.post("/asks", json={"task": "odd", "what": "skip"})
    assert (skipped.status_code, skipped.text) == (204, "")


def test_a_store_that_is_away_is_503(client, upstream, app, monkeypatch):
    def away(_jobs):
        raise StoreUnavailableError("connection to host db-7.internal failed")

    monkeypatch.setattr(app.store, "enqueue", away)
    answer = asked(client, upstream().url)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "db-7" not in answer.text


def test_the_callers_request_id_is_on_the_attempt_and_in_the_log(client, upstream, app, says):
    service = upstream(502)
    answer = client.post(
        "/asks", json={"url": service.url, "key": "k"}, headers={"x-request-id": "req-77"}
    )
    assert answer.status_code == 200
    (job,) = app.jobs(key="k")
    assert {a.caller_request_id for a in app.job(job.id).attempts()} == {"req-77"}
    (told,) = says.said("retry_scheduled")
    assert (told["request_id"], told["attempt"], told["max_attempts"]) == ("req-77", 1, 2)
    bad = {"x-request-id": "x" * 300}
    assert client.post("/asks", json={"url": service.url}, headers=bad).status_code == 200


def test_no_secret_is_in_a_response_or_in_a_log(client, upstream, app, caplog):
    caplog.set_level(logging.DEBUG)
    body = f'{{"error": {{"message": "key {SECRET} and {BODY_SECRET} are wrong"}}}}'
    headers = {"x-secret": SECRET, "www-authenticate": f"Bearer {SECRET}"}
    says = [Said(status, headers, body) for status in (400, 401, 403, 404, 422, 500, 502, 503)]
    texts = []
    client.headers["authorization"] = f"Bearer {SECRET}"
    for said in says:
        service = upstream(said, said)
        for task in ("ask", "look"):
            answer = asked(client, service.url, task=task, secret=f"{SECRET} {PLAIN_SECRET}")
            texts.append(f"{answer.text} {dict(answer.headers)}")
            if "location" in answer.headers:
                texts.append(client.get(answer.headers["location"]).text)
    assert not any(BODY_SECRET in text for text in texts)
    ours = ("seawall", "uvicorn", "fastapi")
    records = [record for record in caplog.records if record.name.startswith(ours)]
    said = [*texts, *[record.getMessage() for record in records]]
    said += [str(getattr(record, "seawall", "")) for record in records]
    assert len(said) > 40
    for text in said:
        assert SECRET not in text
        assert PLAIN_SECRET not in text
        assert "Traceback" not in text


def test_the_worker_of_a_web_process_finishes_what_it_runs_before_it_ends(url):
    app = application(url, poll_seconds=0.05)
    begun = threading.Event()

    @app.task
    def slow() -> str:
        begun.set()
        threading.Event().wait(0.7)
        return "done"

    with served(web(app, worker=True)):
        job = slow.enqueue()
        assert begun.wait(40)
    again = Seawall(url)
    assert again.job(job.id).state is State.SUCCEEDED
    assert [a.outcome for a in again.job(job.id).attempts()] == [Outcome.SUCCEEDED]
    again.close()


def test_a_lifespan_that_opens_nothing_leaves_the_file_to_the_callers_own_connection(tmp_path):
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    from seawall.fastapi import lifespan

    app = Seawall(f"sqlite:///{tmp_path}/jobs.db")
    with TestClient(FastAPI(lifespan=lifespan(app, opens=False))):
        assert not (tmp_path / "jobs.db").exists()
    with TestClient(FastAPI(lifespan=lifespan(app))):
        assert (tmp_path / "jobs.db").exists()
    with pytest.raises(ConfigurationError, match="a worker needs the store"):
        lifespan(app, opens=False, worker=True)


def test_an_owner_sends_a_failed_job_again_while_what_it_needs_is_there(url, tmp_path):
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    from seawall.fastapi import handle_errors, router
    from tests.sync.web import signed_in

    app, source = Seawall(url), tmp_path / "a.pdf"

    @app.task(policy="sample-filter")
    def read(path: str) -> str:
        raise FaultError("INVALID_INPUT", "no good")

    @read.retry_when
    def is_there(path: str) -> bool | str:
        return source.exists() or "the file is gone"

    api = FastAPI()
    handle_errors(api)
    api.include_router(router(app, owner=signed_in, prefix="/api/jobs", retry=True))
    job = read.using(owner="ann").enqueue("a.pdf")
    assert job.arguments() == {"path": "a.pdf"}
    place, ann = f"/api/jobs/{job.id}/retry", {"x-user": "ann"}
    client = TestClient(api)
    told = client.post(place, headers=ann)
    assert (told.status_code, told.json()["code"]) == (409, "NOT_FAILED")
    Worker(app, drain=True).run()
    assert client.post(place, headers={"x-user": "bob"}).status_code == 404
    told = client.post(place, headers=ann)
    assert (told.status_code, told.json()["code"]) == (409, "PRECONDITION_FAILED")
    assert told.json()["title"] == f"job {job.id}: the file is gone" == app.retry_refusal(job.id)
    source.touch()
    assert app.retry_refusal(job.id) is None
    told = client.post(place, headers=ann)
    assert (told.status_code, told.json()) == (200, {"id": job.id, "state": "queued"})
    assert (job.job().cycle, job.job().last_fault) == (1, None)
    app.close()


def test_without_being_asked_for_there_is_no_way_to_retry(client, app):
    job = app.tasks["ask"].using(owner="ann").enqueue("http://127.0.0.1:1")
    assert client.post(f"/jobs/{job.id}/retry").status_code in (404, 405)


def test_a_fault_that_a_route_raises_is_answered_by_its_public_code():
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    from seawall.fastapi import handle_errors

    api = FastAPI()
    handle_errors(api, codes=CONVERTER_CODES)

    @api.post("/files")
    def files() -> None:
        raise FaultError("INVALID_INPUT", f"no PDF, but {SECRET}", detail="NOT_PDF")

    told = TestClient(api).post("/files")
    assert (told.status_code, told.json()["code"]) == (415, "NOT_PDF")
    assert told.json()["title"] == "This file is not a PDF."
    assert SECRET not in told.text
