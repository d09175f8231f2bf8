"""The command line, as a person types it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from seawall import FaultCode, __version__, presets


def test_it_says_its_version(seawall):
    assert seawall("--version") == f"seawall {__version__}\n"


def test_the_installed_command_and_the_module_are_the_same():
    installed = Path(sys.executable).with_name("seawall")
    for command in ([installed], [sys.executable, "-m", "seawall"]):
        done = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stdout == f"seawall {__version__}\n"


def test_help_names_every_command_and_what_to_try_first(seawall):
    text = seawall("--help")
    for word in ("demo", "policy", "--version", "seawall demo"):
        assert word in text


def test_policies_are_listed(seawall):
    text = seawall("policy", "list")
    assert all(name in text for name in presets.names())


def test_a_list_as_json_is_a_top_level_array(seawall):
    rows = json.loads(seawall("policy", "list", "--json"))
    assert [row["name"] for row in rows] == list(presets.names())
    assert rows[1]["version"] == presets.get("llm-reports").version


@pytest.mark.parametrize("name", presets.names())
def test_a_policy_is_shown_with_its_schedule_and_picture(seawall, name):
    text = seawall("policy", "show", name)
    policy = presets.get(name)
    assert policy.version in text
    assert "AFTER FAILURE" in text
    assert "█" in text
    assert "Otherwise on all" in text


def test_the_schedule_has_the_documents_figures(seawall):
    text = seawall("policy", "show", "llm-reports")
    for wait in ("24 s – 36 s", "96 s – 2 min 24 s", "6 min 24 s – 9 min 36 s"):
        assert wait in text


def test_the_loose_two_hours_are_said_where_they_are_shown(seawall):
    assert "5,130 s" in seawall("policy", "show", "media-sync")


def test_a_policy_as_json_has_its_content_and_waits(seawall):
    shown = json.loads(seawall("policy", "show", "llm-reports", "--json"))
    waits = [w for w in shown["waits"] if w["rule"] == "rule 1"]
    assert [(w["least_seconds"], w["most_seconds"]) for w in waits] == [
        (24, 36),
        (96, 144),
        (384, 576),
    ]
    assert shown["max_attempts"] == 4


def test_a_decision_is_explained_in_words(seawall):
    text = seawall(
        "policy",
        "explain",
        "default",
        "--fault",
        "RATE_LIMITED",
        "--attempt",
        "2",
        "--retry-after",
        "30",
        "--seed",
        "1",
    )
    assert "Rule 1 of default judges it" in text
    assert "30 s – 50 s" in text
    assert "Retry after " in text


def test_the_same_seed_explains_the_same_delay(seawall):
    words = ("policy", "explain", "llm-reports", "--fault", "timeout", "--seed", "7", "--json")
    first, second = json.loads(seawall(*words)), json.loads(seawall(*words))
    assert first == second
    assert first["verdict"]["kind"] == "retry"
    assert 24 <= first["verdict"]["delay_seconds"] <= 36
    assert first["window_seconds"] == [24, 36]
    assert first["rule"] == "rule 1"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("llm-reports", "--fault", "TIMEOUT", "--attempt", "4"), "exhausted"),
        (("llm-reports", "--fault", "INVALID_RESPONSE"), "fatal"),
        (
            ("ai-worker", "--fault", "UNKNOWN", "--attempt", "3", "--earlier", "TIMEOUT,UNKNOWN"),
            "exhausted",
        ),
        (("default", "--fault", "TIMEOUT", "--elapsed", "90000"), "deadline"),
        (("sample-llm", "--fault", "UPSTREAM_ERROR", "--status", "501"), "fatal"),
        (("converter", "--fault", "UNKNOWN", "--status", "418"), "fatal"),
    ],
)
def test_each_reason_to_fail_can_be_explained(seawall, words, reason):
    told = json.loads(seawall("policy", "explain", *words, "--json"))
    assert told["verdict"] == {"kind": "fail", "reason": reason}


def test_an_exceptions_name_reaches_the_rules(seawall):
    (seawall.folder / "seawall.toml").write_text(
        '[policies.mine]\nmax_attempts = 2\nrules = [{ on = "openai.APIError" }]\n'
    )
    told = json.loads(
        seawall(
            "policy",
            "explain",
            "mine",
            "--fault",
            "UNKNOWN",
            "--exception",
            "openai.APIError",
            "--json",
        )
    )
    assert told["verdict"]["kind"] == "retry"


def test_own_policies_come_from_the_folders_file_or_the_one_named(seawall):
    mine = '[policies.{}]\nmax_attempts = 2\nrules = [{{ on = "all" }}]\n'
    (seawall.folder / "seawall.toml").write_text(mine.format("here"))
    (seawall.folder / "other.toml").write_text(mine.format("there"))
    assert "here" in seawall("policy", "list")
    assert "there" in seawall("policy", "list", "--config", "other.toml")
    assert "there" in seawall("policy", "list", SEAWALL_CONFIG="other.toml")
    assert "there" in seawall("policy", "show", "there", "--config", "other.toml")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ("policy", "show", "llm-report"),
            "seawall: no policy named 'llm-report'; did you mean llm-reports?\n",
        ),
        (
            ("policy", "explain", "default", "--fault", "OOPS"),
            f"seawall: no fault code 'OOPS'; there are: {', '.join(FaultCode)}\n",
        ),
        (
            ("policy", "list", "--config", "none.toml"),
            "seawall: none.toml: no such file\n",
        ),
        (("policy", "list", "--config", "."), "seawall: .: cannot be read: is a directory\n"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(seawall, words, line):
    assert seawall(*words, expect=2) == line


def test_a_mistake_in_the_file_is_one_line(seawall):
    (seawall.folder / "seawall.toml").write_text("[policies.mine]\nmax_atempts = 3\n")
    line = "seawall: seawall.toml: policies.mine.max_atempts: no such key; did you mean max_attempts?\n"
    assert seawall("policy", "list", expect=2) == line


@pytest.mark.parametrize(
    ("environ", "line"),
    [
        (
            {"SEAWALL_CONFIG": "gone.toml"},
            "seawall: gone.toml: no such file (from SEAWALL_CONFIG)\n",
        ),
        (
            {"SEAWALL_POLICY": "defualt"},
            "seawall: policy (environment variable SEAWALL_POLICY): no policy named 'defualt'; did you mean default?\n",
        ),
    ],
)
def test_a_mistake_in_the_environment_names_its_variable(seawall, environ, line):
    assert seawall("policy", "show", expect=2, **environ) == line


def test_a_policy_in_the_wrong_table_is_told_where_to_go(seawall):
    (seawall.folder / "seawall.toml").write_text("[policy.mine]\nmax_attempts = 3\n")
    assert seawall("policy", "list", expect=2).endswith("policies go into [policies.NAME]\n")


def test_a_wrong_setting_in_the_environment_is_one_line(seawall):
    line = seawall("policy", "show", expect=2, SEAWALL_LEASE_SECONDS="soon")
    assert line == (
        "seawall: lease_seconds (environment variable SEAWALL_LEASE_SECONDS): found 'soon', "
        "expected a number of seconds from 0.5 to 86400\n"
    )


EXPLAIN = ("policy", "explain", "default")


@pytest.mark.parametrize(
    ("words", "said", "command"),
    [
        (("nonsense",), "No such command 'nonsense'.", "seawall"),
        (
            (*EXPLAIN, "--fault", "TIMEOUT", "--attempt", "0"),
            "Invalid value for '--attempt': ",
            "seawall policy explain",
        ),
        (
            (*EXPLAIN, "--fault", "TIMEOUT", "--attempt", "x"),
            "Invalid value for '--attempt': ",
            "seawall policy explain",
        ),
        (
            (*EXPLAIN, "--fault", "TIMEOUT", "--retry-after", "inf"),
            "Invalid value for '--retry-after': ",
            "seawall policy explain",
        ),
        (("policy", "list", "--nope"), "No such option: --nope", "seawall policy list"),
    ],
)
def test_wrong_words_are_refused_in_one_line(seawall, words, said, command):
    line = seawall(*words, expect=2)
    assert line.startswith(f"seawall: {said}")
    assert line.endswith(f" Try: {command} --help\n")
    assert line.count("\n") == 1


def test_what_went_wrong_must_be_said(seawall):
    line = "seawall: say what went wrong: --fault CODE, or --status NUMBER\n"
    assert seawall(*EXPLAIN, expect=2) == line


def test_a_group_without_a_command_says_what_there_is(seawall):
    assert "explain" in seawall("policy")
    assert "demo" in seawall()


def test_a_status_alone_says_what_went_wrong(seawall):
    told = json.loads(seawall("policy", "explain", "sample-llm", "--status", "503", "--json"))
    assert (told["fault"], told["verdict"]["kind"]) == ("UPSTREAM_ERROR", "retry")


def test_the_attempt_follows_from_the_earlier_ones(seawall):
    words = ("policy", "explain", "default", "--fault", "TIMEOUT", "--json", "--earlier")
    assert json.loads(seawall(*words, "TIMEOUT,RATE_LIMITED"))["attempt"] == 2
    assert json.loads(seawall(*words, "TIMEOUT," * 4))["verdict"]["reason"] == "exhausted"


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_no_bar_is_broken_over_two_lines(seawall, columns):
    lines = seawall("policy", "show", "default", COLUMNS=str(columns)).splitlines()
    rows = [line for line in lines if line.strip()[:2].strip().isdigit() and " – " in line]
    assert len(rows) >= 30
    assert not [line for line in lines if line.strip() and set(line.strip()) <= {"█", "·"}]


def test_a_terminal_that_lacks_a_sign_shows_another():
    done = subprocess.run(
        [sys.executable, "-m", "seawall", "policy", "show", "llm-reports"],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert b"24 s ? 36 s" in done.stdout


def test_the_demo_tells_its_story_and_accounts_for_every_job(seawall):
    text = seawall("demo", "--folder", "here")
    for code in ("UNAVAILABLE", "UPSTREAM_ERROR", "RATE_LIMITED", "INVALID_RESPONSE"):
        assert f"retried after {code}" in text
    for command in ("python ask.py", "seawall worker --app jobs:app --drain", "kill -9", "verify"):
        assert f"$ {command}" in text or f"$ seawall {command}" in text
    assert re.search(
        r"^failed +2$.*^succeeded +298$.*^in all +300$", text, re.DOTALL | re.MULTILINE
    )
    assert re.search(r"^lost with the killed worker, run again +[1-9]", text, re.MULTILINE)
    assert "NOT_FOUND 404" in text
    assert "UNAUTHORIZED 401" in text
    assert "held, its calls fail" in text
    assert re.search(r"It is back. It was called \d{1,2} times meanwhile", text)
    assert "No job is lost" in text
    assert "sk-demo" not in text
    assert "Look around: cd here" in text
    kept = {file.name for file in (seawall.folder / "here").iterdir()}
    assert kept >= {"jobs.py", "ask.py", "seawall.toml", "demo.db"}
    assert "is not empty" in seawall("demo", "--folder", "here", expect=2)


@pytest.mark.parametrize("words", ["policy show media-sync", "policy list", "policy list --json"])
def test_output_cut_short_by_its_reader_is_no_error(seawall, words):
    command = f"set -o pipefail; {sys.executable} -m seawall {words} | head -1"
    done = subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=seawall.folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr == ""


def test_output_that_cannot_be_written_is_one_line():
    command = f"{sys.executable} -m seawall policy list > /dev/full"
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (
        2,
        "seawall: the system says: no space left on device\n",
    )


@pytest.mark.parametrize("name", ["q[/bold].toml", "x[bold].toml"])
def test_a_files_name_is_shown_as_it_is(seawall, name):
    (seawall.folder / name).parent.mkdir(exist_ok=True)
    (seawall.folder / name).write_text("[policies.mine]\nmax_attempts = 2\n")
    assert name in seawall("policy", "list", "--config", name)


def test_settings_are_listed_with_their_sources(seawall):
    environ = {"SEAWALL_URL": "postgresql://ann:hunter2@db.example/jobs"}
    text = seawall("settings", **environ)
    assert "postgresql://db.example/jobs" in text
    assert "environment variable SEAWALL_URL" in text
    assert "hunter2" not in text
    rows = json.loads(seawall("settings", "--json", **environ))
    assert {"name": "policy", "value": "default", "from": "default"} in rows


@pytest.mark.parametrize("columns", [20, 40, 60])
def test_a_narrow_list_still_tells_what_each_policy_is_for(seawall, columns):
    text = " ".join(seawall("policy", "list", COLUMNS=str(columns)).split())
    for name in presets.names():
        assert name in text
        assert presets.get(name).description.split()[0] in text
