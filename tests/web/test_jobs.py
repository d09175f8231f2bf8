"""Jobs over HTTP: asking, finding, retry, cancel, and what happened to them."""

from datetime import timedelta

import pytest

from seawall import access
from seawall.model import Outcome
from seawall.store import Wanted


def ask(world, role="owner", key=None, **body):
    headers = {} if key is None else {"idempotency-key": key}
    return world.post("/api/jobs", role, json={"task": "add", **body}, headers=headers)


# --- asking -----------------------------------------------------------------------------------


def test_a_job_is_asked_for_in_the_name_of_the_tokens_owner(world):
    answer = ask(world, arguments={"a": 1}, tags=["x"])

    assert answer.status_code == 201
    job = world.app.job(answer.json()["job"]).job()
    assert (job.owner, job.task, job.tags) == ("ann", "add", ("x",))
    assert answer.headers["location"] == f"/api/jobs/{job.id}"
    assert world.store.arguments(job.id) == '{"a":1}'


def test_the_callers_request_id_goes_with_the_job(world):
    headers = {"x-request-id": "checkout-77"}
    answer = world.post(
        "/api/jobs", "owner", json={"task": "add", "arguments": {"a": 1}}, headers=headers
    )
    world.end(answer.json()["job"])

    assert answer.headers["x-request-id"] == "checkout-77"
    (attempt,) = world.app.job(answer.json()["job"]).attempts()
    assert attempt.caller_request_id == "checkout-77"


def test_the_same_key_is_the_same_job_and_with_other_arguments_a_conflict(world):
    first = ask(world, key="k", arguments={"a": 1})
    again = ask(world, key="k", arguments={"a": 1})
    other = ask(world, key="k", arguments={"a": 2})

    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 409)
    assert again.json() == {"job": first.json()["job"], "created": False}
    assert other.json()["code"] == "key_conflict"
    assert str(first.json()["job"]) not in other.json()["detail"]


def test_owners_have_keys_of_their_own(world):
    hers = ask(world, "owner", key="k", arguments={"a": 1})
    his = ask(world, "other", key="k", arguments={"a": 2})

    assert (hers.status_code, his.status_code) == (201, 201)


def test_a_slash_in_an_owners_name_makes_no_two_keys_one(world):
    found = []
    for owner, key, a in (("a", "b/c", 1), ("a/b", "c", 2), ("a%2Fb", "c", 3)):
        word, _ = access.made(world.store, scope="owner", owner=owner)
        headers = {"authorization": f"Bearer {word}", "idempotency-key": key}
        body = {"task": "add", "arguments": {"a": a}}
        found.append(world.client.post("/api/jobs", headers=headers, json=body).status_code)

    assert found == [201, 201, 201]


def test_a_key_that_an_applications_job_has_tells_nothing_of_it(world):
    world.job("bob", key="ann/k")

    answer = ask(world, "owner", key="k", arguments={"a": 1})

    assert answer.status_code == 409


@pytest.mark.parametrize("key", ["", "a\tb", "é" * 201])
def test_a_key_that_is_none_is_refused(world, key):
    answer = world.post(
        "/api/jobs",
        "owner",
        json={"task": "add", "arguments": {"a": 1}},
        headers={"idempotency-key": key.encode()},
    )
    assert answer.status_code == 422, answer.text


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"arguments": {"a": "x"}}, "add: a: Input should be a valid integer"),
        ({"arguments": {}}, "a: Field required"),
        ({"arguments": {"a": 1, "z": 1}}, "z: Extra inputs are not permitted"),
        ({"arguments": {"a": 1}, "run_after": "2026-01-01T00:00:00"}, "run_after"),
        ({"arguments": {"a": 1}, "priority": 9}, "priority"),
        ({"arguments": [1]}, "arguments"),
        ({"arguments": {"a": 1}, "tags": ["x\u0000"]}, "tags"),
    ],
)
def test_what_the_task_does_not_take_is_refused_in_a_line(world, body, said):
    answer = ask(world, **body)

    assert answer.status_code == 422
    assert said in answer.json()["detail"]
    assert "\n" not in answer.json()["detail"]


@pytest.mark.parametrize("task", ["nope", "private"])
def test_a_task_that_does_not_allow_it_is_not_there(world, task):
    answer = ask(world, task=task)

    assert answer.status_code == 404
    assert answer.json()["code"] == "no_task"


def test_a_body_that_is_no_json_is_refused(world):
    headers = {"content-type": "application/json"}
    answer = world.post("/api/jobs", "owner", content=b"{not json", headers=headers)

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"].startswith("body: not JSON: ")
    assert answer.json()["detail"].endswith(", at character 1")


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", None])
def test_a_body_that_is_not_said_to_be_json_is_told_which_header_is_missing(world, kind):
    headers = {} if kind is None else {"content-type": kind}
    body = b'{"task": "add", "arguments": {"a": 1}}'
    answer = world.post("/api/jobs", "owner", content=body, headers=headers)

    assert answer.status_code == 422
    assert "send the header Content-Type: application/json" in answer.json()["detail"]


def test_types_are_read_as_json_has_them(make_world):
    world = make_world()

    @world.app.task(http=True, name="typed")
    def typed(blob: bytes, span: timedelta) -> None: ...

    answer = world.post(
        "/api/jobs", "owner", json={"task": "typed", "arguments": {"blob": "aGk=", "span": 90}}
    )

    assert answer.status_code == 201, answer.text
    assert '"aGk="' in world.store.arguments(answer.json()["job"])


# --- finding ----------------------------------------------------------------------------------


def test_a_list_comes_in_parts(world):
    jobs = [world.job() for _ in range(5)]
    found, after = [], ""
    while after is not None:
        part = world.get(f"/api/jobs?limit=2{after}").json()
        found += [each["id"] for each in part["items"]]
        after = None if part["next"] is None else f"&after={part['next']}"

    assert found == jobs[::-1]


@pytest.mark.parametrize("path", ["/api/jobs", "/api/dead-letters", "/api/runs"])
def test_a_place_or_a_number_that_is_none_is_refused(world, path):
    for query, status in {"after=nonsense": 404, "after=%00": 404, "limit=0": 422}.items():
        answer = world.get(f"{path}?{query}")
        assert (answer.status_code, answer.json()["status"]) == (status, status)


@pytest.mark.parametrize("query", ["state=lost", "run=x", "run=9007199254740993"])
def test_a_filter_that_is_none_is_refused(world, query):
    assert world.get(f"/api/jobs?{query}").status_code == 422


@pytest.mark.parametrize("path", ["/api/jobs", "/api/dead-letters", "/api/runs"])
def test_a_filter_that_a_list_does_not_know_is_refused_and_not_ignored(world, path):
    answer = world.get(f"{path}?stat=queued")

    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("query.stat: ")


def test_what_no_name_can_be_is_the_name_of_nothing(world):
    world.failed()
    for path in ("/api/jobs", "/api/dead-letters"):
        nothing = world.get(f"{path}?task=%00").json()
        assert (nothing["items"], nothing["next"]) == ([], None)
    assert world.post("/api/queues/%00/pause").status_code == 404


def test_filters_are_those_of_the_application(world):
    world.job(tags=("red",))
    world.job(key="one", task="fails")
    world.failed()

    def ids(query):
        return [each["id"] for each in world.get(f"/api/jobs?{query}").json()["items"]]

    assert ids("tag=red") == [1]
    assert ids("key=one") == [2]
    assert ids("state=failed") == [3]
    assert ids("task=fails&state=failed") == [3]
    assert ids("queue=none") == []


def test_arguments_are_shown_without_secrets_also_to_their_owner(world):
    job = world.job(arguments='{"a":1,"password":"hunter2","note":"Bearer abcdef123456"}')

    shown = world.get(f"/api/jobs/{job}", "owner").json()

    assert shown["arguments"]["a"] == 1
    assert shown["arguments"]["password"] == "[redacted]"
    assert "abcdef123456" not in shown["arguments"]["note"]


def test_what_a_job_came_to(world):
    job = world.job()
    assert world.get(f"/api/jobs/{job}/result", "owner").status_code == 409
    world.end(job, output='{"sum":3}')

    assert world.get(f"/api/jobs/{job}/result", "owner").json() == {
        "job": job, "state": "succeeded", "result": {"sum": 3}, "skip_reason": None, "fault": None,
    }  # fmt: skip


def test_what_a_job_did_not_come_to(world):
    failed, skipped = world.failed(), world.job()
    world.end(skipped, Outcome.SKIPPED, output='"nothing to do"')

    assert world.get(f"/api/jobs/{failed}/result").json()["fault"]["code"] == "TIMEOUT"
    assert world.get(f"/api/jobs/{skipped}/result").json()["skip_reason"] == "nothing to do"


def test_attempts_name_their_worker_only_to_those_who_see_all(world):
    job = world.failed()

    assert world.get(f"/api/jobs/{job}/attempts", "operator").json()[0]["worker"] == "w1"
    assert world.get(f"/api/jobs/{job}/attempts", "owner").json()[0]["worker"] is None


def test_why_tells_an_owner_nothing_of_other_owners_and_names_no_worker(world):
    hers, _his, running = world.failed("ann"), world.failed("bob"), world.job("ann")
    world.store.claim(Wanted("w1", None, ["add"], 1, 60))

    def why(job, role):
        return " ".join(world.get(f"/api/jobs/{job}/why", role).json()["lines"])

    assert "1 other failed alike" in why(hers, "operator")
    assert "alike" not in why(hers, "owner")
    assert "w1" in why(running, "operator")
    assert "w1" not in why(running, "owner")
    assert "running" in why(running, "owner")


def test_why_says_it_in_words(world):
    job = world.job()

    assert "no worker" in " ".join(world.get(f"/api/jobs/{job}/why").json()["lines"]).lower()


# --- what happened ----------------------------------------------------------------------------


def log(world, job):
    return [each["event"] for each in world.get(f"/api/jobs/{job}/events").json()]


def test_a_jobs_event_log_tells_its_whole_life(world):
    job = world.failed()
    world.post(f"/api/jobs/{job}/retry", "owner")
    assert log(world, job) == ["queued", "running", "failed", "redriven"]
    world.end(job, output="3")

    told = world.get(f"/api/jobs/{job}/events").json()

    assert log(world, job) == ["queued", "running", "failed", "redriven", "running", "complete"]
    assert told[2]["meta"]["fault_code"] == "TIMEOUT"
    assert [each["attempt"] for each in told] == [None, 1, 1, None, 2, 2]


def test_what_ended_without_an_attempt_is_in_the_log(world):
    cancelled, late = world.job(), world.job(deadline_seconds=0.0)
    world.store.cancel([cancelled])
    world.store.expire()

    assert log(world, cancelled) == ["queued", "cancelled"]
    assert log(world, late) == ["queued", "expired"]
    world.app.redrive(late)
    assert log(world, late) == ["queued", "expired", "redriven"]


def test_a_retry_and_a_running_job_are_in_the_log(world):
    job = world.job()
    world.end(job, Outcome.RETRIED, delay_seconds=0.0)
    world.store.claim(Wanted("w2", None, ["add"], 10, 60))

    assert log(world, job) == ["queued", "running", "retry", "running"]


# --- retry and cancel -------------------------------------------------------------------------


def test_a_retry_clears_the_fault_and_keeps_the_history(world):
    job = world.failed()

    answer = world.post(f"/api/jobs/{job}/retry", "owner")

    assert answer.json() == {"job": job, "state": "queued"}
    found = world.app.job(job).job()
    assert (found.last_fault, found.tries, found.cycle, found.seq) == (None, 0, 1, 1)
    assert len(world.app.job(job).attempts()) == 1
    assert world.app.dead_letter(job).handled_by == "ann"


def test_only_a_failed_job_is_retried(world):
    job = world.job()

    answer = world.post(f"/api/jobs/{job}/retry", "owner")

    assert answer.status_code == 409
    assert answer.json()["code"] == "not_failed"


def test_a_job_whose_source_is_gone_is_not_retried_and_the_reason_is_told(world):
    job = world.failed(arguments='{"what":"gone"}')

    answer = world.post(f"/api/jobs/{job}/retry", "owner")

    assert answer.status_code == 409
    assert answer.json()["code"] == "precondition_failed"
    assert "the source is gone" in answer.json()["detail"]
    assert world.app.job(job).state == "failed"


def test_a_precondition_that_breaks_is_a_refusal_too(make_world):
    world = make_world()

    @world.app.tasks["add"].retry_when
    def breaks(a: int, b: int = 2) -> bool:
        raise OSError("token=sk-abcdef1234567890 at /srv/secret/place")

    job = world.failed(task="add", arguments='{"a":1}')
    answer = world.post(f"/api/jobs/{job}/retry", "owner")

    assert answer.status_code == 409
    assert answer.json()["code"] == "precondition_unknown"
    assert "sk-abcdef" not in answer.text
    assert "/srv" not in answer.text


def test_of_two_who_retry_at_once_one_does_it(world):
    job = world.failed()

    found = [world.post(f"/api/jobs/{job}/retry", "owner").status_code for _ in range(2)]

    assert found == [200, 409]


def test_a_job_is_cancelled_once(world):
    job = world.job()

    found = [world.post(f"/api/jobs/{job}/cancel", "owner") for _ in range(2)]

    assert [each.status_code for each in found] == [200, 409]
    assert found[0].json() == {"job": job, "state": "cancelled"}
    assert found[1].json()["code"] == "already_ended"
