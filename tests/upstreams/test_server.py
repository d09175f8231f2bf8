"""The upstream of these tests does as it is told, and what it writes down is so."""

import http.client
import math
import threading
import time
from itertools import pairwise

import pytest

from tests.upstreams import server as upstream
from tests.upstreams.server import Server, Service


def call(service: Service, *, job: int = 0, tag: str = "", timeout: float = 10.0):
    """The status of the answer, and what it says about retrying."""
    host = service.url.removeprefix("http://").removesuffix(service.path)
    connection = http.client.HTTPConnection(host, timeout=timeout)
    try:
        connection.request("GET", service.path, headers={"x-job": str(job), "x-tag": tag})
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers["retry-after"]
    finally:
        connection.close()


def together(many: int, do) -> list:
    found: list = []
    threads = [threading.Thread(target=lambda: found.append(do())) for _ in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_each_behaviour_is_what_callers_meet(server: Server):
    service = server.service("/a")
    assert call(service) == (200, None)
    service.does = upstream.failing(500)
    assert call(service) == (500, None)
    service.does = upstream.throttling(3)
    assert call(service) == (429, "3")
    service.does = upstream.unauthorized()
    assert call(service) == (401, None)
    service.does = upstream.poisoned("bad")
    assert (call(service, tag="bad")[0], call(service, tag="good")[0]) == (500, 200)
    service.does = upstream.dead()
    with pytest.raises(ConnectionError):
        call(service)
    assert call(service) == (503, None)
    service.does = upstream.silent()
    with pytest.raises(TimeoutError):
        call(service, timeout=0.1)
    assert [each.status for each in service.calls()[:-1]] == [200, 500, 429, 401, 500, 200, 0, 503]
    assert server.service("/b").calls() == []


def test_a_share_of_errors_is_spread_evenly_and_flapping_takes_turns(server: Server):
    service = server.service("/a")
    service.does = upstream.shaky(0.3)
    statuses = [call(service)[0] for _ in range(40)]
    assert statuses.count(503) == 12
    for start in range(30):
        assert 2 <= statuses[start : start + 10].count(503) <= 4
    service.does = upstream.flapping(0.2, 0.2, dead_does=upstream.failing(503))
    found: list[int] = []
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        found.append(call(service)[0])
    changes = sum(before != after for before, after in pairwise(found))
    assert found[0] == 200
    assert 3 <= changes <= 5


def test_who_dies_takes_the_calls_under_way_along(server: Server):
    service = server.service("/a")
    service.does = upstream.well(30.0)

    def waiting():
        with pytest.raises(ConnectionError):
            call(service)

    threads = [threading.Thread(target=waiting) for _ in range(3)]
    for thread in threads:
        thread.start()
    while service.under_way < 3:
        time.sleep(0.01)
    died = service.dies()
    for thread in threads:
        thread.join()
    assert all(died <= each.ended < died + 10 for each in service.calls())
    assert upstream.most_at_once(service.calls()) == 3
    assert service.under_way == 0


def test_who_leaves_before_the_answer_is_no_longer_under_way(server: Server):
    service = server.service("/a")
    service.does = upstream.silent()
    with pytest.raises(TimeoutError):
        call(service, timeout=0.1)
    while service.under_way:
        time.sleep(0.01)
    (left,) = service.calls()
    assert (left.status, left.failed) == (None, True)


def test_calls_are_counted_as_they_were(server: Server):
    service = server.service("/a")
    service.does = upstream.well(0.3)
    together(8, lambda: call(service, job=1))
    assert upstream.most_at_once(service.calls()) == 8
    service.does = upstream.well()
    began = time.monotonic()
    for job in range(100):
        call(service, job=job)
    assert len(service.calls(since=began)) == 100
    assert len(service.calls(until=began)) == 8
    assert upstream.most_at_once(service.calls(since=began)) == 1
    begun = [(each.begun, 1.0) for each in service.calls()]
    assert upstream.most_within(begun, math.inf) == service.count == 108
    assert len(upstream.repeats(service.calls())) == 8
    assert upstream.of_jobs(service.calls())[1] == 9


def test_of_calls_that_overlap_the_most_are_counted():
    def call(begun: float, ended: float | None) -> upstream.Call:
        return upstream.Call("/a", 1, 1, 1, "", begun, begun, 1, ended)

    assert upstream.most_overlapping([]) == 0
    assert upstream.most_overlapping([call(0, 1), call(1, 2)]) == 1
    assert upstream.most_overlapping([call(0, 3), call(1, 2), call(1.5, None), call(4, 5)]) == 3


def test_the_most_within_a_span_is_found_wherever_it_lies():
    times = [0.0, 0.9, 1.0, 1.1, 1.2, 5.0]
    ones = [(time, 1.0) for time in times]
    assert upstream.most_within(ones, 0.31) == 4
    assert upstream.most_within(ones, 0.25) == 3
    assert upstream.most_within(ones, 1.0) == 4
    assert upstream.most_within(ones, 1.01) == 4
    assert upstream.most_within([(0.0, 2.0), (0.5, 3.0), (1.0, 4.0)], 1.0) == 7.0
    assert upstream.longest_silence(times) == 5.0 - 1.2
