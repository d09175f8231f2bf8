"""The service in memory, on a clock that only moves when it is told to."""

import pytest
from api import api
from fastapi.testclient import TestClient
from jobs import app

ANN, BOB = {"x-user": "ann"}, {"x-user": "bob"}


@pytest.fixture
def world(seawall_in_memory, provider):
    return seawall_in_memory(app)


def test_a_refused_call_is_handed_over_and_done_by_workers(world):
    client = TestClient(api)
    told = client.post("/summaries", json={"text": "what there is to say"}, headers=ANN)
    assert told.status_code == 202  # the provider refuses its first call: nobody waits for that
    place = told.headers["Location"]
    assert client.get(place, headers=ANN).json()["state"] == "queued"
    world.drain()
    assert client.get(place, headers=ANN).json()["result"]["summary"] == "short"
    assert client.get(place, headers=BOB).status_code == 404  # it is ann's

    told = client.post("/summaries", json={"text": "more of it"}, headers=ANN)
    assert (told.status_code, told.json()["summary"]) == (200, "short")


def test_what_is_no_request_is_answered_in_one_line(world):
    told = TestClient(api).post("/summaries", json={"text": 17}, headers=ANN)
    assert (told.status_code, told.json()["code"]) == (422, "INVALID_REQUEST")
