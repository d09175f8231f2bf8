"""On PostgreSQL the server answers as it does on SQLite: every route, by whoever may do it."""

import pytest

from tests.web.conftest import World
from tests.web.test_who_may import TABLE, WHO, prepared

ROLE = {"POST /api/jobs/{job_id:int}/retry": "owner"}


@pytest.fixture(scope="module", params=["16", "18"])
def there(request):
    url = request.getfixturevalue("postgres_fleet").server(request.param).new_url()
    made = World(url)
    yield made
    made.close()


def test_every_route_answers_those_who_may(there):
    for (method, route), row in TABLE.items():
        who = ROLE.get(f"{method} {route}", "operator")
        if route == "/api/events":
            continue  # a stream has no end: test_live
        path, body = prepared(there, method, route)

        answer = there.ask(who, method, path, json=body)

        assert answer.status_code == row[WHO.index(who)], f"{method} {route}: {answer.text}"


def test_others_find_nothing_there_either(there):
    for (method, route), row in TABLE.items():
        if row[WHO.index("other")] == 404:
            path, body = prepared(there, method, route)
            assert there.ask("other", method, path, json=body).status_code == 404, route


def test_jobs_that_come_together_by_the_same_key_are_one(there):
    headers = {"idempotency-key": "once"}
    body = {"task": "add", "arguments": {"a": 1}}
    found = [there.post("/api/jobs", "owner", json=body, headers=headers) for _ in range(3)]

    assert [each.status_code for each in found] == [201, 200, 200]
    assert len({each.json()["job"] for each in found}) == 1
