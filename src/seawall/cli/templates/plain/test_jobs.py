"""In memory, on a clock that only moves when it is told to: an hour of back-off takes no time."""

import jobs
import pytest
from jobs import app, count_words

from seawall import FaultError


@pytest.fixture
def world(seawall_in_memory):
    return seawall_in_memory(app)


def test_the_words_of_a_file_are_counted(world, tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("one two three", "utf-8")
    job = count_words.enqueue(str(file))
    world.drain()
    assert job.result() == 3


def test_a_file_that_is_not_there_is_a_dead_letter_at_once(world):
    job = count_words.enqueue("nowhere.txt")
    world.drain()
    assert job.state == "failed"
    assert [attempt.fault.code for attempt in job.attempts()] == ["NOT_FOUND"]
    assert len(app.dead_letters()) == 1


def test_a_disk_in_trouble_is_tried_again(world, monkeypatch):
    def trouble(path):
        raise FaultError("IO_ERROR", "the disk is busy")

    begun = world.now
    monkeypatch.setattr(jobs, "Path", trouble)
    job = count_words.enqueue("a.txt")
    world.drain()
    assert [attempt.outcome for attempt in job.attempts()] == ["retried", "retried", "failed"]
    assert 30 <= (world.now - begun).total_seconds() <= 90  # 20 s and 40 s, half of it at least
