"""What of an event is written: secrets are cut out, the application has its say, nothing leaks."""

import io
import json
import logging
import threading

import pytest

from seawall import FaultCode, Seawall
from seawall.cli import logs
from seawall.faults import Fault
from seawall.settings import Settings
from seawall.states import State
from seawall.telemetry import (
    LOGGER,
    DeadLettersWait,
    GaveUp,
    RetryScheduled,
    WorkerStopped,
    emit,
    fault_fields,
    log_hooks,
)

SECRET = "sk-live-Zq9hunter2"


@pytest.fixture(autouse=True)
def hooks(monkeypatch):
    monkeypatch.setattr(log_hooks, "_hooks", found := [])
    return found


@pytest.fixture
def app(tmp_path):
    return Seawall(f"sqlite:///{tmp_path}/jobs.db")


@pytest.fixture
def records():
    found = []
    handler = logging.Handler()
    handler.emit = found.append
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.DEBUG)
    yield found
    LOGGER.removeHandler(handler)
    LOGGER.setLevel(logging.NOTSET)


def gave_up(message="the service ACME said no", **more):
    return GaveUp(
        job=7, task="ask", stage=0, state=State.FAILED, attempt=1, policy="p@1", duration_ms=3,
        request_id="r-7", reason="fatal", **fault_fields(Fault(FaultCode.TIMEOUT, message)), **more,
    )  # fmt: skip


def test_a_hook_changes_drops_and_adds_fields(app, records):
    @app.on_log
    def hook(fields):
        assert fields["event"] == "gave_up"
        del fields["request_id"]
        return {**fields, "message": "hidden", "region": "eu"}

    emit(gave_up())
    (record,) = records
    assert "request_id" not in record.seawall
    assert (record.seawall["message"], record.seawall["region"]) == ("hidden", "eu")
    words = record.getMessage()
    assert words.startswith("gave_up job=7 task=ask")
    assert words.endswith("region=eu")
    assert "ACME" not in words
    assert "r-7" not in words


def test_hooks_are_called_one_after_the_other(app, records):
    app.on_log(lambda fields: {**fields, "a": 1})
    app.on_log(lambda fields: {**fields, "b": fields["a"] + 1})
    emit(WorkerStopped(worker="w"))
    assert records[0].seawall == {"event": "worker_stopped", "worker": "w", "a": 1, "b": 2}


def test_a_hook_cannot_take_an_event_or_its_name_away(app, records):
    app.on_log(lambda _: {"event": "something else"})
    emit(WorkerStopped(worker="w"))
    assert records[0].seawall == {"event": "worker_stopped"}


def raises(_):
    raise ValueError(f"cannot handle {SECRET}")


def leaves(_):
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("hook", "name"),
    [
        (raises, "ValueError"),
        (leaves, "SystemExit"),
        (lambda _: None, "TypeError"),
        (list, "TypeError"),
        (lambda _: {5: "x"}, "TypeError"),
    ],
)
def test_where_a_hook_breaks_the_event_is_written_with_its_text_withheld(app, records, hook, name):
    app.on_log(hook)
    emit(gave_up(f"the key {SECRET} and ACME"))
    emit(DeadLettersWait(letters=2, newest=("job 1: ACME",)))
    first, second = records
    assert first.seawall["event"] == "gave_up"
    assert (first.seawall["job"], first.seawall["duration_ms"]) == (7, 3)
    assert first.seawall["fault_code"] is FaultCode.TIMEOUT
    assert first.seawall["state"] is State.FAILED
    assert first.seawall["message"].startswith("(withheld: the log hook ")
    assert first.seawall["message"].endswith(f" broke: {name})")
    assert second.seawall["letters"] == 2
    for record in records:
        written = f"{record.getMessage()} {record.seawall}"
        assert "ACME" not in written
        assert SECRET not in written


def test_a_broken_hook_hands_nothing_on_to_the_next(app, records):
    app.on_log(raises)
    seen = []
    app.on_log(lambda fields: seen.append(fields) or fields)
    emit(gave_up())
    assert "ACME" not in str(seen)


def test_what_a_hook_logs_itself_is_withheld_and_goes_round_no_circle(app, records):
    @app.on_log
    def hook(fields):
        emit(RetryScheduled(
            task="inner", attempt=1, policy="p", duration_ms=1, delay_ms=1, counts=True,
            **fault_fields(Fault(FaultCode.TIMEOUT, "ACME")),
        ))  # fmt: skip
        return fields

    emit(WorkerStopped(worker="w"))
    inner, outer = records
    assert inner.seawall["message"] == "(withheld: said inside a log hook)"
    assert outer.seawall["worker"] == "w"


def test_a_hook_holds_in_every_thread(app, records):
    app.on_log(lambda fields: {**fields, "worker": "x"})
    thread = threading.Thread(target=emit, args=(WorkerStopped(worker="w"),))
    thread.start()
    thread.join()
    assert records[0].seawall["worker"] == "x"


def test_on_log_answers_the_function(app):
    def hook(fields):
        return fields

    assert app.on_log(hook) is hook


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("request_id", SECRET, "[redacted]"),
        ("request_id", "4bf92f3577b34da6a3ce929d0e0e4736", "4bf92f3577b34da6a3ce929d0e0e4736"),
        ("task", "summarize_token_usage", "summarize_token_usage"),
        ("reason", f"the key {SECRET} expired", "the key [redacted] expired"),
    ],
)
def test_secrets_are_cut_out_of_every_field_without_any_hook(records, field, value, shown):
    made = gave_up()
    emit(type(made)(**{**made.fields(), field: value}))
    assert records[0].seawall[field] == shown


# --- lines ---------------------------------------------------------------------------------------


@pytest.fixture
def written(monkeypatch):
    """What standard error gets, in a format."""

    def write(style, say):
        out = io.StringIO()
        monkeypatch.setattr("sys.stderr", out)
        with logs.shown(Settings(log_format=style, log_level="debug")):
            say()
        return out.getvalue()

    return write


def noise():
    try:
        raise RuntimeError(f"ACME {SECRET}")
    except RuntimeError:
        logging.getLogger("elsewhere").exception("calling ACME with %s", SECRET)


def test_lines_of_others_pass_the_sieve_and_the_hook_too(app, written):
    app.on_log(lambda fields: {k: str(v).replace("ACME", "…") for k, v in fields.items()})
    found = json.loads(written("json", noise))
    assert (found["event"], found["logger"], found["level"]) == ("log", "elsewhere", "error")
    assert found["message"] == "calling … with [redacted]"
    assert "RuntimeError" in found["traceback"]
    text = written("text", noise)
    assert "elsewhere: calling … with [redacted]\nTraceback" in text
    for line in (str(found), text):
        assert "ACME" not in line
        assert SECRET not in line


def test_lines_of_others_are_withheld_where_the_hook_breaks(app, written):
    app.on_log(raises)
    for style in ("text", "json"):
        line = written(style, noise)
        assert "withheld: the log hook raises broke: ValueError" in line
        assert "ACME" not in line


def test_a_hook_cannot_change_when_and_how_loud_it_was(app, written):
    app.on_log(lambda fields: {**fields, "time": "never", "level": "debug"})
    found = json.loads(written("json", lambda: emit(WorkerStopped(worker="w"))))
    assert found["level"] == "info"
    assert found["time"] != "never"
