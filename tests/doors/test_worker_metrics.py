"""`seawall worker --metrics-port`: Prometheus is told, by one process or by one for several."""

import socket
import urllib.request

import pytest

from tests.support.doors import until
from tests.support.processes import free_ports


def scraped(port):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            return answer.read().decode()
    except OSError:
        return ""


@pytest.mark.parametrize("processes", [1, 2])
def test_it_is_told_on_a_port_of_its_own(seawall, start, app, processes):
    seawall("enqueue", "add", "a=1", "--app", app)
    (port,) = free_ports(1)
    worker = start(
        "worker", "--app", app, "--processes", processes, "--metrics-port", port
    )  # fmt: skip

    def is_told():
        lines = scraped(port).splitlines()
        done = 'seawall_jobs_completed_total{queue="default",state="succeeded",task="add"} 1.0'
        return done in lines and f"seawall_workers {float(processes)}" in lines

    until(is_told, "the job and its workers are told")
    worker.process.terminate()
    assert worker.ended() == 0
    assert scraped(port) == ""


def test_a_port_that_is_taken_is_one_line(seawall, app):
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        said = seawall("worker", "--app", app, "--metrics-port", port, expect=2)
    assert f"127.0.0.1:{port}: address already in use; choose another --metrics-port" in said
