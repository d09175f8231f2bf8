"""Reports by a model: every statement of design document 000, with the real client and real peers.

The clock is moved by hand, so that the policy's own figures are those that are looked at.
"""

import json

import pytest

from examples.llm_reports.app import app, reports
from seawall import JobFailedError, State, presets
from seawall.store import Wanted
from seawall.testing import in_memory
from tests.examples.llm_reports_world import GOOD, META, Desk, stages
from tests.support.processes import free_ports

WINDOWS = ((24, 36), (96, 144), (384, 576))
"""30, 120 and 480 s, ±20 %."""
LEFT = [(0, "advanced"), (1, "advanced"), (2, "advanced"), (3, "advanced"), (4, "succeeded")]


@pytest.fixture
def desk(llm, places, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", llm.base_url())
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-1234567890abcdefghij")
    with in_memory(app) as world:
        yield Desk(world, llm)


@pytest.fixture
def places(tmp_path, no_aws, monkeypatch):
    """A folder for objects, a file for rows."""
    monkeypatch.setenv("REPORTS_OBJECTS", f"file://{tmp_path}/objects")
    monkeypatch.setenv("REPORTS_DATABASE", f"sqlite:///{tmp_path}/reports.db")
    monkeypatch.chdir(tmp_path)


def fault(job):
    with pytest.raises(JobFailedError) as raised:
        job.result()
    return raised.value.fault


def delays(job):
    return [each.delay_seconds for each in job.attempts() if each.outcome == "retried"]


# --- the chain ------------------------------------------------------------------------------------


@pytest.fixture(params=["file", "s3"])
def keeper(request, monkeypatch):
    """Where objects lie: in a folder by default, or in a real S3."""
    if request.param == "s3":
        request.getfixturevalue("places")
        s3 = request.getfixturevalue("s3")
        monkeypatch.setenv("REPORTS_OBJECTS", s3.new_url())


def test_a_document_becomes_an_object_and_a_row(desk, keeper):
    job = desk.drained("inbox/tides.txt")
    assert job.result() == "reports/inbox/tides.json"
    assert set(desk.report("inbox/tides.json")) == {"title", "summary", "findings", "risk"}
    (row,) = desk.rows().values()
    assert (row.document, row.report, row.job) == ("inbox/tides.txt", job.result(), job.id)
    assert stages(job) == LEFT
    (call,) = desk.llm.requests()
    assert call["status"] == 200


def test_every_stage_is_judged_by_the_policy_of_the_document():
    assert [stage.name for stage in reports.stages] == ["fetch", "ask", "check", "write", "record"]
    assert {stage.policy for stage in reports.stages} == {presets.get("llm-reports")}


def test_what_is_missing_in_a_real_bucket_is_a_missing_object(desk, keeper):
    job = reports.enqueue("never/put.txt")
    desk.world.drain()
    assert fault(job).code == "NOT_FOUND"
    assert fault(job).message == "never/put.txt: there is no such object"


# --- attempts and delays --------------------------------------------------------------------------


def test_a_provider_that_stays_away_is_asked_four_times_and_then_it_has_failed(desk):
    desk.llm.behave(desk.llm.outage())
    job = desk.drained()
    assert job.state is State.FAILED
    assert stages(job)[1:] == [(1, "retried")] * 3 + [(1, "failed")]
    assert len(desk.llm.requests()) == 4
    for delay, (least, most) in zip(delays(job), WINDOWS, strict=True):
        assert least <= delay <= most


def test_a_retry_is_the_job_queued_again_with_its_time(desk):
    desk.llm.behave(desk.llm.outage())
    job = desk.asked()
    for number, (least, most) in enumerate(WINDOWS, 1):
        desk.world.work()
        row = job.job()
        assert (row.state, row.tries) == (State.QUEUED, number)
        assert least <= (row.due_at - desk.world.now).total_seconds() <= most
        assert desk.world.work() == 0, "nobody begins before its time"
        desk.world.clock.advance(most)
    desk.world.work()
    assert job.state is State.FAILED


def test_jobs_that_failed_together_do_not_come_back_together(desk):
    desk.llm.behave(desk.llm.failing(503, times=4))
    jobs = [desk.asked(f"{number}.txt") for number in range(4)]
    desk.world.work()
    waits = [(job.job().due_at - desk.world.now).total_seconds() for job in jobs]
    assert len(set(waits)) == 4
    assert all(24 <= wait <= 36 for wait in waits)


# --- what is tried again --------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 529])
def test_a_provider_in_trouble_is_tried_again(desk, status):
    desk.llm.behave(desk.llm.failing(status))
    job = desk.drained()
    assert job.state is State.SUCCEEDED
    assert stages(job)[:3] == [(0, "advanced"), (1, "retried"), (1, "advanced")]
    ((least, most), *_) = WINDOWS
    assert least <= delays(job)[0] <= most


def test_a_retry_after_that_is_longer_than_the_schedule_is_kept(desk):
    desk.llm.behave(desk.llm.rate_limited(retry_after=300))
    assert delays(desk.drained())[0] >= 300


def test_a_model_that_does_not_answer_in_time_is_tried_again(desk, monkeypatch):
    (_, ask, *_) = reports.stages
    monkeypatch.setattr(ask, "timeout_seconds", 0.5)
    desk.llm.behave(desk.llm.slow(5))
    job = desk.drained()
    assert job.state is State.SUCCEEDED
    first = job.attempts()[1]
    assert (first.fault.code, first.fault.ambiguous) == ("TIMEOUT", True)


def test_a_provider_that_cannot_be_reached_is_tried_again(desk, monkeypatch):
    with monkeypatch.context() as away:
        away.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{free_ports(1)[0]}/v1")
        job = desk.asked()
        desk.world.work()
        assert job.job().last_fault.code == "UNAVAILABLE"
    desk.world.drain()
    assert job.state is State.SUCCEEDED


def test_a_bucket_that_is_away_is_tried_again(desk, s3, monkeypatch):
    monkeypatch.setenv("REPORTS_OBJECTS", s3.new_url())
    job = desk.asked()
    with monkeypatch.context() as away:
        away.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_ports(1)[0]}")
        desk.world.work()
        row = job.job()
        assert (row.state, row.last_fault.code) == (State.QUEUED, "UNAVAILABLE")
        assert "Debug source" not in row.last_fault.message
    desk.world.drain()
    assert job.state is State.SUCCEEDED


def test_a_database_that_is_away_is_tried_again_and_the_model_is_not_asked_twice(desk, monkeypatch):
    with monkeypatch.context() as away:
        url = f"postgresql+psycopg://nobody@127.0.0.1:{free_ports(1)[0]}/none"
        away.setenv("REPORTS_DATABASE", url)
        job = desk.asked()
        desk.world.work()
        row = job.job()
        assert (row.state, row.stage, row.last_fault.code) == (State.QUEUED, 4, "UNAVAILABLE")
    desk.world.drain()
    assert job.state is State.SUCCEEDED
    assert stages(job) == [*LEFT[:4], (4, "retried"), LEFT[4]]
    assert len(desk.llm.requests()) == 1
    assert len(desk.rows()) == 1


def test_a_real_postgresql_takes_the_row(desk, postgres_fleet, monkeypatch):
    url = postgres_fleet.server("18").new_url()
    monkeypatch.setenv("REPORTS_DATABASE", url.replace("postgresql://", "postgresql+psycopg://"))
    desk.drained()
    desk.drained()
    assert list(desk.rows()) == ["a.txt"], "one row, however often"


# --- what is not ----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_request_that_the_provider_refuses_fails_at_once(desk, status):
    desk.llm.behave(desk.llm.failing(status, times=None))
    job = desk.drained()
    assert job.state is State.FAILED
    assert stages(job) == [(0, "advanced"), (1, "failed")]
    assert len(desk.llm.requests()) == 1


@pytest.mark.parametrize(
    ("said", "detail"),
    [
        ("I would rather not say.", "NO_JSON"),
        ('{"title": "t", "summary": "s", "findings": ["f"', "NO_JSON"),
        ('{"title": "t", "summary": "s", "findings": ["f"], "risk": "none"}', "SCHEMA"),
        ('{"title": "t", "summary": "s", "findings": [], "risk": "low", "more": 1}', "SCHEMA"),
    ],
)
def test_output_that_is_no_report_fails_at_once_and_is_kept_word_for_word(desk, said, detail):
    desk.llm.behave(desk.llm.saying(said))
    job = desk.drained()
    assert stages(job) == [(0, "advanced"), (1, "advanced"), (2, "failed")]
    assert (fault(job).code, fault(job).detail) == ("INVALID_RESPONSE", detail)
    assert job.evidence().raw_output == said
    assert said not in fault(job).message
    assert len(desk.llm.requests()) == 1


@pytest.mark.parametrize("said", [f"Sure!\n```json\n{GOOD}\n```\nAnything else?", f"\ufeff{GOOD}"])
def test_output_is_judged_after_it_was_normalised(desk, said):
    desk.llm.behave(desk.llm.saying(said))
    assert desk.drained().state is State.SUCCEEDED
    assert desk.report() == json.loads(GOOD)


def test_a_schema_failure_is_mended_by_asking_again_from_there(desk):
    desk.llm.behave(desk.llm.saying("no"))
    job = desk.drained()
    app.redrive(job.id, from_stage="ask")
    desk.world.drain()
    assert job.state is State.SUCCEEDED
    assert len(desk.llm.requests()) == 2
    assert [stage for stage, _ in stages(job)].count(0) == 1


INPUTS = {
    "gone.txt": ("NOT_FOUND", "gone.txt: there is no such object"),
    "bare.txt": ("NOT_FOUND", "bare.txt.json: there is no such object"),
    "photo.png": ("INVALID_INPUT", "photo.png: reports are made of .md and .txt alone"),
    "torn.txt": ("INVALID_INPUT", "torn.txt.json is corrupt: no JSON"),
    "half.txt": ("INVALID_INPUT", "half.txt.json is corrupt: author, pages"),
    "bytes.txt": ("INVALID_INPUT", "bytes.txt is not text in UTF-8"),
}


@pytest.mark.parametrize("path", INPUTS)
def test_a_document_that_cannot_be_worked_on_fails_at_once_in_one_clear_line(desk, path):
    from examples.llm_reports import objects

    if path != "gone.txt":
        objects.write(path, b"\xff\xfe" if path == "bytes.txt" else b"text")
    if path not in ("gone.txt", "bare.txt"):
        half = {"torn.txt": b'{"title": "T', "half.txt": b'{"title": "T", "pages": 0}'}
        objects.write(f"{path}.json", half.get(path, json.dumps(META).encode()))
    job = reports.enqueue(path)
    desk.world.drain()
    assert stages(job) == [(0, "failed")]
    assert (fault(job).code, fault(job).message) == INPUTS[path]
    assert desk.llm.requests() == []
    (letter,) = app.dead_letters(task="reports")
    assert letter.job_id == job.id


def test_a_key_that_is_not_configured_fails_at_once_and_is_an_alert(desk, monkeypatch, caplog):
    monkeypatch.delenv("OPENAI_API_KEY")
    job = desk.drained()
    assert fault(job).code == "CONFIG_MISSING"
    said = {
        each.seawall["event"]: each.levelname for each in caplog.records if each.name == "seawall"
    }
    assert said["config_missing"] == "ERROR"


# --- what to watch, and what to change ------------------------------------------------------------


def test_the_figures_to_watch_are_those_of_what_happened(desk):
    begun = desk.world.now
    desk.llm.behave(desk.llm.failing(503), desk.llm.saying("no JSON at all"))
    jobs = [desk.asked(f"{number}.txt") for number in range(3)]
    gone = reports.enqueue("gone.txt")
    desk.world.drain()
    assert sorted(str(job.state) for job in [*jobs, gone]) == ["failed"] * 2 + ["succeeded"] * 2
    rates = app.rates("reports")
    everything = [each for job in [*jobs, gone] for each in job.attempts()]
    assert rates.attempts == len(everything) == 15
    assert (rates.retried, rates.schema_failures, rates.raw_captures) == (1, 1, 1)
    assert rates.retry_rate == pytest.approx(1 / 15)
    assert rates.schema_failure_rate == pytest.approx(1 / 15)
    assert rates.final_failure_rate == pytest.approx(2 / 4)
    ends = [job.job().finished_at for job in jobs if job.state is State.SUCCEEDED]
    took = [(end - begun).total_seconds() for end in ends]
    assert rates.mean_seconds_to_success == pytest.approx(sum(took) / 2, abs=0.01)
    assert 24 / 2 <= rates.mean_seconds_to_success <= 36
    assert app.rates("nothing").retry_rate is None


SHORTER = """
[policies.llm-reports]
max_attempts = 2

[[policies.llm-reports.rules]]
on = ["RATE_LIMITED", "TIMEOUT", "UNAVAILABLE", "UPSTREAM_ERROR", "IO_ERROR"]
backoff = { curve = "schedule", schedule_seconds = [5], jitter = "none" }
"""


def test_another_count_and_curve_is_a_table_in_a_file_and_no_migration(tmp_path):
    from seawall import FaultError, Seawall

    (tmp_path / "seawall.toml").write_text(SHORTER)
    (tmp_path / "empty.toml").write_text("")

    def fetch(path: str) -> str:
        raise FaultError("TIMEOUT", "no answer in time")

    versions = set()
    for config, attempts in (("empty.toml", 4), ("seawall.toml", 2)):
        own = Seawall(
            f"sqlite:///{tmp_path}/jobs.db", config=tmp_path / config, policy="llm-reports"
        )
        own.pipeline("reports", [fetch])
        with in_memory(own) as world:
            job = own.tasks["reports"].enqueue("a.txt")
            world.drain()
            assert len(job.attempts()) == attempts
            versions |= {each.policy for each in job.attempts()}
    assert len(versions) == 2, "each attempt says which version judged it"


# --- the worker dies ------------------------------------------------------------------------------


def test_a_worker_that_dies_is_no_try_and_the_job_comes_back_on_the_same_schedule(desk):
    job = desk.asked()
    for number, (least, most) in enumerate(WINDOWS, 1):
        (claim,) = desk.world.store.claim(Wanted("gone", None, ("reports",), 1, 60.0))
        assert claim.token.job_id == job.id
        desk.world.advance(61)  # nobody renews its lease
        row = job.job()
        assert (row.state, row.tries, row.losses) == (State.QUEUED, 0, number)
        assert row.last_fault.code == "WORKER_LOST"
        assert least <= (row.due_at - desk.world.now).total_seconds() <= most
        desk.world.clock.advance(most)
    desk.world.drain()
    assert job.state is State.SUCCEEDED
    assert [outcome for _, outcome in stages(job)].count("lost") == 3
