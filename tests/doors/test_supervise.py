"""The supervisor's back-off, without any process; what it does with real ones is in test_worker."""

import signal
import time
from itertools import count
from types import SimpleNamespace

import pytest

from seawall.worker import supervise
from seawall.worker.supervise import Supervisor


@pytest.fixture
def clock(monkeypatch):
    at = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(supervise.time, "monotonic", lambda: at.now)
    return at


@pytest.fixture
def child(monkeypatch):
    """A place whose process is dead whenever it is looked at, after so many seconds of life."""
    pids = count(1)
    monkeypatch.setattr(
        supervise.subprocess, "Popen", lambda *_, **__: SimpleNamespace(pid=next(pids), stdin=None)
    )
    return supervise._Child(1)


def lived(supervisor, child, clock, seconds, code=1):
    """Start a process, let it live, bury it; the pause that follows."""
    supervisor._start(child)
    clock.now += seconds
    supervisor._bury(child, code)
    return child.start_at - clock.now


def test_pauses_double_up_to_half_a_minute_and_begin_anew_after_a_long_life(clock, child):
    supervisor = Supervisor([], 1)
    pauses = [lived(supervisor, child, clock, 1) for _ in range(8)]
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert lived(supervisor, child, clock, 61) == 0.5


def test_a_process_that_cannot_be_started_is_tried_again(clock, child, monkeypatch):
    def refuse(*_, **__):
        raise OSError(11, "no process numbers left")

    monkeypatch.setattr(supervise.subprocess, "Popen", refuse)
    Supervisor([], 1)._start(child)
    assert child.process is None
    assert child.start_at == clock.now + 0.5


@pytest.mark.parametrize(
    ("stopping", "drain", "code", "ended", "told"),
    [
        (True, False, 0, True, 0),
        (True, False, 1, True, 1),
        (True, False, -signal.SIGTERM, True, 0),
        (True, False, 130, True, 0),
        (True, False, -signal.SIGKILL, True, 137),
        (False, True, 0, True, 0),
        (False, True, 1, False, 1),
        (False, False, 0, False, 0),
        (False, False, -signal.SIGSEGV, False, 139),
    ],
)
def test_who_is_replaced_and_what_the_exit_code_tells(child, stopping, drain, code, ended, told):
    supervisor = Supervisor([], 1, drain=drain)
    supervisor._start(child)
    supervisor._stopping = stopping
    supervisor._bury(child, code)
    assert (child.ended, child.code) == (ended, told)


def test_told_to_stop_before_a_restart_it_restarts_nothing(child):
    supervisor = Supervisor([], 1)
    supervisor._children = [child]
    supervisor._start(child)
    supervisor._bury(child, 1)
    supervisor.stop()
    begun = time.monotonic()
    assert supervisor.run() == 1
    assert time.monotonic() - begun < 5
